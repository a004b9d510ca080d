//! Every interleaving of the protocols of the board and of the queues, by loom, on the very files that run in production.
//!
//! Loom's atomics stand in for the shared memory, a mutex and a condition variable for the kernel's futex (which compares
//! and goes to sleep as one step). A lost wake-up shows as a deadlock, a tile done twice or read too early as a race.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    missing_docs,
    reason = "a test; it does not use all of the file that it includes"
)]

mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[path = "../src/board/protocol.rs"]
mod protocol;
#[path = "model/queues.rs"]
mod queue_tests;
#[path = "../src/queues/protocol.rs"]
mod queues;

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use protocol::{Claim, Entry, Extent, Head, Member, NOTHING_TO_COPY, Slot, Table, WORDS};
use sync::{AtomicU32, Ordering};

const RANKS: usize = 2;
/// Longer than anything takes: sleep ends by being woken.
const LONG: Duration = Duration::from_secs(3600);

/// A board with room for one operation at a time.
struct Model {
    head: Head,
    members: [Member; RANKS],
    slot: Slot,
    entries: [Entry; RANKS],
    futex: Mutex<()>,
    asleep: Condvar,
    /// What tiles write, one cell each; loom reports two accesses that nothing orders.
    results: [UnsafeCell<u32>; 2],
    /// What ranks that use their stage put there and take out.
    stage: [UnsafeCell<u32>; RANKS],
}

impl Model {
    fn new() -> Self {
        Self {
            head: Head::default(),
            members: Default::default(),
            slot: Slot::default(),
            entries: Default::default(),
            futex: Mutex::new(()),
            asleep: Condvar::new(),
            results: [UnsafeCell::new(0), UnsafeCell::new(0)],
            stage: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    fn do_tile(&self, tile: u32) {
        // SAFETY: loom checks that no other access is possible now.
        self.results[tile as usize].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn result(&self, tile: usize) -> u32 {
        // SAFETY: loom checks that no write is possible now.
        self.results[tile].with(|cell| unsafe { *cell })
    }
}

impl Table for Model {
    fn ranks(&self) -> usize {
        RANKS
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn member(&self, rank: usize) -> &Member {
        &self.members[rank]
    }
    fn slot(&self, _seq: u64) -> &Slot {
        &self.slot
    }
    fn entry(&self, _seq: u64, rank: usize) -> &Entry {
        &self.entries[rank]
    }
    fn block(&self, bell: &AtomicU32, seen: u32, _limit: Duration) {
        let guard = self.futex.lock().unwrap();
        if bell.load(Ordering::SeqCst) == seen {
            drop(self.asleep.wait(guard).unwrap());
        }
    }
    fn unblock(&self, _bell: &AtomicU32) {
        drop(self.futex.lock().unwrap());
        self.asleep.notify_all();
    }
}

/// One operation whose operands are shared: what a rank does from its post to its retirement. As in the client, the last to
/// arrive does a single tile before it tells anybody.
fn direct(board: &Model, rank: usize, seq: u64, tiles: u32) {
    let extent = Extent { tiles, pieces: u32::from(tiles > 0) };
    let opened = board.post(rank, seq, &[seq; WORDS], NOTHING_TO_COPY, extent);
    if opened && tiles != 1 {
        board.ring();
    }
    loop {
        let seen = board.seen();
        if board.is_open(seq) {
            while let Claim::Tile(tile) = board.claim(seq, tiles, |_| 0) {
                board.do_tile(tile);
                if board.finish(seq, 0, tiles, tiles).all {
                    board.ring();
                }
            }
            if board.is_complete(seq, extent) {
                break;
            }
        }
        board.sleep(seen, LONG);
    }
    (0..RANKS).for_each(|other| assert_eq!(board.words(seq, other)[0], seq));
    (0..tiles as usize).for_each(|tile| assert_eq!(board.result(tile), u32::try_from(seq).unwrap()));
    board.retire(rank, seq);
}

/// One operation of one piece whose operands go through the stages. The input may be there when the rank arrives, or later.
fn staged(board: &Model, rank: usize, early: bool) {
    let extent = Extent { tiles: 1, pieces: 1 };
    let put = || {
        // SAFETY: loom checks that no other access is possible now.
        board.stage[rank].with_mut(|cell| unsafe { *cell = 10 + rank as u32 });
    };
    if early {
        put();
    }
    board.post(rank, 1, &[0; WORDS], u32::from(early), extent);
    let (mut there, mut taken) = (early, false);
    loop {
        let seen = board.seen();
        let mut worked = false;
        if !taken && board.is_open(1) && board.is_in(1, 0) && board.is_reduced(1, 0, 1) {
            // SAFETY: loom checks that no write is possible now.
            let found = board.stage[0].with(|cell| unsafe { *cell });
            assert_eq!(found, 21);
            taken = true;
            worked = true;
            if board.set_copied_out(1, rank, 1) {
                board.ring();
            }
        }
        if board.is_open(1) {
            while let Claim::Tile(_) = board.claim(1, 1, |_| 0) {
                // The result takes the place of the first rank's input.
                // SAFETY: loom checks that no write is possible now.
                let other = board.stage[1].with(|cell| unsafe { *cell });
                // SAFETY: loom checks that no other access is possible now.
                board.stage[0].with_mut(|cell| unsafe { *cell += other });
                board.finish(1, 0, 1, 1);
                board.ring();
                worked = true;
            }
            if taken && board.is_complete(1, extent) {
                return;
            }
        }
        if !there {
            put();
            there = true;
            worked = true;
            if board.set_copied_in(1, rank, 1) {
                board.ring();
            }
        }
        if !worked {
            board.sleep(seen, LONG);
        }
    }
}

fn explore(bound: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(body);
}

fn both(work: impl Fn(&Model, usize) + Sync + Send + Clone + 'static) -> impl Fn() + Sync + Send + 'static {
    move || {
        let board = Arc::new(Model::new());
        let (other, theirs) = (board.clone(), work.clone());
        let second = thread::spawn(move || theirs(&other, 1));
        work(&board, 0);
        second.join().unwrap();
    }
}

#[test]
fn a_barrier_wakes_whoever_sleeps() {
    explore(3, both(|board, rank| direct(board, rank, 1, 0)));
}

#[test]
fn a_single_tile_is_done_once_and_seen_by_all() {
    explore(3, both(|board, rank| direct(board, rank, 1, 1)));
}

#[test]
fn tiles_are_shared_and_done_once() {
    explore(2, both(|board, rank| direct(board, rank, 1, 2)));
}

/// The slot is used again as soon as both have retired it: nothing of the first operation may reach into the second.
#[test]
fn a_slot_is_used_again_without_mixing() {
    explore(
        2,
        both(|board, rank| {
            direct(board, rank, 1, 1);
            while !(0..RANKS).all(|other| board.retired(other) >= 1) {
                thread::yield_now();
            }
            direct(board, rank, 2, 1);
        }),
    );
}

#[test]
fn staged_pieces_are_reduced_once_and_taken_after() {
    explore(3, both(|board, rank| staged(board, rank, true)));
}

/// One rank's input comes after everybody has arrived, or at the same moment.
#[test]
fn a_late_input_wakes_whoever_waits_for_it() {
    explore(2, both(|board, rank| staged(board, rank, rank == 0)));
    explore(2, both(|board, rank| staged(board, rank, false)));
}

/// The engine ends the board at any moment: a rank whose partner never comes wakes up.
#[test]
fn an_end_wakes_whoever_sleeps() {
    explore(3, || {
        let board = Arc::new(Model::new());
        let engine = board.clone();
        let second = thread::spawn(move || engine.fail());
        board.post(0, 1, &[0; WORDS], NOTHING_TO_COPY, Extent { tiles: 0, pieces: 0 });
        loop {
            let seen = board.seen();
            if board.has_failed() {
                break;
            }
            board.sleep(seen, LONG);
        }
        second.join().unwrap();
    });
}

/// A planted mistake: the bell rings before the change that it tells of. The model must find that somebody then sleeps for
/// ever.
#[test]
#[should_panic(expected = "deadlock")]
fn a_ring_before_the_change_is_found() {
    let wrong = |board: &Model, rank| {
        board.ring();
        board.post(rank, 1, &[0; WORDS], NOTHING_TO_COPY, Extent { tiles: 0, pieces: 0 });
        loop {
            let seen = board.seen();
            if board.is_open(1) {
                return;
            }
            board.sleep(seen, LONG);
        }
    };
    explore(3, move || {
        // Not given back: loom's own objects must not be dropped while its report of the deadlock unwinds.
        let board: &'static Model = Box::leak(Box::new(Model::new()));
        let second = thread::spawn(move || wrong(board, 1));
        wrong(board, 0);
        std::mem::forget(second);
    });
}

/// A planted mistake: a tile is claimed by a load and a store. The model must find that it is done twice.
#[test]
#[should_panic]
fn a_claim_that_is_not_one_step_is_found() {
    explore(2, || {
        let board: &'static Model = Box::leak(Box::new(Model::new()));
        let next: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let wrong = move || {
            let tile = next.load(Ordering::Acquire);
            if tile == 0 {
                next.store(1, Ordering::Release);
                board.do_tile(0);
            }
        };
        let second = thread::spawn(wrong);
        wrong();
        std::mem::forget(second);
    });
}
