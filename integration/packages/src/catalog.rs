//! The packages, and what the image for containers has of them.

use crate::description::{
    Item, Need, Package, Range, Service,
    Source::{self, Completion, Folder, Library, Link, ManPages, Program, Repository, RepositoryFolder},
};

/// All packages.
pub const ALL: [Package; 5] = [CONTROLLER, AGENT, CLI, SWITCH_AGENT, SLURM];

/// Users and folders of services are made by systemd's programs, of which small systems have some by themselves.
const SYSUSERS: Need = Need {
    debian: "systemd | systemd-standalone-sysusers | systemd-sysusers",
    rpm: "/usr/bin/systemd-sysusers",
};
const SYSTEMD: Need = Need { debian: "systemd | systemd-standalone-sysusers", rpm: "systemd" };

const fn item(from: Source, to: &'static str, mode: u32) -> Item {
    Item { from, to, mode, config: false }
}

const fn program(name: &'static str, to: &'static str) -> Item {
    item(Program(name), to, 0o755)
}

const fn file(from: &'static str, to: &'static str) -> Item {
    item(Repository(from), to, 0o644)
}

const fn config(from: &'static str, to: &'static str, mode: u32) -> Item {
    Item { from: Repository(from), to, mode, config: true }
}

const fn man(begins: &'static str) -> Item {
    item(ManPages(begins), "/usr/share/man", 0o644)
}

/// API, scheduler, web pages.
pub const CONTROLLER: Package = Package {
    name: "railyard-controller",
    summary: "Controller of a Railyard cluster of GPU servers",
    about: "Keeps the desired state of a cluster whose servers have several RoCEv2 rails, schedules its jobs, and serves its API and web pages. \
            One of them, or several on etcd.",
    needs: &[SYSUSERS],
    recommends: &[],
    items: &[
        program("rail-controller", "/usr/bin/rail-controller"),
        man("rail-controller"),
        file("deploy/systemd/rail-controller.service", "/usr/lib/systemd/system/rail-controller.service"),
        file("deploy/packages/controller.sysusers", "/usr/lib/sysusers.d/railyard-controller.conf"),
        file("deploy/packages/controller.tmpfiles", "/usr/lib/tmpfiles.d/railyard-controller.conf"),
        config("deploy/packages/controller.env", "/etc/railyard/controller.env", 0o644),
        item(RepositoryFolder("deploy/prometheus"), "/usr/share/doc/railyard-controller/prometheus", 0o644),
    ],
    service: Some(Service {
        units: &["rail-controller.service"],
        user: Some("rail"),
        tmpfiles: Some("railyard-controller.conf"),
        state: Some("/var/lib/rail-controller"),
        ids: None,
    }),
};

/// What runs on each server. Programs and libraries are in one folder: the agent looks for the others beside itself.
pub const AGENT: Package = Package {
    name: "railyard-agent",
    summary: "Agent of a server in a Railyard cluster",
    about: "Finds GPUs, NICs and their rails, sets class of service, and runs the server's part of jobs with the engine that moves their collectives. \
            Jobs go on while it is upgraded.",
    needs: &[SYSTEMD],
    recommends: &[],
    items: &[
        program("rail-node-agent", "/usr/lib/railyard/rail-node-agent"),
        program("rail-engine", "/usr/lib/railyard/rail-engine"),
        program("rail-rank", "/usr/lib/railyard/rail-rank"),
        item(Library("librail.so"), "/usr/lib/railyard/librail.so", 0o644),
        item(Library("librail_nccl_net.so"), "/usr/lib/railyard/librail_nccl_net.so", 0o644),
        item(Link("librail_nccl_net.so"), "/usr/lib/railyard/libnccl-net-rail.so", 0o777),
        item(Link("../lib/railyard/rail-node-agent"), "/usr/bin/rail-node-agent", 0o777),
        item(Link("../lib/railyard/rail-engine"), "/usr/bin/rail-engine", 0o777),
        file("node-agent/capi/rail.h", "/usr/include/railyard/rail.h"),
        man("rail-node-agent"),
        man("rail-engine"),
        man("rail-rank"),
        file("deploy/systemd/rail-node-agent.service", "/usr/lib/systemd/system/rail-node-agent.service"),
        config("deploy/packages/agent.env", "/etc/railyard/agent.env", 0o600),
    ],
    service: Some(Service {
        units: &["rail-node-agent.service"],
        user: None,
        tmpfiles: None,
        state: Some("/var/lib/rail-node-agent"),
        ids: Some(Range { owner: "railyard", first: 200_000, count: 65_536 }),
    }),
};

/// Where people work.
pub const CLI: Package = Package {
    name: "railyard-cli",
    summary: "railctl: jobs, rails and tenants of a Railyard cluster",
    about: "Submits jobs to a Railyard cluster, shows and explains them, drains and certifies servers, and administers tenants, queues and fabrics. \
            With completions for bash, zsh and fish, and man pages.",
    needs: &[],
    recommends: &[],
    items: &[
        program("railctl", "/usr/bin/railctl"),
        man("railctl"),
        item(Completion("bash"), "/usr/share/bash-completion/completions/railctl", 0o644),
        item(Completion("zsh"), "/usr/share/zsh/site-functions/_railctl", 0o644),
        item(Completion("fish"), "/usr/share/fish/vendor_completions.d/railctl.fish", 0o644),
        item(RepositoryFolder("deploy/jobs"), "/usr/share/doc/railyard-cli/jobs", 0o644),
        item(RepositoryFolder("deploy/fabrics"), "/usr/share/doc/railyard-cli/fabrics", 0o644),
        item(RepositoryFolder("deploy/queues"), "/usr/share/doc/railyard-cli/queues", 0o644),
    ],
    service: None,
};

/// What runs on, or for, each switch.
pub const SWITCH_AGENT: Package = Package {
    name: "railyard-switch-agent",
    summary: "Agent of a switch in a Railyard cluster",
    about: "Reports a switch of the fabric, and brings its configuration to what the controller says, each change as a trial that is taken back by \
            itself. Runs on the switch (FRR, SONiC) or beside it (gNMI).",
    needs: &[SYSTEMD],
    recommends: &[],
    items: &[
        program("rail-switch-agent", "/usr/bin/rail-switch-agent"),
        man("rail-switch-agent"),
        file("deploy/systemd/rail-switch-agent.service", "/usr/lib/systemd/system/rail-switch-agent.service"),
        file(
            "deploy/systemd/rail-switch-agent@.service",
            "/usr/lib/systemd/system/rail-switch-agent@.service",
        ),
        config("deploy/packages/switch.env", "/etc/railyard/switch.env", 0o600),
        item(Folder, "/etc/railyard/switches", 0o700),
    ],
    service: Some(Service {
        units: &["rail-switch-agent.service", "rail-switch-agent@.service"],
        user: None,
        tmpfiles: None,
        state: Some("/var/lib/rail-switch-agent"),
        ids: None,
    }),
};

/// Beside Slurm: what slurmctld and slurmd call.
pub const SLURM: Package = Package {
    name: "railyard-slurm",
    summary: "Railyard beside Slurm: prologs, submit plugin and service",
    about: "Scripts that slurmctld and slurmd call, the submit plugin, the source of the options for sbatch, and the service that keeps Slurm and \
            Railyard of one mind. docs/slurm.md says where each belongs.",
    needs: &[Need { debian: "railyard-cli", rpm: "railyard-cli" }],
    // What slurmd calls is the agent's; where slurmctld runs alone there is none.
    recommends: &[Need { debian: "railyard-agent", rpm: "railyard-agent" }],
    items: &[
        item(Repository("deploy/slurm/prolog"), "/usr/lib/railyard/slurm/prolog", 0o755),
        item(Repository("deploy/slurm/epilog"), "/usr/lib/railyard/slurm/epilog", 0o755),
        item(Repository("deploy/slurm/node-prolog"), "/usr/lib/railyard/slurm/node-prolog", 0o755),
        item(Repository("deploy/slurm/node-epilog"), "/usr/lib/railyard/slurm/node-epilog", 0o755),
        item(Repository("deploy/slurm/task-prolog"), "/usr/lib/railyard/slurm/task-prolog", 0o755),
        file("deploy/slurm/job_submit.lua", "/usr/lib/railyard/slurm/job_submit.lua"),
        file("deploy/slurm/spank_railyard.c", "/usr/lib/railyard/slurm/spank_railyard.c"),
        file("deploy/slurm/railyard-slurm.service", "/usr/lib/systemd/system/railyard-slurm.service"),
        config("deploy/packages/slurm.env", "/etc/railyard/slurm.env", 0o600),
    ],
    service: Some(Service {
        units: &["railyard-slurm.service"],
        user: None,
        tmpfiles: None,
        state: Some("/var/lib/railyard-slurm"),
        ids: None,
    }),
};

/// What runs nowhere but in containers, and by what name ranks are looked for there.
const IMAGE: [Item; 3] = [
    program("rail-dra-driver", "/usr/bin/rail-dra-driver"),
    program("rail-operator", "/usr/bin/rail-operator"),
    item(Link("../lib/railyard/rail-rank"), "/usr/bin/rail-rank", 0o777),
];

/// The name of the image, and of the folder of its licence.
pub const IMAGE_NAME: &str = "railyard";

/// What the image has over its base ([`crate::oci::base`]): programs, libraries and their links of the packages that may run in Kubernetes, where these
/// have them, and what runs nowhere else.
pub fn image() -> impl Iterator<Item = Item> {
    let packaged = [CONTROLLER, AGENT, CLI].into_iter().flat_map(|package| package.items.iter().copied());
    packaged.filter(|item| matches!(item.from, Program(_) | Library(_) | Link(_))).chain(IMAGE)
}
