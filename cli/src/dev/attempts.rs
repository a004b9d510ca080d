//! What the agents and their supervisors have recorded of attempts: DIR/NODE/jobs/ATTEMPT/state.pb of those that run (state.json from
//! release 0.1.0),
//! DIR/NODE/logs/ATTEMPT of those that have ended, and DIR/NODE/cgroups, the control groups around theirs.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use prost::Message as _;
use serde::Deserialize;

use super::process::{self, Identity};

/// Everything of all attempts that may still be there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// They end what they started when that ends.
    pub supervisors: BTreeSet<Identity>,
    /// Engines and ranks, which end only if somebody ends them.
    pub others: BTreeSet<Identity>,
    /// Control groups that were made for the ranks.
    pub cgroups: BTreeSet<PathBuf>,
    /// The groups around them, which other clusters may use as well.
    around: BTreeSet<PathBuf>,
}

/// The part of `rail.agent_state.v1.SupervisorState` that matters here; its other fields belong to the agent.
#[derive(Clone, PartialEq, prost::Message)]
struct State {
    #[prost(message, optional, tag = "3")]
    supervisor: Option<Process>,
    #[prost(message, optional, tag = "4")]
    engine: Option<Process>,
    #[prost(message, optional, tag = "5")]
    holder: Option<Process>,
    #[prost(btree_map = "uint32, message", tag = "6")]
    ranks: BTreeMap<u32, Process>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    cgroups: Vec<Vec<u8>>,
}

/// `rail.agent_state.v1.Process`.
#[derive(Clone, PartialEq, prost::Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(uint64, tag = "2")]
    start: u64,
}

impl From<Process> for Identity {
    fn from(process: Process) -> Self {
        Self { pid: process.pid, start: process.start }
    }
}

/// The same part of release 0.1.0's `state.json`.
#[derive(Debug, Default, Deserialize)]
struct OldState {
    supervisor: Option<Identity>,
    engine: Option<Identity>,
    #[serde(default)]
    holder: Option<Identity>,
    #[serde(default)]
    ranks: BTreeMap<String, Identity>,
    #[serde(default)]
    cgroups: Vec<PathBuf>,
}

impl Attempts {
    /// Reads what is below the cluster's folder; what cannot be read is left out.
    #[must_use]
    pub fn read(dir: &Path) -> Self {
        let mut all = Self::default();
        for node in children(dir) {
            for job in children(&node.join("jobs")) {
                let Some(state) = state(&job) else { continue };
                all.supervisors.extend(state.supervisor);
                all.others.extend(state.engine);
                all.others.extend(state.holder);
                all.others.extend(state.ranks.into_values());
                all.cgroups.extend(state.cgroups.into_iter().filter(|path| is_ours(path)));
            }
            all.add_named_groups(&node);
        }
        all
    }

    /// The groups of a node's attempts by their names, also of those whose record is gone: `NODE.ATTEMPT`.
    fn add_named_groups(&mut self, node: &Path) {
        let text = fs::read_to_string(node.join("cgroups")).unwrap_or_default();
        // An older agent has written one path.
        let one = |_| serde_json::from_str::<PathBuf>(&text).map(|one| vec![one]);
        let Ok(around) = serde_json::from_str::<Vec<PathBuf>>(&text).or_else(one) else { return };
        let Some(name) = node.file_name().and_then(|name| name.to_str()) else { return };
        for around in around.into_iter().filter(|around| is_ours(around)) {
            for tried in ["jobs", "logs"].iter().flat_map(|folder| children(&node.join(folder))) {
                let group = tried.file_name().and_then(|tried| tried.to_str());
                let group = group.map(|tried| around.join(format!("{name}.{tried}")));
                self.cgroups.extend(group.filter(|group| group.exists()));
            }
            self.around.insert(around);
        }
    }

    /// The processes in the control groups of ranks.
    #[must_use]
    pub fn members(&self) -> BTreeSet<Identity> {
        let text = |group: &PathBuf| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let pids =
            |text: String| text.lines().filter_map(|line| line.trim().parse().ok()).collect::<Vec<i32>>();
        let pids = self.cgroups.iter().map(text).flat_map(pids);
        pids.filter_map(process::stat).filter(|stat| !stat.zombie).map(|stat| stat.identity).collect()
    }

    /// Removes the groups, and the one around them when it is empty.
    pub fn remove_groups(&self) {
        for group in &self.cgroups {
            // One that is gone already is as good; one that is in use cannot be removed by this.
            let _ = fs::remove_dir(group);
        }
        for around in self
            .cgroups
            .iter()
            .filter_map(|group| group.parent())
            .chain(self.around.iter().map(PathBuf::as_path))
        {
            // In use by another cluster it stays.
            let _ = fs::remove_dir(around);
        }
    }
}

/// What the supervisor of an attempt has saved, if it can be read.
fn state(job: &Path) -> Option<OldState> {
    let Ok(bytes) = fs::read(job.join("state.pb")) else {
        return serde_json::from_slice(&fs::read(job.join("state.json")).ok()?).ok();
    };
    let state = State::decode(bytes.as_slice()).ok()?;
    Some(OldState {
        supervisor: state.supervisor.map(Into::into),
        engine: state.engine.map(Into::into),
        holder: state.holder.map(Into::into),
        ranks: state.ranks.into_iter().map(|(rank, process)| (rank.to_string(), process.into())).collect(),
        cgroups: state.cgroups.into_iter().map(|path| OsString::from_vec(path).into()).collect(),
    })
}

/// A damaged record must not make us touch other groups.
fn is_ours(path: &Path) -> bool {
    path.is_absolute() && path.components().any(|part| part.as_os_str() == "railyard")
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_engines_and_ranks_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("n0/jobs/u.1");
        fs::create_dir_all(&job).unwrap();
        let text = r#"{"snapshot": {"state": "Running"}, "supervisor": {"pid": 5, "start": 50}, "engine": {"pid": 6, "start": 60},
            "ranks": {"0": {"pid": 7, "start": 70}}, "cgroups": ["/sys/fs/cgroup/railyard/u.1", "/sys/fs/cgroup/other"]}"#;
        fs::write(job.join("state.json"), text).unwrap();
        fs::create_dir_all(folder.path().join("n1/jobs/broken.1")).unwrap();
        fs::write(folder.path().join("n1/jobs/broken.1/state.json"), "{").unwrap();
        let attempts = Attempts::read(folder.path());
        let one = |pid: i32| Identity { pid, start: u64::from(pid.unsigned_abs()) * 10 };
        assert_eq!(attempts.supervisors, BTreeSet::from([one(5)]));
        assert_eq!(attempts.others, BTreeSet::from([one(6), one(7)]));
        assert_eq!(attempts.cgroups.len(), 1, "only groups of ours");
        // The same in today's form, as a supervisor writes it, beside what an earlier one left.
        let recorded = include_bytes!("../../../node-agent/attempt/tests/recorded/state.pb");
        fs::write(job.join("state.pb"), recorded).unwrap();
        let attempts = Attempts::read(folder.path());
        assert_eq!(attempts.supervisors, BTreeSet::from([one(5)]));
        assert_eq!(attempts.others, BTreeSet::from([6, 7, 8, 9].map(one)));
        assert_eq!(attempts.cgroups.len(), 1);
    }

    #[test]
    fn groups_of_attempts_without_a_record_go_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let around = folder.path().join("sys/railyard");
        for group in ["n0.u.1", "n0.v.1", "n0.other.1", "n1.u.1"] {
            fs::create_dir_all(around.join(group)).unwrap();
        }
        let node = folder.path().join("c/n0");
        fs::create_dir_all(node.join("jobs/u.1")).unwrap();
        fs::create_dir_all(node.join("logs/v.1")).unwrap();
        fs::create_dir_all(node.join("logs/w.1")).unwrap();
        fs::write(node.join("cgroups"), serde_json::to_string(&[&around]).unwrap()).unwrap();
        Attempts::read(&folder.path().join("c")).remove_groups();
        let left = || {
            let mut left: Vec<_> =
                children(&around).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
            left.sort();
            left
        };
        assert_eq!(left(), ["n0.other.1", "n1.u.1"]);
        for group in left() {
            fs::remove_dir(around.join(group)).unwrap();
        }
        Attempts::read(&folder.path().join("c")).remove_groups();
        assert!(!around.exists(), "the empty group around them goes too");
        fs::write(node.join("cgroups"), "\"/sys/fs/cgroup\"").unwrap();
        assert_eq!(Attempts::read(&folder.path().join("c")).around, BTreeSet::new(), "not ours");
    }
}
