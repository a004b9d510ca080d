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

/// What the task is given. It takes a rank's place where its step has as many tasks on every server as the allocation has ranks; any other
/// task gets to know the rails only. What its user has set wins.
#[must_use]
pub fn variables(seats: &Seats, task: &SlurmTask, set: impl Fn(&str) -> Option<String>) -> Variables {
    let here = seats.ranks.len();
    let fits = task.each.is_some_and(|(tasks, servers)| tasks == here && tasks * servers == seats.world);
    let own = task.local.filter(|_| fits).and_then(|local| seats.ranks.get(local));
    let mut given = own.or(seats.ranks.first()).cloned().unwrap_or_default();
    if own.is_none() {
        OF_A_RANK.iter().for_each(|name| _ = given.remove(*name));
    }
    let inherited: Variables =
        set(GIVEN).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    given.retain(|name, _| set(name).is_none_or(|value| inherited.get(name) == Some(&value)));
    let text = serde_json::to_string(&given).unwrap_or_default();
    given.insert(GIVEN.to_owned(), text);
    given
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

    fn given(pairs: &[(&str, &str)]) -> Variables {
        let set = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        variables(&seats(), &SlurmTask::of(set), set)
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
}
