//! Agents that come, go, forget and come back; controllers that do.

use std::time::Duration;

use proto_model::{DesiredState, Health, Observed, Phase, Requeue};

use super::*;

#[test]
fn a_silent_node_keeps_its_jobs_and_gets_no_new_ones() {
    let mut w = World::new();
    w.submit("a", spec(1, 4));
    w.run("a");
    let n = w.nodes("a")[0];
    w.disconnect(n);
    w.tick(Duration::from_secs(11));
    assert_eq!(w.state.node(&name(n)).unwrap().health, Health::NotReady);
    assert_eq!((w.phase("a"), w.codes("a").last().unwrap().as_str()), (Phase::Running, "NodeNotReady"));
    w.submit("b", spec(4, 0));
    let codes = w.codes("b");
    assert!(codes.contains(&"NodeNotReady".into()) && codes.contains(&"RailBusy".into()), "{codes:?}");
    // It comes back with the job still running, and then with its end.
    w.connect(n, vec![w.seen("a", n, Observed::Running)]);
    assert_eq!(w.state.node(&name(n)).unwrap().health, Health::Ready);
    assert_eq!(w.codes("a"), ["BestFit"]);
    w.disconnect(n);
    w.connect(n, vec![w.exited("a", n, 0)]);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Completed, Phase::Reserved));
}

#[test]
fn unknown_is_not_free() {
    let mut w = World::new();
    let uid = w.submit("a", spec(2, 4)).uid;
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    w.disconnect(x);
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None });
    w.report(y, w.seen("a", y, Observed::Ended));
    assert_eq!(
        (w.phase("a"), w.codes("a")),
        (Phase::Running, vec!["CancelRequested".into(), "AwaitingNode".to_owned()])
    );
    w.tick(Duration::from_secs(3600));
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 8, "held as long as nobody knows");
    // The node is back, with the job still there: it is told to stop.
    w.connect(x, vec![w.seen("a", x, Observed::Running)]);
    assert!(matches!(w.desired[&(name(x), uid)], (1, DesiredState::Stopped { .. })));
    assert_eq!(w.codes("a"), ["CancelRequested"]);
    w.report(x, w.seen("a", x, Observed::Ended));
    assert_eq!(w.phase("a"), Phase::Cancelled);
}

#[test]
fn a_node_that_comes_back_without_the_job() {
    // While it is being ended: that confirms the end.
    let mut w = World::new();
    w.submit("a", spec(1, 4));
    w.run("a");
    let n = w.nodes("a")[0];
    w.disconnect(n);
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None });
    w.connect(n, Vec::new());
    assert_eq!(w.phase("a"), Phase::Cancelled);
    // While it runs: the attempt has failed.
    w.submit("b", requeue(spec(1, 4), Requeue::OnInfrastructure, 2));
    w.run("b");
    let n = w.nodes("b")[0];
    w.disconnect(n);
    w.connect(n, Vec::new());
    assert_eq!((w.phase("b"), w.job("b").status.attempt), (Phase::Pending, 2));
    assert!(w.codes("b").contains(&"AttemptLost".to_owned()));
    // While it prepares: the desired state is simply told again.
    let uid = w.submit("c", spec(1, 4)).uid;
    w.all("c", Observed::Preparing);
    let n = w.nodes("c")[0];
    w.disconnect(n);
    w.desired.clear();
    w.connect(n, Vec::new());
    assert!(matches!(w.desired[&(name(n), uid)], (1, DesiredState::Prepared { .. })));
    assert_eq!(w.phase("c"), Phase::Preparing);
}

#[test]
fn an_administrator_vouches_for_a_dead_node() {
    let mut w = World::new();
    w.submit("a", requeue(spec(2, 4), Requeue::OnInfrastructure, 2));
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    w.disconnect(x);
    assert!(matches!(
        w.refused(Event::DeleteNode { name: name(x), force: false, uid: None }),
        CoreError::NodeBusy { .. }
    ));
    let uid = |uid: &str| Some(uid.to_owned());
    assert!(matches!(
        w.refused(Event::DeleteNode {
            name: name(x),
            force: true,
            uid: uid("of a server that was here before")
        }),
        CoreError::NodeReplaced { .. }
    ));
    let present = w.state.node(&name(x)).unwrap().uid.clone();
    w.ok(Event::DeleteNode { name: name(x), force: true, uid: uid(&present) });
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Recovering, vec!["NodeDeleted".to_owned()]));
    w.report(y, w.seen("a", y, Observed::Ended));
    assert_eq!((w.phase("a"), w.job("a").status.attempt), (Phase::Pending, 2));
    w.tick(Duration::from_secs(2));
    assert_eq!(w.phase("a"), Phase::Reserved);
    assert!(!w.nodes("a").contains(&x));
    // He was wrong: it lives, and joins again. What it still runs is ended before it gets anything new.
    let register = Register {
        node: name(x),
        session: 99,
        agent_version: String::new(),
        inventory: Arc::new(inventory(4, 2)),
        observations: Vec::new(),
        epoch: 7,
    };
    assert!(matches!(w.refused(Event::AgentConnected(Box::new(register))), CoreError::NodeNotFound { .. }));
    w.ok(Event::CreateToken { node: name(x), hash: [77; 32], lifetime: None });
    w.ok(Event::Join { node: name(x), hash: [77; 32], csr: [1; 32] });
    let old = Observation { attempt: 1, ..w.seen("a", x, Observed::Running) };
    w.session = 100;
    w.connect(x, vec![old.clone()]);
    w.submit("b", spec(2, 4));
    assert!(w.codes("b").contains(&"NodeDraining".to_owned()), "{:?}", w.codes("b"));
    w.report(x, Observation { state: Observed::Ended, ..old });
    assert_eq!(w.phase("b"), Phase::Reserved);
    assert!(w.nodes("b").contains(&x));
}

#[test]
fn a_new_controller_takes_over_running_and_waiting_jobs() {
    let mut w = World::new();
    w.submit("a", spec(2, 4));
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    for n in 0..5 {
        w.submit(&format!("w{n}"), spec(4, 2));
    }
    let (before, desired) = (w.state.clone(), w.desired.clone());
    w.state = w.reload(7);
    assert_eq!(w.state.jobs(None).count(), 6);
    for (mine, theirs) in w.state.jobs(None).zip(before.jobs(None)) {
        assert_eq!(mine, theirs);
    }
    assert_eq!(w.state.index.snapshot.held(&name(x)), before.index.snapshot.held(&name(x)));
    // Nobody is connected yet: nothing new is placed; the agents come back and the job was not disturbed.
    w.session = 0;
    w.desired.clear();
    w.connect(x, vec![w.seen("a", x, Observed::Running)]);
    w.connect(y, vec![w.seen("a", y, Observed::Running)]);
    assert_eq!(w.phase("a"), Phase::Running);
    for n in [x, y] {
        let key = (name(n), w.job("a").uid);
        assert_eq!(w.desired[&key], desired[&key]);
    }
    for n in [x, y] {
        let end = w.exited("a", n, 0);
        w.report(n, end);
    }
    assert_eq!(w.phase("a"), Phase::Completed);
}

#[test]
fn deadlines_go_on_after_a_restart_and_away_nodes_get_nothing() {
    let mut w = World::new();
    w.submit("prepare", spec(1, 1));
    w.submit("start", spec(1, 1));
    w.all("start", Observed::Prepared);
    w.state = w.reload(7);
    w.session = 0;
    for text in ["prepare", "start"] {
        let n = w.nodes(text)[0];
        let state = if text == "start" { Observed::Starting } else { Observed::Preparing };
        w.connect(n, vec![w.seen(text, n, state)]);
    }
    w.submit("waits", spec(2, 0));
    assert!(w.codes("waits").contains(&"NodeAway".to_owned()), "{:?}", w.codes("waits"));
    w.tick(Duration::from_secs(59));
    assert_eq!([w.codes("prepare"), w.codes("start")], [["BestFit"], ["BestFit"]]);
    w.tick(Duration::from_secs(2));
    assert_eq!([w.codes("prepare"), w.codes("start")], [["PrepareTimeout"], ["StartTimeout"]]);
}

#[test]
fn old_connections_and_newer_controllers() {
    let mut w = World::new();
    let old = w.state.session(&name(0)).unwrap();
    w.session += 1;
    let register = Register {
        node: name(0),
        session: w.session,
        agent_version: "1".into(),
        inventory: Arc::new(inventory(4, 2)),
        observations: Vec::new(),
        epoch: 7,
    };
    let out = w.step(Event::AgentConnected(Box::new(register.clone())));
    assert!(
        matches!(out.pushes[0], crate::Push { session, message: ToNode::Close { .. }, .. } if session == old),
        "{out:?}"
    );
    let stale = w.refused(Event::AgentHeartbeat { node: name(0), session: old });
    assert!(matches!(stale, CoreError::StaleSession { .. }));
    assert!(matches!(
        w.refused(Event::AgentConnected(Box::new(register.clone()))),
        CoreError::StaleSession { .. }
    ));
    w.step(Event::AgentDisconnected { node: name(0), session: old });
    assert_eq!(w.state.session(&name(0)), Some(w.session));
    let newer = Register { epoch: 8, session: 1000, ..register };
    assert!(matches!(
        w.refused(Event::AgentConnected(Box::new(newer))),
        CoreError::Fenced { seen: 8, own: 7, .. }
    ));
    assert!(matches!(
        w.refused(Event::AgentRefusedEpoch { node: name(0), current: 8 }),
        CoreError::Fenced { .. }
    ));
    assert_eq!(w.ok(Event::AgentRefusedEpoch { node: name(0), current: 7 }), Reply::Done);
}

#[test]
fn withdrawn_tokens_buy_nothing_and_others_are_untouched() {
    let mut w = World::new();
    for (n, hash) in [(7, 50), (7, 51), (8, 52)] {
        w.ok(Event::CreateToken { node: name(n), hash: [hash; 32], lifetime: None });
    }
    let join = |n, hash, csr| Event::Join { node: name(n), hash: [hash; 32], csr: [csr; 32] };
    w.ok(join(7, 50, 1));
    w.ok(Event::WithdrawTokens { node: name(7) });
    // Not even the answer that was lost is given again.
    for (hash, csr) in [(50, 1), (51, 2)] {
        assert!(matches!(w.refused(join(7, hash, csr)), CoreError::TokenInvalid { .. }));
    }
    w.ok(join(8, 52, 3));
    w.ok(Event::WithdrawTokens { node: name(7) });
}

#[test]
fn a_token_works_once() {
    let mut w = World::new();
    let node = NodeName::new("new").unwrap();
    let join =
        |node: &NodeName, hash, csr| Event::Join { node: node.clone(), hash: [hash; 32], csr: [csr; 32] };
    assert!(matches!(w.refused(join(&node, 50, 1)), CoreError::TokenInvalid { .. }));
    w.ok(Event::CreateToken { node: node.clone(), hash: [50; 32], lifetime: Some(Duration::from_secs(60)) });
    assert!(matches!(w.refused(join(&name(1), 50, 1)), CoreError::TokenForOther { .. }));
    w.ok(join(&node, 50, 1));
    // The answer was lost: the same request again is the same join. Another one is a theft.
    w.ok(join(&node, 50, 1));
    assert!(matches!(w.refused(join(&node, 50, 2)), CoreError::TokenUsed { .. }));
    w.ok(Event::CreateToken { node: node.clone(), hash: [51; 32], lifetime: Some(Duration::from_secs(60)) });
    w.tick(Duration::from_secs(61));
    assert!(matches!(w.refused(join(&node, 51, 3)), CoreError::TokenInvalid { .. }));
    assert!(
        !w.state.base.tokens.contains_key(&[50; 32]) && !w.state.base.tokens.contains_key(&[51; 32]),
        "purged"
    );
    let long = Event::CreateToken { node, hash: [52; 32], lifetime: Some(Duration::from_secs(601)) };
    assert!(matches!(w.refused(long), CoreError::Invalid { .. }));
}
