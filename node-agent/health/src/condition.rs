//! What can be wrong with a rail, how bad it is, what shows it, and what proves that it is over.

use std::{fmt, time::Duration};

use proto_model::NicConditionCode;
pub use proto_model::Severity;

/// What is wrong with one NIC or its rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The link is down.
    LinkDown,
    /// The device is not there.
    Gone,
    /// Its counters cannot be read: nothing is known.
    Unreadable,
    /// The link went down and came back.
    Flapping,
    /// Pauses that do not end.
    Storm,
    /// A job's bytes are outside its priority.
    WrongPriority,
    /// It carries less than its peers under the same load.
    Slow,
    /// Its cable leads to another rail.
    Swapped,
    /// It loses packets.
    Lossy,
    /// What comes in is damaged.
    Corrupt,
    /// It drops packets.
    Dropping,
    /// The host holds it up.
    HostStalled,
    /// Receivers post too slowly.
    NotReady,
    /// Queue pairs gave up.
    QpDied,
    /// Congestion is marked, but nobody slows down.
    RateControlOff,
}

impl Condition {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::LinkDown,
        Self::Gone,
        Self::Unreadable,
        Self::Flapping,
        Self::Storm,
        Self::WrongPriority,
        Self::Slow,
        Self::Swapped,
        Self::Lossy,
        Self::Corrupt,
        Self::Dropping,
        Self::HostStalled,
        Self::NotReady,
        Self::QpDied,
        Self::RateControlOff,
    ];
    /// Number of conditions.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in [`Condition::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// UpperCamelCase, stable: the code of a reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::LinkDown => "LinkDown",
            Self::Gone => "Gone",
            Self::Unreadable => "Unreadable",
            Self::Flapping => "Flapping",
            Self::Storm => "Storm",
            Self::WrongPriority => "WrongPriority",
            Self::Slow => "Slow",
            Self::Swapped => "Swapped",
            Self::Lossy => "Lossy",
            Self::Corrupt => "Corrupt",
            Self::Dropping => "Dropping",
            Self::HostStalled => "HostStalled",
            Self::NotReady => "NotReady",
            Self::QpDied => "QpDied",
            Self::RateControlOff => "RateControlOff",
        }
    }

    /// The condition of a code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.code() == code)
    }

    /// What must be seen before it is over.
    #[must_use]
    pub fn proof(self) -> Proof {
        let seconds = Duration::from_secs;
        let proof = |quiet, bytes, probed| Proof { quiet, bytes, probed };
        match self {
            // The state itself is seen; it must last.
            Self::LinkDown | Self::Gone | Self::Swapped => proof(seconds(30), 0, None),
            Self::Unreadable => proof(seconds(10), 0, None),
            // OCI's grace after a boot, the longest time that anybody lets a link settle.
            Self::Flapping => proof(seconds(1800), 0, Some(seconds(120))),
            Self::Storm => proof(seconds(60), GIB, Some(seconds(30))),
            Self::WrongPriority => proof(seconds(30), GIB, None),
            // A probe goes through the kernel and makes 2 Gbit/s: it says nothing of a whole link, of the bus, or of what RDMA does
            // when congestion is marked.
            Self::Slow => proof(seconds(60), GIB, None),
            Self::Lossy | Self::Corrupt | Self::Dropping => proof(seconds(300), 10 * GIB, Some(seconds(30))),
            Self::HostStalled | Self::RateControlOff => proof(seconds(120), GIB, None),
            Self::NotReady | Self::QpDied => proof(seconds(60), 0, None),
        }
    }

    /// Whether it counts towards those that together make a rail unfit: what an application or a configuration does, and
    /// what is not known, does not.
    #[must_use]
    pub const fn is_of_rail(self) -> bool {
        !matches!(
            self,
            Self::WrongPriority
                | Self::NotReady
                | Self::QpDied
                | Self::RateControlOff
                | Self::Unreadable
                | Self::Slow
        )
    }

    /// Whether this host can be what is wrong, rather than its cable or the network.
    #[must_use]
    pub const fn is_of_host(self) -> bool {
        matches!(self, Self::Gone | Self::HostStalled | Self::Storm)
    }
}

impl From<Condition> for NicConditionCode {
    fn from(condition: Condition) -> Self {
        match condition {
            Condition::LinkDown => Self::LinkDown,
            Condition::Gone => Self::Gone,
            Condition::Unreadable => Self::Unreadable,
            Condition::Flapping => Self::Flapping,
            Condition::Storm => Self::Storm,
            Condition::WrongPriority => Self::WrongPriority,
            Condition::Slow => Self::Slow,
            Condition::Swapped => Self::Swapped,
            Condition::Lossy => Self::Lossy,
            Condition::Corrupt => Self::Corrupt,
            Condition::Dropping => Self::Dropping,
            Condition::HostStalled => Self::HostStalled,
            Condition::NotReady => Self::NotReady,
            Condition::QpDied => Self::QpDied,
            Condition::RateControlOff => Self::RateControlOff,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Number of bytes in a GiB.
const GIB: u64 = 1 << 30;

/// What must be seen, from the last sign of a condition on, before the condition is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// How long there must be no sign of the condition, while it could have been seen.
    pub quiet: Duration,
    /// Bytes that the port must carry in that time.
    pub bytes: u64,
    /// In place of both: a probe of the path that passed, and this long without a sign. `None` where a probe does not show it.
    pub probed: Option<Duration>,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s without a sign", self.quiet.as_secs())?;
        if self.bytes > 0 {
            write!(f, " and {} GiB carried", self.bytes / GIB)?;
        }
        if let Some(least) = self.probed {
            write!(f, ", or {} s and a probe that passes", least.as_secs())?;
        }
        Ok(())
    }
}

/// What a piece of evidence is about.
#[derive(Debug, PartialEq)]
pub struct Fact {
    /// Stable name of the rule.
    pub id: &'static str,
    /// The counter, word or state that it looks at.
    pub what: &'static str,
    /// Unit of the value and the limit.
    pub unit: &'static str,
    /// Who published the limit, or how it was chosen.
    pub source: &'static str,
    /// What is the likely cause, and what to do.
    pub hint: &'static str,
}

/// What shows a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The rule that was broken.
    pub fact: &'static Fact,
    /// The value that was measured, in the rule's unit.
    pub value: f64,
    /// The value that must not be passed, in the rule's unit.
    pub limit: f64,
    /// The time over which it was measured.
    pub over: Duration,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fact { what, unit, source, hint, .. } = self.fact;
        write!(f, "{what}: {}{unit}", Plain(self.value))?;
        if !self.over.is_zero() {
            write!(f, " over {} s", self.over.as_secs().max(1))?;
        }
        write!(f, ", limit {}{unit} ({source}); {hint}", Plain(self.limit))
    }
}

/// A number with as many digits as mean something.
struct Plain(f64);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.fract() == 0.0 || value.abs() >= 100.0 {
            write!(f, "{value:.0}")
        } else if value.abs() >= 1.0 {
            write!(f, "{value:.1}")
        } else {
            write!(f, "{value:.4}")
        }
    }
}

/// A condition that a sample of a port found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// How severe the condition is.
    pub severity: Severity,
    /// The measurement that shows the condition.
    pub evidence: Evidence,
}

/// What a sample of a port says of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DetectorResult {
    /// Nothing: what it would take could not be seen.
    #[default]
    Unknown,
    /// The condition does not hold.
    Good,
    /// The condition holds.
    Bad(Finding),
}

impl DetectorResult {
    /// Both: the worse of two findings; good only where nothing is bad.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bad(one), Self::Bad(two)) if one.severity >= two.severity => Self::Bad(one),
            (_, Self::Bad(one)) | (Self::Bad(one), _) => Self::Bad(one),
            (Self::Good, _) | (_, Self::Good) => Self::Good,
            (Self::Unknown, Self::Unknown) => Self::Unknown,
        }
    }

    /// Two halves of one thing: the worse of two findings; good only where both are.
    #[must_use]
    pub fn half(self, other: Self) -> Self {
        match (self, other) {
            (Self::Good, Self::Good) => Self::Good,
            (Self::Unknown | Self::Good, Self::Unknown | Self::Good) => Self::Unknown,
            (one, two) => one.and(two),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_told_the_same_code() {
        for condition in Condition::ALL {
            assert_eq!(NicConditionCode::from(condition).as_str(), condition.code());
        }
    }
}
