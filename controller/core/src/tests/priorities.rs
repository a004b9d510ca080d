//! Which priorities who may give.

use proto_model::{Preemption, Role};

use super::*;
use crate::{ErrorKind, JobChange, JobUpdate};

fn submit_by(role: Role, text: &str, priority: i32) -> Event {
    let spec = JobSpec { priority, preemption: Preemption::of_priority(priority), ..spec(1, 1) };
    let Event::Submit(mut made) = submit(text, spec) else { panic!() };
    made.by = by(role);
    Event::Submit(made)
}

fn change(role: Role, text: &str, priority: i32) -> Event {
    let order = super::holds::order(text, role);
    let change = JobChange { priority: Some(priority), ..JobChange::default() };
    Event::UpdateJob(Box::new(JobUpdate { order, change, if_version: 0 }))
}

#[test]
fn a_user_does_not_go_ahead_of_other_tenants_by_a_number() {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    for (role, priority) in [(Role::User, 1), (Role::User, 1000), (Role::TenantAdmin, 1)] {
        let error = w.refused(submit_by(role, "mine", priority));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "PRIORITY_TOO_HIGH"), "{error}");
        assert!(error.to_string().contains(&format!("{priority} is more than 0")), "{error}");
        // The plan says the same.
        let planned = JobSpec { priority, ..spec(1, 1) };
        assert_eq!(w.state.plan(&tenant("red"), &by(role), &planned, w.now).unwrap_err(), error);
    }
    w.ok(submit_by(Role::User, "mine", 0));
    w.ok(submit_by(Role::User, "less", -1000));
    w.ok(submit_by(Role::User, "urgent", 0));
    w.ok(change(Role::Admin, "urgent", 1000));
    let by = w.job("mine").status.submitter.clone().unwrap();
    assert_eq!((by.role, by.user.as_str()), (Role::User, "user"));
    assert_eq!(w.refused(change(Role::User, "less", 1)).code(), "PRIORITY_TOO_HIGH");
    w.ok(change(Role::User, "less", -1));
    // What an administrator has given stays, and may be lowered by its owner.
    let limit = JobChange { time_limit: Some(Some(Duration::from_secs(60))), ..JobChange::default() };
    let order = super::holds::order("urgent", Role::User);
    w.ok(Event::UpdateJob(Box::new(JobUpdate { order, change: limit, if_version: 0 })));
    assert_eq!(w.job("urgent").spec.priority, 1000);
    w.ok(change(Role::User, "urgent", 0));
}

#[test]
fn an_operator_chooses_how_high_roles_may_go() {
    let mut w = World::new();
    (w.state.0.config.user_priority, w.state.0.config.tenant_admin_priority) = (-10, 50);
    w.ok(submit_by(Role::TenantAdmin, "a", 50));
    w.refused(submit_by(Role::TenantAdmin, "b", 51));
    w.ok(submit_by(Role::User, "b", -10));
    w.refused(submit_by(Role::User, "c", 0));
}
