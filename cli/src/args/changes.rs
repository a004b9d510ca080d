//! What is said about changes of jobs that are there.

use std::time::Duration;

use clap::{ArgGroup, Args};

use super::{Output, parse_duration};

#[derive(Debug, Args)]
pub struct Hold {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Why, for those who ask
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Release {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Suspend {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Why, for those who ask
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Requeue {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Why, for those who ask
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("change").required(true).multiple(true).args(["priority", "time_limit", "queue", "nodes"])
))]
pub struct Update {
    /// Jobs, arrays, or elements such as sweep[3,7-9], with or without the word `job` before them; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Its priority, -1000 to 1000; higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// How long it may run, for example 2h, or none; of a running job users may shorten it
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    pub time_limit: Option<Limit>,
    /// One of the tenant's queues, or none for the tenant itself
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Nodes that it wants, 4, or 2-8 where fewer will do
    #[arg(long, value_name = "N", value_parser = parse_nodes)]
    pub nodes: Option<(u32, u32)>,
    /// Only if this is the job's resource version (metadata.resourceVersion)
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide_default_value = true)]
    pub if_version: u64,
    /// How to print the jobs
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How long a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// As long as it likes.
    None,
    /// So long.
    Some(Duration),
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit::None),
        text => parse_duration(text).map(Limit::Some).map_err(|error| format!("{error}, or none")),
    }
}

/// Reads `4` or `2-8`: the least and the most.
fn parse_nodes(text: &str) -> Result<(u32, u32), String> {
    let wrong =
        || format!("`{text}` is not a number of nodes: write for example 4, or 2-8 where fewer will do");
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (least.parse().map_err(|_| wrong())?, most.parse().map_err(|_| wrong())?);
    if least == 0 || least > most { Err(wrong()) } else { Ok((least, most)) }
}

#[cfg(test)]
mod tests {
    use super::{Limit, parse_limit, parse_nodes};

    #[test]
    fn numbers_of_nodes_and_limits_are_read() {
        assert_eq!((parse_nodes("4"), parse_nodes("2-8")), (Ok((4, 4)), Ok((2, 8))));
        for bad in ["", "0", "-3", "8-2", "2-", "x", "1-2-3"] {
            assert!(parse_nodes(bad).unwrap_err().contains("2-8"), "{bad}");
        }
        assert_eq!(parse_limit("none"), Ok(Limit::None));
        assert_eq!(parse_limit("2h"), Ok(Limit::Some(std::time::Duration::from_secs(7200))));
        assert!(parse_limit("soon").unwrap_err().contains("none"));
    }
}
