//! One attached rank.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use node_agent_collective::Call;
use node_agent_local::{
    Channel, Failure, FailureCode, Post, RailBytes, Reply, Request, SocketError, Span, Welcome,
};

use crate::link::{Answer, Link};
use crate::staged::Staging;
use crate::{Attach, Buffer, Error, Place};

/// How much longer than the engine's own limit a rank waits: the engine, which knows the cause, should speak first.
const GRACE: Duration = Duration::from_secs(2);
/// Pause between attempts to reach an engine that does not listen yet.
const ATTACH_PAUSE: Duration = Duration::from_millis(5);

/// A rank attached to its engine. All methods may be called from any thread, but collectives must happen in the same order
/// on all ranks, so a program that calls them from several threads has to order them itself.
///
/// Dropping it (outside a panic) detaches cleanly.
#[derive(Debug)]
pub struct Client {
    pub(crate) link: Arc<Link>,
    rank: u32,
    world: Welcome,
    /// Limit for the next calls in milliseconds, 0 for the engine's own.
    timeout_ms: AtomicU32,
    pub(crate) staging: Arc<Staging>,
}

/// One call on shared buffers.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// What to do, with how many elements; it says how long input and output are.
    pub call: Call,
    /// Where the input is; `None` where the call has none on this rank.
    pub input: Option<Place<'a>>,
    /// Where the output goes; `None` where the call has none on this rank.
    pub output: Option<Place<'a>>,
}

/// A call under way. Its buffers stay alive until it is waited for or dropped; dropping it does not undo the call.
#[must_use = "the call is complete only after wait()"]
#[derive(Debug)]
pub struct Pending {
    link: Arc<Link>,
    id: u64,
    call: &'static str,
    limit: Duration,
    /// When the engine, which has its own limit, should long have answered.
    deadline: Instant,
    taken: bool,
    _buffers: [Option<Buffer>; 2],
}

impl Client {
    /// Attaches as the environment says (see [`Attach::from_env`]).
    pub fn from_env() -> Result<Self, Error> {
        Self::attach(&Attach::from_env()?)
    }

    /// Attaches to the engine at `attach.socket` as rank `attach.rank`.
    pub fn attach(attach: &Attach) -> Result<Self, Error> {
        let channel = connect(attach)?;
        let link = Arc::new(Link::new(channel, attach.timeout));
        let hello =
            Request::Hello { rank: attach.rank, pid: std::process::id(), job_uid: attach.job_uid.clone() };
        let id = link.submit(&hello)?;
        let answer = link.wait(id, "attach", attach.timeout)?;
        let Reply::Welcome(world) = answer.reply else {
            return Err(Error::Engine { cause: "said hello, got no welcome".into() });
        };
        if let Some(expected) = attach.size.filter(|expected| *expected != world.size) {
            let problem = format!("says {expected} ranks, the engine's job has {}", world.size);
            link.submit_ignored(&Request::Detach);
            return Err(Error::Environment { name: "WORLD_SIZE", problem });
        }
        let (timeout_ms, staging) = (AtomicU32::new(0), Arc::default());
        Ok(Self { link, rank: attach.rank, world, timeout_ms, staging })
    }

    /// This rank's place in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.world.size
    }

    /// This rank's place among the ranks of its node.
    pub fn local_rank(&self) -> u32 {
        self.world.local_rank
    }

    /// Everything the engine said about the job and its own limits.
    pub fn world(&self) -> &Welcome {
        &self.world
    }

    /// Limits the calls that follow to `timeout` each; `None` returns to the engine's own limit.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(0, |t| u32::try_from(t.as_millis()).unwrap_or(u32::MAX).max(1));
        self.timeout_ms.store(ms, Relaxed);
    }

    /// A buffer of `bytes` shared with the engine (at least one byte).
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, Error> {
        Buffer::alloc(&self.link, bytes.max(1))
    }

    /// Begins a call on shared buffers.
    pub fn post(&self, work: Work<'_>) -> Result<Pending, Error> {
        let call = work.call.operation.kind().name();
        let span = |place: Option<Place<'_>>| place.map_or(Span::default(), |place| place.span());
        let timeout_ms = self.timeout_ms.load(Relaxed);
        let post = Post { call: work.call, input: span(work.input), output: span(work.output), timeout_ms };
        let id = self.link.submit(&Request::Post(post))?;
        let ms = if timeout_ms == 0 { self.world.op_timeout_ms } else { timeout_ms };
        let limit = Duration::from_millis(ms.into()) + GRACE;
        Ok(Pending {
            link: self.link.clone(),
            id,
            call,
            limit,
            deadline: Instant::now() + limit,
            taken: false,
            _buffers: [work.input, work.output].map(|place| place.map(|place| place.buffer.clone())),
        })
    }

    /// Does a call on shared buffers: [`Client::post`] and [`Pending::wait`].
    pub fn run(&self, work: Work<'_>) -> Result<(), Error> {
        self.post(work)?.wait()
    }

    /// How often an answer of the engine has come; for [`Client::wait_arrival`].
    pub fn arrivals(&self) -> u64 {
        self.link.arrivals()
    }

    /// Fails where as many calls are under way as the engine takes: it would refuse the next one, but only later, when calls
    /// after it may have begun.
    pub(crate) fn expect_room(&self, call: &'static str) -> Result<(), Error> {
        let most = self.world.max_outstanding;
        if self.link.has_room(most) {
            return Ok(());
        }
        let text = format!("{most} calls are under way: wait for one of them first");
        let failure =
            Failure { code: FailureCode::Exhausted, rank: Some(self.rank), node: None, rail: None, text };
        Err(Error::Failed { call, failure })
    }

    /// Sleeps until [`Client::arrivals`] differs from `seen`, at the latest until the deadline: for a thread that looks
    /// after the calls of others.
    pub fn wait_arrival(&self, seen: u64, deadline: Instant) {
        self.link.wait_arrival(seen, deadline);
    }

    /// Nobody goes on before everybody is here.
    pub fn barrier(&self) -> Result<(), Error> {
        self.run(Work { call: Call::BARRIER, input: None, output: None })
    }

    /// Bytes of each rail of this node since the engine started, and operations finished.
    pub fn counters(&self) -> Result<(Vec<RailBytes>, u64), Error> {
        let id = self.link.submit(&Request::Counters)?;
        match self.link.wait(id, "counters", self.link.control_timeout())?.reply {
            Reply::Counters { rails, operations } => Ok((rails, operations)),
            _ => Err(Error::Engine { cause: "asked for counters, got something else".into() }),
        }
    }

    /// Begins to leave without waiting for the engine's answer: for a process that is ending.
    pub fn leave(&self) {
        self.link.submit_ignored(&Request::Detach);
    }

    /// Leaves the job cleanly. The other ranks can go on with what this one has already contributed to, nothing more.
    pub fn detach(self) -> Result<(), Error> {
        self.leave_and_wait()
    }

    /// As [`Client::detach`], for a client that others hold as well: their calls fail from now on.
    pub fn leave_and_wait(&self) -> Result<(), Error> {
        let id = self.link.submit(&Request::Detach)?;
        self.link.wait(id, "detach", self.link.control_timeout()).map(drop)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.leave();
        }
    }
}

impl Pending {
    /// Waits until the call is complete or has failed.
    pub fn wait(mut self) -> Result<(), Error> {
        let outcome = self.wait_until(self.deadline);
        outcome.unwrap_or(Err(Error::EngineSilent { after: self.limit }))
    }

    /// Waits until the call is complete or has failed, at the latest until `until`: then `None`, and the call goes on.
    /// Once it has given an outcome the call is over, and later calls of this fail.
    pub fn wait_until(&mut self, until: Instant) -> Option<Result<(), Error>> {
        if self.taken {
            return Some(Err(Error::Argument("this call was waited for before".into())));
        }
        let outcome = match self.link.try_wait(self.id, until.min(self.deadline)) {
            None if Instant::now() < self.deadline => return None,
            None => {
                self.link.ignore(self.id);
                Err(Error::EngineSilent { after: self.limit })
            }
            Some(Ok(Answer { reply: Reply::Done, .. })) => Ok(()),
            Some(Ok(Answer { reply: Reply::Failed(failure), .. })) => {
                Err(Error::Failed { call: self.call, failure })
            }
            Some(Ok(_)) => Err(Error::Engine { cause: format!("posted {}, got something else", self.call) }),
            Some(Err(error)) => Err(error),
        };
        self.taken = true;
        Some(outcome)
    }

    /// As [`Pending::wait_until`], without waiting.
    pub fn poll(&mut self) -> Option<Result<(), Error>> {
        self.wait_until(Instant::now())
    }

    /// Whether [`Pending::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        self.link.is_ready(self.id)
    }

    /// By when the call will have an outcome, even if the engine stays silent.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.taken {
            self.link.ignore(self.id);
        }
    }
}

/// Connects, and tries again until the deadline where the engine is just not listening yet.
fn connect(attach: &Attach) -> Result<Channel, Error> {
    let deadline = Instant::now() + attach.timeout;
    loop {
        let error = match Channel::connect(&attach.socket) {
            Ok(channel) => return Ok(channel),
            Err(error) => error,
        };
        let retry = matches!(&error, SocketError::System { source, .. } if is_transient(source));
        if !retry || Instant::now() >= deadline {
            return Err(Error::Attach { socket: attach.socket.clone(), cause: error.to_string() });
        }
        std::thread::sleep(ATTACH_PAUSE);
    }
}

/// The socket's queue is full: the engine is busy accepting.
fn is_transient(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}
