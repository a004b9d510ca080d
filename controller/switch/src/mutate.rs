//! Faults made on purpose, and fabrics that are right in other ways: what the check is measured with. Everything follows from a seed.

mod change;
mod nic;
mod port;
mod variant;
mod whole;

use proto_profile::QosProfile;
use proto_random::Random;

use change::Site;
pub use variant::{Variant, variant};

use crate::{
    buffer::BufferRefusal,
    check::{Counterexample, Facts, Location, NicId, Verdict, check, replay, site},
    model::{Name, Peer, Switch},
    state::{NicState, PortState, SwitchState},
};

/// What became of faults that were made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// How many were made.
    pub made: usize,
    /// How many of them a counterexample was found of, at the switch or NIC where they are.
    pub caught: usize,
    /// How many of these a replay, done anew, confirms.
    pub confirmed: usize,
    /// The others, for people.
    pub missed: Vec<String>,
}

/// A fault that was made, and what was there before.
struct Made {
    what: &'static str,
    place: Location,
    before: Before,
}

enum Before {
    Port(Name, Name, Box<PortState>),
    Whole(Name, Box<SwitchState>),
    Nic(NicId, Box<NicState>),
}

/// Makes `count` faults, one at a time, in `facts`, which are right, and checks each. `facts` are right again in the end.
///
/// # Errors
/// [`BufferRefusal`] where the profile does not fit these switches.
pub fn run(
    profile: &QosProfile,
    switches: &[Switch],
    facts: &mut Facts,
    seed: u64,
    count: usize,
) -> Result<Outcome, BufferRefusal> {
    let mut random = Random::new(seed);
    let mut outcome = Outcome::default();
    let by_name = site(switches);
    while outcome.made < count {
        let Some(made) = make(profile, switches, facts, &mut random) else { continue };
        outcome.made += 1;
        let verdict = check(profile, switches, facts)?;
        let place = made.place.clone();
        let what = made.what;
        let found = match verdict {
            Verdict::Counterexample(found) if same_device(&found.place, &place) => Some(found),
            _ => None,
        };
        let breaks = found.as_deref().is_some_and(|found| shows(&by_name, facts, found));
        undo(facts, made.before);
        outcome.caught += usize::from(found.is_some());
        if breaks {
            outcome.confirmed += 1;
        } else {
            let text = found.map_or_else(|| "not found".to_owned(), |found| found.to_string());
            outcome.missed.push(format!("{what} at {place}: {text}"));
        }
    }
    Ok(outcome)
}

/// Whether a replay, done anew, shows the fault.
fn shows(site: &crate::check::Site<'_>, facts: &Facts, found: &Counterexample) -> bool {
    let again = |route| replay(site, facts, route, found.at, found.packet, found.claim);
    found.route.as_ref().is_some_and(|route| again(route).broken.is_some())
}

fn same_device(found: &Location, made: &Location) -> bool {
    match (found, made) {
        (Location::Port { switch: one, .. }, Location::Port { switch: other, .. }) => one == other,
        (Location::Nic(one), Location::Nic(other)) => one == other,
        _ => false,
    }
}

fn make(profile: &QosProfile, switches: &[Switch], facts: &mut Facts, random: &mut Random) -> Option<Made> {
    let switch = switches.get(random.index(switches.len()))?;
    let port = switch.ports.get(random.index(switch.ports.len()))?;
    let site = Site { profile, port };
    let place = Location::Port { switch: switch.name.clone(), port: port.name.clone() };
    // As many of NICs as of switches.
    let made = match (&port.peer, random.below(2)) {
        (Peer::Nic { server, nic, .. }, 0) => {
            let id = NicId { server: server.clone(), nic: nic.clone() };
            let (what, change) = nic::CHANGES[random.index(nic::CHANGES.len())];
            let state = facts.nics.get_mut(&id)?;
            let before = Before::Nic(id.clone(), Box::new(state.clone()));
            let done = change(&site, state, random);
            (done, Made { what, place: Location::Nic(id), before })
        }
        _ if random.below(8) == 0 => {
            let (what, change) = whole::CHANGES[random.index(whole::CHANGES.len())];
            let state = facts.switches.get_mut(&switch.name)?;
            let before = Before::Whole(switch.name.clone(), Box::new(state.clone()));
            (change(&site, state, random), Made { what, place, before })
        }
        _ => {
            let (what, change) = port::CHANGES[random.index(port::CHANGES.len())];
            let state = facts.switches.get_mut(&switch.name)?.ports.get_mut(&port.name)?;
            let before = Before::Port(switch.name.clone(), port.name.clone(), Box::new(state.clone()));
            (change(&site, state, random), Made { what, place, before })
        }
    };
    // What would change nothing is taken back, for it may have begun.
    let (done, made) = made;
    if done.is_some() && made.before.differs(facts) {
        return Some(made);
    }
    undo(facts, made.before);
    None
}

impl Before {
    /// Whether it is otherwise now.
    fn differs(&self, facts: &Facts) -> bool {
        match self {
            Self::Port(switch, port, state) => facts.port(switch, port).map(|(_, now)| now) != Some(state),
            Self::Whole(name, state) => facts.switches.get(name) != Some(state),
            Self::Nic(id, state) => facts.nics.get(id) != Some(state),
        }
    }
}

fn undo(facts: &mut Facts, before: Before) {
    match before {
        Before::Port(switch, port, state) => {
            if let Some(switch) = facts.switches.get_mut(&switch) {
                switch.ports.insert(port, *state);
            }
        }
        Before::Whole(name, state) => {
            facts.switches.insert(name, *state);
        }
        Before::Nic(id, state) => {
            facts.nics.insert(id, *state);
        }
    }
}
