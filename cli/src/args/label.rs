//! What is said about labels.

use clap::{Args, ValueEnum};

use super::noun::{Noun, NounParser};

/// What has labels that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabelNoun {
    /// A job, an array or elements of one
    #[value(alias = "jobs")]
    Job,
    /// A server, or several such as n[0-7]
    #[value(alias = "nodes")]
    Node,
}

#[derive(Debug, Args)]
pub struct Label {
    /// What is labelled: job or node, or job/NAME
    #[arg(value_name = "KIND[/NAME]", value_parser = NounParser::<LabelNoun>::new())]
    pub noun: Noun<LabelNoun>,
    /// Names, and changes: KEY=VALUE sets a label, KEY- takes one away
    #[arg(value_name = "NAME | KEY=VALUE | KEY-", required = true)]
    pub words: Vec<String>,
}
