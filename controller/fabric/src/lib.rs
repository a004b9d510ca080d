//! Fabric documents made, read, compared and handed on. No IO: texts and values in, texts and values out.
//!
//! Contracts:
//! 1. Nothing of an input is dropped in silence: every row is a cable of the document or a finding with its place.
//! 2. Nothing is guessed away: what a list does not say, or says in two ways, is reported and left out.
//! 3. The same input gives the same bytes.

pub mod cabling;
pub mod csv;
pub mod draw;
pub mod export;
mod finding_code;
pub mod gather;
pub mod generate;
pub mod lldp;
pub mod moves;
pub mod natural;
#[cfg(test)]
mod tests;
pub mod verify;

pub use cabling::{Imported, import};
pub use csv::{Table, TableError};
pub use finding_code::FindingCode;
pub use gather::gather;
pub use generate::{Generated, Shape, ShapeError, generate};
pub use verify::{Verdict, verify};

/// One thing that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line of the text, from 1; 0 where it is about the whole.
    pub line: usize,
    /// Column in characters, from 1; 0 where it is about the whole line.
    pub column: usize,
    /// Code of the finding in UpperCamelCase; stable, for programs.
    pub code: FindingCode,
    /// What, where, and what to do.
    pub message: String,
}
