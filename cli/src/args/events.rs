//! What is said about events and the life of one job.

use clap::{Args, ValueEnum};

use super::{
    Moment,
    noun::{Noun, NounParser},
    parse_moment,
};

/// Of what there are events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventNoun {
    /// Jobs
    #[value(alias = "job")]
    Jobs,
    /// Servers
    #[value(alias = "node")]
    Nodes,
}

#[derive(Debug, Args)]
pub struct Events {
    /// Only of this kind, or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NounParser::<EventNoun>::new())]
    pub noun: Option<Noun<EventNoun>>,
    /// Only of these
    #[arg(value_name = "NAME", requires = "noun")]
    pub names: Vec<String>,
    /// Only what happened then or later: 10m for so long ago, or 2026-08-20T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Moment>,
    /// Go on and print what happens
    #[arg(short, long)]
    pub watch: bool,
    /// Jobs of all tenants (administrators)
    #[arg(short = 'A', long)]
    pub all_tenants: bool,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    pub output: EventOutput,
}

/// How events are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum EventOutput {
    /// One line each: time, what, event, in words
    #[default]
    Table,
    /// One JSON object a line: time, object, event, message
    Json,
}
