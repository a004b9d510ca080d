//! The supervisor's loop: waits for what happens, lets the core decide, does what it says. One thread, because the
//! ranks are tied to the thread that started them (PR_SET_PDEATHSIG), and because a small process has small needs.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant, SystemTime},
};

use node_agent_attempt::{
    layout::JobDir,
    saved::{FirstCollective, SavedResult, SavedWords},
    state_files::SupervisorState,
    supervisor_config::Task,
};
use node_agent_core::supervisor::{Action, EngineEnd, Event, State, step};
use node_agent_host::sysfs::Tree;
use node_agent_os::{
    files::{self, Durability},
    process::{self, Identity},
};
use proto_model::{
    Certify, Measured, NodeEndpoints, NodeName, Observed, RailBytes, RankExit, Timestamp, Work,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, wait},
};

use crate::{
    control::Reply,
    engine::{self, Engine},
    environment,
    link::Link,
    ports::{Ports, kernel_statistics},
    rails::{self, Rails},
    ranks::Ranks,
    steps::{Steps, World},
};

/// While the engine comes up, it is asked this often.
const COMING_UP: Duration = Duration::from_millis(4);
/// While processes are ending, they are looked for this often.
const ENDING: Duration = Duration::from_millis(20);
/// Else: orphans are reaped and deadlines are seen this often.
const QUIET: Duration = Duration::from_millis(250);
/// The engine is asked for its first collective at least this often, until there is one.
const FIRST_CHECK_MAX: Duration = Duration::from_secs(60);

/// Between two looks at how much memory ranks have.
const MEMORY_EVERY: Duration = Duration::from_secs(5);

/// The answers to questions to the engine that take long.
type Answers = (Sender<Event>, Receiver<Event>);

/// What ends a sleep.
struct Wakers {
    /// Ends of the engine, the ranks and the steps' processes, by pidfd: readable when they have ended.
    ends: Vec<OwnedFd>,
    answers: Answers,
    wake: (OwnedFd, OwnedFd),
}

/// What the durable state does not say yet.
#[derive(Debug, Default)]
struct Unsaved {
    dirty: bool,
    exits_saved: usize,
}

/// Does what the supervisor's core decides: processes, sockets, files and timers of one attempt.
pub struct Shell {
    dir: JobDir,
    task: Task,
    state: State,
    queue: VecDeque<Event>,
    link: Link,
    engine: Option<Engine>,
    ranks: Ranks,
    steps: Steps,
    rails: Rails,
    wakers: Wakers,
    unsaved: Unsaved,
    first: FirstLook,
    memory_checked: Option<Instant>,
    begun: (Instant, Timestamp),
    exit: bool,
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

impl Shell {
    /// Listens for the agent; nothing is started yet.
    ///
    /// # Errors
    /// The socket for the agent cannot be made.
    pub fn new(dir: JobDir, task: Task) -> io::Result<Self> {
        let link = Link::listen(&dir.socket())?;
        let steps = Steps::listen(&dir.steps())?;
        let ranks = Ranks::new(&dir, &task);
        let drained = task.supervisor_config.drained.iter().copied().collect();
        let state = State::new(task.ranks.iter().map(|rank| rank.rank)).with_drained(drained);
        let wake =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
        let mut shell = Self {
            dir,
            task,
            state,
            queue: VecDeque::new(),
            link,
            engine: None,
            ranks,
            steps,
            rails: Rails::default(),
            wakers: Wakers { ends: Vec::new(), answers: channel(), wake },
            unsaved: Unsaved::default(),
            first: FirstLook::default(),
            memory_checked: None,
            begun: (Instant::now(), wall()),
            exit: false,
        };
        // Written before anything is started: from here on this attempt counts as run.
        shell.save(Durability::Process)?;
        Ok(shell)
    }

    /// Until nothing of the attempt is left.
    pub fn run(mut self) {
        self.queue.push_back(Event::Begin);
        loop {
            while let Some(event) = self.queue.pop_front() {
                let now = self.now();
                for action in step(&mut self.state, event, now) {
                    self.act(action);
                }
            }
            if self.exit {
                self.ranks.leave_room();
            }
            self.publish();
            if self.exit {
                self.ranks.clear();
                self.steps.finish();
                return;
            }
            self.wait();
            self.gather();
        }
    }

    /// Wall time at the begin and monotonic time since, so that a clock that jumps moves no deadline.
    fn now(&self) -> Timestamp {
        self.begun.1.plus(self.begun.0.elapsed())
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::SpawnEngine => self.spawn_engine(),
            Action::ConnectEngine(peers) => self.connect_engine(&peers),
            Action::CertifyEngine(peers, wanted) => self.certify_engine(&peers, wanted),
            Action::SpawnRanks => self.spawn_ranks(),
            Action::SignalTree(hardness) => self.ranks.signal(hardness, self.engine_pid()),
            Action::DrainEngine(wanted) => {
                let done = rails::drain(&self.dir, &self.task, &wanted);
                if let Err(why) = &done {
                    eprintln!("rails cannot be drained or used again yet: {why}");
                }
                self.queue.push_back(done.map_or(Event::RailsSilent, |()| Event::EngineDrained(wanted)));
            }
            Action::ReadRails => {
                let seen = self.rails.read(&self.dir, &self.task, wall());
                let rails = |(reports, choices)| Event::Rails { reports, choices };
                self.queue.push_back(seen.map_or(Event::RailsSilent, rails));
            }
            Action::ReadStats => {
                let bytes = |rail: &node_agent_attempt::saved::SavedRail| RailBytes {
                    rail: rail.rail,
                    tx_bytes: rail.tx_bytes,
                    rx_bytes: rail.rx_bytes,
                };
                if let Some(reply) = engine::stats(&self.dir) {
                    self.first.found = self.first.found.take().or(reply.first_collective);
                    self.queue.push_back(Event::Stats(reply.rails.iter().map(bytes).collect()));
                }
            }
            Action::StopEngine(reason) => {
                if let Some(engine) = &mut self.engine {
                    engine.stop(&self.dir, reason);
                }
            }
            Action::KillEngine => {
                if let Some(engine) = &self.engine {
                    engine.kill();
                }
            }
            Action::Note(text) => self.ranks.note(&text),
            Action::Publish => self.unsaved.dirty = true,
            Action::Exit => self.exit = true,
        }
    }

    fn engine_pid(&self) -> Option<i32> {
        self.engine.as_ref().map(|engine| engine.id.pid)
    }

    fn spawn_engine(&mut self) {
        let written = environment::write_rank_map(&self.dir, &self.task).map_err(|error| error.to_string());
        match written.and_then(|()| Engine::spawn(&self.dir, &self.task)) {
            Ok(engine) => {
                self.wakers.ends.extend(pidfd(engine.id.pid));
                self.engine = Some(engine);
                self.prepare_ranks();
            }
            Err(how) => self.queue.push_back(Event::EngineExited { how, end: EngineEnd::Failed }),
        }
    }

    /// What ranks need of the kernel is made while the engine and the other servers get ready. What is refused now is reported when ranks
    /// are to start, for without it none does.
    fn prepare_ranks(&mut self) {
        let opened = self.ranks.open_room(&self.task);
        let limited = self.ranks.make_cgroups(&self.task);
        for message in [opened, limited].into_iter().filter_map(Result::err) {
            eprintln!("{message}");
        }
    }

    fn connect_engine(&mut self, endpoints: &[NodeEndpoints]) {
        let (peers, dir) = (engine::peers(&self.task, endpoints), self.dir.clone());
        let connect = move || {
            engine::connect(&dir, peers).map_or_else(Event::EngineFailed, |()| Event::EngineConnected)
        };
        if let Err(why) = self.ask_aside("connect", connect) {
            self.queue.push_back(Event::EngineFailed(why));
        }
    }

    fn certify_engine(&mut self, endpoints: &[NodeEndpoints], wanted: Certify) {
        let (peers, dir) = (engine::peers(&self.task, endpoints), self.dir.clone());
        let (place, series) = (self.task.place.clone(), wanted.series);
        let data_classes = self.task.supervisor_config.data_classes.clone();
        let certify = move || {
            let ports = Ports::check(&place, &data_classes, &Tree::new("/"), &kernel_statistics());
            let mut measured = engine::certify(&dir, peers, &wanted);
            ports.report(&mut measured);
            Event::Measured(measured)
        };
        if let Err(unable) = self.ask_aside("certify", certify) {
            self.queue.push_back(Event::Measured(Measured { series, unable, ..Measured::default() }));
        }
    }

    /// Asks what takes long on a thread of its own; its answer wakes the loop.
    fn ask_aside(&self, name: &str, question: impl FnOnce() -> Event + Send + 'static) -> Result<(), String> {
        let answers = self.wakers.answers.0.clone();
        let wake = self.wakers.wake.1.try_clone().map_err(|_| "out of file descriptors".to_owned())?;
        let ask = move || {
            // The supervisor may have ended; then nobody waits for this.
            let _ = answers.send(question());
            let _ = rustix::io::write(&wake, b"!");
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(ask);
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    }

    /// While the other servers prepare, so that it costs the start of ranks nothing.
    fn arrange_room(&mut self) {
        if let Err(error) = self.offer_result() {
            self.ranks.note(&format!("the benchmark's result cannot be kept: {error}"));
        }
        if let Err(message) = self.ranks.arrange_room(&self.dir, &self.task) {
            eprintln!("{message}");
        }
    }

    fn spawn_ranks(&mut self) {
        let limited = self.ranks.make_cgroups(&self.task);
        if let Err(message) = limited.and_then(|()| self.ranks.room_ready(&self.dir, &self.task)) {
            let rank = self.task.ranks.first().map_or(0, |rank| rank.rank);
            return self.queue.push_back(Event::RankFailed { rank, message });
        }
        for rank in self.task.ranks.clone() {
            match self.ranks.spawn(&self.dir, &self.task, &rank) {
                Ok(()) => self.queue.push_back(Event::RankStarted(rank.rank)),
                Err(message) => {
                    self.queue.push_back(Event::RankFailed { rank: rank.rank, message });
                    break;
                }
            }
        }
        self.wakers.ends.extend(self.ranks.identities().values().filter_map(|id| pidfd(id.pid)));
    }

    /// The attempt's directory is not theirs where ranks have a user of their own, so the file is made for them: they can
    /// fill it, and put nothing else in its place.
    fn offer_result(&self) -> io::Result<()> {
        let (supervisor_config, result) = (&self.task.supervisor_config, self.dir.result());
        // A file is shown in the attempt's namespaces only if it is there.
        if supervisor_config.rank_user.is_some() || supervisor_config.isolation.namespaces.mount {
            files::write_atomic(&result, b"", Durability::Process)?;
        }
        supervisor_config.rank_user.as_ref().map_or(Ok(()), |user| user.ids.own(&result))
    }

    /// Writes the snapshot to disk, then reports it to the agent.
    fn publish(&mut self) {
        if !std::mem::take(&mut self.unsaved.dirty) {
            return;
        }
        let snapshot = self.state.snapshot();
        let ended = snapshot.state == Observed::Ended;
        let exits = snapshot.exits.len();
        let durability =
            if ended || exits > self.unsaved.exits_saved { Durability::Power } else { Durability::Process };
        self.unsaved.exits_saved = exits;
        if let Err(error) = self.save(durability) {
            eprintln!("the job goes on, but its state is not durable: {error}");
        }
        let line = self.snapshot_line();
        self.link.report(&line);
    }

    fn save(&mut self, durability: Durability) -> io::Result<()> {
        let state = SupervisorState {
            snapshot: self.state.snapshot().clone(),
            supervisor: Identity::own(),
            engine: self.engine.as_ref().map(|engine| engine.id),
            holder: self.ranks.holder(),
            ranks: self.ranks.identities(),
            cgroups: self.ranks.cgroups(),
            first_collective: self.first.found.clone(),
        };
        self.dir.state().write(&state.encode(), durability)
    }

    fn snapshot_line(&self) -> Vec<u8> {
        let words =
            SavedWords { snapshot: self.state.snapshot().into(), first_collective: self.first.found.clone() };
        // A value of our own types always has a JSON form.
        let mut line = serde_json::to_vec(&words).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Waits for output, an end, an order, or time.
    fn wait(&self) {
        let timeout = match self.state.snapshot().state {
            Observed::Preparing => COMING_UP,
            _ if self.steps.is_hasty() => ENDING,
            _ if self.state.is_draining() || self.state.is_hasty(self.now()) => ENDING,
            _ => QUIET,
        };
        let descriptors = self
            .link
            .descriptors()
            .chain(self.ranks.descriptors())
            .chain(self.engine.as_ref().and_then(Engine::descriptor))
            .chain(self.wakers.ends.iter().map(AsFd::as_fd))
            .chain([self.wakers.wake.0.as_fd()]);
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        polled.extend(self.steps.polls());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Turns what has happened into events.
    fn gather(&mut self) {
        let mut byte = [0; 16];
        while rustix::io::read(&self.wakers.wake.0, &mut byte).is_ok_and(|length| length > 0) {}
        self.ranks.drain();
        if let Some(engine) = &mut self.engine {
            engine.drain();
        }
        self.queue.extend(self.wakers.answers.1.try_iter());
        if self.state.snapshot().state == Observed::Preparing && self.engine.is_some() {
            self.find_endpoints();
        }
        self.look_for_first_collective();
        self.check_memory();
        self.reap();
        self.serve_steps();
        let line = self.snapshot_line();
        self.link.accept(&line);
        self.queue.extend(self.link.orders().into_iter().map(Event::Order));
        if self.state.is_draining() && self.ranks.is_gone(self.engine_pid()) {
            self.ranks.drain();
            self.ranks.flush();
            self.queue.push_back(Event::TreeEmpty);
        }
        self.queue.push_back(Event::Tick);
    }

    fn serve_steps(&mut self) {
        let open = self.state.snapshot().state == Observed::Running && !self.state.is_draining();
        let (dir, task, ranks, now) = (&self.dir, &self.task, &self.ranks, self.now());
        let started = self.steps.turn(&World { dir, task, ranks, open, now });
        self.wakers.ends.extend(started.into_iter().filter_map(pidfd));
    }

    fn find_endpoints(&mut self) {
        if !self.dir.engine_control().exists() {
            return;
        }
        if let Some(reply) = engine::status(&self.dir)
            && reply.state.is_some()
        {
            self.arrange_room();
            self.queue.push_back(Event::EngineListening(engine::endpoints(&reply)));
        }
    }

    /// While ranks run, ever more seldom; at the end the engine is asked anyway.
    fn look_for_first_collective(&mut self) {
        let running = self.state.snapshot().state == Observed::Running && self.engine.is_some();
        let traced = !self.task.assignment.trace_parent.is_empty();
        if running && traced && self.first.is_due(Instant::now()) {
            self.first.found = engine::stats(&self.dir).and_then(|reply| reply.first_collective);
            self.unsaved.dirty |= self.first.found.is_some();
        }
    }

    /// Seldom: all processes of the server are looked at for it.
    fn check_memory(&mut self) {
        let due = self.memory_checked.is_none_or(|at| at.elapsed() >= MEMORY_EVERY);
        if due && self.state.snapshot().state == Observed::Running {
            self.memory_checked = Some(Instant::now());
            self.ranks.check();
        }
    }

    /// Takes the ends of processes: the engine's first, because ranks fail when their engine goes.
    fn reap(&mut self) {
        let mut ranks = Vec::new();
        let engine_pid = self.engine_pid();
        let mut waited = process::waited();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            // What it has used counts as ours from now on.
            let now = process::waited();
            let cpu = now.saturating_sub(std::mem::replace(&mut waited, now));
            if Some(pid) == engine_pid {
                self.engine_ended(status);
            } else if let Some(rank) = self.ranks.rank_of(pid) {
                ranks.push((rank, status, self.ranks.used(rank, cpu)));
            } else {
                // Of a step, or an orphan that somebody left behind.
                self.steps.ended(pid, status, self.now());
            }
        }
        // An end that was taken would wake the loop for ever.
        self.wakers.ends.retain(|end| !is_readable(end));
        if ranks.is_empty() {
            return;
        }
        let failed = ranks.iter().any(|(_, status, _)| status.exit_status() != Some(0));
        if failed && self.engine.is_some() {
            // An engine that has failed because a rank died, or called what the others did not, is not to blame.
            let broken = engine::status(&self.dir)
                .filter(|reply| reply.lost && reply.state.as_deref() == Some("failed"));
            self.queue.extend(broken.map(|reply| Event::EngineBroken {
                end: if reply.peer_lost {
                    EngineEnd::PeerLost { peer: peer_of(&self.task, &reply) }
                } else {
                    EngineEnd::Failed
                },
                why: reply.cause.unwrap_or_else(|| "it does not say why".into()),
            }));
        }
        self.ranks.drain();
        let excess = self.ranks.excess(&self.task);
        for (rank, status, usage) in ranks {
            self.take_result(rank, status);
            // Who is being stopped may fail as it likes.
            let by_itself = status.exit_status() != Some(0) && !self.state.is_draining();
            let cause = excess.cause(rank, &self.task.supervisor_config.node).filter(|_| by_itself);
            self.queue.extend(cause.map(Event::RanksExceeded));
            if let Some(why) = self.ranks.refusal(rank, status.exit_status().unwrap_or(0)) {
                let message = format!("rank {rank} on {}: {why}", self.task.supervisor_config.node);
                self.queue.push_back(Event::RankFailed { rank, message });
            }
            let exit = RankExit {
                rank,
                code: status.exit_status().unwrap_or(0),
                signal: status.terminating_signal().unwrap_or(0),
                time: wall(),
                usage,
            };
            self.queue.push_back(Event::RankExited(exit));
        }
        self.ranks.flush();
    }

    fn engine_ended(&mut self, status: WaitStatus) {
        let Some(mut engine) = self.engine.take() else { return };
        let words = engine.last_line();
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("it ended with status {code}"),
            (None, Some(signal)) => format!("it was ended by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        };
        let how = if words.is_empty() { how } else { format!("{how}: {words}") };
        let end = match status.exit_status() {
            Some(0) => EngineEnd::Clean,
            Some(code) if code == i32::from(node_agent_ipc::PEER_LOST_STATUS) => {
                let last = engine::last_status(&self.dir);
                EngineEnd::PeerLost { peer: last.and_then(|reply| peer_of(&self.task, &reply)) }
            }
            _ => EngineEnd::Failed,
        };
        self.queue.push_back(Event::EngineExited { how, end });
    }

    /// What rank 0 of a collective has measured, before its end is reported.
    fn take_result(&mut self, rank: u32, status: WaitStatus) {
        let collective = matches!(self.task.spec.work, Work::Collective(_));
        if rank != 0 || !collective || status.exit_status().is_none() {
            return;
        }
        if std::fs::metadata(self.dir.result()).is_ok_and(|meta| meta.len() == 0) {
            return;
        }
        match files::read_json::<SavedResult>(&self.dir.result()) {
            Ok(Some(result)) => self.queue.push_back(Event::Result(result.into())),
            Ok(None) => {}
            Err(error) => self.ranks.note(&format!("the benchmark's result is not usable: {error}")),
        }
    }
}

/// The first collective, and when it is to be asked for again.
#[derive(Debug, Default)]
struct FirstLook {
    found: Option<FirstCollective>,
    next: Option<Instant>,
    pause: Duration,
}

impl FirstLook {
    /// True if it is to be asked for now; then the next time is twice as far off, so that the engine of a job that
    /// never makes a collective is left alone.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.found.is_some() || self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.pause = (self.pause * 2).clamp(QUIET, FIRST_CHECK_MAX);
        self.next = Some(now + self.pause);
        true
    }
}

/// The server that an engine has lost, by its index among the job's.
fn peer_of(task: &Task, reply: &Reply) -> Option<NodeName> {
    task.placement.nodes.get(reply.peer?).map(|place| place.node.clone())
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}
