//! What ranks do: each role is a program that plays NCCL's proxy, in a process of its own.

use std::ffi::c_void;
use std::path::Path;
use std::time::Instant;

use crate::hub::Meeting;
use crate::plugin::{Handle, Plugin, logged};
use crate::world::LONG;

mod closing;
mod random;
mod registered;
mod transfers;

/// A rank: its plugin, and how it meets the others.
pub struct Rank {
    pub plugin: Plugin,
    pub meeting: Meeting,
    pub rank: usize,
    pub world: usize,
}

/// A setting of the test.
pub fn setting(name: &str) -> u64 {
    let text = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

/// The process of a rank: not a test by itself.
#[test]
#[ignore = "what the other tests start as ranks"]
fn as_rank() {
    let Ok(role) = std::env::var("RAIL_TEST_ROLE") else { return };
    let path = std::env::var("RAIL_TEST_PLUGIN").unwrap();
    let version = std::env::var("RAIL_TEST_VERSION").map_or(12, |version| version.parse().unwrap());
    let (rank, world) = (setting("RANK") as usize, setting("WORLD_SIZE") as usize);
    let mut plugin = Plugin::load(Path::new(&path), version);
    assert_eq!(plugin.name(), c"Rail");
    plugin.init().unwrap_or_else(|code| panic!("init: {code}: {:?}", logged()));
    let meeting = Meeting::new(Path::new(&std::env::var("RAIL_TEST_HUB").unwrap()), rank, world);
    let mut rank = Rank { plugin, meeting, rank, world };
    match role.as_str() {
        "ring" => transfers::ring(&mut rank),
        "long" => transfers::long(&mut rank),
        "bounds" => transfers::bounds(&mut rank),
        "itself" => transfers::itself(&mut rank),
        "random" => random::run(&mut rank),
        "closing" => closing::run(&mut rank),
        "deregister" => registered::run(&mut rank),
        "refused" => closing::refused(&mut rank),
        "lost" => closing::lost(&mut rank),
        "choose" => crate::tuner::choose(&mut rank, Path::new(&path)),
        "unadvised" => crate::tuner::unadvised(&mut rank, Path::new(&path)),
        "profile" => crate::profiler::profile(&mut rank, Path::new(&path)),
        "unprofiled" => crate::profiler::unprofiled(&mut rank, Path::new(&path)),
        "ended" => closing::ended(&mut rank),
        other => panic!("there is no role {other}"),
    }
}

/// Asks again and again until there is something; only a hang gets to the limit.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: it never came; {:?}", logged());
        std::thread::yield_now();
    }
}

pub fn good<T>(what: &str, outcome: Result<T, i32>) -> T {
    outcome.unwrap_or_else(|code| panic!("{what}: {code}; {:?}", logged()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Handle {
    let mut out = [0; 128];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    }
    out
}

impl Rank {
    /// Makes a listener and lays its handle down under a name.
    pub fn listen(&mut self, name: &str) -> *mut c_void {
        let (listener, handle) = good("listen", self.plugin.listen());
        self.meeting.put(name, &hex(&handle));
        listener
    }

    pub fn handle(&mut self, name: &str) -> Handle {
        unhex(&self.meeting.get(name))
    }

    /// Connects and accepts in turn, as NCCL's proxy does, until both are there.
    pub fn connect(&mut self, name: &str, listener: *mut c_void) -> (*mut c_void, *mut c_void) {
        let mut handle = self.handle(name);
        let (mut sender, mut receiver) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
        until("a connection", || {
            if sender.is_null() {
                sender = good("connect", self.plugin.connect(&mut handle));
            }
            if receiver.is_null() {
                receiver = good("accept", self.plugin.accept(listener));
            }
            (!sender.is_null() && !receiver.is_null()).then_some(())
        });
        (sender, receiver)
    }

    /// A ring: sends to the next rank, receives from the one before.
    pub fn ring(&mut self, name: &str) -> (*mut c_void, *mut c_void) {
        let listener = self.listen(&format!("{name}.{}", self.rank));
        let next = (self.rank + 1) % self.world;
        let made = self.connect(&format!("{name}.{next}"), listener);
        good("closeListen", self.plugin.close_listen(listener));
        made
    }

    pub fn send(&self, sender: *mut c_void, data: &[u8], tag: i32) -> *mut c_void {
        until("a send", || {
            let request = good("isend", self.plugin.isend(sender, data, tag));
            (!request.is_null()).then_some(request)
        })
    }

    pub fn receive(&self, receiver: *mut c_void, messages: &mut [(&mut [u8], i32)]) -> *mut c_void {
        until("a receive", || {
            let request = good("irecv", self.plugin.irecv(receiver, messages));
            (!request.is_null()).then_some(request)
        })
    }

    /// Closes what is left, and leaves when all are done.
    pub fn finish(&mut self) {
        self.meeting.barrier("finish");
        good("finalize", self.plugin.finalize());
    }
}

/// What message `number` of a line is made of.
pub fn fill(line: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut state = line.wrapping_mul(0x9e37_79b9).wrapping_add(number).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    });
    let mut out = Vec::with_capacity(bytes + 8);
    words.take(bytes.div_ceil(8)).for_each(|word| out.extend_from_slice(&word));
    out.truncate(bytes);
    out
}
