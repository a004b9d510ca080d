//! Row B11: disasters. A node dies or falls silent, all rails do, rails between two nodes are cut for good or for a while, a rank never
//! comes, leaves, or the job is stopped; while the rails flap or not. Every call of every rank that lives ends within its
//! timeout and a little, with the right bits or with a failure that says why and who.

use std::collections::BTreeMap;

use node_agent_collective::units::Time;
use node_agent_collective::{Completion, Failure, Memory, Region, Ticket, error::CauseKind};
use proto_random::Random;

use crate::caught;
use crate::problem::{Problem, way};
use crate::sim::{Net, World};
use crate::storm::Storm;

/// What a call may take beyond its timeout.
pub const SLACK: Time = Time::from_millis(100);
/// Steps of one run.
const MOST_STEPS: usize = 5_000_000;

/// What goes wrong in a run, once and for good or for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disaster {
    /// A node's process ends: its connections are closed.
    Dies,
    /// A server vanishes without a word.
    Vanishes,
    /// All rails fall silent.
    Silence,
    /// All rails between two nodes fall silent.
    Partition,
    /// All rails between two nodes are cut for good.
    Cut,
    /// The same, and they come back.
    CutAndMended,
    /// A rank stops making calls.
    Stuck,
    /// A rank's process ends.
    RankGone,
    /// The job is stopped on one node.
    Stopped,
}

const ALL: [Disaster; 9] = [
    Disaster::Dies,
    Disaster::Vanishes,
    Disaster::Silence,
    Disaster::Partition,
    Disaster::Cut,
    Disaster::CutAndMended,
    Disaster::Stuck,
    Disaster::RankGone,
    Disaster::Stopped,
];

/// The result of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Calls that ended with a failure, over all ranks.
    pub failures: usize,
    /// The most that a call took beyond its timeout.
    pub over: Time,
}

/// Runs one seed.
///
/// # Errors
/// What was late, wrong, or said nothing.
pub fn run(seed: u64) -> Result<Outcome, String> {
    caught(|| Run::new(seed).run())
}

/// When a rank posted one call and when that ended; `None` until then.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    posted: Option<Time>,
    ended: Option<Time>,
}

/// The rank and the call of each ticket.
type Tickets = BTreeMap<Ticket, (usize, usize)>;

struct Run {
    rng: Random,
    problem: Problem,
    world: World,
    net: Net,
    storm: Option<Storm>,
    buffers: Vec<Vec<(Region, Region)>>,
    disaster: Disaster,
    /// When, in steps; the nodes it strikes; the rank.
    at: usize,
    pair: (usize, usize),
    rank: usize,
    /// By rank, then by call.
    marks: Vec<Vec<Mark>>,
    /// Completions of each host that were looked at.
    checked: Vec<usize>,
    /// By host: the rank and the call of each ticket, and how many tickets it gave.
    tickets: Vec<(Tickets, u64)>,
    outcome: Outcome,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Random::new(seed ^ 0xdead_0004);
        // A job of one node has no peers to lose; every other problem will do.
        let problem =
            (0..).map(|i| Problem::new(seed.wrapping_mul(64) + i)).find(|p| p.map.iter().any(|&n| n > 0));
        let problem = problem.unwrap_or_else(|| Problem::new(seed));
        let rails = 1 + rng.index(4);
        let timeout = Time::from_millis(500 + 500 * rng.index(8) as u64);
        let (world, plan) = way(&mut rng, &problem.map, rails, timeout);
        let mut net = Net::new(&world, rng.word());
        net.hosts.iter_mut().for_each(|host| host.machine.set_plan(plan.clone()));
        let (ranks, calls, nodes) = (problem.map.len(), problem.calls.len(), world.nodes());
        let buffers =
            (0..calls).map(|at| (0..ranks).map(|r| problem.buffers(&mut net, at, r)).collect()).collect();
        let a = rng.index(nodes);
        Run {
            storm: (rng.index(2) == 0).then(|| Storm::new(seed)),
            disaster: ALL[rng.index(ALL.len())],
            at: rng.index(600),
            pair: (a, (a + 1 + rng.index(nodes - 1)) % nodes),
            rank: rng.index(ranks),
            marks: vec![vec![Mark::default(); calls]; ranks],
            checked: vec![0; nodes],
            tickets: vec![Default::default(); nodes],
            outcome: Outcome::default(),
            rng,
            problem,
            world,
            net,
            buffers,
        }
    }

    fn run(mut self) -> Result<Outcome, String> {
        let (ranks, calls) = (self.problem.map.len(), self.problem.calls.len());
        let mut next = vec![0; ranks];
        let remediate = self.at + self.rng.index(3000);
        for step in 0..MOST_STEPS {
            if step == self.at {
                self.strike();
            }
            if step == remediate && self.disaster == Disaster::CutAndMended {
                (0..self.world.rails).for_each(|rail| self.net.remediate(self.pair.0, self.pair.1, rail));
            }
            let stuck = |r: usize| self.disaster == Disaster::Stuck && r == self.rank && step >= self.at;
            let may = |r: &usize| next[*r] < calls && !self.is_dead(*r) && !stuck(*r);
            let open: Vec<usize> = (0..ranks).filter(may).collect();
            if !open.is_empty() && step % 8 == 0 {
                let rank = open[self.rng.index(open.len())];
                self.post(rank, next[rank]);
                next[rank] += 1;
            } else if open.is_empty() && step > remediate && self.is_over() {
                return Ok(self.outcome);
            }
            if let Some(storm) = self.storm.as_mut().filter(|_| step < self.at) {
                storm.blow(&mut self.net, &self.world);
            }
            if !self.net.step() && step > remediate && open.is_empty() {
                self.net.jump();
            }
            self.check()?;
        }
        Err(format!("{:?}: no end after {MOST_STEPS} steps", self.disaster))
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.net.dead.contains(&self.problem.map[rank].into())
    }

    /// Whether every call that a living rank made has ended.
    fn is_over(&self) -> bool {
        let open = |m: &Mark| m.posted.is_some() && m.ended.is_none();
        (0..self.marks.len()).all(|rank| self.is_dead(rank) || !self.marks[rank].iter().any(open))
    }

    fn post(&mut self, rank: usize, at: usize) {
        let (input, output) = self.buffers[at][rank];
        self.marks[rank][at].posted = Some(self.net.now);
        let node = usize::from(self.problem.map[rank]);
        let ended = self.net.hosts[node].ended.len();
        self.net.post(&self.problem.map, rank, self.problem.calls[at], input, output);
        let (names, next) = &mut self.tickets[node];
        if let Some(refused) = self.net.hosts[node].ended.get(ended) {
            // It came after a failure.
            names.insert(refused.ticket, (rank, at));
        } else {
            names.insert(Ticket(*next), (rank, at));
            *next += 1;
        }
    }

    fn strike(&mut self) {
        let (a, b) = self.pair;
        let (nodes, rails) = (self.world.nodes(), self.world.rails);
        let now = self.net.now;
        let net = &mut self.net;
        let host = usize::from(self.problem.map[self.rank]);
        match self.disaster {
            Disaster::Dies => net.kill(a, false),
            Disaster::Vanishes => net.kill(a, true),
            Disaster::Silence => {
                for (a, b) in (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    (0..rails).for_each(|rail| net.darken(a, b, rail));
                }
            }
            Disaster::Partition => (0..rails).for_each(|rail| net.darken(a, b, rail)),
            Disaster::Cut | Disaster::CutAndMended => (0..rails).for_each(|rail| net.cut(a, b, rail)),
            Disaster::Stuck => {}
            Disaster::RankGone => net.hosts[host].machine.rank_gone(self.rank as u32, now),
            Disaster::Stopped => net.hosts[host].machine.stop("enough", now),
        }
    }

    /// Looks at the calls that have just ended.
    fn check(&mut self) -> Result<(), String> {
        for node in 0..self.checked.len() {
            while let Some(end) = self.net.hosts[node].ended.get(self.checked[node]).cloned() {
                self.checked[node] += 1;
                if !self.net.dead.contains(&node) {
                    let (rank, at) =
                        *self.tickets[node].0.get(&end.ticket).ok_or("an unknown call has ended")?;
                    self.ended(rank, at, &end)?;
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, rank: usize, at: usize, end: &Completion) -> Result<(), String> {
        let now = self.net.now;
        let posted = self.marks[rank][at].posted.ok_or("a call ended that was not made")?;
        // A call waits for those before it, and they have as much time each.
        let before = self.marks[rank].iter().filter_map(|m| m.ended).max().unwrap_or_default();
        self.marks[rank][at].ended = Some(now);
        let over = now.saturating_sub(posted.max(before) + self.world.timeout);
        self.outcome.over = self.outcome.over.max(over);
        let who = format!("{:?}, rank {rank}, call {at}", self.disaster);
        if over > SLACK {
            return Err(format!("{who}: ended {over:?} after its timeout of {:?}", self.world.timeout));
        }
        match &end.result {
            Ok(()) => {
                let wanted = &self.problem.outputs()[at][rank];
                let memory = &self.net.hosts[usize::from(self.problem.map[rank])].memory;
                let right = memory.bytes(self.buffers[at][rank].1) == Some(&wanted[..]);
                if right { Ok(()) } else { Err(format!("{who}: wrong bits")) }
            }
            Err(failure) => {
                self.outcome.failures += 1;
                self.reporting(failure).map_err(|what| format!("{who}: {what}: {failure}"))
            }
        }
    }

    /// Whether a failure says what went wrong, and who and where.
    fn reporting(&self, failure: &Failure) -> Result<(), &'static str> {
        use Disaster::{Cut, CutAndMended, Dies, Partition, RankGone, Silence, Stopped, Stuck, Vanishes};
        let (nodes, rails) = (self.world.nodes(), self.world.rails);
        let apart = matches!(self.disaster, Dies | Vanishes | Silence | Partition | Cut | CutAndMended);
        let rail_known = |rail: Option<u16>| rail.is_some_and(|r| usize::from(r) < rails);
        let node_known = |node: Option<u16>| node.is_some_and(|n| usize::from(n) < nodes);
        let kind = failure.reported().kind;
        match kind {
            CauseKind::Timeout if !apart && self.disaster != Stuck && self.storm.is_none() => {
                return Err("nothing was slow");
            }
            CauseKind::PeerLost if !apart => return Err("nobody was lost"),
            CauseKind::RankGone if self.disaster != RankGone => return Err("no rank left"),
            CauseKind::Stopped if self.disaster != Stopped => return Err("nobody stopped it"),
            CauseKind::Timeout | CauseKind::PeerLost | CauseKind::RankGone | CauseKind::Stopped => {}
            _ => return Err("another cause"),
        }
        match failure {
            Failure::Timeout { waiting, .. } => {
                if waiting.ranks.is_empty() && waiting.nodes.is_empty() {
                    return Err("it does not say whom it waited for");
                }
                Ok(())
            }
            Failure::PeerLost { node, rail, .. } => {
                let known = node_known(Some(*node)) && rail_known(Some(*rail));
                if known { Ok(()) } else { Err("it names nobody") }
            }
            Failure::Remote { cause, .. } if kind == CauseKind::PeerLost => {
                let known = node_known(cause.node) && rail_known(cause.rail);
                if known { Ok(()) } else { Err("it names nobody") }
            }
            Failure::Remote { node, .. } => {
                if node_known(Some(*node)) {
                    Ok(())
                } else {
                    Err("it names nobody")
                }
            }
            Failure::RankGone(rank) if *rank as usize != self.rank => Err("another rank"),
            _ => Ok(()),
        }
    }
}
