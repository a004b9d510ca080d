//! What may carry the frames of links in place of the connections on which their peers proved the job's key: RDMA.
//!
//! A link is still dialed, accepted and authenticated as a connection, and the connection stays open beside it: its end is the
//! link's end. Only the frames go another way, a *channel*. Both ends offer a channel over the connection once the peer has
//! proved the key, so that no other program learns where memory may be written.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};
use node_agent_ipc::Region;
use node_agent_ipc::pieces::{Source, Target};

/// Most bytes of an offer.
pub const MAX_OFFER: usize = 222;
/// Bytes of entropy that a channel is made with.
pub const ENTROPY: usize = 32;

/// One life of a link that is carried. No two channels of a carrier have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// What a carrier reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Something came in on a channel.
    Readable(ChannelId),
    /// A channel takes more again.
    Writable(ChannelId),
    /// More of what was sent on a channel is not read any more, see [`Carrier::release_buffer`].
    LetGo(ChannelId),
    /// A channel has failed: nothing more goes out on it or comes in.
    Broken(ChannelId, RailCause),
    /// The port of a rail may have gone up or down.
    Port(Rail, bool),
    /// A rail whose device had failed can be carried again.
    Carries(Rail),
    /// There are other [`Carrier::files`].
    Files,
}

/// Carries channels. Nothing here blocks.
pub trait Carrier: fmt::Debug + Send {
    /// What it is, for people: `verbs`.
    fn name(&self) -> &'static str;

    /// Whether links of a rail can be carried.
    ///
    /// # Errors
    /// Why not.
    fn carries(&self, rail: Rail) -> Result<(), String>;

    /// Makes this node's end of a channel, and gives what the peer must know of it: at most [`MAX_OFFER`] bytes.
    ///
    /// # Errors
    /// What could not be had.
    fn open(
        &mut self,
        rail: Rail,
        peer: Node,
        entropy: &[u8; ENTROPY],
    ) -> Result<(ChannelId, Vec<u8>), String>;

    /// Takes what the peer offered; from now on the peer may send, and once it has said the same, this end may.
    ///
    /// # Errors
    /// What is wrong with the offer, or could not be done.
    fn join(&mut self, channel: ChannelId, offer: &[u8]) -> Result<(), String>;

    /// Takes memory of a GPU to be sent from, on all rails, as long as somebody else holds it.
    ///
    /// # Errors
    /// Why a rail cannot send from it; then none does.
    fn lend(&mut self, memory: &Arc<Region>) -> Result<(), String> {
        let _ = memory;
        Err(format!("{} cannot send from memory of a GPU", self.name()))
    }

    /// Ends a channel, whatever its state: nothing of it is reported or delivered after this, whatever its peer still writes, and nobody
    /// reads what was sent on it.
    fn end(&mut self, channel: ChannelId);

    /// How many of the bytes that were sent on a channel, from its first on, are not read any more where they lie: those were copied, or
    /// the device is done with them.
    fn release_buffer(&self, channel: ChannelId) -> u64;

    /// Takes bytes to be sent, in order; gives how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: [`News::Writable`] will follow. Any other: the channel has failed.
    fn send(&mut self, channel: ChannelId, pieces: &[Source<'_>]) -> io::Result<usize>;

    /// Gives bytes that came in, in order; says how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: [`News::Readable`] will follow. Any other: the channel has failed.
    fn receive(&mut self, channel: ChannelId, pieces: &mut [Target<'_>]) -> io::Result<usize>;

    /// Finds out what happened.
    fn check(&mut self, now: Instant, news: &mut Vec<News>);

    /// Has what happens from now on make one of the [`Carrier::files`] readable. What happened just before does not, so that
    /// whoever wants to sleep looks once more.
    fn arm(&mut self);

    /// When to look although nothing became readable.
    fn due(&self) -> Option<Instant>;

    /// Files that become readable when something happened. Where they become others, [`News::Files`] is reported.
    fn files(&self) -> Vec<BorrowedFd<'_>>;
}
