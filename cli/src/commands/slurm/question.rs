//! What is asked when a job is submitted to Slurm, and what is answered: a line of JSON each, between two processes of one release.

use serde::{Deserialize, Serialize};

/// Longest question or answer, in bytes: names of some 65,536 servers.
pub const LONGEST: u64 = 4 << 20;

/// A job that is being submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// How many servers.
    pub nodes: u32,
    /// Only these, as lists of Slurm; empty: any.
    pub among: Vec<String>,
    /// None of these.
    pub exclude: Vec<String>,
    /// Account of the job.
    pub account: Option<String>,
}

/// Where it would best run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// These servers are free now, in the order of ranks.
    Now(Vec<String>),
    /// It has to wait, and then fits on servers that share their leaves.
    Together,
    /// It has to wait, or can never run as Railyard sees it: Slurm chooses.
    Anywhere(String),
    /// Nobody knows: the controller is away, or refuses.
    Unknown(String),
}

impl Answer {
    /// As lines `name=value`, which a script reads: `answer` says that there is one, so that the script needs no exit code. Nothing where
    /// nobody knows.
    #[must_use]
    pub fn lines(&self) -> String {
        match self {
            Self::Now(servers) => format!("answer=now\nnodes={}\n", servers.join(",")),
            Self::Together => "answer=together\nswitches=1\n".to_owned(),
            Self::Anywhere(_) => "answer=anywhere\n".to_owned(),
            Self::Unknown(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_read_servers_in_the_order_of_ranks_or_that_they_share_leaves() {
        assert_eq!(Answer::Now(vec!["n7".into(), "n2".into()]).lines(), "answer=now\nnodes=n7,n2\n");
        assert_eq!(Answer::Together.lines(), "answer=together\nswitches=1\n");
        assert_eq!(Answer::Anywhere("full".into()).lines(), "answer=anywhere\n");
        assert_eq!(Answer::Unknown("away".into()).lines(), "");
    }
}
