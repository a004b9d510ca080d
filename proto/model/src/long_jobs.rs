//! The limit of long small jobs: what keeps room on which large jobs can start within days and not within weeks.

use std::{fmt, time::Duration};

/// What small jobs that may run for long hold together at most, over all tenants. A small job that runs for weeks keeps a whole server from
/// jobs that need servers whole; no order of the queue mends that, because it started long before they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LongJobLimit {
    /// A job whose time limit is so long, or longer, or that has none, may run for long.
    pub length: Duration,
    /// A job of fewer GPUs than this is small: of so many as it asks for, spares included.
    pub below_gpus: u32,
    /// GPUs that those jobs hold together at most.
    pub gpus: u32,
}

impl LongJobLimit {
    /// The longest [`Self::length`] that may be given: a year.
    pub const LENGTH_MAX: Duration = Duration::from_secs(365 * 86_400);

    /// Whether a job counts: one that asks for so many GPUs and may run for so long; `None`: without end.
    #[must_use]
    pub fn counts(&self, gpus: u64, time_limit: Option<Duration>) -> bool {
        gpus < u64::from(self.below_gpus) && time_limit.is_none_or(|limit| limit >= self.length)
    }

    /// Reads `TIME:BELOW:GPUS`, for example `72h:8:100`: jobs of fewer than 8 GPUs that may run for 72 hours or longer hold 100 GPUs
    /// together at most. Of times the caller knows the form.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str, time: impl Fn(&str) -> Result<Duration, String>) -> Result<Self, String> {
        let [length, below, gpus] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err(format!(
                "`{text}` is no limit of long jobs: write TIME:BELOW:GPUS, for example 72h:8:100"
            ));
        };
        let number = |text: &str, what: &str| {
            text.parse::<u32>().map_err(|_| format!("`{text}` is no number of GPUs ({what})"))
        };
        let length = time(length)?;
        let (below_gpus, gpus) =
            (number(below, "below which a job is small")?, number(gpus, "that long jobs may hold")?);
        if !(Duration::from_secs(1)..=Self::LENGTH_MAX).contains(&length) {
            return Err(format!("a length of {} s is not from 1 second to 365 days", length.as_secs()));
        }
        if below_gpus < 2 {
            return Err(format!("no job has fewer GPUs than {below_gpus}: write 2 or more"));
        }
        if gpus < below_gpus - 1 {
            return Err(format!(
                "a long job of {} GPUs could never start within {gpus} GPUs: allow {} or more",
                below_gpus - 1,
                below_gpus - 1
            ));
        }
        Ok(Self { length, below_gpus, gpus })
    }
}

/// As [`LongJobLimit::parse`] reads it: the time in hours where it is whole hours, else in seconds.
impl fmt::Display for LongJobLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.length.as_secs();
        if seconds > 0 && seconds.is_multiple_of(3600) {
            write!(f, "{}h", seconds / 3600)?;
        } else {
            write!(f, "{seconds}s")?;
        }
        write!(f, ":{}:{}", self.below_gpus, self.gpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Result<Duration, String> {
        let (number, unit) = text.split_at(text.len().saturating_sub(1));
        let seconds = match unit {
            "h" => 3600,
            "s" => 1,
            _ => return Err(format!("`{text}` is no time")),
        };
        number.parse::<u64>().map(|count| Duration::from_secs(count * seconds)).map_err(|_| text.to_owned())
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let parse = |text: &str| LongJobLimit::parse(text, time);
        let limit = parse("72h:8:100").unwrap();
        assert_eq!(limit, LongJobLimit { length: Duration::from_secs(72 * 3600), below_gpus: 8, gpus: 100 });
        for text in ["72h:8:100", "90s:2:1", "8760h:4294967295:4294967295"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let refused = [
            ("", "write TIME:BELOW:GPUS"),
            ("72h", "write TIME:BELOW:GPUS"),
            ("72h:8:100:1", "write TIME:BELOW:GPUS"),
            ("72:8:100", "`72` is no time"),
            ("0h:8:100", "is not from 1 second to 365 days"),
            ("8761h:8:100", "is not from 1 second to 365 days"),
            ("72h:1:100", "no job has fewer GPUs than 1"),
            ("72h:8:6", "allow 7 or more"),
            ("72h:x:6", "`x` is no number of GPUs (below which a job is small)"),
            ("72h:8:-1", "`-1` is no number of GPUs (that long jobs may hold)"),
        ];
        for (text, what) in refused {
            let error = parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_job_counts_that_is_small_and_may_run_for_long() {
        let limit = LongJobLimit { length: Duration::from_secs(100), below_gpus: 8, gpus: 20 };
        let seconds = |count| Some(Duration::from_secs(count));
        let counted = [(7, seconds(100)), (1, seconds(1000)), (7, None)];
        assert!(counted.iter().all(|(gpus, time)| limit.counts(*gpus, *time)));
        let others = [(8, seconds(100)), (8, None), (7, seconds(99)), (u64::from(u32::MAX) + 1, None)];
        assert!(!others.iter().any(|(gpus, time)| limit.counts(*gpus, *time)));
    }
}
