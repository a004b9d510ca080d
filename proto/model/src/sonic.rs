//! What SONiC's own updater of its database (`config replace`, by which a switch's agent changes settings) does not take, as a table. Both ends go
//! by it: the plan says beforehand what such a change does to traffic, and the agent loads the whole database anew (`config reload`).
//!
//! The table is what `generic_config_updater/gcu_field_operation_validators.conf.json` and `field_operation_validators.py` of sonic-utilities
//! say, with `validate_field_operation` of `gu_common.py`, for the platforms and releases that they list; the updater of an older release may
//! refuse more.

use std::time::Duration;

/// A trial for which the whole database is loaded is given so long at least: all services of the switch start again, which takes minutes of it.
pub const LEAST_OF_RELOAD: Duration = Duration::from_secs(300);

/// What happens to a part of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// It was not there.
    Add,
    /// It has another value.
    Replace,
    /// It is there no more.
    Remove,
}

impl Step {
    /// The step that undoes this one.
    #[must_use]
    pub const fn back(self) -> Self {
        match self {
            Self::Add => Self::Remove,
            Self::Replace => Self::Replace,
            Self::Remove => Self::Add,
        }
    }
}

/// The largest part of the database to which something happens as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part<'a> {
    /// A table with all of its rows.
    Table,
    /// The row of this key, with all of its fields, in a table that stays.
    Row(&'a str),
    /// A field of the row of this key, which stays.
    Field(&'a str, &'a str),
}

/// Which parts of a table an entry is about.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Table,
    Row,
    Field(&'static str),
    AnyField,
}

const ANY: &[Step] = &[Step::Add, Step::Replace, Step::Remove];

/// What the updater takes of a table that it guards: everything else of it is refused.
struct Guarded {
    table: &'static str,
    /// Of this row alone; it goes before an entry of the whole table.
    row: Option<&'static str>,
    takes: &'static [(Scope, &'static [Step])],
    why: &'static str,
}

const GUARDED: &[Guarded] = &[
    Guarded {
        table: "BUFFER_POOL",
        row: None,
        takes: &[],
        why: "SONiC's updater changes no pool of buffer: all services of the switch start again with the new one, and nothing is forwarded for minutes",
    },
    Guarded {
        table: "BUFFER_PROFILE",
        row: None,
        takes: &[
            (Scope::Row, ANY),
            (Scope::Field("dynamic_th"), &[Step::Replace]),
            (Scope::Field("xoff"), &[Step::Replace]),
            (Scope::Field("packet_discard_action"), &[Step::Add, Step::Replace]),
        ],
        why: "SONiC's updater does not change this of a buffer profile: all services of the switch start again with it, and nothing is forwarded for minutes",
    },
    Guarded {
        table: "PFC_WD",
        row: Some("GLOBAL"),
        // A whole row would be compared with the field's name in small letters.
        takes: &[(Scope::Field("POLL_INTERVAL"), &[Step::Add, Step::Replace])],
        why: "SONiC's updater neither adds nor removes how often the watchdog looks: all services of the switch start again, and nothing is forwarded for minutes",
    },
    Guarded {
        table: "PFC_WD",
        row: None,
        takes: &[
            (Scope::Table, &[Step::Remove]),
            (Scope::Row, ANY),
            (Scope::Field("action"), ANY),
            (Scope::Field("detection_time"), ANY),
            (Scope::Field("restoration_time"), ANY),
            (Scope::Field("pfc_stat_history"), ANY),
        ],
        why: "SONiC's updater does not add the watchdog's whole table: all services of the switch start again with it, and nothing is forwarded for minutes",
    },
    Guarded {
        table: "LOOPBACK_INTERFACE",
        row: Some("Loopback0"),
        takes: &[(Scope::Row, &[Step::Add, Step::Replace]), (Scope::AnyField, ANY)],
        why: "SONiC's updater could not take the loopback back: all services of the switch start again, and nothing is forwarded for minutes",
    },
];

/// Settings that the updater takes and that SONiC's services read when they start, with the reason.
const AT_START: &[(&str, &str, &str)] = &[(
    "DEVICE_METADATA",
    "buffer_model",
    "the buffer model is chosen when the switch's services start: all of them do, and nothing is forwarded for minutes",
)];

/// Why a change has to be made by loading the whole database anew; none where the updater makes it, and undoes it.
#[must_use]
pub fn needs_reload(table: &str, part: Part<'_>, step: Step) -> Option<&'static str> {
    let at_start = |part: Part<'_>| {
        let Part::Field(_, name) = part else { return None };
        AT_START.iter().find(|(own, field, _)| *own == table && *field == name).map(|(_, _, why)| *why)
    };
    at_start(part).or_else(|| {
        let guard = guard(table, part)?;
        let takes =
            |step| guard.takes.iter().any(|(scope, steps)| fits(*scope, part) && steps.contains(&step));
        (!takes(step) || !takes(step.back())).then_some(guard.why)
    })
}

fn guard(table: &str, part: Part<'_>) -> Option<&'static Guarded> {
    let key = match part {
        Part::Table => None,
        Part::Row(key) | Part::Field(key, _) => Some(key),
    };
    let mut of_table = GUARDED.iter().filter(|guard| guard.table == table);
    of_table.find(|guard| guard.row.is_none() || guard.row == key)
}

fn fits(scope: Scope, part: Part<'_>) -> bool {
    match (scope, part) {
        (Scope::Table, Part::Table) | (Scope::Row, Part::Row(_)) | (Scope::AnyField, Part::Field(..)) => true,
        (Scope::Field(own), Part::Field(_, name)) => own == name,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_updater_takes_there_and_back_needs_no_reload() {
        let taken = [
            ("PORT", Part::Field("Ethernet0", "mtu"), Step::Replace),
            ("QUEUE", Part::Row("Ethernet0|3"), Step::Add),
            ("BUFFER_PROFILE", Part::Row("new"), Step::Add),
            ("BUFFER_PROFILE", Part::Row("old"), Step::Remove),
            ("BUFFER_PROFILE", Part::Field("a", "dynamic_th"), Step::Replace),
            ("BUFFER_PROFILE", Part::Field("a", "xoff"), Step::Replace),
            ("PFC_WD", Part::Field("Ethernet0", "action"), Step::Add),
            ("PFC_WD", Part::Row("Ethernet0"), Step::Remove),
            ("PFC_WD", Part::Field("GLOBAL", "POLL_INTERVAL"), Step::Replace),
            ("LOOPBACK_INTERFACE", Part::Row("Loopback0|10.0.0.1/32"), Step::Add),
            ("DEVICE_METADATA", Part::Field("localhost", "hostname"), Step::Replace),
        ];
        for (table, part, step) in taken {
            assert_eq!(needs_reload(table, part, step), None, "{table} {part:?} {step:?}");
        }
    }

    #[test]
    fn what_it_refuses_on_the_way_there_or_back_needs_one() {
        let refused = [
            ("BUFFER_POOL", Part::Field("ingress_lossless_pool", "size"), Step::Replace),
            ("BUFFER_POOL", Part::Row("more"), Step::Add),
            ("BUFFER_POOL", Part::Table, Step::Add),
            ("BUFFER_PROFILE", Part::Table, Step::Add),
            ("BUFFER_PROFILE", Part::Field("a", "size"), Step::Replace),
            ("BUFFER_PROFILE", Part::Field("a", "dynamic_th"), Step::Add),
            ("BUFFER_PROFILE", Part::Field("a", "xoff"), Step::Remove),
            // What is added is taken, and could not be taken back.
            ("BUFFER_PROFILE", Part::Field("a", "packet_discard_action"), Step::Add),
            ("PFC_WD", Part::Field("GLOBAL", "POLL_INTERVAL"), Step::Add),
            ("PFC_WD", Part::Row("GLOBAL"), Step::Add),
            ("PFC_WD", Part::Table, Step::Remove),
            ("LOOPBACK_INTERFACE", Part::Row("Loopback0"), Step::Add),
            ("DEVICE_METADATA", Part::Field("localhost", "buffer_model"), Step::Replace),
        ];
        for (table, part, step) in refused {
            assert!(needs_reload(table, part, step).is_some(), "{table} {part:?} {step:?}");
        }
    }
}
