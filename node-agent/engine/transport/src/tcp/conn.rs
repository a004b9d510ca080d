//! An open link's two directions: frames into a sink, frames out of a queue. Generic over the stream, so that tests can
//! give bytes in any pieces.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{HEADER_BYTES, Header, RailCause, Transmit};
use node_agent_ipc::pieces::{Source, Target};

use super::stream::Stream;
use crate::transport::{Counters, Sink};

/// Bytes read ahead of what a payload needs: headers and small payloads that follow.
const AHEAD: usize = 8 << 10;
/// After a frame with a payload of this size only the next header is read ahead: the next payload is likely to be as
/// large, and had to be copied from the read-ahead to where it belongs.
const LARGE: usize = 4 << 10;
/// Bytes that one link may read in one turn, so that no link waits long for another.
const TURN: usize = 1 << 20;
/// A write of this many bytes at most shows how long it takes to hand over a frame.
const SMALL: usize = 4 << 10;
/// Pieces of one vectored write.
const PIECES: usize = 32;

/// How a turn of reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollOutcome {
    /// The stream has no more for now.
    Drained,
    /// There may be more.
    More,
}

/// The receiving direction of a connection: reads frames, their headers first, from the stream.
#[derive(Debug)]
pub struct Receiver {
    ahead: Box<[u8; AHEAD]>,
    start: usize,
    end: usize,
    /// The frame whose payload is coming in, and how much of it is here.
    current: Option<(Header, usize)>,
    /// The latest frame with a payload had a large one.
    large: bool,
}

/// Where a link's frames go.
pub struct FrameTarget<'a> {
    pub rail: Rail,
    pub peer: Node,
    pub counters: &'a mut Counters,
    pub sink: &'a mut dyn Sink,
}

impl Receiver {
    pub fn new() -> Self {
        Receiver { ahead: Box::new([0; AHEAD]), start: 0, end: 0, current: None, large: false }
    }

    /// Reads until the stream is drained or the turn is over, and reports every frame. A short read drains it, unless
    /// the end is known to be near (`closing`): no event would follow for an end that was there at the last one.
    ///
    /// # Errors
    /// The cause for which the connection is of no use any more: it ended or failed, or what came is no frame.
    pub fn read(
        &mut self,
        stream: &mut impl Stream,
        closing: bool,
        place: &mut FrameTarget<'_>,
    ) -> Result<PollOutcome, RailCause> {
        let mut budget = TURN;
        loop {
            self.parse(place)?;
            let (result, wanted) = self.fill(stream, place);
            match result {
                Ok(0) => return Err(RailCause::Closed),
                Ok(n) => {
                    place.counters.rx_bytes += n as u64;
                    self.parse(place)?;
                    if n < wanted && !closing {
                        return Ok(PollOutcome::Drained);
                    }
                    budget = budget.saturating_sub(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(PollOutcome::Drained),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cause(&error)),
            }
            if budget == 0 {
                return Ok(PollOutcome::More);
            }
        }
    }

    /// One read: the rest of the payload right where it belongs, and what follows it into the read-ahead, which is
    /// empty but for part of a header. Also gives how much was asked for.
    fn fill(&mut self, stream: &mut impl Stream, place: &mut FrameTarget<'_>) -> (io::Result<usize>, usize) {
        if self.start > 0 {
            self.ahead.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let Some((header, at)) = &mut self.current else {
            let most = if self.large { HEADER_BYTES } else { AHEAD };
            let free = &mut self.ahead[self.end..most];
            let wanted = free.len();
            let result = stream.receive(&mut [Target::from(free)]);
            self.end += result.as_ref().map_or(0, |&n| n);
            return (result, wanted);
        };
        // No payload is left in the read-ahead: `parse` has moved it.
        let left = header.length as usize - *at;
        let ahead = &mut self.ahead[self.end..];
        let (result, first, wanted) = match place.sink.landing(place.rail, place.peer, *at) {
            Some(landing) => {
                let first = landing.len().min(left);
                let landing = landing.first(first);
                // What follows may be read too only if this is the end of the payload.
                let most = if self.large { HEADER_BYTES } else { ahead.len() };
                let follow = if first == left { most } else { 0 };
                let mut pieces = [landing, Target::from(&mut ahead[..follow])];
                (stream.receive(&mut pieces), first, first + follow)
            }
            None => {
                let first = left.min(ahead.len());
                let result = stream.receive(&mut [Target::from(&mut ahead[..first])]);
                let n = result.as_ref().map_or(0, |&n| n);
                *at += n;
                return (result, first);
            }
        };
        let n = result.as_ref().map_or(0, |&n| n);
        *at += n.min(first);
        self.end += n.saturating_sub(first);
        (result, wanted)
    }

    /// Reports what the read-ahead holds.
    fn parse(&mut self, place: &mut FrameTarget<'_>) -> Result<(), RailCause> {
        loop {
            if let Some((header, at)) = &mut self.current {
                let length = header.length as usize;
                while *at < length && self.start < self.end {
                    let have = (self.end - self.start).min(length - *at);
                    let landing = place.sink.landing(place.rail, place.peer, *at);
                    let n = landing.map_or(have, |mut to| to.put(&self.ahead[self.start..self.start + have]));
                    *at += n;
                    self.start += n;
                }
                if *at < length {
                    return Ok(());
                }
                self.current = None;
                place.counters.rx_frames += 1;
                place.sink.received(place.rail, place.peer)?;
            }
            if self.end - self.start < HEADER_BYTES {
                return Ok(());
            }
            let header = Header::decode(&self.ahead[self.start..self.start + HEADER_BYTES])?;
            self.start += HEADER_BYTES;
            place.sink.begin(place.rail, place.peer, &header)?;
            if header.length > 0 {
                self.large = header.length as usize >= LARGE;
            }
            self.current = Some((header, 0));
        }
    }
}

#[derive(Debug)]
struct Outgoing {
    header: [u8; HEADER_BYTES],
    frame: Transmit,
    /// Bytes of header and payload that are gone.
    at: usize,
}

/// The sending direction of a connection: the frames that wait to be written to the stream.
#[derive(Debug, Default)]
pub struct Sender {
    queue: VecDeque<Outgoing>,
    /// Bytes that are gone.
    gone: u64,
    /// Frames that are gone and that the stream may still read where they lie, each with how many bytes were gone at its end.
    read: VecDeque<(u64, u64)>,
    /// The stream took less than it was given; it will say when it takes more.
    blocked: bool,
}

impl Sender {
    pub fn push(&mut self, frame: Transmit) {
        self.queue.push_back(Outgoing { header: frame.header.encode(), frame, at: 0 });
    }

    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Whether a write would be of use.
    pub fn wants(&self) -> bool {
        !self.blocked && !self.queue.is_empty()
    }

    /// Whether payloads of frames that are gone are still read.
    pub fn is_read(&self) -> bool {
        !self.read.is_empty()
    }

    /// Writes what the stream takes, and reports frames that are gone, and those that are not read any more.
    ///
    /// # Errors
    /// The cause for which the connection is of no use any more: it ended or failed.
    pub fn write(&mut self, stream: &mut impl Stream, place: &mut FrameTarget<'_>) -> Result<(), RailCause> {
        self.release_buffer(stream, place);
        while self.wants() {
            let (result, offered) = self.offer(stream, place)?;
            match result {
                Ok(n) => {
                    place.counters.tx_bytes += n as u64;
                    self.blocked = n < offered;
                    self.advance(n, stream.release_buffer(), place);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cause(&error)),
            }
        }
        Ok(())
    }

    /// One vectored write of as many frames as fit into it.
    fn offer(
        &mut self,
        stream: &mut impl Stream,
        place: &mut FrameTarget<'_>,
    ) -> Result<(io::Result<usize>, usize), RailCause> {
        let sink: &dyn Sink = place.sink;
        let withdrawn =
            |out: &Outgoing| out.frame.payload.is_some_and(|r| sink.payload(out.frame.token, r).is_none());
        if self.queue.front().is_some_and(|out| out.at > 0 && withdrawn(out)) {
            return Err(RailCause::Withdrawn);
        }
        self.queue.retain(|out| out.at > 0 || !withdrawn(out));
        let nothing = Source::from(&[][..]);
        let mut pieces = [nothing; PIECES];
        let (mut used, mut offered) = (0, 0);
        for out in self.queue.iter().take(PIECES / 2) {
            let payload = out.frame.payload.and_then(|r| sink.payload(out.frame.token, r)).unwrap_or(nothing);
            let header = Source::from(&out.header[out.at.min(HEADER_BYTES)..]);
            let payload = payload.after(out.at.saturating_sub(HEADER_BYTES));
            for piece in [header, payload] {
                if !piece.is_empty() {
                    pieces[used] = piece;
                    used += 1;
                    offered += piece.len();
                }
            }
        }
        if offered == 0 {
            return Ok((Ok(0), 0));
        }
        if offered > SMALL {
            return Ok((stream.send(&pieces[..used]), offered));
        }
        let start = Instant::now();
        let sent = stream.send(&pieces[..used]);
        let took = start.elapsed();
        if sent.as_ref().is_ok_and(|n| *n == offered) {
            place.sink.handed(took);
        }
        Ok((sent, offered))
    }

    /// This many bytes more are gone; of all that are, the first `release_buffer` are not read any more.
    fn advance(&mut self, mut n: usize, release_buffer: u64, place: &mut FrameTarget<'_>) {
        while let Some(out) = self.queue.front_mut() {
            let left = HEADER_BYTES + out.frame.header.length as usize - out.at;
            if n < left {
                out.at += n;
                self.gone += n as u64;
                return;
            }
            n -= left;
            self.gone += left as u64;
            let token = out.frame.token;
            self.queue.pop_front();
            place.counters.tx_frames += 1;
            if self.gone <= release_buffer {
                place.sink.sent(place.rail, place.peer, token);
            } else {
                place.sink.taken(place.rail, place.peer, token);
                self.read.push_back((self.gone, token));
            }
        }
    }

    fn release_buffer(&mut self, stream: &impl Stream, place: &mut FrameTarget<'_>) {
        if self.read.is_empty() {
            return;
        }
        let release_buffer = stream.release_buffer();
        while let Some(&(_, token)) = self.read.front().filter(|(end, _)| *end <= release_buffer) {
            self.read.pop_front();
            place.sink.release_buffer(place.rail, place.peer, token);
        }
    }
}

/// An operating system's error as the cause of a link's end.
pub fn cause(error: &io::Error) -> RailCause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            RailCause::Closed
        }
        _ => RailCause::Io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_collective::header::{Key, Kind};
    use node_agent_collective::{BufferId, Call, FrameError, Region};
    use proptest::prelude::*;

    /// Holds payloads to be sent, and takes what comes in, landing in pieces of `piece` bytes.
    #[derive(Default)]
    struct Desk {
        out: Vec<Vec<u8>>,
        withdrawn: Vec<u64>,
        current: Vec<u8>,
        got: Vec<(Header, Vec<u8>)>,
        header: Option<Header>,
        sent: Vec<u64>,
        piece: usize,
        discard: bool,
    }

    impl Sink for Desk {
        fn payload(&self, token: u64, region: Region) -> Option<Source<'_>> {
            (!self.withdrawn.contains(&token)).then(|| Source::from(&self.out[region.buffer.0 as usize][..]))
        }
        fn begin(&mut self, _: Rail, _: Node, header: &Header) -> Result<(), FrameError> {
            assert_eq!(self.header.replace(*header), None);
            self.current = vec![0; header.length as usize];
            Ok(())
        }
        fn landing(&mut self, _: Rail, _: Node, at: usize) -> Option<Target<'_>> {
            let end = (at + self.piece.max(1)).min(self.current.len());
            if self.discard { None } else { Some(Target::from(&mut self.current[at..end])) }
        }
        fn received(&mut self, _: Rail, _: Node) -> Result<(), FrameError> {
            self.got.push((self.header.take().unwrap(), std::mem::take(&mut self.current)));
            Ok(())
        }
        fn sent(&mut self, _: Rail, _: Node, token: u64) {
            self.sent.push(token);
        }
        fn rail_up(&mut self, _: Rail, _: Node, _: u32) {}
        fn rail_down(&mut self, _: Rail, _: Node, _: u32, _: RailCause) {}
        fn port_down(&mut self, _: Rail) {}
        fn port_up(&mut self, _: Rail) {}
    }

    /// A stream that takes and gives bytes in pieces of given sizes, and would block between them.
    #[derive(Default)]
    struct Pipe {
        bytes: VecDeque<u8>,
        sizes: Vec<usize>,
        turn: usize,
    }

    impl Pipe {
        fn size(&mut self) -> usize {
            self.turn += 1;
            if self.turn.is_multiple_of(3) || self.sizes.is_empty() {
                return 0;
            }
            self.sizes[self.turn % self.sizes.len()]
        }
    }

    impl Stream for Pipe {
        fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
            let offered: Vec<u8> = pieces.iter().flat_map(Source::to_vec).collect();
            let n = self.size().min(offered.len());
            if n == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.bytes.extend(&offered[..n]);
            Ok(n)
        }

        fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
            let wanted: usize = pieces.iter().map(Target::len).sum();
            let n = self.size().min(wanted).min(self.bytes.len());
            if n == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes: Vec<u8> = self.bytes.drain(..n).collect();
            let mut at = 0;
            pieces.iter_mut().for_each(|piece| at += piece.put(&bytes[at..]));
            Ok(n)
        }
    }

    /// Takes everything; gives what is left, and then its end.
    #[derive(Default)]
    struct Closed(VecDeque<u8>);

    impl Stream for Closed {
        fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
            pieces.iter().for_each(|piece| self.0.extend(piece.to_vec()));
            Ok(pieces.iter().map(Source::len).sum())
        }

        fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
            let mut bytes = self.0.make_contiguous();
            let before = bytes.len();
            for piece in pieces {
                let n = piece.put(bytes);
                bytes = &mut bytes[n..];
            }
            let n = before - bytes.len();
            self.0.drain(..n);
            Ok(n)
        }
    }

    fn frame(index: usize, length: usize) -> Transmit {
        let kind = Kind::Data { step: 0, block: 0, offset: index as u64 };
        let control = Header::control(kind, Key::Collective { seq: 0 }, 0, 0);
        let header = Header { call: Some(Call::BARRIER), length: length as u32, ..control };
        let payload = (length > 0).then(|| Region::new(BufferId(index as u64), 0, length));
        Transmit { rail: 0, peer: 1, header, payload, token: index as u64 }
    }

    proptest! {
        #[test]
        fn frames_survive_any_pieces(
            lengths in prop::collection::vec(prop_oneof![Just(0usize), 1usize..50, 1usize..30_000], 1..20),
            sizes in prop::collection::vec(1usize..20_000, 1..5), piece in 1usize..40_000, discard: bool,
        ) {
            let out: Vec<Vec<u8>> = lengths.iter().enumerate()
                .map(|(i, &n)| (0..n).map(|j| (i * 31 + j * 7) as u8).collect()).collect();
            let mut desk = Desk { out, piece, discard, ..Desk::default() };
            let (mut sender, mut receiver, mut pipe) = (Sender::default(), Receiver::new(), Pipe { sizes, ..Pipe::default() });
            let (mut tx, mut rx) = (Counters::default(), Counters::default());
            lengths.iter().enumerate().for_each(|(i, &n)| sender.push(frame(i, n)));
            while desk.got.len() < lengths.len() {
                sender.unblock();
                sender.write(&mut pipe, &mut FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk }).unwrap();
                receiver.read(&mut pipe, false, &mut FrameTarget { rail: 0, peer: 1, counters: &mut rx, sink: &mut desk }).unwrap();
            }
            for (i, (header, payload)) in desk.got.iter().enumerate() {
                prop_assert_eq!(*header, frame(i, lengths[i]).header);
                prop_assert!(discard || payload == &desk.out[i]);
            }
            prop_assert_eq!(desk.sent, (0..lengths.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!((tx.tx_bytes, tx.tx_frames), (rx.rx_bytes, rx.rx_frames));
        }

        #[test]
        fn random_bytes_end_the_link(bytes in prop::collection::vec(any::<u8>(), HEADER_BYTES..4000)) {
            let mut desk = Desk { piece: 100, ..Desk::default() };
            let mut rx = Counters::default();
            let mut pipe = Pipe { bytes: bytes.into(), sizes: vec![5000], turn: 0 };
            let mut place = FrameTarget { rail: 0, peer: 1, counters: &mut rx, sink: &mut desk };
            let mut receiver = Receiver::new();
            let end = (0..3).find_map(|_| receiver.read(&mut pipe, false, &mut place).err());
            prop_assert!(matches!(end, Some(RailCause::Protocol(FrameError::Magic(_)))));
        }
    }

    #[test]
    fn an_end_that_came_with_the_last_data_is_seen() {
        for closing in [false, true] {
            let mut desk = Desk { out: vec![vec![1; 1000]], piece: 1000, ..Desk::default() };
            let mut counters = Counters::default();
            let mut place = FrameTarget { rail: 0, peer: 1, counters: &mut counters, sink: &mut desk };
            let (mut sender, mut bytes) = (Sender::default(), Closed::default());
            sender.push(frame(0, 1000));
            sender.write(&mut bytes, &mut place).unwrap();
            // The data and the end are there together.
            let result = Receiver::new().read(&mut bytes, closing, &mut place);
            assert_eq!(result, if closing { Err(RailCause::Closed) } else { Ok(PollOutcome::Drained) });
            assert_eq!(desk.got.len(), 1, "what came before the end is taken");
        }
    }

    #[test]
    fn withdrawn_frames_are_dropped_or_end_the_link() {
        const FRAME: u64 = 1000 + HEADER_BYTES as u64;
        let mut desk = Desk { out: vec![vec![1; 1000], vec![2; 1000]], ..Desk::default() };
        let mut tx = Counters::default();
        let mut pipe = Pipe { sizes: vec![500], ..Pipe::default() };
        let mut sender = Sender::default();
        (0..2).for_each(|i| sender.push(frame(i, 1000)));
        sender
            .write(&mut pipe, &mut FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk })
            .unwrap();
        sender.unblock();
        desk.withdrawn = vec![1];
        while desk.sent.is_empty() {
            sender.unblock();
            sender
                .write(&mut pipe, &mut FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk })
                .unwrap();
        }
        assert_eq!((desk.sent.clone(), tx.tx_bytes), (vec![0], FRAME));
        sender.push(frame(0, 1000));
        desk.withdrawn = vec![0];
        sender.unblock();
        sender
            .write(&mut pipe, &mut FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk })
            .unwrap();
        assert_eq!(tx.tx_bytes, FRAME);
        desk.withdrawn = vec![];
        sender.push(frame(0, 1000));
        while tx.tx_bytes == FRAME {
            sender.unblock();
            sender
                .write(&mut pipe, &mut FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk })
                .unwrap();
        }
        desk.withdrawn = vec![0];
        sender.unblock();
        let mut place = FrameTarget { rail: 0, peer: 1, counters: &mut tx, sink: &mut desk };
        assert_eq!(sender.write(&mut pipe, &mut place), Err(RailCause::Withdrawn));
    }
}
