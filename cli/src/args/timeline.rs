//! What is said about pictures of a job's life.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Color;

/// How the life of a job is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TimelineOutput {
    /// Bars of characters, with times and durations
    #[default]
    #[value(alias = "table")]
    Text,
    /// A picture (SVG)
    Svg,
    /// Trace Event JSON, which https://ui.perfetto.dev opens
    Perfetto,
    /// What the pictures are made of, as JSON
    Json,
}

#[derive(Debug, Args)]
pub struct Timeline {
    /// The job, with or without the word `job` before it; of an array an element, such as sweep[3]
    #[arg(value_name = "JOB", required = true, num_args = 1..=2)]
    pub job: Vec<String>,
    /// How to draw it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: TimelineOutput,
    /// Write it into this file in place of standard output; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Colour of the bars of characters
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,
}
