//! What keeps a package from being made.

use std::{io, path::PathBuf};

/// What keeps a package from being made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that a package has is not there, or cannot be read.
    #[error("{}: {source}; the package {package} has it: build it first", path.display())]
    Missing {
        /// The package.
        package: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program asks for a shared library that no package of the system is known for.
    #[error(
        "{program} is linked to {library}, and no package is known that has it: name one in integration/packages/src/linked.rs"
    )]
    UnknownLibrary {
        /// The program.
        program: String,
        /// The library's name.
        library: String,
    },
    /// An archive cannot be written.
    #[error("cannot pack {package}: {source}")]
    Pack {
        /// The package.
        package: &'static str,
        /// What went wrong.
        source: io::Error,
    },
    /// A package, or a file in one, is too large for its format.
    #[error("{what} is too large for a package: {bytes} bytes")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its size in bytes.
        bytes: usize,
    },
    /// What cargo said of the crates is not as expected.
    #[error("cargo metadata has no {0}")]
    Metadata(&'static str),
    /// An image cannot have something at a path.
    #[error("the image cannot have {path}: {why}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// A package of Debian cannot be in the lowest layer of an image.
    #[error("the image's base: package {package}: {what}")]
    Base {
        /// The package.
        package: String,
        /// What is wrong with it.
        what: String,
    },
}
