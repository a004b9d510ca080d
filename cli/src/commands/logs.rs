//! What a job's ranks wrote.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1::{self, log_chunk::Stream};

use super::{
    array::{self, Named},
    wait,
    watch::Resumer,
};
use crate::{
    args::Logs,
    client::{Api, JobRef},
    error::Error,
    output::print_bytes,
};

/// A line is shown in parts beyond this.
const MAX_LINE: usize = 64 * 1024;

/// A rank that wrote more may have lost its oldest output, so that what is told again cannot be recognised.
const MAX_RECOGNISED: u64 = 4 << 20;

/// `logs JOB`.
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

async fn of_job(args: &Logs, job: v1::Job, api: &Api) -> Result<(), Error> {
    let wanted: BTreeSet<u32> = args.ranks.iter().flatten().copied().collect();
    let job_ref = JobRef::of(&job);
    let several = match wanted.len() {
        0 => world_size(&job) != 1,
        count => count != 1,
    };
    let request = v1::StreamLogsRequest {
        name: job_ref.name.clone(),
        tenant: job_ref.tenant.clone(),
        ranks: wanted.into_iter().collect(),
        follow: args.follow,
        tail_lines: args.tail.unwrap_or(0),
    };
    let doing = format!("read the logs of job `{job_ref}`");
    let mut lines = Lines::new(several);
    let mut told = Told::new(args.tail.is_none());
    let mut resumer = Resumer::new(0);
    loop {
        let lost = tokio::select! {
            ended = read(api, request.clone(), &mut lines, &mut told, &mut resumer) => ended?,
            _ = tokio::signal::ctrl_c() => {
                print_bytes(&lines.rest())?;
                return Err(Error::Interrupted);
            }
        };
        print_bytes(&lines.rest())?;
        if !args.follow {
            return lost.map_or(Ok(()), |status| Err(Error::rpc(doing, &status)));
        }
        if lost.is_none() && wait::ended(&api.get_job(&job_ref).await?) {
            return Ok(());
        }
        resumer.lost(&doing, lost).await?;
        if !told.again() {
            eprintln!("note: some lines may be told twice");
        }
    }
}

/// Prints what comes until the stream ends, or is lost for the reason given.
async fn read(
    api: &Api,
    request: v1::StreamLogsRequest,
    lines: &mut Lines,
    told: &mut Told,
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
                resumer.arrived(0);
                if let Some(chunk) = told.fresh(chunk) {
                    print_bytes(&lines.take(&chunk))?;
                }
            }
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        }
    }
}

/// How much of each rank's output was printed, so that a stream that begins anew is not printed anew.
struct Told {
    recognise: bool,
    printed: BTreeMap<(u32, i32), u64>,
    skip: BTreeMap<(u32, i32), u64>,
}

impl Told {
    /// `recognise`: streams begin at the beginning.
    fn new(recognise: bool) -> Self {
        Self { recognise, printed: BTreeMap::new(), skip: BTreeMap::new() }
    }

    /// A new stream follows; false if it cannot be told what of it is known already.
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
    pending: BTreeMap<(u32, i32), Vec<u8>>,
}

impl Lines {
    fn new(prefixed: bool) -> Self {
        Self { prefixed, pending: BTreeMap::new() }
    }

    fn prefix(&self, rank: u32) -> String {
        if self.prefixed { format!("[{rank}] ") } else { String::new() }
    }

    /// The lines that this chunk completes.
    fn take(&mut self, chunk: &v1::LogChunk) -> Vec<u8> {
        if !self.prefixed {
            return chunk.data.clone();
        }
        let prefix = self.prefix(chunk.rank);
        let pending = self.pending.entry((chunk.rank, chunk.stream)).or_default();
        pending.extend_from_slice(&chunk.data);
        let mut out = Vec::new();
        while let Some(end) = line_end(pending) {
            out.extend_from_slice(prefix.as_bytes());
            out.extend(pending.drain(..end));
            if out.last() != Some(&b'\n') {
                out.push(b'\n');
            }
        }
        out
    }

    /// What has no end yet.
    fn rest(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for ((rank, _), text) in std::mem::take(&mut self.pending) {
            if !text.is_empty() {
                out.extend_from_slice(self.prefix(rank).as_bytes());
                out.extend(text);
                out.push(b'\n');
            }
        }
        out
    }
}

fn line_end(text: &[u8]) -> Option<usize> {
    let newline = text.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    newline.or_else(|| (text.len() > MAX_LINE).then_some(MAX_LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(rank: u32, stream: Stream, text: &str) -> v1::LogChunk {
        v1::LogChunk { rank, stream: stream.into(), data: text.as_bytes().to_vec() }
    }

    #[test]
    fn lines_of_several_ranks_stay_whole() {
        let mut lines = Lines::new(true);
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
        let mut told = Told::new(true);
        let data =
            |told: &mut Told, text: &str| told.fresh(chunk(1, Stream::Stdout, text)).map(|chunk| chunk.data);
        assert_eq!(data(&mut told, "hel"), Some(b"hel".to_vec()));
        assert!(told.again());
        assert_eq!(data(&mut told, "he"), None);
        assert_eq!(data(&mut told, "llo"), Some(b"lo".to_vec()));
        assert!(told.again());
        assert_eq!(data(&mut told, "hello"), None);
        assert_eq!(data(&mut told, "!"), Some(b"!".to_vec()));
        assert!(!Told::new(false).again(), "the tail of a log begins anywhere");
    }

    #[test]
    fn one_rank_is_given_as_it_is() {
        let mut lines = Lines::new(false);
        assert_eq!(lines.take(&chunk(3, Stream::Stdout, "a\nb")), b"a\nb");
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut lines = Lines::new(true);
        let out = lines.take(&chunk(0, Stream::Stdout, &"x".repeat(MAX_LINE * 2 + 10)));
        assert_eq!(out.len(), 2 * (MAX_LINE + 5));
    }
}
