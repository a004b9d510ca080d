//! Notifications of ranks over real engines: who gets them, in which order, and what becomes of who waits when the job fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use node_agent_client::{Client, Error, FailureCode, Notification, RailModel, ReduceOp};

use crate::loss::vanish;
use crate::world::{LONG, World};

/// The next notification; only a hang gets to the limit.
fn next(client: &Client) -> Result<Notification, Error> {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = client.poll_notification()? {
            return Ok(found);
        }
        assert!(Instant::now() < end, "nothing has come");
        std::thread::yield_now();
    }
}

fn notify(client: &Client, to: u32, words: [u64; 3]) {
    let end = Instant::now() + LONG;
    while !client.notify(to, words).unwrap() {
        assert!(Instant::now() < end, "the engine takes nothing");
        std::thread::yield_now();
    }
}

#[test]
fn all_ranks_notify_each_other_in_order() {
    const EACH: u64 = 500;
    for (ranks, rails) in [(&[0, 0, 1, 1, 2][..], 3), (&[0, 0, 0], 0)] {
        let world = World::new(ranks, rails);
        world.each_rank(|client| {
            let found = client.subscribe().unwrap();
            assert_eq!((found.attempt, found.rails.len()), (1, usize::from(rails)));
            client.barrier().unwrap();
            let size = client.size();
            let others: Vec<u32> = (0..size).filter(|other| *other != client.rank()).collect();
            for n in 0..EACH {
                others.iter().for_each(|to| notify(&client, *to, [n, client.rank().into(), u64::from(*to)]));
            }
            let mut came = vec![0; size as usize];
            for _ in 0..EACH * others.len() as u64 {
                let Notification { from, words } = next(&client).unwrap();
                assert_eq!(words, [came[from as usize], from.into(), client.rank().into()]);
                came[from as usize] += 1;
            }
            // A notification and a call of one rank keep their order at its engine.
            client.barrier().unwrap();
            assert_eq!(client.poll_notification().unwrap(), None);
            client.detach().unwrap();
        });
    }
}

/// Who waits for a notification has no call that would fail, and hears of it all the same.
#[test]
fn who_waits_is_told_that_the_job_has_failed() {
    let world = World::new(&[0, 0, 1], 2);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    zero.subscribe().unwrap();
    two.subscribe().unwrap();
    // One that takes none gets none.
    notify(&zero, 1, [1, 2, 3]);
    vanish(one);
    for client in [&zero, &two] {
        let error = next(client).unwrap_err();
        assert_eq!(error.code(), FailureCode::RankLost, "{error}");
        assert!(client.notify(1, [0; 3]).is_err());
    }
    let late = two.subscribe().unwrap_err();
    assert_eq!(late.code(), FailureCode::RankLost, "{late}");
    // Those who heard of it take their leave, and are not taken for ranks that were lost.
    drop((zero, two));
    let end = Instant::now() + LONG;
    while world.engines.iter().any(|engine| !engine.status().attached.is_empty()) {
        assert!(Instant::now() < end, "they never left");
        std::thread::yield_now();
    }
    let causes: Vec<String> = world.engines.iter().filter_map(|engine| engine.status().cause).collect();
    assert!(causes.iter().any(|cause| cause.contains("rank 1")), "{causes:?}");
    assert!(
        causes.iter().all(|cause| !cause.contains("rank 0 (") && !cause.contains("rank 2 (")),
        "{causes:?}"
    );
}

/// Notifications that nobody reads fill the sockets of ranks. What ranks ask for meanwhile comes behind them, and their leave as well.
#[test]
fn ranks_that_do_not_read_are_served_all_the_same() {
    const EACH: u64 = 1000;
    for (ranks, rails) in [(&[0, 0][..], 0), (&[0, 1], 1)] {
        let world = World::new(ranks, rails);
        let clients = [world.attach(0), world.attach(1)];
        clients.iter().for_each(|client| drop(client.subscribe().unwrap()));
        let flood = |round: u64| {
            for n in 0..EACH {
                notify(&clients[0], 1, [round, n, 0]);
                notify(&clients[1], 0, [round, n, 1]);
            }
            // Time for them to come, as far as there is room.
            std::thread::sleep(Duration::from_millis(100));
        };
        flood(0);
        for client in &clients {
            let buffer = client.alloc(4096).unwrap();
            buffer.write_bytes(4000, &[7; 96]).unwrap();
        }
        for client in &clients {
            for n in 0..EACH {
                let from = 1 - client.rank();
                assert_eq!(next(client).unwrap(), Notification { from, words: [0, n, from.into()] });
            }
        }
        flood(1);
        for client in clients {
            client.detach().unwrap();
        }
    }
}

/// A rank that has not read for long hears the cause behind all that waits, and is not taken for one that was lost.
#[test]
fn the_cause_comes_behind_all_that_waits() {
    const WAITING: u64 = 1000;
    let world = World::new(&[0, 0, 0], 0);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    one.subscribe().unwrap();
    (0..WAITING).for_each(|n| notify(&zero, 1, [n, 0, 0]));
    // Its answer says that the engine has taken them all.
    drop(zero.alloc(4096).unwrap());
    vanish(two);
    assert_eq!(zero.barrier().unwrap_err().code(), FailureCode::RankLost);
    for n in 0..WAITING {
        assert_eq!(next(&one).unwrap().words, [n, 0, 0]);
    }
    let error = next(&one).unwrap_err();
    assert_eq!(error.code(), FailureCode::RankLost, "{error}");
    assert!(error.to_string().contains("rank 2"), "{error}");
    drop((zero, one));
    let end = Instant::now() + LONG;
    while !world.engines[0].status().attached.is_empty() {
        assert!(Instant::now() < end, "they never left");
        std::thread::yield_now();
    }
    let cause = world.engines[0].status().cause.unwrap_or_default();
    assert!(cause.contains("rank 2") && !cause.contains("rank 1"), "{cause}");
}

/// A rank that does not read holds up who notifies it, and nobody is lost by that, nor any notification.
#[test]
fn who_does_not_read_holds_up_who_notifies() {
    const IDLE: Duration = Duration::from_millis(300);
    let world = World::new(&[0, 0, 0], 0);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    [&one, &two].iter().for_each(|client| drop(client.subscribe().unwrap()));
    let (mut made, mut idle) = (0, None::<Instant>);
    // More than may wait anywhere: the engine takes no more before that.
    while idle.is_none_or(|since| since.elapsed() < IDLE) {
        if zero.notify(1, [made, 0, 0]).unwrap() {
            (made, idle) = (made + 1, None);
            assert!(made < 4 << 16, "what waits has no bound");
        } else {
            idle.get_or_insert_with(Instant::now);
            std::thread::yield_now();
        }
    }
    // Others are served meanwhile.
    drop(two.alloc(4096).unwrap());
    let mut came = 0;
    while came < made {
        assert_eq!(next(&one).unwrap(), Notification { from: 0, words: [came, 0, 0] });
        came += 1;
    }
    notify(&zero, 2, [7; 3]);
    assert_eq!(next(&two).unwrap().words, [7; 3]);
    drop((zero, one, two));
    let cause = world.engines[0].status().cause;
    assert_eq!(cause, None);
}

/// Notifies rank 1 until there is no room for any more.
fn fill_up(client: &Client) -> u64 {
    let (mut made, mut idle) = (0, None::<Instant>);
    while idle.is_none_or(|since| since.elapsed() < Duration::from_millis(300)) {
        if client.notify(1, [made, 0, 0]).unwrap() {
            (made, idle) = (made + 1, None);
        } else {
            idle.get_or_insert_with(Instant::now);
            std::thread::yield_now();
        }
    }
    made
}

/// A rank that is held up is not read: that it dies is noticed all the same, though who holds it up never reads.
#[test]
fn a_rank_that_dies_while_it_is_held_up_is_lost() {
    let world = World::new(&[0, 0, 0], 0);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    one.subscribe().unwrap();
    two.subscribe().unwrap();
    fill_up(&zero);
    vanish(zero);
    let error = next(&two).unwrap_err();
    assert_eq!(error.code(), FailureCode::RankLost, "{error}");
    assert!(error.to_string().contains("rank 0"), "{error}");
    drop((one, two));
}

/// One that has taken its leave while it was held up is not lost, and neither is what it said before.
#[test]
fn a_rank_that_leaves_while_it_is_held_up_is_not_lost() {
    let world = World::new(&[0, 0, 0], 0);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    one.subscribe().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let made = fill_up(&zero);
            // Its socket is full, so it leaves as soon as there is room.
            ended.send(made).unwrap();
            drop(zero);
        });
        let made = end.recv_timeout(LONG).unwrap();
        for n in 0..made {
            assert_eq!(next(&one).unwrap(), Notification { from: 0, words: [n, 0, 0] });
            if n % 1000 == 0 {
                drop(two.alloc(4096).unwrap());
            }
        }
    });
    drop((one, two));
    assert_eq!(world.engines[0].status().cause, None);
}

/// Who asks when the first node has left, or is about to, is answered at once; a rank may go on without an answer.
#[test]
fn nobody_waits_for_a_first_node_that_has_left() {
    let world = World::new(&[0, 1, 1], 1);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    one.agree(0).unwrap();
    zero.detach().unwrap();
    world.engines[0].stopper.stop("its ranks are gone");
    let begin = Instant::now();
    let error = (1..).find_map(|key| one.agree(key).err()).unwrap();
    assert_eq!(error.code(), FailureCode::PeerLost, "{error}");
    assert!(error.to_string().contains("first node has left"), "{error}");
    assert_eq!(two.agree(0).unwrap_err().code(), FailureCode::PeerLost);
    assert!(begin.elapsed() < LONG / 4, "{:?}", begin.elapsed());
    drop((one, two));
    assert_eq!(world.engines[1].status().cause, None);
}

/// Questions and answers find their way between many notifications of ranks: so many are under way at a time as a rank is sure to be kept for that reads
/// them slowly (`Client::notify`).
#[test]
fn ranks_agree_while_others_notify() {
    let world = World::new(&[0, 1, 1], 1);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    zero.subscribe().unwrap();
    let (over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let is_over = || over.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut made = 0;
            while !is_over() {
                if made < taken.load(Ordering::SeqCst) + 30_000 && one.notify(0, [0; 3]).unwrap() {
                    made += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        });
        scope.spawn(|| {
            while !is_over() {
                match zero.poll_notification().unwrap() {
                    Some(_) => _ = taken.fetch_add(1, Ordering::SeqCst),
                    None => std::thread::yield_now(),
                }
            }
        });
        let answers: Vec<_> = (0..200).map(|key| two.agree(key)).collect();
        over.store(true, Ordering::SeqCst);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    });
    drop((zero, one, two));
}

/// All ranks are told the same under one key, whichever asks first and whatever is measured meanwhile.
#[test]
fn ranks_agree_on_what_rails_cost() {
    let world = World::new(&[0, 1, 1, 2], 2);
    let answers = std::sync::Mutex::new(std::collections::BTreeMap::<u64, Vec<RailModel>>::new());
    world.each_rank(|client| {
        for key in 0..20 {
            // Load between, so that other plans come up.
            let mut numbers = vec![1_i32; 10_000];
            client.all_reduce(&mut numbers, ReduceOp::Sum).unwrap();
            let model = client.agree(key).unwrap();
            assert_eq!((model.rails, model.capacity), (2, 1024));
            assert!(model.beta_ps > 0 && model.alpha_ns > 0, "{model:?}");
            answers.lock().unwrap().entry(key).or_default().push(model);
        }
        client.detach().unwrap();
    });
    for (key, models) in answers.into_inner().unwrap() {
        assert_eq!(models, vec![models[0]; 4], "key {key}");
    }
}

/// Who asks when the job has failed is told so, and so is who waits.
#[test]
fn who_asks_in_vain_is_told() {
    let world = World::new(&[0, 1, 1], 1);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    one.subscribe().unwrap();
    vanish(two);
    assert_eq!(next(&one).unwrap_err().code(), FailureCode::RankLost);
    assert_eq!(one.agree(1).unwrap_err().code(), FailureCode::RankLost);
    drop((zero, one));
}

/// What cannot be is no notification: its maker is told, and expelled.
#[test]
fn a_rank_that_is_not_there_cannot_be_notified() {
    let world = World::new(&[0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    zero.subscribe().unwrap();
    one.subscribe().unwrap();
    notify(&zero, 7, [0; 3]);
    let error = next(&zero).unwrap_err();
    assert!(error.to_string().contains("no rank 7 among 2"), "{error}");
    assert_eq!(next(&one).unwrap_err().code(), FailureCode::RankLost);
}
