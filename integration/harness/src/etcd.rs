//! A cluster of real etcd members on loopback: ports and folders of its own, ended with whoever started it.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::wait::eventually;

/// Longest wait for members to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// Members, killed when dropped.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    args: Vec<String>,
    peers: String,
    dir: tempfile::TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

/// A command whose process dies with the thread that starts it, also when that is killed.
#[must_use]
pub fn tied(program: &Path) -> Command {
    let tied = Command::new("setpriv").args(["--pdeathsig", "KILL", "true"]).status();
    if tied.is_ok_and(|status| status.success()) {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        return command;
    }
    Command::new(program)
}

/// A port of loopback that is free now.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| format!("no free port: {error}"))
}

impl Etcd {
    /// The program: `RAIL_TEST_ETCD`, or `etcd` in the path.
    #[must_use]
    pub fn program() -> Option<PathBuf> {
        if let Some(path) = std::env::var_os("RAIL_TEST_ETCD") {
            return Some(path.into());
        }
        let answers =
            Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        answers.is_ok_and(|status| status.success()).then(|| "etcd".into())
    }

    /// Starts so many members with further arguments.
    ///
    /// # Errors
    /// There is no etcd, or it does not serve.
    pub fn start(members: usize, args: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let member =
            |n| Ok(Member { name: format!("m{n}"), client: free_port()?, peer: free_port()?, child: None });
        let members = (0..members).map(member).collect::<Result<Vec<_>, String>>()?;
        let peers: Vec<_> = members.iter().map(|m| format!("{}=http://{}", m.name, m.peer)).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut etcd = Self { members, args, peers: peers.join(","), dir };
        for n in 0..etcd.members.len() {
            etcd.restart(n)?;
        }
        etcd.ready()?;
        Ok(etcd)
    }

    /// All client addresses, as options name them.
    #[must_use]
    pub fn endpoints(&self) -> String {
        let all: Vec<_> = self.members.iter().map(|member| format!("http://{}", member.client)).collect();
        all.join(",")
    }

    /// Waits until all members that run say that they are well.
    ///
    /// # Errors
    /// They do not.
    pub fn ready(&self) -> Result<(), String> {
        for member in self.members.iter().filter(|member| member.child.is_some()) {
            let well = || get(member.client, "/health").filter(|text| text.contains("\"true\""));
            eventually(&format!("etcd member {} to serve", member.name), PATIENCE, well)?;
        }
        Ok(())
    }

    /// How often each key that begins so was written since it was made, 1 for once: etcd counts it itself, and nobody's answer has to have arrived.
    ///
    /// # Errors
    /// The first member does not answer, or otherwise than etcd does.
    pub fn writes(&self, prefix: &str) -> Result<BTreeMap<String, u64>, String> {
        let member = self.members.first().ok_or("there is no member")?;
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().ok_or("no prefix")? += 1;
        let question =
            json!({"key": BASE64.encode(prefix), "range_end": BASE64.encode(&end), "keys_only": true});
        let answer = post(member.client, "/v3/kv/range", &question.to_string())
            .ok_or_else(|| format!("etcd member {} does not answer", member.name))?;
        let answer: Value =
            serde_json::from_str(&answer).map_err(|error| format!("etcd answers {answer:?}: {error}"))?;
        // It leaves out a list that is empty.
        let keys = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let count = |kept: &Value| {
            let key = String::from_utf8(BASE64.decode(kept["key"].as_str()?).ok()?).ok()?;
            Some((key, kept["version"].as_str()?.parse().ok()?))
        };
        keys.iter().map(|kept| count(kept).ok_or_else(|| format!("etcd answers {kept}"))).collect()
    }

    /// Which member leads, as it says itself.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leads = |member: &Member| {
            get(member.client, "/metrics").is_some_and(|text| text.contains("\netcd_server_is_leader 1"))
        };
        self.members.iter().position(|member| member.child.is_some() && leads(member))
    }

    /// The process of a member that runs.
    #[must_use]
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.members[member].child.as_ref().map(Child::id)
    }

    /// SIGKILL, as a machine that dies.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a member, or starts it again on its data and ports.
    ///
    /// # Errors
    /// There is no etcd.
    pub fn restart(&mut self, member: usize) -> Result<(), String> {
        self.kill(member);
        let program = Self::program().ok_or("there is no etcd (Debian: apt install etcd-server)")?;
        let dir = self.dir.path();
        let member = &mut self.members[member];
        let file =
            fs::File::options().create(true).append(true).open(dir.join(format!("{}.log", member.name)));
        let log = file.map_err(|error| format!("no log for etcd: {error}"))?;
        let mut command = tied(&program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
            command.env_remove(name);
        }
        let (client, peer) = (format!("http://{}", member.client), format!("http://{}", member.peer));
        command.args(["--name", &member.name]).arg("--data-dir").arg(dir.join(&member.name));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &self.peers]).args(&self.args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        member.child = Some(command.spawn().map_err(|error| format!("cannot start etcd: {error}"))?);
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }
}

/// The whole answer to a GET over HTTP/1.0, with its head; `None` if there is none within seconds.
#[must_use]
pub fn get(from: SocketAddr, path: &str) -> Option<String> {
    ask(from, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// The body of the answer to a POST of JSON.
fn post(to: SocketAddr, path: &str, body: &str) -> Option<String> {
    let head =
        format!("POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    let answer = ask(to, &format!("{head}\r\n\r\n{body}"))?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

fn ask(whom: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(whom).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
