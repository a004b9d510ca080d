//! What holds for one job and for one user: of a partition, of a QOS and of an association, as Slurm puts them together.

use proto_wire::v1;

use super::{
    fate::Fate,
    ledger::Ledger,
    site::{Preempts, Site, Thing},
    tenants::GPU,
    values::{self, LONGEST},
};

/// All that a service class can say; what is absent has no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limits {
    /// Longest time limit, in seconds.
    pub wall: Option<u64>,
    /// Time limit of jobs that give none, in seconds.
    pub usual: Option<u64>,
    /// Nodes of a job.
    pub nodes: Option<u32>,
    /// GPUs of a job.
    pub gpus: Option<u32>,
    /// Running jobs of a user.
    pub user_running: Option<u32>,
    /// Waiting jobs of a user.
    pub user_waiting: Option<u32>,
    /// GPUs of a user.
    pub user_gpus: Option<u32>,
    /// Of jobs that give none, and the highest.
    pub priority: i32,
    /// Whether others are stopped for its jobs; absent: as here.
    pub preempts: Option<bool>,
    /// Whether its jobs are stopped for others; absent: as they say.
    pub preemptible: Option<bool>,
    /// Between signal and end, in seconds.
    pub grace: Option<u64>,
}

impl Limits {
    /// These, and where they say nothing those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            wall: self.wall.or(other.wall),
            usual: self.usual.or(other.usual),
            nodes: self.nodes.or(other.nodes),
            gpus: self.gpus.or(other.gpus),
            user_running: self.user_running.or(other.user_running),
            user_waiting: self.user_waiting.or(other.user_waiting),
            user_gpus: self.user_gpus.or(other.user_gpus),
            priority: self.priority.saturating_add(other.priority),
            preempts: self.preempts.or(other.preempts),
            preemptible: self.preemptible.or(other.preemptible),
            grace: self.grace.or(other.grace),
        }
    }

    /// Those of a partition, which are upper ones of all that its jobs have otherwise.
    #[must_use]
    pub fn within(self, partition: &Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let wall = least(self.wall, partition.wall);
        let usual = partition.usual.or(self.usual);
        Self {
            usual: least(usual, wall.filter(|_| usual.is_some())),
            wall,
            nodes: self.nodes.into_iter().chain(partition.nodes).min(),
            priority: self.priority.saturating_add(partition.priority).clamp(-1000, 1000),
            preempts: self.preempts.or(partition.preempts),
            preemptible: self.preemptible.or(partition.preemptible),
            grace: self.grace.or(partition.grace),
            ..self
        }
    }

    /// As a service class says it.
    #[must_use]
    pub fn spec(&self) -> v1::ServiceClassSpec {
        let seconds = |seconds: Option<u64>| seconds.map(duration);
        let priority = (self.priority != 0).then_some(self.priority);
        let job = v1::JobLimits {
            priority_max: priority,
            priority_default: priority,
            time_limit_max: seconds(self.wall),
            time_limit_default: seconds(self.usual),
            nodes_max: self.nodes,
            gpus_max: self.gpus,
            ..v1::JobLimits::default()
        };
        let user = v1::UserLimits {
            jobs_running: self.user_running,
            jobs_waiting: self.user_waiting,
            gpus: self.user_gpus,
        };
        let preemption = v1::ClassPreemption {
            preempts: self.preempts,
            preemptible: self.preemptible,
            grace_period: seconds(self.grace),
        };
        v1::ServiceClassSpec {
            job: (job != v1::JobLimits::default()).then_some(job),
            user: (user != v1::UserLimits::default()).then_some(user),
            preemption: (preemption != v1::ClassPreemption::default()).then_some(preemption),
            ..v1::ServiceClassSpec::default()
        }
    }
}

/// Seconds on the wire.
pub fn duration(seconds: u64) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

/// A time limit of a setting, in seconds, as long as documents can say; that of none is said to be none.
fn wall(of: &Thing, name: &str, ledger: &mut Ledger) -> Option<u64> {
    let seconds = of.read(name, ledger, values::time).flatten();
    let (id, _) = of.get(name)?;
    match seconds {
        Some(0) => {
            ledger.settle(id, Fate::Lost, "a limit of no time: no job could have it; left without a limit");
            None
        }
        Some(long) if long > LONGEST => {
            ledger.settle(id, Fate::Differs, "no limit: 366 days are the longest that a document says");
            None
        }
        None => {
            ledger.settle(id, Fate::Carried, "no limit: none is written");
            None
        }
        seconds => seconds,
    }
}

fn count(of: &Thing, name: &str, ledger: &mut Ledger) -> Option<u32> {
    let number = of.read(name, ledger, values::number::<u64>).flatten()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// GPUs and nodes of a list of resources; what else it names is said to be lost.
fn shape(of: &Thing, name: &str, says_nodes: bool, ledger: &mut Ledger) -> (Option<u32>, Option<u32>) {
    let Some(all) = of.read(name, ledger, values::resources) else { return (None, None) };
    let is_said = |resource: &str| resource == GPU || (resource == "node" && says_nodes);
    let others: Vec<&str> = all.keys().map(String::as_str).filter(|one| !is_said(one)).collect();
    if let Some((id, _)) = of.get(name) {
        let said = others.len() < all.len();
        let here = format!("nothing limits {}", others.join(", "));
        match (others.is_empty(), said) {
            (true, _) => ledger.settle(id, Fate::Carried, "GPUs and nodes, in service classes"),
            (false, true) => {
                ledger.settle(id, Fate::Differs, format!("GPUs and nodes, in service classes; {here}"))
            }
            (false, false) => ledger.settle(id, Fate::Lost, here),
        }
    }
    let small = |amount: Option<&u64>| amount.map(|amount| u32::try_from(*amount).unwrap_or(u32::MAX));
    (small(all.get(GPU)), small(all.get("node").filter(|_| says_nodes)))
}

/// A number of nodes, which is at least 1 in documents.
fn some(of: &Thing, name: &str, nodes: Option<u32>, ledger: &mut Ledger) -> Option<u32> {
    if let (Some(0), Some((id, _))) = (nodes, of.get(name)) {
        ledger.settle(id, Fate::Lost, "a limit of no node: no job could have it; left without a limit");
    }
    nodes.filter(|nodes| *nodes > 0)
}

/// What an association says, by itself.
pub fn association(of: &Thing, ledger: &mut Ledger) -> Limits {
    let (gpus, nodes) = shape(of, "maxtresperjob", true, ledger);
    let nodes = some(of, "maxtresperjob", nodes, ledger);
    let alone = count(of, "maxnodesperjob", ledger);
    Limits {
        wall: wall(of, "maxwalldurationperjob", ledger),
        nodes: nodes.or(some(of, "maxnodesperjob", alone, ledger)),
        gpus,
        user_running: count(of, "maxjobs", ledger),
        user_waiting: count(of, "maxsubmitjobs", ledger),
        ..Limits::default()
    }
}

/// What a QOS says.
pub fn qos(site: &Site, of: &Thing, ledger: &mut Ledger) -> Limits {
    let (gpus, nodes) = shape(of, "maxtres", true, ledger);
    let (user_gpus, _) = shape(of, "maxtrespu", false, ledger);
    defaults(of, ledger);
    let by_qos = site.preempts == Preempts::ByQos;
    let stopped = site
        .qos
        .iter()
        .any(|one| values::list(one.text("preempt")).any(|name| name.eq_ignore_ascii_case(&of.name)));
    let off = of.text("preemptmode").eq_ignore_ascii_case("off");
    if let (false, Some((id, _))) = (by_qos, of.get("preempt")) {
        ledger.settle(id, Fate::Meaningless, "PreemptType of slurm.conf is not preempt/qos");
    }
    Limits {
        wall: wall(of, "maxwall", ledger),
        nodes: some(of, "maxtres", nodes, ledger),
        gpus,
        user_running: count(of, "maxjobspu", ledger),
        user_waiting: count(of, "maxsubmitpu", ledger),
        user_gpus,
        priority: rank(site, of, ledger),
        preempts: by_qos.then(|| !of.text("preempt").is_empty()),
        preemptible: by_qos.then_some(stopped && !off),
        grace: of.read("gracetime", ledger, values::time).flatten().filter(|grace| *grace > 0 && by_qos),
        ..Limits::default()
    }
}

/// Columns of a QOS that say what holds anyway.
fn defaults(of: &Thing, ledger: &mut Ledger) {
    let usual = [
        ("usagefactor", "1.000000"),
        ("preemptmode", "cluster"),
        ("gracetime", "00:00:00"),
        ("limitfactor", "0.000000"),
    ];
    for (name, value) in usual {
        if let Some((id, _)) = of.get(name).filter(|(_, token)| token.value == value) {
            ledger.settle(id, Fate::Meaningless, "what holds where nothing is said");
        }
    }
    if let Some((id, token)) = of.get("flags") {
        let others: Vec<&str> = values::list(&token.value).filter(|flag| *flag != "DenyOnLimit").collect();
        if others.is_empty() {
            ledger.settle(
                id,
                Fate::Carried,
                "a job beyond the limits of its class is refused when it is submitted",
            );
        } else {
            ledger.settle(id, Fate::Lost, format!("nothing is made of {}", others.join(", ")));
        }
    }
}

/// The place of a QOS among all priorities, as a priority.
fn rank(site: &Site, of: &Thing, ledger: &mut Ledger) -> i32 {
    const HIGHEST: usize = 400;
    const STEP: usize = 50;
    let priority = |one: &Thing| one.text("priority").parse::<u64>().unwrap_or(0);
    if of.read("priority", ledger, values::number::<u64>).flatten().unwrap_or(0) == 0 {
        return 0;
    }
    let mut all: Vec<u64> = site.qos.iter().map(priority).filter(|priority| *priority > 0).collect();
    all.sort_unstable();
    all.dedup();
    let place = all.iter().position(|one| *one == priority(of)).map_or(0, |at| at + 1);
    let step = (HIGHEST / all.len().max(1)).clamp(1, STEP);
    let rank = i32::try_from((place * step).min(HIGHEST)).unwrap_or(0);
    if let Some((id, _)) = of.get("priority") {
        let here = format!(
            "priority {rank}, by its place among the QOS: here the higher priority always goes first"
        );
        ledger.settle(id, Fate::Differs, here);
    }
    rank
}

/// What a partition says.
pub fn partition(site: &Site, of: &Thing, ledger: &mut Ledger) -> Limits {
    let by_rank = site.preempts == Preempts::ByPartition;
    let tier = tier(of);
    let highest = site.partitions.iter().map(self::tier).max().unwrap_or(tier);
    let global = site.settings.get("preemptmode").map_or("", |(_, token)| token.value.as_str());
    let mode = if of.text("preemptmode").is_empty() { global } else { of.text("preemptmode") };
    let priority = tier_rank(site, of, ledger);
    let off = mode.eq_ignore_ascii_case("off");
    if let (false, Some((id, _))) = (by_rank, of.get("preemptmode")) {
        ledger.settle(id, Fate::Meaningless, "PreemptType of slurm.conf is not preempt/partition_prio");
    }
    let nodes = count(of, "maxnodes", ledger);
    Limits {
        wall: wall(of, "maxtime", ledger),
        usual: wall(of, "defaulttime", ledger),
        nodes: some(of, "maxnodes", nodes, ledger),
        priority,
        preemptible: match site.preempts {
            Preempts::ByPartition => Some(tier < highest && !off),
            // Jobs below priority 0 are stopped for others unless their class says otherwise.
            Preempts::Never => (priority < 0).then_some(false),
            Preempts::ByQos => None,
        },
        grace: of
            .read("gracetime", ledger, values::number::<u64>)
            .flatten()
            .filter(|grace| *grace > 0 && by_rank),
        ..Limits::default()
    }
}

/// The rank of a partition; 1 where it gives none.
fn tier(of: &Thing) -> u64 {
    let given = ["prioritytier", "priority"].iter().find_map(|name| of.text(name).parse().ok());
    given.unwrap_or(1)
}

/// The rank as a priority: that of the default partition is 0.
fn tier_rank(site: &Site, of: &Thing, ledger: &mut Ledger) -> i32 {
    const STEP: i32 = 100;
    const HIGHEST: i32 = 500;
    for name in ["prioritytier", "priority"] {
        let _ = of.read(name, ledger, values::number::<u64>);
    }
    let base = site.default_partition().map_or(1, tier);
    let own = tier(of);
    let mut all: Vec<u64> = site.partitions.iter().map(tier).chain([base]).collect();
    all.sort_unstable();
    all.dedup();
    let place = |tier: u64| {
        all.iter().position(|one| *one == tier).and_then(|at| i32::try_from(at).ok()).unwrap_or(0)
    };
    let rank = (place(own) - place(base)).saturating_mul(STEP).clamp(-HIGHEST, HIGHEST);
    for name in ["prioritytier", "priority"] {
        if let Some((id, _)) = of.get(name) {
            let here = format!(
                "priority {rank}, by its rank: that of the default partition is 0; jobs that name a QOS have the priority of that alone"
            );
            ledger.settle(id, Fate::Differs, here);
        }
    }
    rank
}
