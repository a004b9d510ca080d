//! Objects in random worlds: what is written, how often, and that it comes to an end.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::kind::Kind;

fn object(kind: Kind, policy: Policy) -> Object {
    Object {
        kind,
        name: "a".to_owned(),
        namespace: String::new(),
        uid: "u1".to_owned(),
        generation: 1,
        made: "2026-01-01".to_owned(),
        is_deleted: false,
        has_finalizer: false,
        policy,
        spec: Json::Null,
        status_json: Json::Null,
        status: None,
    }
}

fn ready() -> Progress {
    Progress {
        health: Health::Ready,
        reason: "Applied".to_owned(),
        message: "Railyard has it".to_owned(),
        job: None,
    }
}

fn refusal(message: &str) -> Refusal {
    Refusal { reason: "Invalid".to_owned(), message: message.to_owned(), is_final: true }
}

/// What Railyard does with the calls of one object.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Fine,
    Silent,
    Away,
    Refused,
}

struct World {
    object: Object,
    has_it: bool,
    refuses: bool,
    refusals_are_final: bool,
    writes: u32,
    applies: u32,
    /// Answers so far: no two messages are the same.
    answers: u32,
    ends: bool,
}

impl World {
    fn new(object: Object) -> Self {
        Self {
            object,
            has_it: false,
            refuses: false,
            refusals_are_final: true,
            writes: 0,
            applies: 0,
            answers: 0,
            ends: false,
        }
    }

    fn answer(&mut self, answer: Answer, call: impl FnOnce(&mut Self) -> View) -> View {
        match answer {
            Answer::Fine => call(self),
            Answer::Silent => View::Silent,
            Answer::Away => View::Away(format!("no route for {} s", self.count())),
            Answer::Refused => View::Refused(self.refused(false)),
        }
    }

    fn count(&mut self) -> u32 {
        self.answers += 1;
        self.answers
    }

    /// What is final is said in the same words each time.
    fn refused(&mut self, is_final: bool) -> Refusal {
        let message =
            if is_final { "spec.a: is wrong".to_owned() } else { format!("{} jobs run", self.count()) };
        Refusal { is_final, ..refusal(&message) }
    }

    /// One pass as the shell makes it; it may be killed after so many steps.
    fn reconcile(&mut self, answers: &mut impl Iterator<Item = Answer>, mut steps_left: usize) {
        let mut view = View::Unknown;
        for _ in 0..10 {
            let mut again = false;
            for Step { action, .. } in decide(&self.object, &view, None) {
                if steps_left == 0 {
                    return;
                }
                steps_left -= 1;
                match action {
                    Action::AddFinalizer => {
                        (self.object.has_finalizer, self.writes, again) = (true, self.writes + 1, true)
                    }
                    Action::RemoveFinalizer => {
                        (self.object.has_finalizer, self.writes) = (false, self.writes + 1);
                        self.ends = self.object.is_deleted;
                        again = !self.ends;
                    }
                    Action::Write(status) => {
                        assert_ne!(Some(&*status), self.object.status.as_ref());
                        (self.object.status, self.writes) = (Some(*status), self.writes + 1);
                    }
                    Action::Ask => {
                        let answer = answers.next().unwrap_or(Answer::Fine);
                        let is_final = self.refusals_are_final;
                        view = self.answer(answer, |world| match (world.has_it, world.refuses) {
                            (_, true) => View::Refused(world.refused(is_final)),
                            (true, _) => View::Same(ready()),
                            (false, _) => View::Differs(String::new()),
                        });
                        again = true;
                    }
                    Action::Apply => {
                        self.applies += 1;
                        let handed = self.object.handed();
                        assert!(handed.is_some(), "it is handed over before that is written");
                        let answer = answers.next().unwrap_or(Answer::Fine);
                        view = self.answer(answer, |world| {
                            world.has_it = true;
                            View::Same(ready())
                        });
                        again = true;
                    }
                    Action::Delete => {
                        let answer = answers.next().unwrap_or(Answer::Fine);
                        view = self.answer(answer, |world| {
                            world.has_it = false;
                            View::Gone
                        });
                        again = true;
                    }
                    Action::Wait(_) => {}
                }
            }
            if !again {
                return;
            }
        }
        panic!("it does not come to an end: {:?}", self.object);
    }
}

fn away() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Fine), Just(Answer::Silent), Just(Answer::Away)]
}

fn silent() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Fine), Just(Answer::Silent)]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Delete), Just(Policy::Retain)]
}

proptest! {
    #[test]
    fn four_writes_suffice_whenever_either_side_is_away_or_the_operator_is_killed(
        policy in policy(),
        refuses in any::<bool>(),
        is_final in any::<bool>(),
        answers in proptest::collection::vec(away(), 0..40),
        kills in proptest::collection::vec(0..6_usize, 0..20),
    ) {
        let mut world = World::new(object(Kind::Tenant, policy));
        (world.refuses, world.refusals_are_final) = (refuses, is_final);
        let mut answers = answers.into_iter();
        for steps in kills {
            world.reconcile(&mut answers, steps);
        }
        let mut fine = std::iter::repeat(Answer::Fine);
        world.reconcile(&mut fine, usize::MAX);
        prop_assert!(world.writes <= 4, "{} writes", world.writes);
        let health = world.object.status.as_ref().map(|status| status.health);
        prop_assert_eq!(health, Some(if refuses { Health::Degraded } else { Health::Ready }));
        // Then nothing more is written, and nothing applied.
        let (writes, applies) = (world.writes, world.applies);
        for _ in 0..3 {
            world.reconcile(&mut fine, usize::MAX);
        }
        prop_assert_eq!((world.writes, world.applies), (writes, applies));
    }

    #[test]
    fn three_writes_suffice_where_nobody_is_away_for_long(
        policy in policy(),
        answers in proptest::collection::vec(silent(), 0..40),
        kills in proptest::collection::vec(0..6_usize, 0..20),
    ) {
        let mut world = World::new(object(Kind::Tenant, policy));
        let mut answers = answers.into_iter();
        for steps in kills {
            world.reconcile(&mut answers, steps);
        }
        world.reconcile(&mut std::iter::repeat(Answer::Fine), usize::MAX);
        prop_assert!(world.writes <= 3, "{} writes", world.writes);
        prop_assert_eq!(world.object.status.as_ref().map(|status| status.health), Some(Health::Ready));
    }

    #[test]
    fn a_deleted_object_goes_once_railyard_has_no_more_what_was_handed_to_it(
        policy in policy(),
        is_anothers in any::<bool>(),
        answers in proptest::collection::vec(prop_oneof![Just(Answer::Fine), Just(Answer::Away), Just(Answer::Refused)], 0..20),
    ) {
        let mut world = World::new(object(Kind::Tenant, policy));
        world.has_it = is_anothers;
        let mut fine = std::iter::repeat(Answer::Fine);
        world.reconcile(&mut fine, usize::MAX);
        world.object.is_deleted = true;
        let mut answers = answers.into_iter();
        while !world.ends && world.object.has_finalizer {
            world.reconcile(&mut answers, usize::MAX);
        }
        prop_assert_eq!(world.has_it, is_anothers || policy == Policy::Retain);
    }
}

fn job(phase: &str) -> JobView {
    JobView { uid: "j1".to_owned(), name: "a".to_owned(), phase: phase.to_owned(), ..JobView::default() }
}

fn with_job(phase: &str) -> Object {
    let status = Status {
        generation: 1,
        health: Health::Progressing,
        reason: "Running".to_owned(),
        message: String::new(),
        job: Some(job(phase)),
        handed: Some(Handed {
            generation: 1,
            tenant: "t".to_owned(),
            digest: object(Kind::Job, Policy::Delete).digest(),
            is_taken: true,
        }),
    };
    Object { has_finalizer: true, status: Some(status), ..object(Kind::Job, Policy::Delete) }
}

#[test]
fn a_job_is_submitted_once() {
    assert_eq!(decide(&with_job("COMPLETED"), &View::Unknown, None), []);
    let differs = View::Differs("t".to_owned());
    let gone = decide(&with_job("RUNNING"), &differs, None);
    assert!(gone.iter().all(|step| step.action != Action::Apply), "{gone:?}");
    let Action::Write(status) = &gone[0].action else { panic!("{gone:?}") };
    assert_eq!((status.reason.as_str(), status.job.as_ref()), ("JobGone", Some(&job("RUNNING"))));
    let fresh = Object { status: None, ..with_job("RUNNING") };
    let steps = decide(&fresh, &differs, None);
    let Action::Write(status) = &steps[0].action else { panic!("{steps:?}") };
    let handed = status.handed.clone().unwrap();
    assert_eq!((handed.tenant.as_str(), handed.is_taken), ("t", false));
    assert_eq!(steps[1].action, Action::Apply);
    // Whoever was killed between the two goes on with the second; for another tenant with both.
    let handed = Object { status: Some((**status).clone()), ..fresh };
    assert_eq!(decide(&handed, &differs, None), steps[1..]);
    assert_eq!(decide(&handed, &View::Differs("u".to_owned()), None).len(), 2);
    // What it has taken and does not show yet is not submitted again.
    assert_eq!(decide(&handed, &View::Taken, None)[0].action, Action::Wait(Pace::Soon));
}

fn running() -> View {
    View::Same(Progress {
        health: Health::Progressing,
        reason: "Running".to_owned(),
        message: "the job is running".to_owned(),
        job: Some(job("RUNNING")),
    })
}

fn reason_of(steps: &[Step]) -> Option<&str> {
    steps.iter().find_map(|step| match &step.action {
        Action::Write(status) => Some(status.reason.as_str()),
        _ => None,
    })
}

#[test]
fn a_job_has_changed_where_its_object_has_and_not_where_the_controller_filled_it() {
    let mut object = with_job("RUNNING");
    assert_eq!(reason_of(&decide(&object, &running(), None)), None);
    // Another policy is another generation of the same job.
    object.generation = 2;
    object.spec = serde_json::json!({"deletionPolicy": "Delete"});
    let empty = Object { spec: serde_json::json!({}), ..object.clone() };
    object.status.as_mut().unwrap().handed.as_mut().unwrap().digest = empty.digest();
    assert_eq!(reason_of(&decide(&object, &running(), None)), Some("Running"));
    object.spec = serde_json::json!({"priority": 1});
    assert_eq!(reason_of(&decide(&object, &running(), None)), Some("SpecChanged"));
}

#[test]
fn a_rollout_that_somebody_stopped_or_replaced_stays_so_until_the_object_changes() {
    let paused = Progress { health: Health::Degraded, reason: "QosUnsafe".to_owned(), ..ready() };
    let taken = Status {
        generation: 1,
        health: Health::Progressing,
        reason: "RollingOut".to_owned(),
        message: String::new(),
        job: None,
        handed: Some(Handed { generation: 1, is_taken: true, ..Handed::default() }),
    };
    let profile = Object { status: Some(taken.clone()), ..object(Kind::Profile, Policy::Retain) };
    let changed = Object { generation: 2, ..profile.clone() };
    let applies = |object: &Object, view: &View| {
        decide(object, view, None).iter().any(|step| step.action == Action::Apply)
    };
    for (view, reason) in [(View::Stopped(paused), "QosUnsafe"), (View::Differs(String::new()), "Replaced")] {
        assert_eq!(reason_of(&decide(&profile, &view, None)), Some(reason));
        assert!(!applies(&profile, &view) && applies(&changed, &view), "{view:?}");
    }
    // One that was handed over and perhaps never taken is handed over again.
    let handed = Handed { generation: 1, ..Handed::default() };
    let killed = Object { status: Some(Status { handed: Some(handed), ..taken }), ..profile };
    assert!(applies(&killed, &View::Differs(String::new())));
}

#[test]
fn what_differs_in_numbers_alone_is_written_once() {
    for is_deleted in [false, true] {
        for answer in [Answer::Away, Answer::Refused] {
            let mut world = World::new(with_job("RUNNING"));
            (world.object.is_deleted, world.object.generation) = (is_deleted, 2);
            let mut answers = std::iter::repeat(answer);
            for _ in 0..20 {
                world.reconcile(&mut answers, usize::MAX);
            }
            assert_eq!(world.writes, 1, "{answer:?}, deleted: {is_deleted}");
        }
    }
}

#[test]
fn what_is_known_stands_while_railyard_is_away() {
    let away = View::Away("no route".to_owned());
    let waits = [Step { action: Action::Wait(Pace::Backoff), why: "Railyard is away" }];
    assert_eq!(decide(&with_job("RUNNING"), &away, None), waits);
    let changed = Object { generation: 2, ..with_job("RUNNING") };
    assert!(
        matches!(&decide(&changed, &away, None)[0].action, Action::Write(status) if status.reason == "Unreachable")
    );
}

#[test]
fn a_wrong_object_never_loops_hot() {
    let finalized = Object { has_finalizer: true, ..object(Kind::Job, Policy::Delete) };
    let steps = decide(&finalized, &View::Refused(refusal("spec.gang.nodes: is 0")), None);
    assert!(matches!(&steps[0].action, Action::Write(status) if status.message.contains("spec.gang.nodes")));
    assert_eq!(steps[1].action, Action::Wait(Pace::Rarely));
}

#[test]
fn of_two_fabrics_the_oldest_counts_and_the_other_says_so() {
    let first = object(Kind::Fabric, Policy::Retain);
    let second = Object { name: "b".to_owned(), made: "2026-01-02".to_owned(), ..first.clone() };
    let all = [second.clone(), first];
    assert_eq!(Object::counting(all.iter()).unwrap().name, "a");
    let steps = decide(&second, &View::Unknown, Some("a"));
    assert!(
        matches!(&steps[0].action, Action::Write(status) if status.reason == "Superseded" && status.message.contains("RailFabric a"))
    );
    assert!(steps.iter().all(|step| !matches!(step.action, Action::Ask | Action::Apply)));
}
