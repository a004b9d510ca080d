//! Webhooks: what is told of jobs and to whom, in one transaction with it; bounds; and what waits is tried in order.

use proto_model::{
    JobFilter, Webhook, WebhookEvent, WebhookName, WebhookProgress, WebhookSecret, WebhookSpec, WebhookUrl,
};

use WebhookEvent::{Cancelled, Ended, Failed, Held, QueuedAgain, Started};

use super::*;
use crate::tenant::webhooks::{
    Delivery, DeliveryReport, DeliveryResult, MAX_OF_TENANT, QUEUE,
    dispatcher::{Dispatcher, MAX_IN_FLIGHT},
    retry::{LONGEST, Outcome},
};

fn name(text: &str) -> WebhookName {
    WebhookName::new(text).unwrap()
}

fn hook(of: &str, called: &str, events: &[WebhookEvent]) -> Webhook {
    Webhook {
        tenant: tenant(of),
        name: name(called),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        spec: WebhookSpec {
            url: WebhookUrl::new("https://a.example/").unwrap(),
            events: events.iter().copied().collect(),
            jobs: JobFilter::default(),
            secret: WebhookSecret::new(&[1; 24]),
            allow_insecure: false,
            suspended: false,
            description: String::new(),
        },
        progress: WebhookProgress::default(),
    }
}

fn apply(webhook: Webhook) -> Event {
    Event::ApplyWebhook(Box::new(webhook), false)
}

fn waiting(w: &World, of: &str, called: &str) -> Vec<Arc<Delivery>> {
    w.state.deliveries_of(&tenant(of), &name(called)).cloned().collect()
}

/// A job that cannot start is held.
fn held(w: &mut World, text: &str) {
    w.submit(text, spec(4, 4));
    let order = Box::new(super::holds::order(text, Role::User));
    w.ok(Event::HoldJob { order, reason: String::new() });
}

/// A cluster whose servers are all taken.
fn full() -> World {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.run("full");
    w
}

fn reported(w: &World, called: &str) -> Vec<WebhookEvent> {
    waiting(w, "red", called).iter().map(|delivery| delivery.event).collect()
}

fn outcome(delivery: &Delivery, what: DeliveryResult) -> DeliveryReport {
    DeliveryReport { key: delivery.key(), webhook_uid: delivery.webhook_uid.clone(), what }
}

fn progress(w: &World, called: &str) -> WebhookProgress {
    w.state.webhook(&tenant("red"), &name(called)).unwrap().progress.clone()
}

#[test]
fn what_becomes_of_a_job_is_told_to_those_that_are_for_it_in_the_transaction_of_it() {
    let mut w = World::new();
    w.ok(apply(hook("red", "all", &[Started, Ended, Held, QueuedAgain])));
    w.ok(apply(hook("red", "bad", &[Failed])));
    w.ok(apply(hook("blue", "theirs", &[Started, Ended])));
    let mut named = hook("red", "named", &[Ended]);
    named.spec.jobs.name = "b*".to_owned();
    w.ok(apply(named));
    w.submit("a", spec(1, 1));
    w.run("a");
    assert_eq!(reported(&w, "all"), [Started]);
    let out = w.step(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    assert!(out.reply.unwrap().is_ok());
    w.all("a", Observed::Ended);
    assert_eq!(reported(&w, "all"), [Started, Cancelled]);
    assert!(reported(&w, "bad").is_empty() && reported(&w, "named").is_empty());
    assert!(waiting(&w, "blue", "theirs").is_empty());
    let all = waiting(&w, "red", "all");
    assert_eq!((all[0].job.as_str(), all[0].attempt, all[1].phase), ("a", 1, Phase::Cancelled));
    assert!(all[0].seq < all[1].seq && all[0].id() != all[1].id());
    // A controller that comes later finds all of it, with the same ids.
    let fresh = w.reload(8);
    assert!(fresh.base.deliveries == w.state.base.deliveries && fresh.base.webhooks == w.state.base.webhooks);
}

#[test]
fn jobs_that_no_webhook_is_for_cost_nothing() {
    let mut w = World::new();
    w.ok(apply(hook("blue", "theirs", &[Started, Ended, Held])));
    let out = w.step(submit("a", spec(1, 1)));
    assert!(!out.writes.iter().any(|write| matches!(write, Write::PutDelivery(_) | Write::PutWebhook(_))));
}

#[test]
fn outcomes_are_counted_once_and_what_is_no_more_is_nobodys() {
    let mut w = full();
    w.ok(apply(hook("red", "all", &[Held])));
    for job in ["a", "b", "c"] {
        held(&mut w, job);
    }
    let all = waiting(&w, "red", "all");
    assert_eq!(all.len(), 3);
    w.ok(Event::CountDeliveries(vec![
        outcome(&all[0], DeliveryResult::Delivered),
        outcome(&all[1], DeliveryResult::Failed("x".repeat(1000))),
        outcome(&all[2], DeliveryResult::GivenUp("late".into())),
    ]));
    let now = progress(&w, "all");
    assert_eq!((now.delivered, now.failed, waiting(&w, "red", "all").len()), (1, 1, 1));
    assert_eq!(now.last_error, Some((w.now, "late".to_owned())));
    w.ok(Event::CountDeliveries(vec![outcome(&all[1], DeliveryResult::Gone("410".into()))]));
    let now = progress(&w, "all");
    assert!(now.disabled.is_some() && now.failed == 2 && waiting(&w, "red", "all").is_empty());
    held(&mut w, "d");
    assert!(waiting(&w, "red", "all").is_empty(), "nothing is kept for a receiver that is gone");
    w.ok(apply(hook("red", "all", &[Held])));
    assert_eq!(progress(&w, "all").disabled, None);
    held(&mut w, "e");
    assert_eq!(waiting(&w, "red", "all").len(), 1);
    w.ok(Event::DeleteWebhook(tenant("red"), name("all")));
    w.ok(apply(hook("red", "all", &[Held])));
    assert!(waiting(&w, "red", "all").is_empty());
    w.ok(Event::CountDeliveries(vec![outcome(&all[0], DeliveryResult::Delivered)]));
    assert_eq!(progress(&w, "all").delivered, 0, "another webhook of that name is not meant");
}

#[test]
fn the_oldest_makes_room_and_is_counted() {
    let mut w = full();
    w.ok(apply(hook("red", "all", &[Held])));
    for number in 0..QUEUE + 3 {
        held(&mut w, &format!("j{number}"));
    }
    let all = waiting(&w, "red", "all");
    assert_eq!((all.len(), progress(&w, "all").dropped), (QUEUE, 3));
    assert_eq!((all[0].job.as_str(), w.state.all_deliveries_queued()), ("j3", QUEUE));
    let fresh = w.reload(8);
    assert!(fresh.base.deliveries == w.state.base.deliveries && fresh.base.webhooks == w.state.base.webhooks);
}

#[test]
fn webhooks_have_bounds_and_names() {
    let mut w = World::new();
    for number in 0..MAX_OF_TENANT {
        w.ok(apply(hook("red", &format!("h{number}"), &[Ended])));
    }
    assert!(matches!(w.refused(apply(hook("red", "more", &[Ended]))), CoreError::Full { .. }));
    let unknown = w.refused(Event::DeleteWebhook(tenant("red"), name("h00")));
    assert!(unknown.to_string().contains("did you mean"), "{unknown}");
    let mut changed = hook("red", "h0", &[Ended]);
    changed.spec.secret = None;
    w.ok(apply(changed));
    let kept = w.state.webhook(&tenant("red"), &name("h0")).unwrap();
    assert!(kept.spec.secret.is_some() && kept.generation == 1, "its secret stays");
}

fn dispatcher(w: &World) -> Dispatcher {
    let mut dispatcher = Dispatcher::default();
    for key in w.state.webhook_keys() {
        let webhook = w.state.webhook(&key.0, &key.1).cloned();
        dispatcher.update(key, webhook, w.state.deliveries_of(&key.0, &key.1).cloned().collect());
    }
    dispatcher
}

#[test]
fn deliveries_of_a_job_go_in_order_and_few_at_a_time() {
    let mut w = World::new();
    w.ok(apply(hook("red", "all", &[Started, Ended])));
    w.submit("a", spec(1, 1));
    w.run("a");
    w.step(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    let mut dispatcher = dispatcher(&w);
    let first = dispatcher.start(w.now);
    assert_eq!(first.iter().map(|one| one.delivery.event).collect::<Vec<_>>(), [Started]);
    assert_eq!((dispatcher.next(), dispatcher.start(w.now).len()), (None, 0));
    // It failed: what comes later of the same job waits with it.
    let said = dispatcher.ended(&first[0], Outcome::Failed("500".into()), w.now, 7);
    assert!(matches!(said, Some(DeliveryReport { what: DeliveryResult::Failed(_), .. })), "{said:?}");
    let next = dispatcher.next().unwrap();
    assert!(next > w.now && dispatcher.start(w.now).is_empty());
    let again = dispatcher.start(next);
    assert_eq!(again, first);
    let said = dispatcher.ended(&again[0], Outcome::Delivered, next, 8).unwrap();
    assert_eq!(said.what, DeliveryResult::Delivered);
    assert_eq!(dispatcher.start(next)[0].delivery.event, Cancelled);
}

#[test]
fn a_receiver_that_fails_or_asks_for_time_is_tried_one_by_one() {
    let mut w = full();
    w.ok(apply(hook("red", "all", &[Held])));
    w.ok(apply(hook("red", "other", &[Held])));
    for number in 0..9 {
        held(&mut w, &format!("j{number}"));
    }
    let mut dispatcher = dispatcher(&w);
    let attempts = dispatcher.start(w.now);
    let of =
        |called: &str| attempts.iter().filter(|one| one.webhook.name == name(called)).collect::<Vec<_>>();
    assert_eq!(
        (of("all").len(), of("other").len(), dispatcher.in_flight()),
        (MAX_IN_FLIGHT, MAX_IN_FLIGHT, 2 * MAX_IN_FLIGHT)
    );
    let later = || Outcome::Later(LONGEST * 2, "429".into());
    for one in of("all") {
        dispatcher.ended(one, later(), w.now, 1);
    }
    assert!(dispatcher.start(w.now.plus(LONGEST / 2)).is_empty(), "nothing goes to it before");
    let after = dispatcher.start(w.now.plus(LONGEST));
    assert_eq!(after.len(), 1, "one, to see whether it answers well");
    let reported = dispatcher.ended(&after[0], Outcome::Delivered, w.now, 1).unwrap();
    assert_eq!(reported.key, after[0].delivery.key());
    assert_eq!(dispatcher.start(w.now.plus(LONGEST)).len(), MAX_IN_FLIGHT);
    // What is dropped while it flies is forgotten, and room made.
    let key = (tenant("red"), name("other"));
    dispatcher.update(&key, None, Vec::new());
    assert_eq!(dispatcher.in_flight(), MAX_IN_FLIGHT);
    assert_eq!(dispatcher.ended(of("other")[0], Outcome::Failed("x".into()), w.now, 1), None);
}
