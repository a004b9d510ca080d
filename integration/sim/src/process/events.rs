//! What supervisors, engines and ranks do.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use node_agent_core::{
    Key, Report, Snapshot,
    supervisor::{self, Action, EngineEnd, Event as Sup, Signal},
};
use proto_model::{
    Assignment, Certify, DesiredState, Measured, NodePlace, Observed, PairReport, PathMeasurement, PortGid,
    PortReport, RailBytes, RailEndpoint, RankExit, RunResult,
};

use crate::world::{Event, World};

use super::{Engine, Supervised, plan_of};

/// An engine gives up connecting after this long.
const CONNECT_MS: u64 = 15_000;
/// How often a supervisor looks at its clock while it waits for something.
const TICK_MS: u64 = 500;

impl World {
    /// The agent starts a supervisor.
    pub fn spawn_supervisor(&mut self, node: usize, assignment: Assignment) {
        let key = Key::of(&assignment);
        let DesiredState::Prepared { spec, placement, .. } = assignment.desired else {
            self.violated(format!("n{node} spawns {key} without the desired state PREPARED"));
            return;
        };
        if self.noisy() && self.rng.chance(10) {
            let report = Report::SpawnFailed { message: "fork: out of memory".to_owned() };
            self.after(5, Event::FromSupervisor(node, key, Box::new(report)));
            return;
        }
        if !self.nodes[node].spawned.insert(key) {
            self.violated(format!("n{node} spawns a second supervisor for {key}"));
        }
        let name = &self.nodes[node].name;
        let Some(place) = placement.nodes.iter().find(|place| place.node == *name).cloned() else {
            self.violated(format!("n{node} is told of {key}, which is not placed there"));
            return;
        };
        let ranks: Vec<u32> =
            placement.ranks.iter().filter(|rank| rank.node == *name).map(|rank| rank.rank).collect();
        let (run_ms, failing) = plan_of(&spec);
        let drained = self.nodes[node].agent.as_ref().map(|agent| agent.drained()).unwrap_or_default();
        let supervised = Supervised {
            alive: true,
            durable: Snapshot::default(),
            place,
            engine: Engine::default(),
            ranks: BTreeMap::new(),
            state: supervisor::State::new(ranks).with_drained(drained),
            placement,
            run_ms,
            failing,
            ticking: false,
        };
        self.nodes[node].supervised.insert(key, supervised);
        let wait = self.rng.range(1..20);
        self.after(wait, Event::Supervisor(node, key, Sup::Begin));
    }

    fn supervised(&mut self, node: usize, key: Key) -> Option<&mut Supervised> {
        self.nodes[node].supervised.get_mut(&key)
    }

    /// Something happens to a supervisor: its core decides, its shell does it.
    pub fn supervisor(&mut self, node: usize, key: Key, event: Sup) {
        let now = self.time();
        let Some(supervised) = self.supervised(node, key).filter(|supervised| supervised.alive) else {
            return;
        };
        if matches!(event, Sup::Tick) {
            supervised.ticking = false;
        }
        for action in supervisor::step(&mut supervised.state, event, now) {
            self.supervisor_acts(node, key, action);
        }
        let Some(supervised) = self.supervised(node, key) else { return };
        let waits = matches!(
            supervised.state.snapshot().state,
            Observed::Preparing | Observed::Starting | Observed::Stopping
        );
        if supervised.alive && waits && !supervised.ticking {
            supervised.ticking = true;
            self.after(TICK_MS, Event::Supervisor(node, key, Sup::Tick));
        }
    }

    fn supervisor_acts(&mut self, node: usize, key: Key, action: Action) {
        match action {
            Action::SpawnEngine => self.spawn_engine(node, key),
            Action::ConnectEngine(peers) => {
                let now = self.now;
                if let Some(supervised) = self.supervised(node, key) {
                    supervised.engine.peers = peers;
                    supervised.engine.connecting_since = Some(now);
                }
                self.after(10, Event::EngineLooks(node, key));
            }
            Action::CertifyEngine(_, certify) => self.measure(node, key, &certify),
            Action::SpawnRanks => self.spawn_ranks(node, key),
            Action::SignalTree(signal) => self.signal(node, key, signal),
            Action::DrainEngine(rails) => {
                self.after(1, Event::Supervisor(node, key, Sup::EngineDrained(rails)));
            }
            Action::ReadRails => {
                let reported = match self.engine_rails(node, key) {
                    Some(reports) => Sup::Rails { reports, choices: Vec::new() },
                    None => Sup::RailsSilent,
                };
                self.after(1, Event::Supervisor(node, key, reported));
            }
            Action::ReadStats => {
                let rails = self.nodes[node].supervised.get(&key).map(|supervised| {
                    let moved = |rail| RailBytes { rail, tx_bytes: 1, rx_bytes: 1 };
                    supervised.placement.rails.iter().copied().map(moved).collect()
                });
                self.after(1, Event::Supervisor(node, key, Sup::Stats(rails.unwrap_or_default())));
            }
            Action::StopEngine(_) => {
                // Now and then it hangs, and is killed.
                if self.rng.chance(970) {
                    let wait = self.rng.range(2..60);
                    self.end_engine_later(node, key, wait, EngineEnd::Clean);
                }
            }
            Action::KillEngine => self.end_engine_later(node, key, 5, EngineEnd::Failed),
            Action::Note(_) => {}
            Action::Publish => {
                let wait = self.rng.range(1..10);
                let Some(supervised) = self.supervised(node, key) else { return };
                let snapshot = supervised.state.snapshot().clone();
                supervised.durable.clone_from(&snapshot);
                self.after(wait, Event::FromSupervisor(node, key, Box::new(Report::State(snapshot))));
            }
            Action::Exit => {
                if let Some(supervised) = self.supervised(node, key) {
                    supervised.alive = false;
                    if supervised.uses() {
                        self.violated(format!(
                            "the supervisor of {key} on n{node} ends before its processes"
                        ));
                    }
                }
            }
        }
    }

    fn spawn_engine(&mut self, node: usize, key: Key) {
        let number = self.number();
        let Some(supervised) = self.supervised(node, key) else { return };
        supervised.engine = Engine { up: true, number, ..Engine::default() };
        self.check_use(node, key);
        if self.noisy() && self.rng.chance(15) {
            self.end_engine_later(node, key, 30, EngineEnd::Failed);
            return;
        }
        let slow = self.noisy() && self.rng.chance(20);
        let wait = if slow { self.rng.range(5_000..25_000) } else { self.rng.range(20..250) };
        let Some(supervised) = self.supervised(node, key) else { return };
        let port = |rail: u32| {
            // The address carries the engine's number, so that a stale one is noticed.
            let [_, _, _, _, _, b, c, d] = number.to_be_bytes();
            let address =
                SocketAddr::from((Ipv4Addr::new(10, b, c, d), u16::try_from(rail + 1).unwrap_or(1)));
            RailEndpoint { rail, address }
        };
        let endpoints = supervised.placement.rails.iter().copied().map(port).collect();
        self.after(wait, Event::Supervisor(node, key, Sup::EngineListening(endpoints)));
    }

    /// An engine's process ends: as it was asked to, or otherwise.
    fn end_engine_later(&mut self, node: usize, key: Key, wait: u64, end: EngineEnd) {
        let number = self.nodes[node].supervised.get(&key).map_or(0, |supervised| supervised.engine.number);
        self.after(wait, Event::Fault(crate::faults::Fault::EngineEnds { node, key, number, end }));
    }

    /// An engine's process is gone.
    pub fn engine_ends(&mut self, node: usize, key: Key, number: u64, end: EngineEnd) {
        let Some(supervised) = self.supervised(node, key) else { return };
        if !supervised.engine.up || supervised.engine.number != number {
            return;
        }
        supervised.engine.up = false;
        let clean = end == EngineEnd::Clean;
        supervised.engine.broke = !clean;
        let ranks: Vec<u32> =
            supervised.ranks.iter().filter(|(_, alive)| **alive).map(|(rank, _)| *rank).collect();
        let nodes = supervised.placement.nodes.clone();
        self.after(1, Event::Supervisor(node, key, Sup::EngineExited { how: "ended".to_owned(), end }));
        if clean {
            return;
        }
        self.notify(|| format!("n{node}: engine of {key} is gone"));
        for rank in ranks {
            let wait = self.rng.range(1..1500);
            self.after(wait, Event::RankEnds(node, key, rank, 1));
        }
        for peer in self.indices(&nodes) {
            let wait = self.rng.range(20..600);
            self.after(wait, Event::EngineLooks(peer, key));
        }
    }

    fn indices(&self, places: &[NodePlace]) -> Vec<usize> {
        places.iter().filter_map(|place| self.nodes.iter().position(|node| node.name == place.node)).collect()
    }

    /// An engine looks at its peers: while it connects to them, and when one was lost.
    pub fn engine_checks(&mut self, node: usize, key: Key) {
        let now = self.now;
        let Some(supervised) = self.nodes[node].supervised.get(&key) else { return };
        let engine = &supervised.engine;
        if !engine.up || (engine.connecting_since.is_none() && !engine.connected) {
            return;
        }
        let (mut ready, mut lost) = (true, None);
        for peer in &engine.peers {
            let other =
                self.nodes.iter().find(|node| node.name == peer.node).and_then(|n| n.supervised.get(&key));
            let Some(other) = other else {
                (ready, lost) = (false, lost.or(Some(peer.node.clone())));
                continue;
            };
            let [_, _, _, _, _, b, c, d] = other.engine.number.to_be_bytes();
            let right = peer.endpoints.iter().all(|at| at.address.ip() == Ipv4Addr::new(10, b, c, d));
            let waits = other.engine.connecting_since.is_some() || other.engine.connected;
            ready &= other.engine.up && right && waits;
            if !other.engine.up && other.engine.broke {
                lost = lost.or(Some(peer.node.clone()));
            }
        }
        let since = engine.connecting_since;
        match since {
            Some(since) if ready => {
                if let Some(supervised) = self.supervised(node, key) {
                    supervised.engine.connecting_since = None;
                    supervised.engine.connected = true;
                }
                let _ = since;
                self.after(1, Event::Supervisor(node, key, Sup::EngineConnected));
            }
            Some(since) if lost.is_some() || now > since + CONNECT_MS => {
                let failed = Sup::EngineFailed("a peer does not answer".to_owned());
                self.after(1, Event::Supervisor(node, key, failed));
                self.end_engine_later(node, key, 5, EngineEnd::Failed);
            }
            Some(_) => self.after(100, Event::EngineLooks(node, key)),
            None if lost.is_some() => {
                let end = EngineEnd::PeerLost { peer: lost };
                if self.rng.chance(500) {
                    let broken = Sup::EngineBroken { why: "a peer was lost".to_owned(), end };
                    self.after(1, Event::Supervisor(node, key, broken));
                } else {
                    self.end_engine_later(node, key, 5, end);
                }
            }
            None => {}
        }
    }

    /// The rail that a NIC of a place is cabled to.
    fn cabled_to(&self, place: &NodePlace, rail: u32) -> Option<u32> {
        let nic = place.nics.iter().find(|nic| nic.rail == rail)?;
        let own: u32 = nic.device.strip_prefix("mlx5_")?.parse().ok()?;
        let crossed = self.nodes.iter().any(|node| node.name == place.node && node.crossed);
        Some(if crossed && own < 2 { 1 - own } else { own })
    }

    /// Whether the NICs of a gang on each rail are cabled to the same one.
    pub fn is_straight(&self, gang: &[NodePlace], rails: &[u32]) -> bool {
        rails.iter().all(|rail| {
            let mut all = gang.iter().map(|place| self.cabled_to(place, *rail));
            let first = all.next();
            all.all(|other| Some(other) == first)
        })
    }

    /// Which rail of a peer answers on this one.
    fn answering(&self, gang: &[NodePlace], own: usize, peer: u32, rail: u32) -> Option<u32> {
        let (own, peer) = (gang.get(own)?, gang.get(peer as usize)?);
        let plane = self.cabled_to(own, rail)?;
        let mut rails = peer.nics.iter().map(|nic| nic.rail);
        rails.find(|other| self.cabled_to(peer, *other) == Some(plane))
    }

    /// What an engine measures: all is well, but now and then a port has no GID, cables are swapped, a rail looks slow or it
    /// takes far too long.
    fn measure(&mut self, node: usize, key: Key, certify: &Certify) {
        let (unfit, late) = (self.noisy() && self.rng.chance(30), self.noisy() && self.rng.chance(10));
        let slow = self.noisy() && self.rng.chance(100);
        let wait = if late { 60_000 } else { self.rng.range(5..400) };
        let Some(supervised) = self.supervised(node, key) else { return };
        let (rails, gang) = (supervised.placement.rails.clone(), supervised.placement.nodes.clone());
        let own = gang.iter().position(|place| place.node == supervised.place.node).unwrap_or_default();
        let mbps = Some(if slow { 200 } else { 2000 });
        let way =
            PathMeasurement { sent: 100, lost: 0, mtu: Some(9000), dscp: Some(26), mbps, at_least: false };
        let pairs = certify.turns.iter().filter(|turn| turn.first).flat_map(|turn| {
            let (world, gang) = (&*self, &gang);
            rails.iter().map(move |rail| {
                let answers = world.answering(gang, own, turn.peer, *rail);
                let right = answers == Some(*rail);
                let way = if right {
                    way
                } else {
                    PathMeasurement { sent: 16, lost: 16, ..PathMeasurement::default() }
                };
                PairReport {
                    round: turn.round,
                    peer: turn.peer,
                    rail: *rail,
                    there: way,
                    back: way,
                    rtt_us: right.then_some(50),
                    crossed: answers.filter(|_| !right),
                }
            })
        });
        let gid = unfit.then_some(PortGid::Missing);
        let port = |rail: &u32| PortReport {
            rail: *rail,
            mtu: Some(9000),
            dscp: Some(26),
            gid,
            priority_bytes: None,
        };
        let measured = Measured {
            series: certify.series,
            pairs: pairs.collect(),
            ports: rails.iter().map(port).collect(),
            unable: String::new(),
        };
        self.after(wait, Event::Supervisor(node, key, Sup::Measured(measured)));
    }

    fn spawn_ranks(&mut self, node: usize, key: Key) {
        self.check_start(node, key);
        self.check_certified(node, key);
        let name = self.nodes[node].name.clone();
        let Some(supervised) = self.supervised(node, key) else { return };
        let ranks: Vec<u32> = supervised
            .placement
            .ranks
            .iter()
            .filter(|rank| rank.node == name)
            .map(|rank| rank.rank)
            .collect();
        supervised.ranks = ranks.iter().map(|rank| (*rank, true)).collect();
        let (run_ms, failing) = (supervised.run_ms, supervised.failing);
        self.check_use(node, key);
        for rank in ranks {
            if self.noisy() && self.rng.chance(3) {
                if let Some(supervised) = self.supervised(node, key) {
                    supervised.ranks.insert(rank, false);
                }
                let failed = Sup::RankFailed { rank, message: "no such program".to_owned() };
                self.after(1, Event::Supervisor(node, key, failed));
                continue;
            }
            self.after(1, Event::Supervisor(node, key, Sup::RankStarted(rank)));
            let code = failing.filter(|(failing, _)| *failing == rank).map_or(0, |(_, code)| code);
            let wait =
                if code == 0 { run_ms + self.rng.range(2..50) } else { self.rng.range(2..run_ms.max(3)) };
            self.after(wait.max(2), Event::RankEnds(node, key, rank, code));
        }
    }

    /// Every living process of the ranks is signalled. Some do not mind SIGTERM.
    fn signal(&mut self, node: usize, key: Key, signal: Signal) {
        let Some(supervised) = self.supervised(node, key) else { return };
        let ranks: Vec<u32> =
            supervised.ranks.iter().filter(|(_, alive)| **alive).map(|(rank, _)| *rank).collect();
        if ranks.is_empty() {
            self.after(2, Event::Supervisor(node, key, Sup::TreeEmpty));
        }
        for rank in ranks {
            let (status, wait) = match signal {
                Signal::Kill => (-9, self.rng.range(2..20)),
                Signal::Term | Signal::Other(_) if self.rng.chance(100) => continue,
                Signal::Term | Signal::Other(_) => (-15, self.rng.range(2..1000)),
            };
            self.after(wait, Event::RankEnds(node, key, rank, status));
        }
    }

    /// A rank's process ends: by itself, or by a signal (negative).
    pub fn rank_ends(&mut self, node: usize, key: Key, rank: u32, code: i32) {
        let time = self.time();
        let Some(supervised) = self.supervised(node, key) else { return };
        let Some(alive) = supervised.ranks.get_mut(&rank) else { return };
        if !std::mem::take(alive) {
            return;
        }
        let empty = supervised.ranks.values().all(|alive| !*alive);
        let (code, signal) = if code < 0 { (0, -code) } else { (code, 0) };
        if rank == 0 && code == 0 && signal == 0 {
            self.supervisor(node, key, Sup::Result(RunResult { verified: true, ..RunResult::default() }));
        }
        self.supervisor(
            node,
            key,
            Sup::RankExited(RankExit { rank, code, signal, time, usage: proto_model::RankUsage::default() }),
        );
        if empty {
            self.after(1, Event::Supervisor(node, key, Sup::TreeEmpty));
        }
    }

    /// A supervisor's process is killed: its engine goes with it, its ranks live until the agent reaps them.
    pub fn kill_supervisor(&mut self, node: usize, key: Key) {
        let Some(supervised) = self.supervised(node, key).filter(|supervised| supervised.alive) else {
            return;
        };
        supervised.alive = false;
        self.notify(|| format!("n{node}: supervisor of {key} is killed"));
        self.end_engine_later(node, key, 20, EngineEnd::Failed);
        self.after(400, Event::FromSupervisor(node, key, Box::new(Report::Lost)));
    }

    /// The agent begins to kill what a lost supervisor has left.
    pub fn reap(&mut self, node: usize, key: Key) {
        let wait = self.rng.range(5..300);
        self.after(wait, Event::Fault(crate::faults::Fault::Reap(node, key)));
    }

    /// Whether a little goes wrong at any time.
    fn noisy(&self) -> bool {
        self.config.noise && !self.calm
    }

    /// A planted bug: what a lost supervisor had left is reported ended, and lives.
    pub fn reaped_nothing(&mut self, node: usize, key: Key) {
        let Some(supervised) = self.supervised(node, key) else { return };
        let durable = supervised.durable.clone();
        self.after(1, Event::FromSupervisor(node, key, Box::new(Report::Reaped(durable))));
    }

    /// All that a lost supervisor had left is killed.
    pub fn reaped(&mut self, node: usize, key: Key) {
        let time = self.time();
        let Some(supervised) = self.supervised(node, key) else {
            self.after(1, Event::FromSupervisor(node, key, Box::new(Report::Reaped(Snapshot::default()))));
            return;
        };
        supervised.engine.broke |= supervised.engine.up;
        supervised.engine.up = false;
        for (rank, alive) in &mut supervised.ranks {
            if std::mem::take(alive) {
                supervised.durable.exits.push(RankExit {
                    rank: *rank,
                    code: 0,
                    signal: 9,
                    time,
                    usage: proto_model::RankUsage::default(),
                });
            }
        }
        let durable = supervised.durable.clone();
        let nodes = supervised.placement.nodes.clone();
        for peer in self.indices(&nodes) {
            let wait = self.rng.range(5..300);
            self.after(wait, Event::EngineLooks(peer, key));
        }
        self.after(1, Event::FromSupervisor(node, key, Box::new(Report::Reaped(durable))));
    }

    /// The server loses its power: all processes are gone, disks keep what they have.
    pub fn power_off(&mut self, node: usize) {
        self.agent_dies(node, None);
        self.nodes[node].powered = false;
        let mut lost = Vec::new();
        for (key, supervised) in &mut self.nodes[node].supervised {
            if supervised.lives() {
                lost.push((*key, supervised.placement.nodes.clone()));
            }
            supervised.alive = false;
            supervised.engine.broke |= supervised.engine.up;
            supervised.engine.up = false;
            supervised.ranks.values_mut().for_each(|alive| *alive = false);
        }
        for (key, nodes) in lost {
            for peer in self.indices(&nodes) {
                let wait = self.rng.range(500..4000);
                self.after(wait, Event::EngineLooks(peer, key));
            }
        }
    }
}
