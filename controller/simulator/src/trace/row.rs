//! What the rows of all traces become, what is counted of them, and what can be wrong with one.

use std::{collections::BTreeMap, fmt, time::Duration};

use proto_model::{Gang, JobName, JobSpec, Preemption, QueueName, RailRequest};
use thiserror::Error;

/// A job as a trace tells it. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Where it stands in the file, from 1.
    pub line: u64,
    /// When it was submitted, since 1970 where the trace says so, else since the trace's own beginning.
    pub submit: u64,
    /// How long it ran, in milliseconds.
    pub run: u64,
    /// How long its owner said it would run at most, where the trace says so.
    pub limit: Option<u64>,
    /// GPUs that it asked for; at least 1.
    pub gpus: u32,
    /// The virtual cluster, group or class that it was submitted to.
    pub tenant: String,
    /// What a site's own history says beside that.
    pub own: Option<Box<Own>>,
    /// What it asked for beside GPUs, where the trace says so; of use where the list of servers says what they have.
    pub asks: Asks,
}

/// What a job asks for beside GPUs, of each of its servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asks {
    /// CPUs of each server that are the job's alone; 0: none are asked for.
    pub cpus: u32,
    /// Bytes of memory of each server that are the job's alone; 0: none are asked for.
    pub memory: u64,
    /// Models of GPU of which any will do; none: any.
    pub models: std::collections::BTreeSet<proto_model::GpuModel>,
}

/// Which kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Microsoft Philly as the Pollux and Sia authors derived it: CSV, one row per job.
    Philly,
    /// Alibaba clusterdata, cluster-trace-gpu-v2023, `openb_pod_list_*.csv`: one row per pod.
    Openb,
    /// The Standard Workload Format 2.2 of the Parallel Workloads Archive.
    Swf,
    /// Statistics of clusters as AcmeTrace's `cluster_summary.csv` has them; jobs are drawn from them.
    Acme,
    /// What `railctl history export` writes.
    History,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Philly => "Philly CSV",
            Self::Openb => "Alibaba openb pod list",
            Self::Swf => "Standard Workload Format",
            Self::Acme => "cluster statistics",
            Self::History => "Railyard history",
        })
    }
}

/// Why a text is no trace at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    /// The text is empty.
    #[error("the trace is empty")]
    Empty,
    /// The first line is no known header.
    #[error(
        "line {line}: '{found}' begins no trace that is known: Philly CSV (timestamp,duration,num_gpus,gpu_time,cluster), \
         Alibaba openb pods (name,...,num_gpu,...,creation_time,deletion_time,scheduled_time), the Standard Workload \
         Format (comments with ';', then 18 numbers), cluster statistics (id,job_num,...,avg_gpu_num,...), or what `railctl \
         history export` wrote (lines of JSON)"
    )]
    Unknown {
        /// Number of the line, from 1.
        line: u64,
        /// The begin of that line, shortened.
        found: String,
    },
    /// It begins like a history and is none that is read.
    #[error("line {line}: {what}")]
    History {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it, in words.
        what: String,
    },
    /// A column without which no row means anything.
    #[error("line {line}: the {format} header has no column '{column}'")]
    NoColumn {
        /// Number of the line, from 1.
        line: u64,
        /// The format whose column it is.
        format: Format,
        /// Name of the column.
        column: &'static str,
    },
    /// A column comes twice in the header.
    #[error("line {line}: the header has column '{column}' twice")]
    TwoColumns {
        /// Number of the line, from 1.
        line: u64,
        /// Name of the column.
        column: String,
    },
    /// More rows than are read; the number is the limit.
    #[error("the trace has more than {0} rows")]
    TooLong(u64),
    /// The text has a header and no row.
    #[error("the {0} has a header and no rows")]
    NoRows(Format),
    /// No row could be kept.
    #[error("none of {rows} rows can be used; the first is refused at {first}")]
    Nothing {
        /// Rows of the trace.
        rows: u64,
        /// The first fault, with line and field.
        first: String,
    },
}

/// Examples that are kept of each kind of repair or refusal; the rest is only counted.
pub const EXAMPLES: usize = 5;

/// The longest run that is believed: ten years.
pub const MAX_RUN: u64 = 10 * 366 * 86_400_000;

/// The latest submit that is believed: the year 2200.
pub const MAX_TIME: u64 = 7_258_118_400_000;

/// The most GPUs that a job is believed to ask for.
pub const MAX_GPUS: u32 = 1_000_000;

/// What was done to rows for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// Rows that it was done to.
    pub rows: u64,
    /// The first few, as `line N, field F: what`.
    pub examples: Vec<String>,
}

/// How the rows were used: `rows == kept + refused`, and of the kept ones `repaired` were changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// Rows beside the header, comments and blank lines.
    pub rows: u64,
    /// Jobs that were taken from the rows.
    pub kept: u64,
    /// Jobs of rows that were changed to be of use.
    pub repaired: u64,
    /// Rows that cannot be used.
    pub refused: u64,
    /// Lines without anything in them.
    pub blank: u64,
    /// Lines that are comments.
    pub comments: u64,
    /// What was changed, by code. A row can be in several.
    pub repairs: BTreeMap<&'static str, Count>,
    /// Why rows were refused, by code. A row is in one.
    pub refusals: BTreeMap<&'static str, Count>,
    /// What the file says of itself.
    pub notes: Vec<String>,
}

impl Account {
    pub(crate) fn repair(&mut self, code: &'static str, line: u64, field: &str, what: impl fmt::Display) {
        count(&mut self.repairs, code, line, field, what);
    }

    pub(crate) fn refuse(&mut self, fault: &Fault, line: u64) {
        self.refused += 1;
        count(&mut self.refusals, fault.code, line, fault.field, &fault.what);
    }

    /// An example of a row that was refused; `None`: none was.
    #[must_use]
    pub fn first_refusal(&self) -> Option<&str> {
        self.refusals.values().find_map(|count| count.examples.first()).map(String::as_str)
    }
}

/// Why a row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) field: &'static str,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(code: &'static str, field: &'static str, what: impl Into<String>) -> Self {
        Self { code, field, what: what.into() }
    }
}

/// One row that can be used.
pub(crate) struct Read {
    pub(crate) job: TraceJob,
    /// It had not ended: `job.run` is when it began.
    pub(crate) open: bool,
    /// The latest time that the row names.
    pub(crate) seen: u64,
}

impl Read {
    pub(crate) fn ended(job: TraceJob) -> Self {
        Self { job, open: false, seen: 0 }
    }
}

/// Makes a tenant's name of a text: lower case letters, digits and dashes. Whether it had to be changed.
pub(crate) fn tenant(name: &mut String) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty()
        && name.len() <= 63
        && name.chars().all(is_fine)
        && !name.starts_with('-')
        && !name.ends_with('-')
    {
        return false;
    }
    let plain: String = name
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if is_fine(c) { c } else { '-' })
        .take(63)
        .collect();
    let plain = plain.trim_matches('-');
    *name = if plain.is_empty() { "default".to_owned() } else { plain.to_owned() };
    true
}

fn count(
    of: &mut BTreeMap<&'static str, Count>,
    code: &'static str,
    line: u64,
    field: &str,
    what: impl fmt::Display,
) {
    let count = of.entry(code).or_default();
    count.rows += 1;
    if count.examples.len() < EXAMPLES {
        count.examples.push(format!("line {line}, {field}: {what}"));
    }
}

/// What a site's history says of a job beside what every trace does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Name of the job within its tenant.
    pub name: JobName,
    /// The queue that it waits in; `None`: the tenant itself.
    pub queue: Option<QueueName>,
    /// Priority: the higher one goes first.
    pub priority: i32,
    /// Servers, GPUs and ranks.
    pub gang: Gang,
    /// The rails that it asks for.
    pub rails: RailRequest,
    /// All its servers must be in one pod.
    pub one_pod: bool,
    /// How long its owner thought that it would run.
    pub expected: Option<Duration>,
    /// How it may be stopped.
    pub preemption: Preemption,
}

impl Own {
    /// The document that asks for the same.
    pub(crate) fn apply(&self, spec: &mut JobSpec) {
        spec.queue.clone_from(&self.queue);
        spec.priority = self.priority;
        spec.gang = self.gang;
        spec.rails = self.rails;
        spec.preemption = self.preemption;
    }
}
