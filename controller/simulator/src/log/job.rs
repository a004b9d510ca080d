//! Jobs as lines: all that the scheduler looks at.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use controller_queue::{ArrayGroup, Entry, Run, State};
use controller_scheduler::{
    Arrange, Filter, Group, Host, Need, Pattern, RailNeed, Snapshot, Term, Toleration, Within,
    capacity::GPUS_MAX,
};
use controller_topology::{NodeIx, RailSet};
use proto_model::{
    GpuModel, JobId, JobName, NodeName, NodePlace, Placement, Preemption, Reason, ReasonCode,
    ReservationName, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{
    PlacementLine,
    words::{LineError, is_nothing, is_zero, millis, node, queue, tenant, uid},
};

/// Ranks of a server at most: what the API takes.
const RANKS_MAX: u32 = 256;

/// CPUs of a server at most, and bytes of memory: what the API takes.
const CPUS_MAX: u32 = 65_536;
const MEMORY_MAX: u64 = 1 << 52;

/// Servers of a gang at most: more than any fabric has.
const NODES_MAX: u32 = 1 << 20;

/// A job; times in milliseconds. What is absent was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLine {
    /// When the job came, changed or went on, in milliseconds since 1970.
    pub at: u64,
    /// Identifier of the job; no other job of the log has it.
    pub uid: String,
    /// The tenant that the job belongs to.
    pub tenant: String,
    /// Name of the job within its tenant.
    pub name: String,
    /// Servers that the job wants.
    pub nodes: u32,
    /// Started with so many at least.
    pub min_nodes: u32,
    /// GPUs on each of its servers.
    pub gpus: u32,
    /// Ranks on each of its servers.
    pub ranks: u32,
    /// CPUs on each that are its alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpus: u32,
    /// Bytes of memory on each that are its alone.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub memory: u64,
    /// These rails, or any so many.
    pub rails: RailsLine,
    /// Where the whole gang must lie; absent: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<PlaceLine>,
    /// Groups inside the gang: size, place, required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u32, PlaceLine, bool)>,
    /// Its servers are to lie over many pods, evenly.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// Which servers talk to which; absent: a ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternLine>,
    /// No other job is placed on its servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Further servers that it holds idle, to replace those that fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spares: u32,
    /// Conditions on the labels of its servers; all of them must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selector: Vec<TermLine>,
    /// Taints that it puts up with: key, value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<(Option<String>, Option<String>)>,
    /// Models of GPU of which any will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// It needs whole GPUs: MIG instances will not do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_gpus: bool,
    /// Servers that it does not want.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The only servers that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// The queue that it waits in; absent: the tenant itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority: the higher one goes first.
    #[serde(default, skip_serializing_if = "is_none")]
    pub priority: i32,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: u64,
    /// It does not start before this time, in milliseconds since 1970; absent: no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    /// How long it will probably run, in milliseconds; absent: as long as it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// How long it may run, in milliseconds; absent: without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The reservation that it may run in; absent: outside of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The array that it is of, and how many of that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<(String, u32)>,
    /// Why it must not start, each cause with code and message; empty: nothing holds it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hold: Vec<(String, String)>,
    /// Jobs that it waits for before it may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// It may be stopped for jobs of higher priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
    /// The signal that its ranks get then, by Linux number.
    pub signal: i32,
    /// Time between signal and kill, in milliseconds.
    pub grace: u64,
    /// The same where the job says it for preemption by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_grace: Option<u64>,
    /// How often it saves its work, in milliseconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// What a restart costs, in milliseconds; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_cost: Option<u64>,
    /// How often it was stopped for another job.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preempted: u32,
    /// It goes on with so many servers at most, having given up room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// What it holds while it runs; absent: it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunLine>,
}

/// What a running job holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    /// The servers and GPUs that the job holds.
    pub placement: PlacementLine,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
    /// It is being ended, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<u64>,
    /// When it saved its work last, in milliseconds since 1970; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<u64>,
}

/// The rails that a job asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RailsLine {
    /// Exactly the rails of these numbers.
    Exactly(Vec<u32>),
    /// Any rails, so many of them.
    Any(u32),
}

/// How near to each other servers must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceLine {
    /// On the same leaves.
    Leaves,
    /// All inside one pod.
    Pod,
    /// Anywhere in the fabric.
    Fabric,
}

/// Which servers talk to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternLine {
    /// Each rank talks to its neighbours in a ring.
    Ring,
    /// Every rank talks to every other one.
    All,
    /// Groups of so many.
    Pipeline(u32),
}

/// A condition on labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TermLine {
    /// One of these values.
    In(String, BTreeSet<String>),
    /// None of these values.
    NotIn(String, BTreeSet<String>),
    /// The server has the label, whatever its value.
    Exists(String),
    /// The server does not have the label.
    Absent(String),
    /// One of these terms is enough.
    Any(Vec<TermLine>),
}

fn is_none(number: &i32) -> bool {
    *number == 0
}

fn place(within: Within) -> PlaceLine {
    match within {
        Within::Leaves => PlaceLine::Leaves,
        Within::Pod => PlaceLine::Pod,
        Within::Fabric => PlaceLine::Fabric,
    }
}

fn within(place: PlaceLine) -> Within {
    match place {
        PlaceLine::Leaves => Within::Leaves,
        PlaceLine::Pod => Within::Pod,
        PlaceLine::Fabric => Within::Fabric,
    }
}

impl JobLine {
    /// Of a job as the queue has it.
    #[must_use]
    pub fn new(at: Timestamp, of: &Entry, snapshot: &Snapshot) -> Self {
        let name = |node: &NodeIx| snapshot.topology().server(*node).map(|server| server.name.to_string());
        let need = &of.need;
        Self {
            at: at.0,
            uid: of.uid.to_string(),
            tenant: of.id.tenant.to_string(),
            name: of.id.name.to_string(),
            nodes: need.nodes,
            min_nodes: of.min_nodes,
            gpus: need.gpus,
            ranks: of.ranks_per_node,
            cpus: need.host.cpus,
            memory: need.host.memory,
            rails: match need.rails {
                RailNeed::Exactly(rails) => RailsLine::Exactly(rails.iter().collect()),
                RailNeed::Any(count) => RailsLine::Any(count),
            },
            within: Some(place(need.within)).filter(|place| *place != PlaceLine::Fabric),
            groups: need
                .groups
                .iter()
                .map(|group| (group.size, place(group.within), group.required))
                .collect(),
            spread: need.arrange == Arrange::Spread,
            pattern: match need.pattern {
                Pattern::Ring => None,
                Pattern::AllToAll => Some(PatternLine::All),
                Pattern::Pipeline(size) => Some(PatternLine::Pipeline(size)),
            },
            exclusive: need.exclusive,
            spares: need.spares,
            selector: need.filter.selector.iter().map(term_line).collect(),
            tolerations: need
                .filter
                .tolerations
                .iter()
                .map(|one| (one.key.clone(), one.value.clone()))
                .collect(),
            gpu_models: need.filter.gpu_models.iter().map(ToString::to_string).collect(),
            whole_gpus: need.filter.whole_gpus,
            exclude: need.exclude.iter().filter_map(name).collect(),
            only: need.only.as_ref().map(|only| only.iter().filter_map(name).collect()),
            queue: of.queue.as_ref().map(ToString::to_string),
            priority: of.priority,
            submitted: of.submitted.0,
            not_before: of.not_before.map(|time| time.0),
            expected: of.expected.map(millis),
            limit: of.limit.map(millis),
            reservation: of.reservation.as_ref().map(ToString::to_string),
            array: of.array.as_ref().map(|group| (group.array.name.to_string(), group.at_once)),
            hold: of.hold.iter().map(|reason| (reason.code.to_string(), reason.message.clone())).collect(),
            after: of.after.iter().map(ToString::to_string).collect(),
            preemptible: of.preemption.preemptible,
            signal: of.preemption.signal,
            grace: millis(of.grace),
            preemption_grace: of.preemption.grace.map(millis),
            checkpoint_every: of.preemption.checkpoint_every.map(millis),
            restart_cost: of.preemption.restart_cost.map(millis),
            preempted: of.preempted,
            cap: of.cap,
            run: of.run().map(|run| RunLine {
                placement: (&*run.placement).into(),
                started: run.started.0,
                ending: run.ending.map(|time| time.0),
                saved: run.saved.map(|time| time.0),
            }),
        }
    }

    /// The job as the queue takes it. Servers are looked up in the snapshot.
    ///
    /// # Errors
    /// [`LineError`] for names and numbers that cannot be.
    pub fn entry(&self, snapshot: &Snapshot) -> Result<Entry, LineError> {
        let id = JobId {
            tenant: tenant(&self.tenant)?,
            name: JobName::new(&self.name).map_err(|error| LineError::new("name", error))?,
        };
        let array = match &self.array {
            Some((name, at_once)) => {
                let name = JobName::new(name).map_err(|error| LineError::new("array", error))?;
                let array = JobId { tenant: id.tenant.clone(), name };
                Some(ArrayGroup { array, at_once: *at_once })
            }
            None => None,
        };
        let reservation = self.reservation.as_deref().map(ReservationName::new).transpose();
        let run = self.run.as_ref().map(|run| run.run(snapshot)).transpose()?;
        let time = |time: Option<u64>| time.map(Duration::from_millis);
        Ok(Entry {
            uid: uid(&self.uid)?,
            id,
            need: self.need(snapshot)?,
            min_nodes: self.min_nodes,
            ranks_per_node: self.ranks,
            components: Arc::default(),
            queue: self.queue.as_deref().map(queue).transpose()?,
            // No run of the simulator has service classes, licenses or components, nor people who hold jobs.
            class: None,
            licenses: std::collections::BTreeMap::new(),
            open_ended: false,
            priority: self.priority,
            submitted: Timestamp(self.submitted),
            not_before: self.not_before.map(Timestamp),
            expected: time(self.expected),
            limit: time(self.limit),
            reservation: reservation.map_err(|error| LineError::new("reservation", error))?,
            array,
            hold: self
                .hold
                .iter()
                .map(|(code, message)| Reason::new(ReasonCode::from_text(code), message.clone()))
                .collect(),
            after: self.after.iter().map(|text| uid(text)).collect::<Result<_, _>>()?,
            preemption: Preemption {
                preemptible: self.preemptible,
                grace: time(self.preemption_grace),
                signal: self.signal,
                checkpoint_every: time(self.checkpoint_every),
                restart_cost: time(self.restart_cost),
            },
            grace: Duration::from_millis(self.grace),
            preempted: self.preempted,
            cap: self.cap,
            state: run.map_or(State::Waiting, State::Running),
        })
    }

    fn need(&self, snapshot: &Snapshot) -> Result<Need, LineError> {
        for (field, number, most) in [
            ("ranks", self.ranks, RANKS_MAX),
            ("gpus", self.gpus, GPUS_MAX),
            ("cpus", self.cpus, CPUS_MAX),
            ("spares", self.spares, NODES_MAX),
        ] {
            if number > most {
                return Err(LineError::new(field, format!("{number}; at most {most}")));
            }
        }
        if self.nodes > NODES_MAX {
            return Err(LineError::new("nodes", format!("{}; at most {NODES_MAX}", self.nodes)));
        }
        if self.nodes == 0 || self.min_nodes == 0 || self.min_nodes > self.nodes {
            return Err(LineError::new(
                "nodes",
                "a gang has 1 server or more, and minNodes is not above nodes",
            ));
        }
        let rails = match &self.rails {
            RailsLine::Exactly(rails) if rails.iter().any(|rail| *rail >= RailSet::MAX) => {
                return Err(LineError::new("rails", format!("{rails:?}; there are 64 at most")));
            }
            RailsLine::Exactly(rails) => RailNeed::Exactly(rails.iter().copied().collect()),
            RailsLine::Any(count) => RailNeed::Any(*count),
        };
        let index = |name: &String| Ok(snapshot.topology().index(&node(name)?));
        let exclude: Result<Vec<Option<NodeIx>>, LineError> = self.exclude.iter().map(index).collect();
        let only = self.only.as_ref().map(|names| {
            let named: Result<BTreeSet<Option<NodeIx>>, LineError> = names.iter().map(index).collect();
            named
        });
        let tolerations = self.tolerations.iter();
        let gpu_models: Result<_, _> = self.gpu_models.iter().map(GpuModel::new).collect();
        if self.memory > MEMORY_MAX {
            return Err(LineError::new("memory", format!("{}; at most {MEMORY_MAX}", self.memory)));
        }
        Ok(Need {
            host: Host { cpus: self.cpus, memory: self.memory },
            exclusive: self.exclusive,
            within: self.within.map_or(Within::Fabric, within),
            groups: self
                .groups
                .iter()
                .map(|(size, place, required)| Group {
                    size: *size,
                    within: within(*place),
                    required: *required,
                })
                .collect(),
            arrange: if self.spread { Arrange::Spread } else { Arrange::Pack },
            pattern: match self.pattern {
                None | Some(PatternLine::Ring) => Pattern::Ring,
                Some(PatternLine::All) => Pattern::AllToAll,
                Some(PatternLine::Pipeline(size)) => Pattern::Pipeline(size),
            },
            spares: self.spares,
            filter: Arc::new(Filter {
                selector: self.selector.iter().map(term).collect::<Result<_, _>>()?,
                gpu_models: gpu_models.map_err(|error| LineError::new("gpuModels", error))?,
                whole_gpus: self.whole_gpus,
                tolerations: tolerations
                    .map(|(key, value)| Toleration { key: key.clone(), value: value.clone() })
                    .collect(),
                ..Filter::default()
            }),
            exclude: exclude?.into_iter().flatten().collect(),
            only: only.transpose()?.map(|only| only.into_iter().flatten().collect()),
            ..Need::plain(self.nodes, self.gpus, rails)
        })
    }
}

impl RunLine {
    fn run(&self, snapshot: &Snapshot) -> Result<Run, LineError> {
        let PlacementLine { rails, nodes, spares, pods, cut, exclusive, cpus, memory, .. } = &self.placement;
        if *cpus > CPUS_MAX || *memory > MEMORY_MAX {
            return Err(LineError::new("run", "more CPUs or memory than any server has"));
        }
        let host = Host { cpus: *cpus, memory: *memory };
        let places = |list: &[(String, Vec<u32>)]| {
            list.iter()
                .map(|(name, gpus)| held(snapshot, &node(name)?, gpus, rails, host))
                .collect::<Result<Vec<_>, _>>()
        };
        let placement = Placement {
            nodes: places(nodes)?,
            rails: rails.clone(),
            pods: *pods,
            spares: places(spares)?,
            cut: *cut,
            exclusive: *exclusive,
            ..Placement::default()
        };
        Ok(Run {
            placement: Arc::new(placement),
            started: Timestamp(self.started),
            ending: self.ending.map(Timestamp),
            saved: self.saved.map(Timestamp),
        })
    }
}

/// What a job holds on a server: these GPUs, its NICs on the rails, CPUs and memory.
fn held(
    snapshot: &Snapshot,
    name: &NodeName,
    gpus: &[u32],
    rails: &[u32],
    host: Host,
) -> Result<NodePlace, LineError> {
    let topology = snapshot.topology();
    let server = topology.index(name).and_then(|node| topology.server(node));
    let server = server.ok_or_else(|| LineError::new("run", format!("no server '{name}'")))?;
    let nic = |rail: &u32| {
        let port = server.ports.get(*rail as usize).copied().flatten()?;
        let nic = server.inventory.nics.get(port.nic as usize)?;
        Some(proto_model::NicPlace {
            device: nic.device.clone(),
            netdev: nic.netdev.clone(),
            rail: nic.rail,
            leaf: port.leaf.map_or_else(String::new, |leaf| topology.leaf_name(leaf).to_owned()),
            address: nic.address,
        })
    };
    Ok(NodePlace {
        node: name.clone(),
        pod: server.pod.map_or_else(String::new, |pod| topology.pod_name(pod).to_owned()),
        gpus: gpus.to_vec(),
        nics: rails.iter().filter_map(nic).collect(),
        remapped: false,
        cpus: host.cpus,
        memory_bytes: host.memory,
    })
}

fn term_line(term: &Term) -> TermLine {
    match term.clone() {
        Term::In(key, values) => TermLine::In(key, values),
        Term::NotIn(key, values) => TermLine::NotIn(key, values),
        Term::Exists(key) => TermLine::Exists(key),
        Term::Absent(key) => TermLine::Absent(key),
        Term::Any(terms) => TermLine::Any(terms.iter().map(term_line).collect()),
    }
}

fn term(line: &TermLine) -> Result<Term, LineError> {
    Ok(match line.clone() {
        TermLine::In(key, values) => Term::In(key, values),
        TermLine::NotIn(key, values) => Term::NotIn(key, values),
        TermLine::Exists(key) => Term::Exists(key),
        TermLine::Absent(key) => Term::Absent(key),
        TermLine::Any(terms) => {
            if terms.iter().any(|term| matches!(term, TermLine::Any(_))) {
                return Err(LineError::new("selector", "an alternative has alternatives itself"));
            }
            Term::Any(terms.iter().map(term).collect::<Result<_, _>>()?)
        }
    })
}
