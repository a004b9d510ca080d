//! What an agent finds on disk when it starts, and how it ends what a dead supervisor left.

use std::time::Duration;

use node_agent_attempt::{
    layout::{DataDir, JobDir},
    state_files::{self, SupervisorState},
    supervisor_config::SupervisorConfig,
};
use node_agent_core::{Event, Key, Recovered, Snapshot};
use node_agent_os::{
    files,
    process::{self, Identity},
};
use node_agent_rank::cgroup;
use proto_model::Observed;
use rustix::process::Signal;

/// What is killed is looked for again after this, until nothing is left.
const AGAIN: Duration = Duration::from_millis(50);
/// Something that does not end on SIGKILL (a process in the kernel) is reported this often.
const COMPLAIN: u32 = 200;

/// Everything that the data directory says.
pub fn read(data: &DataDir) -> Event {
    let epoch = files::read_json::<u64>(&data.epoch()).unwrap_or_else(|error| {
        tracing::error!(%error, "the epoch on disk is not readable; the controller's next one is taken");
        None
    });
    let records = data.jobs().into_iter().filter_map(|(key, dir)| one(key, &dir)).collect();
    Event::Recovered { epoch: epoch.unwrap_or(0), records }
}

fn one(key: Key, dir: &JobDir) -> Option<Recovered> {
    let alive = files::is_locked(&dir.lock());
    let saved = state_files::read_record(dir, key).unwrap_or_else(|error| {
        tracing::error!(%error, %key, "a record is not readable; the attempt is left as it is");
        None
    });
    let Some(mut record) = saved else {
        // The agent died between making the directory and writing the record: nothing was started.
        if !alive && dir.state().exist().is_ok_and(|there| !there) {
            let _ = std::fs::remove_dir_all(dir.path());
        }
        return None;
    };
    let state = state(dir);
    let ran = state.is_some();
    if let Some(state) = state {
        record.seen.merge(state);
    }
    Some(Recovered { record, alive, ran })
}

/// What a supervisor left.
pub fn state(dir: &JobDir) -> Option<Snapshot> {
    saved(dir).map(|state| state.snapshot)
}

/// The same with what is known beside.
pub fn saved(dir: &JobDir) -> Option<SupervisorState> {
    state_files::read_state(dir).unwrap_or_else(|error| {
        tracing::error!(%error, "a supervisor's state is not readable");
        None
    })
}

/// True if the supervisor has recorded the end.
pub fn has_ended(dir: &JobDir) -> bool {
    state(dir).is_some_and(|state| state.state == Observed::Ended)
}

/// The user that only this attempt has.
pub fn own_uid(dir: &JobDir) -> Option<u32> {
    let supervisor_config = files::read_json::<SupervisorConfig>(&dir.supervisor_config())
        .ok()
        .flatten()
        .filter(|supervisor_config| supervisor_config.own_uid)?;
    supervisor_config.rank_user.map(|user| user.ids.uid)
}

/// Ends what a lost supervisor had started, and returns only when nothing of it is left. What is ours is known by pid
/// and start time, by the process that holds its namespaces (with it all others in them end), by the attempt's own user, by control
/// group, and by the attempt's own directory in the environment; nothing else is touched.
pub async fn reap(dir: JobDir) -> Snapshot {
    let saved = saved(&dir);
    let mark = format!("RAIL_JOB_DIR={}", dir.path().display());
    let groups = saved.as_ref().map(|state| state.cgroups.clone()).unwrap_or_default();
    let uid = own_uid(&dir);
    for round in 1_u32.. {
        groups.iter().for_each(|group| cgroup::kill(group));
        let left = left(saved.as_ref(), &mark, uid);
        if left.is_empty() {
            break;
        }
        for id in &left {
            id.signal(Signal::KILL);
        }
        if round % COMPLAIN == 0 {
            tracing::warn!(pids = ?left, "processes of a lost job do not end on SIGKILL; waiting for them");
        }
        tokio::time::sleep(AGAIN).await;
    }
    groups.iter().for_each(|group| cgroup::remove(group));
    saved.map(|state| state.snapshot).unwrap_or_default()
}

fn left(saved: Option<&SupervisorState>, mark: &str, uid: Option<u32>) -> Vec<Identity> {
    let owned = uid.map(process::of_user).unwrap_or_default();
    let marked = process::with_environment(mark);
    let mut found: Vec<Identity> = marked.into_iter().chain(owned).map(|one| one.id).collect();
    if let Some(state) = saved {
        found.extend(
            state.holder.iter().chain(&state.engine).chain(state.ranks.values()).filter(|id| id.is_alive()),
        );
        let grouped = state.cgroups.iter().flat_map(|group| cgroup::members(group));
        found.extend(grouped.filter_map(process::stat).filter(|one| !one.zombie).map(|one| one.id));
    }
    found.sort_unstable();
    found.dedup();
    found
}
