//! What is said about validations.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{Output, parse_duration};
use crate::validate::Phase;

/// A part of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PhaseName {
    /// Pairs of servers, by rounds of a tournament
    Baseline,
    /// Incast, microbursts, all to all
    Synthetic,
    /// All-reduces of every size
    Workload,
    /// A rail that is drained under load and comes back (one server's port; for administrators)
    Failure,
}

/// Try the whole fabric out by ordinary jobs, judge it, and compare it with what was measured before
///
/// Each server runs one rank without a GPU on all its rails, so servers with running jobs are waited for. What falls short is exit code 1.
/// An interrupt ends its jobs and brings back what it drained.
#[derive(Debug, Args)]
pub struct Validate {
    /// Servers, for example n[0-15]; default: all that take jobs
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,
    /// Only this part; may be given several times
    #[arg(long, value_name = "PHASE", value_enum)]
    pub phase: Vec<PhaseName>,
    /// Bytes of large messages
    #[arg(long, value_name = "N", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(4096..=1 << 32))]
    pub bytes: u64,
    /// Repetitions of each message
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: u32,
    /// Rounds of pairs at most; each server has another partner in each
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rounds: usize,
    /// Compare with this file, as --save-baseline wrote it
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Keep what is measured, to be compared with later
    #[arg(long, value_name = "FILE")]
    pub save_baseline: Option<PathBuf>,
    /// Percent below the baseline that are borne
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = parse_percent)]
    pub tolerance: f64,
    /// Percent below the median of its like that are borne
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0, value_parser = parse_percent)]
    pub outlier: f64,
    /// Limit of one test, with its wait for servers
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2m")]
    pub limit: Duration,
    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

impl Validate {
    /// The phases that were named.
    #[must_use]
    pub fn phases(&self) -> Vec<Phase> {
        let of = |name: &PhaseName| match name {
            PhaseName::Baseline => Phase::Baseline,
            PhaseName::Synthetic => Phase::Synthetic,
            PhaseName::Workload => Phase::Workload,
            PhaseName::Failure => Phase::Failure,
        };
        self.phase.iter().map(of).collect()
    }
}

/// Reads a part of a hundred.
fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("`{text}` is no percentage; write a number from 0 to 100"))
}

#[cfg(test)]
mod tests {
    use super::parse_percent;

    #[test]
    fn percentages_are_numbers_from_0_to_100() {
        assert_eq!((parse_percent("10"), parse_percent("2.5%")), (Ok(10.0), Ok(2.5)));
        for bad in ["NaN", "inf", "-1", "101", "", "ten"] {
            assert!(parse_percent(bad).is_err(), "{bad}");
        }
    }
}
