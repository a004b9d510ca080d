//! Where it lies, and who may read it: a folder for each job below the agent's own, on the same file system, since the engine's socket is there
//! by a second name.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use node_agent_attempt::{
    layout::{DataDir, JobDir},
    supervisor_config::{self, Task},
};
use node_agent_os::files::{self, Durability};
use proto_model::{HiddenEnv, JobKey, TenantName, Work};

use super::{error::SlurmError, seats::Seats};

/// The agent's folder, and in it that of Slurm's jobs.
#[derive(Debug)]
pub struct Places {
    data_dir: PathBuf,
}

/// The file in a job's folder that says what each rank's place is given.
const SEATS: &str = "seats.json";

/// Takes a folder away; it need not be there.
fn remove(path: &Path) -> Result<(), SlurmError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SlurmError {
    let path = path.to_owned();
    move |source| SlurmError::File { path: path.clone(), source }
}

impl Places {
    /// Below the agent's folder.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned() }
    }

    /// What tasks of a job find: files are called as in the folder of an attempt.
    #[must_use]
    pub fn tasks(&self, job: u64) -> JobDir {
        JobDir::at(DataDir::guests_of(&self.data_dir).join(job.to_string()))
    }

    fn seats(&self, job: u64) -> PathBuf {
        self.tasks(job).path().join(SEATS)
    }

    /// The attempt that is held here for a start of a job of Slurm; where the start is not known, for the last of them.
    ///
    /// # Errors
    /// [`SlurmError::NoAgent`] or [`SlurmError::File`].
    pub fn attempt(
        &self,
        tenant: &TenantName,
        prefix: &str,
        job: u64,
        known: Option<u32>,
    ) -> Result<Option<(JobDir, Task)>, SlurmError> {
        let data = self.agent()?;
        let first = format!("{prefix}{job}");
        let start = |name: &str| match name.strip_prefix(&first)? {
            "" => Some(0),
            rest => rest.strip_prefix("-r")?.parse::<u32>().ok(),
        };
        let held = |(key, dir): (_, JobDir)| {
            // One that has ended keeps its folder until the controller has heard of it.
            if !files::is_locked(&dir.lock()) {
                return None;
            }
            // An allocation of ours hides nothing, so that nothing of it is missing here.
            let task = supervisor_config::read(&dir, &JobKey::new([0; 32]), HiddenEnv::new()).ok()?;
            let id = &task.assignment.id;
            let is_ours = id.tenant == *tenant && matches!(task.spec.work, Work::Allocation(_));
            let is_meant = |start: &u32| is_ours && known.is_none_or(|known| known == *start);
            let start = start(id.name.as_str()).filter(is_meant)?;
            Some(((start, key), dir, task))
        };
        let last = data.jobs().into_iter().filter_map(held).max_by_key(|(order, ..)| *order);
        Ok(last.map(|(_, dir, task)| (dir, task)))
    }

    /// The agent's folder, which is nobody's to make here.
    fn agent(&self) -> Result<DataDir, SlurmError> {
        if !DataDir::jobs_of(&self.data_dir).is_dir() {
            return Err(SlurmError::NoAgent(self.data_dir.clone()));
        }
        DataDir::open(&self.data_dir).map_err(failed(&self.data_dir))
    }

    /// Leaves on this server what tasks of a job need, for its user alone; says whether it could, which it cannot where the engine has ended.
    ///
    /// # Errors
    /// [`SlurmError::File`].
    pub fn write(&self, job: u64, uid: u32, attempt: &JobDir, seats: &Seats) -> Result<bool, SlurmError> {
        self.agent()?.admit_guests().map_err(failed(&self.data_dir))?;
        // It gets its name once it is whole: the prolog of another job takes away what has no socket of an engine.
        let made = JobDir::at(DataDir::guests_of(&self.data_dir).join(format!(".{job}")));
        remove(made.path())?;
        // Passed by whoever knows the name; what is in it is the user's.
        fs::create_dir(made.path()).map_err(failed(made.path()))?;
        let passed = fs::Permissions::from_mode(0o711);
        fs::set_permissions(made.path(), passed).map_err(failed(made.path()))?;
        let own = |path: &Path| chown(path, Some(uid), None).map_err(failed(path));
        for (from, to) in [(attempt.rank_map(), made.rank_map()), (attempt.topology(), made.topology())] {
            if let Some(content) = files::read(&from).map_err(failed(&from))? {
                files::write_atomic(&to, &content, Durability::Process).map_err(failed(&to))?;
                own(&to)?;
            }
        }
        let path = made.path().join(SEATS);
        files::write_json(&path, seats, Durability::Process).map_err(failed(&path))?;
        own(&path)?;
        match fs::hard_link(attempt.engine_socket(), made.engine_socket()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return remove(made.path()).map(|()| false);
            }
            linked => linked.map_err(failed(&attempt.engine_socket()))?,
        }
        own(&made.engine_socket())?;
        self.remove(job)?;
        let tasks = self.tasks(job);
        fs::rename(made.path(), tasks.path()).map_err(failed(tasks.path())).map(|()| true)
    }

    /// What the prolog has left for a job; nothing where there is none.
    ///
    /// # Errors
    /// [`SlurmError::File`].
    pub fn read(&self, job: u64) -> Result<Option<Seats>, SlurmError> {
        let path = self.seats(job);
        files::read_json(&path).map_err(failed(&path))
    }

    /// Takes it away; it need not be there.
    ///
    /// # Errors
    /// [`SlurmError::File`].
    pub fn remove(&self, job: u64) -> Result<(), SlurmError> {
        remove(self.tasks(job).path())
    }

    /// Takes away what is of no attempt any more: an epilog that never ran.
    ///
    /// # Errors
    /// [`SlurmError::File`].
    pub fn remove_left(&self) -> Result<(), SlurmError> {
        let folder = DataDir::guests_of(&self.data_dir);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(&folder)(error)),
        };
        for entry in entries {
            let name = entry.map_err(failed(&folder))?.file_name();
            let Some(job) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // The attempt's own name of the socket is gone with its folder.
            let is_left = |path: &Path| fs::symlink_metadata(path).map_or(true, |about| about.nlink() < 2);
            if is_left(&self.tasks(job).engine_socket()) {
                self.remove(job)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn what_is_left_for_tasks_lives_as_long_as_the_engines_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (attempt, places) = (JobDir::at(folder.path().join("jobs/one")), Places::of(folder.path()));
        fs::create_dir_all(attempt.path()).unwrap();
        fs::write(attempt.rank_map(), "[]").unwrap();
        let uid = rustix::process::getuid().as_raw();
        let seats = Seats { world: 1, ranks: vec![[("RANK".to_owned(), "0".to_owned())].into()] };
        assert!(!places.write(7, uid, &attempt, &seats).unwrap(), "there is no engine");
        assert_eq!(fs::read_dir(DataDir::guests_of(folder.path())).unwrap().count(), 0);
        let engine = UnixListener::bind(attempt.engine_socket()).unwrap();
        for _ in 0..2 {
            assert!(places.write(7, uid, &attempt, &seats).unwrap());
            places.remove_left().unwrap();
            assert_eq!(places.read(7).unwrap().as_ref(), Some(&seats));
        }
        UnixStream::connect(places.tasks(7).engine_socket()).unwrap();
        assert_eq!(fs::read_to_string(places.tasks(7).rank_map()).unwrap(), "[]");
        // Another prolog's work that is not whole yet is let be.
        let begun = DataDir::guests_of(folder.path()).join(".8");
        fs::create_dir(&begun).unwrap();
        drop(engine);
        fs::remove_file(attempt.engine_socket()).unwrap();
        places.remove_left().unwrap();
        assert_eq!(places.read(7).unwrap(), None);
        assert!(begun.exists());
        places.remove(7).unwrap();
    }
}
