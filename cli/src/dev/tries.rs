//! What the agents' supervisors have recorded of running tries: DIR/NODE/jobs/TRY/state.json.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::process::{self, Identity};

/// Everything of all tries that may still be there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// They end what they started when that ends.
    pub supervisors: BTreeSet<Identity>,
    /// Engines and ranks.
    pub others: BTreeSet<Identity>,
    /// Control groups that were made for the ranks.
    pub cgroups: BTreeSet<PathBuf>,
}

/// The part of a supervisor's state that matters here; its other fields belong to the agent.
#[derive(Debug, Deserialize)]
struct State {
    supervisor: Option<Identity>,
    engine: Option<Identity>,
    #[serde(default)]
    ranks: BTreeMap<String, Identity>,
    #[serde(default)]
    cgroups: Vec<PathBuf>,
}

impl Tries {
    /// Reads what is below the cluster's folder; what cannot be read is left out.
    #[must_use]
    pub fn read(dir: &Path) -> Self {
        let mut all = Self::default();
        for node in children(dir) {
            for job in children(&node.join("jobs")) {
                let text = fs::read_to_string(job.join("state.json")).unwrap_or_default();
                let Ok(state) = serde_json::from_str::<State>(&text) else { continue };
                all.supervisors.extend(state.supervisor);
                all.others.extend(state.engine);
                all.others.extend(state.ranks.into_values());
                all.cgroups.extend(state.cgroups.into_iter().filter(|path| is_ours(path)));
            }
        }
        all
    }

    /// Everybody in the control groups.
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
            if let Some(around) = group.parent() {
                let _ = fs::remove_dir(around);
            }
        }
    }
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
        let tries = Tries::read(folder.path());
        let one = |pid: i32| Identity { pid, start: u64::from(pid.unsigned_abs()) * 10 };
        assert_eq!(tries.supervisors, BTreeSet::from([one(5)]));
        assert_eq!(tries.others, BTreeSet::from([one(6), one(7)]));
        assert_eq!(tries.cgroups.len(), 1, "only groups of ours");
    }
}
