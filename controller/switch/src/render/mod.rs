//! Desired state in the words of each operating system. Names are [`crate::model::Name`]s and the rest are numbers, so that nothing that
//! is rendered can say more than it is.

pub mod dialect;
pub mod files;
pub mod frr;
pub mod names;
mod row;
pub mod sonic;
pub mod tables;
