//! The queues between a rank and its engine: calls go in and their completions come back through shared memory, without a
//! system call while both are awake.
//!
//! Everything else, failures with their texts included, goes over the socket, which also wakes whoever sleeps; completions
//! that the rank does not take in time go there too, and end where the socket's room does. The engine trusts nothing in
//! here: counters are checked, entries are copied before they are read ([`entry`]), and what a rank scribbles harms that
//! rank alone.

mod protocol;

use std::os::fd::{AsFd, OwnedFd};

use crate::codec::ProtocolError;
use crate::post::Post;
use crate::region::{Region, RegionError};
pub use protocol::{Absurd, Acceptor, Completer, ENTRY, Lines, Pushed, Submitter, Taker};
use protocol::{EngineLine, RankLine, Slot};

/// The atomics that the protocol is written with; its model has others under the same names.
mod sync {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use sync::AtomicU64;

/// Entries of either queue: more than the calls that an engine lets a rank have under way, unless it is configured otherwise.
const ENTRIES: u32 = 128;
const LINE: usize = 128;
/// Submitted entries come after the two lines, completed ones after those.
const SLOTS: usize = 2 * LINE;
const COMPLETIONS: usize = SLOTS + ENTRIES as usize * size_of::<Slot>();
const BYTES: usize = COMPLETIONS + ENTRIES as usize * size_of::<AtomicU64>();
const _: () = assert!(ENTRIES.is_power_of_two() && size_of::<RankLine>() == LINE);
const _: () = assert!(size_of::<EngineLine>() == LINE && size_of::<Slot>() == ENTRY * size_of::<u64>());

/// Mapped queues of one rank.
#[derive(Debug)]
pub struct Queues {
    region: Region,
}

impl Queues {
    /// Makes empty queues in a new memory file, which is for the rank to map.
    ///
    /// # Errors
    /// The memory file cannot be made or mapped.
    pub fn create() -> Result<(Self, OwnedFd), RegionError> {
        let (region, file) = Region::create(BYTES as u64)?;
        Ok((Self { region }, file))
    }

    /// Maps the queues that the engine has made.
    ///
    /// # Errors
    /// The memory file is too short or not sealed, or cannot be mapped.
    pub fn open(file: impl AsFd) -> Result<Self, RegionError> {
        Ok(Self { region: Region::open(file, BYTES as u64)? })
    }

    /// The memory that they are in.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// # Safety
    /// `offset` is a multiple of the alignment of `T`, `offset + size_of::<T>()` is at most [`BYTES`], and `T` consists of
    /// atomics only.
    unsafe fn line<T>(&self, offset: usize) -> &T {
        // SAFETY: the region has `BYTES` bytes, is mapped while `self` lives, begins at a page boundary, and its file cannot
        // shrink. Atomics take any bit pattern, and the other process reaches these bytes by atomics of the same size too
        // (what one that breaks this writes is some value, and the engine trusts none).
        unsafe { &*self.region.as_ptr().add(offset).cast::<T>() }
    }
}

/// The place in the ring of entry `number`.
const fn place(number: u32) -> usize {
    (number % ENTRIES) as usize
}

impl Lines for Queues {
    const ENTRIES: u32 = ENTRIES;

    fn rank(&self) -> &RankLine {
        // SAFETY: the first line.
        unsafe { self.line(0) }
    }

    fn engine(&self) -> &EngineLine {
        // SAFETY: the second line.
        unsafe { self.line(LINE) }
    }

    fn slot(&self, number: u32) -> &Slot {
        // SAFETY: `place` is below ENTRIES, and so many slots begin at SLOTS, a multiple of their alignment.
        unsafe { self.line(SLOTS + place(number) * size_of::<Slot>()) }
    }

    fn completion(&self, number: u32) -> &AtomicU64 {
        // SAFETY: `place` is below ENTRIES, and so many words begin at COMPLETIONS, a multiple of their alignment.
        unsafe { self.line(COMPLETIONS + place(number) * size_of::<AtomicU64>()) }
    }
}

/// The entry that submits `post` under `id`.
pub fn to_entry(id: u64, post: &Post) -> [u64; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[0] = id;
    entry[1..].copy_from_slice(&post.pack::<{ ENTRY - 1 }>());
    entry
}

/// Reads what [`to_entry`] made: the id, which is never 0, and the post.
///
/// # Errors
/// A word holds a value that its field cannot have, or the id is 0.
pub fn entry(words: &[u64; ENTRY]) -> Result<(u64, Post), ProtocolError> {
    let [id, post @ .., end] = words;
    for (field, found, wrong) in [("id", *id, *id == 0), ("end of entry", *end, *end != 0)] {
        if wrong {
            return Err(ProtocolError::Field { field, found });
        }
    }
    Ok((*id, Post::unpack(post)?))
}

impl From<Absurd> for ProtocolError {
    fn from(absurd: Absurd) -> Self {
        ProtocolError::Field { field: "submitted", found: absurd.claimed.into() }
    }
}

#[cfg(test)]
mod tests {
    use node_agent_collective::{Call, Dtype, Operation, ReduceOp};

    use super::*;
    use crate::post::Span;

    /// Queues on the heap, for Miri, which has no memory files.
    #[derive(Default)]
    struct Heap {
        rank: RankLine,
        engine: EngineLine,
        slots: [Slot; 4],
        completions: [AtomicU64; 4],
    }

    impl Lines for Heap {
        const ENTRIES: u32 = 4;
        fn rank(&self) -> &RankLine {
            &self.rank
        }
        fn engine(&self) -> &EngineLine {
            &self.engine
        }
        fn slot(&self, number: u32) -> &Slot {
            &self.slots[number as usize % 4]
        }
        fn completion(&self, number: u32) -> &AtomicU64 {
            &self.completions[number as usize % 4]
        }
    }

    fn post(count: u64) -> Post {
        let call = Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
        Post {
            call,
            input: Span { buffer: 3, offset: 8 },
            output: Span { buffer: 4, offset: 0 },
            timeout_ms: 5,
        }
    }

    /// Every call comes out whole and in order at the other side, and so do the answers.
    #[test]
    fn calls_and_completions_pass_in_order() {
        let heap = Heap::default();
        let calls = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut acceptor, mut completer) = (Acceptor::default(), Completer::default());
                for expected in 1..=calls {
                    let words = loop {
                        match acceptor.accept(&heap).unwrap() {
                            Some(words) => break words,
                            None => std::thread::yield_now(),
                        }
                    };
                    assert_eq!(entry(&words), Ok((expected, post(expected * 7))));
                    while completer.push(&heap, expected) == Pushed::Full {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut submitter, mut taker) = (Submitter::default(), Taker::default());
            let (mut next, mut answered) = (1, 0);
            while answered < calls {
                if next <= calls && submitter.push(&heap, &to_entry(next, &post(next * 7))) != Pushed::Full {
                    next += 1;
                }
                match taker.take(&heap) {
                    Some(id) => {
                        answered += 1;
                        assert_eq!(id, answered);
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }

    #[test]
    fn a_full_ring_takes_nothing_and_counters_wrap() {
        let heap = Heap::default();
        let start = u32::MAX - 5;
        for line in [&heap.rank.submitted, &heap.rank.taken, &heap.engine.accepted, &heap.engine.completed] {
            line.store(start, std::sync::atomic::Ordering::Relaxed);
        }
        let (mut submitter, mut acceptor) = (Submitter { submitted: start }, Acceptor { accepted: start });
        let (mut taker, mut completer) = (Taker { taken: start }, Completer { completed: start });
        for round in 0..5 {
            for id in 1..=4 {
                assert_eq!(submitter.push(&heap, &to_entry(id, &post(round))), Pushed::Done);
                assert_eq!(completer.push(&heap, id), Pushed::Done);
            }
            assert_eq!(submitter.push(&heap, &to_entry(5, &post(round))), Pushed::Full);
            assert_eq!(completer.push(&heap, 5), Pushed::Full);
            for id in 1..=4 {
                assert!(acceptor.is_called(&heap));
                assert_eq!(entry(&acceptor.accept(&heap).unwrap().unwrap()), Ok((id, post(round))));
                assert_eq!(taker.take(&heap), Some(id));
            }
            assert!(!acceptor.is_called(&heap));
            assert_eq!((acceptor.accept(&heap), taker.take(&heap)), (Ok(None), None));
        }
    }

    #[test]
    fn a_doorbell_rings_once_for_each_sleep() {
        let heap = Heap::default();
        let (mut submitter, mut acceptor) = (Submitter::default(), Acceptor::default());
        let (mut taker, mut completer) = (Taker::default(), Completer::default());
        acceptor.sleeps(&heap);
        assert!(taker.may_sleep(&heap));
        for expected in [Pushed::Wake, Pushed::Done] {
            assert_eq!(submitter.push(&heap, &[1; ENTRY]), expected);
            assert_eq!(completer.push(&heap, 1), expected);
        }
        assert!(!taker.may_sleep(&heap), "there is something to take");
        taker.wakes(&heap);
        acceptor.sleeps(&heap);
        acceptor.wakes(&heap);
        assert_eq!(submitter.push(&heap, &[1; ENTRY]), Pushed::Done);
        assert_eq!(completer.push(&heap, 1), Pushed::Done);
        (0..3).for_each(|_| assert!(acceptor.accept(&heap).unwrap().is_some()));
        assert_eq!((0..3).filter(|_| taker.take(&heap).is_some()).count(), 3);
    }

    /// A rank may write anything: the engine stays within the ring and says what is wrong.
    #[test]
    fn nonsense_in_the_counters_is_refused() {
        let heap = Heap::default();
        let (mut acceptor, mut completer) = (Acceptor::default(), Completer::default());
        for claimed in [5, 1 << 31, u32::MAX] {
            heap.rank.submitted.store(claimed, std::sync::atomic::Ordering::Relaxed);
            assert!(acceptor.is_called(&heap));
            assert_eq!(acceptor.accept(&heap), Err(Absurd { claimed }));
        }
        for taken in [1, 1 << 31, u32::MAX - 3] {
            heap.rank.taken.store(taken, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(completer.push(&heap, 1), Pushed::Full);
        }
        assert!(ProtocolError::from(Absurd { claimed: 5 }).to_string().contains("submitted"));
    }

    #[test]
    fn entries_are_strict() {
        let good = to_entry(9, &post(1));
        assert_eq!(entry(&good), Ok((9, post(1))));
        for (at, value) in [(0, 0), (ENTRY - 1, 1), (1, 0xff), (1, 0xff00_0000)] {
            let mut words = good;
            words[at] = value;
            assert!(matches!(entry(&words), Err(ProtocolError::Field { .. })), "word {at}");
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn two_mappings_are_the_same_queues() {
        let (engine, file) = Queues::create().unwrap();
        let rank = Queues::open(&file).unwrap();
        let (mut submitter, mut acceptor) = (Submitter::default(), Acceptor::default());
        let (mut taker, mut completer) = (Taker::default(), Completer::default());
        for id in 1..=3 * u64::from(ENTRIES) {
            assert_eq!(submitter.push(&rank, &to_entry(id, &post(id))), Pushed::Done);
            assert_eq!(entry(&acceptor.accept(&engine).unwrap().unwrap()), Ok((id, post(id))));
            assert_eq!(completer.push(&engine, id), Pushed::Done);
            assert_eq!(taker.take(&rank), Some(id));
        }
        assert!(Queues::open(Region::create(4096).unwrap().1).is_err(), "too short");
    }
}
