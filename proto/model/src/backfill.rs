//! Who may start before jobs that wait ahead of it, and what a job that waits is promised.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

/// Who may start before jobs that wait ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Backfill {
    /// Whoever delays no planned start of a job ahead of it: every job that waits has its place in the plan.
    #[default]
    Conservative,
    /// Whoever does not delay the first job that waits for nodes: the others have no place in the plan.
    Easy,
    /// As conservative, but a job may be passed for so long after its submission: those behind it may delay its planned start up to
    /// then, and no further.
    Slack(Duration),
}

/// What a job that waits can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Promise {
    /// Nothing: its start is an estimate.
    #[default]
    Estimate,
    /// It has a place in the plan of all jobs, and nobody behind it delays that.
    Conservative,
    /// It is the first that waits for nodes, and nobody behind it delays its planned start.
    Easy,
    /// It has a place in the plan of all jobs, the delay that those behind it may cause included.
    Slack,
}

/// A text that names no way of backfill.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no way of backfill; write CONSERVATIVE, EASY, or for example SLACK(30min), at most SLACK(30d)"
)]
pub struct BackfillError(String);

/// Units of time in milliseconds, the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

/// The longest slack that may be given, in milliseconds: 30 days.
const LONGEST: u64 = 30 * 86_400_000;

impl fmt::Display for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conservative => f.write_str("CONSERVATIVE"),
            Self::Easy => f.write_str("EASY"),
            Self::Slack(slack) => {
                let time = u64::try_from(slack.as_millis()).unwrap_or(u64::MAX);
                let (unit, width) =
                    UNITS.into_iter().find(|(_, width)| time.is_multiple_of(*width)).unwrap_or(UNITS[4]);
                write!(f, "SLACK({}{unit})", time / width)
            }
        }
    }
}

impl FromStr for Backfill {
    type Err = BackfillError;

    fn from_str(text: &str) -> Result<Self, BackfillError> {
        let wrong = || BackfillError(text.to_owned());
        match text.to_ascii_uppercase().as_str() {
            "CONSERVATIVE" => return Ok(Self::Conservative),
            "EASY" => return Ok(Self::Easy),
            _ => {}
        }
        let (word, rest) = text.split_once('(').ok_or_else(wrong)?;
        let time = rest.strip_suffix(')').filter(|_| word.eq_ignore_ascii_case("SLACK")).ok_or_else(wrong)?;
        let digits = time.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(time.len());
        let (number, unit) = time.split_at(digits);
        let unit = if unit == "m" { "min" } else { unit };
        let (_, width) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let slack =
            number.checked_mul(width).filter(|slack| (1..=LONGEST).contains(slack)).ok_or_else(wrong)?;
        Ok(Self::Slack(Duration::from_millis(slack)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let minutes = |count: u64| Backfill::Slack(Duration::from_secs(count * 60));
        for (text, backfill) in [
            ("CONSERVATIVE", Backfill::Conservative),
            ("EASY", Backfill::Easy),
            ("SLACK(30min)", minutes(30)),
            ("SLACK(90min)", minutes(90)),
            ("SLACK(2h)", minutes(120)),
            ("SLACK(30d)", minutes(30 * 24 * 60)),
            ("SLACK(1500ms)", Backfill::Slack(Duration::from_millis(1500))),
        ] {
            assert_eq!((text.parse(), backfill.to_string().as_str()), (Ok(backfill), text));
            assert_eq!(text.to_lowercase().parse(), Ok(backfill));
        }
        assert_eq!("slack(5m)".parse(), Ok(minutes(5)));
        for text in
            ["", "SLACK", "SLACK()", "SLACK(0s)", "SLACK(31d)", "SLACK(5)", "SLACK(5min", "easy(5min)"]
        {
            assert!(text.parse::<Backfill>().unwrap_err().to_string().starts_with(&format!("'{text}' ")));
        }
        assert!("SLACK(99999999999999999999d)".parse::<Backfill>().is_err());
    }
}
