//! What the wire's checks have let through is checked again where it would break an invariant.

use proto_model::{JobSpec, Timestamp, Work};

use crate::{config::Config, error::refusal::CoreError};

/// What the wire's checks have let through is checked again where it would break an invariant.
///
/// # Errors
/// [`CoreError::Invalid`] with the first field that holds what it may not.
pub fn check_spec(spec: &JobSpec, config: &Config) -> Result<(), CoreError> {
    let invalid = |field, message: String| Err(CoreError::Invalid { field, message });
    let gang = spec.gang;
    if gang.nodes == 0 {
        return invalid("spec.gang.nodes", "must be at least 1".to_owned());
    }
    if gang.ranks_per_node == 0 {
        return invalid("spec.gang.ranksPerNode", "must be at least 1".to_owned());
    }
    let ranks = spec.ranks();
    let (max_ranks, max_nodes) = (config.max_ranks, config.max_gang_nodes);
    if ranks > u64::from(max_ranks) {
        let text = format!("{ranks} ranks are more than the {max_ranks} that a job may have (max_ranks)");
        return invalid("spec.gang", text);
    }
    if gang.nodes > max_nodes {
        let text = format!(
            "{} nodes are more than the {max_nodes} that a job may have (max_gang_nodes)",
            gang.nodes
        );
        return invalid("spec.gang.nodes", text);
    }
    let spares = spec.placement.spares;
    if gang.nodes.saturating_add(spares) > max_nodes {
        let text = format!(
            "{} nodes and {spares} spares are more than the {max_nodes} that a job may have (max_gang_nodes)",
            gang.nodes
        );
        return invalid("spec.placement.spares", text);
    }
    check_array(spec, config)?;
    if !(-1000..=1000).contains(&spec.priority) {
        return invalid("spec.priority", format!("{} is not within -1000 to 1000", spec.priority));
    }
    spec.check().map_err(|flaw| CoreError::Contradiction { flaw })?;
    match &spec.work {
        Work::Command(command) if command.argv.is_empty() => {
            invalid("spec.command.argv", "must name a program".to_owned())
        }
        _ => Ok(()),
    }
}

/// What must have been by now comes too late.
///
/// # Errors
/// A time that must be ahead has passed.
pub fn check_times(spec: &JobSpec, now: Timestamp) -> Result<(), CoreError> {
    // A class may have given it a limit.
    spec.check().map_err(|flaw| CoreError::Contradiction { flaw })?;
    let Some(latest) = spec.latest_start().filter(|latest| *latest <= now) else { return Ok(()) };
    let (field, message) = match spec.start_before {
        Some(before) if before <= latest => ("spec.startBefore", format!("{} is over", before.utc())),
        _ => {
            let takes = spec.time_limit.or(spec.expected).unwrap_or_default().as_secs();
            (
                "spec.deadline",
                format!("the job takes {takes} s, and would have to have started at {}", latest.utc()),
            )
        }
    };
    Err(CoreError::Invalid { field, message })
}

fn check_array(spec: &JobSpec, config: &Config) -> Result<(), CoreError> {
    let Some(array) = &spec.array else { return Ok(()) };
    let invalid = |message| Err(CoreError::Invalid { field: "spec.array", message });
    if array.indices.is_empty() {
        return invalid("must name at least one index".to_owned());
    }
    if array.indices.len() > config.max_array {
        let (count, most) = (array.indices.len(), config.max_array);
        return invalid(format!(
            "{count} elements are more than the {most} that an array may have (max_array)"
        ));
    }
    if !array.indices.is_sorted_by(|a, b| a < b) {
        return invalid("indices must ascend, each once".to_owned());
    }
    Ok(())
}
