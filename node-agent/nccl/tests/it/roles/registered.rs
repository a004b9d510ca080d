//! Memory that is deregistered and gone while requests want it, as where NCCL aborts a communicator; another communicator goes on.

use std::ffi::c_void;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use super::{Rank, fill, good, until};

/// Messages of a connection, and bytes of each.
const COUNT: usize = 6;
const BYTES: usize = 50_001;
/// What is in a buffer before anything has come.
const UNTOUCHED: u8 = 0xee;

/// Memory that nobody can use any more once it is dropped: who reads or writes there ends the process. Nothing else comes to lie there either.
struct Pages {
    start: *mut c_void,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Self {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place where nothing lies.
        let start = unsafe { mmap_anonymous(null_mut(), len, rights, MapFlags::PRIVATE) }.unwrap();
        Self { start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes while this lives; `&mut self` keeps two slices of it from living at once.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value.
        unsafe { mprotect(self.start, self.len, MprotectFlags::empty()) }.unwrap();
    }
}

/// Another communicator.
struct Other {
    sender: *mut c_void,
    receiver: *mut c_void,
    number: u64,
}

impl Other {
    /// Messages around the ring, which move everything else on as well.
    fn go_on(&mut self, rank: &Rank) {
        let before = (rank.rank + rank.world - 1) % rank.world;
        for _ in 0..3 {
            self.number += 1;
            let data = fill(rank.rank as u64, self.number, BYTES);
            let mut room = vec![0; BYTES];
            let received = rank.receive(self.receiver, &mut [(&mut room, 3)]);
            let sent = rank.send(self.sender, &data, 3);
            until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
            until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
            assert!(room == fill(before as u64, self.number, BYTES), "message {}", self.number);
        }
    }
}

pub fn run(rank: &mut Rank) {
    let (sender, receiver) = rank.ring("goes-on");
    let mut other = Other { sender, receiver, number: 0 };
    for round in 0..4 {
        queued_sends(rank, &format!("sends.{round}"), &mut other);
        waiting_receives(rank, &format!("receives.{round}"), &mut other);
        all_at_once(rank, &format!("all.{round}"), &mut other, round);
    }
    other.go_on(rank);
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    rank.finish();
}

/// The receivers get room only when the memory is gone: nothing is sent.
fn queued_sends(rank: &mut Rank, name: &str, other: &mut Other) {
    let (sender, receiver) = rank.ring(name);
    let mut memory = Pages::new(BYTES);
    let registration = good("regMr", rank.plugin.register_memory(sender, memory.bytes()));
    let send = |_| good("isend", rank.plugin.isend_from(sender, memory.bytes(), 0, registration));
    let sent: Vec<_> = (0..COUNT).map(send).collect();
    assert!(sent.iter().all(|request| !request.is_null()));
    good("deregMr", rank.plugin.deregister(sender, registration));
    drop(memory);
    rank.meeting.barrier(&format!("{name}.gone"));
    let mut rooms = vec![vec![UNTOUCHED; BYTES]; COUNT];
    let received: Vec<_> = rooms.iter_mut().map(|room| rank.receive(receiver, &mut [(room, 0)])).collect();
    other.go_on(rank);
    assert!(sent.iter().all(|request| rank.plugin.test_blind(*request) == Err(3)));
    assert!(received.iter().all(|request| rank.plugin.test_blind(*request) == Ok(false)));
    rank.meeting.barrier(&format!("{name}.seen"));
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    assert!(rooms.iter().flatten().all(|byte| *byte == UNTOUCHED));
}

/// The senders send only when the memory is gone: what comes goes nowhere, but for messages with other memory.
fn waiting_receives(rank: &mut Rank, name: &str, other: &mut Other) {
    let (sender, receiver) = rank.ring(name);
    let mut memory = Pages::new(COUNT * BYTES);
    let registration = good("regMr", rank.plugin.register_memory(receiver, memory.bytes()));
    let mut received = Vec::new();
    for room in memory.bytes().chunks_mut(BYTES) {
        let request = rank.plugin.irecv_into(receiver, &mut [(room, 0)], registration);
        received.push(good("irecv", request));
    }
    let mut kept = vec![UNTOUCHED; BYTES];
    received.push(rank.receive(receiver, &mut [(&mut kept, 0)]));
    assert!(received.iter().all(|request| !request.is_null()));
    good("deregMr", rank.plugin.deregister(receiver, registration));
    drop(memory);
    rank.meeting.barrier(&format!("{name}.gone"));
    let data = fill(7, 7, BYTES);
    let sent: Vec<_> = (0..=COUNT).map(|_| rank.send(sender, &data, 0)).collect();
    other.go_on(rank);
    for request in sent.into_iter().chain(received) {
        until("a request", || good("test", rank.plugin.test_blind(request)).then_some(()));
    }
    assert!(kept == data, "memory of another registration is still used");
    rank.meeting.barrier(&format!("{name}.seen"));
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
}

/// Both directions at once, at whatever moment, with more sends than the receiver has room for. The other end may have closed.
fn all_at_once(rank: &mut Rank, name: &str, other: &mut Other, round: u64) {
    let (sender, receiver) = rank.ring(name);
    let (mut outgoing, mut incoming) = (Pages::new(BYTES), Pages::new(COUNT * BYTES));
    let sends = good("regMr", rank.plugin.register_memory(sender, outgoing.bytes()));
    let receives = good("regMr", rank.plugin.register_memory(receiver, incoming.bytes()));
    for room in incoming.bytes().chunks_mut(BYTES) {
        for _ in 0..2 {
            let sent = rank.plugin.isend_from(sender, outgoing.bytes(), 0, sends);
            let _ = sent.map_err(|code| assert_eq!(code, 6));
        }
        let received = rank.plugin.irecv_into(receiver, &mut [(room, 0)], receives);
        let _ = received.map_err(|code| assert_eq!(code, 6));
    }
    if round % 2 == 1 {
        other.go_on(rank);
    }
    good("deregMr", rank.plugin.deregister(sender, sends));
    good("deregMr", rank.plugin.deregister(receiver, receives));
    drop((outgoing, incoming));
    other.go_on(rank);
    good("closeRecv", rank.plugin.close_recv(receiver));
    good("closeSend", rank.plugin.close_send(sender));
    other.go_on(rank);
}
