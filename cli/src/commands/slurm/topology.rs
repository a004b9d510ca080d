//! Slurm's topology as the fabric document says it: written, and slurmctld told to read it, once for each change.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::tools;
use crate::{client::Api, commands::topology, error::Error};

/// A slurmctld that does not read its files is asked again after this time, then after twice that, and so on.
const FIRST: Duration = Duration::from_secs(10);
/// No later than after this time.
const LAST: Duration = Duration::from_secs(600);

/// A topology.conf, or a topology.yaml.
pub struct Topology {
    path: PathBuf,
    /// Beside it, what slurmctld has read: whoever is started anew does not make it read the same again.
    read: PathBuf,
    /// slurmctld has refused; it is asked again then, and after that time next.
    again: Option<(Instant, Duration)>,
}

impl Topology {
    /// The one at this path.
    pub fn of(path: PathBuf) -> Self {
        let read = beside(&path, ".read");
        Self { path, read, again: None }
    }

    /// Makes it what the fabric says.
    ///
    /// # Errors
    /// [`Error::Rpc`] if no controller says; [`Error::File`] if it cannot be written; [`Error::Config`] or [`Error::Timeout`] if slurmctld does not read it.
    pub async fn keep(&mut self, api: &Api) -> Result<(), Error> {
        let is_yaml = self.path.extension() == Some(OsStr::new("yaml"));
        let text = topology::for_slurm(is_yaml, api).await?;
        if there(&self.path)?.as_ref() != Some(&text) {
            write(&self.path, &text)?;
            self.again = None;
        } else if there(&self.read)?.as_ref() == Some(&text) {
            return Ok(());
        }
        let now = Instant::now();
        if self.again.is_some_and(|(at, _)| now < at) {
            return Ok(());
        }
        let next = self.again.map_or(FIRST, |(_, last)| (2 * last).min(LAST));
        self.again = Some((now + next, next));
        tools::reconfigure().await?;
        self.again = None;
        eprintln!("slurmctld has read {} again", self.path.display());
        write(&self.read, &text)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn there(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { action: "read", path: path.to_owned(), source }),
    }
}

/// Whole or not at all: slurmctld may be reading it.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let new = beside(path, ".new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|source| Error::File { action: "write", path: path.to_owned(), source })
}
