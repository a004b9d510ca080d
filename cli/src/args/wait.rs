//! What is said about waiting.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{
    noun::{Noun, NounParser},
    parse_duration,
};

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitNoun {
    /// Jobs and arrays
    #[value(alias = "jobs", alias = "array")]
    Job,
    /// Servers
    #[value(alias = "nodes")]
    Node,
}

/// What may become so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Condition {
    /// Of a job: it runs, or has run
    #[value(alias = "running")]
    Started,
    /// Of a job: it has ended, in whatever way
    Ended,
    /// Of a job: it has completed (exit 1 if it ends otherwise)
    #[value(alias = "complete")]
    Completed,
    /// Of a job: it has failed (exit 1 if it ends otherwise)
    Failed,
    /// Of a job: it has been cancelled (exit 1 if it ends otherwise)
    Cancelled,
    /// It is there no more
    #[value(alias = "delete")]
    Deleted,
    /// Of a server: it has joined, and its agent is connected
    Ready,
    /// Of a server: nothing runs there
    Drained,
}

#[derive(Debug, Args)]
pub struct Wait {
    /// What to wait for, or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NounParser::<WaitNoun>::new())]
    pub noun: Noun<WaitNoun>,
    /// Names; servers also as n[0-7]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Until this is so of all of them; default: of jobs completed, of servers ready
    #[arg(long = "for", value_name = "CONDITION", value_enum, ignore_case = true)]
    pub condition: Option<Condition>,
    /// Give up after this time (exit 7)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
}
