//! The thread with a switch in memory: what it does, what it leaves behind when it ends, and what its successor makes of that.

use std::{
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use proto_wire::v1::{switch_progress::State, switch_session::State as Session};
use tempfile::TempDir;

use super::*;
use crate::{
    decide::{Method, Stage},
    files::Files,
};

/// What a switch in memory has.
#[derive(Debug, Default)]
struct World {
    running: String,
    startup: String,
    /// What the next changes answer, the first one first.
    answers: Vec<Result<(), String>>,
    log: Vec<String>,
    ms: u64,
    boot: u32,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<World>>);

fn files(content: &str) -> Files {
    Files::new([("frr.conf".to_owned(), content.to_owned())]).unwrap()
}

impl Switch for Fake {
    fn read(&mut self) -> Found {
        Found { files: files(&self.0.lock().unwrap().running), unreadable: String::new() }
    }

    fn put(&mut self, files: &Files, manner: Manner<'_>, method: Method) -> Result<(), String> {
        assert_eq!(method, Method::Change, "FRR alone is never reloaded");
        let mut world = self.0.lock().unwrap();
        let content = files.get("frr.conf").unwrap().to_owned();
        let manner = match manner {
            Manner::Exact => "Exact".to_owned(),
            Manner::Planned { owned } => format!("Planned {owned:?}"),
        };
        world.log.push(format!("{manner} {content}"));
        if !world.answers.is_empty()
            && let Err(error) = world.answers.remove(0)
        {
            world.running = "half".into();
            return Err(error);
        }
        world.running = content;
        Ok(())
    }

    fn persist(&mut self) -> Result<(), String> {
        let mut world = self.0.lock().unwrap();
        world.log.push("persist".into());
        world.startup = world.running.clone();
        Ok(())
    }

    fn ports(&mut self) -> Vec<SwitchPortStatus> {
        vec![SwitchPortStatus { name: "swp1".into(), ..SwitchPortStatus::default() }]
    }

    /// One, which only ever is with the first configuration.
    fn sessions(&mut self) -> Option<Vec<SwitchSession>> {
        let is_old = self.0.lock().unwrap().running == "old";
        let state = if is_old { Session::Established } else { Session::Active }.into();
        Some(vec![SwitchSession { neighbor: "swp1".into(), state, before_trial: false }])
    }

    fn version(&mut self) -> String {
        "Fake 1".into()
    }
}

const RHYTHM: Rhythm = Rhythm {
    read: Duration::from_millis(20),
    ports: Duration::from_millis(20),
    again: Duration::from_millis(30),
};

struct Bench {
    room: TempDir,
    fake: Fake,
}

impl Bench {
    fn new() -> Self {
        let world = World { running: "old".into(), startup: "old".into(), ..World::default() };
        Self { room: tempfile::tempdir().unwrap(), fake: Fake(Arc::new(Mutex::new(world))) }
    }

    fn state(&self) -> &Path {
        self.room.path()
    }

    fn start(&self) -> Keeper {
        let world = Arc::clone(&self.fake.0);
        let clock: Clock = Box::new(move || {
            let world = world.lock().unwrap();
            Moment { boot: world.boot.to_string(), ms: world.ms }
        });
        let store = Store::open(self.state()).unwrap();
        let saved = store.load().unwrap();
        Keeper::start(self.fake.clone(), store, saved, clock, RHYTHM).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.fake.0.lock().unwrap());
    }

    fn log(&self) -> Vec<String> {
        self.fake.0.lock().unwrap().log.clone()
    }

    fn running(&self) -> String {
        self.fake.0.lock().unwrap().running.clone()
    }
}

fn desired(number: u64, phase: Phase) -> Heard {
    Heard { epoch: 1, desired: Some(Desired { generation: 1, number, phase }) }
}

fn trial(number: u64) -> Heard {
    let (files, owned) = (files("new"), vec!["QUEUE".to_owned()]);
    desired(number, Phase::Trial { files, owned, within: Duration::from_secs(60) })
}

fn until(keeper: &Keeper, what: &str, fits: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = keeper.status.borrow().clone();
        if fits(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{what}: {status:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn is(state: State) -> impl Fn(&Status) -> bool {
    move |status| status.progress.state() == state
}

#[test]
fn a_trial_is_reported_read_back_and_kept() {
    let bench = Bench::new();
    let keeper = bench.start();
    let first = until(&keeper, "a look", |status| !status.ports.is_empty() && !status.version.is_empty());
    assert_eq!((first.digest.clone(), first.version.as_str()), (files("old").digest(), "Fake 1"));
    keeper.heard.put(trial(1));
    let session = |status: &Status| {
        let one = &status.sessions.as_ref().unwrap()[0];
        (one.state(), one.before_trial)
    };
    assert_eq!(session(&first), (Session::Established, false));
    let status = until(&keeper, "a trial", is(State::Trial));
    // What is said with the first word of a trial is of its configuration already.
    assert_eq!(session(&status), (Session::Active, true));
    assert_eq!((status.digest, status.epoch), (files("new").digest(), 1));
    keeper.heard.put(trial(1));
    keeper.heard.put(desired(2, Phase::Keep { files: files("new") }));
    let status = until(&keeper, "kept", is(State::Kept));
    assert_eq!((status.progress.observed_number, session(&status)), (2, (Session::Active, false)));
    keeper.end();
    assert_eq!(bench.log(), [r#"Planned ["QUEUE"] new"#, "persist"]);
    assert_eq!(bench.fake.0.lock().unwrap().startup, "new");
}

#[test]
fn an_unconfirmed_trial_is_taken_back_by_the_clock_or_the_end() {
    let bench = Bench::new();
    let keeper = bench.start();
    keeper.heard.put(trial(1));
    until(&keeper, "a trial", is(State::Trial));
    // The first attempt to take it back fails.
    bench.change(|world| (world.ms, world.answers) = (60_000, vec![Err("busy".into())]));
    until(&keeper, "taken back", is(State::Failed));
    assert_eq!(bench.log(), [r#"Planned ["QUEUE"] new"#, "Exact old", "Exact old"]);
    keeper.heard.put(trial(2));
    until(&keeper, "another trial", is(State::Trial));
    keeper.end();
    assert_eq!(bench.log()[3..], [r#"Planned ["QUEUE"] new"#, "Exact old"]);
    assert_eq!(bench.running(), "old");
    // Nothing is left to do.
    let keeper = bench.start();
    let status = until(&keeper, "a look", |status| !status.digest.is_empty());
    assert_eq!((status.progress.state(), status.progress.observed_number), (State::Failed, 2));
    keeper.end();
    assert_eq!(bench.log().len(), 5);
}

#[test]
fn what_a_killed_agent_left_is_taken_back_first() {
    for stage in [Stage::Begun, Stage::InPlace] {
        let bench = Bench::new();
        bench.change(|world| (world.running, world.ms) = ("half".into(), 70_000));
        let left = crate::decide::Trial {
            number: 3,
            generation: 1,
            before: files("old"),
            wanted: files("new"),
            owned: Vec::new(),
            method: Method::Change,
            established: Vec::new(),
            begun: Moment { boot: "0".into(), ms: 1 },
            within: Duration::from_secs(60),
            stage,
            trouble: String::new(),
        };
        let store = Store::open(bench.state()).unwrap();
        store.save(&Saved { trial: Some(left), ..Saved::default() }).unwrap();
        drop(store);
        let keeper = bench.start();
        let status = until(&keeper, "taken back", is(State::Failed));
        assert_eq!((bench.running(), status.progress.observed_number), ("old".to_owned(), 3));
        keeper.end();
        assert_eq!(bench.log(), ["Exact old"]);
    }
}

#[test]
fn a_switch_that_started_anew_is_as_before_the_trial_or_as_confirmed() {
    let bench = Bench::new();
    let keeper = bench.start();
    keeper.heard.put(trial(1));
    until(&keeper, "a trial", is(State::Trial));
    bench.change(|world| (world.boot, world.ms, world.running) = (1, 5, world.startup.clone()));
    until(&keeper, "taken back", is(State::Failed));
    keeper.end();
    assert_eq!(bench.running(), "old");
}

#[test]
fn nothing_is_tried_while_the_disk_is_full() {
    let bench = Bench::new();
    let keeper = bench.start();
    until(&keeper, "a look", |status| !status.digest.is_empty());
    // What a file is written to first is a folder now.
    let blocked = bench.state().join("trial.pb.new");
    std::fs::create_dir_all(blocked.join("x")).unwrap();
    keeper.heard.put(trial(1));
    let status = until(&keeper, "refused", is(State::Failed));
    assert!(status.unsaved.contains("cannot be saved") && bench.log().is_empty(), "{status:?}");
    std::fs::remove_dir_all(&blocked).unwrap();
    until(&keeper, "saved", |status| status.unsaved.is_empty());
    keeper.heard.put(trial(2));
    until(&keeper, "a trial", is(State::Trial));
    // One that cannot be saved as kept is not kept, but taken back in the end.
    std::fs::create_dir_all(blocked.join("x")).unwrap();
    keeper.heard.put(desired(3, Phase::Keep { files: files("new") }));
    until(&keeper, "not kept", |status| !status.unsaved.is_empty());
    bench.change(|world| world.ms = 60_000);
    until(&keeper, "taken back", is(State::Failed));
    keeper.end();
    assert_eq!(bench.log(), [r#"Planned ["QUEUE"] new"#, "Exact old"]);
}
