//! Brings the plan's faults about, each in its time, and heals them.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use proto_rpc::{Ca, Identity, KeyRequest};
use proto_wire::v1::{self, node_service_client::NodeServiceClient};
use rustix::process::Signal;

use crate::{
    callers::Callers,
    disks::Disk,
    history::What,
    members,
    net::{self, Verdict},
    parts::{Parts, peer_url},
    plan::{Fault, Kind, Part},
};

/// How long changes of etcd's membership are tried.
const MEMBERSHIP: Duration = Duration::from_secs(25);

/// Everything that faults are made of.
pub struct Nemesis {
    /// The processes that faults strike.
    pub parts: Arc<Parts>,
    /// The doors between callers and controllers, which can lose answers.
    pub callers: Callers,
    /// The runtime on which etcd and the controllers are asked who leads.
    pub runtime: tokio::runtime::Handle,
}

/// The result of a fault.
type Outcome = Result<String, String>;

impl Nemesis {
    /// Does all of it; gives the time of the last healing. A fault that cannot be brought about is recorded and not counted.
    pub fn run(self: &Arc<Self>, plan: &[Fault]) -> Instant {
        let begin = Instant::now();
        let mut running = Vec::new();
        for (number, fault) in plan.iter().cloned().enumerate() {
            if let Some(wait) = Duration::from_millis(fault.at).checked_sub(begin.elapsed()) {
                // The plan's times, not a wait for anything.
                thread::sleep(wait);
            }
            let this = Arc::clone(self);
            running.push(thread::spawn(move || this.one(number, &fault)));
        }
        for fault in running {
            // One that broke has recorded less than it should; counts show it.
            let _ = fault.join();
        }
        Instant::now()
    }

    fn one(&self, number: usize, fault: &Fault) {
        let kind = self.resolved(&fault.kind, number);
        let lasts = Duration::from_millis(fault.lasts);
        match &kind {
            Kind::Kill { part } => self.kill(number, &kind, *part, lasts),
            Kind::Stop { part } => self.stop(number, &kind, *part, lasts),
            Kind::Partition { a, b } => self.cut(number, &kind, (a, b), Verdict::Shut, lasts),
            Kind::OneWay { a, b } => self.cut(number, &kind, (a, b), Verdict::Deaf, lasts),
            Kind::Loss { a, b, percent } => self.cut(number, &kind, (a, b), Verdict::Lossy(*percent), lasts),
            Kind::DiskFull { part } => self.full(number, &kind, *part, lasts),
            Kind::DiskSlow { part } => {
                let stalled = self.disk(*part).stall(lasts);
                self.report(number, &kind, stalled.map(|times| format!("{times} stalls")));
            }
            Kind::Wipe { part } => self.wipe(number, &kind, *part),
            Kind::Compact => {
                let compacted = (0..self.parts.members).find_map(|by| members::compact(by).ok());
                let note = compacted.map(|revision| format!("to {revision}"));
                self.report(number, &kind, note.ok_or_else(|| "no member did it".to_owned()));
            }
            Kind::Certificate { part } => self.certificate(number, &kind, *part, lasts),
            Kind::Clock { part, seconds } => self.clock(number, &kind, *part, *seconds, lasts),
            Kind::Replies => self.replies(number, &kind, lasts),
        }
    }

    fn report(&self, number: usize, kind: &Kind, outcome: Outcome) {
        let (done, note) = match outcome {
            Ok(note) => (true, note),
            Err(note) => (false, note),
        };
        let (kind, victims) = (kind.name().to_owned(), kind.victims());
        self.parts.history.add(What::Fault { number, kind, victims, done, note });
    }

    fn healed(&self, number: usize, note: String) {
        self.parts.history.add(What::Healed { number, note });
    }

    /// With parts in place of roles; any part where nobody is in that role.
    fn resolved(&self, kind: &Kind, number: usize) -> Kind {
        let leader = || {
            let asked = self.runtime.block_on(async {
                let client = self.callers.client(0..self.parts.members).ok()?;
                self.callers.health(&client).await.ok()
            });
            asked.map(|health| health.leader).unwrap_or_default()
        };
        let any = number % self.parts.members;
        let one = |part: &Part| match part {
            Part::Leader => self.parts.resolve(*part, &leader()).unwrap_or(Part::Controller(any)),
            part => self.parts.resolve(*part, "").unwrap_or(Part::Etcd(any)),
        };
        let all = |parts: &[Part]| parts.iter().map(one).collect::<Vec<Part>>();
        match kind {
            Kind::Kill { part } => Kind::Kill { part: one(part) },
            Kind::Stop { part } => Kind::Stop { part: one(part) },
            Kind::Partition { a, b } => Kind::Partition { a: all(a), b: all(b) },
            Kind::OneWay { a, b } => Kind::OneWay { a: all(a), b: all(b) },
            Kind::Loss { a, b, percent } => Kind::Loss { a: all(a), b: all(b), percent: *percent },
            other => other.clone(),
        }
    }

    fn kill(&self, number: usize, kind: &Kind, part: Part, lasts: Duration) {
        match self.parts.kill(part) {
            Ok(true) => self.report(number, kind, Ok(String::new())),
            Ok(false) => self.report(number, kind, Err("it did not run".to_owned())),
            Err(error) => self.report(number, kind, Err(error)),
        }
        thread::sleep(lasts);
        let started = self.parts.start(part);
        self.healed(number, started.err().unwrap_or_default());
    }

    fn stop(&self, number: usize, kind: &Kind, part: Part, lasts: Duration) {
        match self.parts.signal(part, Signal::STOP) {
            Ok(true) => self.report(number, kind, Ok(String::new())),
            Ok(false) => return self.report(number, kind, Err("it did not run".to_owned())),
            Err(error) => return self.report(number, kind, Err(error)),
        }
        thread::sleep(lasts);
        let goes = self.parts.signal(part, Signal::CONT);
        self.healed(number, goes.err().unwrap_or_default());
    }

    fn cut(&self, number: usize, kind: &Kind, (a, b): (&[Part], &[Part]), how: Verdict, lasts: Duration) {
        let nft = &self.parts.programs.nft;
        let cut = net::hurt(nft, number, a, b, how);
        self.report(number, kind, cut.map(|()| String::new()));
        thread::sleep(lasts);
        self.healed(number, net::heal(nft, number, a).join("; "));
    }

    fn disk(&self, part: Part) -> Disk {
        Disk::at(&self.parts.dir.join("disks"), &part.to_string())
    }

    fn full(&self, number: usize, kind: &Kind, part: Part, lasts: Duration) {
        let disk = self.disk(part);
        let filled = disk.fill();
        self.report(number, kind, filled.map(|mib| format!("{mib} MiB")));
        if matches!(part, Part::Etcd(_)) {
            // What it has preallocated would last for long: it must find its disk full when it starts.
            let killed = self.parts.kill(part).and_then(|_| self.parts.start(part));
            if let Err(error) = killed {
                self.healed(number, error);
            }
        }
        thread::sleep(lasts);
        self.healed(number, disk.empty().err().unwrap_or_default());
    }

    fn wipe(&self, number: usize, kind: &Kind, part: Part) {
        let Part::Etcd(victim) = part else { return };
        let others = || (0..self.parts.members).filter(|other| *other != victim);
        let repeat = |what: &dyn Fn(usize) -> Result<(), String>| {
            let begin = Instant::now();
            loop {
                let done = others().map(what).find(Result::is_ok);
                match done {
                    Some(_) => return true,
                    None if begin.elapsed() > MEMBERSHIP => return false,
                    None => thread::sleep(Duration::from_millis(300)),
                }
            }
        };
        // With one of the others away there would be no majority without it.
        let well = others().all(members::well);
        if !well {
            return self.report(number, kind, Err("another member is not well".to_owned()));
        }
        let killed = self.parts.kill(part);
        let gone = killed.is_ok() && repeat(&|by| members::remove(by, &part.to_string()));
        if !gone {
            self.report(number, kind, Err("it could not be removed".to_owned()));
            let started = self.parts.start(part);
            return self.healed(number, started.err().unwrap_or_default());
        }
        let wiped = fs::remove_dir_all(self.parts.folder(part));
        self.report(number, kind, wiped.map(|()| String::new()).map_err(|error| error.to_string()));
        let added = repeat(&|by| members::add(by, &peer_url(victim)));
        self.parts.say(part, &["--initial-cluster-state", "existing"]);
        let started = self.parts.start(part);
        let note = if added { started.err().unwrap_or_default() } else { "it could not be added".to_owned() };
        self.healed(number, note);
    }

    /// The agent comes back with a certificate that ends soon: it renews it at half of its life, or must join anew.
    fn certificate(&self, number: usize, kind: &Kind, part: Part, lasts: Duration) {
        let life = lasts * 3 / 2 + Duration::from_secs(1);
        let folder = self.parts.folder(part).join("identity");
        let replaced = self.parts.kill(part).and_then(|_| self.issue(part, &folder, life));
        let text = || fs::read_to_string(folder.join("node.pem")).unwrap_or_default();
        let short = text();
        let (started, begin) = (self.parts.start(part), Instant::now());
        let note = replaced.and(started).map(|()| format!("ends after {:.1} s", life.as_secs_f64()));
        self.report(number, kind, note);
        while text() == short && begin.elapsed() < life + Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(50));
        }
        if text() != short {
            return self.healed(number, format!("renewed after {:.1} s", begin.elapsed().as_secs_f64()));
        }
        // A fault that met it too kept it from that: the administrator lets it join anew.
        let joined = self.parts.kill(part).and_then(|_| self.token(part)).and_then(|token| {
            fs::remove_file(folder.join("node.pem")).map_err(|error| error.to_string())?;
            self.parts.say(part, &["--join-token", &token.token, "--ca-pin", &token.ca_pin]);
            self.parts.start(part)
        });
        if joined.is_err() {
            // It is tried again by whoever keeps it; without a certificate it ends at once.
            let _ = self.parts.start(part);
        }
        self.healed(number, joined.map_or_else(|error| error, |()| "joined anew".to_owned()));
    }

    fn issue(&self, part: Part, folder: &Path, life: Duration) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let authority = self.parts.folder(Part::Controller(0));
        let ca = Ca::load_or_create(&authority, "rail", SystemTime::now()).map_err(|error| text(&error))?;
        let key = KeyRequest::generate().map_err(|error| text(&error))?;
        let node = Identity::node(&part.to_string()).map_err(|error| text(&error))?;
        let issued = ca.issue(&key.csr_pem, &node, life, SystemTime::now()).map_err(|error| text(&error))?;
        fs::write(folder.join("node.key"), key.key_pem).map_err(|error| text(&error))?;
        fs::write(folder.join("node.pem"), issued.chain_pem).map_err(|error| text(&error))
    }

    fn token(&self, part: Part) -> Result<v1::CreateJoinTokenResponse, String> {
        let begin = Instant::now();
        loop {
            let asked = self.runtime.block_on(async {
                let client = self.callers.client(0..self.parts.members)?;
                let request = v1::CreateJoinTokenRequest { node: part.to_string(), lifetime: None };
                let token = NodeServiceClient::new(client).create_join_token(request).await;
                token.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
            });
            match asked {
                Err(_) if begin.elapsed() < MEMBERSHIP => thread::sleep(Duration::from_millis(300)),
                asked => return asked,
            }
        }
    }

    fn replies(&self, number: usize, kind: &Kind, lasts: Duration) {
        let lost: Vec<_> = self.callers.doors.iter().map(|door| door.lose()).collect();
        let count: usize = lost.iter().map(|old| old.connections()).sum();
        thread::sleep(lasts);
        drop(lost);
        let none = || "nobody was connected".to_owned();
        self.report(number, kind, if count > 0 { Ok(format!("{count} connections")) } else { Err(none()) });
    }

    fn clock(&self, number: usize, kind: &Kind, part: Part, seconds: i64, lasts: Duration) {
        if self.parts.programs.clock.is_none() {
            return self.report(number, kind, Err("skipped: there is no libfaketime".to_owned()));
        }
        let file = self.parts.clock(part);
        let set = |seconds: i64| fs::write(&file, format!("{seconds:+}")).map_err(|error| error.to_string());
        self.report(number, kind, set(seconds).map(|()| String::new()));
        thread::sleep(lasts);
        self.healed(number, set(0).err().unwrap_or_default());
    }
}

/// Whether something listens there.
pub fn listens(address: &str, port: u16) -> bool {
    address.parse::<Ipv4Addr>().is_ok_and(|address| {
        TcpStream::connect_timeout(&(address, port).into(), Duration::from_secs(1)).is_ok()
    })
}
