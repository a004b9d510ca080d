//! The processes of one step on this server.

use std::{
    collections::VecDeque,
    fs::File,
    io::{ErrorKind, Read, Write},
    os::fd::AsFd,
    time::Duration,
};

use node_agent_core::steps::{Action, Event, SIGKILL, SIGTERM, Step};
use node_agent_os::process::{self, Identity};
use proto_model::{StepOrder, StepRequest, StepWork, Timestamp};
use proto_wire::v1::{self, step_event::What};
use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, Signal, WaitStatus, kill_process_group},
};

use super::{World, caller::Caller, wires};
use crate::{environment, ranks::Started};

/// Output of a process that has ended is waited for this long where something that it left behind keeps its pipes.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// What ends the input of a program that reads a terminal.
const END_OF_TRANSMISSION: u8 = 4;
/// At most this many pieces of one process before the others get their turn.
const TURN: usize = 16;

/// One process of a step.
#[derive(Debug)]
struct Process {
    rank: u32,
    started: Started,
    /// How it ended, and when.
    exit: Option<(v1::StepExit, Timestamp)>,
    reported: bool,
}

/// A step that was started.
#[derive(Debug)]
pub struct Running {
    step: Step,
    processes: Vec<Process>,
    feed: Option<File>,
    /// The other side of the terminal, to change its size.
    master: Option<File>,
    /// Bytes that wait to be written to standard input.
    pending: VecDeque<u8>,
    /// Standard input ends when all of that is given.
    closing: bool,
}

impl Running {
    /// Starts every process, and says so.
    pub fn start(world: &World<'_>, order: StepOrder, caller: &mut Caller) -> Self {
        if let StepWork::Signal(number) = order.work {
            return Self::signalled(world, &order, number, caller);
        }
        let ranks = (0..order.ranks_here).map(|local| order.first_rank + local);
        let mut running = Self {
            step: Step::new(ranks, order.stdin || order.terminal.is_some()),
            processes: Vec::new(),
            feed: None,
            master: None,
            pending: VecDeque::new(),
            closing: false,
        };
        for local in 0..order.ranks_here {
            if let Err(why) = running.launch(world, &order, local) {
                caller.fail(&format!("cannot start the step: {why}"));
                // Those that are not there have ended.
                for rank in (local..order.ranks_here).map(|local| order.first_rank + local) {
                    running.step.step(Event::Exited(rank), world.now);
                }
                return running;
            }
        }
        caller.say(order.first_rank, What::Started(v1::StepStarted { ranks: order.ranks_here }));
        running
    }

    /// The ranks get a signal, and the step is over.
    fn signalled(world: &World<'_>, order: &StepOrder, number: i32, caller: &mut Caller) -> Self {
        world.ranks.send(number);
        caller.say(order.first_rank, What::Started(v1::StepStarted { ranks: order.ranks_here }));
        for rank in (0..order.ranks_here).map(|local| order.first_rank + local) {
            caller.say(rank, What::Exit(v1::StepExit { code: 0, signal: 0 }));
        }
        Self {
            step: Step::new([], false),
            processes: Vec::new(),
            feed: None,
            master: None,
            pending: VecDeque::new(),
            closing: false,
        }
    }

    fn launch(&mut self, world: &World<'_>, order: &StepOrder, local: u32) -> Result<(), String> {
        let program = environment::step_program(world.dir, world.task, order, local)?;
        let wired = match &order.terminal {
            Some(terminal) => wires::terminal(terminal.window),
            None => wires::pipes(order.stdin && local == 0),
        };
        let (wiring, ends) = wired.map_err(|error| error.to_string())?;
        let mut started = world.ranks.start(world.task, &program, wiring)?;
        if let Some(master) = &ends.master {
            started.out = Some(master.try_clone().map_err(|error| error.to_string())?);
        }
        self.feed = ends.feed.or(self.feed.take());
        self.master = ends.master;
        self.processes.push(Process { rank: order.first_rank + local, started, exit: None, reported: false });
        Ok(())
    }

    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.processes.iter().map(|process| process.started.id.pid)
    }

    /// All processes have ended, and their ends are reported.
    pub fn is_over(&self) -> bool {
        self.step.is_over() && self.processes.iter().all(|process| process.reported)
    }

    pub fn is_hasty(&self) -> bool {
        self.step.is_ending()
            || self.processes.iter().any(|process| process.exit.is_some() && !process.reported)
    }

    /// What to wait for; `room`: output can be taken.
    pub fn polls(&self, room: bool) -> impl Iterator<Item = PollFd<'_>> {
        let outputs = self.processes.iter().flat_map(|one| [&one.started.out, &one.started.err]);
        let outputs = outputs.flatten().filter(move |_| room);
        let outputs = outputs.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN));
        let feed = self.feed.iter().filter(|_| !self.pending.is_empty());
        outputs.chain(feed.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)))
    }

    /// A process has ended; it may be one of these.
    pub fn ended(&mut self, pid: i32, status: WaitStatus, now: Timestamp) {
        let mine = |process: &&mut Process| process.started.id.pid == pid && process.exit.is_none();
        let Some(process) = self.processes.iter_mut().find(mine) else { return };
        let code = status.exit_status().unwrap_or(0);
        let signal = status.terminating_signal().unwrap_or(0);
        process.exit = Some((v1::StepExit { code, signal }, now));
        self.step.step(Event::Exited(process.rank), now);
    }

    /// Does what can be done now.
    pub fn turn(&mut self, caller: &mut Caller, now: Timestamp) {
        self.listen(caller, now);
        if caller.is_lost() {
            self.act(Event::Gone, caller, now);
        }
        self.act(Event::Tick, caller, now);
        self.give(caller, now);
        for process in &mut self.processes {
            process.turn(caller, now);
        }
    }

    fn listen(&mut self, caller: &mut Caller, now: Timestamp) {
        loop {
            match caller.input() {
                Ok(Some(input)) => self.act(Event::Input(input), caller, now),
                Ok(None) => return,
                Err(why) => {
                    caller.fail(&why);
                    return;
                }
            }
        }
    }

    fn act(&mut self, event: Event, caller: &mut Caller, now: Timestamp) {
        for action in self.step.step(event, now) {
            match action {
                Action::Give(data) => self.pending.extend(data),
                Action::CloseInput if self.master.is_some() => self.pending.push_back(END_OF_TRANSMISSION),
                Action::CloseInput => self.closing = true,
                Action::Signal(signal) => self.signal(signal),
                Action::Resize(window) => {
                    // A terminal that is closed has no size.
                    let _ = self.master.as_ref().map(|master| wires::resize(master, window));
                }
                Action::TellTaken(taken) => {
                    let rank = self.processes.first().map_or(0, |process| process.rank);
                    caller.say(rank, What::Taken(taken));
                }
                Action::Refuse(why) => caller.fail(why),
            }
        }
    }

    /// Gives the process what it takes of its input.
    fn give(&mut self, caller: &mut Caller, now: Timestamp) {
        let mut given = 0;
        let mut refused = false;
        while let (Some(feed), false) = (&mut self.feed, self.pending.is_empty()) {
            match feed.write(self.pending.as_slices().0) {
                Ok(length) => {
                    self.pending.drain(..length);
                    given += length;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    refused = true;
                    break;
                }
            }
        }
        if given > 0 {
            self.act(Event::Taken(given), caller, now);
        }
        if refused || (self.feed.is_some() && self.step.is_over()) {
            self.pending.clear();
            self.feed = None;
            self.act(Event::InputRefused, caller, now);
        } else if self.closing && self.pending.is_empty() {
            self.feed = None;
        }
    }

    /// Signals each process with its group; to end it, also what it started in other groups.
    fn signal(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        for process in self.processes.iter().filter(|process| process.exit.is_none()) {
            let id = process.started.id;
            let all = [SIGTERM, SIGKILL].contains(&number);
            let below = if all { process::descendants(id.pid, None) } else { Vec::new() };
            send(id, signal);
            for one in below {
                one.id.signal(signal);
            }
            if number == SIGTERM {
                // A stopped process takes SIGTERM only when it goes on.
                send(id, Signal::CONT);
            }
        }
    }
}

/// To a process and its group. It is not waited for yet, so nobody else has its number.
fn send(id: Identity, signal: Signal) {
    let group = Pid::from_raw(id.pid).map(|pid| kill_process_group(pid, signal));
    if !matches!(group, Some(Ok(()))) {
        // It leads none yet.
        id.signal(signal);
    }
}

impl Process {
    /// Tells what it has written, and then how it ended.
    fn turn(&mut self, caller: &mut Caller, now: Timestamp) {
        let out = take(&mut self.started.out, self.rank, What::Stdout, caller);
        let err = take(&mut self.started.err, self.rank, What::Stderr, caller);
        let Some((exit, since)) = self.exit.filter(|_| !self.reported) else { return };
        let closed = self.started.out.is_none() && self.started.err.is_none();
        // Only while nothing more was there: what waits for room is sent before the end.
        let late = out && err && now.since(since) >= LAST_OUTPUT;
        if closed || late {
            (self.started.out, self.started.err) = (None, None);
            self.reported = true;
            caller.say(self.rank, What::Exit(exit));
        }
    }
}

/// True if nothing more is there now.
fn take(file: &mut Option<File>, rank: u32, what: fn(Vec<u8>) -> What, caller: &mut Caller) -> bool {
    let mut buffer = [0; StepRequest::CHUNK];
    for _ in 0..TURN {
        let Some(open) = file else { return true };
        if !caller.has_room() {
            return false;
        }
        match open.read(&mut buffer) {
            Ok(0) => *file = None,
            Ok(length) => caller.say(rank, what(buffer[..length].to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A terminal that nobody has open any more answers so.
            Err(_) => *file = None,
        }
    }
    false
}
