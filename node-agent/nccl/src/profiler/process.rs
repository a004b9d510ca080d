//! The profiler of this process: its recorder, the thread that looks at rails meanwhile, and the file.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use node_agent_client::Client;

use super::event::{Beginning, Member, Progress, State};
use super::picture::{Subject, draw};
use super::rails::Sample;
use super::recorder::Recorder;
use crate::abi::Logger;
use crate::error::{Code, NetError};
use crate::state::lock;

/// Spans that a process remembers: the last minutes of most programs, and at most some ten megabytes.
const SPANS: usize = 1 << 16;
/// Time between two looks at the rails, and looks that are remembered.
const LOOKS: Duration = Duration::from_millis(10);
const SAMPLES: usize = 1 << 14;
/// By which a job asks for it, and where the files go.
const ASKED: &str = "NCCL_PROFILER_PLUGIN";
const FOLDER: &str = "RAIL_NCCL_TRACE";

#[derive(Debug)]
struct Profiler {
    recorder: Recorder,
    samples: std::collections::VecDeque<Sample>,
    /// Communicators that are profiled, by number: NCCL's name of each, and the rank there, as soon as NCCL has said it.
    communicators: std::collections::BTreeMap<u64, Option<Member>>,
    next: u64,
    /// Files that this process has written.
    files: u32,
    /// The thread that looks at rails runs.
    looking: bool,
    subject: Option<Subject>,
}

static PROFILER: Mutex<Profiler> = Mutex::new(Profiler {
    recorder: Recorder::new(SPANS),
    samples: std::collections::VecDeque::new(),
    communicators: std::collections::BTreeMap::new(),
    next: 0,
    files: 0,
    looking: false,
    subject: None,
});
/// The last communicator is gone.
static ENDED: Condvar = Condvar::new();

fn profiler() -> MutexGuard<'static, Profiler> {
    PROFILER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the job asks for it: NCCL loads the profiler of its network plugin by itself, and then nothing is to be recorded.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(ASKED).is_some_and(|value| !value.is_empty())
}

/// Wall time in nanoseconds: the only clock that servers share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A communicator is made, in which this process has a rank: `member`, where NCCL says so already. Gives its number.
pub(crate) fn begin(member: Option<Member>, logger: Option<Logger>) -> Result<u64, NetError> {
    let client = attached();
    let mut profiler = profiler();
    if let Some(client) = client {
        let world = client.world();
        profiler.subject.get_or_insert_with(|| Subject {
            rank: client.rank(),
            node: world.node,
            draws_rails: world.local_rank == 0,
            trace: std::env::var("TRACEPARENT").unwrap_or_default(),
        });
        if !profiler.looking {
            let spawned = std::thread::Builder::new().name("rail-nccl-prof".into()).spawn(watch);
            let refused = |error| NetError::new(Code::System, format!("cannot start a thread: {error}"));
            // It ends with the last communicator.
            drop(spawned.map_err(refused)?);
            profiler.looking = true;
        }
    } else {
        let text = "profiler: this process does not use NET/Rail, so nothing is known of rails";
        logger.map_or_else(|| crate::process::inform(text), |logger| logger.info(text));
    }
    profiler.next += 1;
    let number = profiler.next;
    profiler.communicators.insert(number, member);
    Ok(number)
}

/// The attached rank, if there is one.
fn attached() -> Option<Arc<Client>> {
    lock().attached.as_ref().map(crate::attached::Attached::client)
}

/// Looks at the rails while there are communicators.
fn watch() {
    loop {
        // Anew each time: a rank that has left and attached again has another one.
        let counters = attached().map(|client| client.counters());
        let mut held = profiler();
        // The rank has left, or the engine is gone, and so is the job.
        let Some(Ok((rails, _))) = counters else {
            held.looking = false;
            return;
        };
        if held.samples.len() >= SAMPLES {
            held.samples.pop_front();
        }
        held.samples.push_back(Sample { at: now(), rails });
        if !held.communicators.is_empty() {
            held = ENDED.wait_timeout(held, LOOKS).unwrap_or_else(PoisonError::into_inner).0;
        }
        if held.communicators.is_empty() {
            held.looking = false;
            return;
        }
    }
}

/// Something begins in a communicator. What begins before NCCL has said which one it is is not recorded: it does with the first call.
pub(crate) fn start(number: u64, beginning: Beginning, member: Option<Member>) -> Option<u64> {
    let mut profiler = profiler();
    let known = profiler.communicators.get_mut(&number)?;
    *known = known.or(member);
    let who = (*known)?;
    profiler.recorder.start(who, beginning, now())
}

/// One of the proxy's operations is so far: `steps` of it, with `bytes` in all.
pub(crate) fn progress(event: u64, progress: Progress, steps: i32, bytes: u64) {
    profiler().recorder.progress(event, progress, (steps, bytes), now());
}

/// A message is in another state.
pub(crate) fn record(event: u64, state: State, bytes: u64) {
    profiler().recorder.state(event, state, bytes, now());
}

/// Something ends.
pub(crate) fn stop(event: u64) {
    profiler().recorder.stop(event, now());
}

/// A communicator is gone. With the last one what was recorded is written; gives the file.
pub(crate) fn end(number: u64) -> Result<Option<PathBuf>, NetError> {
    let (spans, samples, lost, subject, path) = {
        let mut profiler = profiler();
        if let Some(who) = profiler.communicators.remove(&number).flatten() {
            profiler.recorder.abandon(who);
        }
        if !profiler.communicators.is_empty() {
            return Ok(None);
        }
        ENDED.notify_all();
        let (spans, lost) = profiler.recorder.take();
        let samples: Vec<Sample> = std::mem::take(&mut profiler.samples).into();
        let subject =
            profiler.subject.clone().unwrap_or_else(|| unattached(&|name| std::env::var(name).ok()));
        let path = path(&subject, profiler.files);
        profiler.files += 1;
        (spans, samples, lost, subject, path)
    };
    let written = std::fs::write(&path, draw(&subject, &spans, &samples, lost));
    let cannot =
        |error| NetError::new(Code::System, format!("cannot write {} ({FOLDER}): {error}", path.display()));
    written.map_err(cannot)?;
    Ok(Some(path))
}

/// Whose picture it is where this process does not use the network plugin: as the job's environment says.
fn unattached(lookup: &dyn Fn(&str) -> Option<String>) -> Subject {
    let number = |name| lookup(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let trace = lookup("TRACEPARENT").unwrap_or_default();
    Subject { rank: number("RANK"), node: number("NODE_RANK"), draws_rails: false, trace }
}

/// One file for each rank, and for each time that its last communicator is gone.
fn path(subject: &Subject, before: u32) -> PathBuf {
    let folder = std::env::var_os(FOLDER).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let again = if before == 0 { String::new() } else { format!(".{before}") };
    folder.join(format!("nccl-rank{}{again}.trace.json", subject.rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_its_file_without_the_network_plugin() {
        let lookup = |name: &str| match name {
            "RANK" => Some("5".to_owned()),
            "NODE_RANK" => Some("2".to_owned()),
            _ => None,
        };
        let subject = unattached(&lookup);
        assert_eq!((subject.rank, subject.node, subject.draws_rails), (5, 2, false));
        assert!(path(&subject, 0).ends_with("nccl-rank5.trace.json"));
        assert_eq!(unattached(&|_| None), Subject::default());
    }
}
