//! A real etcd for tests: its own folder and ports, ended with the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on shall say where"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{EtcdEndpoint, EtcdOptions};

/// Longest wait for it to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// A member on its own. Killed, and its folder removed, when dropped.
#[derive(Debug)]
pub struct RealEtcd {
    child: Child,
    dir: tempfile::TempDir,
    client: SocketAddr,
    health: SocketAddr,
    scheme: &'static str,
    args: Vec<String>,
}

/// The program: `RAIL_TEST_ETCD`, or `etcd` in the path.
#[must_use]
pub fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("RAIL_TEST_ETCD") {
        return Some(path.into());
    }
    let answers = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    answers.is_ok_and(|status| status.success()).then(|| "etcd".into())
}

impl RealEtcd {
    /// Starts one with further arguments; `None`, and a line that says so, where there is no etcd. With a
    /// `--cert-file` among the arguments it speaks TLS.
    #[must_use]
    pub fn start(args: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            println!("skipped: there is no etcd (cargo xtask test fetches Debian's where it is reached)");
            return None;
        };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let scheme = if args.iter().any(|arg| arg.starts_with("--cert-file")) { "https" } else { "http" };
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let (client, health) = (free_port(), free_port());
            let mut child = spawn(&program, dir.path(), client, health, scheme, &args);
            if serves(&mut child, health) {
                return Some(Self { child, dir, client, health, scheme, args });
            }
            // Somebody took a port in between.
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("etcd does not serve:\n{}", log(dir.path()));
    }

    /// The address at which it serves clients.
    #[must_use]
    pub fn endpoint(&self) -> EtcdEndpoint {
        format!("{}://{}", self.scheme, self.client).parse().unwrap()
    }

    /// Options of a store in it.
    #[must_use]
    pub fn options(&self) -> EtcdOptions {
        EtcdOptions::new(vec![self.endpoint()])
    }

    /// Its folder, for files of the test.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// SIGSTOP: it is there, and silent.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Continues the process (SIGCONT) that [`Self::pause`] stopped.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// SIGKILL, as a machine that dies.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same data and ports.
    pub fn restart(&mut self) {
        self.kill();
        let program = program().expect("it was there before");
        self.child = spawn(&program, self.dir.path(), self.client, self.health, self.scheme, &self.args);
        assert!(serves(&mut self.child, self.health), "etcd does not serve again:\n{}", log(self.dir.path()));
    }

    // By the system's own kill, so that no unsafe code is needed.
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for RealEtcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

fn spawn(
    program: &Path,
    dir: &Path,
    client: SocketAddr,
    health: SocketAddr,
    scheme: &str,
    args: &[String],
) -> Child {
    // It dies with the thread that started it, also when that is killed.
    let tied = Command::new("setpriv").args(["--pdeathsig", "KILL", "true"]).status();
    let mut command = if tied.is_ok_and(|status| status.success()) {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
    command.arg("--data-dir").arg(dir.join("data"));
    command.args(["--listen-client-urls", &format!("{scheme}://{client}")]);
    command.args(["--advertise-client-urls", &format!("{scheme}://{client}")]);
    command.args(["--listen-metrics-urls", &format!("http://{health}")]);
    // Nobody else is in its cluster: any port.
    command.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Waits until it says that it is well; false when it ended.
fn serves(child: &mut Child, health: SocketAddr) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if healthy(health).is_some_and(|answer| answer.contains("\"true\"")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn healthy(health: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(health).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
