//! Steps of the job on this server: each is a connection that the agent makes, and ends with it. What follows from what is decided by
//! `node_agent_core::steps`; processes are started as ranks are (`ranks.rs`). All of it is done by the supervisor's one thread, which never
//! waits here: what cannot be written now is kept, and nothing more is read meanwhile than there is room for.

mod caller;
mod running;
mod wires;

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixListener},
    path::Path,
};

use node_agent_attempt::{layout::JobDir, supervisor_config::Task};
use node_agent_ipc::ShortPath;
use proto_model::Timestamp;
use rustix::{
    event::{PollFd, PollFlags},
    process::WaitStatus,
};

use self::{caller::Caller, running::Running};
use crate::ranks::Ranks;

/// Steps of one job on one server at a time.
const STEPS_MAX: usize = 32;

/// What a step is started with.
pub struct World<'a> {
    /// The directory of the attempt.
    pub dir: &'a JobDir,
    /// The attempt that the step runs in.
    pub task: &'a Task,
    /// Starts the processes of the step, as it does for ranks.
    pub ranks: &'a Ranks,
    /// The job's ranks run, so that steps may.
    pub open: bool,
    /// The time of this pass, by the wall clock.
    pub now: Timestamp,
}

/// The listener and every step.
#[derive(Debug)]
pub struct Steps {
    listener: UnixListener,
    all: Vec<One>,
}

#[derive(Debug)]
struct One {
    caller: Caller,
    /// None until the order has come.
    running: Option<Running>,
}

impl Steps {
    /// Listens; a socket that a dead supervisor left is replaced.
    ///
    /// # Errors
    /// The socket cannot be made at `path`.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(ShortPath::of(path)?)?;
        // Whoever may write to it may start processes of the job.
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, all: Vec::new() })
    }

    /// What to wait for.
    pub fn polls(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let steps = self.all.iter().flat_map(|one| {
            let room = one.caller.has_room();
            one.caller.poll().into_iter().chain(one.running.iter().flat_map(move |step| step.polls(room)))
        });
        std::iter::once(listener).chain(steps)
    }

    /// Something is to be looked at soon, whether or not a descriptor says so.
    pub fn is_hasty(&self) -> bool {
        self.all.iter().filter_map(|one| one.running.as_ref()).any(Running::is_hasty)
    }

    /// A child of the supervisor has ended that is no rank.
    pub fn ended(&mut self, pid: i32, status: WaitStatus, now: Timestamp) {
        for step in self.all.iter_mut().filter_map(|one| one.running.as_mut()) {
            step.ended(pid, status, now);
        }
    }

    /// Does what can be done now; gives the processes that were started.
    pub fn turn(&mut self, world: &World<'_>) -> Vec<i32> {
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(mut caller) = Caller::new(stream) else { continue };
            if self.all.len() >= STEPS_MAX {
                caller.fail(&format!(
                    "{STEPS_MAX} steps of the job run on this server; wait until one has ended"
                ));
                caller.flush();
                continue;
            }
            self.all.push(One { caller, running: None });
        }
        let mut started = Vec::new();
        self.all.retain_mut(|one| one.turn(world, &mut started));
        started
    }

    /// Nothing of the job is left: what is not reported yet is reported within a short time.
    pub fn finish(&mut self) {
        self.all.drain(..).for_each(|one| one.caller.finish());
    }
}

impl One {
    /// False when it is over.
    fn turn(&mut self, world: &World<'_>, started: &mut Vec<i32>) -> bool {
        if self.running.is_none() {
            match self.caller.order() {
                Ok(Some(order)) if world.open => {
                    let running = Running::start(world, order, &mut self.caller);
                    started.extend(running.pids());
                    self.running = Some(running);
                }
                Ok(Some(_)) => {
                    self.caller
                        .fail("the job's ranks do not run on this server (any more), so no step can start");
                }
                Ok(None) => {}
                Err(why) => self.caller.fail(&why),
            }
        }
        let Some(running) = &mut self.running else {
            self.caller.flush();
            return !self.caller.is_done();
        };
        running.turn(&mut self.caller, world.now);
        self.caller.flush();
        !(running.is_over() && self.caller.is_reported())
    }
}
