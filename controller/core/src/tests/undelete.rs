//! What was deleted comes back for a time: as it was, by today's rules, and without letting anybody in again.

use proto_model::{
    ClassMembers, ClassPreemption, JobFilter, JobLimits, Queue, QueueName, ReasonCode, ServiceClass, Shape,
    UserLimits, Webhook, WebhookEvent, WebhookName, WebhookProgress, WebhookSecret, WebhookSpec, WebhookUrl,
};

use super::{
    documents::{apply as reserve, reservation},
    drains,
    schedules::{apply as schedule_of, called, schedule},
    *,
};
use crate::{DeletedKey, ErrorKind, Restored};

const DAY: Duration = Duration::from_secs(86_400);

fn make(text: &str, gpus: u32) -> Event {
    Event::ApplyTenant {
        name: tenant(text),
        description: "people".into(),
        quota: Quota::new(gpus, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    }
}

fn delete(text: &str) -> Event {
    Event::DeleteTenant { name: tenant(text), uid: None, dry_run: false }
}

fn key(text: &str) -> DeletedKey {
    DeletedKey::Tenant(tenant(text))
}

fn undelete(key: DeletedKey) -> Event {
    Event::Undelete { key, dry_run: false }
}

fn back(w: &mut World, event: Event) -> Restored {
    match w.ok(event) {
        Reply::Undeleted(restored) => restored,
        other => panic!("{other:?}"),
    }
}

fn queue(text: &str, parent: Option<&str>) -> Event {
    let named = |text: &str| QueueName::new(text).unwrap();
    let queue = Queue {
        tenant: tenant("blue"),
        name: named(text),
        parent: parent.map(named),
        guaranteed: Shape::default(),
        limit: Some(4),
        weight: 3,
        objective: None,
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
    };
    Event::ApplyQueue { queue: Box::new(queue), dry_run: false }
}

fn class() -> Event {
    let class = ServiceClass {
        name: "short".parse().unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        members: ClassMembers { tenants: [tenant("red"), tenant("blue")].into(), ..ClassMembers::default() },
        default_class: false,
        job: JobLimits::default(),
        user: UserLimits::default(),
        preemption: ClassPreemption::default(),
    };
    Event::ApplyServiceClass { class: Box::new(class), dry_run: false }
}

fn webhook() -> Event {
    let webhook = Webhook {
        tenant: tenant("blue"),
        name: WebhookName::new("chat").unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        spec: WebhookSpec {
            url: WebhookUrl::new("https://a.example/").unwrap(),
            events: [WebhookEvent::Ended].into(),
            jobs: JobFilter::default(),
            secret: WebhookSecret::new(&[7; 24]),
            allow_insecure: false,
            suspended: false,
            description: String::new(),
        },
        progress: WebhookProgress::default(),
    };
    Event::ApplyWebhook(Box::new(webhook), false)
}

/// A tenant `blue` with something of everything. Its queues' names go against their order.
fn furnished() -> World {
    let mut w = World::new();
    for event in [queue("z", None), queue("a", Some("z")), class(), webhook()] {
        w.ok(event);
    }
    let owned =
        proto_model::JobSchedule { tenant: tenant("blue"), ..schedule("nightly", "* * * * *", spec(1, 1)) };
    w.ok(schedule_of(owned));
    let both = proto_model::Reservation {
        tenants: vec![tenant("red"), tenant("blue")],
        ..reservation("both", &[0], w.now.plus(9 * DAY))
    };
    let own = proto_model::Reservation {
        tenants: vec![tenant("blue")],
        ..reservation("own", &[1], w.now.plus(9 * DAY))
    };
    let soon = proto_model::Reservation {
        tenants: vec![tenant("blue")],
        ..reservation("soon", &[2], w.now.plus(DAY / 24))
    };
    for one in [both, own, soon] {
        w.ok(reserve(one));
    }
    w
}

#[test]
fn a_tenant_comes_back_with_what_went_along_and_lets_nobody_in() {
    let mut w = furnished();
    let before = w.state.tenant(&tenant("blue")).unwrap().clone();
    w.ok(delete("blue"));
    assert!(w.state.queues_of(&tenant("blue")).next().is_none());
    // Another controller knows of it.
    w.state = w.reload(7);
    (0..4).for_each(|n| w.connect(n, Vec::new()));
    w.tick(DAY);
    let reported = w.state.deleted();
    assert_eq!(
        (reported.len(), reported[0].key.to_string(), reported[0].by.as_str()),
        (1, "tenant/blue".into(), "admin/root")
    );
    let dry = Event::Undelete { key: key("blue"), dry_run: true };
    let untouched = w.state.clone();
    let predicted = back(&mut w, dry);
    assert!(w.state.same(&untouched));
    let restored = back(&mut w, undelete(key("blue")));
    assert_eq!(restored, predicted);
    assert_eq!(restored.notes, ["reservation 'soon' is over"]);
    let after = w.state.tenant(&tenant("blue")).unwrap();
    assert_eq!((&after.description, after.quota), (&before.description, before.quota));
    assert_ne!(after.uid, before.uid, "what was issued for the tenant before it stays refused");
    let blue = tenant("blue");
    let queues: Vec<(String, Option<String>)> = w
        .state
        .queues_of(&blue)
        .map(|queue| (queue.name.to_string(), queue.parent.as_ref().map(ToString::to_string)))
        .collect();
    assert_eq!(queues, [("a".into(), Some("z".into())), ("z".into(), None)]);
    let hook = w.state.webhooks_of(&blue).next().unwrap();
    assert_eq!(hook.spec.secret, WebhookSecret::new(&[7; 24]));
    let nightly = w.state.job_schedule(&tenant("blue"), &called("nightly")).unwrap();
    assert!(
        nightly.suspended && nightly.progress.last_left_out.as_ref().unwrap().code == ReasonCode::Undeleted
    );
    let members = &w.state.base.classes.values().next().unwrap().members;
    assert_eq!(members.tenants, [tenant("red"), tenant("blue")].into());
    let of = |text: &str| w.state.base.reservations.values().find(|one| one.name.as_str() == text).cloned();
    assert!(of("both").unwrap().tenants.contains(&tenant("blue")));
    assert_eq!(of("own").unwrap().tenants, [tenant("blue")]);
    assert!(of("soon").is_none() && w.state.deleted().is_empty() && w.state.base.resting.is_empty());
    let error = w.refused(undelete(key("blue")));
    assert_eq!((error.kind(), error.code()), (ErrorKind::NotFound, "NOT_DELETED"));
    w.tick(DAY);
    assert!(w.state.jobs(None).next().is_none(), "nothing starts by itself");
    assert_eq!(w.reload(8).base.tenants, w.state.base.tenants);
}

#[test]
fn what_has_taken_the_name_since_is_not_touched() {
    let mut w = furnished();
    w.ok(delete("blue"));
    w.ok(Event::ReleaseTenantName { name: tenant("blue") });
    w.ok(make("blue", 2));
    let error = w.refused(undelete(key("blue")));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, "TAKEN_SINCE"));
    assert!(error.to_string().contains("another tenant 'blue'"), "{error}");
    // A deleted one of that name counts from now on.
    w.ok(delete("blue"));
    assert_eq!(w.state.deleted().len(), 1);
    let restored = back(&mut w, undelete(key("blue")));
    assert!(restored.notes.is_empty() && w.state.queues_of(&tenant("blue")).next().is_none());
    let near = w.refused(undelete(key("blau")));
    assert!(near.to_string().contains("no deleted tenant/blau"), "{near}");
    // What no longer fits is refused whole.
    w.ok(delete("blue"));
    let guarantee = |text: &str, nodes| Event::ApplyTenant {
        name: tenant(text),
        description: String::new(),
        quota: Quota { guaranteed: Shape { nodes, ..Shape::default() }, ..Quota::new(16, 0) },
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    };
    w.ok(guarantee("grey", 3));
    w.ok(delete("grey"));
    w.ok(guarantee("red", 2));
    let error = w.refused(undelete(key("grey")));
    assert!(error.to_string().starts_with("spec.quota.guaranteed"), "{error}");
    assert_eq!(w.state.deleted().len(), 2, "it is kept");
}

#[test]
fn a_fabric_comes_back_unless_another_is_there() {
    let mut w = World::new();
    w.ok(drains::fabric());
    let pods = |w: &World| w.state.topology().pods.iter().filter(|pod| !pod.name.is_empty()).count();
    assert_eq!(pods(&w), 2);
    let before = w.state.fabric().cloned().unwrap();
    w.ok(Event::DeleteFabric { name: "f".into(), if_version: 0, dry_run: true });
    assert!(w.state.deleted().is_empty(), "a dry run buries nothing");
    w.ok(Event::DeleteFabric { name: "f".into(), if_version: 0, dry_run: false });
    assert_eq!(pods(&w), 0);
    let key = DeletedKey::Fabric("f".into());
    let Event::ApplyFabric { fabric, .. } = drains::fabric() else { panic!() };
    let other = proto_model::Fabric { name: "g".into(), ..(*fabric).clone() };
    w.ok(Event::ApplyFabric { fabric: Box::new(other), allow_shrink: false, dry_run: false });
    let error = w.refused(undelete(key.clone()));
    assert!(error.code() == "TAKEN_SINCE" && error.to_string().contains("fabric 'g'"), "{error}");
    w.ok(Event::DeleteFabric { name: "g".into(), if_version: 0, dry_run: false });
    assert_eq!(w.state.deleted().len(), 2);
    w.state = w.reload(7);
    back(&mut w, undelete(key));
    assert_eq!((pods(&w), w.state.fabric().cloned().unwrap()), (2, before));
    assert_eq!(w.state.deleted().len(), 1);
}

#[test]
fn what_is_kept_has_an_end_and_a_bound() {
    let mut w = World::new();
    w.ok(delete("blue"));
    w.tick(7 * DAY - Duration::from_secs(1));
    assert_eq!((w.state.deleted().len(), w.state.next_tick().is_some()), (1, true));
    w.tick(Duration::from_secs(1));
    assert!(w.state.deleted().is_empty() && !w.stored.keys().any(|key| matches!(key, Key::Tombstone(_))));
    assert_eq!(w.refused(undelete(key("blue"))).code(), "NOT_DELETED");
    w.state.0.config.undelete_max = 2;
    for text in ["a", "b", "c"] {
        w.ok(make(text, 1));
        w.tick(Duration::from_secs(1));
        w.ok(delete(text));
    }
    let kept: Vec<String> = w.state.deleted().iter().map(|one| one.key.to_string()).collect();
    assert_eq!(kept, ["tenant/c", "tenant/b"]);
    w.state.0.config.undelete_for = Duration::ZERO;
    w.ok(make("d", 1));
    w.ok(delete("d"));
    assert!(!w.stored.contains_key(&Key::Tombstone(key("d"))));
}

#[test]
fn of_more_than_fits_into_a_value_the_rest_is_counted() {
    let mut w = World::new();
    let mut job = spec(1, 1);
    let Work::Command(command) = &mut job.work else { panic!() };
    command.env = (0..4).map(|n| (format!("E{n}"), "x".repeat(30_000))).collect();
    for n in 0..6 {
        let owned = proto_model::JobSchedule {
            tenant: tenant("blue"),
            ..schedule(&format!("s{n}"), "0 0 1 1 *", job.clone())
        };
        w.ok(schedule_of(owned));
    }
    w.ok(delete("blue"));
    let restored = back(&mut w, undelete(key("blue")));
    assert_eq!(restored.notes, ["2 of its documents were too many to be kept"]);
    assert_eq!(w.state.job_schedules_of(&tenant("blue")).count(), 4);
}
