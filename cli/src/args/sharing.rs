//! What is said about reservations.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ListArgs, Output, parse_duration};

/// When something begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// At this time.
    At(prost_types::Timestamp),
    /// So long from now.
    In(Duration),
}

impl Start {
    /// The time that is meant, `now` being seconds since 1970.
    #[must_use]
    pub fn time(self, now: f64) -> prost_types::Timestamp {
        match self {
            Self::At(time) => time,
            Self::In(after) => {
                let then = Duration::from_secs_f64(now.max(0.0)).saturating_add(after);
                let seconds = i64::try_from(then.as_secs()).unwrap_or(i64::MAX);
                prost_types::Timestamp { seconds, nanos: 0 }
            }
        }
    }
}

/// Reads `now`, `+2h`, or `2026-08-20T10:00:00Z`.
pub fn parse_start(text: &str) -> Result<Start, String> {
    let wrong = || format!("`{text}` is not a time: write now, +2h, or for example 2026-08-20T10:00:00Z");
    match (text, text.strip_prefix('+')) {
        ("now", _) => Ok(Start::In(Duration::ZERO)),
        (_, Some(after)) => parse_duration(after).map(Start::In).map_err(|_| wrong()),
        _ => text.parse().map(Start::At).map_err(|_| wrong()),
    }
}

#[derive(Debug, Subcommand)]
pub enum ReserveCommand {
    /// Keep servers for tenants, or for maintenance
    Create(Reserve),
    /// List reservations
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Give reservations up
    Delete {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Reserve {
    /// Its name
    pub name: String,
    /// Which servers: names, or lists such as gpu[001-064]; may be repeated
    #[arg(long, value_name = "LIST", required_unless_present = "count", conflicts_with = "count")]
    pub nodes: Vec<String>,
    /// How many servers, chosen when it begins
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// With --count: from so many pods at most
    #[arg(long, value_name = "N", requires = "count", value_parser = clap::value_parser!(u32).range(1..))]
    pub pods: Option<u32>,
    /// When it begins: now, +2h, or 2026-08-20T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    pub start: Start,
    /// How long it lasts, for example 4h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Duration,
    /// Whose jobs may run in it; several with commas
    #[arg(
        long = "for",
        value_name = "TENANT",
        value_delimiter = ',',
        required_unless_present = "maint",
        conflicts_with = "maint"
    )]
    pub tenants: Vec<String>,
    /// For maintenance: no job at all runs in it
    #[arg(long)]
    pub maint: bool,
    /// Why; shown to users
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Only check; nothing is stored
    #[arg(long)]
    pub dry_run: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        assert_eq!(parse_start("now"), Ok(Start::In(Duration::ZERO)));
        assert_eq!(parse_start("+2h"), Ok(Start::In(Duration::from_secs(7200))));
        let at = prost_types::Timestamp { seconds: 86_400, nanos: 0 };
        assert_eq!(parse_start("1970-01-02T00:00:00Z"), Ok(Start::At(at)));
        assert_eq!(Start::In(Duration::from_secs(60)).time(40.5).seconds, 100);
        for bad in ["", "+", "2h", "+x", "tomorrow", "-1h"] {
            assert!(parse_start(bad).unwrap_err().contains("+2h"), "{bad}");
        }
    }
}
