//! What contradicts itself in a job's spec: one cause for each, with the field that it stands at.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{
    Arrange, ArrayError, ArraySpec, ComponentFlaw, DependencyWhen, Gang, GpuModel, JobName, JobSpec,
    NameError, NodeName, Pattern, Preemption, Replace, Term, Timestamp, Within,
    label::{LabelError, check_key, check_value},
};

/// Terms, values of a term, tolerations, groups or dependencies of one job at most.
pub const MAX_TERMS: usize = 64;
/// Excluded nodes of one job at most.
pub const MAX_EXCLUDED: usize = 4096;

/// One thing that cannot be, whatever the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecFlaw {
    /// It would have to start before it may begin.
    #[error("the job could not start in time: it is not to begin before that")]
    LateBegin {
        /// The field whose time is too early: `startBefore` or `deadline`.
        field: &'static str,
    },
    /// The gang has no node.
    #[error("must be at least 1")]
    NoNodes,
    /// An elastic gang whose least is more than what it wants, or nothing.
    #[error("{least} is not from 1 to the {nodes} nodes that the job wants")]
    MinNodes {
        /// The nodes that `gang.minNodes` asks for.
        least: u32,
        /// The nodes that `gang.nodes` asks for.
        nodes: u32,
    },
    /// No rails at all, and yet rails.
    #[error("asks for no rails, but {what}")]
    NoRails {
        /// The part of the spec that needs a rail, in words for the message.
        what: &'static str,
    },
    /// A group that the gang cannot be made of.
    #[error("groups of {size} do not divide a gang of {nodes} nodes")]
    GroupSize {
        /// Position in the list.
        index: usize,
        /// Nodes of one group.
        size: u32,
        /// The nodes that it should divide.
        nodes: u32,
    },
    /// Two sizes of group of which neither divides the other.
    #[error("groups of {size} and groups of {other} overlap: one size must divide the other")]
    GroupNesting {
        /// Position in the list.
        index: usize,
        /// Nodes of a group of this entry.
        size: u32,
        /// Nodes of a group of an earlier entry.
        other: u32,
    },
    /// Two entries with the same size of group.
    #[error("groups of {size} are given twice")]
    GroupTwice {
        /// Position in the list.
        index: usize,
        /// Nodes of a group, the same in both entries.
        size: u32,
    },
    /// A group that may lie anywhere.
    #[error("a group within the whole fabric asks nothing; write LEAVES or POD")]
    GroupAnywhere {
        /// Position in the list.
        index: usize,
    },
    /// Over many pods, and within one.
    #[error("SPREAD lays the nodes over many pods, but `within` keeps them in one")]
    SpreadWithin,
    /// Stages that the gang cannot be made of.
    #[error("pipeline stages of {stage} do not divide a gang of {nodes} nodes")]
    Stage {
        /// Nodes of a stage.
        stage: u32,
        /// The nodes that it should divide.
        nodes: u32,
    },
    /// More spares than nodes.
    #[error("{spares} spares are more than the {nodes} nodes that they stand in for")]
    Spares {
        /// The spares that `placement.spares` asks for.
        spares: u32,
        /// The nodes that `gang.nodes` asks for.
        nodes: u32,
    },
    /// Spares that nothing uses.
    #[error(
        "{spares} spares are held, but failed nodes are not replaced; write failure.replace SPARES or ANY"
    )]
    SparesUnused {
        /// The spares that `placement.spares` asks for.
        spares: u32,
    },
    /// Replacements out of nothing.
    #[error(
        "failed nodes are replaced from spares, but the job has none; give placement.spares, or write ANY"
    )]
    NoSpares,
    /// A limit on what never happens, or none on what does.
    #[error("{limit} does not fit `replace` {replace}")]
    Replacements {
        /// The most nodes that may be replaced; 0: none.
        limit: u32,
        /// Where replacements are to come from.
        replace: Replace,
    },
    /// A list with more entries than it may have.
    #[error("has {count} entries; at most {most} are allowed")]
    TooMany {
        /// The list that is too long.
        list: SpecList,
        /// Entries that the list has.
        count: usize,
        /// Entries that it may have.
        most: usize,
    },
    /// A key or value that no label has.
    #[error("{error}")]
    Label {
        /// The list that the label is in.
        list: SpecList,
        /// Position in the list.
        index: usize,
        /// Why it is not a label.
        error: LabelError,
    },
    /// Two entries of a list that mean the same.
    #[error("says the same as entry {first}")]
    Twice {
        /// The list that they are in.
        list: SpecList,
        /// Position in the list.
        index: usize,
        /// Position of the earlier of the two.
        first: usize,
    },
    /// A condition that asks for one of no values.
    #[error("needs a value at least")]
    NoValues {
        /// Position in the list.
        index: usize,
    },
    /// None of no conditions holds.
    #[error("needs an alternative at least")]
    NoAlternatives {
        /// Position in the list.
        index: usize,
    },
    /// Alternatives inside an alternative.
    #[error("an alternative has alternatives itself; write them all in one list")]
    NestedAlternatives {
        /// Position in the list.
        index: usize,
    },
    /// A gang of components that cannot be.
    #[error(transparent)]
    Component(#[from] ComponentFlaw),
    /// GPUs of a model, and no GPU.
    #[error("the job takes no GPU; give gang.gpusPerNode, or leave the model out")]
    ModelWithoutGpus,
    /// Several MIG instances for one rank: a CUDA program sees one at most (NVIDIA MIG User Guide, "CUDA Device Enumeration").
    #[error(
        "a rank can use one MIG instance at most, and {gpus} on a node for {ranks} ranks are more; give as many ranks as GPUs"
    )]
    SeveralInstances {
        /// GPUs of a node.
        gpus: u32,
        /// Ranks of a node.
        ranks: u32,
    },
    /// Fewer nodes are named as the only ones than the job has.
    #[error(
        "names {named} of the {asked} nodes that the job has with its spares; name more, or ask for fewer"
    )]
    FewNodesNamed {
        /// Nodes that are named and not excluded.
        named: u64,
        /// Nodes that the job needs at least, with its spares.
        asked: u64,
    },
    /// Two terms that no node fulfils together.
    #[error("no node fulfils this and entry {first} for '{key}'")]
    Contradiction {
        /// Position in the list.
        index: usize,
        /// Position of the earlier of the two terms.
        first: usize,
        /// The key of the label that both are about.
        key: String,
    },
    /// Waits for two ends of the same job.
    #[error("'{job}' cannot both succeed and fail; the job would wait for ever")]
    BothEnds {
        /// Position in the list.
        index: usize,
        /// The job that would have to succeed and to fail.
        job: JobName,
    },
    /// The job names itself among those that it waits for.
    #[error("'{job}' would wait for itself")]
    Itself {
        /// Position in the list.
        index: usize,
        /// The job's own name.
        job: JobName,
    },
    /// The elements of the array are wrong.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The job's name is too long to be followed by the index of an element.
    #[error("with its index, the name of an element is no name: {error}")]
    ElementName {
        /// Why the name of the element is not a name.
        error: NameError,
    },
    /// A duration of zero where something takes time.
    #[error("must be longer than 0s")]
    NoTime {
        /// The field whose duration is zero.
        field: &'static str,
    },
    /// The expected duration is longer than the time limit.
    #[error("is longer than timeLimit; the job would be ended before")]
    ExpectedBeyondLimit,
    /// A signal that programs cannot wait for.
    #[error("{signal} is not one of {}", signals())]
    Signal {
        /// Number of the signal, as on Linux.
        signal: i32,
    },
}

/// A list of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecList {
    /// `placement.groups`: how near to each other the nodes of a part of the gang must lie.
    Groups,
    /// `placement.selector`: conditions on the labels of nodes.
    Selector,
    /// `placement.tolerations`: taints that the job puts up with.
    Tolerations,
    /// `placement.exclude`: nodes that the job must not get.
    Exclude,
    /// `placement.nodes`: nodes that the job is limited to.
    Nodes,
    /// `placement.gpuModel`: models of GPU of which any will do.
    GpuModel,
    /// `after`: jobs that this one waits for.
    After,
}

impl SpecList {
    fn field(self) -> &'static str {
        match self {
            Self::Groups => "placement.groups",
            Self::Selector => "placement.selector",
            Self::Tolerations => "placement.tolerations",
            Self::Exclude => "placement.exclude",
            Self::Nodes => "placement.nodes",
            Self::GpuModel => "placement.gpuModel",
            Self::After => "after",
        }
    }
}

/// Names and numbers of the signals that a preemption may send.
pub const SIGNALS: [(&str, i32); 8] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGABRT", 6),
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGTERM", Preemption::SIGTERM),
    ("SIGCONT", 18),
];

fn signals() -> String {
    SIGNALS.map(|(name, _)| name).join(", ")
}

impl SpecFlaw {
    /// The field, as a path below the spec in lowerCamelCase.
    #[must_use]
    pub fn field(&self) -> String {
        let at = |list: SpecList, index: usize| format!("{}[{index}]", list.field());
        match self {
            Self::Component(flaw) => flaw.field(),
            Self::NoNodes => "gang.nodes".into(),
            Self::MinNodes { .. } => "gang.minNodes".into(),
            Self::NoRails { .. } => "rails.none".into(),
            Self::GroupSize { index, .. }
            | Self::GroupNesting { index, .. }
            | Self::GroupTwice { index, .. } => {
                format!("{}.size", at(SpecList::Groups, *index))
            }
            Self::GroupAnywhere { index } => format!("{}.within", at(SpecList::Groups, *index)),
            Self::SpreadWithin => "placement.arrange".into(),
            Self::Stage { .. } => "placement.stageNodes".into(),
            Self::Spares { .. } | Self::SparesUnused { .. } => "placement.spares".into(),
            Self::NoSpares => "failure.replace".into(),
            Self::Replacements { .. } => "failure.maxReplacements".into(),
            Self::TooMany { list, .. } => list.field().into(),
            Self::Label { list, index, .. } | Self::Twice { list, index, .. } => at(*list, *index),
            Self::NoValues { index } => format!("{}.values", at(SpecList::Selector, *index)),
            Self::NoAlternatives { index } | Self::NestedAlternatives { index } => {
                format!("{}.anyOf", at(SpecList::Selector, *index))
            }
            Self::SeveralInstances { .. } => "gang.ranksPerNode".into(),
            Self::ModelWithoutGpus => SpecList::GpuModel.field().into(),
            Self::FewNodesNamed { .. } => SpecList::Nodes.field().into(),
            Self::Contradiction { index, .. } => at(SpecList::Selector, *index),
            Self::BothEnds { index, .. } => at(SpecList::After, *index),
            Self::Itself { index, .. } => format!("{}.job", at(SpecList::After, *index)),
            Self::Array(_) | Self::ElementName { .. } => "array".into(),
            Self::NoTime { field } | Self::LateBegin { field } => (*field).into(),
            Self::ExpectedBeyondLimit => "expectedDuration".into(),
            Self::Signal { .. } => "preemption.signal".into(),
        }
    }
}

impl JobSpec {
    /// Everything in the spec that contradicts itself. What depends on the cluster, and plain ranges, are not looked at.
    #[must_use]
    pub fn flaws(&self) -> Vec<SpecFlaw> {
        let mut flaws = Vec::new();
        self.gang_flaws(&mut flaws);
        flaws.extend(self.component_flaws().into_iter().map(SpecFlaw::from));
        self.group_flaws(&mut flaws);
        self.spare_flaws(&mut flaws);
        self.selector_flaws(&mut flaws);
        self.list_flaws(&mut flaws);
        self.after_flaws(&mut flaws);
        self.time_flaws(&mut flaws);
        if let Some(Err(error)) = self.array.as_ref().map(ArraySpec::check) {
            flaws.push(error.into());
        }
        if !SIGNALS.iter().any(|(_, signal)| *signal == self.preemption.signal) {
            flaws.push(SpecFlaw::Signal { signal: self.preemption.signal });
        }
        flaws
    }

    /// The first of [`Self::flaws`]: for those who must not take in what has any.
    ///
    /// # Errors
    /// The first [`SpecFlaw`] of the spec, where there are several.
    pub fn check(&self) -> Result<(), SpecFlaw> {
        self.flaws().into_iter().next().map_or(Ok(()), Err)
    }

    /// What cannot be of a job of this name: that it waits for itself, or elements whose names are too long.
    #[must_use]
    pub fn name_flaws(&self, name: &JobName) -> Vec<SpecFlaw> {
        let own = |job: &JobName| match &self.array {
            Some(array) => {
                let index = job.as_str().strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('-'));
                let index = index.and_then(|index| index.parse().ok());
                job == name || index.is_some_and(|index| array.indices.binary_search(&index).is_ok())
            }
            None => job == name,
        };
        let itself = self.after.iter().enumerate().filter(|(_, other)| own(&other.job));
        let mut flaws: Vec<SpecFlaw> =
            itself.map(|(index, other)| SpecFlaw::Itself { index, job: other.job.clone() }).collect();
        let longest = self.array.as_ref().and_then(|array| array.indices.last());
        if let Some(Err(error)) = longest.map(|index| ArraySpec::element(name, *index)) {
            flaws.push(SpecFlaw::ElementName { error });
        }
        flaws
    }

    fn gang_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let (nodes, least) = (self.gang.nodes, self.gang.min_nodes);
        if nodes == 0 {
            flaws.push(SpecFlaw::NoNodes);
        } else if least == 0 || least > nodes {
            flaws.push(SpecFlaw::MinNodes { least, nodes });
        }
        if self.rails.none {
            let what = match () {
                () if self.rails.required > 0 => "requires some",
                () if self.rails.allow_partial => "permits some",
                () if nodes > 1 => "its nodes have no other way to one another",
                () => return,
            };
            flaws.push(SpecFlaw::NoRails { what });
        }
    }

    fn group_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let place = &self.placement;
        let (nodes, least) = (self.gang.nodes, self.gang.min_nodes);
        // An elastic gang shrinks and grows by whole groups.
        let divides = |size: u32| size > 0 && nodes.is_multiple_of(size) && least.is_multiple_of(size);
        let short = |size: u32| if size > 0 && nodes.is_multiple_of(size) { least } else { nodes };
        too_many(SpecList::Groups, place.groups.len(), MAX_TERMS, flaws);
        for (index, group) in place.groups.iter().enumerate() {
            let size = group.size;
            if !divides(size) {
                flaws.push(SpecFlaw::GroupSize { index, size, nodes: short(size) });
                continue;
            }
            if group.within == Within::Fabric {
                flaws.push(SpecFlaw::GroupAnywhere { index });
            }
            for other in place.groups[..index].iter().map(|group| group.size).filter(|other| *other > 0) {
                if other == size {
                    flaws.push(SpecFlaw::GroupTwice { index, size });
                } else if !size.is_multiple_of(other) && !other.is_multiple_of(size) {
                    flaws.push(SpecFlaw::GroupNesting { index, size, other });
                }
            }
        }
        if place.arrange == Arrange::Spread && place.within != Within::Fabric {
            flaws.push(SpecFlaw::SpreadWithin);
        }
        if let Pattern::Pipeline(stage) = place.pattern
            && !divides(stage)
        {
            flaws.push(SpecFlaw::Stage { stage, nodes: short(stage) });
        }
    }

    fn spare_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let (spares, nodes) = (self.placement.spares, self.gang.nodes);
        let (replace, limit) = (self.failure.replace, self.failure.max_replacements);
        if spares > nodes {
            flaws.push(SpecFlaw::Spares { spares, nodes });
        }
        match replace {
            Replace::Never if spares > 0 => flaws.push(SpecFlaw::SparesUnused { spares }),
            Replace::Spares if spares == 0 => flaws.push(SpecFlaw::NoSpares),
            _ => {}
        }
        if (replace == Replace::Never) != (limit == 0) {
            flaws.push(SpecFlaw::Replacements { limit, replace });
        }
    }

    fn selector_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let terms = &self.placement.selector;
        let list = SpecList::Selector;
        too_many(list, terms.len(), MAX_TERMS, flaws);
        for (index, term) in terms.iter().enumerate().take(MAX_TERMS) {
            match term {
                Term::Any(terms) if terms.is_empty() => flaws.push(SpecFlaw::NoAlternatives { index }),
                Term::Any(terms) => {
                    too_many(list, terms.len(), MAX_TERMS, flaws);
                    for term in terms.iter().take(MAX_TERMS) {
                        term_flaws(index, term, flaws);
                    }
                }
                term => term_flaws(index, term, flaws),
            }
            for (first, other) in terms[..index].iter().enumerate().filter(|(_, t)| t.key() == term.key()) {
                if other == term {
                    flaws.push(SpecFlaw::Twice { list, index, first });
                } else if excludes(other, term) || excludes(term, other) {
                    flaws.push(SpecFlaw::Contradiction { index, first, key: term.key().to_owned() });
                }
            }
        }
    }

    fn list_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let place = &self.placement;
        let list = SpecList::Tolerations;
        too_many(list, place.tolerations.len(), MAX_TERMS, flaws);
        for (index, toleration) in place.tolerations.iter().enumerate().take(MAX_TERMS) {
            let key = toleration.key.as_deref().map_or(Ok(()), check_key);
            let wrong = key.and_then(|()| toleration.value.as_deref().map_or(Ok(()), check_value));
            flaws.extend(wrong.err().map(|error| SpecFlaw::Label { list, index, error }));
            if let Some(first) = place.tolerations[..index].iter().position(|other| other == toleration) {
                flaws.push(SpecFlaw::Twice { list, index, first });
            }
        }
        too_many(SpecList::GpuModel, place.gpu_models.len(), MAX_TERMS, flaws);
        if !place.gpu_models.is_empty() && self.gang.gpus_per_node == 0 {
            flaws.push(SpecFlaw::ModelWithoutGpus);
        }
        let Gang { gpus_per_node: gpus, ranks_per_node: ranks, .. } = self.gang;
        let alike = self.components.is_empty();
        if alike && gpus > ranks && place.gpu_models.iter().any(GpuModel::names_partition) {
            flaws.push(SpecFlaw::SeveralInstances { gpus, ranks });
        }
        for (list, names) in [(SpecList::Exclude, &place.exclude), (SpecList::Nodes, &place.nodes)] {
            too_many(list, names.len(), MAX_EXCLUDED, flaws);
            let mut seen: BTreeSet<&NodeName> = BTreeSet::new();
            if let Some(index) = names.iter().position(|node| !seen.insert(node)) {
                let first = names.iter().position(|node| *node == names[index]).unwrap_or(0);
                flaws.push(SpecFlaw::Twice { list, index, first });
            }
        }
        let excluded: BTreeSet<&NodeName> = place.exclude.iter().collect();
        let named = place.nodes.iter().filter(|node| !excluded.contains(node)).count() as u64;
        let asked = u64::from(self.gang.min_nodes) + u64::from(place.spares);
        if !place.nodes.is_empty() && named < asked {
            flaws.push(SpecFlaw::FewNodesNamed { named, asked });
        }
    }

    fn after_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let list = SpecList::After;
        too_many(list, self.after.len(), MAX_TERMS, flaws);
        for (index, dependency) in self.after.iter().enumerate().take(MAX_TERMS) {
            let earlier = self.after[..index].iter().enumerate();
            for (first, other) in earlier.filter(|(_, other)| other.job == dependency.job) {
                use DependencyWhen::{Failed, Succeeded};
                if other.when == dependency.when {
                    flaws.push(SpecFlaw::Twice { list, index, first });
                } else if matches!((other.when, dependency.when), (Failed, Succeeded) | (Succeeded, Failed)) {
                    flaws.push(SpecFlaw::BothEnds { index, job: dependency.job.clone() });
                }
            }
        }
    }

    fn time_flaws(&self, flaws: &mut Vec<SpecFlaw>) {
        let late = |time: Option<Timestamp>| self.begin.zip(time).is_some_and(|(begin, time)| time <= begin);
        if late(self.start_before) {
            flaws.push(SpecFlaw::LateBegin { field: "startBefore" });
        }
        if late(self.deadline)
            || late(self.latest_start().filter(|_| self.deadline.is_some())) && !late(self.start_before)
        {
            flaws.push(SpecFlaw::LateBegin { field: "deadline" });
        }
        let times = [
            ("timeLimit", self.time_limit),
            ("expectedDuration", self.expected),
            ("preemption.checkpointEvery", self.preemption.checkpoint_every),
        ];
        for (field, time) in times {
            if time.is_some_and(|time| time.is_zero()) {
                flaws.push(SpecFlaw::NoTime { field });
            }
        }
        if self.time_limit.zip(self.expected).is_some_and(|(limit, expected)| expected > limit) {
            flaws.push(SpecFlaw::ExpectedBeyondLimit);
        }
    }
}

/// What is wrong with one condition by itself.
fn term_flaws(index: usize, term: &Term, flaws: &mut Vec<SpecFlaw>) {
    let list = SpecList::Selector;
    if let Term::Any(_) = term {
        flaws.push(SpecFlaw::NestedAlternatives { index });
        return;
    }
    if let Err(error) = check_key(term.key()) {
        flaws.push(SpecFlaw::Label { list, index, error });
    }
    if let Term::In(_, values) | Term::NotIn(_, values) = term {
        if values.is_empty() {
            flaws.push(SpecFlaw::NoValues { index });
        }
        too_many(list, values.len(), MAX_TERMS, flaws);
        let wrong = values.iter().find_map(|value| check_value(value).err());
        flaws.extend(wrong.map(|error| SpecFlaw::Label { list, index, error }));
    }
}

fn too_many(list: SpecList, count: usize, most: usize, flaws: &mut Vec<SpecFlaw>) {
    if count > most {
        flaws.push(SpecFlaw::TooMany { list, count, most });
    }
}

/// Whether no value of the label fulfils both.
fn excludes(a: &Term, b: &Term) -> bool {
    match (a, b) {
        (Term::In(_, a), Term::In(_, b)) => a.is_disjoint(b),
        (Term::In(_, a), Term::NotIn(_, b)) => a.is_subset(b),
        (Term::In(..) | Term::Exists(_), Term::Absent(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
