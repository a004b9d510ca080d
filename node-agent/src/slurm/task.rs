//! What one task of Slurm's is given. [pure]
//!
//! Names of variables as in "OUTPUT ENVIRONMENT VARIABLES" of srun(1).

use super::seats::{Seats, Variables};

/// What only a task has that takes the place of a rank.
const OF_A_RANK: [&str; 8] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RAIL_ENGINE_SOCKET",
];

/// What was given to the task's parent, so that it is not taken for what the user has set: a batch script hands its environment to `srun`,
/// whose tasks may be on other servers.
pub const GIVEN: &str = "RAIL_SLURM_GIVEN";

/// A task, as Slurm describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmTask {
    /// Its number among those of its step on this server.
    local: Option<usize>,
    /// How many tasks each server has of its step, and of how many servers: where that is the same for all.
    each: Option<(usize, usize)>,
}

impl SlurmTask {
    /// The task that the variables describe.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            local: variable("SLURM_LOCALID").and_then(|text| text.parse().ok()),
            each: variable("SLURM_STEP_TASKS_PER_NODE").as_deref().and_then(uniform),
        }
    }
}

/// "4(x3)": three servers with four tasks each; "4" is one server. Others are not all alike.
fn uniform(text: &str) -> Option<(usize, usize)> {
    match text.split_once("(x") {
        Some((tasks, servers)) => Some((tasks.parse().ok()?, servers.strip_suffix(')')?.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// What changes in the environment of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// What it is given.
    pub set: Variables,
    /// What its parent was given, and is not the task's.
    pub unset: Vec<String>,
}

/// What the task is given. It takes a rank's place where its step has as many tasks on every server as the allocation has ranks; any other
/// task gets to know the rails only. What its user has set wins.
#[must_use]
pub fn given(seats: &Seats, task: &SlurmTask, set: impl Fn(&str) -> Option<String>) -> Given {
    let here = seats.ranks.len();
    let fits = task.each.is_some_and(|(tasks, servers)| tasks == here && tasks * servers == seats.world);
    let own = task.local.filter(|_| fits).and_then(|local| seats.ranks.get(local));
    let mut given = own.or(seats.ranks.first()).cloned().unwrap_or_default();
    if own.is_none() {
        OF_A_RANK.iter().for_each(|name| _ = given.remove(*name));
    }
    let mut inherited: Variables =
        set(GIVEN).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // What the user has changed since is the user's.
    inherited.retain(|name, value| set(name).as_ref() == Some(value));
    given.retain(|name, _| set(name).is_none() || inherited.contains_key(name));
    let unset = inherited.into_keys().filter(|name| !given.contains_key(name)).collect();
    let text = serde_json::to_string(&given).unwrap_or_default();
    given.insert(GIVEN.to_owned(), text);
    Given { set: given, unset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats() -> Seats {
        let rank = |rank: usize| {
            [
                ("RANK", rank.to_string()),
                ("RAIL_ENGINE_SOCKET", "/e".to_owned()),
                ("NCCL_IB_HCA", "=a".to_owned()),
            ]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
        };
        Seats { world: 4, ranks: vec![rank(2), rank(3)] }
    }

    fn all(pairs: &[(&str, &str)]) -> Given {
        let set = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        super::given(&seats(), &SlurmTask::of(set), set)
    }

    fn given(pairs: &[(&str, &str)]) -> Variables {
        all(pairs).set
    }

    #[test]
    fn a_task_takes_the_place_of_its_local_rank_where_all_servers_have_as_many() {
        let one = given(&[("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", "2(x2)")]);
        assert_eq!((one["RANK"].as_str(), one["RAIL_ENGINE_SOCKET"].as_str()), ("3", "/e"));
        for other in ["2", "2(x3)", "1(x4)", "2,1", "2(x2),1", "3(x2)", "", "x"] {
            let none = given(&[("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", other)]);
            assert!(!none.contains_key("RANK") && !none.contains_key("RAIL_ENGINE_SOCKET"), "{other}");
            assert_eq!(none["NCCL_IB_HCA"], "=a");
        }
        // A batch script is no task of a step.
        assert!(!given(&[("SLURM_LOCALID", "0")]).contains_key("RANK"));
    }

    #[test]
    fn what_the_user_has_set_stays_and_what_was_given_to_a_batch_script_does_not() {
        let own = given(&[("NCCL_IB_HCA", "=mine")]);
        assert!(!own.contains_key("NCCL_IB_HCA"));
        let batch = given(&[]);
        let step = [("NCCL_IB_HCA", "=a"), (GIVEN, batch[GIVEN].as_str())];
        assert_eq!(given(&step)["NCCL_IB_HCA"], "=a");
        // Changed by the script since.
        assert!(!given(&[("NCCL_IB_HCA", "=b"), step[1]]).contains_key("NCCL_IB_HCA"));
        assert_eq!(given(&[("NCCL_IB_HCA", "=a"), (GIVEN, "no JSON")]).get("NCCL_IB_HCA"), None);
    }

    #[test]
    fn a_step_within_a_ranks_task_loses_the_ranks_place() {
        let of_rank = given(&[("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", "2(x2)")]);
        let mut within = vec![("SLURM_LOCALID", "0"), ("SLURM_STEP_TASKS_PER_NODE", "1")];
        within.extend(of_rank.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        assert_eq!(all(&within).unset, ["RAIL_ENGINE_SOCKET", "RANK"]);
        // A rank that the user has made up stays.
        within.iter_mut().filter(|pair| pair.0 == "RANK").for_each(|pair| pair.1 = "7");
        assert_eq!(all(&within).unset, ["RAIL_ENGINE_SOCKET"]);
    }
}
