//! Switches, links, and routes that somebody has set by hand.

use std::collections::{BTreeMap, BTreeSet};

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// All cables between two switches, by the index of the link.
    Link(usize),
    /// A switch, by its index.
    Switch(usize),
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its tier: 0 is a leaf, above it spines, above them super-spines.
    pub tier: u8,
    /// Servers are on it: traffic begins and ends here.
    pub serves: bool,
}

/// A route that stays as long as its link does, whatever the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticRoute {
    /// Index of the switch that has it.
    pub at: usize,
    /// Index of the switch that it leads to.
    pub to: usize,
    /// Index of the neighbour that it takes.
    pub over: usize,
}

/// Why switches and links are no fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFabric {
    /// An index that no switch has.
    #[error("link {link}: there is no switch {switch}")]
    NoSwitch {
        /// Index of the link.
        link: usize,
        /// The index.
        switch: usize,
    },
    /// A link of a switch to itself, or of two switches of one tier.
    #[error("link {link} ties {a} and {b}, which are of one tier")]
    OneTier {
        /// Index of the link.
        link: usize,
        /// Names of its ends.
        a: String,
        /// The other.
        b: String,
    },
    /// A static route over a switch that is no neighbour, or to one that serves nobody.
    #[error("the static route at {at} to {to} over {over} cannot be")]
    Route {
        /// Name of the switch that has it.
        at: String,
        /// Where it leads.
        to: String,
        /// The neighbour.
        over: String,
    },
}

/// Switches and links; cables in parallel between the same two are one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fabric {
    switches: Vec<Switch>,
    links: Vec<(usize, usize)>,
    routes: Vec<StaticRoute>,
    neighbours: Vec<Vec<(usize, usize)>>,
}

impl Fabric {
    /// A fabric. Each link is named once, as the lower switch and the higher one or the other way round; repeated ones are one.
    ///
    /// # Errors
    /// [`BadFabric`] names the first link or route that cannot be.
    pub fn new(
        switches: Vec<Switch>,
        links: &[(usize, usize)],
        routes: Vec<StaticRoute>,
    ) -> Result<Self, BadFabric> {
        let mut distinct = BTreeSet::new();
        for (link, &(a, b)) in links.iter().enumerate() {
            let missing = [a, b].into_iter().find(|switch| *switch >= switches.len());
            if let Some(switch) = missing {
                return Err(BadFabric::NoSwitch { link, switch });
            }
            let (low, high) = if switches[a].tier <= switches[b].tier { (a, b) } else { (b, a) };
            if switches[low].tier == switches[high].tier {
                let (a, b) = (switches[a].name.clone(), switches[b].name.clone());
                return Err(BadFabric::OneTier { link, a, b });
            }
            distinct.insert((low, high));
        }
        let links: Vec<_> = distinct.into_iter().collect();
        let mut neighbours = vec![Vec::new(); switches.len()];
        for (link, &(a, b)) in links.iter().enumerate() {
            neighbours[a].push((b, link));
            neighbours[b].push((a, link));
        }
        let fabric = Fabric { switches, links, routes, neighbours };
        fabric.routes.iter().try_for_each(|route| fabric.check(*route))?;
        Ok(fabric)
    }

    fn check(&self, route: StaticRoute) -> Result<(), BadFabric> {
        let name = |switch: usize| {
            self.switches.get(switch).map_or_else(|| format!("switch {switch}"), |switch| switch.name.clone())
        };
        let bad = BadFabric::Route { at: name(route.at), to: name(route.to), over: name(route.over) };
        let serves = self.switches.get(route.to).is_some_and(|switch| switch.serves);
        let beside =
            self.neighbours.get(route.at).is_some_and(|near| near.iter().any(|(of, _)| *of == route.over));
        if serves && beside && route.at != route.to { Ok(()) } else { Err(bad) }
    }

    /// The switches.
    #[must_use]
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The links, as (lower, higher).
    #[must_use]
    pub fn links(&self) -> &[(usize, usize)] {
        &self.links
    }

    pub(super) fn routes(&self) -> &[StaticRoute] {
        &self.routes
    }

    /// Neighbours of a switch and the links to them, in the order of the links.
    pub(super) fn neighbours(&self, switch: usize) -> &[(usize, usize)] {
        &self.neighbours[switch]
    }

    /// How many sets of at most so many failures there are.
    pub(super) fn failure_sets(&self, failures: u8) -> u64 {
        let things = (self.links.len() + self.switches.len()) as u64;
        match failures {
            0 => 1,
            1 => 1 + things,
            _ => 1 + things + things * things.saturating_sub(1) / 2,
        }
    }

    /// For each switch the number of the connected part that it is in.
    pub(super) fn parts(&self) -> Vec<usize> {
        let mut part = vec![usize::MAX; self.switches.len()];
        let mut count = 0;
        for first in 0..part.len() {
            if part[first] != usize::MAX {
                continue;
            }
            let mut open = vec![first];
            part[first] = count;
            while let Some(at) = open.pop() {
                for &(near, _) in self.neighbours(at) {
                    if part[near] == usize::MAX {
                        part[near] = count;
                        open.push(near);
                    }
                }
            }
            count += 1;
        }
        part
    }

    /// Static routes by the switch that has them and where they lead.
    pub(super) fn static_routes(&self) -> BTreeMap<(usize, usize), Vec<usize>> {
        let mut by: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for route in &self.routes {
            by.entry((route.at, route.to)).or_default().push(route.over);
        }
        by
    }
}
