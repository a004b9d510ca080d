//! A call under way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_ipc::Reply;

use crate::board::{Local, Op};
use crate::link::{Answer, Link};
use crate::{Buffer, Error, Work};

/// A call under way. Its buffers stay alive until it is waited for or dropped; dropping it does not undo the call.
///
/// Among the ranks of one server the work is done by whoever waits or polls: this rank's part is done without it if another
/// rank waits, but a call that no rank waits for rests.
#[must_use = "the call is complete only after wait()"]
#[derive(Debug)]
pub struct Pending {
    way: Executor,
    call: &'static str,
    /// The outcome was given to the caller already.
    taken: bool,
}

/// Who does the call.
#[derive(Debug)]
enum Executor {
    /// The engine, which will answer.
    Engine {
        link: Arc<Link>,
        id: u64,
        limit: Duration,
        /// When the engine, which has its own limit, should long have answered.
        deadline: Instant,
        _buffers: [Option<Buffer>; 2],
    },
    /// The ranks of this server themselves.
    Board { local: Arc<Local>, op: Arc<Op> },
}

impl Pending {
    pub(crate) fn at_engine(link: Arc<Link>, id: u64, work: &Work<'_>, limit: Duration) -> Self {
        let buffers = [work.input, work.output].map(|place| place.map(|place| place.buffer.clone()));
        let deadline = Instant::now() + limit;
        let call = work.call.operation.kind().name();
        Self { way: Executor::Engine { link, id, limit, deadline, _buffers: buffers }, call, taken: false }
    }

    pub(crate) fn on_board(local: Arc<Local>, op: Arc<Op>) -> Self {
        let call = op.name();
        Self { way: Executor::Board { local, op }, call, taken: false }
    }

    /// Waits until the call is complete or has failed.
    ///
    /// # Errors
    /// The call failed, at the engine or on the board, or there was no outcome within its time limit and the grace after it.
    pub fn wait(mut self) -> Result<(), Error> {
        let until = match &self.way {
            Executor::Engine { deadline, .. } => Some(*deadline),
            Executor::Board { .. } => None,
        };
        let outcome = self.inspect(until);
        outcome.unwrap_or_else(|| Err(Error::Argument("the call is still under way".into())))
    }

    /// Waits until the call is complete or has failed, at the latest until `until`: then `None`, and the call goes on.
    /// Once it has given an outcome the call is over, and later calls of this fail.
    pub fn wait_until(&mut self, until: Instant) -> Option<Result<(), Error>> {
        self.inspect(Some(until))
    }

    /// As [`Pending::wait_until`], without waiting.
    pub fn poll(&mut self) -> Option<Result<(), Error>> {
        self.wait_until(Instant::now())
    }

    fn inspect(&mut self, until: Option<Instant>) -> Option<Result<(), Error>> {
        if self.taken {
            return Some(Err(Error::Argument("this call was waited for before".into())));
        }
        let outcome = match &self.way {
            Executor::Board { local, op } => match local.wait(op, until) {
                Ok(false) => return None,
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            },
            Executor::Engine { link, id, limit, deadline, .. } => {
                match link.try_wait(*id, until.map_or(*deadline, |until| until.min(*deadline))) {
                    None if Instant::now() < *deadline => return None,
                    None => {
                        link.ignore(*id);
                        Err(Error::EngineSilent { after: *limit })
                    }
                    Some(answer) => self.outcome(answer),
                }
            }
        };
        self.taken = true;
        Some(outcome)
    }

    fn outcome(&self, answer: Result<Answer, Error>) -> Result<(), Error> {
        match answer?.reply {
            Reply::Done => Ok(()),
            Reply::Failed(failure) => Err(Error::Failed { call: self.call, failure }),
            _ => Err(Error::Engine { cause: format!("posted {}, got something else", self.call) }),
        }
    }

    /// Whether [`Pending::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        match &self.way {
            Executor::Engine { link, id, .. } => link.is_ready(*id),
            Executor::Board { local, op } => !matches!(local.wait(op, Some(Instant::now())), Ok(false)),
        }
    }

    /// By when the call will have an outcome, even if the engine stays silent.
    pub fn deadline(&self) -> Instant {
        match &self.way {
            Executor::Engine { deadline, .. } => *deadline,
            Executor::Board { op, .. } => op.deadline(),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let (false, Executor::Engine { link, id, .. }) = (self.taken, &self.way) {
            link.ignore(*id);
        }
    }
}
