//! A real Slurm on loopback: munged, slurmctld and one slurmd for each node, with ports, folders and a key of its own.
//!
//! All of it runs in process, mount and host-name namespaces that a shell holds: when our end of its pipe closes, the kernel ends with it whatever
//! Slurm has started. Users of the machine are as they are; jobs run as root.

pub mod beside;
mod version;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    time::Duration,
};

pub use version::Version;

use crate::{binaries, binaries::may_make_namespaces, procfs, wait::eventually};

/// Longest wait for all nodes to be idle.
const PATIENCE: Duration = Duration::from_secs(60);
/// What slurmctld takes for the name of the machine.
const HOST: &str = "rail-slurm";
/// `$1` is Slurm's root folder, `$2` the folder of this one; further arguments are the nodes. slurmctld is called by that name: it runs its prologs
/// only then. Each line of the input starts slurmctld again.
const HOLD: &str = r#"
set -e
hostname rail-slurm
programs=$1; folder=$2; shift 2
"$programs/usr/sbin/munged" --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.sock" --pid-file="$folder/munge.pid" \
    --log-file="$folder/munge.log" --seed-file="$folder/munge.seed" >"$folder/munged.out" 2>&1 &
left=600
while ! test -S "$folder/munge.sock"; do kill -0 $! && test $left -gt 0 || exit 1; left=$((left - 1)); sleep 0.05; done
control() { "$programs/usr/sbin/slurmctld" -D -f "$folder/slurm.conf" >>"$folder/slurmctld.out" 2>&1 & }
control
for node in "$@"; do
    "$programs/usr/sbin/slurmd" -D -N "$node" -d "$programs/usr/sbin/slurmstepd" -f "$folder/slurm.conf" >"$folder/slurmd-$node.out" 2>&1 &
done
echo up
while read -r line; do control; done
"#;

/// Where this version of Slurm is: unpacked packages (`RAIL_TEST_SLURM_22_05` and so on), or the system's. `None` where there is none, or no root.
#[must_use]
pub fn programs(version: Version) -> Option<PathBuf> {
    let folder = std::env::var_os(version.variable()).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let has = ["usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/sbin/munged", "usr/bin/sbatch"];
    let is_there = has.iter().all(|file| folder.join(file).exists()) && may_make_namespaces();
    let mut asks = Command::new(folder.join("usr/sbin/slurmctld"));
    asks.arg("-V").stdin(Stdio::null());
    let is_it = |said: Output| String::from_utf8_lossy(&said.stdout).contains(&format!(" {version}."));
    (is_there && asks.output().is_ok_and(is_it)).then_some(folder)
}

/// What is missing where there are no such programs.
#[must_use]
pub fn missing(version: Version) -> String {
    format!(
        "Slurm {version} needs root, namespaces, and its packages slurmctld, slurmd, slurm-client and munge"
    )
}

/// Builds `deploy/slurm/spank_railyard.c` as a site does, with the headers of this version; `None` where it has none (Debian's libslurm-dev), or there
/// is no C compiler.
///
/// # Errors
/// It is not built; with what the compiler says.
pub fn spank(version: Version, into: &Path) -> Result<Option<PathBuf>, String> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let headers = programs(version).map(|programs| programs.join("usr/include"));
    let Some(headers) = headers.filter(|folder| folder.join("slurm/spank.h").exists()) else {
        return Ok(None);
    };
    let plugin = into.join("spank_railyard.so");
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(headers);
    command.arg("-o").arg(&plugin).arg(binaries::root().join("deploy/slurm/spank_railyard.c"));
    match command.output() {
        Ok(output) if output.status.success() => Ok(Some(plugin)),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", compiler.display())),
    }
}

/// What a Slurm is started with.
#[derive(Debug, Clone, Default)]
pub struct Site<'a> {
    /// The version of Slurm.
    pub version: Version,
    /// Names of its nodes.
    pub nodes: &'a [&'a str],
    /// Scripts by their option of `slurm.conf`, for example `PrologSlurmctld`.
    pub hooks: &'a [(&'a str, String)],
    /// Files beside `slurm.conf` by their names, for example `topology.conf`.
    pub files: &'a [(&'a str, String)],
    /// Further lines of `slurm.conf`.
    pub lines: &'a str,
}

/// A Slurm that runs, and ends when dropped.
#[derive(Debug)]
pub struct Slurm {
    programs: PathBuf,
    holder: Child,
    /// Closing it ends all.
    pipe: Option<ChildStdin>,
    folder: tempfile::TempDir,
}

impl Slurm {
    /// Starts one, and waits until all nodes are idle.
    ///
    /// # Errors
    /// There is no Slurm, or it does not start.
    pub fn up(site: &Site<'_>) -> Result<Self, String> {
        // Another process may have taken a port between its choice and its use.
        Self::begin(site)
            .or_else(|first| Self::begin(site).map_err(|second| format!("{second}; the first time: {first}")))
    }

    fn begin(site: &Site<'_>) -> Result<Self, String> {
        let nodes = site.nodes;
        let programs = programs(site.version).ok_or_else(|| missing(site.version))?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let at = folder.path();
        let failed = |error: std::io::Error| format!("{}: {error}", at.display());
        let private = |name: &str, bytes: &[u8], mode: u32| {
            let path = at.join(name);
            std::fs::write(&path, bytes)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
        };
        // munged wants a folder that others may enter.
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let key: Vec<u8> = (0..64).flat_map(|_| std::process::id().to_le_bytes()).collect();
        private("munge.key", &key, 0o400).map_err(failed)?;
        let mut config = config(&programs, at, nodes)?;
        for (option, script) in site.hooks {
            private(option, script.as_bytes(), 0o755).map_err(failed)?;
            config.push_str(&format!("{option}={}\n", at.join(option).display()));
        }
        for (name, text) in site.files {
            private(name, text.as_bytes(), 0o644).map_err(failed)?;
        }
        config.push_str(site.lines);
        private("slurm.conf", config.as_bytes(), 0o644).map_err(failed)?;
        std::fs::create_dir(at.join("state")).map_err(failed)?;
        std::fs::create_dir(at.join("spool")).map_err(failed)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", HOLD, "hold"]).arg(&programs).arg(at).args(nodes);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut holder = child.map_err(|error| format!("unshare: {error}"))?;
        let pipe = holder.stdin.take();
        let output = holder.stdout.take();
        let slurm = Self { programs, holder, pipe, folder };
        let mut line = String::new();
        let heard = output.map(|output| BufReader::new(output).read_line(&mut line));
        if !matches!(heard, Some(Ok(_))) || line.trim() != "up" {
            return Err(format!("Slurm does not start: {}", slurm.said()));
        }
        let idle = || {
            let states = slurm.run("sinfo", &["--noheader", "--Node", "--format=%T"]).ok()?;
            (states.lines().filter(|state| state.trim() == "idle").count() == nodes.len()).then_some(())
        };
        eventually("all nodes of Slurm to be idle", PATIENCE, idle)
            .map_err(|why| format!("{why}: {}", slurm.said()))?;
        Ok(slurm)
    }

    /// Kills slurmctld as a failure would, and starts it again with the state that it left.
    ///
    /// # Errors
    /// It does not run, or does not end.
    pub fn restart(&mut self) -> Result<(), String> {
        let configuration = self.folder.path().join("slurm.conf").display().to_string();
        let running = || procfs::find(&["slurmctld", "-D", &configuration]);
        if running().is_empty() {
            return Err("slurmctld does not run".to_owned());
        }
        // Who has ended meanwhile is not there to be killed.
        end_all(running, |id| _ = procfs::kill(id))?;
        let pipe = self.pipe.as_mut().ok_or("Slurm has ended")?;
        pipe.write_all(b"slurmctld\n").map_err(|error| format!("slurmctld: {error}"))
    }

    /// What a command of Slurm prints.
    ///
    /// # Errors
    /// It fails; with what it says.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.programs.join("usr/bin").join(program));
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        let output = command.args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{program} {arguments:?}: {} {}", text(&output.stdout), text(&output.stderr)))
        }
    }

    /// What whoever calls Slurm's commands by their names needs.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let path = std::env::var("PATH").unwrap_or_default();
        [
            ("PATH", format!("{}:{path}", self.programs.join("usr/bin").display())),
            ("SLURM_CONF", self.folder.path().join("slurm.conf").display().to_string()),
        ]
    }

    /// A folder that Slurm's jobs and scripts see, too.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All that a daemon has written, by the name of its file.
    ///
    /// # Errors
    /// There is no such file.
    pub fn log(&self, name: &str) -> Result<String, String> {
        let path = self.folder.path().join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What its daemons have written last.
    #[must_use]
    pub fn said(&self) -> String {
        let last = |name: &str| {
            let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{name}:\n{}\n", lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        ["munged.out", "slurmctld.out"].map(last).concat()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It may have ended by itself.
        let _ = self.holder.wait();
    }
}

/// Kills what runs, and what it has started in its place meanwhile: 24.11 starts itself anew to read its files. Nothing is to be found twice, as
/// one look may list the processes before the second begins and read them after the first has ended.
fn end_all(mut running: impl FnMut() -> Vec<i32>, mut kill: impl FnMut(i32)) -> Result<(), String> {
    let mut empty = 0;
    eventually("slurmctld to end", PATIENCE, || {
        let ids = running();
        ids.iter().for_each(|id| kill(*id));
        empty = if ids.is_empty() { empty + 1 } else { 0 };
        (empty == 2).then_some(())
    })
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// The folder of Slurm's plugins, where Debian has it.
fn plugins(programs: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(programs.join("usr/lib")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("slurm-wlm")).find(|folder| folder.is_dir())
}

fn config(programs: &Path, at: &Path, nodes: &[&str]) -> Result<String, String> {
    let plugins = plugins(programs).ok_or("Slurm's plugins are not there")?;
    let (plugins, at) = (plugins.display(), at.display());
    let mut config = format!(
        "ClusterName=rail\n\
         SlurmctldHost={HOST}(127.0.0.1)\n\
         SlurmctldPort={}\n\
         SlurmUser=root\n\
         AuthType=auth/munge\n\
         AuthInfo=socket={at}/munge.sock\n\
         PluginDir={plugins}\n\
         StateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool/%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/slurmd-%n.pid\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\n\
         MpiDefault=none\n\
         MailProg=/bin/true\n\
         ReturnToService=2\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_Core\n\
         SlurmdParameters=config_overrides\n\
         PrologFlags=Alloc\n",
        free_port()?
    );
    for node in nodes {
        config.push_str(&format!(
            "NodeName={node} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=100\n",
            free_port()?
        ));
    }
    config.push_str(&format!(
        "PartitionName=rail Nodes={} Default=YES State=UP OverSubscribe=EXCLUSIVE\n",
        nodes.join(",")
    ));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_starts_itself_anew_ends_too() {
        let mut looks = [vec![7], vec![7, 8], vec![], vec![8], vec![], vec![]].into_iter();
        let mut killed = Vec::new();
        end_all(|| looks.next().unwrap_or_default(), |id| killed.push(id)).unwrap();
        assert_eq!(killed, [7, 7, 8, 8]);
        assert_eq!(looks.len(), 0);
    }

    /// The shell ends where munged lives and never listens: nobody waits for its line then.
    #[test]
    fn the_shell_waits_for_munged_only_so_long() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::create_dir_all(at.join("usr/sbin")).unwrap();
        let munged = at.join("usr/sbin/munged");
        std::fs::write(&munged, "#!/bin/sh\necho $$ > own && mv own pid\nread -r _ < hold\n").unwrap();
        std::fs::set_permissions(&munged, std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = format!("hostname() {{ :; }}; sleep() {{ :; }}; mkfifo hold; {HOLD}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "hold"]).arg(at).arg(at).current_dir(at).stdin(Stdio::null());
        let output = shell.output().unwrap();
        let pid = || std::fs::read_to_string(at.join("pid")).ok()?.trim().parse::<i32>().ok();
        procfs::kill(eventually("munged to begin", PATIENCE, pid).unwrap()).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}
