//! The library's profiler as NCCL loads it: beside real messages, and as each version of NCCL calls it.

use std::path::Path;
use std::ptr::null_mut;

use crate::plugin::logged;
use crate::roles::{Rank, fill, good, setting, until};

mod calls;
mod proxy;
mod random;

use calls::{Calls, Communicator, What};
use proxy::{Call, Operation};
pub use random::play_all;

const BYTES: usize = 4 << 20;

/// The profiler of the version that the test names, with a communicator.
fn begin(path: &Path, rank: &Rank) -> (Calls, Communicator) {
    let calls = Calls::load(path, setting("RAIL_TEST_PROFILER"));
    let communicator = calls.begin(77, rank.rank as i32, rank.world as i32);
    (calls, communicator)
}

/// `AllReduce`, as it is numbered, by ring and without flags.
fn collective(sequence: u64) -> What {
    What::Coll { sequence, function: 4, algorithm: 1, protocol: 2, count: 99 }
}

fn operation(peer: usize, sends: bool) -> What {
    What::Op { pid: std::process::id() as i32, channel: 1, peer: peer as i32, sends }
}

/// Messages around a ring, told to the profiler as NCCL's proxy tells them.
pub fn profile(rank: &mut Rank, path: &Path) {
    let (calls, communicator) = begin(path, rank);
    assert_eq!(communicator.mask, 30);
    assert!(!communicator.context.is_null());
    let (sender, receiver) = rank.ring("ring");
    let (next, before) = ((rank.rank + 1) % rank.world, (rank.rank + rank.world - 1) % rank.world);
    for number in 0..6 {
        let call = Call::begin(&calls, &communicator, collective(number));
        let begin = |what| Operation::begin(&calls, &communicator, &call, what, 2);
        let [mut to, mut from] = [begin(operation(next, true)), begin(operation(before, false))];
        assert!([call.event, to.event, from.event].iter().all(|handle| !handle.is_null()));
        for each in [&mut to, &mut from] {
            each.start(0);
            each.posted(0);
        }
        let data = fill(rank.rank as u64, number, BYTES);
        let mut room = vec![0; BYTES];
        to.ready(0);
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let sent = rank.send(sender, &data, 0);
        to.sent(0, BYTES);
        until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
        from.received(0, BYTES);
        from.handed(0);
        from.done(0);
        until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
        to.done(0);
        to.end();
        from.end();
        call.end(&calls);
        assert!(room == fill(before as u64, number, BYTES));
    }
    nobodys(&calls, &communicator, next);
    calls.end(&communicator);
    assert!(logged().iter().any(|(_, line)| line.contains(".trace.json is written")), "{:?}", logged());
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    rank.finish();
}

/// What is over, or was never there, is nobody's; nor is what this process does for a rank of another one of its own communicator.
fn nobodys(calls: &Calls, communicator: &Communicator, peer: usize) {
    let foreign = What::Op { pid: std::process::id() as i32 + 1, channel: 1, peer: peer as i32, sends: true };
    assert!(calls.start(communicator, null_mut(), foreign).is_null());
    calls.stop(null_mut());
    assert!(calls.start(communicator, null_mut(), What::Step(0)).is_null());
    let nowhere = Communicator { context: null_mut(), ..*communicator };
    for what in [What::Group, collective(1), operation(peer, true)] {
        assert!(calls.start(&nowhere, null_mut(), what).is_null(), "{what:?}");
    }
}

/// NCCL loads the profiler of its network plugin by itself: that costs nothing where the job does not ask for it.
pub fn unprofiled(rank: &mut Rank, path: &Path) {
    for version in 1..=6 {
        let calls = Calls::load(path, version);
        let communicator = calls.begin(77, rank.rank as i32, rank.world as i32);
        assert_eq!((communicator.mask, communicator.context), (0, null_mut()), "v{version}");
        assert!(calls.start(&communicator, null_mut(), collective(1)).is_null());
        calls.end(&communicator);
    }
    assert!(!logged().iter().any(|(_, line)| line.contains("written")), "{:?}", logged());
    rank.finish();
}

/// The ranks' files say who waited for whom, and one rank of each server draws its rails.
pub fn check(pictures: &[String]) {
    for (rank, picture) in pictures.iter().enumerate() {
        let (next, before) = ((rank + 1) % 3, (rank + 2) % 3);
        for part in [
            "\"lost\":\"0\"".to_owned(),
            "AllReduce #5 (RING, SIMPLE)".to_owned(),
            format!("\"name\":\"sends to rank {next}\""),
            format!("\"name\":\"receives from rank {before}\""),
            format!("waits for rank {next}"),
            format!("waits for rank {before}"),
        ] {
            assert!(picture.contains(&part), "{part} is missing in rank {rank}'s:\n{picture}");
        }
        assert_eq!(picture.contains("\"name\":\"rail 0, Mbit/s\""), rank != 1, "rank {rank}:\n{picture}");
    }
}
