//! Jobs and servers as squeue and sinfo print them, for scripts and eyes that know those.

use std::collections::BTreeMap;

use proto_model::Names;
use proto_wire::v1::{self, job_status::Phase, node_status};

use super::{Table, words};

/// A job's state in squeue's short form.
fn state(status: &v1::JobStatus) -> &'static str {
    let suspended = status.holds.iter().any(|hold| hold.suspended);
    match status.phase() {
        Phase::Unspecified | Phase::Pending if suspended => "S",
        Phase::Unspecified | Phase::Pending => "PD",
        Phase::Reserved | Phase::Preparing => "CF",
        Phase::Running => "R",
        Phase::Recovering => "CG",
        Phase::Completed => "CD",
        Phase::Failed => "F",
        Phase::Cancelled => "CA",
    }
}

/// `D-HH:MM:SS`, as Slurm writes a time.
fn elapsed(seconds: f64) -> String {
    let seconds = if seconds.is_finite() && seconds > 0.0 { seconds as u64 } else { 0 };
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{rest:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Names of servers in one pattern: `n[0-3]`.
fn folded(nodes: impl IntoIterator<Item = String>) -> String {
    Names::of(nodes.into_iter().collect::<Vec<_>>()).to_string()
}

/// What squeue prints: one line a job, the elements of an array as `ARRAY_INDEX`.
#[must_use]
pub fn jobs(list: &[v1::Job], now: f64) -> Table {
    let mut table =
        Table::new(["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]);
    for job in list {
        let metadata = job.metadata.clone().unwrap_or_default();
        let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
        let array = status.array.as_ref().filter(|place| !place.array.is_empty());
        let id = array.map(|place| format!("{}_{}", place.array, place.index));
        let time = status.start_time.as_ref().map_or(0.0, |start| {
            status.end_time.as_ref().map_or(now, words::seconds) - words::seconds(start)
        });
        let nodes: Vec<String> =
            status.placement.iter().flat_map(|place| &place.nodes).map(|node| node.node.clone()).collect();
        let count = if nodes.is_empty() {
            super::jobs::gang_nodes(&spec.gang.unwrap_or_default())
        } else {
            nodes.len().to_string()
        };
        let held = matches!(status.phase(), Phase::Unspecified | Phase::Pending);
        let place = match status.reasons.first() {
            Some(reason) if held => format!("({})", reason.code),
            None if held => "(None)".to_owned(),
            _ => folded(nodes),
        };
        table.row([
            id.unwrap_or_else(|| metadata.name.clone()),
            if spec.queue.is_empty() {
                metadata.tenant
            } else {
                format!("{}/{}", metadata.tenant, spec.queue)
            },
            array.map_or(metadata.name, |place| place.array.clone()),
            status.submitter.as_ref().map(|by| by.user.clone()).unwrap_or_default(),
            state(&status).to_owned(),
            elapsed(time),
            count,
            place,
        ]);
    }
    table
}

/// A server's state in sinfo's words.
fn node_state(node: &v1::Node) -> &'static str {
    let status = node.status.clone().unwrap_or_default();
    let spec = node.spec.clone().unwrap_or_default();
    let gpus = status.inventory.as_ref().map_or(0, |inventory| inventory.gpus.len());
    let held: usize = status.holds.iter().map(|hold| hold.gpus.len()).sum();
    let out = spec.unschedulable || status.quarantined.is_some();
    match status.phase() {
        node_status::Phase::Ready => match (out, status.holds.is_empty()) {
            (true, true) => "drained",
            (true, false) => "draining",
            (false, true) => "idle",
            (false, false) if held >= gpus => "alloc",
            (false, false) => "mix",
        },
        _ => "down",
    }
}

/// What sinfo prints: servers of one pod and state together.
#[must_use]
pub fn nodes(list: &[v1::Node]) -> Table {
    let mut table = Table::new(["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]);
    let mut groups: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for node in list {
        let name = node.metadata.clone().unwrap_or_default().name;
        groups.entry(("all".to_owned(), node_state(node))).or_default().push(name);
    }
    for ((partition, state), names) in groups {
        let count = names.len().to_string();
        table.row([
            partition,
            "up".to_owned(),
            "infinite".to_owned(),
            count,
            state.to_owned(),
            folded(names),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{
        jobs::tests::{pending, running},
        nodes::tests::node,
    };

    #[test]
    fn jobs_look_as_in_squeue() {
        let mut element = running();
        let status = element.status.get_or_insert_default();
        status.array = Some(v1::ArrayPlace { array: "sweep".into(), index: 3, size: 8 });
        let text = jobs(&[running(), pending(), element], 90_061.0 + 1002.0).render("");
        let expected = "\
JOBID    PARTITION  NAME   USER  ST  TIME        NODES  NODELIST(REASON)
sum      nlp        sum    -     R   1-01:01:01  2      n[0-1]
later    nlp        later  -     PD  0:00        2      (GpuCapacity)
sweep_3  nlp        sweep  -     R   1-01:01:01  2      n[0-1]
";
        assert_eq!(text, expected);
    }

    #[test]
    fn servers_look_as_in_sinfo() {
        let text = nodes(&[node("n0"), node("n1"), node("n2")]).render("");
        let expected = "\
PARTITION  AVAIL  TIMELIMIT  NODES  STATE     NODELIST
all        up     infinite   1      draining  n1
all        up     infinite   2      mix       n[0,2]
";
        assert_eq!(text, expected);
    }
}
