//! How ranks of one server do a collective together: who may do what, and when, by atomic counters alone.
//!
//! Nothing here knows of shared memory, payload or operations, so that a model checker can run every interleaving of it
//! (tests/model.rs builds this very file on its own atomics). The life of operation number `seq`, in slot `seq % DEPTH`:
//!
//! 1. Each rank fills its [`Entry`] and arrives ([`Table::post`]). The last to arrive resets the slot's counters and opens
//!    it: the release of `open` after the acquire of every arrival hands all entries to everybody.
//! 2. The work is cut into tiles, numbered piece by piece. Whoever waits claims tiles ([`Table::claim`]); a claim is one
//!    compare-and-swap, so each tile is done exactly once, by anybody. A rank that only posted need not be awake.
//! 3. A rank whose operands are not shared copies them piece by piece through its stage: `copied_in` says how far its input
//!    is there, `copied_out` how far it has taken its output. A piece's tiles may be claimed once all have copied it in.
//! 4. The operation is complete when all tiles are finished and all have copied out. A rank that has seen that retires it;
//!    when all ranks have retired it, the slot may be used for `seq + DEPTH`. So nobody ever touches a slot's counters in
//!    the name of an operation that is over.
//!
//! Whoever changes something that another may sleep for rings the bell afterwards; whoever finds nothing to do sleeps until
//! it rings ([`Table::ring`], [`Table::sleep`]).

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Operations that may be under way at once.
pub const DEPTH: usize = 64;
/// Pieces of an operation that may be in the stages at once.
pub const WINDOW: usize = 4;
/// Words that a rank says about its part in an operation.
pub const WORDS: usize = 10;
/// Buffers given back that a rank remembers for the others.
pub const FREED: usize = 16;
/// Progress of a rank that has nothing to copy.
pub const NOTHING_TO_COPY: u32 = u32::MAX;

/// What belongs to the board as a whole.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Head {
    /// Counts changes that somebody may sleep for.
    bell: AtomicU32,
    /// Threads that sleep, or are about to. One that is killed in its sleep stays counted, which costs a system call per
    /// ring and nothing else.
    sleepers: AtomicU32,
    /// Not 0 once nothing can complete any more. Written by the engine.
    failed: AtomicU32,
    /// The kind of the first collective that moved data, and when it began and ended.
    pub(super) first_kind: AtomicU32,
    pub(super) first_began: AtomicU64,
    pub(super) first_ended: AtomicU64,
}

/// What belongs to one rank.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Member {
    /// Number of the last operation that this rank has posted; 0 before the first.
    posted: AtomicU64,
    /// Its last operation that it will never touch again.
    retired: AtomicU64,
    /// Whether it is there; written by the engine.
    presence: AtomicU32,
    /// The buffers that it gave back last, and how many it has given back.
    freed: [AtomicU32; FREED],
    freed_count: AtomicU64,
}

/// What belongs to one operation.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Slot {
    /// The operation that is open here.
    open: AtomicU64,
    arrived: AtomicU32,
    /// The next tile that nobody has claimed.
    claimed: AtomicU32,
    finished: AtomicU32,
    /// Tiles and pieces, for those who did not see the call itself.
    total: AtomicU32,
    pieces: AtomicU32,
    /// Finished tiles of the pieces p, p + WINDOW, p + 2 WINDOW ... together: they are done in this order.
    done: [AtomicU32; WINDOW],
}

/// What one rank says about one operation.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Entry {
    words: [AtomicU64; WORDS],
    copied_in: AtomicU32,
    copied_out: AtomicU32,
}

/// How much work an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Tiles of all pieces.
    pub tiles: u32,
    /// Pieces; none where the operation moves nothing.
    pub pieces: u32,
}

/// The answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This tile is the caller's to do.
    Tile(u32),
    /// The next tile waits for somebody's copy.
    NotReady,
    /// Every tile of the operation is claimed already.
    None,
}

/// What the end of a tile brought to an end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The tile was the last one of its piece.
    pub piece: bool,
    /// The work of the operation.
    pub all: bool,
}

/// Whether a rank is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The rank has not attached yet.
    Absent,
    /// The rank is attached.
    Present,
    /// It was, and left cleanly.
    Left,
}

/// Access to the counters of a board.
pub trait Table {
    /// Ranks that take part.
    fn ranks(&self) -> usize;
    /// The board's own line.
    fn head(&self) -> &Head;
    /// The counters of the rank with this number on this server.
    fn member(&self, rank: usize) -> &Member;
    /// The counters of the operation with this number, of which only the last few have a place.
    fn slot(&self, seq: u64) -> &Slot;
    /// A rank's line in an operation.
    fn entry(&self, seq: u64, rank: usize) -> &Entry;
    /// Sleeps unless `bell` differs from `seen`, until it is woken or `limit` has passed. May wake for no reason.
    fn block(&self, bell: &AtomicU32, seen: u32, limit: Duration);
    /// Wakes all who sleep on `bell`.
    fn unblock(&self, bell: &AtomicU32);

    /// The bell's count; to be read before looking for work.
    fn seen(&self) -> u32 {
        self.head().bell.load(Ordering::Acquire)
    }

    /// Tells everybody that something has changed.
    fn ring(&self) {
        let head = self.head();
        head.bell.fetch_add(1, Ordering::AcqRel);
        // Pairs with the fence in `sleep`: either this sees the sleeper, or the sleeper sees the new count.
        fence(Ordering::SeqCst);
        if head.sleepers.load(Ordering::Relaxed) > 0 {
            self.unblock(&head.bell);
        }
    }

    /// Wakes everybody, whatever the count of sleepers says.
    fn alarm(&self) {
        let head = self.head();
        head.bell.fetch_add(1, Ordering::AcqRel);
        self.unblock(&head.bell);
    }

    /// Sleeps until the bell has rung since it was [`Table::seen`], at most `limit`.
    fn sleep(&self, seen: u32, limit: Duration) {
        let head = self.head();
        head.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if head.bell.load(Ordering::Relaxed) == seen {
            self.block(&head.bell, seen, limit);
        }
        head.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends everything. Only the engine does that; it answers whoever asks for the reason.
    fn fail(&self) {
        self.head().failed.store(1, Ordering::Release);
        self.alarm();
    }

    /// Whether everything has ended.
    fn has_failed(&self) -> bool {
        self.head().failed.load(Ordering::Acquire) != 0
    }

    /// Whether `rank` is there.
    fn presence(&self, rank: usize) -> Presence {
        match self.member(rank).presence.load(Ordering::Acquire) {
            1 => Presence::Present,
            2 => Presence::Left,
            _ => Presence::Absent,
        }
    }

    /// Notes that `rank` came or left. Only the engine does that.
    fn set_presence(&self, rank: usize, presence: Presence) {
        let code = match presence {
            Presence::Absent => 0,
            Presence::Present => 1,
            Presence::Left => 2,
        };
        self.member(rank).presence.store(code, Ordering::Release);
        self.alarm();
    }

    /// The last operation that `rank` has posted.
    fn posted(&self, rank: usize) -> u64 {
        self.member(rank).posted.load(Ordering::Acquire)
    }

    /// The last operation that `rank` has retired.
    fn retired(&self, rank: usize) -> u64 {
        self.member(rank).retired.load(Ordering::Acquire)
    }

    /// Tells the others that `rank` has given back a buffer: they need not keep it mapped. One thread at a time.
    fn note_freed(&self, rank: usize, buffer: u32) {
        let member = self.member(rank);
        let count = member.freed_count.load(Ordering::Relaxed);
        member.freed[count as usize % FREED].store(buffer, Ordering::Relaxed);
        member.freed_count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Buffers that `rank` has given back, all in all.
    fn freed_count(&self, rank: usize) -> u64 {
        self.member(rank).freed_count.load(Ordering::Acquire)
    }

    /// The buffers among the last ones: those from `since` on, or `None` if some of them are forgotten. One more may be among
    /// them that was freed meanwhile.
    fn freed_since(&self, rank: usize, since: u64) -> Option<Vec<u32>> {
        let upto = self.freed_count(rank);
        let member = self.member(rank);
        let names =
            || (since..upto).map(|at| member.freed[at as usize % FREED].load(Ordering::Relaxed)).collect();
        (since <= upto && upto - since < FREED as u64).then(names)
    }

    /// Whether the slot of `seq` is free.
    fn may_post(&self, seq: u64) -> bool {
        let before = seq.saturating_sub(DEPTH as u64);
        before == 0 || (0..self.ranks()).all(|rank| self.retired(rank) >= before)
    }

    /// Arrives at operation `seq`, which [`Table::may_post`] and is `rank`'s next. `copied` pieces of its input are there
    /// already. Gives true to the last to arrive, who has opened it: everybody else is to be woken.
    fn post(&self, rank: usize, seq: u64, words: &[u64; WORDS], copied: u32, extent: Extent) -> bool {
        let entry = self.entry(seq, rank);
        for (place, word) in entry.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        entry.copied_in.store(copied, Ordering::Relaxed);
        let out = if copied == NOTHING_TO_COPY { NOTHING_TO_COPY } else { 0 };
        entry.copied_out.store(out, Ordering::Relaxed);
        self.member(rank).posted.store(seq, Ordering::Release);
        let slot = self.slot(seq);
        // Acquires the entries of all who came before, releases this one.
        let before = slot.arrived.fetch_add(1, Ordering::AcqRel) as usize;
        if before + 1 < self.ranks() {
            return false;
        }
        let counters = [&slot.arrived, &slot.claimed, &slot.finished];
        counters.into_iter().chain(&slot.done).for_each(|counter| counter.store(0, Ordering::Relaxed));
        slot.total.store(extent.tiles, Ordering::Relaxed);
        slot.pieces.store(extent.pieces, Ordering::Relaxed);
        slot.open.store(seq, Ordering::Release);
        // Pairs with the fences in `set_copied_in` and `set_copied_out`: of several who make a condition true together, at
        // least one sees it true.
        fence(Ordering::SeqCst);
        true
    }

    /// Whether all ranks have arrived at `seq`.
    fn is_open(&self, seq: u64) -> bool {
        self.slot(seq).open.load(Ordering::Acquire) == seq
    }

    /// What `rank` said about `seq`, which is open.
    fn words(&self, seq: u64, rank: usize) -> [u64; WORDS] {
        let entry = self.entry(seq, rank);
        std::array::from_fn(|at| entry.words[at].load(Ordering::Relaxed))
    }

    /// Pieces of its input that `rank` has put in its stage.
    fn copied_in(&self, seq: u64, rank: usize) -> u32 {
        self.entry(seq, rank).copied_in.load(Ordering::Acquire)
    }

    /// Pieces of its output that `rank` has taken.
    fn copied_out(&self, seq: u64, rank: usize) -> u32 {
        self.entry(seq, rank).copied_out.load(Ordering::Acquire)
    }

    /// Notes that `rank` has put one piece more of its input in its stage: `pieces` in all. Gives true if that piece may be
    /// worked on now, which is to be told.
    fn set_copied_in(&self, seq: u64, rank: usize, pieces: u32) -> bool {
        self.entry(seq, rank).copied_in.store(pieces, Ordering::Release);
        fence(Ordering::SeqCst);
        self.is_open(seq) && self.is_in(seq, pieces.saturating_sub(1))
    }

    /// Notes that `rank` has taken one piece more of its output: `pieces` in all. Gives true if nobody needs that piece any
    /// more, which is to be told.
    fn set_copied_out(&self, seq: u64, rank: usize, pieces: u32) -> bool {
        self.entry(seq, rank).copied_out.store(pieces, Ordering::Release);
        fence(Ordering::SeqCst);
        self.is_out(seq, pieces.saturating_sub(1))
    }

    /// Whether everybody's input of `piece` is there.
    fn is_in(&self, seq: u64, piece: u32) -> bool {
        (0..self.ranks()).all(|rank| self.copied_in(seq, rank) > piece)
    }

    /// Whether everybody has taken the output of `piece`.
    fn is_out(&self, seq: u64, piece: u32) -> bool {
        (0..self.ranks()).all(|rank| self.copied_out(seq, rank) > piece)
    }

    /// Claims the next of `tiles` tiles of `seq`, which is open and not retired by this rank. `piece_of` says to which piece
    /// a tile belongs.
    fn claim(&self, seq: u64, tiles: u32, piece_of: impl Fn(u32) -> u32) -> Claim {
        let claimed = &self.slot(seq).claimed;
        let mut next = claimed.load(Ordering::Relaxed);
        loop {
            if next >= tiles {
                return Claim::None;
            }
            if !self.is_in(seq, piece_of(next)) {
                return Claim::NotReady;
            }
            match claimed.compare_exchange_weak(next, next + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Claim::Tile(next),
                Err(other) => next = other,
            }
        }
    }

    /// Notes that a claimed tile of `piece` is done, of `tiles` in all and `tiles_upto` in this piece and the pieces WINDOW,
    /// 2 WINDOW ... before it. This is the caller's last touch of the operation in the name of that tile.
    fn finish(&self, seq: u64, piece: u32, tiles_upto: u32, tiles: u32) -> Finished {
        let slot = self.slot(seq);
        let done = slot.done[piece as usize % WINDOW].fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        let finished = slot.finished.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        Finished { piece: done == tiles_upto, all: finished == tiles }
    }

    /// Whether all tiles of `piece` are done; `tiles_upto` as in [`Table::finish`].
    fn is_reduced(&self, seq: u64, piece: u32, tiles_upto: u32) -> bool {
        self.slot(seq).done[piece as usize % WINDOW].load(Ordering::Acquire) >= tiles_upto
    }

    /// Whether all tiles are done.
    fn is_finished(&self, seq: u64, tiles: u32) -> bool {
        self.slot(seq).finished.load(Ordering::Acquire) >= tiles
    }

    /// Whether nobody touches the operands or stages of `seq` any more; it is open and not retired by this rank.
    fn is_complete(&self, seq: u64, extent: Extent) -> bool {
        let Extent { tiles, pieces } = extent;
        self.is_finished(seq, tiles) && (pieces == 0 || self.is_out(seq, pieces - 1))
    }

    /// What the last to arrive at `seq` said of its extent.
    fn extent(&self, seq: u64) -> Extent {
        let slot = self.slot(seq);
        Extent { tiles: slot.total.load(Ordering::Relaxed), pieces: slot.pieces.load(Ordering::Relaxed) }
    }

    /// Gives up `seq`, the oldest that `rank` has not retired, after it was complete.
    fn retire(&self, rank: usize, seq: u64) {
        self.member(rank).retired.store(seq, Ordering::Release);
    }
}
