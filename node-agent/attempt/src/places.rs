//! Files that are saved in a form with a version: where they are, and why one cannot be used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use node_agent_os::files::{self, Durability};
use thiserror::Error;

/// The version of the format that this release writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// A later release has written them.
    #[error("it has version {0} of its format, and this release reads up to {VERSION}")]
    Newer(u32),
    /// They are no such message, or a field has no value that could have been written.
    #[error("{0}")]
    Broken(String),
}

impl Flaw {
    /// A field that cannot be so.
    #[must_use]
    pub fn field(name: &str, value: impl std::fmt::Display) -> Self {
        Self::Broken(format!("{name} is {value}"))
    }
}

/// Why a saved file cannot be used.
#[derive(Debug, Error)]
pub enum StateFileError {
    /// It cannot be read; the message names the file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A later release has written it.
    #[error(
        "cannot read {}: it has version {version} of its format, and this release reads up to {VERSION}; \
         run the rail-node-agent that wrote it, or a later one, on this server",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version that it says.
        version: u32,
    },
    /// Its content is damaged.
    #[error("cannot understand {}: {detail}; {remedy}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// Two places of one thing: where it is written, and where release 0.1.0 wrote it.
#[derive(Debug, Clone)]
pub struct Places {
    /// The protobuf file.
    pub now: PathBuf,
    /// The JSON file of release 0.1.0.
    pub old: PathBuf,
}

impl Places {
    /// What is saved; `None` if nothing is. The newer form wins. `remedy` is what to do about a broken file.
    ///
    /// # Errors
    /// A file is there and is unreadable, newer or broken.
    pub fn read<T>(
        &self,
        now: impl FnOnce(&[u8]) -> Result<T, Flaw>,
        old: impl FnOnce(&[u8]) -> Result<T, Flaw>,
        remedy: &'static str,
    ) -> Result<Option<T>, StateFileError> {
        if let Some(bytes) = files::read(&self.now)? {
            return now(&bytes).map(Some).map_err(|flaw| named(&self.now, flaw, remedy));
        }
        let Some(text) = files::read(&self.old)? else { return Ok(None) };
        old(&text).map(Some).map_err(|flaw| named(&self.old, flaw, remedy))
    }

    /// Replaces what is saved, in one step. The older form goes once the newer one is there.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn write(&self, bytes: &[u8], durability: Durability) -> io::Result<()> {
        files::write_atomic(&self.now, bytes, durability)?;
        match fs::remove_file(&self.old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Something is saved.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn exist(&self) -> io::Result<bool> {
        Ok(self.now.try_exists()? || self.old.try_exists()?)
    }
}

fn named(path: &Path, flaw: Flaw, remedy: &'static str) -> StateFileError {
    let path = path.to_owned();
    match flaw {
        Flaw::Newer(version) => StateFileError::Newer { path, version },
        Flaw::Broken(detail) => StateFileError::Broken { path, detail, remedy },
    }
}
