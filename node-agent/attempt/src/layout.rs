//! Where everything lies below the data directory.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use node_agent_core::Key;
use node_agent_rank::ids::Ids;
use proto_model::JobUid;

use crate::places::Places;

/// The agent's data directory.
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Opens or makes it, private to its user.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_private(root)?;
        let root = fs::canonicalize(root)?;
        make_private(&root.join("jobs"))?;
        make_private(&root.join("identity"))?;
        make_private(&root.join("logs"))?;
        Ok(Self { root })
    }

    /// Path of the data directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Lets ranks of another user pass through to their own attempt; nothing can be listed, and `identity` stays closed.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn admit(&self, ids: &Ids) -> io::Result<()> {
        self.close()?;
        ids.let_pass(&self.root)?;
        ids.let_pass(&self.jobs_dir())
    }

    /// The same for users that are not known yet: whoever knows the name of an attempt may pass, and finds it closed.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn admit_all(&self) -> io::Result<()> {
        self.close()?;
        for open in [self.root.clone(), self.jobs_dir()] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o711))?;
        }
        Ok(())
    }

    /// Where tasks of another scheduler find what is theirs of an attempt that is held for their job.
    #[must_use]
    pub fn guests_of(root: &Path) -> PathBuf {
        root.join("slurm")
    }

    /// Lets these tasks pass through, to what they know the name of.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn admit_guests(&self) -> io::Result<()> {
        let guests = Self::guests_of(&self.root);
        make_private(&guests)?;
        self.close()?;
        for passed in [&guests, &self.root] {
            fs::set_permissions(passed, fs::Permissions::from_mode(0o711))?;
        }
        Ok(())
    }

    /// Whether there ever were such tasks here.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        Self::guests_of(&self.root).exists()
    }

    fn close(&self) -> io::Result<()> {
        for closed in [self.identity(), self.kept()] {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// The directory of all attempts.
    #[must_use]
    pub fn jobs_dir(&self) -> PathBuf {
        Self::jobs_of(&self.root)
    }

    /// That of the agent whose folder this is.
    #[must_use]
    pub fn jobs_of(root: &Path) -> PathBuf {
        root.join("jobs")
    }

    /// Held by the one agent that uses this directory.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("agent.lock")
    }

    /// The highest epoch of which a command was accepted.
    #[must_use]
    pub fn epoch(&self) -> PathBuf {
        self.root.join("epoch")
    }

    /// What is wrong with this server's NICs.
    #[must_use]
    pub fn health(&self) -> Places {
        Places { now: self.root.join("health.pb"), old: self.root.join("health.json") }
    }

    /// Where `/metrics` is served, as a URL; for tools that let the kernel choose the port.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.url")
    }

    /// Key, certificate and the controller's CA.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }

    /// Output of attempts that have ended.
    #[must_use]
    pub fn kept(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The directory of one attempt.
    #[must_use]
    pub fn job(&self, key: Key) -> JobDir {
        JobDir { path: self.root.join("jobs").join(key.to_string()) }
    }

    /// The control group that tries get theirs below, as a path in JSON; where there are control groups.
    #[must_use]
    pub fn cgroups(&self) -> PathBuf {
        self.root.join("cgroups")
    }

    /// Every attempt that has a directory.
    #[must_use]
    pub fn jobs(&self) -> Vec<(Key, JobDir)> {
        keys(&self.jobs_dir()).into_iter().map(|key| (key, self.job(key))).collect()
    }

    /// The attempts that have ended and whose output is kept, without those that have a directory again.
    #[must_use]
    pub fn ended(&self) -> Vec<Key> {
        let mut ended = keys(&self.kept());
        ended.retain(|key| !self.job(*key).path().exists());
        ended
    }
}

/// The attempts that have an entry in a folder.
fn keys(folder: &Path) -> Vec<Key> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let key = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (uid, attempt) = name.rsplit_once('.')?;
        Some(Key { uid: uid.parse::<JobUid>().ok()?, attempt: attempt.parse().ok()? })
    };
    let mut found: Vec<Key> = entries.filter_map(key).collect();
    found.sort_unstable();
    found
}

fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The directory of one attempt of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDir {
    path: PathBuf,
}

macro_rules! files {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)+) => {
        impl JobDir {
            $($(#[$doc])* #[must_use] pub fn $name(&self) -> PathBuf { self.path.join($file) })+
        }
    };
}

files! {
    /// The desired state, as `rail.v1.Assignment` without the job's key.
    assignment = "assignment.pb";
    /// What the agent gives the supervisor besides the desired state.
    supervisor_config = "supervisor.json";
    /// Held by the supervisor as long as it lives.
    lock = "lock";
    /// Where the supervisor listens for the agent.
    socket = "supervisor.sock";
    /// Where the agent brings steps.
    steps = "steps.sock";
    /// The supervisor's own messages.
    supervisor_log = "supervisor.log";
    /// The engine's configuration, as JSON.
    engine_config = "engine.json";
    /// The socket on which ranks attach to the engine.
    engine_socket = "engine.sock";
    /// Where the supervisor asks the engine.
    engine_control = "engine.control";
    /// The engine's last status, if it ended by a loss.
    engine_end = "engine.end";
    /// The engine's messages, bounded.
    engine_log = "engine.log";
    /// The rank map, for the ranks.
    rank_map = "ranks.json";
    /// The topology file that NCCL is given.
    topology = "nccl-topology.xml";
    /// There once the first collective has been shown in the job's trace, so that an agent that starts again does not
    /// show it twice.
    traced = "traced";
    /// What rank 0 of a collective measured.
    result = "result.json";
    /// Where ranks start, unless the job says otherwise.
    work = "work";
    /// The home of ranks that have a user of their own.
    home = "home";
}

impl JobDir {
    /// A directory by its path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The agent's record of the attempt.
    #[must_use]
    pub fn record(&self) -> Places {
        Places { now: self.path.join("record.pb"), old: self.path.join("record.json") }
    }

    /// What the supervisor knows, durable.
    #[must_use]
    pub fn state(&self) -> Places {
        Places { now: self.path.join("state.pb"), old: self.path.join("state.json") }
    }

    /// Path of the attempt's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One rank's output, bounded; the older part is beside it as `.1`.
    #[must_use]
    pub fn rank_log(&self, rank: u32) -> PathBuf {
        self.path.join(format!("rank-{rank}.log"))
    }

    /// Makes it, private to its user.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn make(&self) -> io::Result<()> {
        make_private(&self.path)?;
        make_private(&self.home())?;
        make_private(&self.work())
    }
}
