//! Rails: what they are used for, which are out of use and why.

pub mod drain;
pub mod fabric;
pub mod proving;
pub mod rails;
pub mod switches;
