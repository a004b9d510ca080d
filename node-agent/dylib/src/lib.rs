//! C libraries that a server may or may not have, loaded at run time, so that one program runs with and without them. An absent library
//! and one that is too old are typed errors that say what to install.
//!
//! [`Loaded`] is a library; [`functions!`] declares a table of its functions, those that every version has and those that only newer
//! ones have. [`known`] names the libraries.

pub mod known;
mod loaded;
mod table;

pub use loaded::{About, LoadError, Loaded};
