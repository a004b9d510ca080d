//! Which tests a fabric is tried with. Pure: settings in, steps out.

use std::collections::BTreeSet;

use proto_wire::v1::collective::Op;
use serde::{Deserialize, Serialize};

/// Parts of a validation, in the order in which they are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Pairs of servers, each rail with its neighbours'.
    Baseline,
    /// Patterns that hurt fabrics: incast, microbursts, all to all.
    Synthetic,
    /// What training does: all-reduces of every size.
    Workload,
    /// Rails that go under load and come back.
    Failure,
}

impl Phase {
    /// All phases, in the order in which they are run.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Synthetic, Self::Workload, Self::Failure];

    /// The name of the phase in reports and options.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Synthetic => "synthetic",
            Self::Workload => "workload",
            Self::Failure => "failure",
        }
    }
}

/// What is tried out, and how much.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Servers, at least two.
    pub nodes: Vec<String>,
    /// Rails that all of them can use.
    pub rails: Vec<u32>,
    /// The phases to run.
    pub phases: BTreeSet<Phase>,
    /// Bytes of large messages.
    pub bytes: u64,
    /// Repetitions of each message.
    pub iterations: u32,
    /// Rounds of pairs at most; each server has another partner in each.
    pub rounds: usize,
}

/// One test: a job that is submitted and measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The phase that the test is part of.
    pub phase: Phase,
    /// What it is, for example `pair` or `all-reduce`.
    pub name: &'static str,
    /// Names of the servers that take part.
    pub nodes: Vec<String>,
    /// The operation that is measured.
    pub op: Op,
    /// Bytes of one rank's message.
    pub bytes: u64,
    /// Repetitions that are timed.
    pub iterations: u32,
    /// The algorithm that is forced; empty for the engine's own choice.
    pub algorithm: &'static str,
    /// The rail that one server's port is taken out of, while it runs.
    pub loses: Option<(String, u32)>,
}

/// Tests that are run at the same time.
pub type Step = Vec<Test>;

/// Bytes of one message of a microburst, and how many follow each other.
const BURST: (u64, u32) = (64 << 10, 200);
/// The smallest message of a sweep, and what the next is larger by.
const SWEEP: (u64, u64) = (1 << 10, 16);

/// All steps, in order.
pub fn plan(settings: &Settings) -> Vec<Step> {
    let mut steps = Vec::new();
    for phase in &settings.phases {
        match phase {
            Phase::Baseline => steps.extend(pairs(settings)),
            Phase::Synthetic => steps.extend(synthetic(settings)),
            Phase::Workload => steps.extend(sweep(settings)),
            Phase::Failure => steps.extend(losses(settings)),
        }
    }
    steps
}

fn whole(settings: &Settings, phase: Phase, name: &'static str, op: Op, bytes: u64) -> Test {
    let (nodes, iterations) = (settings.nodes.clone(), settings.iterations);
    Test { phase, name, nodes, op, bytes, iterations, algorithm: "", loses: None }
}

/// A tournament: in each round every server has one partner (one of an odd number rests), in no two rounds the same.
fn pairs(settings: &Settings) -> Vec<Step> {
    let pair = |(a, b): (usize, usize)| Test {
        nodes: vec![settings.nodes[a].clone(), settings.nodes[b].clone()],
        ..whole(settings, Phase::Baseline, "pair", Op::SendRecv, settings.bytes)
    };
    tournament(settings.nodes.len(), settings.rounds)
        .into_iter()
        .map(|round| round.into_iter().map(pair).collect())
        .collect()
}

/// Rounds of a tournament by the circle method: one stays, the others go round.
fn tournament(count: usize, most: usize) -> Vec<Vec<(usize, usize)>> {
    let seats = count + count % 2;
    let rounds = seats.saturating_sub(1).min(most);
    let seat = |round: usize, at: usize| if at == 0 { 0 } else { 1 + (at - 1 + round) % (seats - 1) };
    let round = |round: usize| {
        let met = (0..seats / 2).map(|at| (seat(round, at), seat(round, seats - 1 - at)));
        // Of an odd number somebody meets the seat that nobody has.
        met.filter(|(a, b)| *a < count && *b < count).map(|(a, b)| (a.min(b), a.max(b))).collect()
    };
    (0..rounds).map(round).filter(|round: &Vec<_>| !round.is_empty()).collect()
}

/// Every server receives from all others at once, long and in bursts.
fn synthetic(settings: &Settings) -> Vec<Step> {
    let of = |name, op, bytes| whole(settings, Phase::Synthetic, name, op, bytes);
    let incast = Test { algorithm: "direct", ..of("incast", Op::AllGather, settings.bytes) };
    let burst = Test { iterations: BURST.1, ..of("microburst", Op::AllToAll, BURST.0) };
    vec![vec![incast], vec![burst], vec![of("all-to-all", Op::AllToAll, settings.bytes)]]
}

fn sweep(settings: &Settings) -> Vec<Step> {
    let mut sizes = Vec::new();
    let mut bytes = SWEEP.0;
    while bytes < settings.bytes {
        sizes.push(bytes);
        bytes = bytes.saturating_mul(SWEEP.1);
    }
    sizes.push(settings.bytes);
    let test = |bytes| vec![whole(settings, Phase::Workload, "all-reduce", Op::AllReduce, bytes)];
    sizes.into_iter().map(test).collect()
}

/// An all-reduce with all rails, then one for each rail that the first server loses while it runs. Of a single rail none can be lost.
fn losses(settings: &Settings) -> Vec<Step> {
    let Some(first) = settings.nodes.first().filter(|_| settings.rails.len() > 1) else { return Vec::new() };
    let of = |name| whole(settings, Phase::Failure, name, Op::AllReduce, settings.bytes);
    let lost = |rail: &u32| vec![Test { loses: Some((first.clone(), *rail)), ..of("rail-loss") }];
    [vec![of("all-rails")]].into_iter().chain(settings.rails.iter().map(lost)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(nodes: usize, rails: u32, phases: &[Phase]) -> Settings {
        Settings {
            nodes: (0..nodes).map(|n| format!("n{n}")).collect(),
            rails: (0..rails).collect(),
            phases: phases.iter().copied().collect(),
            bytes: 1 << 20,
            iterations: 5,
            rounds: usize::MAX,
        }
    }

    #[test]
    fn in_a_tournament_each_meets_each_once() {
        for count in 2..40 {
            let rounds = tournament(count, usize::MAX);
            let mut met: BTreeMap<(usize, usize), u32> = BTreeMap::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for &(a, b) in round {
                    assert!(a < b && b < count && busy.insert(a) && busy.insert(b), "{count}: {round:?}");
                    *met.entry((a, b)).or_default() += 1;
                }
                assert_eq!(round.len(), count / 2, "{count}: as many at once as there can be");
            }
            assert!(met.len() == count * (count - 1) / 2 && met.values().all(|times| *times == 1), "{count}");
        }
        assert_eq!(tournament(1, 9), Vec::<Vec<_>>::new());
        assert_eq!(tournament(512, 3).len(), 3);
    }

    #[test]
    fn each_phase_has_its_tests() {
        let names = |phases: &[Phase], rails| {
            let steps = plan(&settings(3, rails, phases));
            steps
                .iter()
                .map(|step| step.iter().map(|test| test.name).collect::<Vec<_>>().join("+"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[Phase::Baseline], 2), ["pair", "pair", "pair"]);
        assert_eq!(names(&[Phase::Synthetic], 2), ["incast", "microburst", "all-to-all"]);
        assert_eq!(names(&[Phase::Workload], 2), ["all-reduce"; 4]);
        assert_eq!(names(&[Phase::Failure], 2), ["all-rails", "rail-loss", "rail-loss"]);
        assert_eq!(names(&[Phase::Failure], 1), [""; 0], "a single rail cannot be lost");
        assert_eq!(names(&Phase::ALL, 2).len(), 13);
        let sizes: Vec<u64> =
            plan(&settings(2, 1, &[Phase::Workload])).iter().map(|step| step[0].bytes).collect();
        assert_eq!(sizes, [1 << 10, 16 << 10, 256 << 10, 1 << 20]);
    }
}
