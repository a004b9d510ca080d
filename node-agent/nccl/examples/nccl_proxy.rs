//! A rank that loads the library and plays NCCL's proxy: messages around a ring as many as it is told. It is measured by `rail-bench doors`.
//!
//! Beside what each rank has in its environment it finds there: PROXY_PLUGIN, the library; PROXY_FOLDER, where the ranks meet; PROXY_BYTES of each
//! message, and PROXY_MESSAGES. At the end it prints one line: when it began and when each message had come (CLOCK_MONOTONIC, nanoseconds), and how
//! many had wrong bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot go on should say so and end"
)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::path::Path;
use std::time::{Duration, Instant};

#[allow(dead_code, missing_docs, reason = "tests use more of it")]
#[path = "../tests/it/plugin.rs"]
mod plugin;

use plugin::{Handle, Plugin, logged};

/// Messages in flight each way, as NCCL has them in flight for one channel.
const IN_FLIGHT: u64 = 4;
/// How long ranks wait for each other.
const MEET: Duration = Duration::from_secs(60);
/// A proxy that polls without a pause takes the processor from the engines, of which this machine may have few.
const PAUSE: Duration = Duration::from_micros(50);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn number(name: &str) -> u64 {
    variable(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}

fn good<T>(what: &str, outcome: Result<T, i32>) -> T {
    outcome.unwrap_or_else(|code| panic!("{what}: {code}; {:?}", logged()))
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Asks until there is something.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + MEET;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: it never came; {:?}", logged());
        std::thread::sleep(PAUSE);
    }
}

/// Puts a handle where the others find it, and takes that of another rank.
fn exchange(folder: &Path, own: u64, other: u64, handle: &Handle) -> Handle {
    let name = |rank: u64| folder.join(format!("handle.{rank}"));
    let part = folder.join(format!("part.{own}"));
    std::fs::write(&part, handle).unwrap();
    std::fs::rename(part, name(own)).unwrap();
    let read = || std::fs::read(name(other)).ok()?.try_into().ok();
    until("the other rank's handle", read)
}

/// A ring: sends to the next rank, receives from the one before.
struct Ring {
    plugin: Plugin,
    sender: *mut c_void,
    receiver: *mut c_void,
    bytes: usize,
    /// What each message is made of, but for its number at the beginning.
    pattern: Vec<u8>,
}

impl Ring {
    fn connect(folder: &Path) -> Self {
        let (rank, world) = (number("RANK"), number("WORLD_SIZE"));
        let mut plugin = Plugin::load(Path::new(&variable("PROXY_PLUGIN")), 12);
        good("init", plugin.init());
        let (listener, handle) = good("listen", plugin.listen());
        let mut handle = exchange(folder, rank, (rank + 1) % world, &handle);
        let (mut sender, mut receiver) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
        until("a connection", || {
            if sender.is_null() {
                sender = good("connect", plugin.connect(&mut handle));
            }
            if receiver.is_null() {
                receiver = good("accept", plugin.accept(listener));
            }
            (!sender.is_null() && !receiver.is_null()).then_some(())
        });
        let bytes = usize::try_from(number("PROXY_BYTES")).unwrap().max(8);
        let pattern = (0..bytes).map(|at| (at * 131 + at / 251) as u8).collect();
        Self { plugin, sender, receiver, bytes, pattern }
    }

    /// So many messages each way. Gives when each had come, and how many were wrong.
    fn run(&self, messages: u64) -> (Vec<u64>, u64) {
        let mut outgoing: VecDeque<Vec<u8>> = (0..IN_FLIGHT).map(|_| self.pattern.clone()).collect();
        let mut rooms: VecDeque<Vec<u8>> = (0..IN_FLIGHT).map(|_| vec![0; self.bytes]).collect();
        let (mut sending, mut receiving) = (VecDeque::new(), VecDeque::new());
        let (mut sent, mut ends, mut wrong) = (0_u64, Vec::new(), 0);
        while (ends.len() as u64) < messages || sent < messages || !sending.is_empty() {
            let mut moved = false;
            if sent < messages
                && let Some(mut data) = outgoing.pop_front()
            {
                data[..8].copy_from_slice(&sent.to_le_bytes());
                sending.push_back((good("isend", self.plugin.isend(self.sender, &data, 0)), data));
                sent += 1;
                moved = true;
            }
            if ((ends.len() + receiving.len()) as u64) < messages
                && let Some(mut room) = rooms.pop_front()
            {
                let request = good("irecv", self.plugin.irecv(self.receiver, &mut [(&mut room, 0)]));
                receiving.push_back((request, room));
                moved = true;
            }
            if let Some((request, _)) = sending.front()
                && good("test", self.plugin.test_blind(*request))
            {
                outgoing.extend(sending.pop_front().map(|(_, data)| data));
                moved = true;
            }
            if let Some((request, _)) = receiving.front()
                && let Some(sizes) = good("test", self.plugin.test(*request, 1))
            {
                let (_, room) = receiving.pop_front().unwrap();
                let expected = (ends.len() as u64).to_le_bytes();
                ends.push(now());
                let right = sizes[0] as usize == self.bytes
                    && room[..8] == expected
                    && room[8..] == self.pattern[8..];
                wrong += u64::from(!right);
                rooms.push_back(room);
                moved = true;
            }
            if !moved {
                std::thread::sleep(PAUSE);
            }
        }
        (ends, wrong)
    }
}

fn main() {
    let mut ring = Ring::connect(Path::new(&variable("PROXY_FOLDER")));
    let begun = now();
    let (ends, wrong) = ring.run(number("PROXY_MESSAGES"));
    let ends: Vec<String> = ends.iter().map(u64::to_string).collect();
    println!("{{\"start\":{begun},\"ends\":[{}],\"wrong\":{wrong}}}", ends.join(","));
    good("closeSend", ring.plugin.close_send(ring.sender));
    good("closeRecv", ring.plugin.close_recv(ring.receiver));
    good("finalize", ring.plugin.finalize());
}
