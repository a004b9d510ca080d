//! The switches of a cluster: the fabric document, and what administrators have said of each switch under the same name. Ports and buffers
//! are planned of one switch at a time; of the others only their names and numbers count.

mod cables;
mod cabling;
mod finding;
mod ports;

use std::{cell::OnceCell, collections::BTreeMap};

pub use cabling::Seen;
pub use finding::{Finding, Problem};
use proto_model::{Fabric, Leaf, Spine, SwitchConfig, SwitchSpec};
use proto_profile::{ProfileDocumentError, QosProfile, from_json};

use crate::{
    asic::Asic,
    bgp::{self, Bgp, BgpRefusal},
    desired,
    fabric::{self, Hardware},
    model::{Name, Nos, Peer, Port, Role, Switch},
    render::files,
    state::BufferModel,
};

/// Lanes of a port, where nothing says another number.
const LANES: u8 = 4;
/// Metres of cable between a leaf and its servers at most, where nothing says it.
const LEAF_CABLE_M: u16 = 5;
/// The same between switches.
const SPINE_CABLE_M: u16 = 40;

/// Where a switch stands in the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its tier.
    pub role: Role,
    /// The rails that it serves.
    pub rails: Vec<u32>,
    /// The pod that it is in; empty above pods.
    pub pod: String,
    /// Its plane.
    pub plane: u32,
}

/// A file of a switch's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// For example `config_db.json`.
    pub name: &'static str,
    /// All of it.
    pub content: String,
}

/// A switch of the document.
#[derive(Clone, Copy)]
enum Listed<'a> {
    Leaf(&'a Leaf),
    Spine(&'a Spine),
}

/// The switches of a cluster.
pub struct Cluster<'a> {
    fabric: &'a Fabric,
    listed: BTreeMap<&'a str, Listed<'a>>,
    tiers: BTreeMap<&'a str, u8>,
    circle: Option<fabric::Finding>,
    said: BTreeMap<&'a str, &'a SwitchSpec>,
    /// Uplinks by the switches at their ends.
    uplinks: OnceCell<cables::Ends<'a>>,
    cables: OnceCell<cables::Cables<'a>>,
    numbers: OnceCell<(BTreeMap<Name, Bgp>, Vec<BgpRefusal>)>,
}

/// The profile of a document; the built-in one without.
///
/// # Errors
/// [`ProfileDocumentError`] where it is none.
pub fn profile_of(document: Option<&str>) -> Result<QosProfile, ProfileDocumentError> {
    document.map_or_else(|| Ok(QosProfile::default()), from_json)
}

impl<'a> Cluster<'a> {
    /// The switches of a document with what is said of them; what is said of a switch that it has not counts for nothing.
    #[must_use]
    pub fn new(fabric: &'a Fabric, said: impl IntoIterator<Item = &'a SwitchConfig>) -> Self {
        let (tiers, circle) = fabric::tiers(fabric);
        let leaves = fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), Listed::Leaf(leaf)));
        let spines = fabric.spines.iter().map(|spine| (spine.name.as_str(), Listed::Spine(spine)));
        Self {
            fabric,
            listed: leaves.chain(spines).collect(),
            tiers,
            circle,
            said: said.into_iter().map(|one| (one.name.as_str(), &one.spec)).collect(),
            uplinks: OnceCell::new(),
            cables: OnceCell::new(),
            numbers: OnceCell::new(),
        }
    }

    /// Where a switch stands; `None` where the document has none of that name.
    #[must_use]
    pub fn seat(&self, name: &str) -> Option<Seat> {
        Some(match self.listed.get(name)? {
            Listed::Leaf(leaf) => Seat {
                role: Role::Leaf,
                rails: leaf.rails().collect(),
                pod: leaf.pod.clone(),
                plane: leaf.plane,
            },
            Listed::Spine(spine) => Seat {
                role: fabric::spine_role(spine, &self.tiers),
                rails: spine.rails().collect(),
                pod: String::new(),
                plane: spine.plane,
            },
        })
    }

    fn role(&self, name: &str) -> Role {
        match self.listed.get(name) {
            Some(Listed::Spine(spine)) => fabric::spine_role(spine, &self.tiers),
            _ => Role::Leaf,
        }
    }

    /// All that is wrong with a switch, or with what is said of it.
    #[must_use]
    pub fn findings(&self, name: &str) -> Vec<Finding> {
        let Some(own) = self.listed.get(name) else { return vec![Finding::of(name, Problem::NotInFabric)] };
        let mut found = self.clashes(name);
        found.extend(self.planned(name, *own).1);
        found
    }

    /// The files that a switch is to have with a profile.
    ///
    /// # Errors
    /// Every [`Finding`] at once.
    pub fn files(&self, profile: &QosProfile, name: &str) -> Result<Vec<File>, Vec<Finding>> {
        let alone = |problem| vec![Finding::of(name, problem)];
        let own = *self.listed.get(name).ok_or_else(|| alone(Problem::NotInFabric))?;
        let said = *self.said.get(name).ok_or_else(|| alone(Problem::Unknown))?;
        let (switch, wrong) = self.planned(name, own);
        let mut found = self.clashes(name);
        found.extend(wrong);
        let Some(switch) = switch.filter(|_| found.is_empty()) else { return Err(found) };
        let planned = self.numbers().0.get(&switch.name).ok_or_else(|| alone(Problem::Unknown))?;
        // Of the switch alone no neighbour is known where numbers are given to all.
        let bgp = Bgp { neighbors: bgp::neighbors(&switch), ..planned.clone() };
        let nos = Nos::from(said.nos);
        let state = match nos {
            Nos::Linux => desired::routed(profile, &switch, &bgp),
            _ => desired::single(profile, &switch, BufferModel::Static, &bgp)
                .map_err(|why| alone(Problem::Plan(why)))?,
        };
        let files = files::files(nos, &state).map_err(|why| alone(Problem::Text(why.to_string())))?;
        Ok(files.into_iter().map(|(name, content)| File { name, content }).collect())
    }

    /// All switches of the document, in the order of their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.keys().copied()
    }

    /// The cabled ports of a switch; none where it cannot be planned.
    #[must_use]
    pub fn ports(&self, name: &str) -> Vec<Port> {
        let Some(own) = self.listed.get(name) else { return Vec::new() };
        self.planned(name, *own).0.map(|switch| switch.ports).unwrap_or_default()
    }

    /// BGP sessions that a switch is to have: the port, and the switch at the other end of its cable; none where it cannot be planned.
    #[must_use]
    pub fn sessions(&self, name: &str) -> Vec<(Name, Name)> {
        let session = |port: Port| match port.peer {
            Peer::Switch { switch, .. } => Some((port.name, switch)),
            Peer::Nic { .. } => None,
        };
        self.ports(name).into_iter().filter_map(session).collect()
    }

    /// Loopbacks and AS numbers that do not go together, as far as this switch is concerned.
    fn clashes(&self, name: &str) -> Vec<Finding> {
        let tier = self.role(name).tier();
        let own = self.numbers().1.iter().filter(|why| why.concerns(name, tier));
        own.map(|why| Finding::of(name, Problem::Numbers(why.clone()))).collect()
    }

    /// Routing of all switches, which follows from their names, tiers, and what is said of them.
    fn numbers(&self) -> &(BTreeMap<Name, Bgp>, Vec<BgpRefusal>) {
        self.numbers.get_or_init(|| {
            let bare = |name: &&str| {
                let said = self.said.get(*name);
                Some(Switch {
                    name: Name::new(name).ok()?,
                    nos: Nos::Linux,
                    version: String::new(),
                    asic: Asic::SonicVs,
                    role: self.role(name),
                    rails: Vec::new(),
                    pod: None,
                    plane: 0,
                    loopback: said.and_then(|said| said.loopback),
                    asn: said.map(|said| said.asn).filter(|asn| *asn > 0),
                    ports: Vec::new(),
                })
            };
            bgp::plan_all(&self.listed.keys().filter_map(bare).collect::<Vec<_>>())
        })
    }

    fn hardware(&self, name: &str, role: Role) -> Hardware {
        let said = self.said.get(name);
        let usual = if role == Role::Leaf { LEAF_CABLE_M } else { SPINE_CABLE_M };
        let cable_m = said.and_then(|said| u16::try_from(said.cable_m).ok()).filter(|metres| *metres > 0);
        Hardware {
            nos: said.map_or(Nos::Sonic, |said| said.nos.into()),
            version: said.map(|said| said.version.clone()).unwrap_or_default(),
            asic: said.and_then(|said| said.asic).map_or(Asic::SonicVs, Asic::from),
            lanes: LANES,
            cable_m: cable_m.unwrap_or(usual),
        }
    }
}
