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

/// Bytes of one slot of a stage.
pub const STAGE_SLOT: usize = 256 << 10;
/// Most ranks of a board.
pub const MAX_LOCAL: usize = 256;
/// Stages begin at a page boundary.
const PAGE: usize = 4096;

/// A mapped board.
#[derive(Debug)]
pub struct Board {
    region: Region,
    ranks: usize,
}

/// When the first collective that moved data ran, by the clock of the rank that noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRun {
    /// What it was.
    pub kind: OpKind,
    /// Nanoseconds since the epoch.
    pub began: u64,
    /// Nanoseconds since the epoch, 0 while it runs.
    pub ended: u64,
}

impl Board {
    /// Makes a board for `ranks` ranks, at least one.
    pub fn create(ranks: usize) -> Result<(Self, OwnedFd), RegionError> {
        let ranks = ranks.clamp(1, MAX_LOCAL);
        let (region, file) = Region::create(bytes(ranks) as u64)?;
        Ok((Self { region, ranks }, file))
    }

    /// Maps the board that the engine has made for `ranks` ranks.
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
