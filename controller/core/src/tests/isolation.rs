//! How much isolation jobs must have: by the cluster, by the tenant, and what the core does with a server that gives less.

use std::sync::Arc;

use proto_model::{Inventory, Isolation, IsolationFeature, IsolationPolicy, IsolationSet, Quota, ReasonCode};

use super::*;

fn demand(isolation: IsolationPolicy) -> Event {
    let (name, description) = (tenant("red"), String::new());
    Event::ApplyTenant { name, description, quota: Quota::new(100, 0), isolation, dry_run: false }
}

/// All servers tell anew what they give.
fn give(w: &mut World, features: IsolationSet) {
    for n in 0..4 {
        let session = w.state.session(&name(n)).unwrap();
        let inventory = Inventory { isolation: Isolation::with(features), ..inventory(4, 2) };
        w.step(Event::AgentInventory { node: name(n), session, inventory: Arc::new(inventory) });
    }
}

#[test]
fn a_tenant_asks_for_more_and_never_for_less_and_waiting_jobs_ask_anew() {
    let mut w = World::new();
    give(&mut w, IsolationSet::of(&[IsolationFeature::UidPerAttempt]));
    assert_eq!(w.state.isolation(&tenant("red")), IsolationPolicy::BestEffort);
    w.ok(demand(IsolationPolicy::Required));
    assert_eq!(w.state.usage(&tenant("red")).isolation, IsolationPolicy::Required);
    w.submit("a", spec(1, 1));
    w.tick(Duration::ZERO);
    assert_eq!(w.phase("a"), Phase::Pending);
    let reported = w.state.explain(&id("a"), w.now).unwrap();
    assert_eq!(reported.isolation, IsolationPolicy::Required);
    let missing: Vec<&str> = reported
        .reasons
        .iter()
        .filter(|reason| reason.code == ReasonCode::IsolationMissing)
        .map(|reason| reason.scope.as_str())
        .collect();
    assert_eq!(missing.len(), 10, "{:?}", reported.reasons);
    assert!(missing.contains(&"isolation/seccomp") && !missing.contains(&"isolation/uid-per-attempt"));
    // The state that is read from the store decides alike.
    assert!(w.reload(w.state.epoch()).isolation(&tenant("red")) == IsolationPolicy::Required);
    // Another tenant's job starts.
    w.ok(submit_as("blue", "b", spec(1, 1), None));
    w.ok(demand(IsolationPolicy::BestEffort));
    w.tick(Duration::ZERO);
    assert_eq!(w.phase("a"), Phase::Reserved, "what it asks for was weighed anew");
}

#[test]
fn the_clusters_own_setting_holds_for_every_tenant() {
    let mut w = World::new();
    w.state.0.config.isolation = IsolationPolicy::Required;
    w.ok(demand(IsolationPolicy::BestEffort));
    // The documents of tenants are read anew when a controller begins; here one is changed.
    w.ok(Event::ApplyTenant {
        name: tenant("red"),
        description: "again".into(),
        quota: Quota::new(100, 0),
        isolation: IsolationPolicy::BestEffort,
        dry_run: false,
    });
    assert_eq!(w.state.isolation(&tenant("red")), IsolationPolicy::Required);
    give(&mut w, IsolationSet::ALL.without(IsolationSet::of(&[IsolationFeature::HiddenProc])));
    w.submit("a", spec(1, 1));
    w.tick(Duration::ZERO);
    assert!(
        w.state
            .explain(&id("a"), w.now)
            .unwrap()
            .reasons
            .iter()
            .any(|one| one.scope == "isolation/hidden-proc")
    );
    give(&mut w, IsolationSet::ALL);
    w.tick(Duration::ZERO);
    assert_eq!(w.phase("a"), Phase::Reserved, "an administrator has mended it");
}

#[test]
fn two_tenants_wait_for_one_another_where_servers_cannot_keep_them_apart() {
    let mut w = World::new();
    give(&mut w, IsolationSet::EMPTY);
    let mut part = spec(4, 1);
    part.rails = RailRequest { required: 1, allow_partial: true, ..RailRequest::default() };
    w.submit("a", part.clone());
    w.tick(Duration::ZERO);
    assert_eq!(w.phase("a"), Phase::Reserved);
    w.ok(submit_as("blue", "b", JobSpec { gang: Gang::new(1, 1, 1), ..part }, None));
    w.tick(Duration::ZERO);
    let blue = JobId { tenant: tenant("blue"), name: JobName::new("b").unwrap() };
    let reported = w.state.explain(&blue, w.now).unwrap();
    let reason = reported.reasons.iter().find(|reason| reason.code == ReasonCode::NodeNotShared).unwrap();
    assert_eq!(reason.count, 4);
    assert!(reported.reasons.iter().all(|reason| !reason.message.contains("red")), "{:?}", reported.reasons);
}
