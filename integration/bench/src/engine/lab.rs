//! The namespaces: one per host, one with a bridge per rail, every link shaped at both ends; and their guard.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use integration_harness::{binaries, procfs};
use rustix::process::{Pid, Signal, kill_process, setsid};

/// Index of rail 0 of a host. Where an interface has the index of its peer in another namespace, the kernel takes it for one that
/// stands on no other, and lets it wait up to a second for its change of carrier; a leaf's port that came up does not forward
/// until then (net/core/link_watch.c; seen: 440 ms), so that a rail was not back when it was repaired.
const FIRST_INDEX: usize = 100;
/// The least burst of a shaped rail: one offloaded 64 KiB packet with its headers must pass at once.
const LEAST_BURST: u64 = 66_000;
/// What a shaped rail queues beside its burst, in bytes, before it drops.
const QUEUE: u64 = 400_000;
/// Jumbo frames, as rails have them.
const MTU: u32 = 9000;
/// Where `ip netns exec` looks for files that a namespace sees in place of /etc.
const NAMESPACE_ETC: &str = "/etc/netns";

/// Hosts and rails of this bench.
pub struct Lab {
    name: String,
    /// The number of hosts.
    pub hosts: usize,
    /// Rails of each host.
    pub rails: usize,
    /// Rate of a healthy rail in Mbit/s.
    pub rate: u32,
    folder: PathBuf,
    guard: Child,
}

/// How a rail dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The leaf's side of the cable goes down: the host sees that the carrier is lost.
    Carrier,
    /// The leaf forwards nothing from or to the port; the link looks healthy at both ends.
    Silent,
}

impl Lab {
    /// Builds all of it. The error says what is missing.
    ///
    /// # Errors
    /// Namespaces cannot be made by this user, or `ip` or `tc` fails.
    pub fn up(hosts: usize, rails: usize, rate: u32) -> Result<Self, String> {
        if !binaries::may_make_namespaces() {
            return Err("network namespaces and shaping need root, ip and tc".to_owned());
        }
        let name = format!("rb{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let guard = start_guard(&name, &folder)?;
        let lab = Self { name, hosts, rails, rate, folder, guard };
        lab.build()?;
        Ok(lab)
    }

    /// A host's namespace; it is the host's name too.
    pub fn host(&self, host: usize) -> String {
        format!("{}-h{host}", self.name)
    }

    fn leaf(&self, rail: usize) -> String {
        format!("{}-l{rail}", self.name)
    }

    /// A namespace with nothing but loopback.
    pub fn solo(&self) -> String {
        format!("{}-solo", self.name)
    }

    /// A host's address on a rail.
    pub fn address(&self, host: usize, rail: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 80, byte(rail), byte(host + 1))
    }

    /// A host's address beside the rails, not shaped: for launching only.
    pub fn management(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 81, 0, byte(host + 1))
    }

    /// A new folder for the files of one set of programs, removed with the bench.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        // A set that is started again begins anew.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// A command inside a namespace.
    pub fn inside(&self, namespace: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program).stdin(Stdio::null());
        command
    }

    fn build(&self) -> Result<(), String> {
        let mut names: Vec<String> = (0..self.hosts).map(|host| self.host(host)).collect();
        names.extend((0..self.rails).map(|rail| self.leaf(rail)));
        let management = format!("{}-m", self.name);
        names.extend([management.clone(), self.solo()]);
        batch(&names.iter().map(|name| format!("netns add {name}")).collect::<Vec<_>>())?;
        for name in &names {
            batch_in(name, &["link set lo up".to_owned()])?;
        }
        for rail in 0..self.rails {
            let bridge = format!("link add br0 type bridge\nlink set br0 mtu {MTU} up");
            batch_in(&self.leaf(rail), &[bridge])?;
        }
        batch_in(&management, &["link add br0 type bridge\nlink set br0 up".to_owned()])?;
        (0..self.hosts).try_for_each(|host| self.build_host(host, &management))
    }

    fn build_host(&self, host: usize, management: &str) -> Result<(), String> {
        let here = self.host(host);
        let mut links =
            vec![format!("link add mgmt0 netns {here} type veth peer name p{host} netns {management}")];
        let mut ip = vec![format!("addr add {}/24 dev mgmt0\nlink set mgmt0 up", self.management(host))];
        for rail in 0..self.rails {
            let leaf = self.leaf(rail);
            let index = FIRST_INDEX + rail;
            links.push(format!(
                "link add rail{rail} index {index} mtu {MTU} netns {here} type veth peer name p{host} mtu {MTU} netns {leaf}"
            ));
            ip.push(format!("addr add {}/24 dev rail{rail}", self.address(host, rail)));
            ip.push(format!("link set rail{rail} up"));
        }
        batch(&links)?;
        batch_in(&here, &ip)?;
        batch_in(management, &[format!("link set p{host} master br0 up")])?;
        for rail in 0..self.rails {
            batch_in(&self.leaf(rail), &[format!("link set p{host} master br0 up")])?;
            self.shape(host, rail, f64::from(self.rate))?;
        }
        let etc = Path::new(NAMESPACE_ETC).join(&here);
        let name = |host: usize| format!("{} {}\n", self.management(host), self.host(host));
        let hosts = "127.0.0.1 localhost\n".to_owned() + &(0..self.hosts).map(name).collect::<String>();
        fs::create_dir_all(&etc)
            .and_then(|()| fs::write(etc.join("hosts"), hosts))
            .map_err(|error| format!("{}: {error}", etc.display()))
    }

    /// Sets the rate of one rail of one host, in Mbit/s, both ways; what is queued stays.
    ///
    /// # Errors
    /// `tc` fails.
    pub fn shape(&self, host: usize, rail: usize, mbit: f64) -> Result<(), String> {
        let bits = (mbit * 1e6) as u64;
        let burst = (bits / 8 / 500).max(LEAST_BURST);
        let limit = burst + QUEUE;
        for (namespace, device) in
            [(self.host(host), format!("rail{rail}")), (self.leaf(rail), format!("p{host}"))]
        {
            let line =
                format!("qdisc replace dev {device} root tbf rate {bits}bit burst {burst} limit {limit}");
            feed("tc", &["-n", &namespace, "-batch", "-"], &line)?;
        }
        Ok(())
    }

    /// All rails of all hosts at the full rate.
    ///
    /// # Errors
    /// `tc` fails; rails before that one have the full rate.
    pub fn shape_all(&self) -> Result<(), String> {
        for host in 0..self.hosts {
            for rail in 0..self.rails {
                self.shape(host, rail, f64::from(self.rate))?;
            }
        }
        Ok(())
    }

    /// Cuts one rail of one host.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn cut(&self, host: usize, rail: usize, how: Cut) -> Result<(), String> {
        let line = match how {
            Cut::Carrier => format!("link set p{host} down"),
            Cut::Silent => format!("link set p{host} nomaster"),
        };
        batch_in(&self.leaf(rail), &[line])
    }

    /// Repairs what [`Lab::cut`] cut.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn remediate(&self, host: usize, rail: usize, how: Cut) -> Result<(), String> {
        let line = match how {
            Cut::Carrier => format!("link set p{host} up"),
            Cut::Silent => format!("link set p{host} master br0"),
        };
        batch_in(&self.leaf(rail), &[line])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        if let Err(error) = self.guard.wait() {
            eprintln!("cannot wait for the guard of {}: {error}", self.name);
        }
    }
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn batch(lines: &[String]) -> Result<(), String> {
    feed("ip", &["-batch", "-"], &lines.join("\n"))
}

fn batch_in(namespace: &str, lines: &[String]) -> Result<(), String> {
    feed("ip", &["-n", namespace, "-batch", "-"], &lines.join("\n"))
}

fn feed(tool: &str, args: &[&str], text: &str) -> Result<(), String> {
    let failed = |why: String| format!("{tool} {}: {why} (for: {text})", args.join(" "));
    let mut child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that stops reading has failed and says why itself.
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// What the guard removes.
#[derive(clap::Args)]
pub struct GuardArgs {
    /// Namespaces whose names begin so.
    #[arg(long)]
    name: String,
    /// The bench's files.
    #[arg(long)]
    folder: PathBuf,
}

fn start_guard(name: &str, folder: &Path) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let mut command = Command::new(program);
    command.args(["guard", "--name", name, "--folder"]).arg(folder).stdin(Stdio::piped());
    command.stdout(Stdio::null()).spawn().map_err(|error| format!("cannot start the guard: {error}"))
}

/// Waits until the bench is gone, however it went, and removes what it had made.
///
/// # Errors
/// A namespace cannot be removed.
pub fn guard(args: &GuardArgs) -> Result<(), String> {
    // Signals from the terminal are for the bench; fails only for a leader of a group, which no child is.
    let _ = setsid();
    let mut ignored = Vec::new();
    // An error is an end too.
    let _ = std::io::stdin().read_to_end(&mut ignored);
    let prefix = format!("{}-", args.name);
    let mut result = Ok(());
    for name in names_in("/run/netns").into_iter().filter(|name| name.starts_with(&prefix)) {
        end_inhabitants(&name);
        result = result.and(batch(&[format!("netns del {name}")]));
    }
    for name in names_in(NAMESPACE_ETC).into_iter().filter(|name| name.starts_with(&prefix)) {
        let _ = fs::remove_dir_all(Path::new(NAMESPACE_ETC).join(name));
    }
    let _ = fs::remove_dir_all(&args.folder);
    result
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Ends all processes of a namespace of ours, and waits until they are gone.
fn end_inhabitants(namespace: &str) {
    for _ in 0..50 {
        let Ok(output) = Command::new("ip").args(["netns", "pids", namespace]).output() else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ids: Vec<i32> = text.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        let living: Vec<Pid> =
            ids.into_iter().filter(|id| procfs::lives(*id)).filter_map(Pid::from_raw).collect();
        if living.is_empty() {
            return;
        }
        for id in living {
            // Who has gone in the meantime needs no end.
            let _ = kill_process(id, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
