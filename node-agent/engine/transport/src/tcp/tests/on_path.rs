//! Somebody on the way between two servers of a job: reads, changes, doubles, leaves out, moves what goes over a rail.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

/// What it does, once, to the bytes that go from the dialer to the listener, well behind the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    Read,
    Change,
    Double,
    LeaveOut,
    Move,
    Cut,
}

/// Bytes of a connection that pass before the attack: the handshake is shorter, and an operation is under way then.
const AFTER: usize = 200_000;
/// Bytes kept of what passes.
const KEPT: usize = 4 << 20;

/// Between a dialer and this listener. What passed it, and whether it has struck.
#[derive(Debug, Default)]
struct Seen {
    bytes: Vec<u8>,
    struck: bool,
}

/// Changes a piece of what passes, if it is time to. False: the connection is cut.
fn strike(attack: Attack, piece: &mut Vec<u8>, held: &mut Vec<u8>) -> bool {
    let half = piece.len() / 2;
    match attack {
        Attack::Read => {}
        // In the middle of a payload.
        Attack::Change => piece[half] ^= 0x40,
        Attack::Double => piece.extend_from_within(..),
        Attack::LeaveOut => piece.clear(),
        // It comes behind what follows it.
        Attack::Move => held.append(piece),
        Attack::Cut => {
            piece.truncate(half);
            return false;
        }
    }
    true
}

fn pass(mut from: TcpStream, mut to: TcpStream, attack: Option<Attack>, seen: &Mutex<Seen>) {
    let (mut buffer, mut passed, mut held) = (vec![0; 32 << 10], 0, Vec::new());
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 {
            break;
        }
        let mut piece = buffer[..n].to_vec();
        let late = std::mem::take(&mut held);
        let mut goes_on = true;
        {
            let mut seen = seen.lock().unwrap();
            let room = KEPT.saturating_sub(seen.bytes.len());
            seen.bytes.extend_from_slice(&piece[..n.min(room)]);
            if let Some(attack) = attack.filter(|_| passed > AFTER && !seen.struck && n > 1000) {
                seen.struck = true;
                goes_on = strike(attack, &mut piece, &mut held);
            }
        }
        passed += n;
        piece.extend(late);
        if to.write_all(&piece).is_err() || !goes_on {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Where a dialer connects in place of `to`.
fn attacker(net: u8, rail: u8, to: SocketAddr, attack: Attack) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind((Ipv4Addr::new(127, net, 250, rail + 1), 0)).unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Seen::default())));
    let reported = Arc::clone(&seen);
    // It ends with the test's process.
    thread::spawn(move || {
        for dialed in listener.incoming() {
            let (Ok(dialed), Ok(there)) = (dialed, TcpStream::connect(to)) else { continue };
            let (back, forth) = (there.try_clone().unwrap(), dialed.try_clone().unwrap());
            let (one, other) = (Arc::clone(&reported), Arc::new(Mutex::new(Seen::default())));
            thread::spawn(move || pass(dialed, there, Some(attack), &one));
            thread::spawn(move || pass(back, forth, None, &other));
        }
    });
    (at, seen)
}

/// What an operation came to.
struct Outcome {
    /// Wrong elements at both nodes together.
    wrong: usize,
    failed: bool,
    seen: Vec<u8>,
    struck: bool,
}

const ELEMENTS: usize = 1 << 20;

/// Two nodes add up over two rails, of which the first goes through an attacker.
fn under(attack: Attack, protection: Protection) -> Outcome {
    let net = net();
    let own = |node| TcpConfig { protection, ..config(net, node, 2, 2) };
    let engines: Vec<Engine> = (0..2).map(|node| Engine::new(&own(node), 32 << 10)).collect();
    let all: Vec<Vec<SocketAddr>> = engines.iter().map(|engine| engine.rails.endpoints()).collect();
    let (through, seen) = attacker(net, 0, all[0][0], attack);
    let reported = [vec![all[1][0], all[1][1]], vec![through, all[0][1]]];
    let done = together(engines, |n, engine| {
        let peers = BTreeMap::from([(1 - n as Node, reported[n].clone())]);
        engine.rails.connect(&peers, Instant::now() + Duration::from_secs(10)).unwrap();
        engine.until(|engine| engine.rails.wiring() == Wiring::Done);
        let value = |at: usize| (at % 1000 + n) as f32;
        let input: Vec<u8> = (0..ELEMENTS).flat_map(|at| value(at).to_ne_bytes()).collect();
        let buffer = engine.memory.insert(input);
        let now = engine.clock.now();
        engine.machine.post(n as u32, sum(ELEMENTS as u64), buffer, buffer, now).unwrap();
        engine.until(|engine| !engine.ended.is_empty());
        let failed = engine.ended[0].result.is_err();
        let elements = engine.memory.bytes(buffer).unwrap().as_chunks::<4>().0.iter().enumerate();
        let right = |at: usize| (at % 1000 * 2 + 1) as f32;
        (elements.filter(|(at, v)| f32::from_ne_bytes(**v) != right(*at)).count(), failed)
    });
    let seen = seen.lock().unwrap();
    let wrong = done.iter().map(|(_, (wrong, _))| wrong).sum();
    let failed = done.iter().any(|(_, (_, failed))| *failed);
    Outcome { wrong, failed, seen: seen.bytes.clone(), struck: seen.struck }
}

/// Part of what node 1 sends: its operands, in their order.
fn operands() -> Vec<u8> {
    (100..120).flat_map(|at: usize| ((at + 1) as f32).to_ne_bytes()).collect()
}

fn shows(bytes: &[u8]) -> bool {
    let part = operands();
    bytes.windows(part.len()).any(|window| window == part)
}

/// Why there is protection: without it an attacker reads all, and a bit that it turns is a wrong result that nobody notices.
#[test]
fn without_protection_who_is_on_the_way_reads_and_changes() {
    let read = under(Attack::Read, Protection::None);
    assert!(read.struck && shows(&read.seen) && read.wrong == 0);
    let changed = under(Attack::Change, Protection::None);
    assert!(changed.struck && !changed.failed && changed.wrong > 0);
}

#[test]
fn who_is_on_the_way_reads_nothing_of_what_is_encrypted() {
    for (protection, readable) in [(Protection::Integrity, true), (Protection::Encrypted, false)] {
        let Outcome { wrong, failed, seen, struck, .. } = under(Attack::Read, protection);
        assert!(struck && !failed && wrong == 0, "{protection:?}");
        assert!(seen.len() > AFTER && shows(&seen) == readable, "{protection:?}");
    }
}

#[test]
fn what_is_changed_doubled_left_out_moved_or_cut_ends_the_connection_and_the_result_is_right() {
    for protection in [Protection::Integrity, Protection::Encrypted] {
        for attack in [Attack::Change, Attack::Double, Attack::LeaveOut, Attack::Move, Attack::Cut] {
            let Outcome { wrong, failed, struck, .. } = under(attack, protection);
            assert!(struck, "{protection:?} {attack:?}: the attacker had nothing to do");
            assert!(!failed && wrong == 0, "{protection:?} {attack:?}: {wrong} wrong, failed {failed}");
        }
    }
}

/// Both ends of a job have the same protection; one that has less is a stranger.
#[test]
fn an_end_with_less_protection_is_refused() {
    let net = net();
    let less = TcpConfig { protection: Protection::Integrity, ..config(net, 1, 2, 1) };
    let more = TcpConfig { protection: Protection::Encrypted, ..config(net, 0, 2, 1) };
    let engines = vec![Engine::new(&more, 4096), Engine::new(&less, 4096)];
    let endpoints: Vec<Vec<SocketAddr>> = engines.iter().map(|e| e.rails.endpoints()).collect();
    let done = together(engines, |n, engine| {
        let peers = BTreeMap::from([(1 - n as Node, endpoints[1 - n].clone())]);
        engine.rails.connect(&peers, Instant::now() + 2 * SOON).unwrap();
        engine.until(|e| n == 1 || e.rails.refusals().stranger > 0);
        engine.rails.wiring()
    });
    let waits = |(_, wiring): &(Engine, Wiring)| matches!(wiring, Wiring::Waiting(_));
    assert!(done.iter().all(waits), "{:?}", [&done[0].1, &done[1].1]);
}
