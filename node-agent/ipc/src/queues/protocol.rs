//! The protocol of the queues between a rank and its engine: who writes which counter when. It is written with the atomics of
//! `super::sync`, so that its model can put others in their place.
//!
//! Two rings of equal length. The rank submits at one end of the first, the engine accepts at the other; the engine completes
//! at one end of the second, the rank takes at the other. A counter has one writer, counts entries ever since and wraps;
//! entries are reached by what is left of it in the ring. Each side keeps its own counters to itself as well and never reads
//! them back: what the other side writes over them is nothing to it.
//!
//! Whoever is about to sleep says so and looks once more; whoever puts an entry in looks afterwards whether the other sleeps, and
//! if so rings its doorbell (a packet on their socket), once for each sleep.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Words of a submitted entry.
pub const ENTRY: usize = 8;

/// Written by the rank, but for the flag that whoever wakes it takes down.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct RankLine {
    pub(super) submitted: AtomicU32,
    pub(super) taken: AtomicU32,
    asleep: AtomicU32,
}

/// Written by the engine, with the same exception.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct EngineLine {
    pub(super) accepted: AtomicU32,
    pub(super) completed: AtomicU32,
    asleep: AtomicU32,
}

/// The words of one entry of the submission ring.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    words: [AtomicU64; ENTRY],
}

/// Where counters and entries are.
pub trait Lines {
    /// Entries of either ring, a power of two.
    const ENTRIES: u32;
    /// The counters that only the rank writes, but for the flag that it sleeps.
    fn rank(&self) -> &RankLine;
    /// The counters that only the engine writes, but for the flag that it sleeps.
    fn engine(&self) -> &EngineLine;
    /// The submitted entry with this number, of which only what is left in the ring counts.
    fn slot(&self, number: u32) -> &Slot;
    /// The completed entry with this number, likewise.
    fn completion(&self, number: u32) -> &AtomicU64;
}

/// The outcome of putting an entry in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a sleeper has to be woken, and a full ring has not taken the entry"]
pub enum Pushed {
    /// There was no room.
    Full,
    /// It is in; the other side will see it.
    Done,
    /// It is in, and the other side sleeps: ring its doorbell.
    Wake,
}

/// The other side says that more entries are in a ring than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absurd {
    /// Entries that there should be.
    pub claimed: u32,
}

/// After an entry was put in: whether to ring. Pairs with [`fall_asleep`]: either this sees the flag, or the sleeper sees the
/// entry.
fn pushed(asleep: &AtomicU32) -> Pushed {
    fence(Ordering::SeqCst);
    // Only who takes the flag down rings: a flag that is put up again meanwhile is not lost.
    if asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0 {
        return Pushed::Wake;
    }
    Pushed::Done
}

/// Both sides write a flag, so both do it by swapping: what they do is in one order then.
fn fall_asleep(flag: &AtomicU32) {
    flag.swap(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The rank's end of the submissions.
#[derive(Debug, Default)]
pub struct Submitter {
    pub(super) submitted: u32,
}

impl Submitter {
    /// Puts an entry in.
    pub fn push<L: Lines>(&mut self, lines: &L, words: &[u64; ENTRY]) -> Pushed {
        // Acquires the engine's reads of the entry that was here before.
        let accepted = lines.engine().accepted.load(Ordering::Acquire);
        if self.submitted.wrapping_sub(accepted) >= L::ENTRIES {
            return Pushed::Full;
        }
        let slot = lines.slot(self.submitted);
        for (place, word) in slot.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.submitted = self.submitted.wrapping_add(1);
        lines.rank().submitted.store(self.submitted, Ordering::Release);
        pushed(&lines.engine().asleep)
    }
}

/// The rank's end of the completions.
#[derive(Debug, Default)]
pub struct Taker {
    pub(super) taken: u32,
}

impl Taker {
    /// Takes the next completion, if there is one.
    pub fn take<L: Lines>(&mut self, lines: &L) -> Option<u64> {
        if lines.engine().completed.load(Ordering::Acquire) == self.taken {
            return None;
        }
        let id = lines.completion(self.taken).load(Ordering::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        lines.rank().taken.store(self.taken, Ordering::Release);
        Some(id)
    }

    /// Says that the rank is about to sleep. Gives false if it must not, because something is there.
    pub fn may_sleep<L: Lines>(&self, lines: &L) -> bool {
        fall_asleep(&lines.rank().asleep);
        lines.engine().completed.load(Ordering::Acquire) == self.taken
    }

    /// Says that the rank is awake.
    pub fn wakes<L: Lines>(&self, lines: &L) {
        lines.rank().asleep.swap(0, Ordering::Relaxed);
    }
}

/// The engine's end of the submissions.
#[derive(Debug, Default)]
pub struct Acceptor {
    pub(super) accepted: u32,
}

impl Acceptor {
    /// Whether an entry (or nonsense) is there.
    pub fn is_called<L: Lines>(&self, lines: &L) -> bool {
        lines.rank().submitted.load(Ordering::Relaxed) != self.accepted
    }

    /// Takes the next entry, if there is one. Its words are read once, and are anything that the rank may have written.
    ///
    /// # Errors
    /// [`Absurd`]: the rank claims to have submitted more entries than the ring holds.
    pub fn accept<L: Lines>(&mut self, lines: &L) -> Result<Option<[u64; ENTRY]>, Absurd> {
        let claimed = lines.rank().submitted.load(Ordering::Acquire).wrapping_sub(self.accepted);
        if claimed == 0 {
            return Ok(None);
        }
        if claimed > L::ENTRIES {
            return Err(Absurd { claimed });
        }
        let slot = lines.slot(self.accepted);
        let words = std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
        self.accepted = self.accepted.wrapping_add(1);
        lines.engine().accepted.store(self.accepted, Ordering::Release);
        Ok(Some(words))
    }

    /// Says that the engine is about to sleep; before it does, it must see that it [is not called](Self::is_called).
    pub fn sleeps<L: Lines>(&self, lines: &L) {
        fall_asleep(&lines.engine().asleep);
    }

    /// Says that the engine is awake.
    pub fn wakes<L: Lines>(&self, lines: &L) {
        lines.engine().asleep.swap(0, Ordering::Relaxed);
    }
}

/// The engine's end of the completions.
#[derive(Debug, Default)]
pub struct Completer {
    pub(super) completed: u32,
}

impl Completer {
    /// Puts the id of a call that has succeeded in. A ring whose rank says nonsense is full.
    pub fn push<L: Lines>(&mut self, lines: &L, id: u64) -> Pushed {
        // Acquires the rank's read of the entry that was here before.
        let taken = lines.rank().taken.load(Ordering::Acquire);
        if self.completed.wrapping_sub(taken) >= L::ENTRIES {
            return Pushed::Full;
        }
        lines.completion(self.completed).store(id, Ordering::Relaxed);
        self.completed = self.completed.wrapping_add(1);
        lines.engine().completed.store(self.completed, Ordering::Release);
        pushed(&lines.rank().asleep)
    }
}
