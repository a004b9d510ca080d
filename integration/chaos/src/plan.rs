//! Which faults come when: a pure function of the seed, the minutes and the number of agents.
//!
//! Faults are drawn in sequences. Within a sequence they follow each other with a rest between them, so that no member of etcd is
//! hurt while another one is down by the same one; the sequences overlap as they like.

use std::fmt;

use integration_sim::rng::Rng;
use serde::{Deserialize, Serialize};

/// A process of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// One of the controllers.
    Controller(usize),
    /// Whichever of them leads when the time has come.
    Leader,
    /// A member of etcd.
    Etcd(usize),
    /// Whichever of them leads.
    EtcdLeader,
    /// The agent of a node, by number.
    Agent(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(n) => write!(f, "c{n}"),
            Self::Leader => f.write_str("leader"),
            Self::Etcd(n) => write!(f, "e{n}"),
            Self::EtcdLeader => f.write_str("etcd-leader"),
            Self::Agent(n) => write!(f, "n{n}"),
        }
    }
}

/// The kind of a fault, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Kind {
    /// SIGKILL; started again at the end.
    Kill { part: Part },
    /// SIGSTOP, and SIGCONT at the end.
    Stop { part: Part },
    /// Nothing goes between the two sides.
    Partition { a: Vec<Part>, b: Vec<Part> },
    /// What the second side sends does not reach the first.
    OneWay { a: Vec<Part>, b: Vec<Part> },
    /// Packets from the second side to the first are lost with this probability.
    Loss { a: Vec<Part>, b: Vec<Part>, percent: u64 },
    /// No byte is left on its file system; a member of etcd is killed and has to start on it.
    DiskFull { part: Part },
    /// Writes to its file system stall again and again.
    DiskSlow { part: Part },
    /// A member of etcd loses its disk, is removed, and joins anew.
    Wipe { part: Part },
    /// All of etcd's history is compacted away under whoever watches.
    Compact,
    /// The agent's certificate ends soon; it has to be renewed before.
    Certificate { part: Part },
    /// The wall clock of a process jumps, and jumps back at the end.
    Clock { part: Part, seconds: i64 },
    /// What is answered to callers that are connected is lost, and their connections are reset.
    Replies,
}

/// Names of all kinds, in the order of tables.
pub const KINDS: [&str; 12] = [
    "kill",
    "stop",
    "partition",
    "one-way",
    "loss",
    "disk-full",
    "disk-slow",
    "wipe",
    "compact",
    "certificate",
    "clock",
    "replies",
];

impl Kind {
    /// The name of the kind, as the history has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Stop { .. } => "stop",
            Self::Partition { .. } => "partition",
            Self::OneWay { .. } => "one-way",
            Self::Loss { .. } => "loss",
            Self::DiskFull { .. } => "disk-full",
            Self::DiskSlow { .. } => "disk-slow",
            Self::Wipe { .. } => "wipe",
            Self::Compact => "compact",
            Self::Certificate { .. } => "certificate",
            Self::Clock { .. } => "clock",
            Self::Replies => "replies",
        }
    }

    /// Whom it meets, for people.
    pub fn victims(&self) -> String {
        let list = |parts: &[Part]| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Kill { part }
            | Self::Stop { part }
            | Self::DiskFull { part }
            | Self::DiskSlow { part }
            | Self::Wipe { part }
            | Self::Certificate { part } => part.to_string(),
            Self::Partition { a, b } => format!("{} | {}", list(a), list(b)),
            Self::OneWay { a, b } => format!("{} <- {}", list(a), list(b)),
            Self::Loss { a, b, percent } => format!("{} <- {} {percent} %", list(a), list(b)),
            Self::Compact => "etcd".to_owned(),
            Self::Clock { part, seconds } => format!("{part} {seconds:+} s"),
            Self::Replies => "callers".to_owned(),
        }
    }

    /// Shortest and longest time that it lasts, in milliseconds.
    fn lasts(&self) -> (u64, u64) {
        match self {
            Self::Kill { .. } => (100, 3000),
            Self::Stop { .. } => (200, 6000),
            Self::Partition { .. } | Self::OneWay { .. } => (1000, 9000),
            Self::Loss { .. } | Self::Clock { .. } => (3000, 10_000),
            Self::DiskFull { .. } | Self::DiskSlow { .. } => (2000, 7000),
            Self::Certificate { .. } => (4000, 8000),
            Self::Wipe { .. } | Self::Compact => (0, 0),
            Self::Replies => (100, 1500),
        }
    }
}

/// One fault of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Milliseconds after the start.
    pub at: u64,
    /// It is healed after so many milliseconds.
    pub lasts: u64,
    /// The kind of the fault, with its parameters.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The seed of the plan.
    pub seed: u64,
    /// How long faults go on, in seconds.
    pub seconds: u64,
    /// Controllers and members of etcd.
    pub members: usize,
    /// The number of agents.
    pub agents: usize,
    /// The first so many agents have a file system of their own.
    pub agent_disks: usize,
}

/// Of a run of 30 minutes; of a shorter one as large a part of it, and at least one.
struct Share(u64);

impl Share {
    fn of(&self, thirtieths: u64) -> u64 {
        (thirtieths * self.0).div_ceil(30 * 60).max(1)
    }
}

/// All faults, by time.
pub fn plan(shape: &Shape) -> Vec<Fault> {
    let mut rng = Rng::new(shape.seed);
    let share = Share(shape.seconds);
    let window = shape.seconds * 1000;
    let tracks = [
        controllers(&mut rng, shape, &share),
        etcd(&mut rng, shape, &share),
        agents(&mut rng, shape, &share),
        network(&mut rng, shape, &share),
        (0..share.of(60)).map(|_| Kind::Replies).collect(),
        (0..share.of(30)).map(|_| Kind::Compact).collect(),
    ];
    let mut all: Vec<Fault> = tracks.into_iter().flat_map(|kinds| track(&mut rng, window, kinds)).collect();
    all.sort_by_key(|fault| fault.at);
    all
}

/// Spreads the kinds evenly over the time, in any order, each with a rest after it.
fn track(rng: &mut Rng, window: u64, mut kinds: Vec<Kind>) -> Vec<Fault> {
    for last in (1..kinds.len()).rev() {
        kinds.swap(last, rng.below(last + 1));
    }
    let slot = window / kinds.len().max(1) as u64;
    let place = |(n, kind): (usize, Kind)| {
        let at = n as u64 * slot + rng.range(0..slot * 3 / 10 + 1);
        let (shortest, longest) = kind.lasts();
        let lasts = rng.range(shortest..longest + 1).min(slot * 6 / 10);
        Fault { at, lasts, kind }
    };
    kinds.into_iter().enumerate().map(place).collect()
}

fn controllers(rng: &mut Rng, shape: &Shape, share: &Share) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let any = |rng: &mut Rng| {
        if rng.chance(500) { Part::Leader } else { Part::Controller(rng.below(shape.members)) }
    };
    kinds.extend((0..share.of(95)).map(|_| Kind::Kill { part: any(rng) }));
    kinds.extend((0..share.of(24)).map(|_| Kind::Stop { part: any(rng) }));
    kinds.extend((0..share.of(8)).map(|_| clock(rng, Part::Controller, shape.members)));
    kinds
}

/// Up to an hour, ahead or back.
fn clock(rng: &mut Rng, part: fn(usize) -> Part, count: usize) -> Kind {
    let seconds = rng.range(5..3601).cast_signed();
    let seconds = if rng.chance(500) { seconds } else { -seconds };
    Kind::Clock { part: part(rng.below(count)), seconds }
}

fn etcd(rng: &mut Rng, shape: &Shape, share: &Share) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let one = |rng: &mut Rng| Part::Etcd(rng.below(shape.members));
    let any = |rng: &mut Rng| if rng.chance(333) { Part::EtcdLeader } else { one(rng) };
    kinds.extend((0..share.of(45)).map(|_| Kind::Kill { part: any(rng) }));
    kinds.extend((0..share.of(16)).map(|_| Kind::Stop { part: any(rng) }));
    kinds.extend((0..share.of(11)).map(|_| Kind::DiskFull { part: one(rng) }));
    kinds.extend((0..share.of(11)).map(|_| Kind::DiskSlow { part: one(rng) }));
    kinds.extend((0..share.of(3)).map(|_| Kind::Wipe { part: one(rng) }));
    kinds
}

fn agents(rng: &mut Rng, shape: &Shape, share: &Share) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let any = |rng: &mut Rng| Part::Agent(rng.below(shape.agents));
    kinds.extend((0..share.of(100)).map(|_| Kind::Kill { part: any(rng) }));
    kinds.extend((0..share.of(24)).map(|_| Kind::Stop { part: any(rng) }));
    kinds.extend((0..share.of(6)).map(|_| Kind::Certificate { part: any(rng) }));
    kinds.extend((0..share.of(6)).map(|_| clock(rng, Part::Agent, shape.agents)));
    if shape.agent_disks > 0 {
        let small = |rng: &mut Rng| Part::Agent(rng.below(shape.agent_disks));
        kinds.extend((0..share.of(4)).map(|_| Kind::DiskFull { part: small(rng) }));
    }
    kinds
}

fn network(rng: &mut Rng, shape: &Shape, share: &Share) -> Vec<Kind> {
    let mut kinds = Vec::new();
    kinds.extend((0..share.of(30)).map(|_| {
        let (a, b) = sides(rng, shape);
        Kind::Partition { a, b }
    }));
    kinds.extend((0..share.of(30)).map(|_| {
        let (a, b) = sides(rng, shape);
        let (a, b) = if rng.chance(500) { (a, b) } else { (b, a) };
        Kind::OneWay { a, b }
    }));
    kinds.extend((0..share.of(16)).map(|_| {
        let (a, b) = sides(rng, shape);
        Kind::Loss { a, b, percent: rng.range(3..31) }
    }));
    kinds
}

/// Two sides between which something may go wrong.
fn sides(rng: &mut Rng, shape: &Shape) -> (Vec<Part>, Vec<Part>) {
    let controllers = || (0..shape.members).map(Part::Controller);
    let members = || (0..shape.members).map(Part::Etcd);
    let agents = || (0..shape.agents).map(Part::Agent);
    let one = rng.below(shape.members);
    let but = |part: Part| move |other: &Part| *other != part;
    match rng.range(0..8) {
        0 => (vec![Part::Controller(one)], members().collect()),
        1 => (vec![Part::Leader], members().collect()),
        2 => (vec![Part::Leader], controllers().chain(agents()).collect()),
        3 => (vec![Part::Etcd(one)], members().filter(but(Part::Etcd(one))).collect()),
        // Also from whoever asks it, so that it leads nobody.
        4 => (vec![Part::EtcdLeader], members().chain(controllers()).collect()),
        5 => {
            let (half, rest): (Vec<Part>, Vec<Part>) = agents().partition(|_| rng.chance(500));
            if half.is_empty() { (rest, controllers().collect()) } else { (half, controllers().collect()) }
        }
        6 => (vec![Part::Agent(rng.below(shape.agents))], controllers().chain(agents()).collect()),
        _ => (vec![Part::Controller(one)], agents().collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shape(seed: u64, seconds: u64) -> Shape {
        Shape { seed, seconds, members: 3, agents: 32, agent_disks: 2 }
    }

    fn counts(plan: &[Fault]) -> BTreeMap<&'static str, usize> {
        plan.iter().fold(BTreeMap::new(), |mut counts, fault| {
            *counts.entry(fault.kind.name()).or_default() += 1;
            counts
        })
    }

    #[test]
    fn a_seed_is_one_plan() {
        assert_eq!(plan(&shape(7, 600)), plan(&shape(7, 600)));
        assert_ne!(plan(&shape(7, 600)), plan(&shape(8, 600)));
    }

    #[test]
    fn half_an_hour_has_faults_of_every_kind_and_more_than_asked_for() {
        for seed in 0..50 {
            let counts = counts(&plan(&shape(seed, 1800)));
            assert!(KINDS.iter().all(|kind| counts.contains_key(kind)), "seed {seed}: {counts:?}");
            assert!(counts["kill"] >= 220 && counts["stop"] >= 55, "seed {seed}: {counts:?}");
            assert!(counts["partition"] + counts["one-way"] >= 55, "seed {seed}: {counts:?}");
            assert!(counts["disk-full"] + counts["disk-slow"] >= 22, "seed {seed}: {counts:?}");
        }
    }

    #[test]
    fn a_minute_has_every_kind_too_and_all_are_healed_in_time() {
        for seconds in [60, 90, 600, 1800] {
            for seed in 0..50 {
                let plan = plan(&shape(seed, seconds));
                assert!(KINDS.iter().all(|kind| counts(&plan).contains_key(kind)), "seed {seed}");
                assert!(plan.iter().all(|fault| fault.at + fault.lasts <= seconds * 1000), "seed {seed}");
            }
        }
    }

    /// More would take the majority away for as long as the faults last.
    #[test]
    fn no_two_members_of_etcd_are_hurt_at_once_by_their_own_track() {
        let hurts = |fault: &&Fault| match fault.kind {
            Kind::Kill { part }
            | Kind::Stop { part }
            | Kind::DiskFull { part }
            | Kind::DiskSlow { part }
            | Kind::Wipe { part } => {
                matches!(part, Part::Etcd(_) | Part::EtcdLeader)
            }
            _ => false,
        };
        for seed in 0..50 {
            let plan = plan(&shape(seed, 1800));
            let mut until = 0;
            for fault in plan.iter().filter(hurts) {
                assert!(fault.at >= until, "seed {seed}: {fault:?}");
                until = fault.at + fault.lasts;
            }
        }
    }
}
