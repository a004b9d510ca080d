//! What several rooms ask of the operating system: small files that are written whole or not at all, and processes that cannot be
//! mistaken for later ones.

pub mod files;
pub mod process;
