//! Traces of real clusters, read strictly: every row is kept, repaired with a counted reason, or refused with its line
//! and field. Bytes come in pieces of any size; nothing but the jobs and a bounded list of examples is remembered.

pub mod acme;
mod fields;
pub mod history;
mod lines;
mod openb;
mod philly;
mod swf;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use thiserror::Error;

pub use acme::Statistics;
pub(crate) use fields::{Fields, Header, gpus as gpus_of, shown};
pub use history::{Own, Shares};
use lines::{Line, Lines};

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

/// Rows of a trace at most.
pub const MAX_ROWS: u64 = 20_000_000;
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
    fn repair(&mut self, code: &'static str, line: u64, field: &str, what: impl fmt::Display) {
        count(&mut self.repairs, code, line, field, what);
    }

    fn refuse(&mut self, fault: &Fault, line: u64) {
        self.refused += 1;
        count(&mut self.refusals, fault.code, line, fault.field, &fault.what);
    }

    /// An example of a row that was refused; `None`: none was.
    #[must_use]
    pub fn first_refusal(&self) -> Option<&str> {
        self.refusals.values().find_map(|count| count.examples.first()).map(String::as_str)
    }
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

/// Why a row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    code: &'static str,
    pub(crate) field: &'static str,
    pub(crate) what: String,
}

impl Fault {
    fn new(code: &'static str, field: &'static str, what: impl Into<String>) -> Self {
        Self { code, field, what: what.into() }
    }
}

/// A trace that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The format of the trace.
    pub format: Format,
    /// How its rows were used.
    pub account: Account,
    /// In the order of submits; of equal ones, in the file's order.
    pub jobs: Vec<TraceJob>,
    /// The clusters of a file of statistics; else none.
    pub statistics: Vec<Statistics>,
    /// How what there is was shared, of a site's own history; else nothing.
    pub shares: Shares,
}

enum Kind {
    Unknown,
    Philly(Header),
    Openb(Header),
    Acme(Header),
    Swf,
    History,
}

/// Reads a trace piece by piece.
pub struct Decoder {
    lines: Lines,
    kind: Kind,
    trace: Trace,
    latest: u64,
    /// Rows of pods that had not ended, by place in `trace.jobs`; they end with the trace.
    open: Vec<usize>,
    end: u64,
    error: Option<TraceError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder that tells the format by the first line.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lines: Lines::default(),
            kind: Kind::Unknown,
            trace: Trace {
                format: Format::Philly,
                account: Account::default(),
                jobs: Vec::new(),
                statistics: Vec::new(),
                shares: Shares::default(),
            },
            latest: 0,
            open: Vec::new(),
            end: 0,
            error: None,
        }
    }

    /// The next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(bytes, |line| self.line(&line));
        self.lines = lines;
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`TraceError`] where the text is no trace, or no row of it can be used.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(&line));
        if let Some(error) = self.error {
            return Err(error);
        }
        if matches!(self.kind, Kind::Unknown) {
            return Err(TraceError::Empty);
        }
        self.close_open();
        let Self { mut trace, .. } = self;
        let nothing = trace.jobs.is_empty() && trace.statistics.is_empty();
        if nothing && trace.account.rows == 0 {
            return Err(TraceError::NoRows(trace.format));
        }
        if nothing {
            let first = trace.account.first_refusal().unwrap_or("the end of the file").to_owned();
            return Err(TraceError::Nothing { rows: trace.account.rows, first });
        }
        trace.jobs.sort_by_key(|job| (job.submit, job.line));
        Ok(trace)
    }

    /// Pods that ran when the trace was taken are given its end as theirs.
    fn close_open(&mut self) {
        for at in std::mem::take(&mut self.open) {
            let job = &mut self.trace.jobs[at];
            job.run = self.end.saturating_sub(job.run).clamp(1, MAX_RUN);
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        if self.error.is_some() {
            return;
        }
        let number = line.number;
        if line.is_blank() {
            self.trace.account.blank += 1;
            return;
        }
        if line.text().is_ok_and(|text| text.trim_start().starts_with([';', '#'])) {
            self.comment(line);
            return;
        }
        if matches!(self.kind, Kind::Unknown) {
            match begin(line) {
                Ok((kind, format)) => {
                    self.trace.format = format;
                    let is_row = matches!(kind, Kind::Swf);
                    self.kind = kind;
                    if !is_row {
                        return;
                    }
                }
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
        self.trace.account.rows += 1;
        if self.trace.account.rows > MAX_ROWS {
            self.error = Some(TraceError::TooLong(MAX_ROWS));
            return;
        }
        if let Err(fault) = self.row(line) {
            self.trace.account.refuse(&fault, number);
        }
    }

    fn comment(&mut self, line: &Line<'_>) {
        self.trace.account.comments += 1;
        if matches!(self.kind, Kind::Unknown) && self.trace.account.notes.len() < 16 {
            let text: String = line.text().unwrap_or_default().trim().chars().take(120).collect();
            self.trace.account.notes.push(text);
        }
    }

    fn row(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let text = line.text()?;
        let before = self.trace.account.repairs.values().map(|count| count.rows).sum::<u64>();
        let account = &mut self.trace.account;
        let read = match &self.kind {
            Kind::Philly(header) => philly::read(&Fields::split(text, header)?, line.number, account)?,
            Kind::Openb(header) => openb::read(&Fields::split(text, header)?, line.number, account)?,
            Kind::Swf => swf::read(text, line.number, account)?,
            Kind::History => match history::read(text, line.number, &mut self.trace.shares)? {
                Some(read) => read,
                None => {
                    self.trace.account.rows -= 1;
                    return Ok(());
                }
            },
            Kind::Acme(header) => {
                let statistics = acme::read(&Fields::split(text, header)?)?;
                self.trace.statistics.push(statistics);
                self.trace.account.kept += 1;
                return Ok(());
            }
            Kind::Unknown => return Ok(()),
        };
        self.keep(read, before);
        Ok(())
    }

    fn keep(&mut self, read: Read, before: u64) {
        let Read { mut job, open, seen } = read;
        self.end = self.end.max(seen);
        let account = &mut self.trace.account;
        if tenant(&mut job.tenant) {
            account.repair("TenantName", job.line, "tenant", format_args!("made '{}'", job.tenant));
        }
        // A history is not in the order of submits, nor says that it is.
        if job.submit < self.latest && !matches!(self.kind, Kind::History) {
            account.repair("Unsorted", job.line, "submit", "earlier than a row before it; rows are sorted");
        }
        self.latest = self.latest.max(job.submit);
        account.kept += 1;
        let after = account.repairs.values().map(|count| count.rows).sum::<u64>();
        account.repaired += u64::from(after > before);
        if open {
            self.open.push(self.trace.jobs.len());
        }
        self.trace.jobs.push(job);
    }
}

/// One row that can be used.
struct Read {
    job: TraceJob,
    /// It had not ended: `job.run` is when it began.
    open: bool,
    /// The latest time that the row names.
    seen: u64,
}

impl Read {
    fn ended(job: TraceJob) -> Self {
        Self { job, open: false, seen: 0 }
    }
}

/// Makes a tenant's name of a text: lower case letters, digits and dashes. Whether it had to be changed.
fn tenant(name: &mut String) -> bool {
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

fn begin(line: &Line<'_>) -> Result<(Kind, Format), TraceError> {
    let found = || fields::shown(&String::from_utf8_lossy(line.bytes));
    let unknown = || TraceError::Unknown { line: line.number, found: found() };
    let text = line.text().map_err(|_| unknown())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(begun) = history::begins(text) {
        let wrong = |what| TraceError::History { line: line.number, what };
        return begun.map(|_| (Kind::History, Format::History)).map_err(wrong);
    }
    if swf::is_row(text) {
        return Ok((Kind::Swf, Format::Swf));
    }
    let header = Header::new(text, line.number)?;
    let make = |format, columns: &[&'static str]| {
        header.needs(line.number, format, columns)?;
        Ok(format)
    };
    let has = |name: &str| header.place(name).is_some();
    if has("creation_time") || has("num_gpu") || has("gpu_milli") {
        let format = make(Format::Openb, &openb::NEEDED)?;
        Ok((Kind::Openb(header), format))
    } else if has("avg_gpu_num") || has("job_num") {
        let format = make(Format::Acme, &acme::NEEDED)?;
        Ok((Kind::Acme(header), format))
    } else if has("timestamp") || has("duration") || has("num_gpus") {
        let format = make(Format::Philly, &philly::NEEDED)?;
        Ok((Kind::Philly(header), format))
    } else {
        Err(unknown())
    }
}

/// Reads a whole trace.
///
/// # Errors
/// [`TraceError`], as [`Decoder::finish`].
pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    decoder.finish()
}
