//! Switches of FRR (zebra, bgpd, bfdd) and hosts, each in a network namespace of its own without a name, tied by cables (veth pairs).
//!
//! A switch is a shell that holds the namespaces and ends when our end of its pipe closes. It is the first process of a process namespace,
//! so that the kernel ends with it whatever it started, and then the namespaces. Nothing of the system is touched: each has its own `/run` and `/etc`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    time::Duration,
};

use crate::{binaries::may_make_namespaces, wait::eventually};

/// FRR's daemons that a switch runs.
const DAEMONS: &str = "zebra bgpd bfdd";
/// Longest wait for the daemons to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs in the namespaces: `$1` is FRR's root folder, `$2` a folder with `passwd`, `group`, and `frr.conf` where it is a switch.
const HOLD: &str = r#"
set -e
echo held
read go
ip link set lo up
if [ -e "$2/frr.conf" ]; then
    mount -t tmpfs none /run
    # Its ports, not the machine's.
    mount -t sysfs none /sys
    mount -t tmpfs none /etc
    mkdir -p /run/frr /etc/frr /etc/pam.d
    cp "$2/passwd" "$2/group" /etc/
    cp "$2/frr.conf" /etc/frr/
    : > /etc/frr/vtysh.conf
    printf 'auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n' > /etc/pam.d/frr
    echo 1 > /proc/sys/net/ipv4/ip_forward
    echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
    # Both ends of a way hash alike what they send: over addresses and ports.
    echo 1 > /proc/sys/net/ipv4/fib_multipath_hash_policy
    for daemon in $DAEMONS; do "$1/usr/lib/frr/$daemon" -F datacenter >"$2/$daemon.log" 2>&1 & done
fi
echo up
cat >/dev/null
"#;

/// A switch, or a host if it has no configuration.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name; short, without spaces.
    pub name: String,
    /// Content of `frr.conf`.
    pub config: Option<String>,
}

/// One end of a cable.
#[derive(Debug, Clone)]
pub struct End {
    /// Index of the switch or host.
    pub of: usize,
    /// Name of the interface there.
    pub port: String,
}

/// Where FRR is: an unpacked package (`RAIL_TEST_FRR`), or the system's. `None` where there is none, or no root.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let folder = std::env::var_os("RAIL_TEST_FRR").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let has = folder.join("usr/lib/frr/bgpd").exists() && folder.join("usr/bin/vtysh").exists();
    (has && may_make_namespaces()).then_some(folder)
}

/// Where the libraries of an unpacked package are.
fn libraries(programs: &Path) -> String {
    let usr = programs.join("usr/lib");
    let mut folders = Vec::new();
    for below in [usr, programs.join("lib")] {
        let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
        let gnu = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("-linux-gnu"));
        folders.extend(gnu.flat_map(|entry| [entry.path(), entry.path().join("frr")]));
    }
    let shown: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    shown.join(":")
}

/// A fabric that runs, and ends when dropped.
#[derive(Debug)]
pub struct Frr {
    programs: PathBuf,
    members: Vec<Member>,
    folder: tempfile::TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    holder: Child,
    /// Closing it ends the member.
    pipe: Option<ChildStdin>,
    is_switch: bool,
}

impl Frr {
    /// Makes switches and hosts, lays the cables, and loads what the switches are configured with.
    ///
    /// # Errors
    /// There is no FRR, a command fails, or FRR refuses a line of a configuration.
    pub fn up(specs: &[Spec], cables: &[(End, End)]) -> Result<Self, String> {
        let programs = programs().ok_or("there is no FRR, or no root for namespaces")?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let mut fabric = Frr { programs, members: Vec::new(), folder };
        for spec in specs {
            let member = fabric.hold(spec)?;
            fabric.members.push(member);
        }
        for (a, b) in cables {
            fabric.lay(a, b)?;
        }
        for index in 0..specs.len() {
            fabric.begin(index)?;
        }
        for index in (0..specs.len()).filter(|index| specs[*index].config.is_some()) {
            fabric.load(index)?;
        }
        Ok(fabric)
    }

    fn hold(&self, spec: &Spec) -> Result<Member, String> {
        let folder = self.folder.path().join(&spec.name);
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
        };
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let system = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        write("passwd", &format!("{}\nfrr:x:0:0::/:/bin/false\n", system("/etc/passwd")))?;
        write("group", &format!("{}\nfrr:x:0:\nfrrvty:x:0:\n", system("/etc/group")))?;
        if let Some(config) = &spec.config {
            write("frr.conf", config)?;
        }
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", HOLD, "hold"]).arg(&self.programs).arg(&folder);
        command.env("DAEMONS", DAEMONS).env("LD_LIBRARY_PATH", libraries(&self.programs));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut holder = child.map_err(|error| format!("unshare: {error}"))?;
        let pipe = holder.stdin.take();
        let member = Member { name: spec.name.clone(), holder, pipe, is_switch: spec.config.is_some() };
        Self::hear(member, "held")
    }

    /// Waits until the shell says this word.
    fn hear(mut member: Member, word: &str) -> Result<Member, String> {
        let Some(output) = member.holder.stdout.take() else { return Err("no output".to_owned()) };
        let mut reader = BufReader::with_capacity(1, output);
        let mut line = String::new();
        reader.read_line(&mut line).map_err(|error| format!("{}: {error}", member.name))?;
        if line.trim() != word {
            return Err(format!("{} said {line:?} for {word:?}", member.name));
        }
        member.holder.stdout = Some(reader.into_inner());
        Ok(member)
    }

    fn lay(&self, a: &End, b: &End) -> Result<(), String> {
        let pid = |end: &End| self.members[end.of].holder.id().to_string();
        let (near, far) = (pid(a), pid(b));
        run(Command::new("ip")
            .args(["link", "add", &a.port, "mtu", "9216", "netns", &near, "type", "veth"])
            .args(["peer", "name", &b.port, "mtu", "9216", "netns", &far]))?;
        for end in [a, b] {
            self.inside(end.of, &["ip", "link", "set", &end.port, "up"])?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<(), String> {
        let mut member = self.members.remove(index);
        let said = match &mut member.pipe {
            Some(pipe) => pipe.write_all(b"go\n").map_err(|error| format!("{}: {error}", member.name)),
            None => Err(format!("{} has ended", member.name)),
        };
        let member = said.and_then(|()| Self::hear(member, "up"))?;
        self.members.insert(index, member);
        Ok(())
    }

    /// Loads the configuration once all daemons answer.
    fn load(&self, index: usize) -> Result<(), String> {
        let answers =
            || self.vtysh(index, &["show version"]).ok().filter(|text| !text.contains("failed to connect"));
        let sockets = || {
            let files = self.inside(index, &["ls", "/run/frr"]).ok()?;
            DAEMONS.split(' ').all(|daemon| files.contains(&format!("{daemon}.vty"))).then_some(())
        };
        eventually("FRR's daemons", PATIENCE, || sockets().and_then(|()| answers()))?;
        let vtysh = self.programs.join("usr/bin/vtysh");
        let output = self.output(index, &[&vtysh.display().to_string(), "--boot"])?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // It ends well whatever it has refused; what it refuses it names.
        let refused =
            said.lines().any(|line| line.contains("Unknown command") || line.contains("onfiguration"));
        if refused || !output.status.success() {
            Err(format!("{}: {said}", self.members[index].name))
        } else {
            Ok(())
        }
    }

    /// What the commands print on the switch, one after the other.
    ///
    /// # Errors
    /// FRR does not know a command, or does not run.
    pub fn vtysh(&self, switch: usize, commands: &[&str]) -> Result<String, String> {
        let vtysh = self.programs.join("usr/bin/vtysh").display().to_string();
        let mut line = vec![vtysh.as_str()];
        line.extend(commands.iter().flat_map(|command| ["-c", command]));
        self.inside(switch, &line)
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// As [`Frr::vtysh`], or it is no JSON.
    pub fn json(&self, switch: usize, command: &str) -> Result<serde_json::Value, String> {
        let text = self.vtysh(switch, &[command])?;
        serde_json::from_str(&text).map_err(|error| format!("{command}: {error}: {text}"))
    }

    /// What a command prints that runs on the switch or host.
    ///
    /// # Errors
    /// It fails; the text is what it said.
    pub fn inside(&self, of: usize, command: &[&str]) -> Result<String, String> {
        let output = self.output(of, command)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {command:?}: {said}", self.members[of].name))
    }

    /// A command that is one of the switch's or host's own processes. What is started is `nsenter`, which waits for it.
    #[must_use]
    pub fn command(&self, of: usize, program: &str) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--net", "--mount", "--pid", "--target", &self.members[of].holder.id().to_string()]);
        inside.arg(program).env("LD_LIBRARY_PATH", libraries(&self.programs)).stdin(Stdio::null());
        inside
    }

    /// Runs this on a thread whose sockets are those of the switch or host.
    ///
    /// # Errors
    /// The thread cannot enter the namespace, or panics.
    pub fn sockets_of<T: Send>(&self, of: usize, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        let member = &self.members[of];
        let file = format!("/proc/{}/ns/net", member.holder.id());
        let namespace = std::fs::File::open(&file).map_err(|error| format!("{file}: {error}"))?;
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| {
                let network = Some(rustix::thread::LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(namespace.as_fd(), network).map(|()| work())
            });
            let done = entered.join().map_err(|_| format!("{}: the work has panicked", member.name))?;
            done.map_err(|error| format!("{}: {error}", member.name))
        })
    }

    fn output(&self, of: usize, command: &[&str]) -> Result<Output, String> {
        let member = &self.members[of];
        let mut inside = Command::new("nsenter");
        inside.args(["--net", "--mount", "--target", &member.holder.id().to_string()]).args(command);
        inside.env("LD_LIBRARY_PATH", libraries(&self.programs)).stdin(Stdio::null());
        inside.output().map_err(|error| format!("{}: {command:?}: {error}", member.name))
    }

    /// Ends a switch as a loss of power does: its daemons say nothing more, its ports go down.
    pub fn cut(&mut self, switch: usize) {
        let member = &mut self.members[switch];
        if member.is_switch {
            member.pipe = None;
            let _ = member.holder.wait();
        }
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.pipe = None;
        }
        for member in &mut self.members {
            let _ = member.holder.wait();
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
