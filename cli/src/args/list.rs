//! What is said about how a list is printed: format, columns, order.

use std::{fmt, str::FromStr};

use clap::{Args, ValueEnum as _, builder::PossibleValue};

use super::Output;

/// How a list is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListOutput {
    /// As other answers are.
    Plain(Output),
    /// Comma-separated values (RFC 4180), all columns.
    Csv,
    /// As squeue and sinfo print it.
    Slurm,
    /// What a JSONPath (RFC 9535) finds in the JSON, one value a line.
    JsonPath(String),
}

impl fmt::Display for ListOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(output) => {
                f.write_str(output.to_possible_value().as_ref().map_or("table", PossibleValue::get_name))
            }
            Self::Csv => f.write_str("csv"),
            Self::Slurm => f.write_str("slurm"),
            Self::JsonPath(path) => write!(f, "jsonpath={path}"),
        }
    }
}

impl FromStr for ListOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, path) = text.split_once('=').map_or((text, None), |(kind, path)| (kind, Some(path)));
        match (kind.to_ascii_lowercase().as_str(), path) {
            ("csv", None) => Ok(Self::Csv),
            ("slurm", None) => Ok(Self::Slurm),
            ("jsonpath", Some(path)) if !path.trim().is_empty() => Ok(Self::JsonPath(path.to_owned())),
            ("jsonpath", _) => Err("write for example -o jsonpath='$.jobs[*].metadata.name'".to_owned()),
            (kind, None) => Output::from_str(kind, true).map(Self::Plain).map_err(|_| unknown(text)),
            _ => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!("`{text}` is none of table, wide, json, yaml, name, csv, slurm and jsonpath=EXPRESSION")
}

/// How a list is printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to print")]
pub struct ListArgs {
    /// table, wide (more columns), json (the canonical JSON of the API's answer), yaml, name (kind/name, one a line), csv (all columns),
    /// slurm (jobs and nodes, as squeue and sinfo print them) or jsonpath=EXPRESSION (RFC 9535, one value a line)
    #[arg(short, long, value_name = "FORMAT", default_value_t = ListOutput::Plain(Output::Table))]
    pub output: ListOutput,
    /// These columns in this order: headers of `-o wide`, or fields, as in NAME=.metadata.name
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Order by a column of `-o wide` or by a field, as in .status.submitTime; with - before it the greatest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort_by: Option<String>,
    /// Leave the line of headers out
    #[arg(long)]
    pub no_headers: bool,
}

impl ListArgs {
    /// The format, where it is one that every command has.
    #[must_use]
    pub fn plain(&self) -> Option<Output> {
        match self.output {
            ListOutput::Plain(output) => Some(output),
            _ => None,
        }
    }

    /// Whether people read it: then an empty list is told of.
    #[must_use]
    pub fn for_people(&self) -> bool {
        matches!(self.output, ListOutput::Plain(Output::Table | Output::Wide) | ListOutput::Slurm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read() {
        let path = ListOutput::JsonPath("$.jobs[?@.a==1]".to_owned());
        for (text, output) in [
            ("table", ListOutput::Plain(Output::Table)),
            ("JSON", ListOutput::Plain(Output::Json)),
            ("csv", ListOutput::Csv),
            ("slurm", ListOutput::Slurm),
            ("jsonpath=$.jobs[?@.a==1]", path),
        ] {
            assert_eq!(text.parse(), Ok(output.clone()), "{text}");
            assert_eq!(output.to_string().parse(), Ok(output));
        }
        for bad in ["", "jsn", "csv=1", "table=x", "jsonpath", "jsonpath="] {
            assert!(bad.parse::<ListOutput>().unwrap_err().contains("json"), "{bad}");
        }
    }
}
