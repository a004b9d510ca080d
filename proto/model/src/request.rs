//! What a job asks of its place: how near its nodes must lie, and which nodes will do.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GpuModel, NodeName};

/// A place that a gang or a group stays inside. A smaller place is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Within {
    /// Nodes on the same leaves.
    Leaves,
    /// Nodes of one pod.
    Pod,
    /// Nodes anywhere in the fabric.
    #[default]
    Fabric,
}

/// Nodes of consecutive ranks that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// How many nodes; the gang is so many groups of them without rest.
    pub size: u32,
    /// Where each group must stay.
    pub within: Within,
    /// Whether the gang rather waits than split a group.
    pub required: bool,
}

/// Whether the nodes of a gang lie close together or apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Arrange {
    /// As close together as there is room.
    #[default]
    Pack,
    /// Over as many pods as there are, evenly.
    Spread,
}

/// Who talks to whom, for the weighted cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pattern {
    /// Each node to its neighbour in rank order, the last to the first.
    #[default]
    Ring,
    /// Each node talks to each other one.
    AllToAll,
    /// Groups of so many nodes in which all talk to all; each node also to that of the same position in the next group.
    Pipeline(u32),
}

/// What a job asks of its place, beside the number of nodes. The default asks nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementRequest {
    /// Where the whole gang must stay.
    pub within: Within,
    /// Parts of the gang that must lie closer together than the whole.
    pub groups: Vec<Group>,
    /// Whether nodes lie close together or apart.
    pub arrange: Arrange,
    /// Which nodes talk to which, for the order of ranks.
    pub pattern: Pattern,
    /// No other job is placed on its nodes.
    pub exclusive: bool,
    /// Further nodes that are held idle for it.
    pub spares: u32,
    /// Conditions on the labels of its nodes; all must hold.
    pub selector: Vec<Term>,
    /// Taints that it puts up with.
    pub tolerations: Vec<Toleration>,
    /// Nodes that it does not want.
    pub exclude: Vec<NodeName>,
    /// The only nodes that it may have; none: any.
    pub nodes: Vec<NodeName>,
    /// Models of GPU of which any will do; none: any GPU.
    pub gpu_models: BTreeSet<GpuModel>,
}

impl PlacementRequest {
    /// Whether it names nodes that it wants or does not want.
    #[must_use]
    pub fn names_nodes(&self) -> bool {
        !self.exclude.is_empty() || !self.nodes.is_empty()
    }
}

/// What keeps jobs off a node unless they tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Key of the taint, for example `maintenance`.
    pub key: String,
    /// Value of the taint; may be empty.
    pub value: String,
}

/// One condition on a node's labels, or several of which one is enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The label has one of these values.
    In(String, BTreeSet<String>),
    /// The label is absent or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The node has the label, whatever its value.
    Exists(String),
    /// The node does not have the label.
    Absent(String),
    /// One of these holds; none of them is such a list itself.
    Any(BTreeSet<Term>),
}

impl Term {
    /// The label that it looks at; of alternatives the first one's.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::In(key, _) | Self::NotIn(key, _) | Self::Exists(key) | Self::Absent(key) => key,
            Self::Any(terms) => terms.first().map_or("", Self::key),
        }
    }

    /// Its alternatives: itself where it has none.
    pub fn alternatives(&self) -> impl Iterator<Item = &Self> {
        let (own, list) = match self {
            Self::Any(terms) => (None, Some(terms)),
            own => (Some(own), None),
        };
        own.into_iter().chain(list.into_iter().flatten())
    }

    /// Whether a node with these labels fulfils it.
    #[must_use]
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
            Self::Any(terms) => terms.iter().any(|term| term.holds(labels)),
        }
    }
}

/// A taint that a job puts up with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// The taint's key; `None`: every taint.
    pub key: Option<String>,
    /// The taint's value; `None`: every value.
    pub value: Option<String>,
}

impl Toleration {
    /// Whether it puts up with this taint.
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}
