//! The check of a whole fabric.

use std::{collections::BTreeMap, fmt};

use proto_profile::QosProfile;

use super::{
    claim::{Claim, Packet},
    facts::{Facts, NicId},
    fault::{Fault, Setting, Trial},
    nics,
    ports::{self, Subject},
    replay::{Replay, replay},
    route::{self, Route, Site},
};
use crate::{
    asic::Asic,
    buffer::{self, BufferPlan, BufferRefusal, PortKind},
    model::{Name, Peer, Port, Switch},
    state::{NicState, PortState, SwitchState},
};

/// Where a fault is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// At a port of a switch.
    Port {
        /// The switch.
        switch: Name,
        /// The port.
        port: Name,
    },
    /// At a NIC.
    Nic(NicId),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { switch, port } => write!(f, "{switch} {port}"),
            Self::Nic(nic) => write!(f, "{nic}"),
        }
    }
}

/// What was checked, where nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proof {
    /// Switches.
    pub switches: usize,
    /// Their ports, which are ends of edges.
    pub ports: usize,
    /// NICs.
    pub nics: usize,
    /// Ends of cables between switches whose routing was read.
    pub neighbors: usize,
    /// Different settings of ports that were looked at; all others are equal to one of these.
    pub port_settings: usize,
    /// Different settings of NICs.
    pub nic_settings: usize,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switches, ports, nics, neighbors, port_settings, nic_settings } = self;
        write!(
            f,
            "all 64 DSCPs travel as the profile says over {ports} ports of {switches} switches ({port_settings} different settings) and {nics} NICs ({nic_settings}); {neighbors} BGP neighbours"
        )
    }
}

/// A packet that does not travel as the profile says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// Where the fault is.
    pub place: Location,
    /// What is wrong.
    pub fault: Fault,
    /// The packet.
    pub packet: Packet,
    /// What is claimed of it.
    pub claim: Claim,
    /// Its way; none where no NIC can be reached by that port.
    pub route: Option<Route>,
    /// The switch on the way at which the fault is.
    pub at: usize,
    /// What becomes of it.
    pub replay: Replay,
}

impl Counterexample {
    /// Whether a replay shows the fault.
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        self.replay.broken.is_some()
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.fault)?;
        writeln!(f, "packet: {}; should hold: {}", self.packet, self.claim)?;
        for line in &self.replay.trace {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// What a check comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Proof(Proof),
    /// A packet shows that something is.
    Counterexample(Box<Counterexample>),
}

/// What ports that are checked once are equal in.
type Key<'a> =
    (usize, Asic, Option<PortKind>, bool, Option<u32>, u32, bool, Option<u16>, &'a crate::state::PortQos);

/// A check under way.
struct Checker<'a> {
    profile: &'a QosProfile,
    site: Site<'a>,
    facts: &'a Facts,
    /// Switches that are equal in what is no port's.
    wholes: Vec<(&'a SwitchState, BufferPlan)>,
    seen_ports: BTreeMap<Key<'a>, Option<Fault>>,
    seen_nics: BTreeMap<(u32, &'a NicState), Option<Fault>>,
    proof: Proof,
}

/// Checks what was read of a fabric: a proof, or one packet that shows what is wrong.
///
/// # Errors
/// [`BufferRefusal`] where the profile cannot be right on one of these switches, whatever is set.
pub fn check(profile: &QosProfile, switches: &[Switch], facts: &Facts) -> Result<Verdict, BufferRefusal> {
    let mut checker = Checker {
        profile,
        site: route::site(switches),
        facts,
        wholes: Vec::new(),
        seen_ports: BTreeMap::new(),
        seen_nics: BTreeMap::new(),
        proof: Proof::default(),
    };
    for switch in switches {
        if let Some(found) = checker.switch(switch)? {
            return Ok(Verdict::Counterexample(Box::new(found)));
        }
    }
    checker.proof.port_settings = checker.seen_ports.len();
    checker.proof.nic_settings = checker.seen_nics.len();
    Ok(Verdict::Proof(checker.proof))
}

impl<'a> Checker<'a> {
    fn switch(&mut self, switch: &'a Switch) -> Result<Option<Counterexample>, BufferRefusal> {
        self.proof.switches += 1;
        let whole = match self.facts.switches.get(&switch.name) {
            Some(state) => Some((self.whole(switch, state)?, state)),
            None => None,
        };
        for port in &switch.ports {
            self.proof.ports += 1;
            let place = Location::Port { switch: switch.name.clone(), port: port.name.clone() };
            let read = whole.and_then(|(whole, state)| Some((whole, state, state.ports.get(&port.name)?)));
            let fault = match read {
                Some((whole, state, found)) => self.port(whole, switch, port, state, found),
                None => Some(self.missing()),
            };
            let fault = fault.or_else(|| self.neighbor(switch, port));
            if let Some(fault) = fault {
                return Ok(Some(self.counterexample(place, (&switch.name, &port.name), fault)));
            }
            if let Some(found) = self.nic(switch, port) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The number of a switch's settings that are no port's: equal ones have one number where their buffers are divided alike.
    fn whole(&mut self, switch: &'a Switch, state: &'a SwitchState) -> Result<usize, BufferRefusal> {
        let plan = buffer::plan(switch, self.profile)?;
        let same = |other: &(&SwitchState, BufferPlan)| {
            let (one, other_plan) = other;
            let settings = |s: &'a SwitchState| {
                (s.model, s.pattern, s.default_alpha, s.headroom_shared_by, &s.pools, s.poll_ms)
            };
            *other_plan == plan
                && (
                    one.model,
                    one.pattern,
                    one.default_alpha,
                    one.headroom_shared_by,
                    &one.pools,
                    one.poll_ms,
                ) == settings(state)
        };
        if let Some(at) = self.wholes.iter().position(same) {
            return Ok(at);
        }
        self.wholes.push((state, plan));
        Ok(self.wholes.len() - 1)
    }

    fn port(
        &mut self,
        whole: usize,
        switch: &'a Switch,
        port: &'a Port,
        state: &'a SwitchState,
        found: &'a PortState,
    ) -> Option<Fault> {
        let fabric = matches!(port.peer, Peer::Switch { .. });
        let PortState { speed, mtu, up, cable_m, ref qos, .. } = *found;
        let key = (whole, switch.asic, PortKind::of(port), fabric, speed, mtu, up, cable_m, qos);
        if let Some(seen) = self.seen_ports.get(&key) {
            return seen.clone();
        }
        let (_, plan) = self.wholes.get(whole)?;
        let subject = Subject { profile: self.profile, switch, plan, port, state, found };
        let fault = ports::fault(&subject);
        self.seen_ports.insert(key, fault.clone());
        fault
    }

    /// Whether routes are exchanged over a cable between switches, as far as routing was read.
    fn neighbor(&mut self, switch: &Switch, port: &Port) -> Option<Fault> {
        let Peer::Switch { switch: peer, .. } = &port.peer else { return None };
        let own = self.facts.switches.get(&switch.name)?.routing.as_ref()?;
        self.proof.neighbors += 1;
        let packet = ports::packet(self.profile, self.profile.spec().data_dscp);
        let trials = vec![(packet, Claim::Routed)];
        if !own.neighbors.contains(&port.name) {
            return Some(Fault::new(Setting::Neighbor, "none", format!("{peer}"), trials));
        }
        let far = self.facts.switches.get(peer)?.routing.as_ref()?;
        let wanted = format!("of another AS than {}", own.asn);
        (far.asn == own.asn)
            .then(|| Fault::new(Setting::Neighbor, format!("of AS {}", far.asn), wanted, trials))
    }

    fn nic(&mut self, switch: &Switch, port: &Port) -> Option<Counterexample> {
        let Peer::Nic { server, nic, .. } = &port.peer else { return None };
        self.proof.nics += 1;
        let id = NicId { server: server.clone(), nic: nic.clone() };
        let fault = match self.facts.nics.get(&id) {
            None => Some(self.missing()),
            Some(found) => {
                let profile = self.profile;
                // Where no speed is planned, that of the NIC is right.
                let speed = port.speed.unwrap_or(found.speed);
                let seen = self.seen_nics.entry((speed, found));
                seen.or_insert_with(|| nics::fault(profile, speed, found)).clone()
            }
        }?;
        Some(self.counterexample(Location::Nic(id), (&switch.name, &port.name), fault))
    }

    /// Nothing was read.
    fn missing(&self) -> Fault {
        let packet = ports::packet(self.profile, self.profile.spec().data_dscp);
        Fault::new(
            Setting::Missing,
            "nothing",
            "class of service",
            vec![(packet, Claim::Arrives { outer: 0 })],
        )
    }

    /// The first packet of a fault that a replay confirms, coming in by the port or going out.
    fn counterexample(&self, place: Location, port: (&Name, &Name), fault: Fault) -> Counterexample {
        let routes: Vec<(Route, usize)> = [true, false]
            .into_iter()
            .filter_map(|comes_in| route::through(&self.site, port.0, port.1, comes_in))
            .collect();
        let mut first: Option<Tried> = None;
        for trial in &fault.trials {
            for (route, at) in &routes {
                let replay = replay(&self.site, self.facts, route, *at, trial.0, trial.1);
                let confirmed = replay.broken.is_some();
                if confirmed || first.is_none() {
                    first = Some(Tried { trial: *trial, route: Some((route.clone(), *at)), replay });
                }
                if confirmed {
                    return shown(place, fault.clone(), first);
                }
            }
        }
        shown(place, fault, first)
    }
}

/// A packet of a fault on a way, and what became of it.
struct Tried {
    trial: Trial,
    route: Option<(Route, usize)>,
    replay: Replay,
}

fn shown(place: Location, fault: Fault, found: Option<Tried>) -> Counterexample {
    let nothing = || {
        let packet = Packet { dscp: 0, ect: false, bytes: 64 };
        let replay = Replay { trace: vec!["no NIC is reached by this port".to_owned()], broken: None };
        Tried { trial: (packet, Claim::Arrives { outer: 0 }), route: None, replay }
    };
    let Tried { trial: (packet, claim), route, replay } = found.unwrap_or_else(nothing);
    let (route, at) = route.map_or((None, 0), |(route, at)| (Some(route), at));
    Counterexample { place, fault, packet, claim, route, at, replay }
}
