//! What attempts of jobs held: sums, and one line an attempt.

use proto_wire::v1::{self, sum_usage_request::By};

use super::{Table, words};

/// Milliseconds of an hour.
const HOUR: u64 = 3_600_000;

/// Hours with two digits behind the point.
fn hours(ms: u64) -> String {
    format!("{:.2}", ms as f64 / HOUR as f64)
}

/// Seconds, exactly.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// `2-03:04:05`, as Slurm writes it.
fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let of_day = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}-{of_day}") } else { of_day }
}

fn moment(time: Option<&prost_types::Timestamp>) -> String {
    time.map(|time| prost_types::Timestamp { nanos: 0, ..*time }.to_string()).unwrap_or_default()
}

/// Headers of what is exact, for `-o wide` and csv.
const EXACT: [&str; 7] = ["HELD-S", "NODE-S", "GPU-S", "NIC-S", "RAIL-S", "CPU-S", "STARTUP-GPU-S"];

fn exact(amount: &v1::UsageAmount) -> [String; 7] {
    let v1::UsageAmount { held_ms, node_ms, gpu_ms, nic_ms, rail_ms, cpu_ms, startup_gpu_ms } = *amount;
    [held_ms, node_ms, gpu_ms, nic_ms, rail_ms, cpu_ms, startup_gpu_ms].map(seconds)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::bare();
    table.row(header.iter().map(|cell| (*cell).to_owned()));
    table
}

/// The kind/name line of a sum, by what was summed over; a queue or user that is none is `-`. Jobs have their uids with them: a name may have
/// been another's before.
#[must_use]
pub fn usage_name(sum: &v1::UsageSum, by: By) -> String {
    let tenant = &sum.tenant;
    let named =
        |kind: &str, name: &str| format!("{kind}/{tenant}/{}", if name.is_empty() { "-" } else { name });
    match by {
        By::Queue => named("queue", &sum.queue),
        By::User => named("user", &sum.user),
        By::Job => format!("{}/{}", named("job", &sum.job), sum.job_uid),
        By::Tenant | By::Unspecified => format!("tenant/{tenant}"),
    }
}

/// The kind/name line of an attempt's record.
#[must_use]
pub fn usage_record_name(record: &v1::UsageRecord) -> String {
    format!("usage/{}/{}/{}/{}", record.tenant, record.job, record.job_uid, record.attempt)
}

/// That there are more lines than were asked for.
#[must_use]
pub fn usage_left_out(lines: u64) -> String {
    format!("{lines} lines with less are left out: see --limit, or ask for a shorter interval")
}

/// Sums, one a line.
#[must_use]
pub fn usage_sums(sums: &[v1::UsageSum], by: By, wide: bool) -> Table {
    let own = match by {
        By::Queue => Some("QUEUE"),
        By::User => Some("USER"),
        By::Job => Some("JOB"),
        By::Tenant | By::Unspecified => None,
    };
    let mut header: Vec<&str> = std::iter::once("TENANT").chain(own).collect();
    header.extend(["ATTEMPTS", "RUNNING", "GPU-HOURS", "NODE-HOURS", "NIC-HOURS"]);
    if wide {
        header.extend(EXACT);
        header.extend(["TENANT-UID", "JOB-UID"]);
    }
    let mut table = table(&header);
    for sum in sums {
        let amount = sum.amount.unwrap_or_default();
        let name = match by {
            By::Queue => Some(&sum.queue),
            By::User => Some(&sum.user),
            By::Job => Some(&sum.job),
            By::Tenant | By::Unspecified => None,
        };
        let mut cells: Vec<String> = std::iter::once(&sum.tenant).chain(name).cloned().collect();
        cells.extend([sum.attempts, sum.attempts_running].map(|count| count.to_string()));
        cells.extend([amount.gpu_ms, amount.node_ms, amount.nic_ms].map(hours));
        if wide {
            cells.extend(exact(&amount));
            cells.extend([sum.tenant_uid.clone(), sum.job_uid.clone()]);
        }
        table.row(cells);
    }
    table
}

/// All of it in one sentence.
#[must_use]
pub fn usage_total(answer: &v1::SumUsageResponse, since: &prost_types::Timestamp) -> String {
    let total = answer.total.clone().unwrap_or_default();
    let amount = total.amount.unwrap_or_default();
    format!(
        "{} attempts, {} of them running, since {}: {} GPU-hours, {} node-hours, {} NIC-hours",
        total.attempts,
        total.attempts_running,
        moment(Some(since)),
        hours(amount.gpu_ms),
        hours(amount.node_ms),
        hours(amount.nic_ms)
    )
}

fn end(record: &v1::UsageRecord) -> String {
    record.end().as_str_name().to_owned()
}

/// Headers of what each table of attempts has.
const RECORD: [&str; 13] = [
    "TENANT",
    "JOB",
    "ATTEMPT",
    "USER",
    "QUEUE",
    "NODES",
    "GPUS",
    "PLACED",
    "ENDED",
    "HELD",
    "GPU-HOURS",
    "END",
    "REASON",
];

/// Attempts, one a line; with all columns their times and sizes are exact.
#[must_use]
pub fn usage_records(records: &[v1::UsageRecord], wide: bool) -> Table {
    let mut header = RECORD.to_vec();
    if wide {
        header.extend([
            "CLASS",
            "PRIORITY",
            "SPARES",
            "NICS",
            "RAILS",
            "CPUS",
            "MEMORY-BYTES",
            "NODES-ASKED",
        ]);
        header.extend(["GPUS-ASKED", "SUBMITTED", "STARTED"]);
        header.extend(EXACT);
        header.extend(["TENANT-UID", "JOB-UID"]);
    }
    let mut table = table(&header);
    for record in records {
        let amount = record.amount.unwrap_or_default();
        let exactly = |time: Option<&prost_types::Timestamp>| time.map(words::millis).unwrap_or_default();
        let time = if wide { exactly } else { moment };
        let mut cells = vec![
            record.tenant.clone(),
            record.job.clone(),
            record.attempt.to_string(),
            record.user.clone(),
            record.queue.clone(),
            record.nodes.to_string(),
            record.gpus.to_string(),
            time(record.place_time.as_ref()),
            time(record.end_time.as_ref()),
            clock(amount.held_ms),
            hours(amount.gpu_ms),
            end(record),
            record.reason.clone(),
        ];
        if wide {
            cells.extend([
                record.service_class.clone(),
                record.priority.to_string(),
                record.spares.to_string(),
                record.nics.to_string(),
                record.rails.to_string(),
                record.cpus.to_string(),
                record.memory_bytes.to_string(),
                record.nodes_asked.to_string(),
                record.gpus_asked.to_string(),
                exactly(record.submit_time.as_ref()),
                exactly(record.start_time.as_ref()),
            ]);
            cells.extend(exact(&amount));
            cells.extend([record.tenant_uid.clone(), record.job_uid.clone()]);
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount() -> v1::UsageAmount {
        v1::UsageAmount {
            held_ms: 95_400_250,
            node_ms: 190_800_500,
            gpu_ms: 763_202_000,
            ..Default::default()
        }
    }

    #[test]
    fn an_attempt_is_a_line_as_sacct_has_it() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 250_000_000 });
        let record = v1::UsageRecord {
            tenant: "red".into(),
            job: "train".into(),
            attempt: 2,
            user: "ann".into(),
            nodes: 2,
            gpus: 8,
            job_uid: "u".into(),
            memory_bytes: 1 << 30,
            place_time: at(1_800_000_000),
            end_time: at(1_800_095_400),
            end: v1::usage_record::End::Requeued.into(),
            reason: "RankFailed".into(),
            amount: Some(amount()),
            ..Default::default()
        };
        let text = usage_records(std::slice::from_ref(&record), false).render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = [
            "red",
            "train",
            "2",
            "ann",
            "-",
            "2",
            "8",
            "2027-01-15T08:00:00Z",
            "2027-01-16T10:30:00Z",
            "1-02:30:00",
            "212.00",
            "REQUEUED",
            "RankFailed",
        ];
        assert_eq!(row, expected, "{text}");
        assert_eq!(usage_record_name(&record), "usage/red/train/u/2");
        let csv = usage_records(&[record], true).csv();
        assert!(csv.contains(",2027-01-15T08:00:00.250Z,2027-01-16T10:30:00.250Z,"), "{csv}");
        assert!(csv.contains(",1073741824,"), "{csv}");
        assert!(csv.contains(",763202.000,") && csv.starts_with("TENANT,JOB,ATTEMPT,"), "{csv}");
        let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths[0], widths[1]);
    }

    #[test]
    fn sums_have_the_columns_of_what_they_are_over_and_exact_seconds_in_csv() {
        let sum = v1::UsageSum {
            tenant: "red".into(),
            user: "ann".into(),
            attempts: 3,
            attempts_running: 1,
            amount: Some(amount()),
            ..Default::default()
        };
        let text = usage_sums(std::slice::from_ref(&sum), By::User, false).render("");
        assert_eq!(
            text,
            "TENANT  USER  ATTEMPTS  RUNNING  GPU-HOURS  NODE-HOURS  NIC-HOURS\nred     ann   3         1        212.00     53.00       0.00\n"
        );
        let names = [By::User, By::Queue, By::Job, By::Tenant].map(|by| usage_name(&sum, by));
        assert_eq!(names, ["user/red/ann", "queue/red/-", "job/red/-/", "tenant/red"]);
        let whole = usage_sums(std::slice::from_ref(&sum), By::Tenant, true);
        assert_eq!(whole.column("GPU-S").unwrap(), ["GPU-S", "763202.000"]);
        let answer = v1::SumUsageResponse { total: Some(sum), left_out: 2, ..Default::default() };
        let words = usage_total(&answer, &prost_types::Timestamp::default());
        assert!(words.contains("3 attempts, 1 of them running"));
        assert!(usage_left_out(answer.left_out).starts_with("2 lines with less are left out"));
    }
}
