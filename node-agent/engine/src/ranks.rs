//! The ranks' door: who attaches, which buffers they hold, and what happens when they leave.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use node_agent_collective::Notification;
use node_agent_collective::units::Time;
use node_agent_ipc::{Channel, Listener, PeerIdentity, Received, Region, Request, SocketError};

use crate::board::{Shared, raise_descriptor_limit};
use crate::callers::Callers;
use crate::deadline::after;
use crate::tokens::ByToken;

/// How long a connection may stay without saying hello.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before replies that a rank's socket could not hold are tried again.
pub(crate) const AGAIN: Duration = Duration::from_millis(1);
/// Replies that may wait for a rank beside those to its calls.
pub(crate) const SPARE_REPLIES: usize = 64;
/// How long a rank that has detached may take to read what was sent to it before.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections beside those of the attached ranks: late comers and strangers.
pub(crate) const SPARE_CONNECTIONS: usize = 32;

/// One connection of a process that is or wants to be a rank.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    pub(crate) peer: PeerIdentity,
    /// Which rank it is, once it has said hello.
    pub(crate) rank: Option<u32>,
    /// When it must have said hello.
    pub(crate) hello_by: Time,
    pub(crate) buffers: BTreeMap<u32, RankBuffer>,
    pub(crate) buffer_bytes: u64,
    /// Bytes of GPUs among them, which are not counted with those.
    pub(crate) gpu_bytes: u64,
    pub(crate) next_buffer: u32,
    /// Calls under way, and bytes of their operands.
    pub(crate) calls: u32,
    pub(crate) operand_bytes: u64,
    /// What its socket could not hold yet.
    pub(crate) late: VecDeque<Late>,
    /// How much of that may be there beside replies to its calls.
    pub(crate) spare: usize,
    /// It takes notifications of other ranks.
    pub(crate) subscribed: bool,
    /// A notification of its own that there is no room for: nothing more is read of it until there is.
    pub(crate) stuck: Option<Notification>,
    /// What it said behind that before it ended.
    pub(crate) behind: VecDeque<Received>,
}

impl Connection {
    /// The next packet, or `None` if none is waiting.
    pub(crate) fn receive(&mut self) -> Result<Option<Received>, SocketError> {
        self.behind.pop_front().map_or_else(|| self.channel.receive(), |packet| Ok(Some(packet)))
    }

    /// Where its process has ended without taking its leave, though nothing is read of it at the moment: how its end shows.
    pub(crate) fn ended_while_stuck(&mut self) -> Option<SocketError> {
        if !self.channel.is_closed() {
            return None;
        }
        loop {
            match self.channel.receive() {
                // As many as a socket holds.
                Ok(Some(packet)) => self.behind.push_back(packet),
                Ok(None) => return None,
                Err(error) => {
                    let last = self.behind.back().map(|last| Request::decode(&last.packet));
                    return (!matches!(last, Some(Ok((_, Request::Detach))))).then_some(error);
                }
            }
        }
    }
}

/// A packet for a rank whose socket was full.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) packet: Vec<u8>,
    /// The memory file that goes with it.
    pub(crate) file: Option<Arc<OwnedFd>>,
}

/// A rank that has detached and has not read the answer yet.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) channel: Channel,
    pub(crate) late: VecDeque<Late>,
    /// When nobody waits for it any more.
    pub(crate) until: Time,
}

/// A buffer of a rank.
#[derive(Debug)]
pub(crate) struct RankBuffer {
    pub(crate) region: Arc<Region>,
    /// Its memory file, for the other ranks of the server; none of memory of a GPU.
    pub(crate) file: Option<Arc<OwnedFd>>,
}

impl Late {
    /// Sends it, if the socket has room.
    pub(crate) fn send(&self, channel: &Channel) -> Result<(), SocketError> {
        channel.send(&self.packet, self.file.as_ref().map(AsFd::as_fd))
    }
}

impl Connection {
    /// A name for the next buffer.
    pub(crate) fn name(&mut self) -> u32 {
        // Names are not used again while another buffer has them.
        while self.next_buffer == 0 || self.buffers.contains_key(&self.next_buffer) {
            self.next_buffer = self.next_buffer.wrapping_add(1);
        }
        let name = self.next_buffer;
        self.next_buffer = name.wrapping_add(1);
        name
    }

    pub(crate) fn keep(&mut self, name: u32, held: RankBuffer) {
        *self.bytes_like(&held) += held.region.len() as u64;
        self.buffers.insert(name, held);
    }

    /// The count that a buffer's bytes belong to.
    pub(crate) fn bytes_like(&mut self, held: &RankBuffer) -> &mut u64 {
        if held.region.device().is_some() { &mut self.gpu_bytes } else { &mut self.buffer_bytes }
    }

    /// The buffer with this name.
    pub(crate) fn buffer(&self, name: u32) -> Option<&Arc<Region>> {
        self.buffers.get(&name).map(|held| &held.region)
    }
}

/// All connections at the ranks' socket.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) listener: Listener,
    pub(crate) connections: ByToken<Connection>,
    pub(crate) leaving: Vec<Leaving>,
    /// The queues of those that have some.
    pub(crate) callers: Callers,
    pub(crate) attached: BTreeMap<u32, usize>,
    /// Collectives that each local rank has posted.
    pub(crate) posted: BTreeMap<u32, u64>,
    /// Ranks that detached and have not come back.
    pub(crate) detached: BTreeSet<u32>,
    /// Ranks that ended without detaching, with what is known of it.
    pub(crate) lost: BTreeMap<u32, String>,
    /// Where ranks of one server meet without the engine.
    pub(crate) shared: Shared,
}

impl Ranks {
    /// Opens the socket. It is its owner's alone, so it is given to the ranks' user where that is another one.
    pub(crate) fn bind(path: &Path, rank_uid: Option<u32>) -> Result<Self, SocketError> {
        raise_descriptor_limit();
        let listener = Listener::bind(path)?;
        if let Some(uid) = rank_uid {
            let failed =
                |source| SocketError::System { action: "give to the ranks' user", path: path.into(), source };
            std::os::unix::fs::chown(path, Some(uid), None).map_err(failed)?;
        }
        Ok(Self {
            listener,
            connections: ByToken::new(),
            leaving: Vec::new(),
            callers: Callers::default(),
            attached: BTreeMap::new(),
            posted: BTreeMap::new(),
            detached: BTreeSet::new(),
            lost: BTreeMap::new(),
            shared: Shared::default(),
        })
    }

    /// Keeps a buffer for a connection; gives its name, or 0 where the connection is gone.
    pub(crate) fn keep(&mut self, token: usize, held: RankBuffer) -> u32 {
        let Some(connection) = self.connections.get_mut(&token) else { return 0 };
        let name = connection.name();
        connection.keep(name, held);
        name
    }

    /// How many buffers a connection holds, and bytes of those on GPUs.
    pub(crate) fn held(&self, token: usize) -> (u32, u64) {
        let count = |c: &Connection| u32::try_from(c.buffers.len()).unwrap_or(u32::MAX);
        self.connections.get(&token).map_or((0, 0), |c| (count(c), c.gpu_bytes))
    }

    /// Ranks that are attached now.
    pub(crate) fn attached(&self) -> Vec<u32> {
        self.attached.keys().copied().collect()
    }

    /// What is known of ranks that were lost.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &String> {
        self.lost.values()
    }

    /// What is known of the end of `rank`.
    pub(crate) fn lost_text(&self, rank: Option<u32>) -> Option<&String> {
        self.lost.get(&rank?)
    }

    /// When the next silent connection is to be closed.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.connections.values().filter(|c| c.rank.is_none()).map(|c| c.hello_by).min()
    }

    /// When replies are to be tried again that a socket could not hold.
    pub(crate) fn next_try(&self, now: Time) -> Option<Time> {
        let late = self.connections.values().any(|connection| !connection.late.is_empty());
        (late || !self.leaving.is_empty()).then(|| after(now, AGAIN))
    }

    /// Sends a rank that has detached what waits for it: now, or as its socket gets room.
    pub(crate) fn leave(&mut self, channel: Channel, late: VecDeque<Late>, now: Time) {
        if self.leaving.len() >= SPARE_CONNECTIONS {
            self.leaving.remove(0);
        }
        self.leaving.push(Leaving { channel, late, until: after(now, LEAVE_TIMEOUT) });
        self.send_leaving(now);
    }

    /// Tries again what ranks that have detached could not be sent.
    pub(crate) fn send_leaving(&mut self, now: Time) {
        self.leaving.retain_mut(|leaving| {
            let sent = send_waiting(&leaving.channel, &mut leaving.late);
            sent.is_ok() && !leaving.late.is_empty() && leaving.until > now
        });
    }

    /// A rank posted one more collective. Gives a detached rank that this collective would wait for in vain.
    pub(crate) fn count_collective(&mut self, rank: u32) -> Option<u32> {
        let posted = self.posted.entry(rank).or_default();
        *posted += 1;
        let reached = *posted;
        self.detached.iter().copied().find(|gone| self.posted_by(*gone) < reached)
    }

    pub(crate) fn posted_by(&self, rank: u32) -> u64 {
        self.posted.get(&rank).copied().unwrap_or(0)
    }

    /// Whether somebody already waits for more collectives than `rank` has posted.
    pub(crate) fn is_awaited(&self, rank: u32) -> bool {
        self.posted.values().any(|posted| *posted > self.posted_by(rank))
    }
}

/// Sends what waits for a socket, in order, as far as there is room; an error says that the rank does not take it.
pub(crate) fn send_waiting(channel: &Channel, late: &mut VecDeque<Late>) -> Result<(), String> {
    while let Some(first) = late.front() {
        match first.send(channel) {
            Err(SocketError::Full) => return Ok(()),
            sent => taken(sent)?,
        }
        late.pop_front();
    }
    Ok(())
}

/// Whether a rank can still be talked to after this attempt. One that has closed its side may have said why before, in what
/// is still to be read: its end is found there.
pub(crate) fn taken(sent: Result<(), SocketError>) -> Result<(), String> {
    match sent {
        Ok(()) | Err(SocketError::Closed) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_rank_is_missed_when_others_go_on() {
        let room = tempfile::tempdir().unwrap();
        let mut ranks = Ranks::bind(&room.path().join("s"), None).unwrap();
        assert_eq!(ranks.count_collective(0), None);
        assert!(ranks.is_awaited(1));
        assert_eq!(ranks.count_collective(1), None);
        assert!(!ranks.is_awaited(1));
        ranks.detached.insert(1);
        assert_eq!(ranks.count_collective(0), Some(1));
    }
}
