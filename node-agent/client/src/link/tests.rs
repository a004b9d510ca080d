//! The link to an engine that does not read: the test plays it.

use std::time::{Duration, Instant};

use node_agent_ipc::{Channel, Listener, Reply, Request};

use super::Link;
use crate::Error;

/// Far longer than anything here takes: only a hang gets there.
const LONG: Duration = Duration::from_secs(60);

/// A link whose requests may take so long, and the engine's end of it.
fn connected(limit: Duration) -> (Link, Channel) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("engine");
    let listener = Listener::bind(&path).unwrap();
    let link = Link::new(Channel::connect(&path).unwrap(), limit);
    let (engine, _) = listener.accept().unwrap().unwrap();
    (link, engine)
}

/// Notifies until the socket takes nothing more; says how often.
fn fill(link: &Link) -> u64 {
    let mut sent = 0;
    while link.notify(1, [sent, 0, 0]).unwrap() {
        sent += 1;
    }
    assert!(sent > 0);
    sent
}

/// The next request, as the engine reads it.
fn next(engine: &Channel) -> (u64, Request) {
    engine.wait_readable(Instant::now() + LONG).unwrap();
    Request::decode(&engine.receive().unwrap().unwrap().packet).unwrap()
}

/// Both directions are full: whoever asks takes what has come, and goes on when the engine reads.
#[test]
fn a_full_socket_is_waited_for() {
    let (link, engine) = connected(LONG);
    let packet = Reply::Notification { from: 1, words: [7; 3] }.encode(0);
    let mut came = 0;
    while engine.send(&packet, None).is_ok() {
        came += 1;
    }
    let sent = fill(&link);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| link.submit(&Request::Alloc { bytes: 1 }).unwrap());
        let end = Instant::now() + LONG;
        while engine.send(&packet, None).is_err() {
            assert!(Instant::now() < end, "nobody takes what has come");
            std::thread::yield_now();
        }
        for n in 0..sent {
            assert_eq!(next(&engine), (0, Request::Notify { to: 1, words: [n, 0, 0] }));
        }
        let (id, request) = next(&engine);
        assert_eq!(request, Request::Alloc { bytes: 1 });
        assert_eq!(asked.join().unwrap(), id);
    });
    for _ in 0..=came {
        assert_eq!(link.poll_notification().unwrap().unwrap().words, [7; 3]);
    }
    assert_eq!(link.poll_notification().unwrap(), None);
}

#[test]
fn a_request_that_found_no_room_is_the_only_one_that_fails() {
    let (link, engine) = connected(Duration::from_millis(50));
    let sent = fill(&link);
    let error = link.submit(&Request::Alloc { bytes: 1 }).unwrap_err();
    assert!(matches!(error, Error::EngineSilent { .. }), "{error}");
    link.check().unwrap();
    for n in 0..sent {
        assert_eq!(next(&engine), (0, Request::Notify { to: 1, words: [n, 0, 0] }));
    }
    let id = link.submit(&Request::Alloc { bytes: 2 }).unwrap();
    assert_eq!(next(&engine), (id, Request::Alloc { bytes: 2 }));
}

#[test]
fn a_process_that_ends_does_not_wait_long_for_room() {
    let (link, engine) = connected(LONG);
    fill(&link);
    let start = Instant::now();
    link.leave();
    assert!(start.elapsed() < LONG / 2);
    drop(engine);
}
