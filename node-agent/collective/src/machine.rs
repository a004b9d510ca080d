//! The state machine of one node in one job: posts and frames in, frames and completions out.

use crate::call::Call;
use crate::error::{CallError, ConfigError, Failure, FrameError, RailCause};
use crate::header::Header;
use crate::memory::{Memory, Region};
use crate::shape::{Config, Node, Rail, Rank, Time};

/// Names one call of one local rank until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The end of one rank's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The call.
    pub ticket: Ticket,
    /// The rank that made it.
    pub rank: Rank,
    /// Success, or why not. After a success the machine touches the call's buffers no more.
    pub result: Result<(), Failure>,
}

/// A frame to be sent: give it to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The rail to use.
    pub rail: Rail,
    /// The node that gets it.
    pub peer: Node,
    /// Its header, complete.
    pub header: Header,
    /// Where its payload lies, if it has any: read it when it goes out, and ask [`Machine::withdrawn`] before.
    pub payload: Option<Region>,
    /// To be handed back by [`Machine::sent`].
    pub token: u64,
}

/// Where the payload of a frame that is coming in goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// Into this region, as long as [`Machine::landing`] says so.
    Into(Region),
    /// Nowhere: read it and throw it away.
    Discard,
}

/// One node's part in the collectives of a job.
#[derive(Debug)]
pub struct Machine {
    config: Config,
}

impl Machine {
    /// A machine with all rails down.
    ///
    /// # Errors
    /// A [`ConfigError`] names what cannot work.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Machine { config })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A local rank makes a call. Collectives of one rank count up in the order of their posts; the n-th of every
    /// rank belong together. `input` and `output` must stay valid until the completion.
    ///
    /// # Errors
    /// A [`CallError`]; then nothing was started and no sequence number was used.
    pub fn post(&mut self, rank: Rank, call: Call, input: Region, output: Region, now: Time) -> Result<Ticket, CallError> {
        let _ = (rank, call, input, output, now);
        Ok(Ticket(0))
    }

    /// A rail to a peer is up (connected and authenticated).
    pub fn rail_up(&mut self, rail: Rail, peer: Node, now: Time) {
        let _ = (rail, peer, now);
    }

    /// A rail to a peer is down.
    pub fn rail_down(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Time) {
        let _ = (rail, peer, cause, now);
    }

    /// A local rank left without taking leave (its process ended): everything it takes part in fails.
    pub fn rank_gone(&mut self, rank: Rank, now: Time) {
        let _ = (rank, now);
    }

    /// Fails everything, here and on all peers.
    pub fn stop(&mut self, reason: &str, now: Time) {
        let _ = (reason, now);
    }

    /// Why the communicator failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        None
    }

    /// The header of a frame came in on a rail: where does its payload go? Must be followed by
    /// [`Machine::received`] for the same frame before the next `begin` of that rail and peer, or by
    /// [`Machine::rail_down`].
    ///
    /// # Errors
    /// The peer violated the protocol: take the rail down with this cause.
    pub fn begin(&mut self, rail: Rail, peer: Node, header: &Header, now: Time) -> Result<Landing, FrameError> {
        let _ = (rail, peer, header, now);
        Ok(Landing::Discard)
    }

    /// The landing of the frame that is coming in now. Ask before every write: it turns to [`Landing::Discard`]
    /// when the operation has failed and its buffers are not the machine's any more.
    #[must_use]
    pub fn landing(&self, rail: Rail, peer: Node) -> Landing {
        let _ = (rail, peer);
        Landing::Discard
    }

    /// The frame that began on this rail is complete.
    ///
    /// # Errors
    /// The peer violated the protocol: take the rail down with this cause.
    pub fn received(&mut self, rail: Rail, peer: Node, memory: &mut impl Memory, now: Time) -> Result<(), FrameError> {
        let _ = (rail, peer, memory, now);
        Ok(())
    }

    /// The next frame to send, if any rail that suits it has room. Call until `None`.
    pub fn poll_transmit(&mut self, memory: &mut impl Memory, now: Time) -> Option<Transmit> {
        let _ = (memory, now);
        None
    }

    /// Whether the payload of a frame must not be read any more: a frame that was not begun is dropped, a rail
    /// with a frame that was begun is taken down with [`RailCause::Withdrawn`].
    #[must_use]
    pub fn withdrawn(&self, token: u64) -> bool {
        let _ = token;
        false
    }

    /// All bytes of a frame were handed to the rail: its payload is not read any more.
    pub fn sent(&mut self, rail: Rail, peer: Node, token: u64, now: Time) {
        let _ = (rail, peer, token, now);
    }

    /// Does a piece (about one chunk) of local copying or reducing. `true` if there may be more to do.
    pub fn work(&mut self, memory: &mut impl Memory, now: Time) -> bool {
        let _ = (memory, now);
        false
    }

    /// The next completed call.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        None
    }

    /// When [`Machine::tick`] wants to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        let _ = now;
    }
}
