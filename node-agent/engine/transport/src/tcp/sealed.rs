//! Protection of what a connection carries after the handshake: a record layer between frames and the stream of bytes. No IO of its
//! own, no clock.
//!
//! A record is the length of what it carries (4 bytes, little-endian), that, and a tag of 16 bytes. With [`Protection::Encrypted`] it
//! is AES-256-GCM, the length as associated data; with [`Protection::Integrity`] the same with all of it as associated data (GMAC):
//! readable, and not to be changed unseen. Each direction of each connection has a key of its own, made of the job's key, the whole
//! hello and both nonces; the nonce of a record is its number. So a record that was changed, left out, doubled, put elsewhere or
//! taken from another connection is known for it, and ends the connection. After [`RECORDS`] records both ends go on to the next key.
//!
//! Nothing leaves here before it is verified: payloads go through private memory on both sides, never straight from or to the ranks'.

use std::io;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use node_agent_ipc::pieces::{Source, Target};

use super::stream::Stream;

/// Most bytes that one record carries.
const MOST: usize = 64 << 10;
/// Bytes of a record's length.
const LENGTH: usize = 4;
/// Bytes of its tag.
const TAG: usize = 16;
/// Records under one key: 2^38 bytes at most, far below what AES-GCM allows (NIST SP 800-38D; 2^-57 after 2^36 blocks).
const RECORDS: u64 = 1 << 22;
/// What is read ahead of a first record; more once records are larger.
const FIRST: usize = 8 << 10;
/// The same of large records: two of them.
const AHEAD: usize = 2 * (LENGTH + MOST + TAG);

/// What is done to what goes over rails between servers, after the peers have proved the job's key to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Protection {
    /// Nothing: who is on the way can read and change it.
    #[default]
    None,
    /// What was changed on its way is known, and ends the link. Who is on the way can read it.
    Integrity,
    /// The same, and nobody else can read it.
    Encrypted,
}

impl Protection {
    /// The number that stands for this protection in a hello.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Integrity => 1,
            Self::Encrypted => 2,
        }
    }
}

fn no_key() -> io::Error {
    io::Error::other("the cryptographic library refuses a key")
}

fn expand(secret: &[u8; 32], usage: &'static [u8]) -> Result<[u8; 32], io::Error> {
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    let usage = [usage];
    let okm = prk.expand(&usage, HKDF_SHA256).map_err(|_| no_key())?;
    let mut out = [0; 32];
    okm.fill(&mut out).map_err(|_| no_key())?;
    Ok(out)
}

/// The keys of one direction, one after the other.
struct Keys {
    secret: [u8; 32],
    key: LessSafeKey,
    /// Of the next record under this key.
    number: u64,
    /// Records under each key.
    records: u64,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    fn new(secret: [u8; 32], records: u64) -> io::Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, &expand(&secret, b"record key")?).map_err(|_| no_key())?;
        Ok(Self { secret, key: LessSafeKey::new(key), number: 0, records })
    }

    /// The nonce of the next record; none is ever given twice under one key.
    fn nonce(&mut self) -> io::Result<Nonce> {
        if self.number >= self.records {
            *self = Self::new(expand(&self.secret, b"next secret")?, self.records)?;
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// What goes out: one record at a time.
#[derive(Debug)]
struct Out {
    keys: Keys,
    record: Vec<u8>,
    /// Bytes of it that are gone.
    gone: usize,
}

/// The receiving direction of a protected connection: opens records and hands on what was in them.
#[derive(Debug)]
struct In {
    keys: Keys,
    buffer: Vec<u8>,
    /// What is verified and not handed on yet.
    plain: std::ops::Range<usize>,
    /// Behind it and its tag: what has come and is not verified.
    start: usize,
    end: usize,
}

/// Both directions of one connection.
#[derive(Debug)]
pub struct Sealed {
    encrypts: bool,
    out: Out,
    inc: In,
}

impl Sealed {
    /// With the secrets of what this end sends and of what the other one does.
    ///
    /// # Errors
    /// The cryptographic library has no such key.
    pub fn new(protection: Protection, own: [u8; 32], other: [u8; 32]) -> io::Result<Self> {
        Self::with_records(protection, own, other, RECORDS)
    }

    fn with_records(
        protection: Protection,
        own: [u8; 32],
        other: [u8; 32],
        records: u64,
    ) -> io::Result<Self> {
        let out = Out { keys: Keys::new(own, records)?, record: Vec::new(), gone: 0 };
        let keys = Keys::new(other, records)?;
        let inc = In { keys, buffer: vec![0; FIRST], plain: 0..0, start: 0, end: 0 };
        Ok(Self { encrypts: protection == Protection::Encrypted, out, inc })
    }

    /// The stream that carries records, as one of what they carry.
    pub fn over<'a, S: Stream>(&'a mut self, stream: &'a mut S) -> Over<'a, S> {
        Over { sealed: self, stream }
    }
}

impl Out {
    /// Makes a record of the first bytes of the pieces from byte `at` of them on; gives how many.
    fn seal(&mut self, encrypts: bool, pieces: &[Source<'_>], at: usize) -> io::Result<usize> {
        let left = pieces.iter().map(Source::len).sum::<usize>().saturating_sub(at);
        let carried = left.min(MOST);
        self.record.clear();
        self.record.extend_from_slice(&(carried as u32).to_le_bytes());
        self.record.resize(LENGTH + carried, 0);
        let (mut skip, mut to) = (at, LENGTH);
        for piece in pieces {
            let n = skip.min(piece.len());
            skip -= n;
            let piece = piece.after(n);
            let room = &mut self.record[to..];
            let copied = piece.copy_to(room);
            if copied < piece.len().min(room.len()) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "memory of a GPU cannot be sealed"));
            }
            to += copied;
        }
        let nonce = self.keys.nonce()?;
        let (head, body) = self.record.split_at_mut(LENGTH);
        let tag = match encrypts {
            true => self.keys.key.seal_in_place_separate_tag(nonce, Aad::from(&*head), body),
            false => self.keys.key.seal_in_place_separate_tag(nonce, Aad::from(&self.record[..]), &mut []),
        };
        let tag = tag.map_err(|_| no_key())?;
        self.record.extend_from_slice(tag.as_ref());
        self.gone = 0;
        Ok(carried)
    }

    /// Whether all of the record is gone.
    fn flush(&mut self, stream: &mut impl Stream) -> io::Result<bool> {
        while self.gone < self.record.len() {
            match stream.send(&[Source::from(&self.record[self.gone..])]) {
                Ok(0) => return Ok(false),
                Ok(n) => self.gone += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// What became of a look for the next record.
enum Next {
    Record,
    Later,
    Ended,
}

impl In {
    /// Bytes of the record that begins, once its length is there.
    fn length(&self) -> io::Result<Option<usize>> {
        let Some(length) = self.buffer.get(self.start..self.end).and_then(|have| have.first_chunk()) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > MOST {
            return Err(changed());
        }
        Ok(Some(length))
    }

    /// Verifies the record that begins, if all of it is there.
    fn open(&mut self, encrypts: bool) -> io::Result<bool> {
        let Some(length) = self.length()? else { return Ok(false) };
        let whole = LENGTH + length + TAG;
        if self.end - self.start < whole {
            return Ok(false);
        }
        let nonce = self.keys.nonce()?;
        let record = &mut self.buffer[self.start..self.start + whole];
        let opened = if encrypts {
            let (head, sealed) = record.split_at_mut(LENGTH);
            self.keys.key.open_in_place(nonce, Aad::from(&*head), sealed).map(drop)
        } else {
            let (reported, tag) = record.split_at_mut(LENGTH + length);
            self.keys.key.open_in_place(nonce, Aad::from(&*reported), tag).map(drop)
        };
        opened.map_err(|_| changed())?;
        self.plain = self.start + LENGTH..self.start + LENGTH + length;
        self.start += whole;
        Ok(true)
    }

    /// The next record, from the stream if need be.
    fn next(&mut self, encrypts: bool, stream: &mut impl Stream) -> io::Result<Next> {
        loop {
            if self.open(encrypts)? {
                return Ok(Next::Record);
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.length()?.is_some_and(|length| LENGTH + length + TAG > self.buffer.len()) {
                self.buffer.resize(AHEAD, 0);
            }
            match stream.receive(&mut [Target::from(&mut self.buffer[self.end..])]) {
                Ok(0) => return Ok(Next::Ended),
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Later),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a record was changed, left out, doubled or moved on its way")
}

/// A protected connection as a stream.
pub struct Over<'a, S> {
    sealed: &'a mut Sealed,
    stream: &'a mut S,
}

impl<S: Stream> Over<'_, S> {
    /// Sends what was taken before and is not gone; whether that is all.
    ///
    /// # Errors
    /// The stream's.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.sealed.out.flush(self.stream)
    }
}

impl<S: Stream> Stream for Over<'_, S> {
    /// What was taken is gone for the caller: a part of the last record may wait here for room, until [`Over::flush`].
    fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
        let wanted: usize = pieces.iter().map(Source::len).sum();
        let mut taken = 0;
        while self.sealed.out.flush(self.stream)? {
            if taken == wanted {
                return Ok(taken);
            }
            taken += self.sealed.out.seal(self.sealed.encrypts, pieces, taken)?;
        }
        if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Gives less than there is room for only if the stream has no more now.
    fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
        let (mut given, mut at) = (0, 0);
        let mut pieces = pieces.iter_mut().filter(|piece| !piece.is_empty());
        let Some(mut piece) = pieces.next() else { return Ok(0) };
        let Sealed { encrypts, inc, .. } = &mut *self.sealed;
        loop {
            while !inc.plain.is_empty() {
                let n = piece.put_at(at, &inc.buffer[inc.plain.clone()]);
                inc.plain.start += n;
                (given, at) = (given + n, at + n);
                if at == piece.len() {
                    let Some(next) = pieces.next() else { return Ok(given) };
                    (piece, at) = (next, 0);
                }
            }
            match inc.next(*encrypts, self.stream) {
                Ok(Next::Record) => {}
                // The end is reported when nothing comes before it any more.
                Ok(Next::Ended) => return Ok(given),
                Ok(Next::Later) if given > 0 => return Ok(given),
                Ok(Next::Later) => return Err(io::ErrorKind::WouldBlock.into()),
                // The link ends, and with it what was given.
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Takes so many bytes of each call, and gives likewise; then it would block.
    #[derive(Default)]
    struct Pipe {
        bytes: VecDeque<u8>,
        sizes: Vec<usize>,
        turn: usize,
        ended: bool,
    }

    impl Pipe {
        fn size(&mut self) -> usize {
            self.turn += 1;
            match self.sizes.len() {
                0 => usize::MAX,
                _ if self.turn.is_multiple_of(3) => 0,
                n => self.sizes[self.turn % n],
            }
        }
    }

    impl Stream for Pipe {
        fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
            let offered: Vec<u8> = pieces.iter().flat_map(Source::to_vec).collect();
            let n = self.size().min(offered.len());
            self.bytes.extend(&offered[..n]);
            if n == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(n) }
        }

        fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
            let wanted: usize = pieces.iter().map(Target::len).sum();
            let n = self.size().min(wanted).min(self.bytes.len());
            if n == 0 && !(self.ended && self.bytes.is_empty()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes: Vec<u8> = self.bytes.drain(..n).collect();
            let mut at = 0;
            pieces.iter_mut().for_each(|piece| at += piece.put(&bytes[at..]));
            Ok(n)
        }
    }

    const BOTH: [Protection; 2] = [Protection::Integrity, Protection::Encrypted];

    fn ends(protection: Protection, records: u64) -> (Sealed, Sealed) {
        let (a, b) = ([1; 32], [2; 32]);
        let one = Sealed::with_records(protection, a, b, records).unwrap();
        (one, Sealed::with_records(protection, b, a, records).unwrap())
    }

    /// Each message as one record, as it is on its way.
    fn records(protection: Protection, messages: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut one, _) = ends(protection, RECORDS);
        let seal = |message: &&[u8]| {
            let mut pipe = Pipe::default();
            assert_eq!(one.over(&mut pipe).send(&[Source::from(*message)]).unwrap(), message.len());
            Vec::from(pipe.bytes)
        };
        messages.iter().map(seal).collect()
    }

    /// What comes out of these bytes before the end or an error.
    fn heard(protection: Protection, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let (_, mut other) = ends(protection, RECORDS);
        let mut pipe = Pipe { bytes: bytes.iter().copied().collect(), ended: true, ..Pipe::default() };
        let mut reported = Vec::new();
        loop {
            let mut byte = [0];
            match other.over(&mut pipe).receive(&mut [Target::from(&mut byte[..])]) {
                Ok(0) => return (reported, Ok(())),
                Ok(_) => reported.extend(byte),
                Err(error) => return (reported, Err(error)),
            }
        }
    }

    #[test]
    fn who_is_on_the_way_reads_nothing_where_it_is_encrypted() {
        let secret = b"the gradient of a layer, in the clear".repeat(3);
        let shows = |protection| {
            let [record] = &records(protection, &[&secret])[..] else { panic!() };
            record.windows(16).any(|bytes| secret.windows(16).any(|part| part == bytes))
        };
        assert_eq!(BOTH.map(shows), [true, false]);
    }

    #[test]
    fn what_was_changed_cut_doubled_moved_or_left_out_is_not_given() {
        for protection in BOTH {
            let sent: [&[u8]; 3] = [b"first", b"second", b"third"];
            let [a, b, c] = &records(protection, &sent)[..] else { panic!() };
            let good = [&a[..], b, c].concat();
            assert_eq!(heard(protection, &good).0, b"firstsecondthird");
            let refused = |bytes: &[u8], given: &[u8]| {
                let (reported, end) = heard(protection, bytes);
                assert_eq!(reported, given);
                assert_eq!(end.unwrap_err().kind(), io::ErrorKind::InvalidData);
            };
            refused(&[&a[..], a, b].concat(), b"first");
            refused(&[&a[..], c, b].concat(), b"first");
            refused(&[&b[..], c].concat(), b"");
            for bit in 0..8 * b.len() {
                let mut bytes = b.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let (reported, end) = heard(protection, &[&a[..], &bytes, c].concat());
                // A length that is greater than what follows waits for more, in vain.
                assert_eq!(reported, b"first", "bit {bit}");
                assert!(end.is_err() || bit < 8 * LENGTH, "bit {bit}");
            }
            // What is cut off never came: what is there of it is not given.
            for end in 0..b.len() {
                assert_eq!(heard(protection, &[&a[..], &b[..end]].concat()).0, b"first");
            }
            // Records of the other direction, or of another connection, are none.
            let (_, mut other) = ends(protection, RECORDS);
            let mut pipe = Pipe::default();
            other.over(&mut pipe).send(&[Source::from(&b"first"[..])]).unwrap();
            refused(&Vec::from(pipe.bytes), b"");
        }
        let [plain] = &records(Protection::Integrity, &[b"first"])[..] else { panic!() };
        assert!(heard(Protection::Encrypted, plain).1.is_err(), "nor those of another protection");
    }

    #[test]
    fn a_key_is_used_for_so_many_records_and_no_more() {
        for protection in BOTH {
            let (mut one, mut other) = ends(protection, 3);
            let mut pipe = Pipe::default();
            let mut sealed = Vec::new();
            for _ in 0..9 {
                one.over(&mut pipe).send(&[Source::from(&b"the same"[..])]).unwrap();
                sealed.push(Vec::from(std::mem::take(&mut pipe.bytes)));
            }
            let distinct: std::collections::BTreeSet<_> = sealed.iter().collect();
            assert_eq!((distinct.len(), one.out.keys.number), (9, 3), "a nonce or a key came twice");
            pipe.bytes = sealed.concat().into();
            let mut reported = [0; 72];
            assert_eq!(other.over(&mut pipe).receive(&mut [Target::from(&mut reported[..])]).unwrap(), 72);
            assert_eq!(reported.to_vec(), b"the same".repeat(9));
        }
    }

    proptest! {
        #[test]
        fn everything_comes_through_in_any_pieces(
            messages in prop::collection::vec((1_usize..200_000, 1_usize..5), 1..6),
            sizes in prop::collection::vec(1_usize..100_000, 1..5), rooms in prop::collection::vec(1_usize..90_000, 1..5),
            encrypts: bool,
        ) {
            let protection = BOTH[usize::from(encrypts)];
            let (mut one, mut other) = ends(protection, 5);
            let mut pipe = Pipe { sizes, ..Pipe::default() };
            let (mut sent, mut reported, mut room) = (Vec::new(), Vec::new(), 0);
            let mut take = |other: &mut Sealed, pipe: &mut Pipe, reported: &mut Vec<u8>| {
                room += 1;
                let mut bytes = vec![0; rooms[room % rooms.len()]];
                let (head, tail) = bytes.split_at_mut(rooms[room % rooms.len()] / 3);
                if let Ok(n) = other.over(pipe).receive(&mut [Target::from(head), Target::from(tail)]) {
                    reported.extend_from_slice(&bytes[..n]);
                }
            };
            for (length, parts) in messages {
                let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + sent.len()) as u8).collect();
                let mut at = 0;
                while at < length {
                    let pieces: Vec<Source<'_>> =
                        bytes[at..].chunks(length.div_ceil(parts)).map(Source::from).collect();
                    at += one.over(&mut pipe).send(&pieces).unwrap_or(0);
                    take(&mut other, &mut pipe, &mut reported);
                }
                sent.extend(bytes);
            }
            for _ in 0..1_000_000 {
                if reported.len() == sent.len() {
                    break;
                }
                one.over(&mut pipe).flush().unwrap();
                take(&mut other, &mut pipe, &mut reported);
            }
            prop_assert!(reported == sent, "{} of {}", reported.len(), sent.len());
        }

        #[test]
        fn random_bytes_are_never_given(bytes in prop::collection::vec(any::<u8>(), 0..400), encrypts: bool) {
            prop_assert_eq!(heard(BOTH[usize::from(encrypts)], &bytes).0, Vec::<u8>::new());
        }
    }
}
