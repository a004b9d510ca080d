//! What carries frames in place of connections: which rails and links, and the messages by which two ends join a channel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;

use mio::Interest;
use mio::unix::SourceFd;
use node_agent_collective::units::{Node, Rail};
use node_agent_ipc::pieces::{Source, Target};

use super::handshake::{Handshake, Seal, Side};
use super::stream::Stream;
use super::tokens::CARRIER;
use crate::carrier::{Carrier, ChannelId, MAX_OFFER, News};

/// An offer as it is sent: its length, the offer itself, and a proof that the peer made it for this connection.
const OFFER: usize = 2 + MAX_OFFER + Seal::BYTES;
/// A rail on which this many channels in a row failed before anything came in is carried by its connections, where that is allowed, until
/// its port comes back.
pub(super) const GIVE_UP: u32 = 3;
/// "My end of the channel takes what you send."
pub(super) const READY: [u8; 8] = *b"RLREADY!";

/// A carrier, and which links it carries.
#[derive(Debug)]
pub(super) struct Carriage {
    pub(super) carrier: Box<dyn Carrier>,
    /// Whether links that cannot be carried are refused.
    pub(super) only: bool,
    /// Times in a row that a channel could not be made, or failed before anything came in on it, by rail.
    pub(super) failures: BTreeMap<Rail, u32>,
    /// Channels on which nothing came in.
    pub(super) unheard: BTreeSet<ChannelId>,
    /// Where the connection of each channel is.
    pub(super) channels: BTreeMap<ChannelId, usize>,
    pub(super) news: Vec<News>,
}

/// A channel that is being joined.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) peer: Node,
    pub(super) generation: u32,
    pub(super) channel: ChannelId,
    pub(super) side: Side,
    pub(super) joined: bool,
}

impl Joining {
    pub(super) fn expects(&self) -> usize {
        if self.joined { READY.len() } else { OFFER }
    }
}

/// A channel as a stream of bytes.
pub(super) struct Carried<'a> {
    pub(super) carrier: &'a mut dyn Carrier,
    pub(super) channel: ChannelId,
}

impl Stream for Carried<'_> {
    fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
        self.carrier.send(self.channel, pieces)
    }

    fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
        self.carrier.receive(self.channel, pieces)
    }

    fn release_buffer(&self) -> u64 {
        self.carrier.release_buffer(self.channel)
    }
}

/// What follows from a message of the peer.
pub(super) enum Step {
    /// The exchange goes on with another message of the peer.
    More,
    /// The channel is joined at both ends.
    Done(Node, u32),
}

impl Carriage {
    pub(super) fn count_failure(&mut self, rail: Rail) {
        let failures = self.failures.entry(rail).or_default();
        *failures += 1;
        if *failures == GIVE_UP && !self.only {
            tracing::warn!(
                rail,
                "the rail goes over TCP until its port comes back: {GIVE_UP} channels in a row failed"
            );
        }
    }

    /// Something came in on a channel.
    pub(super) fn heard(&mut self, rail: Rail, channel: ChannelId) {
        if self.unheard.remove(&channel) {
            self.failures.remove(&rail);
        }
    }
}

/// Has a carrier's files end sleeps; those that do already go on doing so.
pub(super) fn watch(carrier: &dyn Carrier, registry: &mio::Registry) -> io::Result<()> {
    for file in carrier.files() {
        let new = registry.register(&mut SourceFd(&file.as_raw_fd()), CARRIER, Interest::READABLE);
        if let Err(error) = new
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
    }
    Ok(())
}

pub(super) fn sealed(
    handshake: &Handshake,
    party: &super::handshake::Party,
    side: Side,
    offer: &[u8],
) -> Vec<u8> {
    let mut message = vec![0; OFFER - Seal::BYTES];
    let length = offer.len().min(MAX_OFFER);
    message[..2].copy_from_slice(&(length as u16).to_le_bytes());
    message[2..2 + length].copy_from_slice(&offer[..length]);
    let seal = handshake.seal(party, side, &message);
    message.extend(seal.0);
    message
}

pub(super) fn opened<'a>(
    handshake: &Handshake,
    party: &super::handshake::Party,
    side: Side,
    message: &'a [u8],
) -> Result<&'a [u8], String> {
    let (body, seal) = message.split_at(OFFER - Seal::BYTES);
    if !handshake.is_sealed(party, side, body, seal) {
        return Err("an offer that the peer did not make for this connection".into());
    }
    let length = usize::from(u16::from_le_bytes([body[0], body[1]]));
    body[2..].get(..length).ok_or_else(|| format!("an offer of {length} bytes, {MAX_OFFER} are possible"))
}
