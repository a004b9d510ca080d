//! The trait that rails of every kind stand behind, and the sink that they report to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{FrameError, Header, RailCause, Region, Transmit};
use node_agent_ipc::pieces::{Source, Target};

/// Who takes what comes in and gives the bytes that go out. [`crate::Bridge`] is the one for a machine.
pub trait Sink {
    /// The payload of a frame that is going out; `None` if it was withdrawn.
    fn payload(&self, token: u64, region: Region) -> Option<Source<'_>>;

    /// A header came in.
    ///
    /// # Errors
    /// The link is closed with this cause.
    fn begin(&mut self, rail: Rail, peer: Node, header: &Header) -> Result<(), FrameError>;

    /// The bytes to be filled by the payload of the frame that is coming in, from `at` on (perhaps not all the rest); `None` if they are
    /// to be thrown away.
    fn landing(&mut self, rail: Rail, peer: Node, at: usize) -> Option<Target<'_>>;

    /// The frame that began is complete.
    ///
    /// # Errors
    /// The link is closed with this cause.
    fn received(&mut self, rail: Rail, peer: Node) -> Result<(), FrameError>;

    /// All bytes of a frame were handed to the rail, which does not read its payload any more.
    fn sent(&mut self, rail: Rail, peer: Node, token: u64);

    /// All bytes of a frame were handed to the rail, which still reads its payload where it lies: [`Sink::release_buffer`] follows, unless
    /// the link ends before.
    fn taken(&mut self, _rail: Rail, _peer: Node, _token: u64) {}

    /// The payload of a frame that was [`Sink::taken`] is not read any more.
    fn release_buffer(&mut self, rail: Rail, peer: Node, token: u64) {
        self.sent(rail, peer, token);
    }

    /// A frame of a few kilobytes at most was handed to the rail alone, in this time.
    fn handed(&mut self, _took: Duration) {}

    /// A link is connected and authenticated. `generation` names this life of it, equally at both ends; it rises with
    /// every attempt, so a later life of the same link has a greater one.
    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32);

    /// That life of a link is over: nothing that was handed to it is reported as [`Sink::sent`] from now on, nothing more of it
    /// comes in, and nothing reads payloads that were handed to it.
    fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause);

    /// This node's own port on a rail has lost its carrier, was switched off or is gone. The rail's links that were up
    /// are reported down with [`RailCause::NoCarrier`] right after this.
    fn port_down(&mut self, rail: Rail);

    /// The own port is back. Its links are dialed at once; each is reported when it is up.
    fn port_up(&mut self, rail: Rail);

    /// A source that the caller registered beside the rails is ready (see [`crate::tcp::TcpRails::registry`]).
    fn external(&mut self, _token: usize) {}

    /// Whether somebody has handed in work that gives no event; a wait for events ends when it is so.
    fn is_called(&self) -> bool {
        false
    }

    /// The transport is about to sleep, or awake again. Whoever hands in work while it sleeps makes an event of it; what was
    /// handed in before shows in [`Sink::is_called`], which the transport asks after this and before it sleeps.
    fn sleeps(&mut self, _asleep: bool) {}

    /// Whether only operations are under way that are done in a fraction of a millisecond, so that whatever comes next comes soon.
    fn is_small(&self) -> bool {
        false
    }

    /// How long what comes in may gather before the transport reads it, so that it wakes once for several frames. A transport
    /// whose waits cost nothing need not care.
    fn rest(&self) -> Duration {
        Duration::ZERO
    }
}

/// Bytes and frames of one link since its start, headers included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes sent, headers included.
    pub tx_bytes: u64,
    /// Bytes received, headers included.
    pub rx_bytes: u64,
    /// Number of frames sent.
    pub tx_frames: u64,
    /// Number of frames received.
    pub rx_frames: u64,
    /// Times that the link came up.
    pub ups: u64,
}

/// Ends a [`Transport::poll`] from another thread.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Waker(Arc::new(wake))
    }

    /// Makes the poll that runs now, or else the next one, return at once.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// The transport as a whole cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Waiting for events failed.
    #[error("cannot wait for rail events: {0}")]
    Poll(#[source] std::io::Error),
}

/// Rails to all peers.
pub trait Transport {
    /// Takes a frame in. It goes out with the next [`Transport::flush`] or [`Transport::poll`], in order on its
    /// link. The caller bounds what is on its way (a machine does so by its windows).
    fn send(&mut self, frame: Transmit);

    /// Writes what the rails take now.
    fn flush(&mut self, sink: &mut dyn Sink);

    /// Flushes, then waits for events until `timeout` (`None`: for ever; zero: not at all) and reports them.
    ///
    /// # Errors
    /// Only when waiting itself fails; the end of a link is an event.
    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), TransportError>;

    /// Something that ends a poll from another thread.
    fn waker(&self) -> Waker;

    /// What went over a link.
    fn counters(&self, rail: Rail, peer: Node) -> Counters;

    /// Takes a link down if that generation of it is up: bytes still queued are dropped and the connection is reset, so
    /// that the peer's end dies too; when this returns, nothing reads payloads that were handed to it. Reported by
    /// [`Sink::rail_down`] with the next flush or poll.
    fn close(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause);

    /// Tries to bring a link that is down up at once and forgets its pause, if this side is the one that dials.
    fn redial(&mut self, rail: Rail, peer: Node);
}
