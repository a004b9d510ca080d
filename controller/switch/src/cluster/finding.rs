//! What is wrong with a switch of a cluster, or with what is said of it.

use std::fmt;

use proto_model::ReasonCode;
use thiserror::Error;

use crate::{bgp::BgpRefusal, desired::Refusal, fabric, live::Symptom};

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `switch/NAME`, or `switch/NAME/PORT`.
    pub at: String,
    /// What it is.
    pub problem: Problem,
}

impl Finding {
    pub(crate) fn of(name: &str, problem: Problem) -> Self {
        Self { at: format!("switch/{name}"), problem }
    }

    pub(crate) fn of_port(name: &str, port: &str, problem: Problem) -> Self {
        Self { at: format!("switch/{name}/{port}"), problem }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.problem)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// It is not in the document.
    #[error("the fabric document has no switch of this name")]
    NotInFabric,
    /// Nobody has said what it is.
    #[error("it is in the fabric document alone; apply a document of kind Switch that says what it is")]
    Unknown,
    /// The document cannot be planned.
    #[error("the fabric document: {0}")]
    Fabric(fabric::Finding),
    /// Its numbers and those of others do not go together.
    #[error("{0}")]
    Numbers(BgpRefusal),
    /// A port is named that it has not.
    #[error("{}", no_port(*.ports, .first, .last))]
    NoPort {
        /// How many it has in use.
        ports: usize,
        /// The first of them; empty where there is none.
        first: String,
        /// The last of them.
        last: String,
    },
    /// LLDP says another device than the document.
    #[error("{found} is at the other end by LLDP; by the fabric document it is {planned}")]
    Miscabled {
        /// By the document.
        planned: String,
        /// By LLDP.
        found: String,
    },
    /// What its ports count shows it.
    #[error("{0}")]
    Port(Symptom),
    /// The plan does not work out.
    #[error("{0}")]
    Plan(Refusal),
    /// The profile in force cannot be read.
    #[error("the profile of class of service: {0}")]
    Profile(String),
    /// What is rendered is no text.
    #[error("it cannot be written: {0}")]
    Text(String),
}

fn no_port(ports: usize, first: &str, last: &str) -> String {
    match ports {
        0 => "the plan has no port of this name, nor any other".to_owned(),
        1 => format!("the plan has no port of this name, only {first}"),
        _ => format!("the plan has no port of this name; it has {ports}, from {first} to {last}"),
    }
}

impl Problem {
    /// The code by which programs know it.
    #[must_use]
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::NotInFabric => ReasonCode::SwitchNotInFabric,
            Self::Numbers(_) => ReasonCode::SwitchNumbersClash,
            Self::NoPort { .. } => ReasonCode::SwitchPortUnknown,
            Self::Miscabled { .. } => ReasonCode::SwitchMiscabled,
            Self::Port(symptom) => symptom.code(),
            Self::Unknown | Self::Fabric(_) | Self::Plan(_) | Self::Profile(_) | Self::Text(_) => {
                ReasonCode::SwitchUnplanned
            }
        }
    }
}
