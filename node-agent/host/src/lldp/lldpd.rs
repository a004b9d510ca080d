//! What lldpd hears, as its own client prints it: the socket between the two is private to a version of them, `lldpcli -f json0` is not
//! (lldpcli(8): its shape does not depend on how many interfaces and neighbours there are).

use std::{
    io::Read,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use proto_model::Neighbor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use thiserror::Error;

use super::text;
use crate::sysfs::Tree;

/// Where lldpd listens; Debian's and upstream's, and where `/var/run` is a folder of its own.
const SOCKETS: [&str; 2] = ["run/lldpd.socket", "var/run/lldpd.socket"];
/// Where its client is. Not by PATH: the agent is root.
const CLIENTS: [&str; 4] =
    ["/usr/sbin/lldpcli", "/usr/bin/lldpcli", "/usr/local/sbin/lldpcli", "/usr/local/bin/lldpcli"];
/// It answers within milliseconds; one that hangs holds up a pass no longer than this.
const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of an answer: some 1500 for each neighbour.
const ANSWER_MAX: usize = 1 << 20;
/// Neighbours that are taken of an answer.
const NEIGHBORS_MAX: usize = 1024;

/// Why lldpd's neighbours are not known.
#[derive(Debug, Error)]
pub(super) enum LldpdError {
    /// The daemon is there and its client is not.
    #[error("lldpd runs, but its client lldpcli is in none of {}; install it", CLIENTS.join(", "))]
    NoClient,
    /// The client cannot be started or read.
    #[error("{}: {source}", program.display())]
    Client {
        /// Path of the client program.
        program: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// The client did not end in time.
    #[error("{} says nothing within {limit:?}; restart lldpd", program.display())]
    Silent {
        /// Path of the client program.
        program: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The client said more than any server hears.
    #[error("{} says more than {ANSWER_MAX} bytes", program.display())]
    TooLong {
        /// Path of the client program.
        program: PathBuf,
    },
    /// The client ended with a status that is not 0.
    #[error("{} ends with {status}; lldpd answers root and the group _lldpd only", program.display())]
    Failed {
        /// Path of the client program.
        program: PathBuf,
        /// The status in the operating system's text.
        status: std::process::ExitStatus,
    },
    /// What it said is not what such a client says.
    #[error("lldpcli says no neighbours in JSON: {0}")]
    Answer(#[from] serde_json::Error),
}

/// What is asked, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Client {
    program: PathBuf,
    arguments: Vec<&'static str>,
    limit: Duration,
}

impl Client {
    /// The client of the daemon that runs here; none where none does.
    pub(super) fn find(tree: &Tree) -> Result<Option<Self>, LldpdError> {
        if !SOCKETS.iter().any(|socket| tree.at(socket).exists()) {
            return Ok(None);
        }
        let program = CLIENTS.iter().map(PathBuf::from).find(|path| path.is_file());
        let program = program.ok_or(LldpdError::NoClient)?;
        Ok(Some(Self { program, arguments: vec!["-f", "json0", "show", "neighbors"], limit: LIMIT }))
    }

    /// Asks: every neighbour that says its name and its port.
    pub(super) fn ask(&self) -> Result<Vec<Neighbor>, LldpdError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| self.failed(source))?;
        let mut running = Running(child);
        let answer = self.read(&mut running.0)?;
        // Its output has ended, and so has it, or it is ended here.
        let status = running.end(self.limit).map_err(|source| self.failed(source))?;
        if !status.success() {
            return Err(LldpdError::Failed { program: self.program.clone(), status });
        }
        Ok(neighbors(&answer)?)
    }

    fn failed(&self, source: std::io::Error) -> LldpdError {
        LldpdError::Client { program: self.program.clone(), source }
    }

    /// All that it prints, within the limits.
    fn read(&self, child: &mut Child) -> Result<Vec<u8>, LldpdError> {
        let (mut answer, mut buffer) = (Vec::new(), [0; 16 << 10]);
        let Some(output) = &mut child.stdout else { return Ok(answer) };
        let begun = Instant::now();
        loop {
            let left = self.limit.saturating_sub(begun.elapsed());
            let timeout = Timespec::try_from(left).ok();
            let ready = match poll(&mut [PollFd::new(&*output, PollFlags::IN)], timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready.map_err(|error| self.failed(error.into()))?,
            };
            if ready == 0 || left.is_zero() {
                return Err(LldpdError::Silent { program: self.program.clone(), limit: self.limit });
            }
            match output.read(&mut buffer).map_err(|source| self.failed(source))? {
                0 => return Ok(answer),
                length => answer.extend_from_slice(&buffer[..length]),
            }
            if answer.len() > ANSWER_MAX {
                return Err(LldpdError::TooLong { program: self.program.clone() });
            }
        }
    }
}

/// Ended with whoever waits for it.
struct Running(Child);

impl Running {
    /// How it ended. One that has closed its output and goes on is ended.
    fn end(&mut self, limit: Duration) -> std::io::Result<std::process::ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.kill()?;
        self.0.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has mostly ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `lldpcli -f json0 show neighbors`: lists of one entry where there is one; what lldpd does not know is absent.
#[derive(Deserialize)]
struct Answer {
    lldp: Vec<Interfaces>,
}

#[derive(Deserialize)]
struct Interfaces {
    #[serde(default)]
    interface: Vec<Interface>,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    /// `LLDP`, or another protocol that the daemon understands too (CDP, EDP, FDP, SONMP).
    #[serde(default)]
    via: String,
    #[serde(default)]
    chassis: Vec<Chassis>,
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Deserialize)]
struct Chassis {
    #[serde(default)]
    name: Vec<Value>,
}

#[derive(Deserialize)]
struct Port {
    #[serde(default)]
    id: Vec<Value>,
    #[serde(default)]
    descr: Vec<Value>,
}

#[derive(Deserialize)]
struct Value {
    /// `ifname`, `local`, `mac`, ...
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    value: String,
}

/// The neighbours in an answer of lldpcli: those that say their name and their port over LLDP, by the same rule as in a frame.
///
/// # Errors
/// It is no such answer.
pub fn neighbors(answer: &[u8]) -> Result<Vec<Neighbor>, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(answer)?;
    let interfaces = answer.lldp.into_iter().flat_map(|one| one.interface);
    let heard = interfaces.filter(|one| one.via == "LLDP").filter_map(|one| {
        let said = |all: &[Value]| all.iter().find_map(|value| text(value.value.as_bytes()));
        let named = |value: &&Value| matches!(value.kind.as_str(), "ifname" | "local");
        let switch = one.chassis.iter().find_map(|chassis| said(&chassis.name))?;
        let port = one.port.iter().find_map(|port| {
            let named = port.id.iter().filter(named).find_map(|value| text(value.value.as_bytes()));
            named.or_else(|| said(&port.descr))
        })?;
        Some(Neighbor { netdev: text(one.name.as_bytes())?, switch, port })
    });
    Ok(heard.take(NEIGHBORS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What lldpcli 1.0.16 printed of three cables to one switch; the first and the third port say their address, the second a name.
    const RECORDED: &str = include_str!("../../recorded/lldpcli.json0");

    fn reported(answer: &str) -> Vec<String> {
        let all = neighbors(answer.as_bytes()).unwrap();
        all.iter().map(|one| format!("{} {} {}", one.netdev, one.switch, one.port)).collect()
    }

    #[test]
    fn what_lldpcli_prints_is_neighbours() {
        assert_eq!(
            reported(RECORDED),
            ["r0 leaf-r0 Ethernet1_1", "r1 leaf-r0 Ethernet1/2", "r2 leaf-r0 Ethernet1_3"]
        );
        assert_eq!(reported("{\"lldp\":[{}]}"), [""; 0], "nobody is heard");
        assert_eq!(reported(&RECORDED.replace("\"LLDP\"", "\"CDPv2\"")), [""; 0]);
        assert_eq!(
            reported(&RECORDED.replace("\"leaf-r0\"", "\"leaf\\u0007\"")),
            [""; 0],
            "no printable name"
        );
        assert_eq!(reported(&RECORDED.replace("\"descr\"", "\"other\"")), ["r1 leaf-r0 Ethernet1/2"]);
        let error = neighbors(b"").unwrap_err();
        assert!(LldpdError::from(error).to_string().starts_with("lldpcli says no neighbours in JSON: EOF"));
    }

    fn client(script: &'static str, limit: Duration) -> Client {
        Client { program: "/bin/sh".into(), arguments: vec!["-c", script], limit }
    }

    #[test]
    fn a_client_that_hangs_floods_or_fails_is_told_of_and_ended() {
        let long = Duration::from_secs(60);
        let said = |client: Client| client.ask().map(|all| all.len()).map_err(|error| error.to_string());
        assert_eq!(said(client("echo '{\"lldp\":[{}]}'", long)), Ok(0));
        let hangs = said(client("exec sleep 1000", Duration::from_millis(20))).unwrap_err();
        assert_eq!(hangs, "/bin/sh says nothing within 20ms; restart lldpd");
        let goes_on =
            said(client("exec >/dev/null; exec sleep 1000", Duration::from_millis(20))).unwrap_err();
        assert!(goes_on.contains("ends with signal: 9"), "{goes_on}");
        let floods = said(client("exec cat /dev/zero", long)).unwrap_err();
        assert_eq!(floods, "/bin/sh says more than 1048576 bytes");
        let fails = said(client("exit 1", long)).unwrap_err();
        assert!(fails.contains("exit status: 1; lldpd answers root"), "{fails}");
        let absent = Client { program: "/no/lldpcli".into(), arguments: vec![], limit: long };
        assert!(said(absent).unwrap_err().starts_with("/no/lldpcli: "));
    }

    #[test]
    fn nobody_is_asked_where_no_daemon_listens() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Client::find(&Tree::new(dir.path())).unwrap().is_none());
        std::fs::create_dir(dir.path().join("run")).unwrap();
        std::fs::write(dir.path().join("run/lldpd.socket"), "").unwrap();
        match Client::find(&Tree::new(dir.path())) {
            Ok(client) => assert!(client.is_some_and(|client| client.program.ends_with("lldpcli"))),
            Err(error) => assert!(error.to_string().contains("install it")),
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_neighbours_or_an_error(at in 0..RECORDED.len(), byte in any::<u8>(), cut in 0..RECORDED.len()) {
            let mut answer = RECORDED.as_bytes().to_vec();
            answer[at] = byte;
            let whole = neighbors(&answer);
            prop_assert!(whole.is_err() || whole.is_ok_and(|all| all.len() <= 3));
            prop_assert!(neighbors(&RECORDED.as_bytes()[..cut.min(RECORDED.trim_end().len() - 1)]).is_err());
        }
    }
}
