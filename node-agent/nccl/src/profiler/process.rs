//! The profiler of this process: its recorder, the thread that looks at rails meanwhile, and the file.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use node_agent_client::Client;

use super::picture::{Subject, draw};
use super::rails::Sample;
use super::recorder::{Beginning, Recorder, State};
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
    /// Communicators that are profiled, by number: NCCL's name of each, and the rank there.
    communicators: std::collections::BTreeMap<u64, (u64, i32)>,
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

/// A communicator is made, in which this process has a rank. Gives its number.
pub(crate) fn begin(communicator: u64, rank: i32, logger: Logger) -> Result<u64, NetError> {
    let client = lock().attached.as_ref().map(crate::attached::Attached::client);
    let mut profiler = profiler();
    if let Some(client) = client {
        let world = client.world();
        profiler.subject.get_or_insert_with(|| Subject {
            rank: client.rank(),
            node: world.node,
            draws_rails: world.local_rank == 0,
            trace: trace(),
        });
        if !profiler.looking {
            let spawned =
                std::thread::Builder::new().name("rail-nccl-prof".into()).spawn(move || watch(&client));
            let refused = |error| NetError::new(Code::System, format!("cannot start a thread: {error}"));
            // It ends with the last communicator.
            drop(spawned.map_err(refused)?);
            profiler.looking = true;
        }
    } else {
        logger.info("profiler: this process does not use NET/Rail, so nothing is known of rails");
    }
    profiler.next += 1;
    let number = profiler.next;
    profiler.communicators.insert(number, (communicator, rank));
    Ok(number)
}

/// Looks at the rails while there are communicators.
fn watch(client: &Arc<Client>) {
    loop {
        let counters = client.counters();
        let mut held = profiler();
        // The engine is gone, and so is the job.
        let Ok((rails, _)) = counters else {
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

/// Something begins in a communicator.
pub(crate) fn start(number: u64, beginning: Beginning) -> Option<u64> {
    let mut profiler = profiler();
    let who = profiler.communicators.get(&number).copied()?;
    profiler.recorder.start(who, beginning, now())
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
        profiler.communicators.remove(&number);
        if !profiler.communicators.is_empty() {
            return Ok(None);
        }
        ENDED.notify_all();
        let (spans, lost) = profiler.recorder.take();
        let samples: Vec<Sample> = std::mem::take(&mut profiler.samples).into();
        let subject = profiler.subject.clone().unwrap_or_else(of_environment);
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

/// What a rank's environment says of it, where it does not use the engine.
fn of_environment() -> Subject {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    Subject { rank: number("RANK"), node: number("NODE_RANK"), draws_rails: false, trace: trace() }
}

/// The job's own trace.
fn trace() -> String {
    std::env::var("TRACEPARENT").unwrap_or_default()
}

/// One file for each rank, and for each time that its last communicator is gone.
fn path(subject: &Subject, before: u32) -> PathBuf {
    let folder = std::env::var_os(FOLDER).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let again = if before == 0 { String::new() } else { format!(".{before}") };
    folder.join(format!("nccl-rank{}{again}.trace.json", subject.rank))
}
