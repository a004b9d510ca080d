//! Lists of jobs.

use proto_wire::v1;

use super::{Table, words};

/// The columns, in the style of squeue.
#[must_use]
pub fn jobs_header(wide: bool) -> Vec<String> {
    let mut header =
        vec!["JOB", "TENANT", "USER", "PHASE", "NODES", "GPUS", "RAILS", "PRIO", "AGE", "REASONS"];
    if wide {
        header.splice(9..9, ["RUN", "ATTEMPT", "QUEUE", "PREEMPTED", "ETA", "PODS", "SPARES", "NODELIST"]);
    }
    header.into_iter().map(str::to_owned).collect()
}

/// The cells of one job's row; more of them if `wide`.
#[must_use]
pub fn job_row(job: &v1::Job, wide: bool, now: f64) -> Vec<String> {
    let metadata = job.metadata.clone().unwrap_or_default();
    let spec = job.spec.clone().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let gang = spec.gang.unwrap_or_default();
    let rails = match (&status.placement, spec.rails.unwrap_or_default().required) {
        (Some(placement), 0) => placement.rails.len().to_string(),
        (Some(placement), asked) => format!("{}/{asked}", placement.rails.len()),
        (None, 0) if spec.rails.unwrap_or_default().none => "none".to_owned(),
        (None, 0) => "all".to_owned(),
        (None, asked) => asked.to_string(),
    };
    let submitted = status.submit_time.as_ref().or(metadata.create_time.as_ref());
    let mut row = vec![
        metadata.name,
        metadata.tenant,
        status.submitter.as_ref().map(|by| by.user.clone()).unwrap_or_default(),
        words::job_phase(status.phase).to_owned(),
        gang_nodes(&gang),
        gpus(&spec, &status),
        rails,
        spec.priority.to_string(),
        words::age(submitted, None, now),
        reasons(&status.reasons),
    ];
    if wide {
        let nodes: Vec<String> =
            status.placement.iter().flat_map(|place| &place.nodes).map(|node| node.node.clone()).collect();
        let held = status.placement.as_ref().map_or(0, |place| place.spares.len());
        let asked = spec.placement.as_ref().map_or(0, |place| place.spares);
        let spares = if asked == 0 { String::new() } else { format!("{held}/{asked}") };
        let wide = [
            words::age(status.start_time.as_ref(), status.end_time.as_ref(), now),
            status.attempt.to_string(),
            spec.queue.clone(),
            if status.preempted == 0 { String::new() } else { status.preempted.to_string() },
            super::sharing::stamp(status.eta.as_ref().and_then(|eta| eta.start.as_ref())),
            status.placement.as_ref().map(|place| place.pods.to_string()).unwrap_or_default(),
            spares,
            nodes.join(","),
        ];
        row.splice(9..9, wide);
    }
    row
}

/// GPUs that it holds; of a job that holds none now, those that it wants or had: `8-32` where fewer will do.
fn gpus(spec: &v1::JobSpec, status: &v1::JobStatus) -> String {
    use v1::job_status::Phase;
    let holds =
        matches!(status.phase(), Phase::Reserved | Phase::Preparing | Phase::Running | Phase::Recovering);
    let gang = spec.gang.unwrap_or_default();
    match &status.placement {
        Some(place) if holds => place.nodes.iter().map(|node| node.gpus.len()).sum::<usize>().to_string(),
        _ if gang.min_nodes > 0 && gang.min_nodes != gang.nodes && gang.gpus_per_node > 0 => {
            format!("{}-{}", u64::from(gang.min_nodes) * u64::from(gang.gpus_per_node), spec.total_gpus())
        }
        _ => spec.total_gpus().to_string(),
    }
}

/// Nodes that it wants: `2-8` where fewer will do.
#[must_use]
pub fn gang_nodes(gang: &v1::Gang) -> String {
    match gang.min_nodes {
        0 => gang.nodes.to_string(),
        least if least == gang.nodes => least.to_string(),
        least => format!("{least}-{}", gang.nodes),
    }
}

/// The same in words: `1 node`, `2-8 nodes`.
#[must_use]
pub fn gang_words(gang: &v1::Gang) -> String {
    let count = gang_nodes(gang);
    let unit = if count == "1" { "node" } else { "nodes" };
    format!("{count} {unit}")
}

/// All causes in short: `GpuCapacity(3),QuotaExceeded`.
#[must_use]
pub fn reasons(reasons: &[v1::Reason]) -> String {
    let short = |reason: &v1::Reason| match reason.count {
        0 => reason.code.clone(),
        count => format!("{}({count})", reason.code),
    };
    let mut all: Vec<String> = reasons.iter().map(short).collect();
    all.dedup();
    all.join(",")
}

/// A list of jobs.
#[must_use]
pub fn jobs(list: &[v1::Job], wide: bool, now: f64) -> Table {
    let mut table = Table::bare();
    table.row(jobs_header(wide));
    for job in list {
        table.row(job_row(job, wide, now));
    }
    table
}

/// How its ranks ended: 0, the code or the signal of the one that failed first.
fn exit(exits: &[v1::RankExit]) -> String {
    let mut failed: Vec<&v1::RankExit> =
        exits.iter().filter(|exit| exit.code != 0 || exit.signal != 0).collect();
    failed.sort_by_key(|exit| exit.time.map(|time| (time.seconds, time.nanos)));
    match failed.first() {
        Some(exit) if exit.signal != 0 => format!("signal {}", exit.signal),
        Some(exit) => exit.code.to_string(),
        None if exits.is_empty() => String::new(),
        None => "0".to_owned(),
    }
}

/// Jobs that have ended, in the style of sacct.
#[must_use]
pub fn ended_jobs(list: &[v1::Job]) -> Table {
    let mut table = Table::new([
        "JOB",
        "TENANT",
        "USER",
        "PHASE",
        "EXIT",
        "SUBMITTED",
        "STARTED",
        "ENDED",
        "RAN",
        "TRIES",
        "NODES",
        "GPUS",
    ]);
    for job in list {
        let (metadata, spec) =
            (job.metadata.clone().unwrap_or_default(), job.spec.clone().unwrap_or_default());
        let status = job.status.clone().unwrap_or_default();
        let stamp = super::sharing::stamp;
        table.row([
            metadata.name,
            metadata.tenant,
            status.submitter.as_ref().map(|by| by.user.clone()).unwrap_or_default(),
            words::job_phase(status.phase).to_owned(),
            exit(&status.exits),
            stamp(status.submit_time.as_ref()),
            stamp(status.start_time.as_ref()),
            stamp(status.end_time.as_ref()),
            words::age(status.start_time.as_ref(), status.end_time.as_ref(), 0.0),
            status.attempt.to_string(),
            gang_nodes(&spec.gang.unwrap_or_default()),
            spec.total_gpus().to_string(),
        ]);
    }
    table
}

#[cfg(test)]
pub mod tests {
    use prost_types::Timestamp;

    use super::*;

    /// A placed job of two nodes with two ranks each.
    pub fn running() -> v1::Job {
        let nic = |rail: u32| v1::NicPlace {
            device: format!("rail{rail}"),
            netdev: format!("rail{rail}"),
            rail,
            leaf: format!("leaf-{rail}"),
            address: format!("10.{rail}.0.1"),
        };
        let node = |name: &str| v1::NodePlace {
            node: name.into(),
            pod: "p0".into(),
            gpus: vec![0, 1],
            nics: vec![nic(0), nic(1)],
            remapped: false,
            cpus: 0,
            memory_bytes: 0,
        };
        let rank = |rank: u32| v1::RankPlace {
            rank,
            node: format!("n{}", rank / 2),
            local_rank: rank % 2,
            gpus: vec![rank % 2],
            nic: format!("rail{}", rank % 2),
            rail: rank % 2,
            leaf: format!("leaf-{}", rank % 2),
        };
        let placement = v1::Placement {
            nodes: vec![node("n0"), node("n1")],
            ranks: (0..4).map(rank).collect(),
            rails: vec![0, 1],
            pods: 1,
            ..v1::Placement::default()
        };
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        v1::Job {
            metadata: Some(v1::Metadata {
                name: "sum".into(),
                tenant: "nlp".into(),
                uid: "u-1".into(),
                ..Default::default()
            }),
            spec: Some(v1::JobSpec {
                gang: Some(v1::Gang { nodes: 2, gpus_per_node: 2, ranks_per_node: 2, ..v1::Gang::default() }),
                priority: 5,
                work: Some(v1::job_spec::Work::Command(v1::Command {
                    argv: vec!["./train".into()],
                    ..Default::default()
                })),
                ..Default::default()
            }),
            status: Some(v1::JobStatus {
                phase: 4,
                attempt: 1,
                submit_time: at(1000),
                start_time: at(1002),
                placement: Some(placement),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// A queued job with two causes.
    pub fn pending() -> v1::Job {
        let mut job = running();
        let reason = |code: &str, count| v1::Reason {
            code: code.into(),
            message: format!("{code} it is"),
            count,
            ..Default::default()
        };
        let reasons = vec![reason("GpuCapacity", 3), reason("QuotaExceeded", 0)];
        job.metadata.get_or_insert_default().name = "later".into();
        job.status = Some(v1::JobStatus {
            phase: 1,
            reasons,
            submit_time: Some(Timestamp { seconds: 940, nanos: 0 }),
            ..Default::default()
        });
        job
    }

    /// The running one, with who submitted it.
    fn owned() -> v1::Job {
        let mut job = running();
        let submitter = v1::Submitter { role: v1::Role::User.into(), user: "ann".into() };
        job.status.get_or_insert_default().submitter = Some(submitter);
        job
    }

    #[test]
    fn a_table_of_jobs() {
        let text = jobs(&[owned(), pending()], false, 1060.0).render("");
        let expected = "\
JOB    TENANT  USER  PHASE    NODES  GPUS  RAILS  PRIO  AGE  REASONS
sum    nlp     ann   Running  2      4     2      5     1m   -
later  nlp     -     Pending  2      4     all    5     2m   GpuCapacity(3),QuotaExceeded
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_wide_table_has_the_nodes() {
        let text = jobs(&[owned()], true, 1060.0).render("");
        let expected = "\
JOB  TENANT  USER  PHASE    NODES  GPUS  RAILS  PRIO  AGE  RUN  ATTEMPT  QUEUE  PREEMPTED  ETA  PODS  SPARES  NODELIST  REASONS
sum  nlp     ann   Running  2      4     2      5     1m   58s  1        -      -          -    1     -       n0,n1     -
";
        assert_eq!(text, expected);
    }
}
