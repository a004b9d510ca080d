//! What a job has beside its spec: that it was held from the beginning, its labels, and how long it is kept.

use std::time::Duration;

use proto_model::{ArraySpec, Authority, Dependency, DependencyWhen, Observed, Role};

use super::{holds::order, *};
use crate::{JobChange, JobUpdate};

fn held(text: &str, spec: JobSpec) -> Event {
    match submit(text, spec) {
        Event::Submit(submit) => Event::Submit(Box::new(Submit { hold: true, ..*submit })),
        other => other,
    }
}

fn label(text: &str, labels: &[(&str, Option<&str>)]) -> Event {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
    let change = JobChange { labels, ..JobChange::default() };
    Event::UpdateJob(Box::new(JobUpdate { order: order(text, Role::User), change, if_version: 0 }))
}

#[test]
fn what_is_held_from_the_beginning_starts_when_it_is_released() {
    let mut w = World::new();
    w.ok(held("a", spec(1, 1)));
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Pending, vec!["HeldByUser".to_owned()]));
    let array = ArraySpec { indices: vec![0, 1], at_once: 0 };
    w.ok(held("s", JobSpec { array: Some(array), ..spec(1, 1) }));
    w.tick(Duration::from_secs(1));
    for name in ["s-0", "s-1"] {
        assert_eq!(w.codes(name), ["HeldByUser"], "{name}");
    }
    w.ok(Event::ReleaseJob(Box::new(order("a", Role::User))));
    w.tick(Duration::from_millis(1));
    assert_ne!(w.phase("a"), Phase::Pending);
    w.ok(Event::ReleaseJob(Box::new(order("s", Role::User))));
    w.tick(Duration::from_millis(1));
    assert_ne!(w.phase("s-1"), Phase::Pending);
}

#[test]
fn labels_are_changed_also_of_what_has_ended() {
    let mut w = World::new();
    w.submit("a", spec(1, 1));
    w.run("a");
    w.ok(label("a", &[("team", Some("vision")), ("old", Some("1"))]));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    w.ok(label("a", &[("old", None), ("never", None)]));
    let job = w.job("a");
    assert_eq!((job.labels.len(), job.labels["team"].as_str(), job.generation), (1, "vision", 1));
    let many: Vec<String> = (0..65).map(|at| format!("k{at}")).collect();
    let many: Vec<(&str, Option<&str>)> = many.iter().map(|key| (key.as_str(), Some("v"))).collect();
    let error = w.refused(label("a", &many));
    assert!(error.to_string().contains("66 labels"), "{error}");
    let foreign = Authority { role: Role::User, user: "somebody".into() };
    let Event::UpdateJob(mut update) = label("a", &[("x", Some("y"))]) else { panic!() };
    update.order.by = foreign;
    assert_eq!(w.refused(Event::UpdateJob(update)).code(), "NOT_OWNER");
}

#[test]
fn what_has_ended_goes_after_its_time_unless_others_wait_for_it() {
    let hour = Duration::from_secs(3600);
    let mut w = World::new();
    w.state.0.config.ended_retention = Some(hour);
    for name in ["a", "b"] {
        w.submit(name, spec(1, 1));
        w.run(name);
        w.ok(Event::Cancel { by: None, id: id(name), indices: Vec::new(), grace: None });
        w.all(name, Observed::Ended);
    }
    let after = vec![Dependency { job: JobName::new("b").unwrap(), when: DependencyWhen::Ended }];
    let begin = w.now.plus(hour * 3);
    w.submit("c", JobSpec { after, begin: Some(begin), ..spec(1, 1) });
    w.tick(hour / 2);
    assert!(w.state.job(&id("a")).is_some());
    w.tick(hour / 2 + Duration::from_secs(1));
    w.tick(Duration::from_millis(1));
    assert!(w.state.job(&id("a")).is_none(), "it was kept for its time");
    assert!(w.state.job(&id("b")).is_some() && w.state.job(&id("c")).is_some());
    assert!(w.state.next_tick().is_none_or(|next| next > w.now), "it is not looked at again at once");
}
