//! One task for each supervisor: starts it if need be, stays connected to it, and passes on to the agent what it reports.

use std::{
    process::Stdio,
    sync::Arc,
    time::{Duration, SystemTime},
};

use node_agent_attempt::{
    layout::JobDir,
    saved::{FirstCollective, SavedOrder, SavedWords},
    supervisor_config::{self, SupervisorConfig, plain_environment},
};
use node_agent_core::{Event, Key, Order, Report};
use node_agent_ipc::ShortPath;
use node_agent_os::files::{self, Durability};
use proto_model::{Assignment, JobId};
use proto_rpc::trace;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
    sync::mpsc,
};

use crate::agent::{recover, setup::Setup};

/// Orders that wait for a supervisor; it has one at a time, more only while it starts.
pub const ORDERS: usize = 16;
/// Between attempts to reach a supervisor's socket.
const AGAIN: Duration = Duration::from_millis(5);
/// A supervisor that was started must hold its lock, and listen, after this long.
const START_LIMIT: Duration = Duration::from_secs(10);
/// No snapshot is longer.
const LINE_MAX: u64 = 2 << 20;

/// Writes the files and starts the process; the key and the values of variables go through its standard input.
///
/// # Errors
/// A file cannot be written, or the process cannot be started.
pub async fn spawn(
    setup: &Setup,
    assignment: &Assignment,
    supervisor_config: &SupervisorConfig,
) -> Result<Child, String> {
    use proto_model::DesiredState;
    let dir = setup.data.job(Key::of(assignment));
    let (key, env) = match &assignment.desired {
        DesiredState::Prepared { key, env, .. } => (key, Arc::clone(env)),
        DesiredState::Running { key, .. } => (key, Arc::default()),
        DesiredState::Stopped { .. } => return Err("desired state to stop starts nothing".to_owned()),
    };
    supervisor_config::write(&dir, assignment, supervisor_config).map_err(|error| error.to_string())?;
    let log = files::create_private(&dir.supervisor_log()).map_err(|error| error.to_string())?;
    let mut command = Command::new(&setup.programs.agent);
    command.arg("supervise").arg("--dir").arg(dir.path());
    command.env_clear().envs(plain_environment());
    for name in ["RAIL_LOG", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // `/`: a job must not hold the agent's working directory.
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", setup.programs.agent.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        let words = supervisor_config::whispered(key, &env);
        let reported = tokio::time::timeout(START_LIMIT, stdin.write_all(words.as_bytes())).await;
        reported
            .map_err(|_| "the supervisor does not read its key".to_owned())?
            .map_err(|error| format!("the supervisor took no key: {error}"))?;
    }
    Ok(child)
}

/// The job that an attempt is of, for the trace.
#[derive(Debug, Clone)]
pub struct About {
    /// Tenant and name of the job.
    pub id: JobId,
    /// W3C trace context of the submit; may be empty.
    pub trace_parent: String,
}

/// The last span of the trace that began with the submit; once for each attempt and server.
fn show_first_collective(setup: &Setup, dir: &JobDir, about: &About, first: Option<&FirstCollective>) {
    let Some(first) = first else { return };
    if about.trace_parent.is_empty() || dir.traced().exists() {
        return;
    }
    // Not written: it may be shown twice, which is better than not at all.
    let _ = files::write_atomic(&dir.traced(), b"", Durability::Process);
    let at = |ns: u64| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    let fields = [
        ("tenant", about.id.tenant.to_string()),
        ("job", about.id.name.to_string()),
        ("node", setup.node.to_string()),
    ];
    let name = format!("first {}", first.operation);
    let (start, end) = (at(first.started_unix_ns), at(first.ended_unix_ns));
    trace::record(name, &about.trace_parent, start, end, &fields);
}

/// Watches one supervisor until its attempt has ended or it is lost; reports in order.
pub async fn watch(
    setup: Arc<Setup>,
    key: Key,
    about: About,
    mut child: Option<Child>,
    mut orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<Event>,
) {
    let dir = setup.data.job(key);
    let notify = |report: Report| events.send(Event::Supervisor { key, report: Box::new(report) });
    let show = |first: Option<&FirstCollective>| show_first_collective(&setup, &dir, &about, first);
    let started = tokio::time::Instant::now();
    loop {
        if let Ok(stream) = connect(&dir).await {
            talk(stream, &mut orders, &notify, &show).await;
        }
        if recover::has_ended(&dir) {
            if let Some(saved) = recover::saved(&dir) {
                show(saved.first_collective.as_ref());
                let _ = notify(Report::State(saved.snapshot)).await;
            }
            break;
        }
        let starting = child.is_some() && recover::state(&dir).is_none();
        let gone = match child.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => starting && started.elapsed() > START_LIMIT,
            // Ended, or not our child: then the lock shows it.
            _ => !files::is_locked(&dir.lock()),
        };
        if gone && recover::has_ended(&dir) {
            continue;
        }
        if gone {
            if let Some(child) = child.as_mut() {
                // It has not begun, or it is dead already: the supervisor itself holds nothing to be kept.
                let _ = child.start_kill();
            }
            let report = if starting { Report::SpawnFailed { message: why(&dir) } } else { Report::Lost };
            let _ = notify(report).await;
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
    if let Some(mut child) = child {
        let _ = child.wait().await;
    }
}

fn why(dir: &JobDir) -> String {
    let words = files::read(&dir.supervisor_log()).ok().flatten().unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    let last = words.lines().last().unwrap_or("it says nothing").to_owned();
    format!("the job's supervisor did not start: {last}")
}

async fn connect(dir: &JobDir) -> std::io::Result<UnixStream> {
    let socket = dir.socket();
    let short = ShortPath::of(&socket)?;
    UnixStream::connect(short.as_ref()).await
}

/// Until the connection ends.
async fn talk<F, T, S>(stream: UnixStream, orders: &mut mpsc::Receiver<Order>, notify: &F, show: &S)
where
    F: Fn(Report) -> T,
    T: Future<Output = Result<(), mpsc::error::SendError<Event>>>,
    S: Fn(Option<&FirstCollective>),
{
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read.take(u64::MAX));
    let mut line = Vec::new();
    loop {
        tokio::select! {
            length = read.read_until(b'\n', &mut line) => {
                // A line that was cut by the end of the supervisor is not reported; its durable state is.
                if !matches!(length, Ok(1..)) || line.last() != Some(&b'\n') {
                    return;
                }
                match serde_json::from_slice::<SavedWords>(&line) {
                    Ok(words) => {
                        show(words.first_collective.as_ref());
                        if notify(Report::State(words.snapshot.into())).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => tracing::error!(%error, "a supervisor's words are not understood"),
                }
                line.clear();
            }
            order = orders.recv() => {
                let Some(order) = order else { return };
                let mut text = serde_json::to_vec(&SavedOrder::from(&order)).unwrap_or_default();
                text.push(b'\n');
                if write.write_all(&text).await.is_err() {
                    return;
                }
            }
        }
        if line.len() as u64 > LINE_MAX {
            return;
        }
    }
}
