//! A node whose NICs are named as they are cabled: what is drained of it, and what it loses, is that NIC and no other.

use proto_model::{Certification, FailurePolicy, JobSpec, RailLoss, RailState, ReasonCode, Requeue};

use super::{
    certify::{cross, measure, nics, world},
    drains::{drain, pending, report, reported, says, undrain},
    prove::{proofs, reports, seconds, waits},
    repair::finds,
    *,
};

/// A running job of three nodes; rail 0 of the first one given is the NIC that its inventory calls rail 1, and the other way round.
fn crossed(spec: JobSpec) -> (World, usize, usize) {
    let mut w = world(Certification::Require);
    w.submit("a", spec);
    w.all("a", Observed::Prepared);
    let [other, x, _] = w.nodes("a")[..] else { panic!() };
    cross(&mut w, "a", x);
    w.all("a", Observed::Ended);
    w.all("a", Observed::Prepared);
    measure(&mut w, "a", None);
    w.all("a", Observed::Running);
    assert_eq!(nics(&w, "a", x), (vec![(0, "rail1".into()), (1, "rail0".into())], true));
    (w, x, other)
}

#[test]
fn a_port_is_drained_as_the_job_names_it_and_a_rail_where_its_cables_are() {
    for (what, at_crossed, at_other, shown) in [
        ("nX:1", vec![0], vec![], [false, true]),
        ("nX:0", vec![1], vec![], [true, false]),
        ("nO:1", vec![], vec![1], [false, false]),
        ("1", vec![1], vec![1], [true, false]),
        ("0", vec![0], vec![0], [false, true]),
    ] {
        let (mut w, x, other) = crossed(spec(3, 1));
        let what = what.replace('X', &x.to_string()).replace('O', &other.to_string());
        w.ok(drain(&what, false));
        assert_eq!((reported(&w, x), reported(&w, other)), (at_crossed.clone(), at_other), "{what}");
        let view = w.state.topology();
        let node = view.pods.iter().flat_map(|pod| &pod.nodes).find(|node| node.name == name(x)).unwrap();
        let ports: Vec<bool> = node.ports.iter().map(|port| port.drained).collect();
        assert_eq!(ports, shown, "{what}: NICs as the inventory has them");
        for rail in &at_crossed {
            let used = format!("red/a n{x}:{rail}");
            assert!(pending(&w, &what).contains(&used), "{what}: {:?}", pending(&w, &what));
            says(&mut w, "a", x, &[report(1 - rail, RailState::Up), report(*rail, RailState::Drained)]);
            assert!(!pending(&w, &what).contains(&used), "{what}");
        }
        // A new leader tells the same.
        assert_eq!(w.reload(8).drained_rails(&name(x)).iter().collect::<Vec<_>>(), at_crossed, "{what}");
        w.ok(undrain(&what));
        assert_eq!((reported(&w, x), reported(&w, other)), (vec![], vec![]), "{what}");
    }
}

#[test]
fn names_end_with_the_job() {
    let (mut w, x, _) = crossed(spec(3, 1));
    w.ok(drain(&format!("n{x}:1"), false));
    assert_eq!(reported(&w, x), [0]);
    for n in w.nodes("a") {
        let exited = w.exited("a", n, 0);
        w.report(n, exited);
    }
    assert_eq!(w.phase("a"), Phase::Completed);
    assert_eq!(reported(&w, x), [1], "nobody names it otherwise now");
}

/// Under the job's name nobody of its own reaches it; once the job has ended, it is probed although nobody says anything new of it.
#[test]
fn a_rail_that_a_job_named_otherwise_is_probed_when_the_job_has_ended() {
    let (mut w, x, _) = crossed(spec(3, 1));
    reports(&mut w, x, &waits());
    seconds(&mut w, 120);
    assert!(proofs(&w, x).is_empty());
    for n in w.nodes("a") {
        let exited = w.exited("a", n, 0);
        w.report(n, exited);
    }
    seconds(&mut w, 60);
    assert_eq!(proofs(&w, x).iter().map(|proof| (proof.rail, proof.first)).collect::<Vec<_>>(), [(1, true)]);
}

#[test]
fn the_last_rail_that_a_node_shares_is_seen() {
    let (mut w, x, _) = crossed(spec(3, 1));
    w.ok(drain(&format!("n{x}:1"), false));
    // The node has its other NIC, which is on rail 1.
    let error = w.refused(drain("1", false));
    assert!(matches!(&error, CoreError::LastRail { .. }), "{error}");
    w.ok(drain("0", false));
}

#[test]
fn a_nic_that_is_lost_is_the_rail_that_the_job_has_there() {
    for (nic, rail) in [(1, 0), (0, 1)] {
        let failure = FailurePolicy { on_rail_loss: RailLoss::Fail, ..FailurePolicy::new(Requeue::Never, 0) };
        let (mut w, x, _) = crossed(JobSpec { failure, ..spec(3, 1) });
        let mut inventory = inventory(4, 2);
        inventory.nics[nic].up = false;
        finds(&mut w, x, inventory);
        let reasons = &w.job("a").status.reasons;
        let lost = reasons.iter().find(|reason| reason.code == ReasonCode::RailLost).unwrap();
        assert!(lost.message.contains(&format!("has lost rails {rail},")), "{nic}: {lost}");
    }
}
