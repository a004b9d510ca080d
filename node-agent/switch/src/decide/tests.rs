//! Single decisions, and every way in which a program, a switch and a controller can come and go.

mod explore;

use std::time::Duration;

use proto_model::sonic::LEAST_OF_RELOAD;
use proto_wire::v1::switch_progress::State;

use super::{Action, Desired, Event, Method, Moment, Outcome, Phase, Refusal, Saved, Stage, step};
use crate::files::Files;

/// How long a trial goes on here.
const WITHIN: Duration = Duration::from_secs(60);

fn files(content: &str) -> Files {
    Files::new([("frr.conf".to_owned(), content.to_owned())]).unwrap()
}

fn at(boot: u8, ms: u64) -> Moment {
    Moment { boot: boot.to_string(), ms }
}

fn trial(generation: u64, number: u64, content: &str) -> Desired {
    let phase = Phase::Trial { files: files(content), owned: Vec::new(), within: WITHIN };
    Desired { generation, number, phase }
}

fn keep(generation: u64, number: u64, content: &str) -> Desired {
    Desired { generation, number, phase: Phase::Keep { files: files(content) } }
}

fn hold(generation: u64, number: u64) -> Desired {
    Desired { generation, number, phase: Phase::Hold }
}

fn hear(saved: &Saved, desired: &Desired, found: Option<&Files>, now: &Moment) -> (Saved, Action) {
    step(saved, &Event::Heard { epoch: 7, desired: Some(desired), found, established: &[] }, now).unwrap()
}

fn after(saved: &Saved, event: &Event<'_>, now: &Moment) -> (Saved, Action) {
    step(saved, event, now).unwrap()
}

/// A trial that is in place since the start of the first boot.
fn in_place() -> Saved {
    let (begun, action) = hear(&Saved::default(), &trial(1, 1, "new"), Some(&files("old")), &at(0, 0));
    assert_eq!(action, Action::Try);
    let (placed, action) = after(&begun, &Event::Finished(Ok(())), &at(0, 500));
    assert_eq!(action, Action::Nothing);
    placed
}

fn taken_back(saved: &Saved) -> Saved {
    after(saved, &Event::Finished(Ok(())), &at(0, 0)).0
}

#[test]
fn a_trial_that_nobody_confirms_is_taken_back_once_its_time_is_over() {
    let placed = in_place();
    assert_eq!(placed.progress().state(), State::Trial);
    assert_eq!(placed.progress().observed_number, 0);
    assert_eq!(after(&placed, &Event::Tick, &at(0, 59_999)), (placed.clone(), Action::Nothing));
    let (late, action) = after(&placed, &Event::Tick, &at(0, 60_000));
    assert_eq!(action, Action::TakeBack(Method::Change));
    // What comes now comes too late.
    let (still, action) = hear(&late, &keep(1, 2, "new"), Some(&files("new")), &at(0, 60_001));
    assert_eq!((still.trial.as_ref().unwrap().stage.clone(), action), {
        (late.trial.as_ref().unwrap().stage.clone(), Action::TakeBack(Method::Change))
    });
    let back = taken_back(&still);
    let progress = back.progress();
    assert_eq!((progress.state(), progress.observed_number, progress.generation), (State::Failed, 1, 1));
    assert!(progress.message.contains("not confirmed within 60 s"), "{}", progress.message);
    // And what was taken back is not kept, nor tried again by the same word.
    let (refused, action) = hear(&back, &keep(1, 2, "new"), Some(&files("old")), &at(0, 60_002));
    assert_eq!((refused.done.outcome, refused.done.number, action), (Outcome::Failed, 2, Action::Nothing));
    assert!(refused.done.message.contains("not confirmed"), "{}", refused.done.message);
    let again = hear(&back, &trial(1, 1, "new"), Some(&files("old")), &at(0, 60_003));
    assert_eq!((again.0.done, again.1), (back.done.clone(), Action::Nothing));
    // By a later one it is.
    assert_eq!(hear(&back, &trial(1, 3, "new"), Some(&files("old")), &at(0, 60_004)).1, Action::Try);
}

#[test]
fn a_trial_that_is_confirmed_in_time_is_kept_for_good() {
    let (keeping, action) = hear(&in_place(), &keep(1, 2, "new"), Some(&files("new")), &at(0, 59_999));
    assert_eq!(action, Action::Keep { again: false });
    // It is kept whatever happens from here on, also after its time and a start of the switch.
    assert_eq!(after(&keeping, &Event::Started, &at(0, 90_000)).1, Action::Keep { again: false });
    assert_eq!(after(&keeping, &Event::Started, &at(1, 0)).1, Action::Keep { again: true });
    let (trouble, action) = after(&keeping, &Event::Finished(Err("no room")), &at(0, 60_000));
    assert_eq!(action, Action::Nothing);
    assert!(trouble.progress().message.contains("no room") && trouble.progress().observed_number == 0);
    let kept = after(&trouble, &Event::Finished(Ok(())), &at(0, 61_000)).0;
    assert_eq!((kept.progress().state(), kept.progress().observed_number), (State::Kept, 2));
    assert_eq!(after(&kept, &Event::Tick, &at(0, 999_000)), (kept.clone(), Action::Nothing));
    let same = hear(&kept, &keep(1, 2, "new"), Some(&files("new")), &at(0, 62_000));
    assert_eq!(same, (kept.clone(), Action::Nothing));
    let later = hear(&kept, &keep(1, 9, "new"), Some(&files("new")), &at(0, 62_000)).0;
    assert_eq!((later.done.outcome, later.done.number), (Outcome::Kept, 9));
    let other = hear(&kept, &keep(1, 9, "other"), Some(&files("new")), &at(0, 62_000)).0;
    assert_eq!(other.done.outcome, Outcome::Failed);
}

#[test]
fn whatever_is_not_that_trial_takes_it_back() {
    let placed = in_place();
    for desired in
        [hold(1, 2), trial(2, 2, "new"), trial(1, 2, "other"), keep(2, 2, "new"), keep(1, 2, "other")]
    {
        let (back, action) = hear(&placed, &desired, Some(&files("new")), &at(0, 1_000));
        assert_eq!(action, Action::TakeBack(Method::Change), "{desired:?}");
        let done = taken_back(&back).done;
        let expected = if desired.phase == Phase::Hold { (Outcome::Held, 2) } else { (Outcome::Failed, 1) };
        assert_eq!((done.outcome, done.number), expected, "{desired:?}");
    }
    let nothing = step(
        &placed,
        &Event::Heard { epoch: 7, desired: None, found: None, established: &[] },
        &at(0, 1_000),
    )
    .unwrap();
    assert_eq!(nothing, (placed.clone(), Action::Nothing));
    let same = hear(&placed, &trial(1, 1, "new"), Some(&files("new")), &at(0, 1_000));
    assert_eq!(same, (placed.clone(), Action::Nothing));
    assert_eq!(after(&placed, &Event::Ending, &at(0, 1_000)).1, Action::TakeBack(Method::Change));
    assert_eq!(after(&placed, &Event::Started, &at(1, 0)).1, Action::TakeBack(Method::Change));
}

#[test]
fn what_cannot_be_taken_back_is_not_tried() {
    let begin = |desired: &Desired, found: Option<&Files>| {
        let (state, action) = hear(&Saved::default(), desired, found, &at(0, 0));
        assert_eq!(
            (action, state.done.outcome, state.trial.is_none()),
            (Action::Nothing, Outcome::Failed, true)
        );
        assert_eq!(state.progress().observed_number, 1);
        state.done.message
    };
    assert!(begin(&trial(1, 1, "new"), None).contains("could be read"));
    assert!(begin(&trial(1, 1, "new"), Some(&Files::default())).contains("no frr.conf"));
    let empty = Phase::Trial { files: Files::default(), owned: Vec::new(), within: WITHIN };
    let empty = Desired { generation: 1, number: 1, phase: empty };
    assert!(begin(&empty, Some(&files("old"))).contains("no file is given"));
    let hurried = Phase::Trial { files: files("new"), owned: Vec::new(), within: Duration::ZERO };
    let hurried = Desired { generation: 1, number: 1, phase: hurried };
    assert!(begin(&hurried, Some(&files("old"))).contains("no time"));
}

#[test]
fn a_try_that_fails_is_taken_back_until_that_succeeds() {
    let (begun, _) = hear(&Saved::default(), &trial(1, 1, "new"), Some(&files("old")), &at(0, 0));
    let (back, action) = after(&begun, &Event::Finished(Err("line 3\nis\u{1b} wrong")), &at(0, 1));
    assert_eq!(action, Action::TakeBack(Method::Change));
    let (trouble, action) = after(&back, &Event::Finished(Err("no vtysh")), &at(0, 2));
    assert_eq!(action, Action::Nothing);
    let message = trouble.progress().message;
    assert!(message.contains("no vtysh") && message.contains("line 3 is"), "{message}");
    let (again, action) = after(&trouble, &Event::Tick, &at(0, 3));
    assert_eq!((again.clone(), action), (trouble, Action::TakeBack(Method::Change)));
    assert_eq!(taken_back(&again).progress().state(), State::Failed);
    // One that takes longer than its time is taken back at once.
    assert_eq!(after(&begun, &Event::Finished(Ok(())), &at(0, 60_000)).1, Action::TakeBack(Method::Change));
}

#[test]
fn a_controller_whose_lead_is_over_changes_nothing() {
    let placed = in_place();
    let old = Event::Heard { epoch: 6, desired: Some(&hold(1, 2)), found: None, established: &[] };
    assert_eq!(step(&placed, &old, &at(0, 1)), Err(Refusal { said: 6, seen: 7 }));
    let new = Event::Heard { epoch: 8, desired: None, found: None, established: &[] };
    assert_eq!(step(&placed, &new, &at(0, 1)).unwrap().0.epoch, 8);
}

#[test]
fn a_trial_that_is_being_put_in_place_is_not_reported_as_one() {
    let (begun, _) = hear(&Saved::default(), &trial(1, 1, "new"), Some(&files("old")), &at(0, 0));
    assert_eq!(begun.progress().state(), State::Unspecified);
    assert_eq!(begun.trial.unwrap().stage, Stage::Begun);
}

/// SONiC's two files; its pool of buffer cannot be changed by its updater.
fn sonic(pool: u8, routing: &str) -> Files {
    let database = format!(r#"{{"BUFFER_POOL": {{"in": {{"size": "{pool}"}}}}}}"#);
    Files::new([("config_db.json".to_owned(), database), ("frr.conf".to_owned(), routing.to_owned())])
        .unwrap()
}

fn trial_of(generation: u64, number: u64, files: &Files, within: Duration) -> Desired {
    Desired { generation, number, phase: Phase::Trial { files: files.clone(), owned: Vec::new(), within } }
}

#[test]
fn what_the_updater_refuses_is_reloaded_there_and_back_and_has_the_time_for_it() {
    let (old, new) = (sonic(1, "old"), sonic(2, "new"));
    let hurried = trial_of(1, 1, &new, Duration::from_secs(299));
    let (refused, action) = hear(&Saved::default(), &hurried, Some(&old), &at(0, 0));
    assert_eq!((action, refused.done.outcome, refused.trial), (Action::Nothing, Outcome::Failed, None));
    let message = refused.done.message;
    assert!(message.contains("--confirm-within 300s") && message.contains("pool"), "{message}");
    // The same time is enough for what the updater makes.
    let small = trial_of(1, 1, &sonic(1, "new"), Duration::from_secs(299));
    let (begun, action) = hear(&Saved::default(), &small, Some(&old), &at(0, 0));
    assert_eq!((action, begun.trial.unwrap().method), (Action::Try, Method::Change));

    let (begun, action) =
        hear(&Saved::default(), &trial_of(1, 1, &new, LEAST_OF_RELOAD), Some(&old), &at(0, 0));
    assert_eq!((action, begun.trial.as_ref().unwrap().method), (Action::Try, Method::Reload));
    assert_eq!(after(&begun, &Event::Started, &at(0, 9)).1, Action::TakeBack(Method::Reload));
    let placed = after(&begun, &Event::Finished(Ok(())), &at(0, 200_000)).0;
    assert_eq!(after(&placed, &Event::Tick, &at(0, 299_999)).1, Action::Nothing);
    for (desired, now) in [(None, at(0, 300_000)), (Some(hold(1, 2)), at(0, 200_001))] {
        let action = match desired {
            Some(desired) => hear(&placed, &desired, Some(&new), &now).1,
            None => after(&placed, &Event::Tick, &now).1,
        };
        assert_eq!(action, Action::TakeBack(Method::Reload));
    }
    // A switch that has started anew has begun with what it had before.
    assert_eq!(after(&placed, &Event::Started, &at(1, 0)).1, Action::TakeBack(Method::Change));
    let broken = Files::new([("config_db.json".to_owned(), "[]".to_owned())]).unwrap();
    let (refused, action) = hear(&Saved::default(), &trial_of(1, 1, &broken, WITHIN), Some(&old), &at(0, 0));
    assert_eq!((action, refused.done.outcome), (Action::Nothing, Outcome::Failed));
}
