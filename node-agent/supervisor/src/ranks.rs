//! The ranks' processes: started each in a process group of its own, their output kept, the whole tree ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use node_agent_attempt::{
    layout::JobDir,
    logs::{LogWriter, Stream},
    supervisor_config::Task,
};
use node_agent_core::{Key, supervisor::Signal as Hardness};
use node_agent_os::process::{self, Identity};
use node_agent_rank::{
    cgroup::{self, Excess, limits::Limits},
    exec::{
        self,
        launch::{Confinement, Input, Launch, Program},
    },
    isolation::{
        init::Order,
        room::Room,
        view::{Access, view},
    },
};
use proto_model::{RankPlace, RankUsage};
use rustix::process::Signal;

use crate::environment;

/// A tree that forks while it is killed is looked at again so often in one go.
const ROUNDS: usize = 5;

/// How often the end of namespaces without processes is waited for.
const ROOM_CHECKS: usize = 20;

/// A process that was started as ranks are.
#[derive(Debug)]
pub struct Started {
    /// The process that was started.
    pub id: Identity,
    /// What it was started with.
    pub launch: Launch,
    /// Its standard output, if that is a pipe of ours and not at its end.
    pub out: Option<File>,
    /// The pipe from its standard error, likewise.
    pub err: Option<File>,
    /// The most memory that it and all below it were seen to have at a time.
    pub memory_peak: u64,
}

/// How a process is connected.
#[derive(Debug)]
pub enum Wiring {
    /// Its output comes through pipes, and it finds no input.
    Quiet,
    /// The same, and its input comes through this pipe, which a program that is started inherits.
    Input(OwnedFd),
    /// All goes through this terminal.
    Terminal(OwnedFd),
}

impl Wiring {
    fn input(&self) -> Input {
        match self {
            Self::Quiet => Input::Nothing,
            Self::Input(pipe) => Input::Inherited(pipe.as_raw_fd()),
            Self::Terminal(_) => Input::Terminal,
        }
    }
}

/// All ranks of this server, and the logs of those that were not started too.
#[derive(Debug)]
pub struct Ranks {
    running: BTreeMap<u32, Started>,
    logs: BTreeMap<u32, LogWriter>,
    cgroups: Vec<PathBuf>,
    /// Whether these have the job's limits, once that was tried.
    limited: Option<Result<(), String>>,
    room: Option<Room>,
    /// The user that only they have.
    uid: Option<u32>,
    own: i32,
}

impl Ranks {
    /// No rank yet; logs that take notes.
    pub fn new(dir: &JobDir, task: &Task) -> Self {
        let log = |rank: &RankPlace| {
            (rank.rank, LogWriter::new(dir.rank_log(rank.rank), task.supervisor_config.log_bytes))
        };
        let logs = task.ranks.iter().map(log).collect();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let user = task.supervisor_config.rank_user.as_ref().filter(|_| task.supervisor_config.own_uid);
        let uid = user.map(|user| user.ids.uid);
        Self { running: BTreeMap::new(), logs, cgroups: Vec::new(), limited: None, room: None, uid, own }
    }

    /// Makes the control groups for what is started from now on, with the job's limits; none where that is not permitted (the agent
    /// has said so once).
    ///
    /// # Errors
    /// A limit that the agent has promised cannot be set: then nothing may be started.
    pub fn make_cgroups(&mut self, task: &Task) -> Result<(), String> {
        if let Some(limited) = &self.limited {
            return limited.clone();
        }
        let limited = self.limit(task);
        self.limited = Some(limited.clone());
        limited
    }

    fn limit(&mut self, task: &Task) -> Result<(), String> {
        if !task.supervisor_config.cgroups {
            return Ok(());
        }
        let name = cgroup::name(&task.supervisor_config.node, Key::of(&task.assignment));
        let limits = &task.supervisor_config.limits;
        match cgroup::create(&name, limits) {
            Ok(made) => {
                self.cgroups = made.groups;
                match made.absent.first() {
                    Some((feature, why)) => Err(format!("its limits ({feature}) cannot be set: {why}")),
                    None => Ok(()),
                }
            }
            Err(_) if *limits == Limits::default() => Ok(()),
            Err(error) => Err(format!("no control groups can be made for its limits: {error}")),
        }
    }

    /// Starts the process that will hold the attempt's namespaces, so that it is up when its order comes.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn open_room(&mut self, task: &Task) -> Result<(), String> {
        let namespaces = task.supervisor_config.isolation.namespaces;
        if self.room.is_some() || !namespaces.any() {
            return Ok(());
        }
        self.room = Some(Room::open(&starter(task)?, namespaces).map_err(refused)?);
        Ok(())
    }

    /// Begins to arrange the attempt's namespaces, once what ranks are to see of this server is there.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn arrange_room(&mut self, dir: &JobDir, task: &Task) -> Result<(), String> {
        self.open_room(task)?;
        let Some(room) = self.room.as_mut().filter(|room| !room.is_reported()) else { return Ok(()) };
        let supervisor_config = &task.supervisor_config;
        let mut needed = supervisor_config.isolation.shown.clone();
        needed.extend([
            dir.work(),
            dir.home(),
            dir.rank_map(),
            dir.topology(),
            dir.engine_socket(),
            dir.result(),
        ]);
        needed.push(supervisor_config.engine.clone());
        needed.extend(supervisor_config.library.clone());
        needed.extend(environment::nccl_plugin(task));
        let ids = supervisor_config.rank_user.as_ref().map(|user| user.ids.clone());
        let data =
            if supervisor_config.data.as_os_str().is_empty() { dir.path() } else { &supervisor_config.data };
        let order = Order {
            parent: None,
            isolation: supervisor_config.isolation.clone(),
            view: view(data, &needed, ids.as_ref(), Access::of),
            ids,
            devices: supervisor_config.gpu_files.clone(),
        };
        room.arrange(order).map_err(refused)
    }

    /// Waits until they are made.
    ///
    /// # Errors
    /// Why they cannot be.
    pub fn room_ready(&mut self, dir: &JobDir, task: &Task) -> Result<(), String> {
        // It was refused before, perhaps; without it no rank is started.
        self.arrange_room(dir, task)?;
        self.room.as_mut().map_or(Ok(()), Room::ready)
    }

    /// The process that holds them, for the durable state.
    pub fn holder(&self) -> Option<Identity> {
        self.room.as_ref().map(|room| room.holder)
    }

    /// The control groups in use.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        self.cgroups.clone()
    }

    /// Limits that the ranks ran into so far.
    pub fn excess(&self, task: &Task) -> Excess {
        cgroup::excess(&self.cgroups, &task.supervisor_config.limits)
    }

    /// The processes, for the durable state.
    pub fn identities(&self) -> BTreeMap<u32, Identity> {
        self.running.iter().map(|(rank, running)| (*rank, running.id)).collect()
    }

    /// Which rank had this pid.
    pub fn rank_of(&self, pid: i32) -> Option<u32> {
        self.running.iter().find(|(_, running)| running.id.pid == pid).map(|(rank, _)| *rank)
    }

    /// Starts the process of one rank, with its logs, its control group and its namespaces.
    ///
    /// # Errors
    /// The rank's environment cannot be made, or the process cannot be started.
    pub fn spawn(&mut self, dir: &JobDir, task: &Task, rank: &RankPlace) -> Result<(), String> {
        let program = environment::program(dir, task, rank)?;
        let started = self.start(task, &program, Wiring::Quiet);
        let started = started.map_err(|error| format!("cannot start rank {}: {error}", rank.rank))?;
        self.running.insert(rank.rank, started);
        Ok(())
    }

    /// Starts a program as ranks are started: with the attempt's control groups and namespaces, as its user, without privileges.
    ///
    /// # Errors
    /// What the kernel refused, in one line.
    pub fn start(&self, task: &Task, program: &Program, wiring: Wiring) -> Result<Started, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let starter = starter(task)?;
        let confinement = Confinement { input: wiring.input(), ..self.confinement(task) };
        let launch = Launch::write(&confinement, program).map_err(|error| text(&error))?;
        let mut command = exec::command(&starter, &launch).map_err(|error| text(&error))?;
        match &wiring {
            Wiring::Terminal(terminal) => {
                // It leads a session of its own, which a leader of a group cannot make.
                let clone = || terminal.try_clone().map(Stdio::from);
                command.stdout(clone().map_err(|error| text(&error))?);
                command.stderr(clone().map_err(|error| text(&error))?);
            }
            Wiring::Quiet | Wiring::Input(_) => drop(command.process_group(0)),
        }
        let child = match &self.room {
            Some(room) => room.spawn(command),
            None => command.spawn(),
        };
        let mut child = child.map_err(|error| text(&error))?;
        // It is not waited for yet, so even a process that has ended has a stat.
        let id = Identity::of(child.id().cast_signed()).ok_or("it cannot be seen in /proc")?;
        let out = child.stdout.take().map(OwnedFd::from).and_then(pipe);
        let err = child.stderr.take().map(OwnedFd::from).and_then(pipe);
        Ok(Started { id, launch, out, err, memory_peak: 0 })
    }

    fn confinement(&self, task: &Task) -> Confinement {
        let in_namespace = task.supervisor_config.isolation.namespaces.pid;
        Confinement {
            parent: (!in_namespace).then_some(self.own),
            join: self.room.as_ref().map(Room::join),
            seccomp: task.supervisor_config.isolation.seccomp,
            cgroups: self.cgroups(),
            ids: task.supervisor_config.rank_user.as_ref().map(|user| user.ids.clone()),
            limits: task.supervisor_config.rank_limits,
            input: Input::Nothing,
        }
    }

    /// Why a rank that ended with this code was never begun.
    pub fn refusal(&self, rank: u32, code: i32) -> Option<String> {
        let running = self.running.get(&rank).filter(|_| exec::may_be_refusal(code))?;
        running.launch.refusal()
    }

    /// What to poll for reading.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let pipes = self.running.values().flat_map(|rank| [&rank.out, &rank.err]);
        pipes.flatten().map(AsFd::as_fd)
    }

    /// Takes what the ranks have written.
    pub fn drain(&mut self) {
        for (rank, running) in &mut self.running {
            if let Some(log) = self.logs.get_mut(rank) {
                take(&mut running.out, Stream::Out, log);
                take(&mut running.err, Stream::Err, log);
            }
        }
    }

    /// Writes half lines too: nothing more may come, or not soon.
    pub fn flush(&mut self) {
        self.logs.values_mut().for_each(LogWriter::flush);
    }

    /// A line of ours in every rank's log.
    pub fn note(&mut self, text: &str) {
        self.logs.values_mut().for_each(|log| log.note(text));
    }

    /// Every process that descends from a rank.
    fn tree(&self, engine: Option<i32>) -> BTreeSet<Identity> {
        let below = process::descendants(self.own, engine).into_iter().map(|one| one.id);
        let grouped = self.cgroups.iter().flat_map(|group| cgroup::members(group));
        let grouped = grouped.filter_map(process::stat).filter(|one| !one.zombie).map(|one| one.id);
        let owned = self.uid.map(process::of_user).unwrap_or_default().into_iter().map(|one| one.id);
        let holder = self.holder();
        below.chain(grouped).chain(owned).filter(|id| id.pid != self.own && Some(*id) != holder).collect()
    }

    /// True when no process of the ranks is left, nor anything that was made for them beside their files.
    pub fn is_gone(&mut self, engine: Option<i32>) -> bool {
        if !self.tree(engine).is_empty() {
            return false;
        }
        if self.room.as_ref().is_some_and(|room| !room.end()) {
            return false;
        }
        self.room = None;
        true
    }

    /// Ends the namespaces of an attempt whose ranks were never started.
    pub fn leave_room(&mut self) {
        let room = self.room.take();
        // Nobody else is in there, so the first look sees its end; on a busy server some more may be needed.
        let _ = room.iter().any(|room| (0..ROOM_CHECKS).any(|_| room.end()));
    }

    /// Looks at how much memory each rank and what it has started have now.
    pub fn check(&mut self) {
        let tree = process::Tree::read();
        for started in self.running.values_mut() {
            started.memory_peak = started.memory_peak.max(tree.below(started.id).memory);
        }
    }

    /// What a rank has used that has ended, with so much CPU time.
    pub fn used(&self, rank: u32, cpu: Duration) -> RankUsage {
        let memory_peak = self.running.get(&rank).map_or(0, |started| started.memory_peak);
        RankUsage { cpu: Some(cpu), memory_peak }
    }

    /// A signal for each rank's own process, which passes it on to what it has started if it likes.
    pub fn send(&self, number: i32) {
        // A signal that this kernel does not name has no meaning to send.
        let Some(signal) = Signal::from_named_raw(number) else { return };
        for started in self.running.values() {
            started.id.signal(signal);
        }
    }

    /// Signals the whole tree.
    pub fn signal(&self, hardness: Hardness, engine: Option<i32>) {
        match hardness {
            Hardness::Term | Hardness::Other(_) => {
                let other = match hardness {
                    Hardness::Other(number) => Signal::from_named_raw(number),
                    _ => None,
                };
                for id in self.tree(engine) {
                    id.signal(other.unwrap_or(Signal::TERM));
                    // A stopped process takes SIGTERM only when it goes on.
                    id.signal(Signal::CONT);
                }
            }
            Hardness::Kill => {
                for _ in 0..ROUNDS {
                    self.room.iter().for_each(Room::kill);
                    self.cgroups.iter().for_each(|group| cgroup::kill(group));
                    let tree = self.tree(engine);
                    if tree.is_empty() {
                        return;
                    }
                    for id in tree {
                        id.signal(Signal::KILL);
                    }
                }
            }
        }
    }

    /// Removes what was made for them.
    pub fn clear(&mut self) {
        self.cgroups.drain(..).for_each(|group| cgroup::remove(&group));
    }
}

/// The agent's program may have been replaced by an upgrade while this supervisor runs; the kernel then shows its path
/// with ` (deleted)`, and what is at the path now is the new version, which knows the same subcommand.
fn own_program(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    text.strip_suffix(" (deleted)").map_or_else(|| path.to_owned(), PathBuf::from)
}

/// The small program that starts ranks, where the agent has found one and it is still there; else the agent's own.
fn starter(task: &Task) -> Result<PathBuf, String> {
    if let Some(starter) = task.supervisor_config.starter.as_ref().filter(|path| path.is_file()) {
        return Ok(starter.clone());
    }
    let program = env::current_exe().map_err(|error| format!("the agent's own program is gone: {error}"))?;
    Ok(own_program(&program))
}

fn refused(error: io::Error) -> String {
    format!("the attempt's namespaces are refused: {error}")
}

fn pipe(descriptor: OwnedFd) -> Option<File> {
    rustix::io::ioctl_fionbio(&descriptor, true).ok()?;
    Some(File::from(descriptor))
}

/// At most this much from one pipe before the others get their turn.
const TURN: usize = 1 << 20;

fn take(pipe: &mut Option<File>, stream: Stream, log: &mut LogWriter) {
    let mut buffer = [0; 64 * 1024];
    let mut taken = 0;
    while let Some(file) = pipe.as_mut() {
        match file.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(length) => {
                log.push(stream, &buffer[..length]);
                taken += length;
                if taken >= TURN {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => *pipe = None,
        }
    }
}
