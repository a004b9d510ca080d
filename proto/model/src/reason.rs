//! Causes, for people and for programs.

use std::{fmt, time::Duration};

use crate::{JobId, ReasonCode, ReservationName, TenantName, Timestamp};

/// One cause of a state or of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What kind of cause it is; decisions look at this and never at the sentence.
    pub code: ReasonCode,
    /// One sentence: what, where, what to do.
    pub message: String,
    /// How many objects it concerns; 0 where counting makes no sense.
    pub count: u32,
    /// What it is about, for example `node/n3`; may be empty.
    pub scope: String,
    /// Since when the cause holds; `None`: not known.
    pub since: Option<Timestamp>,
    /// What those read instead who may know whose thing it is about. `message` and `scope` name nobody then.
    pub named: Option<Box<Named>>,
}

/// The words of a cause for those who may know whose thing it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The tenants whose people may; administrators always may.
    pub to: Vec<TenantName>,
    /// The message with the names in it, in one sentence.
    pub message: String,
    /// What it is about.
    pub scope: String,
}

/// Somebody's thing that a cause speaks of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A job: its tenant's people know of it.
    Job(JobId),
    /// A reservation: those that it is for know of it; of a maintenance everybody does.
    Reservation {
        /// Name of the reservation that it is about.
        name: ReservationName,
        /// The tenants that the reservation is for.
        tenants: Vec<TenantName>,
        /// The reservation is for maintenance.
        maintenance: bool,
    },
}

impl Thing {
    /// As those know it who may.
    fn name(&self) -> String {
        match self {
            Self::Job(id) => format!("job '{id}'"),
            Self::Reservation { name, .. } => format!("reservation '{name}'"),
        }
    }

    /// As all others hear of it.
    #[must_use]
    pub fn of_another(&self) -> &'static str {
        match self {
            Self::Job(_) => "another tenant's job",
            Self::Reservation { .. } => "another tenant's reservation",
        }
    }

    fn scope(&self) -> String {
        match self {
            Self::Job(id) => format!("job/{id}"),
            Self::Reservation { name, .. } => format!("reservation/{name}"),
        }
    }

    /// The tenants whose people may know of it; `None`: everybody may.
    fn known_to(&self) -> Option<Vec<TenantName>> {
        match self {
            Self::Job(id) => Some(vec![id.tenant.clone()]),
            Self::Reservation { maintenance: true, .. } => None,
            Self::Reservation { tenants, .. } => Some(tenants.clone()),
        }
    }
}

impl Reason {
    /// A cause without count, scope and time.
    pub fn new(code: impl Into<ReasonCode>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        Self { code, message, count: 0, scope: String::new(), since: None, named: None }
    }

    /// A cause that speaks of somebody's thing: the one way to put such a name into a cause. `words` makes the sentence out of
    /// what the thing is called, for those who may know it (true) and for all others.
    pub fn about(code: impl Into<ReasonCode>, thing: &Thing, words: impl Fn(&str, bool) -> String) -> Self {
        let (message, scope) = (words(&thing.name(), true), thing.scope());
        match thing.known_to() {
            None => Self::new(code, message).scope(scope),
            Some(to) => {
                let named = Some(Box::new(Named { to, message, scope }));
                Self { named, ..Self::new(code, words(thing.of_another(), false)) }
            }
        }
    }

    /// The message in the words of one tenant's people: with the name of whose thing it is about, if they may know it.
    #[must_use]
    pub fn message_for(&self, reader: &TenantName) -> &str {
        let named = self.named.as_ref().filter(|named| named.to.contains(reader));
        named.map_or(self.message.as_str(), |named| named.message.as_str())
    }

    /// Says how many objects it concerns.
    #[must_use]
    pub fn count(mut self, count: usize) -> Self {
        self.count = u32::try_from(count).unwrap_or(u32::MAX);
        self
    }

    /// Says what it is about.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Adds the time since which the cause holds.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// A number of things in words: `1 node`, `3 nodes`.
#[must_use]
pub fn many(count: impl fmt::Display, what: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// A duration as people write it: `3s`, `2m30s`, `4d2h`.
#[must_use]
pub fn human(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        _ if millis < 1000 => format!("{millis}ms"),
        0..60 if !millis.is_multiple_of(1000) => format!("{:.1}s", duration.as_secs_f64()),
        0..60 => format!("{seconds}s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 if (seconds / 60).is_multiple_of(60) => format!("{}h", seconds / 3600),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Bytes in words: `64 GiB`, `63.9 GiB`. Never more than they are, so that what is too little does not look like enough.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = bytes.max(1).ilog2() / 10;
    let name = UNITS.get(unit as usize).copied().unwrap_or("EiB");
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, part) => format!("{whole}.{part} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, Thing, many, size};
    use crate::{JobId, ReasonCode};

    #[test]
    fn a_size_is_never_said_to_be_more_than_it_is() {
        let sizes = [0, 1023, 1024, 64 << 30, (64 << 30) - 1, 3 << 39, u64::MAX];
        let said = ["0 B", "1023 B", "1 KiB", "64 GiB", "63.9 GiB", "1.5 TiB", "15.9 EiB"];
        assert_eq!(sizes.map(size), said);
    }

    #[test]
    fn a_cause_names_nobody_but_to_those_who_may_know() {
        let id = JobId { tenant: "beta".parse().unwrap(), name: "moon".parse().unwrap() };
        let words = |name: &str, _| format!("stopped for {name}");
        let reason = Reason::about(ReasonCode::Preempted, &Thing::Job(id), words);
        assert_eq!(
            (reason.message.as_str(), reason.scope.as_str()),
            ("stopped for another tenant's job", "")
        );
        let named = reason.named.clone().unwrap();
        assert_eq!(
            (named.message.as_str(), named.scope.as_str()),
            ("stopped for job 'beta/moon'", "job/beta/moon")
        );
        assert_eq!(named.to, ["beta".parse().unwrap()]);
        assert_eq!(reason.message_for(&"beta".parse().unwrap()), "stopped for job 'beta/moon'");
        assert_eq!(reason.message_for(&"gamma".parse().unwrap()), "stopped for another tenant's job");
        let open =
            |maintenance| Thing::Reservation { name: "r".parse().unwrap(), tenants: Vec::new(), maintenance };
        assert!(
            Reason::about(ReasonCode::Reserved, &open(true), words).named.is_none(),
            "everybody knows of a maintenance"
        );
        let hidden = Reason::about(ReasonCode::Reserved, &open(false), words);
        assert!(hidden.named.is_some_and(|named| named.to.is_empty()), "only administrators");
    }

    #[test]
    fn one_thing_has_no_ending() {
        assert_eq!([many(0, "node"), many(1_u64, "node"), many(11, "GPU")], ["0 nodes", "1 node", "11 GPUs"]);
    }
}
