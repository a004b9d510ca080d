//! One channel: its queue pairs, the ring that the peer writes into, and the memory that it sends from.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};
use node_agent_ipc::Region;
use node_agent_ipc::pieces::{Source, Target};

use crate::ffi;
use crate::imm::Imm;
use crate::objects::{MOST_PARTS, Mr, Mw, Part, Qp, Write};
use crate::ring::{Incoming, Outgoing};

mod open;

pub(crate) use open::Ground;

/// Messages without bytes that may be under way beside those with.
const TELLINGS: u32 = 8;
/// How long a device may take for a message before the channel is given up. A device that works says sooner that a message failed;
/// Soft-RoCE was seen to say nothing.
const DEADLINE: Duration = Duration::from_secs(3);
/// Payloads of this many bytes are sent from where they are, if that can be registered; to copy less costs less than another part.
const IN_PLACE: usize = 4 << 10;

/// The size of rings, and how queue pairs are set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) pairs: usize,
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) traffic_class: u8,
    /// 4.096 us * 2^timeout until an unacknowledged packet is sent again.
    pub(crate) timeout: u8,
    /// How many times; 7 would be for ever on Soft-RoCE.
    pub(crate) retries: u8,
}

impl Shape {
    /// Work requests of one queue pair in each direction.
    pub(crate) fn depth(&self) -> u32 {
        self.slots + 2 * TELLINGS
    }
}

/// What the peer's offer says of its end of the channel.
#[derive(Debug)]
struct Peer {
    address: u64,
    /// The keys by which this end may write to the peer's ring (rkey), one for each queue pair.
    rkeys: Vec<u32>,
    slots: u32,
    slot_bytes: u32,
}

/// One channel: the queue pairs to a peer on one rail, and the rings of both directions.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) rail: Rail,
    pub(crate) node: Node,
    name: u32,
    shape: Shape,
    objects: Objects,
    first_packets: Vec<u32>,
    outgoing: Option<(Peer, Outgoing)>,
    incoming: Incoming,
    /// Messages without bytes that the device is not done with.
    reports: u32,
    /// Of the message that is being made; kept for its memory only.
    parts: Vec<Part>,
    /// The peer's ring was full when something was to be sent.
    pub(crate) blocked: bool,
    pub(crate) faults: Faults,
}

/// What the device holds for a channel, in the order in which it is given back: devices count on that.
#[derive(Debug)]
struct Objects {
    /// One for each queue pair, where the device has them.
    windows: Vec<Mw>,
    /// They hold the memory.
    pairs: Vec<Qp>,
    /// Memory that messages are sent from.
    from: Arc<Mr>,
    /// Memory that the peer writes into.
    ring: Arc<Mr>,
}

/// What speaks against a channel.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Since when the device has said nothing although messages are under way.
    silent_since: Option<Instant>,
    /// Why nothing passes any more.
    pub(crate) broken: Option<RailCause>,
    /// That it is broken has been reported.
    reported_broken: bool,
}

/// Stands for no number of a queue pair.
const NO_NUMBER: u64 = u32::MAX as u64;

/// Which message of a channel a completion is about: its number, or none for messages without bytes and for what comes in.
fn request_id(channel: u32, number: Option<u64>) -> u64 {
    u64::from(channel) << 32 | number.map_or(NO_NUMBER, |number| number % (1 << 15))
}

/// The channel that a completion belongs to.
pub(crate) fn channel_of(id: u64) -> u32 {
    (id >> 32) as u32
}

impl Channel {
    /// Takes bytes to be sent. `registered` gives the registration of a memory on this channel's rail; what has none is copied.
    pub(crate) fn send(
        &mut self,
        pieces: &[Source<'_>],
        registered: &mut dyn FnMut(&Arc<Region>) -> Option<Arc<Mr>>,
        now: Instant,
    ) -> io::Result<usize> {
        let mut pieces = pieces.iter().copied();
        let (mut current, mut sent) = (pieces.next(), 0);
        while current.is_some() {
            let Some((peer, outgoing)) = &self.outgoing else { break };
            let Some(number) = outgoing.next() else {
                self.blocked = true;
                break;
            };
            let most = peer.slot_bytes.min(self.shape.slot_bytes) as usize;
            let slot = (number % u64::from(self.shape.slots)) as usize * self.shape.slot_bytes as usize;
            let (mut length, mut copied) = (0, 0);
            self.parts.clear();
            while let Some(piece) = current.filter(|_| length < most && self.parts.len() < MOST_PARTS) {
                let piece_here = piece.first(most - length);
                let n = piece_here.len();
                match in_place(piece_here, registered) {
                    Some(part) => self.parts.push(part),
                    None if piece_here.is_on_device() && n > 0 => {
                        return Err(io::Error::other("memory of a GPU that was not lent to this rail"));
                    }
                    None => {
                        self.copy(slot + copied, piece_here)?;
                        copied += n;
                    }
                }
                length += n;
                let rest = piece.after(n);
                current = if rest.is_empty() { pieces.next() } else { Some(rest) };
            }
            if length == 0 {
                break;
            }
            self.post(number, length, now)?;
            sent += length;
        }
        if sent == 0 && self.blocked { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    /// Copies a part of the message that is being made into its slot, behind what was copied before.
    fn copy(&mut self, offset: usize, piece: Source<'_>) -> io::Result<()> {
        let length = piece.len();
        if length == 0 {
            // To a device a part of no bytes is one of 2^31 bytes.
            return Ok(());
        }
        self.objects.from.memory.target(offset, length).map_err(io::Error::other)?.put_from(0, piece);
        match self.parts.last_mut() {
            Some(last) if Arc::ptr_eq(&last.memory, &self.objects.from) => last.length += length,
            _ => self.parts.push(Part { memory: Arc::clone(&self.objects.from), offset, length }),
        }
        Ok(())
    }

    fn post(&mut self, number: u64, length: usize, now: Instant) -> io::Result<()> {
        let Some((peer, outgoing)) = &mut self.outgoing else { return Ok(()) };
        let in_place = self.parts.iter().any(|part| !Arc::ptr_eq(&part.memory, &self.objects.from));
        let there = number % u64::from(peer.slots) * u64::from(peer.slot_bytes);
        let pair = (number % self.objects.pairs.len() as u64) as usize;
        let write = Write {
            id: request_id(self.name, Some(number)),
            parts: &self.parts,
            remote: peer.address + there,
            rkey: peer.rkeys[pair],
            imm: self.incoming.beside(Some(number)).encode(),
        };
        let posted = self.objects.pairs[pair].write(&write);
        self.parts.clear();
        posted?;
        outgoing.posted(length as u32, in_place);
        self.faults.silent_since.get_or_insert(now);
        Ok(())
    }

    /// Gives bytes that came in.
    pub(crate) fn receive(&mut self, pieces: &mut [Target<'_>], now: Instant) -> io::Result<usize> {
        let mut got = 0;
        'pieces: for piece in pieces {
            let mut at = 0;
            while at < piece.len() {
                let Some(bytes) = self.incoming.front() else { break 'pieces };
                let length = bytes.length.min(piece.len() - at);
                let source =
                    self.objects.ring.memory.source(bytes.offset, length).map_err(io::Error::other)?;
                piece.put_from(at, source);
                self.incoming.read(length);
                at += length;
                got += length;
            }
        }
        self.report(now)?;
        if got == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(got) }
    }

    /// Tells the peer what was taken, if it could wait for it.
    fn report(&mut self, now: Instant) -> io::Result<()> {
        let Some((peer, _)) = &self.outgoing else { return Ok(()) };
        if !self.incoming.wants_to_report() || self.reports >= TELLINGS {
            return Ok(());
        }
        let write = Write {
            id: request_id(self.name, None),
            parts: &[],
            remote: peer.address,
            rkey: peer.rkeys[0],
            imm: self.incoming.beside(None).encode(),
        };
        self.objects.pairs[0].write(&write)?;
        self.reports += 1;
        self.faults.silent_since.get_or_insert(now);
        Ok(())
    }

    /// A message is done, or failed: either way the device does not read it any more.
    pub(crate) fn sent(&mut self, completion: &ffi::Wc, now: Instant) {
        let Some((_, outgoing)) = &mut self.outgoing else { return };
        match completion.wr_id & u64::from(u32::MAX) {
            NO_NUMBER => self.reports = self.reports.saturating_sub(1),
            low => {
                outgoing.completed(low as u16);
                if let Some(pair) =
                    self.objects.pairs.iter_mut().find(|pair| pair.number() == completion.qp_num)
                {
                    pair.done(completion.wr_id);
                }
            }
        }
        if completion.status != ffi::WC_SUCCESS {
            return self.fail(completion);
        }
        let under_way = outgoing.is_under_way() || self.reports > 0;
        self.faults.silent_since = under_way.then_some(now);
        // What was taken meanwhile may have waited for this.
        if let Err(error) = self.report(now) {
            self.faults.broken.get_or_insert(RailCause::Io(error.to_string()));
        }
    }

    /// A message came in; true if it has bytes.
    pub(crate) fn came(&mut self, completion: &ffi::Wc) -> bool {
        if completion.status != ffi::WC_SUCCESS {
            self.fail(completion);
            return false;
        }
        if let Some(pair) = self.objects.pairs.iter().find(|pair| pair.number() == completion.qp_num)
            && let Err(error) = pair.expect(request_id(self.name, None))
        {
            self.faults.broken.get_or_insert(RailCause::Io(format!("a receive cannot be posted: {error}")));
        }
        match self.take(completion) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.faults
                    .broken
                    .get_or_insert(RailCause::Io(format!("the peer breaks the rules: {error}")));
                false
            }
        }
    }

    fn take(&mut self, completion: &ffi::Wc) -> Result<bool, crate::ring::RingError> {
        let bits = u32::from_be(completion.imm_data);
        let wrong = crate::ring::RingError::Immediate(bits);
        let imm =
            Imm::decode(bits).filter(|_| completion.opcode == ffi::WC_RECV_RDMA_WITH_IMM).ok_or(wrong)?;
        if let Some((_, outgoing)) = &mut self.outgoing {
            outgoing.peer_took(imm.taken)?;
        }
        if let Some(number) = imm.number {
            self.incoming.arrived(number, completion.byte_len)?;
        }
        Ok(imm.number.is_some())
    }

    /// Whether something that waited can be sent now; says so once.
    pub(crate) fn unblocks(&mut self) -> bool {
        let free = self.outgoing.as_ref().is_some_and(|(_, outgoing)| outgoing.next().is_some());
        free && std::mem::take(&mut self.blocked)
    }

    /// Why the channel is broken; says so once.
    pub(crate) fn report_broken(&mut self) -> Option<RailCause> {
        let cause = self.faults.broken.clone().filter(|_| !self.faults.reported_broken)?;
        self.faults.reported_broken = true;
        Some(cause)
    }

    fn fail(&mut self, completion: &ffi::Wc) {
        // The first one says most: what follows is flushed.
        let why = status_name(completion.status);
        self.faults
            .broken
            .get_or_insert_with(|| RailCause::Io(format!("{why} (status {})", completion.status)));
    }

    /// When the device has been silent for too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.faults.silent_since.filter(|_| self.faults.broken.is_none()).map(|since| since + DEADLINE)
    }

    /// Gives the channel up if the device has been silent for too long.
    pub(crate) fn check(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.faults.broken = Some(RailCause::Silent(DEADLINE));
        }
    }

    /// How many bytes that were sent, from the first on, are not read any more where they lie.
    pub(crate) fn release_buffer(&self) -> u64 {
        self.outgoing.as_ref().map_or(0, |(_, outgoing)| outgoing.release_buffer())
    }

    /// Whether the device reads something where its owner has it.
    pub(crate) fn reads(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|(_, outgoing)| outgoing.reads())
    }

    /// How many windows the ring has.
    pub(crate) fn windows(&self) -> usize {
        self.objects.windows.len()
    }

    /// Whether windows of the ring are not in force yet. Nothing else is under way then.
    pub(crate) fn is_binding(&self) -> bool {
        !self.objects.windows.is_empty() && self.reports > 0
    }

    /// Has the device give up all that is under way. It says so of each message once it does not read it any more.
    pub(crate) fn stop(&mut self) {
        let attributes = ffi::QpAttr { qp_state: ffi::QPS_ERR, ..Default::default() };
        for pair in &self.objects.pairs {
            if let Err(error) = pair.modify(&attributes, ffi::QP_STATE) {
                tracing::debug!(rail = self.rail, peer = self.node, %error, "a queue pair cannot be stopped");
            }
        }
    }

    /// Messages that came twice.
    pub(crate) fn duplicates(&self) -> u64 {
        self.incoming.duplicates
    }
}

/// A piece as it lies in its owner's memory, if that is worth it and the device may read it there. What is on a GPU cannot be copied by
/// the processor.
fn in_place(piece: Source<'_>, registered: &mut dyn FnMut(&Arc<Region>) -> Option<Arc<Mr>>) -> Option<Part> {
    let worth = |memory: &Region| piece.len() >= IN_PLACE || (memory.device().is_some() && !piece.is_empty());
    let (memory, offset) = piece.owner().filter(|(memory, _)| worth(memory))?;
    Some(Part { memory: registered(memory)?, offset, length: piece.len() })
}

/// Completion statuses in words (`enum ibv_wc_status`).
fn status_name(status: u32) -> &'static str {
    let names: BTreeMap<u32, &str> = BTreeMap::from([
        (2, "the device could not send"),
        (5, "flushed: the queue pair had failed"),
        (10, "the peer's memory may not be written so"),
        (12, "no acknowledgement, after all retries"),
        (13, "the peer has no receive posted, after all retries"),
    ]);
    names.get(&status).copied().unwrap_or("the device reports an error")
}
