//! What the tests share: programs, jobs, waiting.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use node_agent_attempt::{layout::JobDir, state_files::read_state};
use node_agent_os::process::{self, Identity};
use node_agent_rank::{
    cgroup,
    isolation::{
        Isolation,
        plan::{Identity as Who, Policy, plan},
    },
    probe::{Trial, probe},
};
use proto_model::{
    Assignment, CollectiveOp, CollectiveSpec, CommandSpec, DesiredState, Dtype, Gang, JobId, JobKey, JobName,
    JobSpec, JobUid, NicPlace, NodeName, NodePlace, Placement, RankPlace, ReduceOp, TenantName, Work,
};
use rustix::process::Signal;

pub const AGENT: &str = env!("CARGO_BIN_EXE_rail-node-agent");
/// Longer than anything here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The real engine, beside this test's own program; built once if it is not there.
pub fn engine() -> PathBuf {
    static ENGINE: OnceLock<PathBuf> = OnceLock::new();
    ENGINE
        .get_or_init(|| {
            let engine = Path::new(AGENT).with_file_name("rail-engine");
            if !engine.exists() {
                let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                let status = Command::new(cargo).args(["build", "-q", "-p", "node-agent-engine"]).status();
                assert!(status.unwrap().success(), "rail-engine does not build");
            }
            assert!(engine.exists(), "no rail-engine at {}", engine.display());
            engine
        })
        .clone()
}

/// Waits for a condition, and says which one did not come.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process whose pid a job's program has written into a file.
pub fn process_in(path: &Path) -> Identity {
    eventually(&format!("a pid in {}", path.display()), || {
        let text = std::fs::read_to_string(path).ok()?;
        let pid = text.strip_suffix('\n')?.parse().ok()?;
        let dir = JobDir::at(path.parent()?.parent()?);
        // Without it nobody knows in which namespace that pid is: on this machine it is somebody else's.
        let saved = read_state(&dir).ok().flatten()?;
        saved.holder.map_or_else(|| Identity::of(pid), |holder| inside(&dir, holder, pid))
    })
}

/// The process that has this pid in the attempt's PID namespace, if it has one.
fn inside(dir: &JobDir, holder: Identity, pid: i32) -> Option<Identity> {
    let space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    if space(holder.pid) == space(std::process::id().cast_signed()) {
        return Identity::of(pid);
    }
    let own = |one: &process::Stat| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", one.id.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:").map(str::to_owned));
        line.is_some_and(|line| line.split_whitespace().last() == Some(&pid.to_string()))
    };
    let mark = format!("RAIL_JOB_DIR={}", dir.path().display());
    process::with_environment(&mark).into_iter().find(own).map(|one| one.id)
}

/// What ranks get on this machine.
pub fn isolation() -> Isolation {
    static ISOLATION: OnceLock<Isolation> = OnceLock::new();
    let find = || {
        let policy = Policy {
            namespaces: true,
            seccomp: true,
            network: false,
            tmp_bytes: 64 << 20,
            shm_bytes: 64 << 20,
            shown: Vec::new(),
            device_groups: Vec::new(),
        };
        let trial = Trial { argv: vec!["/bin/true".to_owned()], ..Trial::default() };
        let identity = if rustix::process::geteuid().is_root() { Who::Root } else { Who::Agent };
        let (isolation, features) = plan(&probe(Path::new(AGENT), identity, &policy, &trial), &policy);
        eprintln!("{features:#?}");
        isolation
    };
    ISOLATION.get_or_init(find).clone()
}

pub fn gone(what: &str, id: Identity) {
    eventually(&format!("{what} ends"), || (!id.is_alive()).then_some(()));
}

pub const NODE: &str = "n0";

/// A job of `ranks` ranks on this one node.
pub fn assignment(ranks: u32, work: Work) -> Assignment {
    gang(&[NODE], ranks, work)
}

/// A job of `per_node` ranks on each of these nodes; node k has the address 127.0.0.(k + 1).
pub fn gang(nodes: &[&str], per_node: u32, work: Work) -> Assignment {
    let name = |node: &str| NodeName::new(node).unwrap();
    let place = |(k, node): (u8, &&str)| {
        let address: IpAddr = [127, 0, 0, k + 1].into();
        let nic = NicPlace {
            device: "rail0".into(),
            netdev: "lo".into(),
            rail: 0,
            leaf: String::new(),
            address: Some(address),
        };
        NodePlace {
            node: name(node),
            pod: String::new(),
            gpus: (0..per_node).collect(),
            nics: vec![nic],
            remapped: false,
            cpus: 0,
            memory_bytes: 0,
        }
    };
    let rank = |rank: u32| RankPlace {
        rank,
        node: name(nodes[(rank / per_node) as usize]),
        local_rank: rank % per_node,
        gpus: vec![rank % per_node],
        nic: "rail0".into(),
        rail: 0,
        leaf: String::new(),
    };
    let size = u32::try_from(nodes.len()).unwrap();
    let placement = Placement {
        nodes: (0_u8..).zip(nodes).map(place).collect(),
        ranks: (0..per_node * size).map(rank).collect(),
        rails: vec![0],
        pods: 1,
        ..Placement::default()
    };
    let spec = JobSpec::new(Gang::new(size, 0, per_node), work);
    let uid = JobUid::from_random(*uuid::Uuid::new_v4().as_bytes());
    let id = JobId { tenant: TenantName::new("nlp").unwrap(), name: JobName::new("train").unwrap() };
    let desired = DesiredState::Prepared {
        spec: Arc::new(spec),
        placement: Arc::new(placement),
        key: JobKey::new(std::array::from_fn(|at| at as u8 + 0xa0)),
        env: Arc::default(),
    };
    Assignment { uid, attempt: 1, id, desired, trace_parent: String::new() }
}

/// `sh -c SCRIPT`, with these variables.
pub fn shell(script: &str, env: &[(&str, &str)]) -> Work {
    let env: BTreeMap<_, _> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Work::Command(CommandSpec { argv, env, env_from: Vec::new(), working_dir: String::new() })
}

pub fn collective() -> Work {
    Work::Collective(CollectiveSpec {
        op: CollectiveOp::AllReduce,
        bytes: 100_000,
        dtype: Dtype::F32,
        reduce: ReduceOp::Sum,
        iterations: 3,
        warmup: 1,
        verify: true,
    })
}

/// Ends what a test has left under a supervisor that it killed or abandoned.
pub fn clean(dir: &JobDir) {
    let Ok(Some(saved)) = read_state(dir) else { return };
    saved.supervisor.map(|id| id.signal(Signal::KILL));
    for group in saved.cgroups.iter().filter(|group| group.exists()) {
        cgroup::kill(group);
        eventually("a control group is empty", || cgroup::members(group).is_empty().then_some(()));
        cgroup::remove(group);
    }
}
