//! Cables of a cluster, by the switch at their end.

use std::collections::BTreeMap;

use proto_model::{Link, LinkGroup, Uplink};

/// At which end of uplinks a switch is.
#[derive(Clone, Copy)]
pub(super) enum End {
    Lower,
    Upper,
}

/// Uplinks by the switches at their ends.
pub(super) type Ends<'a> = BTreeMap<String, Vec<(End, &'a Uplink)>>;

/// Cables from servers, by leaf.
#[derive(Default)]
pub(super) struct Cables<'a> {
    pub(super) links: BTreeMap<&'a str, Vec<&'a Link>>,
    pub(super) groups: BTreeMap<&'a str, Vec<&'a LinkGroup>>,
}
