//! Rails that are measured before ranks start.

use node_agent_engine::control::{Measured, Reply, Request, TurnView};

use crate::world::{Running, World, config, connect, key, peers};

fn turn(round: u32, peer: usize, first: bool) -> TurnView {
    TurnView { round, peer, first }
}

fn certify(engines: &[Running], node: usize, turns: &[TurnView]) -> Reply {
    again(engines, node, 0, turns)
}

/// A later series, whose rounds are told as those of the first.
fn again(engines: &[Running], node: usize, series: u32, turns: &[TurnView]) -> Reply {
    let peers = peers(node, engines);
    let later = |turn: &TurnView| TurnView { round: turn.round + (series << 16), ..*turn };
    let turns = turns.iter().map(later).collect();
    engines[node].ask(&Request::Certify { series, peers, turns, limit_ms: 10_000 })
}

/// All of them at once, one series.
fn all(engines: &[Running], series: u32, turns: &[Vec<TurnView>]) -> Vec<Measured> {
    std::thread::scope(|scope| {
        let ask = |node: usize, turns| move || measured(again(engines, node, series, turns));
        let asked: Vec<_> =
            (0..engines.len()).zip(turns).map(|(node, turns)| scope.spawn(ask(node, turns))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    })
}

fn measured(reply: Reply) -> Measured {
    match reply {
        Reply::Measured(measured) => measured,
        other => panic!("nothing measured: {other:?}"),
    }
}

#[test]
fn engines_measure_all_rails_before_they_are_connected() {
    let room = tempfile::tempdir().unwrap();
    let engines: Vec<Running> =
        (0..3).map(|node| Running::start(config(room.path(), node, &[0, 1, 2], 4), key())).collect();
    let turns = [
        vec![turn(0, 1, true), turn(1, 2, false)],
        vec![turn(0, 0, false), turn(2, 2, true)],
        vec![turn(1, 0, true), turn(2, 1, false)],
    ];
    let Reply::Error { error } = certify(&engines, 0, &[turn(0, 0, true)]) else { panic!("with itself") };
    assert!(error.contains("no peer"), "{error}");
    let others = peers(0, &engines);
    for (given, words) in [(others[..1].to_vec(), "is missing"), (peers(1, &engines), "is no peer")] {
        let request = Request::Certify { series: 0, peers: given, turns: turns[0].clone(), limit_ms: 10_000 };
        let Reply::Error { error } = engines[0].ask(&request) else { panic!("{words}") };
        assert!(error.contains(words), "{error}");
    }
    let reports = all(&engines, 0, &turns);
    for (node, report) in reports.iter().enumerate() {
        let peer = (node + 1) % 3;
        assert_eq!(report.ports.len(), 4);
        if node == 2 {
            assert_eq!(report.pairs.iter().filter(|pair| pair.peer == 0).count(), 4, "{report:?}");
            continue;
        }
        assert_eq!(
            report.pairs.iter().map(|pair| (pair.peer, pair.rail)).collect::<Vec<_>>(),
            [0, 1, 2, 3].map(|rail| (peer, rail))
        );
        for pair in &report.pairs {
            assert_eq!(
                (pair.there.lost, pair.back.lost, pair.there.dscp, pair.crossed),
                (0, 0, Some(26), None),
                "{pair:?}"
            );
            assert!(pair.there.mbps.is_some() && pair.back.mtu == report.ports[0].mtu, "{pair:?}");
        }
    }
    assert_eq!(measured(certify(&engines, 0, &turns[0])), reports[0], "asking again gives the same");
    let Reply::Error { error } = engines[0].ask(&Request::Certify {
        series: 1,
        peers: others,
        turns: turns[0].clone(),
        limit_ms: 10_000,
    }) else {
        panic!("rounds of the first series")
    };
    assert!(error.contains("another series"), "{error}");
    let second = all(&engines, 1, &turns);
    for (first, second) in reports.iter().zip(&second) {
        assert_eq!(first.pairs.len(), second.pairs.len(), "{second:?}");
        assert!(second.pairs.iter().all(|pair| pair.round >> 16 == 1 && pair.there.lost == 0), "{second:?}");
    }
    let Reply::Error { error } = certify(&engines, 0, &turns[0]) else { panic!("the first one again") };
    assert!(error.contains("series 0 is over"), "{error}");
    let controls: Vec<_> = engines.iter().map(|engine| engine.config.control.clone()).collect();
    assert!(connect(&controls).iter().all(|reply| *reply == Reply::OK));
}

#[test]
fn a_job_of_one_node_has_nothing_to_measure() {
    let room = tempfile::tempdir().unwrap();
    let engine = [Running::start(config(room.path(), 0, &[0], 2), key())];
    let Reply::Error { error } = certify(&engine, 0, &[]) else { panic!("of one node") };
    assert!(error.contains("nobody to measure with"), "{error}");
}

/// Its sockets are not kept for a whole job that nobody certifies.
#[test]
fn ranks_that_have_started_end_it() {
    let world = World::new(&[0, 1], 2);
    let _client = world.attach(0);
    let Reply::Error { error } = certify(&world.engines, 0, &[turn(0, 1, true)]) else {
        panic!("with ranks")
    };
    assert!(error.contains("ranks have started"), "{error}");
}
