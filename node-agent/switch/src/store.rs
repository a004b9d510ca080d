//! The state folder: who uses it, and what must not be forgotten, as protobuf with a version.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_os::files::{self, Durability};
use prost::Message;
use thiserror::Error;

use crate::{
    decide::{Done, Method, Moment, Outcome, Saved, Stage, Trial},
    files::{Files, FilesError},
    schema::{self, switch_done::Outcome as SavedOutcome, switch_trial::Stage as SavedStage},
};

/// The version of the format that this release writes, and the highest that it reads.
const VERSION: u32 = 1;

/// Why the state folder cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("cannot use the state folder {}: {source}; give another --state or mend its permissions", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// Another agent uses it.
    #[error("another rail-switch-agent uses the state folder {}; one switch has one agent", .0.display())]
    Locked(PathBuf),
    /// A file cannot be read; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A later release has written it.
    #[error(
        "cannot read {}: it has version {version} of its format, and this release reads up to {VERSION}; run the \
         rail-switch-agent that wrote it, or a later one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version that it says.
        version: u32,
    },
    /// Its content is damaged.
    #[error(
        "cannot understand {}: {detail}; look at what the switch is configured with, then remove the file",
        path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

/// The folder, held by this process.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    /// Makes the folder, readable by this user only, and takes it.
    ///
    /// # Errors
    /// It cannot be made, or another agent has it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Folder { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(unusable)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
        let lock = files::lock(&dir.join("lock")).map_err(unusable)?;
        let lock = lock.ok_or_else(|| StoreError::Locked(dir.to_owned()))?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// The folder of the key and the certificate.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn identity(&self) -> Result<PathBuf, StoreError> {
        let dir = self.dir.join("identity");
        let made = fs::create_dir_all(&dir);
        made.map_err(|source| StoreError::Folder { path: dir.clone(), source })?;
        Ok(dir)
    }

    fn path(&self) -> PathBuf {
        self.dir.join("trial.pb")
    }

    /// What is saved; where nothing is, nothing was done yet.
    ///
    /// # Errors
    /// The file is unreadable, of a later release, or broken.
    pub fn load(&self) -> Result<Saved, StoreError> {
        let path = self.path();
        let Some(bytes) = files::read(&path)? else { return Ok(Saved::default()) };
        decode(&bytes).map_err(|flaw| match flaw {
            Flaw::Newer(version) => StoreError::Newer { path, version },
            Flaw::Broken(detail) => StoreError::Broken { path, detail },
        })
    }

    /// Replaces it in one step; it survives a power cut once this returns.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn save(&self, state: &Saved) -> io::Result<()> {
        files::write_atomic(&self.path(), &encode(state), Durability::Power)
    }
}

/// Why bytes are no saved state.
#[derive(Debug, PartialEq, Eq)]
enum Flaw {
    Newer(u32),
    Broken(String),
}

/// Only the version: what a later one means is not known.
#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(uint32, tag = "1")]
    version: u32,
}

const OUTCOMES: [(Outcome, SavedOutcome); 4] = [
    (Outcome::None, SavedOutcome::Unspecified),
    (Outcome::Held, SavedOutcome::Held),
    (Outcome::Kept, SavedOutcome::Kept),
    (Outcome::Failed, SavedOutcome::Failed),
];

fn encode(state: &Saved) -> Vec<u8> {
    let outcome = OUTCOMES.iter().find(|(one, _)| *one == state.done.outcome);
    let done = schema::SwitchDone {
        number: state.done.number,
        generation: state.done.generation,
        outcome: outcome.map(|(_, saved)| *saved).unwrap_or_default().into(),
        message: state.done.message.clone(),
        digest: state.done.digest.clone(),
    };
    let trial = state.trial.as_ref().map(save_trial);
    schema::SwitchState { version: VERSION, epoch: state.epoch, done: Some(done), trial }.encode_to_vec()
}

fn save_trial(trial: &Trial) -> schema::SwitchTrial {
    let map = |files: &Files| files.to_wire().into_iter().map(|file| (file.name, file.content)).collect();
    let (stage, held, why) = match &trial.stage {
        Stage::Begun => (SavedStage::Begun, false, ""),
        Stage::InPlace => (SavedStage::InPlace, false, ""),
        Stage::TakingBack { held, why } => (SavedStage::TakingBack, *held, why.as_str()),
        Stage::Keeping => (SavedStage::Keeping, false, ""),
    };
    schema::SwitchTrial {
        number: trial.number,
        generation: trial.generation,
        before: map(&trial.before),
        wanted: map(&trial.wanted),
        owned: trial.owned.clone(),
        boot: trial.begun.boot.clone(),
        begun_ms: trial.begun.ms,
        within_ms: u64::try_from(trial.within.as_millis()).unwrap_or(u64::MAX),
        stage: stage.into(),
        held,
        why: why.to_owned(),
        trouble: trial.trouble.clone(),
        reload: trial.method == Method::Reload,
        established: trial.established.clone(),
    }
}

fn decode(bytes: &[u8]) -> Result<Saved, Flaw> {
    let broken = |error: prost::DecodeError| Flaw::Broken(error.to_string());
    match Header::decode(bytes).map_err(broken)?.version {
        0 => return Err(Flaw::Broken("it says no version of its format".to_owned())),
        1..=VERSION => {}
        later => return Err(Flaw::Newer(later)),
    }
    let saved = schema::SwitchState::decode(bytes).map_err(broken)?;
    let done = saved.done.unwrap_or_default();
    let outcome = OUTCOMES.iter().find(|(_, one)| *one == done.outcome()).map(|(outcome, _)| *outcome);
    Ok(Saved {
        epoch: saved.epoch,
        trial: saved.trial.map(load_trial).transpose()?,
        done: Done {
            number: done.number,
            generation: done.generation,
            outcome: outcome.unwrap_or_default(),
            message: done.message,
            digest: done.digest,
        },
    })
}

fn load_trial(saved: schema::SwitchTrial) -> Result<Trial, Flaw> {
    let flaw = |error: FilesError| Flaw::Broken(error.to_string());
    let stage = match saved.stage() {
        SavedStage::InPlace => Stage::InPlace,
        SavedStage::TakingBack => Stage::TakingBack { held: saved.held, why: saved.why },
        SavedStage::Keeping => Stage::Keeping,
        // What is not known is taken back.
        SavedStage::Unspecified | SavedStage::Begun => Stage::Begun,
    };
    Ok(Trial {
        number: saved.number,
        generation: saved.generation,
        before: Files::new(saved.before).map_err(flaw)?,
        wanted: Files::new(saved.wanted).map_err(flaw)?,
        owned: saved.owned,
        method: if saved.reload { Method::Reload } else { Method::Change },
        established: saved.established,
        begun: Moment { boot: saved.boot, ms: saved.begun_ms },
        within: Duration::from_millis(saved.within_ms),
        stage,
        trouble: saved.trouble,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FILE_MAX, TOTAL_MAX};

    fn trial(stage: Stage) -> Saved {
        let file = |content: &str| Files::new([("frr.conf".to_owned(), content.to_owned())]).unwrap();
        let trial = Trial {
            number: 5,
            generation: 4,
            before: file("old"),
            wanted: file("new"),
            owned: vec!["QUEUE".into()],
            method: Method::Change,
            established: vec!["swp1".into()],
            begun: Moment { boot: "b".into(), ms: 77 },
            within: Duration::from_millis(1500),
            stage,
            trouble: "none".into(),
        };
        let done = Done {
            number: 3,
            generation: 2,
            outcome: Outcome::Kept,
            message: "m".into(),
            digest: "d".into(),
        };
        Saved { epoch: 9, done, trial: Some(trial) }
    }

    #[test]
    fn every_state_survives_the_disk() {
        let room = tempfile::tempdir().unwrap();
        let store = Store::open(&room.path().join("state")).unwrap();
        assert_eq!(store.load().unwrap(), Saved::default());
        let back = |held| Stage::TakingBack { held, why: "late".into() };
        for stage in [Stage::Begun, Stage::InPlace, back(true), back(false), Stage::Keeping] {
            store.save(&trial(stage.clone())).unwrap();
            assert_eq!(store.load().unwrap(), trial(stage.clone()));
            let mut reload = trial(stage);
            reload.trial.as_mut().unwrap().method = Method::Reload;
            store.save(&reload).unwrap();
            assert_eq!(store.load().unwrap(), reload);
        }
        for (outcome, _) in OUTCOMES {
            let done = Done { outcome, ..Done::default() };
            store.save(&Saved { done: done.clone(), ..Saved::default() }).unwrap();
            assert_eq!(store.load().unwrap().done, done);
        }
        assert!(matches!(Store::open(&room.path().join("state")), Err(StoreError::Locked(_))));
        drop(store);
        assert!(Store::open(&room.path().join("state")).is_ok());
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        let room = tempfile::tempdir().unwrap();
        let store = Store::open(room.path()).unwrap();
        for (bytes, said) in
            [(&[0x08, 0x02, 0x10, 0x01][..], "version 2"), (b"{}", "cannot understand"), (b"", "no version")]
        {
            fs::write(store.path(), bytes).unwrap();
            let error = store.load().unwrap_err().to_string();
            assert!(error.contains("trial.pb") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_largest_trial_fits_into_the_file() {
        let largest = || {
            let half = "x".repeat(FILE_MAX);
            let rest = "x".repeat(TOTAL_MAX - FILE_MAX);
            Files::new([("a".to_owned(), half), ("b".to_owned(), rest)]).unwrap()
        };
        let mut state = trial(Stage::Begun);
        if let Some(trial) = &mut state.trial {
            (trial.before, trial.wanted) = (largest(), largest());
        }
        let room = tempfile::tempdir().unwrap();
        let store = Store::open(room.path()).unwrap();
        store.save(&state).unwrap();
        assert!(store.load().unwrap() == state);
    }
}
