//! Faults that are put in.

use proto_random::Random;

use super::traffic::RAILS;
use crate::condition::Condition;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A job's bytes are outside its priority.
    WrongPriority,
    /// A storm of pause.
    Storm,
    /// The link goes down and comes back.
    Flap,
    /// Two cables are exchanged. What each port hears is given by the model, so this measures the judgement and not the hearing: an agent
    /// knows no plan of the leaves to compare with what its NICs hear over LLDP. The controller does, and finds such cables by itself
    /// (`Miscabled` where its document of the fabric says so, `RailsSwapped` where a gang is certified).
    Swapped,
    /// A rail carries 20 % less.
    Slow,
}

impl Kind {
    /// All kinds of faults, in the order of their definition.
    pub const ALL: [Self; 5] = [Self::WrongPriority, Self::Storm, Self::Flap, Self::Swapped, Self::Slow];

    /// As reports write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WrongPriority => "wrong data class",
            Self::Storm => "storm",
            Self::Flap => "flap",
            Self::Swapped => "swapped rail",
            Self::Slow => "slow rail (20 %)",
        }
    }

    /// The condition that must be found.
    #[must_use]
    pub fn shows(self) -> Condition {
        match self {
            Self::WrongPriority => Condition::WrongPriority,
            Self::Storm => Condition::Storm,
            Self::Flap => Condition::Flapping,
            Self::Swapped => Condition::Swapped,
            Self::Slow => Condition::Slow,
        }
    }
}

impl Kind {
    /// What else is true of a rail that has it.
    #[must_use]
    pub fn follows(self) -> &'static [Condition] {
        match self {
            // What is paused carries less than its peers.
            Self::Storm => &[Condition::Slow],
            Self::Flap => &[Condition::LinkDown],
            Self::WrongPriority | Self::Swapped | Self::Slow => &[],
        }
    }
}

/// A fault that is put into the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: Kind,
    /// The rails that have it.
    pub rails: Vec<u32>,
    /// Of its direction, out of this host.
    pub outward: bool,
    /// Of a wrong data class: the share of bytes. Of a storm: the share of time. Of a slow rail: what is left.
    pub share: f64,
    /// Of a flap: how often, and how long the link is down each time, in milliseconds.
    pub bounces: u64,
    /// How long the link is down each time, in milliseconds; 0 where the fault is no flap.
    pub down_ms: u64,
    /// The priority that wrong bytes are in.
    pub priority: usize,
}

impl Fault {
    /// Whether each of its rails has to be taken out of use.
    #[must_use]
    pub fn must_drain(&self) -> bool {
        match self.kind {
            Kind::Storm | Kind::Swapped => true,
            Kind::Flap => self.bounces >= 3,
            Kind::WrongPriority | Kind::Slow => false,
        }
    }

    /// One of a kind, with everything else by chance.
    #[must_use]
    pub fn random(kind: Kind, random: &mut Random) -> Self {
        let rail = random.within(0, u64::from(RAILS) - 1) as u32;
        let other = (rail + random.within(1, u64::from(RAILS) - 1) as u32) % RAILS;
        let share = match kind {
            // From control messages only to everything.
            Kind::WrongPriority if random.once_in(2.0) => random.between(0.005, 0.1),
            Kind::WrongPriority => 1.0,
            Kind::Storm => random.between(0.95, 1.0),
            _ => 0.8,
        };
        let rails = match kind {
            Kind::Swapped => vec![rail, other],
            // Several, and never all: those beside them are to stay well.
            Kind::WrongPriority if random.once_in(2.0) => {
                let count = random.within(2, u64::from(RAILS) - 1) as u32;
                (0..count).map(|at| (rail + at) % RAILS).collect()
            }
            _ => vec![rail],
        };
        Self {
            kind,
            rails,
            outward: random.once_in(2.0),
            share,
            bounces: random.within(1, 4),
            down_ms: random.within(300, 3000),
            priority: [0, 1, 2, 5][random.within(0, 3) as usize],
        }
    }
}
