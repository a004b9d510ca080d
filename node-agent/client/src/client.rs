//! One attached rank.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use node_agent_collective::Call;
use node_agent_gpu::export::Gpus;
use node_agent_ipc::{
    Channel, Failure, FailureCode, Post, RailBytes, Reply, Request, SocketError, Span, Welcome,
};

use crate::board::Local;
use crate::link::Link;
use crate::staging::Staging;
use crate::{Attach, Buffer, BufferOffset, Error, Pending, Work};

/// How much longer than the engine's own limit a rank waits: the engine, which knows the cause, should answer first.
const GRACE: Duration = Duration::from_secs(2);
/// Sleeps of a thread that looks after calls, between looks at the socket: while the engine owes an answer, and else.
const SHORT_SLICE: Duration = Duration::from_micros(100);
const LONG_SLICE: Duration = Duration::from_millis(250);
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
    /// The libraries that know memory of GPUs, once there is some.
    pub(crate) gpus: OnceLock<Gpus>,
    /// Where the ranks of this server do their collectives themselves, where all ranks are on it.
    pub(crate) local: Option<Arc<Local>>,
}

impl Client {
    /// Attaches as the environment says (see [`Attach::from_env`]).
    ///
    /// # Errors
    /// As of [`Attach::from_env`] and [`Client::attach`].
    pub fn from_env() -> Result<Self, Error> {
        Self::attach(&Attach::from_env()?)
    }

    /// Attaches to the engine at `attach.socket` as rank `attach.rank`.
    ///
    /// # Errors
    /// The engine cannot be reached within the timeout, refuses this rank, or serves a job of another size than `attach.size`; or shared
    /// memory cannot be mapped.
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
            link.leave();
            return Err(Error::Environment { name: "WORLD_SIZE", problem });
        }
        link.open_queues()?;
        let alone = world.nodes == 1 && world.local_size == world.size;
        let local = match alone {
            true => {
                Local::attach(&link, world.local_rank, world.local_size, world.max_outstanding)?.map(Arc::new)
            }
            false => None,
        };
        if let Some(local) = &local {
            let local = Arc::downgrade(local);
            link.set_neighbours(local);
        }
        let (timeout_ms, staging, gpus) = (AtomicU32::new(0), Arc::default(), OnceLock::new());
        Ok(Self { link, rank: attach.rank, world, timeout_ms, staging, gpus, local })
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
    ///
    /// # Errors
    /// The engine refuses the buffer, for example because the rank's limit is reached, or is gone; or the memory cannot be mapped.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, Error> {
        Buffer::alloc(&self.link, bytes.max(1))
    }

    /// Begins a call on shared buffers.
    ///
    /// # Errors
    /// The operands do not fit the call, too many calls are under way, or the engine is gone. That the call itself failed is what
    /// [`Pending::wait`] says.
    pub fn post(&self, work: Work<'_>) -> Result<Pending, Error> {
        let limit = self.limit();
        if let Some(local) = self.local_for(&work.call) {
            return Ok(Pending::on_board(local.clone(), local.begin(&work, limit)?));
        }
        let span = |place: Option<BufferOffset<'_>>| place.map_or(Span::default(), |place| place.span());
        self.post_spans(&work, span(work.input), span(work.output))
    }

    /// Has the engine do a call on places as it names them; the buffers of `work` are held meanwhile.
    pub(crate) fn post_spans(&self, work: &Work<'_>, input: Span, output: Span) -> Result<Pending, Error> {
        let timeout_ms = self.timeout_ms.load(Relaxed);
        let id = self.link.submit_post(Post { call: work.call, input, output, timeout_ms })?;
        if let Some(local) = &self.local {
            // Who looks after calls may sleep on the board.
            local.ring();
        }
        Ok(Pending::at_engine(self.link.clone(), id, work, self.limit() + GRACE))
    }

    /// How long a call that begins now may take.
    pub(crate) fn limit(&self) -> Duration {
        let own = self.timeout_ms.load(Relaxed);
        Duration::from_millis(if own == 0 { self.world.op_timeout_ms } else { own }.into())
    }

    /// The board, if that is where `call` is done.
    pub(crate) fn local_for(&self, call: &Call) -> Option<&Arc<Local>> {
        self.local.as_ref().filter(|_| call.operation.is_collective())
    }

    /// Does a call on shared buffers: [`Client::post`] and [`Pending::wait`].
    ///
    /// # Errors
    /// As of [`Client::post`] and [`Pending::wait`].
    pub fn run(&self, work: Work<'_>) -> Result<(), Error> {
        self.post(work)?.wait()
    }

    /// How often an answer of the engine has come; for [`Client::wait_arrival`].
    pub fn arrivals(&self) -> u64 {
        let rung = self.local.as_ref().map_or(0, |local| local.rung());
        self.link.arrivals().wrapping_add(rung.into())
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
        let Some(local) = &self.local else { return self.link.wait_arrival(seen, deadline) };
        loop {
            let rung = local.rung();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.arrivals() != seen || left.is_zero() {
                return;
            }
            // One cannot sleep on the board and on the socket at once.
            let slice = if self.link.is_busy() { SHORT_SLICE } else { LONG_SLICE };
            local.sleep(rung, slice.min(left));
            if self.link.check().is_err() {
                return;
            }
        }
    }

    /// Nobody goes on before everybody is here.
    ///
    /// # Errors
    /// As of [`Client::run`]: a rank failed or left, or the time limit passed.
    pub fn barrier(&self) -> Result<(), Error> {
        self.run(Work { call: Call::BARRIER, input: None, output: None })
    }

    /// Bytes of each rail of this node since the engine started, and operations finished.
    ///
    /// # Errors
    /// The engine is gone, does not answer in time, or answers something else.
    pub fn counters(&self) -> Result<(Vec<RailBytes>, u64), Error> {
        let id = self.link.submit(&Request::Counters)?;
        match self.link.wait(id, "counters", self.link.control_timeout())?.reply {
            Reply::Counters { rails, operations } => Ok((rails, operations)),
            _ => Err(Error::Engine { cause: "asked for counters, got something else".into() }),
        }
    }

    /// Begins to leave without waiting for the engine's answer: for a process that is ending.
    pub fn leave(&self) {
        self.link.leave();
    }

    /// Leaves the job cleanly. The other ranks can go on with what this one has already contributed to, nothing more.
    ///
    /// # Errors
    /// The engine is gone or does not answer in time; the rank has left all the same.
    pub fn detach(self) -> Result<(), Error> {
        self.leave_and_wait()
    }

    /// As [`Client::detach`], for a client that others hold as well: their calls fail from now on.
    ///
    /// # Errors
    /// As of [`Client::detach`].
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
