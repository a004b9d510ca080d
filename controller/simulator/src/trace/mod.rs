//! Traces of real clusters, read strictly: every row is kept, repaired with a counted reason, or refused with its line
//! and field. Bytes come in pieces of any size; nothing but the jobs and a bounded list of examples is remembered.

pub mod acme;
mod fields;
pub mod history;
mod lines;
mod openb;
mod philly;
pub(crate) mod row;
mod swf;
#[cfg(test)]
mod tests;

use lines::{Line, Lines};
use row::tenant;

use crate::trace::row::Read;

pub use acme::Statistics;
pub(crate) use fields::{Fields, Header, gpus as gpus_of, shown};
pub use history::Shares;
pub(crate) use row::Fault;
pub use row::{
    Account, Asks, Count, EXAMPLES, Format, MAX_GPUS, MAX_RUN, MAX_TIME, Own, TraceError, TraceJob,
};

/// Rows of a trace at most.
pub const MAX_ROWS: u64 = 20_000_000;

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
