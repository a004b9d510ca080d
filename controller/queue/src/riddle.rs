//! Random states of small clusters, and a job that comes then: it must start exactly if trying every way finds it a place.
//! For tests and figures of queue and placer together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::{
    ComponentNeed, Filter, Gate, Group, Host, Need, Placer, RailNeed, Snapshot, Within, World,
    brute::{Best, best},
};
use controller_topology::{NodeIx, RailSet, Topology};
use proto_model::{
    ComponentName, Fabric, GpuFacts, GpuModel, Inventory, JobId, JobName, JobUid, Leaf, LinkGroup,
    MigInstance, NameError, Names, NodeName, Rail, TenantName, Timestamp,
};
use proto_random::Random;

use crate::{
    defs::{Policy, TenantDef},
    entry::Entry,
    tables::QueueState,
    trial::{Trial, TrialJob},
    why::WaitCause,
};

/// GPUs of every node.
pub const GPUS: u32 = 4;

/// What drivers call GPUs.
const MODELS: [&str; 4] = ["NVIDIA H100", "NVIDIA A100", "", INSTANCE];
/// What is a MIG instance and not a whole GPU.
const INSTANCE: &str = "NVIDIA H100 MIG 1g.10gb";

/// The job that comes.
const LAST: u64 = 900;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A placement that is none, or another broken promise.
    Placement,
    /// It waits and has a place, or the other way round.
    Wait,
    /// It is said never to fit and would, or the other way round.
    Never,
    /// A cause that is none, or wrong in its figures.
    Cause,
    /// More pods than need be.
    Pods,
}

/// What became of one state and its job.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What it was about, for people.
    pub riddle: String,
    /// Whether the queue started the job.
    pub started: bool,
    /// What trying every way has found for it.
    pub best: Option<Best>,
    /// What there would be if no job ran.
    pub empty: bool,
    /// It asks for spares.
    pub spares: bool,
    /// It was put among jobs that wait.
    pub jobs_wait: bool,
    /// Of what was chosen: pods, what a ring cuts, and idle nodes that were broken into.
    pub chosen: Option<(u32, u64, u32)>,
    /// What is wrong, in words; empty if all is well.
    pub faults: Vec<(Fault, String)>,
}

impl Answer {
    fn fault(&mut self, fault: Fault, words: String) {
        self.faults.push((fault, words));
    }

    /// How many idle nodes more were broken into than had to be for the pods and the cut that it has; `None` if it did not start,
    /// or has spares: room for those near it comes first.
    #[must_use]
    pub fn broken_more(&self) -> Option<u32> {
        let (_, cut, idle) = self.chosen.filter(|_| !self.spares)?;
        let least = self.best.as_ref()?.idle.range(..=cut).map(|(_, idle)| *idle).min()?;
        Some(idle.saturating_sub(least))
    }
}

/// Numbers that are the same in every run.
struct Dice(Random);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.0.below(end.into())).unwrap_or(0)
    }

    fn one_in(&mut self, end: u32) -> bool {
        self.below(end) == 0
    }

    /// CPUs and memory of a node: mostly two and twenty with each GPU.
    fn host(&mut self) -> Host {
        let (cpus, memory) =
            [(8, 80), (8, 80), (8, 80), (8, 60), (5, 80), (0, 80), (16, 0)][self.below(7) as usize];
        Host { cpus, memory }
    }

    /// A job asks for CPUs and memory too; or, one in so many, for nothing else.
    fn ask_host(&mut self, need: &mut Need, nothing_else: u32) {
        let (cpus, memory) = (self.below(9), u64::from(self.below(9)) * 10);
        let host = [
            Host::NONE,
            Host { cpus: 2 * need.gpus, memory: 20 * u64::from(need.gpus) },
            Host { cpus, memory: 0 },
            Host { cpus: 0, memory },
            Host { cpus, memory },
        ];
        need.host = host[self.below(5) as usize];
        if self.one_in(nothing_else) {
            let plain = Need::plain(1, 0, RailNeed::Exactly(RailSet::EMPTY));
            *need = Need { host: Host { cpus: cpus.max(1), memory }, tenant: need.tenant.clone(), ..plain };
        }
    }

    /// A job asks for two or three kinds of nodes.
    fn ask_components(&mut self, need: &mut Need) {
        if need.rail_count() == 0 {
            need.rails = RailNeed::Any(1);
        }
        let models = need.filter.gpu_models.clone();
        let own = !need.host.is_none();
        let components = ["a", "b", "c"].into_iter().take(2 + self.below(2) as usize);
        let components: Vec<ComponentNeed> = components
            .filter_map(|name| {
                let gpus = self.below(GPUS + 1);
                let (cpus, memory) = (self.below(6), u64::from(self.below(6)) * 10);
                let gpu_models =
                    if gpus > 0 && !self.one_in(3) { models.clone() } else { Default::default() };
                let filter = Filter { gpu_models, whole_gpus: gpus > 0, ..Filter::clone(&need.filter) };
                Some(ComponentNeed {
                    name: ComponentName::new(name).ok()?,
                    nodes: 1 + self.below(2),
                    gpus,
                    host: if own { Host { cpus, memory } } else { Host::NONE },
                    filter: Arc::new(filter),
                })
            })
            .collect();
        (need.spares, need.groups) = (0, Vec::new());
        *need = Need { components, ..need.clone() }.of_components(|_| true);
    }

    /// Models of GPU that a job asks for, or whole ones of any model.
    fn models(&mut self) -> Filter {
        let asked: &[&str] = match self.below(5) {
            0 => &["h100"],
            1 => &["A100"],
            2 => &["A100", "H100"],
            3 => &["1g.10gb"],
            _ => &[],
        };
        let gpu_models = asked.iter().filter_map(|model| GpuModel::new(*model).ok()).collect();
        Filter { gpu_models, whole_gpus: true, ..Filter::default() }
    }
}

/// A state, and the job that comes.
struct Riddle {
    /// Nodes of every block of every pod.
    pods: Vec<Vec<u32>>,
    rails: u32,
    /// Nodes with a NIC that is down, and which.
    down: BTreeMap<u32, u32>,
    /// Nodes with a rail that is drained, and which.
    drained: BTreeMap<u32, u32>,
    /// Nodes that take no jobs.
    closed: Vec<u32>,
    /// Nodes with other GPUs, of which some say nothing of themselves.
    others: BTreeMap<u32, &'static str>,
    /// CPUs and memory of each node; a node without any does not report them.
    hosts: Vec<Host>,
    /// What runs or waits already.
    held: Vec<Need>,
    /// Those that found no place go on waiting.
    jobs_wait: bool,
    asked: Need,
}

impl Riddle {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(Random::new(seed));
        let rails = 1 + dice.below(4);
        let block = |dice: &mut Dice| (0..1 + dice.below(2)).map(|_| 1 + dice.below(3)).collect();
        let pods: Vec<Vec<u32>> = (0..1 + dice.below(3)).map(|_| block(&mut dice)).collect();
        let nodes: u32 = pods.iter().flatten().sum();
        let down = (0..nodes).filter(|_| dice.one_in(10)).collect::<Vec<u32>>();
        let down = down.into_iter().map(|node| (node, dice.below(rails))).collect();
        let closed = (0..nodes).filter(|_| dice.one_in(16)).collect();
        let jobs = dice.below(9);
        let mut held: Vec<Need> = (0..jobs).map(|_| need(&mut dice, rails, false)).collect();
        let jobs_wait = dice.one_in(3);
        let mut asked = need(&mut dice, rails, true);
        if dice.one_in(10) {
            asked.exclude.push(NodeIx::at(dice.below(nodes) as usize));
        }
        if dice.one_in(10) {
            let often = 1 + dice.below(3);
            asked.only = Some(
                (0..nodes).filter(|_| !dice.one_in(1 + often)).map(|at| NodeIx::at(at as usize)).collect(),
            );
        }
        let often = [1, 4, 9][dice.below(3) as usize];
        let drained = (0..nodes).filter(|_| often > 1 && dice.one_in(often)).collect::<Vec<u32>>();
        let drained = drained.into_iter().map(|node| (node, dice.below(rails))).collect();
        if dice.one_in(3) {
            asked = without_drained(&asked);
        }
        // Drawn last: what is drawn before stays what it was.
        let mut others = BTreeMap::new();
        if dice.one_in(4) {
            let all = (0..nodes).map(|node| (node, MODELS[dice.below(4) as usize]));
            others.extend(all.filter(|(_, model)| *model != MODELS[0]));
            let models = dice.models();
            let (avoid_drained, whole_gpus) = (asked.filter.avoid_drained, asked.gpus > 0);
            asked.filter = Arc::new(Filter { avoid_drained, whole_gpus, ..models });
        }
        let mut hosts = vec![Host::NONE; nodes as usize];
        if dice.one_in(2) {
            hosts.fill_with(|| dice.host());
            held.iter_mut().for_each(|need| dice.ask_host(need, 4));
            dice.ask_host(&mut asked, 8);
        }
        if dice.one_in(5) {
            dice.ask_components(&mut asked);
        }
        Self { pods, rails, down, drained, closed, others, hosts, held, jobs_wait, asked }
    }

    fn cluster(&self) -> Result<Snapshot, NameError> {
        let mut fabric = Fabric::default();
        fabric.rails.extend((0..self.rails).map(|index| Rail { index, name: format!("r{index}") }));
        let mut first = 0;
        for (pod, blocks) in self.pods.iter().enumerate() {
            for (block, size) in blocks.iter().enumerate() {
                let names = Names::of((first..first + size).map(|number| format!("n{number:02}")));
                first += size;
                for rail in 0..self.rails {
                    let leaf = format!("l{pod}-{block}-{rail}");
                    let pod = format!("p{pod}");
                    fabric.leaves.push(Leaf { name: leaf.clone(), rail, pod, ..Leaf::default() });
                    let (nodes, nic) = (names.clone(), format!("mlx5_{rail}"));
                    let link = LinkGroup { nodes, nic, leaf, speed_mbps: 1, ..LinkGroup::default() };
                    fabric.link_groups.push(link);
                }
            }
        }
        let mut topology = Topology::new(Some(&fabric));
        topology.furnish(GPUS);
        let mut snapshot = Snapshot::new(Some(&fabric));
        for number in 0..first {
            let name = NodeName::new(format!("n{number:02}"))?;
            let Some(server) = topology.index(&name).and_then(|at| topology.server(at)) else { continue };
            let mut inventory = Inventory::clone(&server.inventory);
            if let Some(rail) = self.down.get(&number) {
                inventory.nics.iter_mut().filter(|nic| nic.rail == *rail).for_each(|nic| nic.up = false);
            }
            let host = self.hosts.get(number as usize).copied().unwrap_or_default();
            (inventory.cpus, inventory.memory_bytes) = (host.cpus, host.memory);
            let mig = Some(MigInstance { gpu_instance: 1, compute_instance: 0 });
            for gpu in &mut inventory.gpus {
                let model = *self.others.get(&number).unwrap_or(&MODELS[0]);
                model.clone_into(&mut gpu.model);
                gpu.facts = (model == INSTANCE).then(|| Box::new(GpuFacts { mig, ..GpuFacts::default() }));
            }
            let gate = Gate { unschedulable: self.closed.contains(&number), ..Gate::default() };
            // Before the node comes, or after.
            let drained = self.drained.get(&number).map(|rail| RailSet::EMPTY.with(*rail));
            if number % 2 == 0 {
                snapshot.set_drained(&name, drained.unwrap_or(RailSet::EMPTY));
            }
            snapshot.set_node(&name, &Arc::new(inventory), gate);
            snapshot.set_drained(&name, drained.unwrap_or(RailSet::EMPTY));
        }
        Ok(snapshot)
    }
}

/// The same, on rails that are not drained or not at all.
fn without_drained(need: &Need) -> Need {
    let rails = match need.rails {
        RailNeed::Exactly(rails) => rails,
        RailNeed::Any(_) => RailSet::EMPTY,
    };
    need.with_filter(|filter| filter.avoid_drained = Some(rails))
}

/// What a job may ask for.
fn need(dice: &mut Dice, rails: u32, everything: bool) -> Need {
    let all = RailNeed::Exactly(RailSet::first(rails));
    let gpus = 1 + dice.below(GPUS);
    let some = dice.below(rails + 1);
    let mut need = match dice.below(5) {
        0 => Need::plain(1, gpus, RailNeed::Any(some)),
        1 => Need::plain(1 + dice.below(4), GPUS, all),
        2 => Need::plain(1 + dice.below(6), gpus, all),
        3 => Need::plain(1 + dice.below(4), gpus, RailNeed::Exactly(RailSet::first(some))),
        _ => Need::plain(1 + dice.below(4), gpus, RailNeed::Any(some)),
    };
    if everything {
        need.within = [Within::Fabric, Within::Pod, Within::Leaves][dice.below(3) as usize];
        need.spares = [0, 0, 1, 2][dice.below(4) as usize];
        need.exclusive = dice.one_in(10);
        let group = |size, within, required| Group { size, within, required };
        let places = [Within::Leaves, Within::Pod];
        if dice.one_in(3) {
            let required = !dice.one_in(4);
            need.groups.push(group(2, places[dice.below(2) as usize], required));
            if dice.one_in(3) {
                need.groups.push(group(4, Within::Pod, true));
            }
            let unit = need.groups.iter().map(|group| group.size).max().unwrap_or(1);
            need.nodes = need.nodes.next_multiple_of(unit);
        }
    }
    need
}

fn job(number: u64, tenant: &TenantName, need: Need, submitted: Timestamp) -> Result<TrialJob, NameError> {
    let id = JobId { tenant: tenant.clone(), name: JobName::new(format!("j{number}"))? };
    let need = Need { tenant: Some(tenant.clone()), ..need };
    let uid = JobUid::ordered(submitted, 0, number.to_be_bytes());
    let length = Duration::from_secs(if number == LAST { 500 } else { 10_000 });
    let entry = Entry { limit: Some(length), ..Entry::plain(uid, id, need, submitted) };
    Ok(TrialJob { entry, length })
}

/// Makes the state of a seed, lets its job come, and says what became of it.
///
/// # Errors
/// A name that is none: never.
pub fn answer(seed: u64) -> Result<Answer, NameError> {
    let riddle = Riddle::new(seed);
    let tenant = TenantName::new("t")?;
    let mut queue_state = QueueState::new(Policy { fair_share: false, ..Policy::default() });
    queue_state.set_tenant(&tenant, Some(TenantDef::default()));
    let empty = riddle.cluster()?;
    let nodes: Vec<NodeIx> = empty.topology().servers().map(|(at, _)| at).collect();
    let mut trial = Trial::new(queue_state, empty.clone());
    let held: Result<Vec<TrialJob>, _> = (1..)
        .zip(&riddle.held)
        .map(|(number, need)| job(number, &tenant, need.clone(), Timestamp(0)))
        .collect();
    trial.run_until(&held?, Timestamp(0));
    let mut waits: Vec<Arc<Entry>> =
        trial.queue_state.jobs().filter(|entry| entry.run().is_none()).cloned().collect();
    if !riddle.jobs_wait {
        waits.drain(..).for_each(|entry| trial.queue_state.set_job(entry.uid, None));
    }
    let asked = job(LAST, &tenant, riddle.asked.clone(), Timestamp(10_000))?;
    let (uid, need) = (asked.entry.uid, asked.entry.need.clone());
    // Drained rails are the last choice.
    let undrained = best(&trial.snapshot, &nodes, &without_drained(&need));
    let has_undrained = undrained.is_some();
    let best_now = undrained.or_else(|| best(&trial.snapshot, &nodes, &need));
    let before = trial.snapshot.clone();
    trial.run_until(&[asked], Timestamp(10_000));
    let mut answer = Answer {
        riddle: format!(
            "seed {seed}: {} rails, pods {:?}, NICs down {:?}, drained {:?}, closed {:?}, other GPUs {:?}, hosts {:?}, before it {:?}, it asks \
             for {need:?}",
            riddle.rails,
            riddle.pods,
            riddle.down,
            riddle.drained,
            riddle.closed,
            riddle.others,
            riddle.hosts,
            riddle.held
        ),
        started: trial.queue_state.job(uid).is_some_and(|entry| entry.run().is_some()),
        best: best_now,
        empty: best(&empty, &nodes, &need).is_some(),
        spares: need.spares > 0,
        jobs_wait: !waits.is_empty(),
        chosen: None,
        faults: std::mem::take(&mut trial.faults)
            .into_iter()
            .map(|fault| (Fault::Placement, fault))
            .collect(),
    };
    answer.chosen = chosen(&trial, uid, &before);
    if has_undrained && let Some(name) = drained_of(&trial, uid) {
        answer.fault(Fault::Placement, format!("a drained rail of {name} is used, and need not be"));
    }
    judge(&mut answer, &mut trial, &waits, (&empty, &nodes), uid);
    Ok(answer)
}

fn chosen(trial: &Trial, uid: JobUid, before: &Snapshot) -> Option<(u32, u64, u32)> {
    let placement = &trial.queue_state.job(uid)?.run()?.placement;
    let idle = placement.nodes.iter().filter(|place| before.held(&place.node) == Default::default()).count();
    Some((placement.pods, placement.cut, u32::try_from(idle).unwrap_or(u32::MAX)))
}

/// A node on which a job uses a drained rail.
fn drained_of(trial: &Trial, uid: JobUid) -> Option<NodeName> {
    let placement = &trial.queue_state.job(uid)?.run()?.placement;
    let rails: RailSet = placement.rails.iter().copied().collect();
    let used = |name: &&NodeName| !trial.snapshot.drained(name).and(rails).is_empty();
    placement.nodes.iter().map(|place| &place.node).find(used).cloned()
}

/// What is wrong with what became of it.
fn judge(
    answer: &mut Answer,
    trial: &mut Trial,
    waits: &[Arc<Entry>],
    (empty, nodes): (&Snapshot, &[NodeIx]),
    uid: JobUid,
) {
    let fits = |snapshot: &Snapshot, entry: &Entry| best(snapshot, nodes, &entry.need).is_some();
    // Who could not even run alone is in nobody's way.
    let in_the_way = waits.iter().any(|entry| fits(empty, entry));
    if !in_the_way && answer.started != answer.best.is_some() {
        answer.fault(
            Fault::Wait,
            format!("it starts: {}, it has a place: {}", answer.started, answer.best.is_some()),
        );
    }
    let first = trial
        .queue_state
        .jobs()
        .filter(|entry| entry.run().is_none())
        .min_by_key(|entry| (entry.submitted, entry.uid));
    if let Some(first) = first.filter(|first| fits(&trial.snapshot, first)) {
        answer.fault(Fault::Wait, format!("{} waits as the first, and has a place", first.id));
    }
    if answer.started {
        let pods = answer.best.as_ref().zip(answer.chosen).filter(|(best, (pods, ..))| best.pods < *pods);
        if let Some((least, (pods, ..))) = pods.map(|(best, chosen)| (best.pods, chosen)) {
            answer.fault(Fault::Pods, format!("it lies in {pods} pods, {least} would do"));
        }
        return;
    }
    trial.queue_state.plan(
        &mut trial.snapshot,
        &mut Placer::default(),
        Timestamp(10_000),
        crate::Budget::ALL,
    );
    let Some(why) = trial.queue_state.seen(uid) else {
        answer.fault(Fault::Cause, "nobody says why it waits".to_owned());
        return;
    };
    let planned = why.eta.is_some_and(|eta| eta.planned.is_some());
    let never = why.causes.iter().any(|cause| matches!(cause, WaitCause::Never | WaitCause::Shape(_)));
    if never == answer.empty || planned != answer.empty {
        let said = if never { "never" } else { "not now" };
        answer.fault(
            Fault::Never,
            format!("{said} is said, planned: {planned}, without jobs it has a place: {}", answer.empty),
        );
    }
    if !in_the_way
        && why.causes.iter().any(|cause| matches!(cause, WaitCause::Planned | WaitCause::LimitAhead))
    {
        answer.fault(Fault::Cause, format!("nobody is ahead of it: {:?}", why.causes));
    }
    facts(answer, &trial.snapshot, nodes, &why.causes);
}

/// What the causes say in figures.
fn facts(answer: &mut Answer, snapshot: &Snapshot, nodes: &[NodeIx], causes: &[WaitCause]) {
    let open = || nodes.iter().filter_map(|node| snapshot.node(*node)).filter(|seen| seen.open);
    let idle = open().filter(|seen| seen.held == Default::default()).count();
    for cause in causes {
        if let WaitCause::Capacity { nodes, .. } = cause
            && *nodes as usize != idle
        {
            answer.fault(Fault::Cause, format!("{nodes} whole nodes are said to be free, {idle} are"));
        }
    }
}
