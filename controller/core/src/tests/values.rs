//! Secrets and configs: what jobs may refer to, what their ranks get, what a change means for them, and bounds.

use proto_model::{EnvSource, ReasonCode, Value, ValueText, Values, ValuesId, ValuesKind, ValuesName};

use super::*;
use crate::tenant::values::ValuesError;

fn values_id(of: &str, kind: ValuesKind, text: &str) -> ValuesId {
    ValuesId { tenant: tenant(of), kind, name: ValuesName::new(text).unwrap() }
}

fn values(of: &str, kind: ValuesKind, text: &str, data: &[(&str, &str)]) -> Values {
    let value = |text: &str| Value { text: ValueText::new(text), revision: 0 };
    Values {
        id: values_id(of, kind, text),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        updated: Timestamp(0),
        updated_by: "ann".into(),
        description: String::new(),
        data: data.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect(),
    }
}

pub(crate) fn secret(data: &[(&str, &str)]) -> Event {
    Event::ApplyValues(Box::new(values("red", ValuesKind::Secret, "s3", data)), false)
}

pub(crate) fn s3() -> ValuesId {
    values_id("red", ValuesKind::Secret, "s3")
}

fn source(variable: &str, kind: ValuesKind, object: &str, key: &str) -> EnvSource {
    let object = ValuesName::new(object).unwrap();
    EnvSource { variable: variable.into(), kind, object, key: key.into() }
}

fn with(sources: &[EnvSource]) -> JobSpec {
    let mut spec = spec(1, 1);
    if let Work::Command(command) = &mut spec.work {
        command.env_from = sources.to_vec();
    }
    spec
}

/// It needs one key of the secret `s3`.
pub(crate) fn refer(spec: &mut JobSpec) {
    if let Work::Command(command) = &mut spec.work {
        command.env_from = vec![source("", ValuesKind::Secret, "s3", "TOKEN")];
    }
}

fn of_s3() -> JobSpec {
    with(&[source("", ValuesKind::Secret, "s3", "")])
}

/// What the agents of a job that is being prepared were told of its environment.
fn reported(w: &World, job: &str) -> BTreeMap<String, String> {
    let uid = w.job(job).uid;
    let env = w.desired.iter().find_map(|((_, of), (_, desired))| match desired {
        DesiredState::Prepared { env, .. } if *of == uid => Some(env),
        _ => None,
    });
    env.unwrap().iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

fn flaw(w: &mut World, sources: &[EnvSource]) -> String {
    match w.refused(submit("wrong", with(sources))) {
        CoreError::Values(ValuesError::EnvSource { field, flaw }) => format!("{field}: {flaw}"),
        other => panic!("{other:?}"),
    }
}

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn ranks_get_what_the_job_refers_to_and_the_job_has_none_of_it() {
    use ValuesKind::{Config, Secret};
    let mut w = World::new();
    w.ok(secret(&[("TOKEN", "hunter2"), ("tls.crt", "cert")]));
    w.ok(Event::ApplyValues(Box::new(values("red", Config, "s3", &[("TOKEN", "c"), ("MODE", "x")])), false));
    let sources = [
        source("", Config, "s3", ""),
        source("", Secret, "s3", "TOKEN"),
        source("CERT", Secret, "s3", "tls.crt"),
    ];
    w.submit("a", with(&sources));
    assert_eq!(reported(&w, "a"), text(&[("TOKEN", "hunter2"), ("MODE", "x"), ("CERT", "cert")]));
    for written in w.stored.values().filter(|write| !matches!(write, Write::PutValues(_))) {
        assert!(!format!("{written:?}").contains("hunter2"));
    }
    assert!(!format!("{:?}", w.desired).contains("hunter2"));
    w.run("a");
    let fresh = w.reload(8);
    assert_eq!(fresh.base.values, w.state.base.values);
}

#[test]
fn what_is_not_there_is_refused_with_its_field_and_the_nearest_name() {
    use ValuesKind::{Config, Secret};
    let mut w = World::new();
    w.ok(secret(&[("token", "x"), ("tls.crt", "cert")]));
    for (sources, expected) in [
        (
            vec![source("A", Secret, "s3", "token"), source("B", Secret, "s4", "token")],
            "spec.command.envFrom[1].secretRef.name: there is no secret 's4' in tenant 'red'; did you mean 's3'?",
        ),
        (
            vec![source("A", Secret, "s3", "tokn")],
            "spec.command.envFrom[0].secretRef.key: secret 's3' has no key 'tokn'; did you mean 'token'?",
        ),
        (
            vec![source("A", Config, "s3", "token")],
            "spec.command.envFrom[0].configRef.name: there is no config 's3' in tenant 'red'",
        ),
        (
            vec![source("", Secret, "s3", "")],
            "spec.command.envFrom[0].secretRef.name: key 'tls.crt' of secret 's3' cannot be the name of a variable; \
             refer to the keys one by one, with `name` for this one",
        ),
    ] {
        assert_eq!(flaw(&mut w, &sources), expected);
    }
    // Another tenant's is none.
    let refused = w.refused(submit_as("blue", "b", of_s3(), None));
    assert!(refused.to_string().contains("no secret 's3' in tenant 'blue'"), "{refused}");
    let by = Authority { role: Role::User, user: "ann".into() };
    let planned = w.state.decide_new(&tenant("blue"), &by, &of_s3(), w.now);
    assert!(matches!(planned, Err(CoreError::Values(_))));
    // Viewers, who may ask what would become of a job, learn no key.
    let viewer = Authority { role: Role::Viewer, user: "vera".into() };
    for (sources, fine) in [
        (vec![source("A", Secret, "s3", "tokn")], true),
        (vec![source("", Secret, "s3", "")], true),
        (vec![source("", Secret, "s4", "")], false),
    ] {
        let spec = with(&sources);
        assert!(w.state.decide_new(&tenant("red"), &by, &spec, w.now).is_err());
        assert_eq!(w.state.decide_new(&tenant("red"), &viewer, &spec, w.now).is_ok(), fine);
    }
    let big = "x".repeat(Values::MAX_BYTES - 10);
    w.ok(Event::ApplyValues(Box::new(values("red", Config, "big", &[("A", &big)])), false));
    let twice = [source("A", Config, "big", "A"), source("B", Config, "big", "A")];
    assert!(flaw(&mut w, &twice).starts_with("spec.command.envFrom[1].configRef.name: the variables have "));
}

#[test]
fn a_change_is_for_the_next_try_and_the_ranks_of_one_try_see_the_same() {
    let mut w = World::new();
    w.ok(secret(&[("TOKEN", "one")]));
    w.submit("runs", of_s3());
    w.run("runs");
    w.submit("starts", JobSpec { gang: Gang::new(2, 1, 1), ..of_s3() });
    assert_eq!((reported(&w, "starts"), w.job("starts").status.attempt), (text(&[("TOKEN", "one")]), 1));
    w.ok(secret(&[("TOKEN", "two")]));
    // What runs goes on; what was being prepared begins anew, and that is nobody's failure.
    assert_eq!(w.job("runs").status.phase, Phase::Running);
    let uid = w.job("starts").uid;
    let stopped = w
        .desired
        .iter()
        .filter(|((_, of), (_, desired))| *of == uid && matches!(desired, DesiredState::Stopped { .. }));
    assert_eq!(stopped.count(), 2);
    w.all("starts", Observed::Ended);
    assert_eq!((reported(&w, "starts"), w.job("starts").status.attempt), (text(&[("TOKEN", "two")]), 2));
    let status = &w.job("starts").status;
    assert_eq!((status.restarts, status.preempted, status.phase), (0, 0, Phase::Reserved));
    // The same again is no change.
    w.ok(secret(&[("TOKEN", "two")]));
    assert_eq!(w.job("starts").status.attempt, 2);
}

#[test]
fn a_job_whose_secret_is_gone_waits_for_it_in_nobodys_way() {
    let mut w = World::new();
    w.ok(secret(&[("TOKEN", "one")]));
    w.submit("full", spec(4, 4));
    w.run("full");
    w.submit("a", of_s3());
    w.ok(Event::DeleteValues(s3()));
    assert!(w.job("a").status.holds.is_empty(), "its turn has not come");
    w.step(Event::Cancel { by: None, id: id("full"), indices: Vec::new(), grace: None });
    w.all("full", Observed::Ended);
    let job = w.job("a");
    assert_eq!((job.status.phase, job.status.holds.len()), (Phase::Pending, 1));
    let reason = &job.status.reasons[0];
    assert_eq!(reason.code, ReasonCode::HeldForEnvironment);
    assert!(reason.message.starts_with("spec.command.envFrom[0].secretRef.name: there is no secret 's3'"));
    w.submit("b", spec(4, 4));
    assert_eq!(w.job("b").status.phase, Phase::Reserved);
    w.ok(secret(&[("token-2", "x")]));
    assert_eq!(w.job("a").status.holds.len(), 1, "it is still not what the job needs");
    // Whoever reads jobs may not read keys.
    w.ok(Event::ReleaseJob(Box::new(super::holds::order("a", Role::User))));
    w.step(Event::Cancel { by: None, id: id("b"), indices: Vec::new(), grace: None });
    w.all("b", Observed::Ended);
    let reason = w.job("a").status.reasons[0].message.clone();
    assert!(reason.contains("a key of secret 's3' cannot be") && !reason.contains("token-2"), "{reason}");
    w.ok(secret(&[("TOKEN", "three")]));
    assert!(w.job("a").status.holds.is_empty(), "{:?}", w.job("a").status.reasons);
    assert_eq!(reported(&w, "a"), text(&[("TOKEN", "three")]));
}

#[test]
fn a_secret_that_goes_while_its_job_is_prepared_ends_that_try() {
    let mut w = World::new();
    w.ok(secret(&[("TOKEN", "one")]));
    w.submit("a", of_s3());
    w.ok(Event::DeleteValues(s3()));
    w.all("a", Observed::Ended);
    let job = w.job("a");
    let codes: Vec<&str> = job.status.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert!(job.status.phase == Phase::Pending && codes.contains(&"HeldForEnvironment"), "{codes:?}");
    w.ok(secret(&[("TOKEN", "two")]));
    assert_eq!(reported(&w, "a"), text(&[("TOKEN", "two")]));
}

#[test]
fn values_have_bounds_names_and_revisions() {
    use ValuesKind::{Config, Secret};
    let mut w = World::new();
    assert!(w.refused(secret(&[])).to_string().starts_with("data: is required"));
    w.ok(secret(&[("a", "1"), ("b", "1")]));
    w.now = w.now.plus(std::time::Duration::from_secs(5));
    w.ok(secret(&[("a", "2"), ("b", "1")]));
    let now = w.state.values(&s3()).unwrap();
    let revisions: Vec<u64> = now.data.values().map(|value| value.revision).collect();
    assert_eq!((now.generation, revisions, now.updated), (2, vec![2, 1], w.now));
    // A document without values changes none.
    let mut words = values("red", Secret, "s3", &[]);
    words.description = "bucket".into();
    w.ok(Event::ApplyValues(Box::new(words), false));
    let now = w.state.values(&s3()).unwrap();
    assert_eq!((now.generation, now.data.len(), now.description.as_str()), (3, 2, "bucket"));
    w.ok(Event::ApplyValues(Box::new(values("red", Secret, "dry", &[("a", "1")])), true));
    assert!(w.state.values(&values_id("red", Secret, "dry")).is_none());
    let unknown = w.refused(Event::DeleteValues(values_id("red", Secret, "s33")));
    assert!(unknown.to_string().contains("did you mean 's3'"), "{unknown}");
    let big = "x".repeat(Values::MAX_BYTES - 1);
    let config = |at: usize| {
        Event::ApplyValues(Box::new(values("red", Config, &format!("c{at}"), &[("a", &big)])), false)
    };
    for at in 0..15 {
        w.ok(config(at));
    }
    let full = w.refused(config(15));
    assert!(matches!(full, CoreError::Values(ValuesError::TooMuch { .. })), "{full}");
    w.ok(Event::ApplyValues(Box::new(values("blue", Config, "c0", &[("a", &big)])), false));
    w.ok(Event::DeleteTenant { name: tenant("red"), uid: None, dry_run: false });
    assert_eq!(w.state.base.values.len(), 1, "they end with their tenant");
}
