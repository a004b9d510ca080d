//! The queues between a rank and its engine: nothing is lost, nothing is read before it is there, and nobody sleeps while
//! something waits for him, in every interleaving.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::explore;
use super::queues::{
    Acceptor, Completer, ENTRY, EngineLine, Lines, Pushed, RankLine, Slot, Submitter, Taker,
};
use super::sync::AtomicU64;

const ENTRIES: usize = 2;

/// Queues, the sockets that wake, and an operand that calls use: one cell, for calls that follow each other.
struct Model {
    rank: RankLine,
    engine: EngineLine,
    slots: [Slot; ENTRIES],
    completions: [AtomicU64; ENTRIES],
    to_engine: Socket,
    to_rank: Socket,
    operand: UnsafeCell<u64>,
}

/// A socket as far as it wakes: packets stay until somebody takes them.
struct Socket {
    packets: Mutex<u32>,
    arrived: Condvar,
}

impl Socket {
    fn new() -> Self {
        Self { packets: Mutex::new(0), arrived: Condvar::new() }
    }

    fn send(&self) {
        *self.packets.lock().unwrap() += 1;
        self.arrived.notify_one();
    }

    /// Sleeps until a packet is there, and takes all.
    fn sleep(&self) {
        let mut packets = self.packets.lock().unwrap();
        while *packets == 0 {
            packets = self.arrived.wait(packets).unwrap();
        }
        *packets = 0;
    }
}

impl Lines for Model {
    const ENTRIES: u32 = ENTRIES as u32;
    fn rank(&self) -> &RankLine {
        &self.rank
    }
    fn engine(&self) -> &EngineLine {
        &self.engine
    }
    fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize % ENTRIES]
    }
    fn completion(&self, number: u32) -> &AtomicU64 {
        &self.completions[number as usize % ENTRIES]
    }
}

impl Model {
    fn new() -> Self {
        Self {
            rank: RankLine::default(),
            engine: EngineLine::default(),
            slots: Default::default(),
            completions: Default::default(),
            to_engine: Socket::new(),
            to_rank: Socket::new(),
            operand: UnsafeCell::new(0),
        }
    }

    /// The engine: accepts so many calls, does them and completes them; sleeps whenever there is none.
    fn serve(&self, calls: u64) {
        let (mut acceptor, mut completer) = (Acceptor::default(), Completer::default());
        for expected in 1..=calls {
            let words = loop {
                if let Some(words) = acceptor.accept(self).unwrap() {
                    break words;
                }
                acceptor.sleeps(self);
                if !acceptor.is_called(self) {
                    self.to_engine.sleep();
                }
                acceptor.wakes(self);
            };
            assert_eq!(words, [expected; ENTRY]);
            // SAFETY: loom checks that no other access is possible now.
            self.operand.with_mut(|cell| unsafe { *cell += 1 });
            match completer.push(self, expected) {
                Pushed::Wake => self.to_rank.send(),
                Pushed::Done => {}
                Pushed::Full => unreachable!("the rank has no more calls under way than fit"),
            }
        }
    }

    fn submit(&self, submitter: &mut Submitter, id: u64) {
        match submitter.push(self, &[id; ENTRY]) {
            Pushed::Wake => self.to_engine.send(),
            Pushed::Done => {}
            Pushed::Full => unreachable!("there is room for all calls under way"),
        }
    }

    fn wait(&self, taker: &mut Taker) -> u64 {
        loop {
            if let Some(id) = taker.take(self) {
                return id;
            }
            if taker.may_sleep(self) {
                self.to_rank.sleep();
            }
            taker.wakes(self);
        }
    }
}

/// Calls one after the other: the engine sees the operand as the rank left it, and the rank the result.
#[test]
fn calls_follow_each_other_through_the_same_entries() {
    explore(2, || {
        let model = Arc::new(Model::new());
        let engine = model.clone();
        let second = thread::spawn(move || engine.serve(3));
        let (mut submitter, mut taker) = (Submitter::default(), Taker::default());
        for id in 1..=3 {
            // SAFETY: loom checks that no other access is possible now.
            model.operand.with_mut(|cell| unsafe { *cell += 1 });
            model.submit(&mut submitter, id);
            assert_eq!(model.wait(&mut taker), id);
            // SAFETY: loom checks that no write is possible now.
            assert_eq!(model.operand.with(|cell| unsafe { *cell }), 2 * id);
        }
        second.join().unwrap();
    });
}

/// As many calls under way as there is room for.
#[test]
fn calls_under_way_together_are_all_completed() {
    explore(3, || {
        let model = Arc::new(Model::new());
        let engine = model.clone();
        let second = thread::spawn(move || engine.serve(2));
        let (mut submitter, mut taker) = (Submitter::default(), Taker::default());
        (1..=2).for_each(|id| model.submit(&mut submitter, id));
        (1..=2).for_each(|id| assert_eq!(model.wait(&mut taker), id));
        second.join().unwrap();
    });
}

/// A planted mistake: who is about to sleep looks before it says so. The model must find that somebody then sleeps for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn a_look_before_the_flag_is_found() {
    explore(3, || {
        // Not given back: loom's own objects must not be dropped while its report of the deadlock unwinds.
        let model: &'static Model = Box::leak(Box::new(Model::new()));
        let second = thread::spawn(move || model.serve(1));
        model.submit(&mut Submitter::default(), 1);
        let mut taker = Taker::default();
        while taker.take(model).is_none() {
            // The answer of the second look is not heeded.
            let _ = taker.may_sleep(model);
            model.to_rank.sleep();
            taker.wakes(model);
        }
        std::mem::forget(second);
    });
}
