//! Ends that close while others wait, listeners that are used again, and ranks that are gone.

use std::ptr::null_mut;

use super::{Rank, fill, good, until};
use crate::plugin::logged;

/// Closes with everything in flight, again and again; then all works as before.
pub fn run(rank: &mut Rank) {
    for round in 0..12 {
        let name = format!("closing.{round}");
        let (sender, receiver) = rank.ring(&name);
        let data = fill(1, round, 200_000);
        let mut rooms = vec![vec![0; 200_000]; 8];
        // Some of the sends have a receive and some have none; some are waited for. The other end may have closed at any moment.
        for _ in 0..12 {
            let _ = rank.plugin.isend(sender, &data, 0).map_err(|code| assert_eq!(code, 6));
        }
        let mut received = Vec::new();
        for room in &mut rooms {
            let request = rank.plugin.irecv(receiver, &mut [(room, 0)]);
            received.extend(request.map_err(|code| assert_eq!(code, 6)));
        }
        for request in received.iter().take(round as usize % 4) {
            // The other end may have closed before it has sent that many.
            until("a message, or the end", || match rank.plugin.test_blind(*request) {
                Ok(done) => done.then_some(()),
                Err(code) => {
                    assert_eq!(code, 6);
                    Some(())
                }
            });
        }
        if round % 2 == rank.rank as u64 % 2 {
            good("closeSend", rank.plugin.close_send(sender));
            good("closeRecv", rank.plugin.close_recv(receiver));
        } else {
            good("closeRecv", rank.plugin.close_recv(receiver));
            good("closeSend", rank.plugin.close_send(sender));
        }
        // The memory is ours again at once: nothing is written there any more.
        rooms.iter_mut().for_each(|room| room.fill(0x11));
        let late: Vec<_> = received.last().map(|request| rank.plugin.test(*request, 1)).into_iter().collect();
        assert!(late.iter().all(|code| *code == Err(3)), "its connection is closed");
        rank.meeting.barrier(&name);
        assert!(rooms.iter().flatten().all(|byte| *byte == 0x11), "something was written after the close");
    }
    // One listener, several connections, and one of another life of a handle's number.
    let listener = rank.listen(&format!("again.{}", rank.rank));
    let next = (rank.rank + 1) % rank.world;
    for number in 0..3 {
        let (sender, receiver) = rank.connect(&format!("again.{next}"), listener);
        let data = fill(2, number, 1000);
        let mut room = vec![0; 1000];
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let sent = rank.send(sender, &data, 0);
        until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
        until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
        assert_eq!(room, data);
        good("closeSend", rank.plugin.close_send(sender));
        good("closeRecv", rank.plugin.close_recv(receiver));
        assert_eq!(rank.plugin.close_recv(receiver), Err(3), "twice");
    }
    good("closeListen", rank.plugin.close_listen(listener));
    rank.finish();
}

/// Listeners that are closed, and handles that are none.
pub fn refused(rank: &mut Rank) {
    let name = format!("refused.{}", rank.rank);
    let listener = rank.listen(&name);
    good("closeListen", rank.plugin.close_listen(listener));
    rank.meeting.barrier("closed");
    let mut handle = rank.handle(&format!("refused.{}", (rank.rank + 1) % rank.world));
    let mut ask = || match rank.plugin.connect(&mut handle) {
        Ok(sender) => {
            assert!(sender.is_null());
            None
        }
        Err(code) => Some(code),
    };
    assert_eq!(until("the refusal", &mut ask), 6);
    assert!(logged().iter().any(|(level, line)| *level == 2 && line.contains("refused the connection")));
    assert_eq!(rank.plugin.connect(&mut [0; 128]), Err(5));
    assert!(logged().iter().any(|(_, line)| line.contains("NCCL_NET_PLUGIN")), "{:?}", logged());
    // Somebody has to answer until all have been refused.
    rank.meeting.put(&format!("refused.all.{}", rank.rank), "yes");
    for other in 0..rank.world {
        rank.meeting.get(&format!("refused.all.{other}"));
    }
    rank.finish();
}

/// Rank 1 ends without a word; the others, who wait for it, hear of that.
pub fn lost(rank: &mut Rank) {
    let (_, receiver) = rank.ring("ring");
    let mut room = [0; 100];
    let received = rank.receive(receiver, &mut [(&mut room, 0)]);
    rank.meeting.barrier("waiting");
    if rank.rank == 1 {
        std::process::abort();
    }
    assert_eq!(until("the failure", || rank.plugin.test(received, 1).err()), 6);
    let lines = logged();
    assert!(
        lines.iter().any(|(level, line)| *level == 2
            && line.contains("the job failed")
            && line.contains("rank lost")),
        "{lines:?}"
    );
    // Closing succeeds, and nothing else does.
    good("closeRecv", rank.plugin.close_recv(receiver));
    assert_eq!(rank.plugin.listen().map_err(|code| code != 0), Err(true));
    assert_eq!(rank.plugin.isend(null_mut(), &[1], 0), Err(3));
}

/// The sender's process ends without closing anything; the receiver closes, and can leave.
pub fn ended(rank: &mut Rank) {
    let (sender, receiver) = rank.ring("ring");
    let mut room = [0; 100];
    let received = rank.receive(receiver, &mut [(&mut room, 0)]);
    let data = fill(3, rank.rank as u64, 100);
    let sent = rank.send(sender, &data, 0);
    until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
    until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
    rank.meeting.barrier("received");
    if rank.rank == 0 {
        // As a program that returns from `main`.
        return;
    }
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    good("finalize", rank.plugin.finalize());
    rank.meeting.put("left", "yes");
    rank.meeting.get("seen");
}
