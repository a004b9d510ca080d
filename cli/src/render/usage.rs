//! What servers and jobs use.

use std::time::Duration;

use proto_model::{many, size};
use proto_wire::v1;
use serde_json::json;

use super::{Table, words};

/// CPUs with one digit behind the point.
fn cpus(millis: u64) -> String {
    format!("{}.{}", millis / 1000, millis % 1000 / 100)
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        whole => format!("{}%", u128::from(part) * 100 / u128::from(whole)),
    }
}

fn ago(time: Option<&prost_types::Timestamp>, now: f64) -> String {
    let passed =
        |time| Duration::try_from_secs_f64((now - words::seconds(time)).max(0.0)).unwrap_or_default();
    time.map(|time| format!("{} s ago", passed(time).as_secs())).unwrap_or_default()
}

/// Servers, and what they use now.
#[must_use]
pub fn node_usage(list: &[v1::NodeUsage], now: f64) -> Table {
    let mut table = Table::new(["NODE", "CPU", "CPU%", "MEMORY", "MEMORY%", "GPUS-HELD", "TOLD"]);
    for one in list {
        table.row([
            one.node.clone(),
            cpus(one.cpu_millis),
            percent(one.cpu_millis, u64::from(one.cpus) * 1000),
            size(one.memory_used_bytes),
            percent(one.memory_used_bytes, one.memory_bytes),
            format!("{}/{}", one.gpus_held, one.gpus),
            ago(one.time.as_ref(), now),
        ]);
    }
    table
}

/// Running jobs, and what they use now.
#[must_use]
pub fn job_usage(list: &[v1::JobUsage], now: f64) -> Table {
    let mut table = Table::new([
        "JOB",
        "TENANT",
        "USER",
        "CPU",
        "CPU%",
        "MEMORY",
        "MEMORY%",
        "PROCESSES",
        "GPUS",
        "NODES",
        "TOLD",
    ]);
    for one in list {
        let nodes = if one.nodes_reported == one.nodes {
            one.nodes.to_string()
        } else {
            format!("{} of {}", one.nodes_reported, one.nodes)
        };
        table.row([
            one.job.clone(),
            one.tenant.clone(),
            one.user.clone(),
            cpus(one.cpu_millis),
            percent(one.cpu_millis, one.cpus * 1000),
            size(one.memory_bytes),
            percent(one.memory_bytes, one.memory_held_bytes),
            one.processes.to_string(),
            one.gpus.to_string(),
            nodes,
            ago(one.time.as_ref(), now),
        ]);
    }
    table
}

/// Of a job that runs: what its ranks use is counted when they end.
const NOT_YET: &str = "not counted yet: its ranks run; `railctl top jobs` tells what they use now";

/// What a job has used of what it had.
#[derive(Debug, Clone, PartialEq)]
pub struct Efficiency {
    /// The job as TENANT/NAME.
    pub job: String,
    phase: String,
    /// Its ranks run: what they use is not counted yet.
    running: bool,
    nodes: usize,
    gpus: u64,
    ranks: usize,
    /// From its start to its end, or to now.
    ran: Duration,
    /// CPU time of all ranks that reported it; `None`: none has.
    cpu: Option<Duration>,
    /// CPUs that were the job's alone, on all its nodes.
    cpus: u64,
    /// The rank that had the most memory, and how much.
    memory: Option<(u32, u64)>,
    /// Memory of each node that was its alone.
    memory_per_node: u64,
}

impl Efficiency {
    /// By what its ranks have reported at their ends.
    #[must_use]
    pub fn of(job: &v1::Job, now: f64) -> Self {
        let metadata = job.metadata.clone().unwrap_or_default();
        let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
        let gang = spec.gang.unwrap_or_default();
        let places = status.placement.clone().unwrap_or_default().nodes;
        let end = status.end_time.as_ref().map_or(now, words::seconds);
        let ran = status.start_time.as_ref().map_or(0.0, |start| (end - words::seconds(start)).max(0.0));
        let reported: Vec<Duration> =
            status.exits.iter().filter_map(|exit| Duration::try_from(exit.cpu_time?).ok()).collect();
        let most = status.exits.iter().max_by_key(|exit| exit.memory_peak_bytes);
        Self {
            job: format!("{}/{}", metadata.tenant, metadata.name),
            phase: words::job_phase(status.phase).to_owned(),
            running: status.start_time.is_some() && status.end_time.is_none(),
            nodes: places.len(),
            gpus: places.iter().map(|place| place.gpus.len() as u64).sum(),
            ranks: status.exits.len(),
            ran: Duration::try_from_secs_f64(ran).unwrap_or_default(),
            cpu: (!reported.is_empty()).then(|| reported.iter().sum()),
            cpus: places.iter().map(|place| u64::from(place.cpus)).sum(),
            memory: most.map(|exit| (exit.rank, exit.memory_peak_bytes)).filter(|(_, bytes)| *bytes > 0),
            memory_per_node: gang.memory_per_node,
        }
    }

    /// CPU time that it could have used, of what was its alone.
    fn cpu_held(&self) -> Option<Duration> {
        let cpus = u32::try_from(self.cpus).ok().filter(|cpus| *cpus > 0)?;
        Some(self.ran.saturating_mul(cpus))
    }

    fn gpu_seconds(&self) -> f64 {
        self.gpus as f64 * self.ran.as_secs_f64()
    }

    /// The figures as text for people, one on a line.
    #[must_use]
    pub fn text(&self) -> String {
        let clock = |time: Duration| {
            let seconds = time.as_secs();
            format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        };
        let cpu = match (self.cpu, self.cpu_held()) {
            (None, _) if self.running => NOT_YET.to_owned(),
            (None, _) => "not told: no rank has ended, or their agents are older".to_owned(),
            (Some(cpu), Some(held)) if !held.is_zero() => format!(
                "{:.1} s, {:.1}% of the {} on {}",
                cpu.as_secs_f64(),
                100.0 * cpu.as_secs_f64() / held.as_secs_f64(),
                clock(held),
                many(self.cpus, "CPU"),
            ),
            (Some(cpu), _) => format!("{:.1} s; it has asked for no CPUs of its own", cpu.as_secs_f64()),
        };
        let memory = match self.memory {
            None if self.running && self.ranks == 0 => NOT_YET.to_owned(),
            None if self.ranks == 0 => "not told: no rank has ended".to_owned(),
            None => "not seen: its ranks ended before the first look".to_owned(),
            Some((rank, bytes)) if self.memory_per_node > 0 => format!(
                "{} at most, by rank {rank}; {} were asked for on each node",
                size(bytes),
                size(self.memory_per_node)
            ),
            Some((rank, bytes)) => format!("{} at most, by rank {rank}", size(bytes)),
        };
        let gpu = match self.gpus {
            0 => "none held".to_owned(),
            gpus => format!(
                "{} held for {} ({:.2} GPU hours); how busy they were is told by the GPUs' own exporter",
                many(gpus, "GPU"),
                clock(self.ran),
                self.gpu_seconds() / 3600.0
            ),
        };
        format!(
            "Job       {}\nPhase     {}\nRan       {}{} on {}, {} ended\nCPU time  {cpu}\nMemory    {memory}\nGPU       {gpu}\n",
            self.job,
            self.phase,
            clock(self.ran),
            if self.running { " so far" } else { "" },
            many(self.nodes, "node"),
            many(self.ranks, "rank"),
        )
    }

    /// For programs; what is not known is null.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let seconds = |time: Duration| time.as_secs_f64();
        let held = self.cpu_held().filter(|held| !held.is_zero());
        json!({
            "job": self.job,
            "phase": self.phase,
            "running": self.running,
            "nodes": self.nodes,
            "ranksEnded": self.ranks,
            "seconds": seconds(self.ran),
            "cpuSeconds": self.cpu.map(seconds),
            "cpus": self.cpus,
            "cpuEfficiency": self.cpu.zip(held).map(|(cpu, held)| seconds(cpu) / seconds(held)),
            "memoryPeakBytes": self.memory.map(|(_, bytes)| bytes),
            "memoryPerNodeBytes": self.memory_per_node,
            "gpus": self.gpus,
            "gpuSeconds": self.gpu_seconds(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    fn job(cpus: u32) -> v1::Job {
        let place = v1::NodePlace { node: "n0".into(), gpus: vec![0, 1], cpus, ..v1::NodePlace::default() };
        let exit = |rank, cpu: i64, memory| v1::RankExit {
            rank,
            cpu_time: Some(prost_types::Duration { seconds: cpu, nanos: 0 }),
            memory_peak_bytes: memory,
            ..v1::RankExit::default()
        };
        let status = v1::JobStatus {
            phase: v1::job_status::Phase::Completed.into(),
            start_time: at(100),
            end_time: at(200),
            placement: Some(v1::Placement { nodes: vec![place], ..v1::Placement::default() }),
            exits: vec![exit(0, 40, 1 << 20), exit(1, 60, 3 << 20)],
            ..v1::JobStatus::default()
        };
        let metadata = v1::Metadata { name: "sum".into(), tenant: "nlp".into(), ..v1::Metadata::default() };
        v1::Job { metadata: Some(metadata), status: Some(status), ..v1::Job::default() }
    }

    #[test]
    fn what_a_job_has_used_is_told_with_what_it_had() {
        let text = Efficiency::of(&job(4), 0.0).text();
        assert!(text.contains("CPU time  100.0 s, 25.0% of the 00:06:40 on 4 CPUs"), "{text}");
        assert!(
            text.contains("Memory    3 MiB at most, by rank 1") && text.contains("2 GPUs held for 00:01:40"),
            "{text}"
        );
        assert_eq!(Efficiency::of(&job(4), 0.0).json()["cpuEfficiency"], 0.25);
        let none = Efficiency::of(&job(0), 0.0);
        assert!(none.text().contains("no CPUs of its own") && none.json()["cpuEfficiency"].is_null());
        let running = v1::JobStatus { exits: Vec::new(), end_time: None, ..job(4).status.unwrap() };
        let running = Efficiency::of(&v1::Job { status: Some(running), ..job(4) }, 160.0);
        let text = running.text();
        assert!(text.contains("Ran       00:01:00 so far on 1 node, 0 ranks ended"), "{text}");
        assert_eq!(text.matches("not counted yet").count(), 2, "{text}");
        assert_eq!(running.json()["running"], true);
        let waits = v1::Job { status: Some(v1::JobStatus::default()), ..job(4) };
        let text = Efficiency::of(&waits, 0.0).text();
        assert!(text.contains("CPU time  not told") && text.contains("GPU       none held"), "{text}");
    }

    #[test]
    fn tables_tell_parts_of_what_there_is() {
        let one = v1::NodeUsage {
            node: "n0".into(),
            time: at(95),
            cpu_millis: 12_345,
            cpus: 64,
            memory_used_bytes: 1 << 30,
            memory_bytes: 4 << 30,
            gpus: 8,
            gpus_held: 2,
        };
        let text = node_usage(&[one], 100.0).render("");
        for word in ["12.3", "19%", "1 GiB", "25%", "2/8", "5 s ago"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        let job = v1::JobUsage {
            job: "a".into(),
            cpu_millis: 100,
            nodes: 2,
            nodes_reported: 1,
            ..v1::JobUsage::default()
        };
        let text = job_usage(&[job], 100.0).render("");
        assert!(text.contains("0.1") && text.contains("1 of 2"), "{text}");
    }
}
