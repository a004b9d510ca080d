//! Tenants that end, and later ones that have their name.

use super::{
    documents::{apply, reservation},
    *,
};

const DAY: Duration = Duration::from_secs(86_400);

fn make(text: &str) -> Event {
    let quota = Quota::new(4, 0);
    Event::ApplyTenant {
        name: tenant(text),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    }
}

fn delete(text: &str) -> Event {
    Event::DeleteTenant { name: tenant(text), uid: None, dry_run: false }
}

/// A job of blue's that has ended.
fn ended(w: &mut World, text: &str, request: Option<(&str, u8)>) -> JobId {
    // Cancelled before it has a place: nobody need confirm its end.
    let wide = JobSpec { begin: Some(w.now.plus(DAY)), ..spec(1, 1) };
    w.ok(submit_as("blue", text, wide, request));
    let job = JobId { tenant: tenant("blue"), name: JobName::new(text).unwrap() };
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: job.clone(), grace: None });
    assert_eq!(w.state.job(&job).unwrap().status.phase, Phase::Cancelled);
    job
}

#[test]
fn the_name_of_a_deleted_tenant_rests_until_it_is_released_or_its_time_is_over() {
    let mut w = World::new();
    let begin = w.now;
    w.ok(delete("blue"));
    let CoreError::NameResting { until, .. } = w.refused(make("blue")) else { panic!() };
    assert_eq!(until, begin.plus(30 * DAY));
    // A new controller knows of it.
    assert_eq!(w.reload(8).base.resting, w.state.base.resting);
    w.tick(29 * DAY);
    let refused = w.refused(make("blue"));
    assert!(
        refused.to_string().contains(&until.utc()) && refused.to_string().contains("--reuse-name"),
        "{refused}"
    );
    assert_eq!(refused.kind(), crate::ErrorKind::Conflict);
    w.ok(make("other"));
    w.tick(DAY);
    w.ok(make("blue"));
    assert!(w.state.base.resting.is_empty(), "a tenant that lives rests no name");
    w.ok(delete("blue"));
    w.ok(Event::ReleaseTenantName { name: tenant("blue") });
    w.ok(make("blue"));
    // Nothing to release is no error, and changes nothing.
    assert!(w.step(Event::ReleaseTenantName { name: tenant("blue") }).writes.is_empty());
}

#[test]
fn names_that_rest_are_bounded_and_need_not_rest_at_all() {
    let mut w = World::new();
    w.state.0.config.max_resting = 2;
    for text in ["a", "b", "c"] {
        w.ok(make(text));
    }
    w.ok(delete("a"));
    w.tick(DAY);
    w.ok(delete("b"));
    assert!(matches!(w.refused(delete("c")), CoreError::Full { what: "names of deleted tenants", .. }));
    assert!(w.state.base.tenants.contains_key(&tenant("c")), "the tenant stays whole");
    w.tick(29 * DAY);
    w.ok(delete("c"));
    let rest: Vec<&TenantName> = w.state.base.resting.keys().collect();
    assert_eq!(rest, [&tenant("b"), &tenant("c")], "what has rested makes room");
    w.state.0.config.name_rest = Duration::ZERO;
    w.ok(make("d"));
    w.ok(delete("d"));
    w.ok(make("d"));
}

#[test]
fn one_transaction_never_turns_an_old_tenant_into_a_new_one() {
    let mut w = World::new();
    w.state.0.config.name_rest = Duration::ZERO;
    let mut state = w.state.clone();
    let mut both = |event| {
        let event = attributed(&state, event);
        step(&mut state, event, Timestamp(2_000_000), &mut |bytes| bytes.fill(3)).reply.unwrap()
    };
    both(delete("blue")).unwrap();
    let refused = both(make("blue")).unwrap_err();
    assert!(
        matches!(refused, CoreError::TenantLeaving { .. }),
        "its key would keep the age of the old one: {refused}"
    );
    w.ok(delete("blue"));
    w.ok(make("blue"));
}

#[test]
fn a_later_tenant_of_the_name_inherits_neither_history_nor_reservations_nor_request_ids() {
    let mut w = World::new();
    let kept = reservation("shared", &[0], w.now);
    w.ok(apply(proto_model::Reservation { tenants: vec![tenant("red"), tenant("blue")], ..kept.clone() }));
    let own = proto_model::Reservation { tenants: vec![tenant("blue")], ..reservation("own", &[1], w.now) };
    w.ok(apply(own));
    let old = ended(&mut w, "model", Some(("r1", 1)));
    let during = w.now;
    assert!(
        !w.state
            .explain_at(&old, w.state.tenant_begin(&tenant("blue")), during)
            .unwrap()
            .decisions
            .is_empty()
    );
    w.ok(delete("blue"));
    let reservations = &w.state.base.reservations;
    assert_eq!(reservations.len(), 1, "what was for it alone is gone");
    assert!(reservations.values().all(|left| left.tenants == [tenant("red")]));
    assert_eq!(w.reload(8).base.reservations, *reservations);
    w.tick(Duration::from_secs(5));
    w.ok(Event::ReleaseTenantName { name: tenant("blue") });
    w.ok(make("blue"));
    let begin = w.state.tenant_begin(&tenant("blue"));
    assert!(matches!(w.state.explain_at(&old, begin, w.now), Err(CoreError::JobNotFound { .. })));
    assert!(w.state.explain_at(&old, Timestamp(0), w.now).is_ok(), "an administrator sees all of it");
    // Another body under an old id, and then the same again.
    let fresh = JobSpec { begin: Some(w.now.plus(DAY)), ..spec(1, 2) };
    w.ok(submit_as("blue", "next", fresh.clone(), Some(("r1", 2))));
    let Reply::Job { existed, job } = w.ok(submit_as("blue", "next", fresh, Some(("r1", 2)))) else {
        panic!()
    };
    assert!(existed && job.id.name.as_str() == "next");
    w.tick(2 * DAY);
    assert!(w.state.base.requests.is_empty() && w.state.index.request_times.is_empty());
}

#[test]
fn request_ids_of_a_tenant_without_jobs_end_with_it_at_once() {
    let mut w = World::new();
    let done = ended(&mut w, "model", Some(("r1", 1)));
    w.ok(Event::DeleteJob { by: None, id: done, indices: Vec::new() });
    w.ok(delete("blue"));
    assert!(w.state.next_tick().is_some_and(|time| time <= w.now), "nothing else wakes an idle controller");
    w.tick(Duration::from_millis(1));
    assert!(w.state.base.requests.is_empty() && w.state.index.request_counts.is_empty());
    w.ok(Event::ReleaseTenantName { name: tenant("blue") });
    w.ok(make("blue"));
}
