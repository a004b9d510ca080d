//! What a job's ranks wrote.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1::{self, log_chunk::Stream};

use super::{
    array::{self, Named},
    progress,
    watch::Resumer,
};
use crate::{
    args::{Attach, Logs},
    client::{Api, JobRef},
    error::Error,
    output::{now, print_bytes},
    render,
};

/// A line is shown in parts beyond this.
const MAX_LINE: usize = 64 * 1024;

/// A rank that wrote more may have lost its oldest output, so that what is sent again cannot be recognised.
const MAX_RECOGNISED: u64 = 4 << 20;

/// `logs JOB`: what the ranks of a job, or of every element of an array, wrote.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Usage`] if an array is to be followed; [`Error::Interrupted`] if
/// following is ended.
pub async fn run(args: &Logs, api: &Api) -> Result<(), Error> {
    let array = match array::find(&args.job, api).await? {
        Named::Job(job) => return of_job(args, *job, api).await,
        Named::Array(array) => array,
    };
    if args.follow {
        // Which one is to be followed?
        return array::one(&args.job, api).await.map(drop);
    }
    let mut first = None;
    for job in array.jobs {
        if let Some(place) = array::place(&job) {
            eprintln!("==> {}[{}] <==", place.array, place.index);
        }
        // All are tried, the first error is given.
        match of_job(args, job, api).await {
            Ok(()) => {}
            Err(error @ (Error::Interrupted | Error::OutputClosed | Error::Output(_))) => return Err(error),
            Err(error) => {
                if let Some(earlier) = first.replace(error) {
                    earlier.lines().iter().for_each(|line| eprintln!("{line}"));
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// `attach JOB`: follows what the ranks of a running job write.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Usage`] if an array is named without an element;
/// [`Error::Interrupted`] if it is ended before the job is.
pub async fn attach(args: &Attach, api: &Api) -> Result<(), Error> {
    let job = array::one(&args.job, api).await?;
    let args = Logs {
        job: args.job.clone(),
        follow: true,
        ranks: args.ranks.clone(),
        tail: Some(args.tail),
        attempt: None,
        previous: false,
        since: None,
        timestamps: false,
        stdout: false,
        stderr: false,
    };
    of_job(&args, job, api).await
}

async fn of_job(args: &Logs, job: v1::Job, api: &Api) -> Result<(), Error> {
    let wanted: BTreeSet<u32> = args.ranks.iter().flatten().copied().collect();
    let job_ref = JobRef::of(&job);
    let several = match wanted.len() {
        0 => world_size(&job) != 1,
        count => count != 1,
    };
    let attempt = match args.previous {
        true => previous(&job)?,
        false => args.attempt.unwrap_or(0),
    };
    let request = v1::StreamLogsRequest {
        name: job_ref.name.clone(),
        tenant: job_ref.tenant.clone(),
        ranks: wanted.into_iter().collect(),
        follow: args.follow,
        tail_lines: args.tail.unwrap_or(0),
        attempt,
        since: args.since.map(|since| since.time(now())),
        timestamps: args.timestamps,
    };
    let doing = format!("read the logs of job `{job_ref}`");
    let mut lines = Lines::new(several, args.timestamps);
    lines.only = match (args.stdout, args.stderr) {
        (true, _) => Some(Stream::Stdout),
        (_, true) => Some(Stream::Stderr),
        _ => None,
    };
    let mut reported = PrintedOutput::new(args.tail.is_none());
    let mut resumer = Resumer::new(0);
    loop {
        let lost = tokio::select! {
            ended = read(api, request.clone(), &mut lines, &mut reported, &mut resumer) => ended?,
            _ = tokio::signal::ctrl_c() => {
                print_bytes(&lines.rest())?;
                return Err(Error::Interrupted);
            }
        };
        print_bytes(&lines.rest())?;
        if !args.follow {
            return lost.map_or(Ok(()), |status| Err(Error::rpc(doing, &status)));
        }
        // One attempt is followed to its own end.
        if lost.is_none() && (attempt > 0 || progress::ended(&api.get_job(&job_ref).await?)) {
            return Ok(());
        }
        resumer.lost(&doing, lost).await?;
        if !reported.again() {
            eprintln!("note: some lines may be told twice");
        }
    }
}

/// The attempt before the present one.
fn previous(job: &v1::Job) -> Result<u32, Error> {
    let status = job.status.clone().unwrap_or_default();
    let last = status.past_attempts.last().map(|past| past.attempt);
    last.ok_or_else(|| {
        let job = JobRef::of(job);
        Error::NotFound(format!(
            "job {job} has no attempt before the present one, which is attempt {}",
            status.attempt
        ))
    })
}

/// Ranks whose last lines are shown of a job that has failed.
const FAILED_RANKS: usize = 3;

/// The ranks that failed first, in the order in which they did.
fn failed_first(exits: &[v1::RankExit]) -> Vec<u32> {
    let mut failed: Vec<&v1::RankExit> =
        exits.iter().filter(|exit| exit.code != 0 || exit.signal != 0).collect();
    failed.sort_by_key(|exit| (exit.time.map(|time| (time.seconds, time.nanos)), exit.rank));
    failed.iter().take(FAILED_RANKS).map(|exit| exit.rank).collect()
}

/// The last lines of the ranks that failed first; nothing where none did, or where they are not to be had.
pub async fn last_words(job: &v1::Job, tail: u32, api: &Api) -> String {
    let exits = job.status.as_ref().map_or(&[][..], |status| &status.exits);
    let ranks = failed_first(exits);
    let mut out = String::new();
    if tail == 0 || ranks.is_empty() {
        return out;
    }
    let JobRef { tenant, name } = JobRef::of(job);
    let request = v1::StreamLogsRequest {
        name,
        tenant,
        ranks: ranks.clone(),
        tail_lines: tail,
        ..v1::StreamLogsRequest::default()
    };
    let Ok(answer) = api.jobs().stream_logs(request).await else { return out };
    let mut stream = answer.into_inner();
    let mut texts: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    while let Ok(Some(chunk)) = stream.message().await {
        if chunk.stream() != Stream::Note {
            let text = texts.entry(chunk.rank).or_default();
            text.extend(chunk.data);
            // A line may be as long as a log.
            text.drain(..text.len().saturating_sub(MAX_LINE));
        }
    }
    for rank in ranks {
        let Some(text) = texts.get(&rank) else { continue };
        out.push_str(&format!("last lines of rank {rank}:\n"));
        for line in String::from_utf8_lossy(text).lines() {
            let line: String =
                line.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

/// Prints what comes until the stream ends, or is lost for the reason given.
async fn read(
    api: &Api,
    request: v1::StreamLogsRequest,
    lines: &mut Lines,
    reported: &mut PrintedOutput,
    resumer: &mut Resumer,
) -> Result<Option<tonic::Status>, Error> {
    let mut stream = match api.streaming().jobs().stream_logs(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Ok(Some(status)),
    };
    loop {
        match stream.message().await {
            Ok(Some(chunk)) if chunk.stream() == Stream::Note => {
                let text = String::from_utf8_lossy(&chunk.data).trim_end().to_owned();
                eprintln!("{}note: {text}", lines.prefix(chunk.rank));
            }
            Ok(Some(chunk)) => {
                resumer.works();
                if let Some(chunk) = reported.fresh(chunk) {
                    print_bytes(&lines.take(&chunk))?;
                }
            }
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        }
    }
}

/// How much of each rank's output was printed, so that a stream that begins anew is not printed anew.
struct PrintedOutput {
    recognise: bool,
    printed: BTreeMap<(u32, i32), u64>,
    skip: BTreeMap<(u32, i32), u64>,
}

impl PrintedOutput {
    /// `recognise`: streams begin at the beginning.
    fn new(recognise: bool) -> Self {
        Self { recognise, printed: BTreeMap::new(), skip: BTreeMap::new() }
    }

    /// A new stream follows; false if what of it is known already cannot be recognised.
    fn again(&mut self) -> bool {
        let known = self.recognise && self.printed.values().all(|bytes| *bytes <= MAX_RECOGNISED);
        self.skip = if known { self.printed.clone() } else { BTreeMap::new() };
        known
    }

    /// The part of a chunk that was not printed yet.
    fn fresh(&mut self, mut chunk: v1::LogChunk) -> Option<v1::LogChunk> {
        let key = (chunk.rank, chunk.stream);
        let skip = self.skip.entry(key).or_default();
        let known = usize::try_from(*skip).unwrap_or(usize::MAX).min(chunk.data.len());
        *skip -= known as u64;
        chunk.data.drain(..known);
        *self.printed.entry(key).or_default() += chunk.data.len() as u64;
        (!chunk.data.is_empty()).then_some(chunk)
    }
}

/// How many ranks the job has or will have.
fn world_size(job: &v1::Job) -> u64 {
    let status = job.status.clone().unwrap_or_default();
    if let Some(place) = status.placement.filter(|place| !place.ranks.is_empty()) {
        return place.ranks.len() as u64;
    }
    job.spec.as_ref().map_or(0, v1::JobSpec::total_ranks)
}

/// Chunks end anywhere; lines of several ranks must not be mixed.
struct Lines {
    prefixed: bool,
    timed: bool,
    /// What is printed, where not both are.
    only: Option<Stream>,
    pending: BTreeMap<(u32, i32), Pending>,
}

/// A line that has no end yet, and when it began.
#[derive(Default)]
struct Pending {
    text: Vec<u8>,
    time: Option<prost_types::Timestamp>,
}

impl Lines {
    fn new(prefixed: bool, timed: bool) -> Self {
        Self { prefixed, timed, only: None, pending: BTreeMap::new() }
    }

    fn prefix(&self, rank: u32) -> String {
        if self.prefixed { format!("[{rank}] ") } else { String::new() }
    }

    /// What a line begins with.
    fn head(&self, rank: u32, time: Option<prost_types::Timestamp>) -> String {
        let stamp = match (self.timed, time) {
            (false, _) => String::new(),
            (true, Some(time)) => format!("{} ", render::millis(&time)),
            // An agent of an earlier release keeps none.
            (true, None) => "- ".to_owned(),
        };
        stamp + &self.prefix(rank)
    }

    /// The lines that this chunk completes.
    fn take(&mut self, chunk: &v1::LogChunk) -> Vec<u8> {
        if self.only.is_some_and(|only| only != chunk.stream()) {
            return Vec::new();
        }
        if !self.prefixed && !self.timed {
            return chunk.data.clone();
        }
        let key = (chunk.rank, chunk.stream);
        let mut pending = self.pending.remove(&key).unwrap_or_default();
        let mut out = Vec::new();
        let mut rest = chunk.data.as_slice();
        while !rest.is_empty() {
            if pending.text.is_empty() {
                pending.time = chunk.time;
            }
            let room = MAX_LINE - pending.text.len().min(MAX_LINE);
            let newline = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let (taken, whole) = match newline {
                Some(end) if end <= room + 1 => (end, true),
                _ if rest.len() > room => (room, true),
                _ => (rest.len(), false),
            };
            pending.text.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if whole {
                out.extend_from_slice(self.head(chunk.rank, pending.time).as_bytes());
                out.append(&mut pending.text);
                if out.last() != Some(&b'\n') {
                    out.push(b'\n');
                }
            }
        }
        self.pending.insert(key, pending);
        out
    }

    /// What has no end yet.
    fn rest(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for ((rank, _), pending) in std::mem::take(&mut self.pending) {
            if !pending.text.is_empty() {
                out.extend_from_slice(self.head(rank, pending.time).as_bytes());
                out.extend(pending.text);
                out.push(b'\n');
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(rank: u32, stream: Stream, text: &str) -> v1::LogChunk {
        v1::LogChunk { rank, stream: stream.into(), data: text.as_bytes().to_vec(), time: None }
    }

    #[test]
    fn lines_of_several_ranks_stay_whole() {
        let mut lines = Lines::new(true, false);
        let mut text = String::new();
        let chunks = [
            chunk(0, Stream::Stdout, "he"),
            chunk(1, Stream::Stdout, "you\nthe"),
            chunk(0, Stream::Stderr, "warn\n"),
            chunk(0, Stream::Stdout, "llo\n\n"),
        ];
        for chunk in chunks {
            text.push_str(&String::from_utf8(lines.take(&chunk)).unwrap());
        }
        text.push_str(&String::from_utf8(lines.rest()).unwrap());
        assert_eq!(text, "[1] you\n[0] warn\n[0] hello\n[0] \n[1] the\n");
    }

    #[test]
    fn a_stream_that_begins_anew_is_not_printed_anew() {
        let mut reported = PrintedOutput::new(true);
        let data = |reported: &mut PrintedOutput, text: &str| {
            reported.fresh(chunk(1, Stream::Stdout, text)).map(|chunk| chunk.data)
        };
        assert_eq!(data(&mut reported, "hel"), Some(b"hel".to_vec()));
        assert!(reported.again());
        assert_eq!(data(&mut reported, "he"), None);
        assert_eq!(data(&mut reported, "llo"), Some(b"lo".to_vec()));
        assert!(reported.again());
        assert_eq!(data(&mut reported, "hello"), None);
        assert_eq!(data(&mut reported, "!"), Some(b"!".to_vec()));
        assert!(!PrintedOutput::new(false).again(), "the tail of a log begins anywhere");
    }

    #[test]
    fn lines_begin_with_the_time_when_they_began() {
        let mut lines = Lines::new(true, true);
        let at = |millis: i32, text: &str| v1::LogChunk {
            time: Some(prost_types::Timestamp { seconds: 1_000_000_000, nanos: millis * 1_000_000 }),
            ..chunk(0, Stream::Stdout, text)
        };
        let mut out = lines.take(&at(5, "he"));
        out.extend(lines.take(&at(700, "llo\nyou\nth")));
        out.extend(lines.take(&chunk(0, Stream::Stderr, "old\n")));
        out.extend(lines.rest());
        let expected = "2001-09-09T01:46:40.005Z [0] hello\n2001-09-09T01:46:40.700Z [0] you\n- [0] old\n\
                        2001-09-09T01:46:40.700Z [0] th\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_ranks_that_failed_first_are_told_of() {
        let exit = |rank, code, signal, seconds| v1::RankExit {
            rank,
            code,
            signal,
            time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            ..v1::RankExit::default()
        };
        let exits =
            [exit(0, 0, 0, 1), exit(1, 0, 15, 9), exit(2, 1, 0, 4), exit(3, 2, 0, 4), exit(4, 1, 0, 8)];
        assert_eq!(failed_first(&exits), [2, 3, 4]);
        assert!(failed_first(&exits[..1]).is_empty());
    }

    #[test]
    fn one_rank_is_given_as_it_is() {
        let mut lines = Lines::new(false, false);
        assert_eq!(lines.take(&chunk(3, Stream::Stdout, "a\nb")), b"a\nb");
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut lines = Lines::new(true, false);
        let out = lines.take(&chunk(0, Stream::Stdout, &"x".repeat(MAX_LINE * 2 + 10)));
        assert_eq!(out.len(), 2 * (MAX_LINE + 5));
    }
}
