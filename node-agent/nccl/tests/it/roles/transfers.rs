//! Messages around a ring: order, many in flight, groups, sizes below the room, and long ones.

use std::collections::VecDeque;

use super::{Rank, fill, good, setting, until};
use crate::plugin::logged;

/// Requests that NCCL has in flight on one connection.
const IN_FLIGHT: usize = 32;
/// What is in a buffer before anything has come.
const UNTOUCHED: u8 = 0xee;

/// One round in each version of the interface: devices, single messages with 32 in flight, groups of 8.
pub fn ring(rank: &mut Rank) {
    assert_eq!(good("devices", rank.plugin.devices()), 1);
    let device = good("getProperties", rank.plugin.device(0));
    assert_eq!((device.pointers, device.max_receives), (1, 8));
    assert!(device.speed >= 10_000 && device.max_comms >= 1024, "{device:?}");
    assert!(device.max_bytes.is_none_or(|most| most >= 1 << 20), "{device:?}");
    assert!(device.place.is_none_or(|place| place == (-1, -1)), "{device:?}");
    assert_eq!(rank.plugin.device(1), Err(3));
    let (sender, receiver) = rank.ring("ring");
    assert!(!good("regMr", rank.plugin.register(sender, 1)).is_null());
    assert_eq!(rank.plugin.register(sender, 2), Err(3), "memory of GPUs is refused");
    assert!(good("iflush", rank.plugin.iflush(receiver)).is_null(), "nothing is to be flushed");
    singles(rank, sender, receiver);
    groups(rank, sender, receiver);
    crossed(rank, sender, receiver);
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    rank.finish();
}

fn singles(rank: &Rank, sender: *mut std::ffi::c_void, receiver: *mut std::ffi::c_void) {
    let sizes: Vec<usize> = (0..200).map(|n| [0, 1, 7, 100, 4096, 5001, 70_001][n % 7]).collect();
    let before = (rank.rank + rank.world - 1) % rank.world;
    let outgoing: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(n, size)| fill(rank.rank as u64, n as u64, *size)).collect();
    let mut rooms: Vec<Vec<u8>> = sizes.iter().map(|size| vec![UNTOUCHED; size + 300]).collect();
    let (mut sent, mut received) = (VecDeque::new(), VecDeque::new());
    let (mut next_send, mut next_receive, mut done) = (0, 0, 0);
    until("all single messages", || {
        if next_receive < sizes.len() && received.len() < IN_FLIGHT {
            let request = good("irecv", rank.plugin.irecv(receiver, &mut [(&mut rooms[next_receive], 9)]));
            if !request.is_null() {
                received.push_back((next_receive, request));
                next_receive += 1;
            }
        }
        if next_send < sizes.len() && sent.len() < IN_FLIGHT {
            let request = good("isend", rank.plugin.isend(sender, &outgoing[next_send], 9));
            if !request.is_null() {
                sent.push_back((next_send, request));
                next_send += 1;
            }
        }
        if let Some((n, request)) = sent.front().copied()
            && let Some(found) = good("test", rank.plugin.test(request, 1))
        {
            assert_eq!(found[0] as usize, sizes[n]);
            sent.pop_front();
        }
        if let Some((n, request)) = received.front().copied()
            && let Some(found) = good("test", rank.plugin.test(request, 1))
        {
            assert_eq!(found[0] as usize, sizes[n], "the true size");
            let (came, rest) = rooms[n].split_at(sizes[n]);
            assert!(came == fill(before as u64, n as u64, sizes[n]), "message {n} of {} bytes", sizes[n]);
            assert!(rest.iter().all(|byte| *byte == UNTOUCHED), "message {n} was written beyond its end");
            received.pop_front();
            done += 1;
        }
        (done == sizes.len() && next_send == sizes.len() && sent.is_empty()).then_some(())
    });
}

fn groups(rank: &Rank, sender: *mut std::ffi::c_void, receiver: *mut std::ffi::c_void) {
    let before = (rank.rank + rank.world - 1) % rank.world;
    for round in 0..20_u64 {
        let size = |n: u64| (n as usize * 531 + round as usize * 97) % 6000;
        let mut rooms: Vec<Vec<u8>> = (0..8).map(|n| vec![UNTOUCHED; size(n) + 10]).collect();
        let mut messages: Vec<(&mut [u8], i32)> =
            rooms.iter_mut().zip(10..).map(|(room, tag)| (&mut room[..], tag)).collect();
        let received = rank.receive(receiver, &mut messages);
        let outgoing: Vec<Vec<u8>> =
            (0..8).map(|n| fill(rank.rank as u64, 1000 * round + n, size(n))).collect();
        // Any order within the group.
        let order = (0..8_usize).map(|n| (n * 5 + round as usize) % 8);
        let sent: Vec<_> = order.map(|n| rank.send(sender, &outgoing[n], 10 + n as i32)).collect();
        let found = until("a group", || good("test", rank.plugin.test(received, 8)));
        for request in sent {
            until("a send of a group", || good("test", rank.plugin.test_blind(request)).then_some(()));
        }
        for (n, room) in (0..8).zip(&rooms) {
            assert_eq!(found[n as usize] as usize, size(n));
            assert!(
                room[..size(n)] == fill(before as u64, 1000 * round + n, size(n)),
                "round {round}, message {n}"
            );
            assert!(room[size(n)..].iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

/// Pairs of ranks share the connection: all messages of one are sent before the first of the other.
fn crossed(rank: &Rank, sender: *mut std::ffi::c_void, receiver: *mut std::ffi::c_void) {
    const GROUPS: usize = 16;
    let before = (rank.rank + rank.world - 1) % rank.world;
    let size = |number: usize| 100 + 977 * number % 5000;
    let mut rooms: Vec<[Vec<u8>; 2]> = (0..GROUPS).map(|_| [vec![0; 6000], vec![0; 6000]]).collect();
    let mut received = Vec::new();
    for [first, second] in &mut rooms {
        received.push(rank.receive(receiver, &mut [(first, 1), (second, 2)]));
    }
    let numbers: Vec<usize> = (0..GROUPS).map(|n| 2 * n).chain((0..GROUPS).map(|n| 2 * n + 1)).collect();
    let data: Vec<Vec<u8>> = numbers.iter().map(|n| fill(rank.rank as u64, *n as u64, size(*n))).collect();
    let tag = |number: usize| if number.is_multiple_of(2) { 1 } else { 2 };
    let sent: Vec<_> = numbers.iter().zip(&data).map(|(n, data)| rank.send(sender, data, tag(*n))).collect();
    for (group, request) in received.into_iter().enumerate() {
        let found = until("a group", || good("test", rank.plugin.test(request, 2)));
        for (at, room) in rooms[group].iter().enumerate() {
            let number = 2 * group + at;
            assert_eq!(found[at] as usize, size(number));
            assert!(
                room[..size(number)] == fill(before as u64, number as u64, size(number)),
                "message {number}"
            );
        }
    }
    for request in sent {
        until("a send", || good("test", rank.plugin.test_blind(request)).then_some(()));
    }
}

/// Long messages for as long as the test says: it cuts rails meanwhile.
pub fn long(rank: &mut Rank) {
    let (bytes, rounds) = (setting("RAIL_TEST_BYTES") as usize, setting("RAIL_TEST_ROUNDS"));
    let before = (rank.rank + rank.world - 1) % rank.world;
    let (sender, receiver) = rank.ring("ring");
    for round in 0..rounds {
        if rank.rank == 0 {
            rank.meeting.put(&format!("round.{round}"), "begun");
        }
        let outgoing = fill(rank.rank as u64, round, bytes);
        let mut room = vec![UNTOUCHED; bytes + 1];
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let sent = rank.send(sender, &outgoing, 0);
        let found = until("a long message", || good("test", rank.plugin.test(received, 1)));
        until("a long send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
        assert_eq!(found, [i32::try_from(bytes).unwrap()]);
        assert!(room[..bytes] == fill(before as u64, round, bytes), "a wrong byte in round {round}");
        assert_eq!(room[bytes], UNTOUCHED);
    }
    rank.finish();
}

/// What NCCL may not do, and how much it may.
pub fn bounds(rank: &mut Rank) {
    assert!(rank.plugin.misuse().iter().all(|code| *code == 3), "{:?}", rank.plugin.misuse());
    let (sender, receiver) = rank.ring("ring");
    let bytes = [7_u8; 64];
    // 32 requests, times 8, before the receiver has said anything.
    let sent: Vec<_> =
        (0..IN_FLIGHT * 8).map(|_| good("isend", rank.plugin.isend(sender, &bytes, 1))).collect();
    assert!(sent.iter().all(|request| !request.is_null()));
    assert!(good("isend", rank.plugin.isend(sender, &bytes, 1)).is_null(), "one more is to be tried again");
    rank.meeting.barrier("sent");
    let mut rooms = vec![[0_u8; 64]; IN_FLIGHT * 8];
    let mut received = Vec::new();
    for group in rooms.chunks_mut(8) {
        let mut messages: Vec<(&mut [u8], i32)> = group.iter_mut().map(|room| (&mut room[..], 1)).collect();
        received.push(rank.receive(receiver, &mut messages));
    }
    for request in received {
        let found = until("a group", || good("test", rank.plugin.test(request, 8)));
        assert_eq!(found, [64; 8]);
    }
    for request in &sent {
        until("a send", || good("test", rank.plugin.test_blind(*request)).then_some(()));
    }
    assert!(rooms.iter().all(|room| *room == bytes));
    assert_eq!(rank.plugin.test_blind(sent[0]), Err(3), "it was found complete before");
    assert!(
        logged().iter().any(|(level, line)| *level == 2 && line.contains("test: there is no such request"))
    );
    // A message that is larger than its receive is an error at the receiver, with what to do.
    rank.meeting.barrier("large");
    let mut small = [0_u8; 8];
    let received = rank.receive(receiver, &mut [(&mut small, 1)]);
    let large = rank.send(sender, &bytes, 1);
    let code = until("the error", || rank.plugin.test(received, 1).err());
    assert_eq!((code, small), (5, [0; 8]));
    assert!(logged().iter().any(|(level, line)| *level == 2 && line.contains("sent 64 bytes with tag 1")));
    until("a send that nobody wants", || good("test", rank.plugin.test_blind(large)).then_some(()));
    rank.finish();
}

/// A rank that connects to itself, as NCCL does to try things out.
pub fn itself(rank: &mut Rank) {
    let name = format!("itself.{}", rank.rank);
    let listener = rank.listen(&name);
    let (sender, receiver) = rank.connect(&name, listener);
    for size in [0, 1, 1000, 1 << 20] {
        let outgoing = fill(1, size as u64, size);
        let mut room = vec![UNTOUCHED; size + 5];
        let sent = rank.send(sender, &outgoing, 0);
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let found = until("a message", || good("test", rank.plugin.test(received, 1)));
        until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
        assert_eq!(found, [i32::try_from(size).unwrap()]);
        assert!(room[..size] == outgoing[..] && room[size..].iter().all(|byte| *byte == UNTOUCHED));
    }
    good("closeListen", rank.plugin.close_listen(listener));
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    rank.finish();
}
