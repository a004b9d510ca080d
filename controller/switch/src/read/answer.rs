//! What comes of reading a switch.

use thiserror::Error;

use crate::{
    render::tables::{ConfigDb, ConfigDbError},
    state::SwitchState,
};

/// What is wrong with a field of what was read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {why}")]
pub struct Wrong {
    /// Where it is: table, row and field, or the line.
    pub at: String,
    /// What is wrong.
    pub why: String,
}

/// Why a switch could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is no `config_db.json`.
    #[error(transparent)]
    ConfigDb(#[from] ConfigDbError),
    /// Fields of ours say what cannot be.
    #[error("what was read of the switch contradicts itself: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Wrong(Vec<Wrong>),
}

/// A switch as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What it is set to.
    pub state: SwitchState,
    /// Tables that railyard does not know, as they were.
    pub others: ConfigDb,
    /// Fields of known tables that railyard does not know, and lines of FRR, each with its place.
    pub unknown: Vec<String>,
}
