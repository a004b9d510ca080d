//! The board: shared memory in which the ranks of one server do collectives themselves, without asking their engine.
//!
//! The engine makes it, hands it to each rank that attaches, says in it who is there, and ends it when a rank is lost. It
//! reads nothing in it but counters for its statistics, so a rank that scribbles over it harms the ranks of its own job
//! (which share their fate anyhow) and nobody else. Control lines come first, then a stage of [`WINDOW`] slots for each rank.

mod protocol;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use node_agent_collective::OpKind;
use rustix::thread::futex;

use crate::region::{Region, RegionError};
pub use protocol::{Claim, DEPTH, Extent, Finished, NOTHING_TO_COPY, Presence, Table, WINDOW, WORDS};
use protocol::{Entry, Head, Member, Slot};

/// The atomics that the protocol is written with; its model has others under the same names.
mod sync {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use sync::{AtomicU32, Ordering};

/// Bytes of one slot of a stage: a rank's whole stage is about as large as a second-level cache. Smaller ones would stay
/// nearer, but ranks would have to wait for each other more often.
pub const STAGE_SLOT: usize = 256 << 10;
/// Most ranks of a board.
pub const MAX_LOCAL: usize = 256;
/// Stages begin at a page boundary.
const PAGE: usize = 4096;

/// A board that is mapped into this process: the memory by which the ranks of one server do their collectives themselves.
#[derive(Debug)]
pub struct Board {
    region: Region,
    ranks: usize,
}

/// When the first collective that moved data ran, by the clock of the rank that noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRun {
    /// Kind of the collective.
    pub kind: OpKind,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// Nanoseconds since the epoch, 0 while it runs.
    pub ended: u64,
}

impl Board {
    /// Makes a board for `ranks` ranks, at least one.
    ///
    /// # Errors
    /// The memory file cannot be made or mapped.
    pub fn create(ranks: usize) -> Result<(Self, OwnedFd), RegionError> {
        let ranks = ranks.clamp(1, MAX_LOCAL);
        let (region, file) = Region::create(bytes(ranks) as u64)?;
        Ok((Self { region, ranks }, file))
    }

    /// Maps the board that the engine has made for `ranks` ranks.
    ///
    /// # Errors
    /// The memory file is too short or not sealed, or cannot be mapped.
    pub fn open(file: impl AsFd, ranks: usize) -> Result<Self, RegionError> {
        let ranks = ranks.clamp(1, MAX_LOCAL);
        Ok(Self { region: Region::open(file, bytes(ranks) as u64)?, ranks })
    }

    /// The memory in which the stages are.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where in [`Board::region`] slot `slot` of the stage of `rank` begins.
    pub fn stage(&self, rank: usize, slot: usize) -> usize {
        let rank = rank.min(self.ranks - 1);
        control_bytes(self.ranks) + (rank * WINDOW + slot % WINDOW) * STAGE_SLOT
    }

    /// Notes that the first collective that moves data begins.
    pub fn note_first_began(&self, kind: OpKind, now: u64) {
        self.head().first_began.store(now, Ordering::Relaxed);
        self.head().first_kind.store(kind.code().into(), Ordering::Release);
    }

    /// Notes that it has ended.
    pub fn note_first_ended(&self, now: u64) {
        self.head().first_ended.store(now, Ordering::Release);
    }

    /// What was noted of the first collective.
    pub fn first(&self) -> Option<FirstRun> {
        let head = self.head();
        let kind = u8::try_from(head.first_kind.load(Ordering::Acquire)).ok().and_then(OpKind::from_code)?;
        let ended = head.first_ended.load(Ordering::Acquire);
        Some(FirstRun { kind, began: head.first_began.load(Ordering::Relaxed), ended })
    }

    /// # Safety
    /// `offset` is a multiple of the alignment of `T`, `offset + size_of::<T>()` lies in the control lines, and `T` consists
    /// of atomics only.
    unsafe fn line<T>(&self, offset: usize) -> &T {
        // SAFETY: the region is mapped while `self` lives, begins at a page boundary, and its file cannot shrink. Atomics
        // take any bit pattern, and other processes reach these bytes by atomics of the same size too (what one that breaks
        // this writes is some value, and no value is trusted).
        unsafe { &*self.region.as_ptr().add(offset).cast::<T>() }
    }
}

/// Bytes of a line; each kind of line fits in one, and no two share one.
const LINE: usize = 128;
const _: () = assert!(size_of::<Head>() == LINE && size_of::<Member>() == LINE);
const _: () = assert!(size_of::<Slot>() == LINE && size_of::<Entry>() == LINE);

const fn control_bytes(ranks: usize) -> usize {
    (LINE * (1 + ranks + DEPTH + DEPTH * ranks)).next_multiple_of(PAGE)
}

const fn bytes(ranks: usize) -> usize {
    control_bytes(ranks) + ranks * WINDOW * STAGE_SLOT
}

fn place(seq: u64) -> usize {
    (seq % DEPTH as u64) as usize
}

impl Table for Board {
    fn ranks(&self) -> usize {
        self.ranks
    }

    fn head(&self) -> &Head {
        // SAFETY: the first line.
        unsafe { self.line(0) }
    }

    fn member(&self, rank: usize) -> &Member {
        // SAFETY: lines 1 .. 1 + ranks, as `rank` is bounded.
        unsafe { self.line(LINE * (1 + rank.min(self.ranks - 1))) }
    }

    fn slot(&self, seq: u64) -> &Slot {
        // SAFETY: DEPTH lines behind the members; `place` is below DEPTH.
        unsafe { self.line(LINE * (1 + self.ranks + place(seq))) }
    }

    fn entry(&self, seq: u64, rank: usize) -> &Entry {
        let at = place(seq) * self.ranks + rank.min(self.ranks - 1);
        // SAFETY: DEPTH * ranks lines behind the slots; `at` is below that.
        unsafe { self.line(LINE * (1 + self.ranks + DEPTH + at)) }
    }

    fn block(&self, bell: &AtomicU32, seen: u32, limit: Duration) {
        let limit = futex::Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Woken, too late, interrupted or not asleep at all: the caller looks again in every case.
        let _ = futex::wait(bell, futex::Flags::empty(), seen, Some(&limit));
    }

    fn unblock(&self, bell: &AtomicU32) {
        let all = u32::try_from(i32::MAX).unwrap_or(u32::MAX);
        // The address is valid, so this cannot fail.
        let _ = futex::wake(bell, futex::Flags::empty(), all);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;

    /// A board on the heap, for Miri, which has no memory files and no futexes between processes.
    struct Heap {
        head: Head,
        members: Vec<Member>,
        slots: Vec<Slot>,
        entries: Vec<Entry>,
        /// What the tiles of an operation write: Miri reports two accesses that nothing orders.
        results: Vec<UnsafeCell<u64>>,
    }

    // SAFETY: the cells are reached as the protocol allows, which is what the test is about.
    unsafe impl Sync for Heap {}

    const RANKS: usize = 3;
    const TILES: u32 = 4;

    impl Heap {
        fn new() -> Self {
            fn many<T: Default>(count: usize) -> Vec<T> {
                (0..count).map(|_| T::default()).collect()
            }
            Self {
                head: Head::default(),
                members: many(RANKS),
                slots: many(DEPTH),
                entries: many(DEPTH * RANKS),
                results: many(TILES as usize),
            }
        }
    }

    impl Table for Heap {
        fn ranks(&self) -> usize {
            RANKS
        }
        fn head(&self) -> &Head {
            &self.head
        }
        fn member(&self, rank: usize) -> &Member {
            &self.members[rank]
        }
        fn slot(&self, seq: u64) -> &Slot {
            &self.slots[place(seq)]
        }
        fn entry(&self, seq: u64, rank: usize) -> &Entry {
            &self.entries[place(seq) * RANKS + rank]
        }
        fn block(&self, _bell: &AtomicU32, _seen: u32, _limit: Duration) {
            std::thread::yield_now();
        }
        fn unblock(&self, _bell: &AtomicU32) {}
    }

    fn work(board: &Heap, rank: usize, rounds: u64) {
        let extent = Extent { tiles: TILES, pieces: 1 };
        for seq in 1..=rounds {
            while !board.may_post(seq) {
                board.sleep(board.seen(), Duration::ZERO);
            }
            if board.post(rank, seq, &[seq; WORDS], NOTHING_TO_COPY, extent) {
                board.ring();
            }
            loop {
                let seen = board.seen();
                if board.is_open(seq) {
                    while let Claim::Tile(tile) = board.claim(seq, TILES, |_| 0) {
                        // SAFETY: a tile is claimed by one thread only, and read after all are finished.
                        unsafe { *board.results[tile as usize].get() += 1 };
                        if board.finish(seq, 0, TILES, TILES).all {
                            board.ring();
                        }
                    }
                    if board.is_complete(seq, extent) {
                        break;
                    }
                }
                board.sleep(seen, Duration::ZERO);
            }
            assert_eq!(board.words(seq, (rank + 1) % RANKS)[0], seq);
            // SAFETY: nobody writes before all ranks have posted the next operation, this one among them.
            (0..TILES as usize).for_each(|tile| assert_eq!(unsafe { *board.results[tile].get() }, seq));
            board.retire(rank, seq);
        }
    }

    /// Slots are used again and again.
    #[test]
    fn operations_follow_each_other_without_mixing() {
        let board = Heap::new();
        let rounds = if cfg!(miri) { DEPTH as u64 + 10 } else { 20_000 };
        std::thread::scope(|scope| {
            (0..RANKS).for_each(|rank| {
                drop(scope.spawn({
                    let board = &board;
                    move || work(board, rank, rounds)
                }))
            })
        });
    }

    #[test]
    #[cfg(not(miri))]
    fn two_mappings_are_one_board() {
        let (one, file) = Board::create(3).unwrap();
        let two = Board::open(&file, 3).unwrap();
        assert!(Board::open(&file, 4).is_err(), "a board for more ranks is larger");
        one.set_presence(2, Presence::Left);
        assert_eq!(two.presence(2), Presence::Left);
        for seq in 1..=2 {
            assert!(one.may_post(seq));
            for rank in 0..3 {
                let words = [rank as u64 + 10 * seq; WORDS];
                let last = two.post(rank, seq, &words, 0, Extent { tiles: 5, pieces: 1 });
                assert_eq!(last, rank == 2);
            }
            assert!(one.is_open(seq));
            assert_eq!(one.words(seq, 1)[0], 1 + 10 * seq);
        }
        (0..20).for_each(|name| one.note_freed(1, name));
        assert_eq!(two.freed_since(1, 18), Some(vec![18, 19]));
        assert_eq!(two.freed_since(1, 0), None);
        assert_ne!(one.stage(2, 3), one.stage(2, 4));
        assert_eq!(one.stage(1, 0), one.stage(1, WINDOW));
        assert_eq!(one.first(), None);
        two.note_first_began(OpKind::AllReduce, 7);
        two.note_first_ended(9);
        assert_eq!(one.first(), Some(FirstRun { kind: OpKind::AllReduce, began: 7, ended: 9 }));
    }

    #[test]
    #[cfg(not(miri))]
    fn a_sleeper_of_another_mapping_is_woken() {
        let (one, file) = Board::create(1).unwrap();
        let two = Board::open(&file, 1).unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while !two.has_failed() {
                    let seen = two.seen();
                    if !two.has_failed() {
                        two.sleep(seen, Duration::from_secs(60));
                    }
                }
            });
            one.fail();
            sleeper.join().unwrap();
        });
    }
}
