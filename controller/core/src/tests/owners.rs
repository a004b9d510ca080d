//! Within a tenant users change what is their own, and administrators everything.

use proto_model::{Authority, Role};

use super::{World, id, schedules, spec, submit, tenant};
use crate::{CoreError, ErrorKind, Event, JobChange, JobOrder, JobUpdate};

fn who(role: Role, user: &str) -> Authority {
    Authority { role, user: user.to_owned() }
}

fn order(text: &str, by: &Authority) -> Box<JobOrder> {
    Box::new(JobOrder { id: id(text), indices: Vec::new(), by: by.clone(), asked: None })
}

/// Everything that changes a job.
fn changes(text: &str, by: &Authority) -> Vec<Event> {
    let reason = String::new;
    let change = JobChange { priority: Some(-1), ..JobChange::default() };
    vec![
        Event::HoldJob { order: order(text, by), reason: reason() },
        Event::ReleaseJob(order(text, by)),
        Event::UpdateJob(Box::new(JobUpdate { order: *order(text, by), change, if_version: 0 })),
        Event::SuspendJob { order: order(text, by), reason: reason() },
        Event::ReleaseJob(order(text, by)),
        Event::RequeueJob { order: order(text, by), reason: reason() },
        Event::Cancel { id: id(text), indices: Vec::new(), grace: None, by: Some(by.clone()) },
        Event::DeleteJob { id: id(text), indices: Vec::new(), by: Some(by.clone()) },
    ]
}

fn submit_by(text: &str, by: &Authority) -> Event {
    let Event::Submit(mut made) = submit(text, spec(1, 1)) else { panic!() };
    made.by = by.clone();
    Event::Submit(made)
}

#[test]
fn users_change_their_own_jobs_and_administrators_all() {
    let (ann, bob) = (who(Role::User, "ann"), who(Role::User, "bob"));
    let (boss, root) = (who(Role::TenantAdmin, "boss"), who(Role::Admin, "root"));
    // An administrator of the cluster who is called as a user is somebody else; who was made an administrator of the tenant is not.
    let (other_ann, ann_then) = (who(Role::Admin, "ann"), who(Role::TenantAdmin, "ann"));
    for (owner, by, may) in [
        (&ann, &ann, true),
        (&ann, &bob, false),
        (&bob, &ann, false),
        (&ann, &boss, true),
        (&ann, &root, true),
        (&other_ann, &ann, false),
        (&ann_then, &ann, true),
        (&ann, &who(Role::Viewer, "ann"), false),
    ] {
        let mut w = World::new();
        w.submit("full", spec(4, 4));
        w.ok(submit_by("a", owner));
        for event in changes("a", by) {
            if may {
                w.ok(event);
                continue;
            }
            let before = w.state.clone();
            let error = w.refused(event);
            assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "NOT_OWNER"), "{error}");
            assert!(error.to_string().contains(&format!("belongs to '{}'", owner.user)), "{error}");
            assert!(w.state.same(&before));
        }
        assert_eq!(w.state.job(&id("a")).is_none(), may);
    }
}

#[test]
fn a_schedule_is_its_owners() {
    let mut w = World::new();
    let (ann, bob) = (who(Role::User, "ann"), who(Role::User, "bob"));
    let apply = |by: &Authority| Event::ApplySchedule {
        schedule: Box::new(schedules::schedule("tick", "* * * * *", spec(1, 1))),
        by: by.clone(),
        dry_run: false,
    };
    let delete = |by: &Authority| {
        let name = "tick".parse().unwrap();
        Event::DeleteSchedule { tenant: tenant("red"), name, by: Some(by.clone()) }
    };
    w.ok(apply(&ann));
    for event in [apply(&bob), delete(&bob)] {
        assert!(matches!(w.refused(event), CoreError::NotOwner { owner: Some(owner), .. } if owner == "ann"));
    }
    w.ok(apply(&ann));
    w.ok(delete(&ann));
}
