//! A node speaks of itself only: what it says of others is left out, and what cannot be true quarantines it, with the evidence.

use std::time::Duration;

use proptest::prelude::*;
use proto_audit::Content;
use proto_model::{
    Claim, Gid, GidKind, Health, Measured, NicFacts, Node, Observed, PairReport, PathMeasurement, Phase,
    Reason, ReasonCode, Speaker, Toleration,
};

use super::*;
use crate::{ClaimVerdict, node::quarantine::QUARANTINED};

fn node(w: &World, n: usize) -> &Node {
    w.state.node(&name(n)).unwrap()
}

fn evidence(w: &World, n: usize) -> Vec<String> {
    node(w, n).quarantine.iter().map(|reason| reason.code.to_string()).collect()
}

/// A job of this many nodes that runs; which nodes those are.
fn running(w: &mut World, text: &str, nodes: u32) -> Vec<usize> {
    w.submit(text, requeue(spec(nodes, 4), Requeue::OnAny, 9));
    w.run(text);
    w.nodes(text)
}

fn cause(code: ReasonCode, scope: &str) -> Option<Reason> {
    Some(Reason::new(code, "x").scope(scope))
}

#[test]
fn a_node_that_says_another_one_is_lost_is_itself_out_of_service() {
    let mut w = World::new();
    // Another tenant's job runs on the node that is spoken of.
    let [victim] = running(&mut w, "quiet", 1)[..] else { panic!() };
    let [liar] = running(&mut w, "a", 1)[..] else { panic!() };
    for code in
        [ReasonCode::NodeLost, ReasonCode::AttemptLost, ReasonCode::NotCertified, ReasonCode::NodeDeleted]
    {
        let seen = w.seen("a", liar, Observed::Ended);
        let lie = Observation { cause: cause(code.clone(), &format!("node/{}", name(victim))), ..seen };
        let out = w.report(liar, lie.clone());
        if node(&w, liar).is_quarantined() && code == ReasonCode::NodeLost {
            assert!(out.claims.contains(&ClaimVerdict::Quarantined(ReasonCode::ControllerCauseClaimed)));
            assert!(
                out.writes.iter().any(|write| matches!(write, Write::PutAudit(_))),
                "told in the audit log"
            );
        }
    }
    let clean = node(&w, victim);
    assert!(clean.quarantined.is_none() && clean.strikes.is_empty() && !clean.is_quarantined(), "{clean:?}");
    assert_eq!(w.phase("quiet"), Phase::Running);
    let lied = node(&w, liar);
    assert_eq!(evidence(&w, liar), ["ControllerCauseClaimed"]);
    assert!(lied.quarantine[0].message.contains("NodeLost") && lied.quarantined.is_some(), "{lied:?}");
    // Its own part has failed, by its own fault.
    let own = w.job("a").status.reasons.iter().any(|reason| reason.code == ReasonCode::Requeued);
    assert!(own, "{:?}", w.codes("a"));
    assert!(w.reload(8).node(&name(liar)).unwrap().is_quarantined(), "kept over restarts");
    // Whatever a job tolerates, it is not placed there.
    let any = Toleration { key: Some(QUARANTINED.to_owned()), value: None };
    let mut tolerant = spec(4, 1);
    tolerant.placement.tolerations.push(any);
    w.submit("all", tolerant);
    w.tick(Duration::from_secs(60));
    assert_eq!(w.phase("all"), Phase::Pending);
    w.ok(Event::ReturnNode { name: name(liar) });
    assert!(!node(&w, liar).is_quarantined() && node(&w, liar).quarantined.is_none());
}

#[test]
fn the_audit_log_tells_of_a_quarantine_once_for_each_evidence() {
    let mut w = World::new();
    let [liar] = running(&mut w, "a", 1)[..] else { panic!() };
    let seen = w.seen("a", liar, Observed::Running);
    let lie = Observation { cause: cause(ReasonCode::NodeLost, "node/n0"), ..seen };
    w.report(liar, lie.clone());
    w.report(liar, lie);
    let reported: Vec<String> = w
        .stored
        .values()
        .filter_map(|write| match write {
            Write::PutAudit(row) => Some(row.records.iter()),
            _ => None,
        })
        .flatten()
        .filter_map(|record| match &record.content {
            Content::Change(change) if change.object.kind == "quarantine" => {
                Some(change.actor.request.clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("NodeLost") && reported[0].contains("node/n0"), "{reported:?}");
}

#[test]
fn what_a_node_says_of_itself_is_taken_for_its_own() {
    let mut w = World::new();
    let [a, b] = running(&mut w, "a", 2)[..] else { panic!() };
    // An honest agent's cause without a scope, and one about its own device.
    let seen = w.seen("a", a, Observed::Stopping);
    w.report(a, Observation { cause: cause(ReasonCode::EngineLost, "nic/mlx5_0"), ..seen });
    w.all("a", Observed::Ended);
    let strikes = |n: usize| node(&w, n).strikes.len();
    assert_eq!((strikes(a), strikes(b)), (1, 0));
    assert!(!node(&w, a).is_quarantined());
}

#[test]
fn a_known_cause_about_another_node_or_rank_counts_against_who_says_it() {
    for (code, scope, wanted) in [
        (ReasonCode::EngineLost, "node/other", "ForeignScopeClaimed"),
        (ReasonCode::SupervisorLost, "job/red/b", "ForeignScopeClaimed"),
        (ReasonCode::RankStartFailed, "rank/1", "ForeignRankClaimed"),
    ] {
        let mut w = World::new();
        let [liar, peer] = running(&mut w, "a", 2)[..] else { panic!() };
        let scope = if scope == "node/other" { format!("node/{}", name(peer)) } else { scope.to_owned() };
        let seen = w.seen("a", liar, Observed::Stopping);
        w.report(liar, Observation { cause: cause(code.clone(), &scope), ..seen });
        w.all("a", Observed::Ended);
        assert_eq!(evidence(&w, liar), [wanted]);
        let peer = node(&w, peer);
        assert!(peer.strikes.is_empty() && !peer.is_quarantined() && peer.quarantined.is_none(), "{code}");
    }
}

#[test]
fn the_end_of_another_node_s_rank_is_nothing_and_evidence() {
    let mut w = World::new();
    let [liar, peer] = running(&mut w, "a", 2)[..] else { panic!() };
    let exit =
        RankExit { rank: 1, code: 1, signal: 0, time: w.now, usage: proto_model::RankUsage::default() };
    let seen = w.seen("a", liar, Observed::Running);
    w.report(liar, Observation { exits: vec![exit], ..seen });
    assert_eq!((w.phase("a"), evidence(&w, liar)), (Phase::Running, vec!["ForeignRankClaimed".to_owned()]));
    assert!(!node(&w, peer).is_quarantined());
}

#[test]
fn late_and_repeated_reports_are_left_out_and_are_no_evidence() {
    let mut w = World::new();
    let [n] = running(&mut w, "a", 1)[..] else { panic!() };
    let late = w.seen("a", n, Observed::Running);
    let end = w.exited("a", n, 0);
    w.report(n, end.clone());
    assert_eq!(w.phase("a"), Phase::Completed);
    for seen in [late.clone(), end, Observation { attempt: 9, ..late.clone() }] {
        let out = w.report(n, seen);
        assert_eq!(out.claims, [ClaimVerdict::Ignored("attempt")]);
    }
    // Rails that the job does not have, and what only the first node tells, are beside the point.
    let [first, second] = running(&mut w, "b", 2)[..] else { panic!() };
    let address = "127.0.0.1:5".parse().unwrap();
    let endpoints = vec![RailEndpoint { rail: 7, address }];
    let measured = Some(Measured { series: 5, ..Measured::default() });
    let seen = w.seen("b", second, Observed::Running);
    let out = w.report(second, Observation { endpoints, measured, cause: None, ..seen });
    assert_eq!(out.claims, [ClaimVerdict::Ignored("endpoint"), ClaimVerdict::Ignored("series")]);
    // A word of a newer agent fails its part of the job, and no more.
    let seen = w.seen("b", second, Observed::Ended);
    w.report(second, Observation { cause: cause(ReasonCode::from_text("Meteor"), "node/n0"), ..seen });
    w.report(first, w.seen("b", first, Observed::Ended));
    assert!((0..4).all(|n| !node(&w, n).is_quarantined() && node(&w, n).strikes.is_empty()));
}

#[test]
fn a_measurement_with_nobody_of_the_gang_is_evidence() {
    let mut w = World::new();
    let [liar, _] = running(&mut w, "a", 2)[..] else { panic!() };
    let way = PathMeasurement::default();
    let pair = PairReport { round: 0, peer: 7, rail: 0, there: way, back: way, rtt_us: None, crossed: None };
    let measured = Some(Measured { pairs: vec![pair], ..Measured::default() });
    let seen = w.seen("a", liar, Observed::Running);
    w.report(liar, Observation { measured, ..seen });
    assert_eq!(evidence(&w, liar), ["ForeignPeerClaimed"]);
}

/// Two rails at 10.RAIL.0.HOST, with a GPU of this identity.
fn hardware(host: u8, gpu: &str) -> Inventory {
    let mut inventory = inventory(4, 2);
    for nic in &mut inventory.nics {
        nic.address = Some(IpAddr::from([10, nic.rail as u8, 0, host]));
    }
    gpu.clone_into(&mut inventory.gpus[0].uuid);
    inventory
}

impl World {
    fn reports(&mut self, n: usize, inventory: Inventory) {
        let session = self.state.session(&name(n)).unwrap();
        let inventory = Arc::new(inventory);
        self.step(Event::AgentInventory { node: name(n), session, inventory });
    }

    fn comes_with(&mut self, n: usize, inventory: Inventory) {
        self.session += 1;
        let (node, session, agent_version) = (name(n), self.session, "1".into());
        let register = Register {
            node,
            session,
            agent_version,
            inventory: Arc::new(inventory),
            observations: Vec::new(),
            epoch: 7,
        };
        self.ok(Event::AgentConnected(Box::new(register)));
    }
}

#[test]
fn an_engine_listens_on_its_own_node_only() {
    let mut w = World::new();
    (0..4).for_each(|n| w.reports(n, hardware(n as u8, "")));
    w.submit("a", spec(2, 4));
    let [liar, peer] = w.nodes("a")[..] else { panic!() };
    let at =
        |host: usize| RailEndpoint { rail: 0, address: SocketAddr::from(([10, 0, 0, host as u8], 4000)) };
    let seen = w.seen("a", liar, Observed::Prepared);
    w.report(liar, Observation { endpoints: vec![at(peer)], ..seen.clone() });
    assert_eq!((evidence(&w, liar), w.phase("a")), (vec!["ForeignEndpointClaimed".into()], Phase::Preparing));
    assert!(!node(&w, peer).is_quarantined());
    let peers = w.seen("a", peer, Observed::Prepared);
    w.report(peer, Observation { endpoints: vec![at(peer)], ..peers });
    w.report(liar, Observation { endpoints: vec![at(liar)], ..seen });
    assert_eq!(w.phase("a"), Phase::Running, "what is its own is taken all the same");
}

#[test]
fn who_reports_another_node_s_hardware_is_quarantined_and_the_other_is_not() {
    let mut gid = hardware(1, "GPU-1");
    let link_local = "fe80::1".parse().unwrap();
    let entry = Gid { index: 0, gid: link_local, kind: GidKind::RoceV2, netdev: String::new() };
    gid.nics[1].facts = Some(Box::new(NicFacts { gids: vec![entry], ..NicFacts::default() }));
    let with_address = hardware(1, "GPU-2");
    let with_gpu = hardware(2, "GPU-1");
    let mut with_gid = hardware(2, "GPU-2");
    with_gid.nics[1].facts.clone_from(&gid.nics[1].facts);
    for (lie, what) in
        [(with_address, "address/0/10.0.0.1"), (with_gpu, "gpu/GPU-1"), (with_gid, "gid/1/fe80::1")]
    {
        let mut w = World::new();
        w.reports(1, gid.clone());
        w.reports(2, hardware(2, "GPU-2"));
        w.reports(2, lie.clone());
        assert!(evidence(&w, 2).iter().all(|code| code == "HardwareClaimed"), "{what}");
        let said = &node(&w, 2).quarantine[0].message;
        assert!(said.contains(what) && said.contains("'n1'"), "{said}");
        assert!(!node(&w, 1).is_quarantined());
        // However often the two come back.
        for n in [1, 2, 1] {
            w.disconnect(n);
            w.tick(Duration::from_secs(11));
            w.comes_with(n, if n == 1 { gid.clone() } else { lie.clone() });
        }
        assert!(!node(&w, 1).is_quarantined() && node(&w, 2).is_quarantined());
        // Taken back as it is, it is out again at once; with its own hardware it stays.
        w.ok(Event::ReturnNode { name: name(2) });
        assert!(node(&w, 2).is_quarantined());
        w.reports(2, hardware(2, "GPU-2"));
        w.ok(Event::ReturnNode { name: name(2) });
        assert!(!node(&w, 2).is_quarantined() && node(&w, 2).quarantined.is_none());
    }
}

#[test]
fn hardware_may_move_while_who_had_it_is_away_and_is_given_back_if_it_was_not_moved() {
    let mut w = World::new();
    w.reports(1, hardware(1, "GPU-1"));
    w.disconnect(1);
    w.tick(Duration::from_secs(11));
    assert_eq!(node(&w, 1).health, Health::NotReady);
    w.reports(2, hardware(1, "GPU-1"));
    assert!(!node(&w, 2).is_quarantined());
    let held = |w: &World| node(w, 2).provisional.iter().map(Claim::to_string).collect::<Vec<_>>();
    assert_eq!(held(&w), ["address/0/10.0.0.1", "address/1/10.1.0.1", "gpu/GPU-1"]);
    assert_eq!(w.reload(8).node(&name(2)).unwrap().provisional.len(), 3);
    // A third one may not have it, whoever is the second.
    w.reports(3, hardware(1, ""));
    assert!(node(&w, 3).is_quarantined() && !node(&w, 2).is_quarantined());
    // It was moved: the first one comes back with something else, or is deleted.
    let mut moved = w.clone();
    moved.comes_with(1, hardware(9, "GPU-9"));
    assert!(
        held(&moved).is_empty() && !node(&moved, 1).is_quarantined() && !node(&moved, 2).is_quarantined()
    );
    let mut gone = w.clone();
    gone.ok(Event::DeleteNode { name: name(1), force: false, uid: None });
    assert!(held(&gone).is_empty());
    // It was not: the first one comes back with it.
    w.comes_with(1, hardware(1, "GPU-1"));
    assert!(!node(&w, 1).is_quarantined() && node(&w, 2).is_quarantined());
}

#[test]
fn nodes_whose_addresses_are_exchanged_need_nobody_s_help() {
    let mut w = World::new();
    w.reports(1, hardware(1, "GPU-1"));
    w.reports(2, hardware(2, "GPU-2"));
    // One is heard before the other.
    w.reports(2, hardware(1, "GPU-2"));
    assert!(node(&w, 2).is_quarantined() && node(&w, 2).quarantined.is_some());
    w.reports(1, hardware(2, "GPU-1"));
    assert!((1..3).all(|n| !node(&w, n).is_quarantined() && node(&w, n).quarantined.is_none()));
    // What else a node has said stays.
    w.reports(2, hardware(2, "GPU-2"));
    w.step(Event::AgentEpochUntrue { node: name(2), seen: 99 });
    assert_eq!(evidence(&w, 2), ["HardwareClaimed", "HardwareClaimed", "EpochClaimed"]);
    w.reports(1, hardware(7, "GPU-1"));
    assert_eq!((evidence(&w, 2), node(&w, 2).quarantined.is_some()), (vec!["EpochClaimed".to_owned()], true));
}

#[test]
fn an_epoch_that_never_was_is_evidence_and_a_newer_one_is_none() {
    let mut w = World::new();
    // The store is asked first: until then nothing is held against who says so.
    assert!(matches!(
        w.refused(Event::AgentRefusedEpoch { node: name(0), current: u64::MAX }),
        CoreError::Fenced { .. }
    ));
    assert!(!node(&w, 0).is_quarantined());
    w.step(Event::AgentEpochUntrue { node: name(0), seen: u64::MAX });
    assert_eq!(evidence(&w, 0), ["EpochClaimed"]);
    w.step(Event::AgentEpochUntrue { node: name(1), seen: 7 });
    assert!(!node(&w, 1).is_quarantined());
}

#[test]
fn a_deleted_node_s_tokens_bring_nobody_back() {
    let mut w = World::new();
    w.ok(Event::CreateToken { node: name(3), hash: [77; 32], lifetime: None });
    let spent = || Event::Join { node: name(3), hash: [3; 32], csr: [9; 32] };
    w.ok(spent());
    w.ok(Event::DeleteNode { name: name(3), force: false, uid: None });
    let unspent = Event::Join { node: name(3), hash: [77; 32], csr: [9; 32] };
    for join in [spent(), unspent] {
        assert!(matches!(w.refused(join), CoreError::TokenInvalid { .. }));
    }
    assert!(w.state.node(&name(3)).is_none());
    // A new token does.
    w.ok(Event::CreateToken { node: name(3), hash: [78; 32], lifetime: None });
    w.ok(Event::Join { node: name(3), hash: [78; 32], csr: [9; 32] });
}

/// Every code that the sources give a cause of an attempt has its speaker.
#[test]
fn every_cause_has_one_speaker() {
    let codes = |text: &str| -> Vec<ReasonCode> {
        let parts = text.split("Reason::new(").skip(1);
        let codes = parts.filter_map(|rest| rest.trim_start().strip_prefix("ReasonCode::"));
        codes.filter_map(|rest| rest.split(',').next()).map(ReasonCode::from_text).collect()
    };
    let controller = [include_str!("../job/observe.rs"), include_str!("../job/repair.rs")];
    let node = [
        include_str!("../../../../node-agent/core/src/supervisor.rs"),
        include_str!("../../../../node-agent/core/src/agent.rs"),
        include_str!("../../../../node-agent/rank/src/cgroup/usage.rs"),
    ];
    // That a placement was repaired is a reason of the placement.
    let said = controller.iter().flat_map(|text| codes(text)).filter(|code| *code != ReasonCode::Repaired);
    let said: Vec<ReasonCode> = said.collect();
    assert!(said.len() >= 5 && said.iter().all(|code| Speaker::of(code) == Speaker::Controller), "{said:?}");
    let said: Vec<ReasonCode> = node.iter().flat_map(|text| codes(text)).collect();
    assert!(said.len() >= 10, "{said:?}");
    assert!(said.iter().all(|code| matches!(Speaker::of(code), Speaker::Node(_))), "{said:?}");
}

fn any_code() -> impl Strategy<Value = ReasonCode> {
    let known: Vec<ReasonCode> = proto_model::cause::CONTROLLER_CAUSES
        .iter()
        .cloned()
        .chain(proto_model::NodeCause::ALL.iter().map(|cause| ReasonCode::from(*cause)))
        .chain([ReasonCode::Quarantined, ReasonCode::from_text("Whatever"), ReasonCode::from_text("")])
        .collect();
    prop::sample::select(known)
}

fn any_scope() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..5_usize).prop_map(|n| format!("node/n{n}")),
        (0..5_u32).prop_map(|rank| format!("rank/{rank}")),
        "(tenant|job|node|rail)?/?[a-z0-9]{0,4}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever one node of a gang says, all nodes but itself keep their standing, and jobs of others go on.
    #[test]
    fn nobody_else_pays_for_what_a_node_says(
        says in prop::collection::vec((any_code(), any_scope(), 0..6_u32, 0..9_u32, 0..3_u8), 1..12)
    ) {
        let mut w = World::new();
        let [other] = running(&mut w, "quiet", 1)[..] else { panic!() };
        let gang = running(&mut w, "a", 2);
        let liar = gang[0];
        for (code, scope, rank, peer, state) in says {
            if w.phase("a") == Phase::Pending || !w.nodes("a").contains(&liar) {
                w.tick(Duration::from_secs(30));
                if w.job("a").status.placement.is_none() || !w.nodes("a").contains(&liar) {
                    break;
                }
            }
            let state = [Observed::Running, Observed::Stopping, Observed::Ended][state as usize];
            let way = PathMeasurement { sent: 9, lost: 9, ..PathMeasurement::default() };
            let pair = PairReport { round: 0, peer, rail: 0, there: way, back: way, rtt_us: None, crossed: Some(1) };
            let seen = w.seen("a", liar, state);
            let exits = vec![RankExit { rank, code: 1, signal: 0, time: w.now, usage: proto_model::RankUsage::default() }];
            let measured = Some(Measured { pairs: vec![pair], ..Measured::default() });
            w.report(liar, Observation { cause: cause(code, &scope), exits, measured, ..seen });
            for n in (0..4).filter(|n| *n != liar) {
                let node = node(&w, n);
                prop_assert!(node.quarantined.is_none() && node.strikes.is_empty() && !node.is_quarantined());
            }
            prop_assert_eq!(w.phase("quiet"), Phase::Running);
            prop_assert_eq!(w.nodes("quiet"), vec![other]);
        }
    }
}
