//! Every world that can be reached: the program killed before, in the middle of and after every action and every write, the switch
//! started anew at any time, time that passes, actions that fail, and a controller that says anything in any order. Once on a switch whose
//! configurations the updater changes into each other, and once on one where a reload of all is needed between some of them.

use std::collections::BTreeSet;

use proto_model::sonic::LEAST_OF_RELOAD;

use super::{
    Action, Desired, Event, Method, Outcome, Phase, Saved, Stage, at, files, hold, sonic, step, trial_of,
};
use crate::files::Files;

/// Times: a trial of the first may be confirmed in the second, and is over in the third.
const TIMES: u64 = 3;
const STEP_MS: u64 = 200_000;
const BOOTS: u8 = 1;

/// What runs on the switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    /// None: half of a configuration.
    files: Option<Files>,
    /// The services are up: an interrupted reload leaves them stopped, and nothing but another one brings them up.
    up: bool,
}

impl Running {
    fn all_of(files: &Files) -> Self {
        Self { files: Some(files.clone()), up: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    disk: Saved,
    /// What the program knows, while it runs.
    memory: Option<Saved>,
    running: Running,
    /// What no updater changes: it is as in these files; none: nobody knows.
    fixed: Option<String>,
    /// What the switch starts with.
    startup: Files,
    boot: u8,
    time: u64,
    /// What the controller has confirmed in time.
    confirmed: BTreeSet<Files>,
}

/// What no updater changes of a configuration.
fn fixed(files: &Files) -> String {
    files.get("config_db.json").unwrap_or_default().to_owned()
}

impl World {
    fn begin(old: &Files) -> Self {
        Self {
            disk: Saved::default(),
            memory: Some(Saved::default()),
            running: Running::all_of(old),
            fixed: Some(fixed(old)),
            startup: old.clone(),
            boot: 0,
            time: 0,
            confirmed: BTreeSet::from([old.clone()]),
        }
    }

    fn now(&self) -> super::Moment {
        at(self.boot, self.time * STEP_MS)
    }

    fn killed(&self) -> Self {
        Self { memory: None, ..self.clone() }
    }

    /// The state is on disk, and nobody knows more.
    fn saved(&self, state: &Saved) -> Self {
        let mut world = Self { disk: state.clone(), memory: Some(state.clone()), ..self.clone() };
        if let Some(trial) = state.trial.as_ref().filter(|trial| trial.stage == Stage::Keeping) {
            world.confirmed.insert(trial.wanted.clone());
        }
        world
    }

    /// Every way in which files are put in place: done, failed half-way, failed before it began.
    fn put(&self, files: &Files, method: Method) -> Vec<(Self, bool)> {
        let failed = (self.clone(), false);
        let half = Running { files: None, ..self.running.clone() };
        match method {
            Method::Change if !self.running.up || self.fixed != Some(fixed(files)) => vec![failed],
            Method::Change => {
                let done = Self { running: Running::all_of(files), ..self.clone() };
                vec![(done, true), (Self { running: half, ..self.clone() }, false), failed]
            }
            Method::Reload => {
                let done =
                    Self { running: Running::all_of(files), fixed: Some(fixed(files)), ..self.clone() };
                let half = Running { up: false, ..half };
                vec![(done, true), (Self { running: half, fixed: None, ..self.clone() }, false), failed]
            }
        }
    }

    /// Every way in which the action can go.
    fn acted(&self, action: Action) -> Vec<(Self, bool)> {
        let Some(trial) = &self.disk.trial else { return Vec::new() };
        match action {
            Action::Nothing => Vec::new(),
            Action::Try => self.put(&trial.wanted, trial.method),
            Action::TakeBack(method) => self.put(&trial.before, method),
            Action::Keep { again } => {
                let put =
                    if again { self.put(&trial.wanted, trial.method) } else { vec![(self.clone(), true)] };
                let mut all = vec![(self.clone(), false)];
                for (mut world, well) in put {
                    if let Some(files) = world.running.files.clone().filter(|_| well) {
                        world.startup = files;
                    }
                    all.push((world, well));
                }
                all
            }
        }
    }

    /// All that can come of one event, with the program killed wherever it can be.
    fn after(&self, event: &Event<'_>, into: &mut BTreeSet<World>) {
        let Some(memory) = &self.memory else { return };
        into.insert(self.killed());
        let Ok((state, action)) = step(memory, event, &self.now()) else { return };
        let world = self.saved(&state);
        into.insert(world.killed());
        if action == Action::Nothing {
            into.insert(world);
            return;
        }
        for (acted, well) in world.acted(action) {
            into.insert(acted.killed());
            acted.after(&Event::Finished(if well { Ok(()) } else { Err("it failed") }), into);
        }
    }

    fn next(&self, said: &[Desired]) -> BTreeSet<World> {
        let mut into = BTreeSet::new();
        if self.time + 1 < TIMES {
            into.insert(Self { time: self.time + 1, ..self.clone() });
        }
        if self.boot < BOOTS {
            let (running, fixed) = (Running::all_of(&self.startup), Some(fixed(&self.startup)));
            into.insert(Self { running, fixed, boot: self.boot + 1, memory: None, time: 0, ..self.clone() });
        }
        if self.memory.is_none() {
            let started = Self { memory: Some(self.disk.clone()), ..self.clone() };
            started.after(&Event::Started, &mut into);
            return into;
        }
        self.after(&Event::Tick, &mut into);
        let mut ended = BTreeSet::new();
        self.after(&Event::Ending, &mut ended);
        into.extend(ended.iter().map(World::killed));
        for desired in said {
            let found = self.running.files.as_ref();
            self.after(
                &Event::Heard { epoch: 1, desired: Some(desired), found, established: &[] },
                &mut into,
            );
        }
        into
    }

    fn check(&self) {
        let good = |files: &Files| self.confirmed.contains(files);
        assert!(good(&self.startup), "the switch would start with what nobody confirmed: {self:#?}");
        let running = self.running.files.as_ref();
        if !self.running.up || !running.is_some_and(good) {
            let trial = self.disk.trial.as_ref();
            let trial = trial.unwrap_or_else(|| panic!("nobody would take it back: {self:#?}"));
            let whole = self.running.up && running.is_some();
            assert!(whole || trial.stage != Stage::InPlace, "half of it is taken for all: {self:#?}");
        }
    }

    /// Nobody says anything more, and nothing fails: where it ends.
    fn settle(&self) -> World {
        let mut world = self.clone();
        world.time = 2 * TIMES;
        let mut event = Event::Tick;
        if world.memory.is_none() {
            world.memory = Some(world.disk.clone());
            event = Event::Started;
        }
        for _ in 0..8 {
            let memory = world.memory.clone().unwrap();
            let (state, action) = step(&memory, &event, &world.now()).unwrap();
            world = world.saved(&state);
            if action == Action::Nothing {
                return world;
            }
            world = world.acted(action).into_iter().find(|(_, well)| *well).unwrap().0;
            event = Event::Finished(Ok(()));
        }
        panic!("it never ends: {self:#?}")
    }
}

/// Goes through all worlds on a switch with `old`, where the controller says any of these.
fn explore(old: &Files, said: &[Desired]) -> BTreeSet<World> {
    let (mut met, mut new) = (BTreeSet::from([World::begin(old)]), vec![World::begin(old)]);
    while let Some(world) = new.pop() {
        world.check();
        let end = world.settle();
        assert!(end.disk.trial.is_none(), "{world:#?}\n{end:#?}");
        assert!(end.running == Running::all_of(&end.startup), "{world:#?}\n{end:#?}");
        assert!(end.confirmed.contains(&end.startup), "{world:#?}\n{end:#?}");
        if let Some(kept) = world.disk.trial.as_ref().filter(|trial| trial.stage == Stage::Keeping) {
            assert_eq!(end.startup, kept.wanted, "what was confirmed is lost: {world:#?}");
        }
        if end.disk.done.outcome == Outcome::Kept {
            assert_eq!(end.startup.digest(), end.disk.done.digest, "{world:#?}\n{end:#?}");
        }
        for desired in said {
            // The same again does nothing, once it is done with.
            let done = &end.disk.done;
            if (done.number, done.generation) == (desired.number, desired.generation) {
                let heard = Event::Heard {
                    epoch: 1,
                    desired: Some(desired),
                    found: Some(&end.startup),
                    established: &[],
                };
                let (state, action) = step(&end.disk, &heard, &end.now()).unwrap();
                assert_eq!((state.done, state.trial, action), (done.clone(), None, Action::Nothing));
            }
        }
        for next in world.next(said) {
            if met.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    println!("{} worlds", met.len());
    assert!(met.len() > 1_000, "{} worlds", met.len());
    met
}

/// A trial of each, the first of which may be kept, and a word that ends it.
fn said(new: &Files, other: &Files) -> [Desired; 4] {
    let keep = Desired { generation: 1, number: 2, phase: Phase::Keep { files: new.clone() } };
    let trial = |generation, number, files| trial_of(generation, number, files, LEAST_OF_RELOAD);
    [trial(1, 1, new), keep, hold(1, 3), trial(2, 4, other)]
}

fn is_kept(world: &World, files: &Files) -> bool {
    world.running == Running::all_of(files) && world.disk.trial.is_none()
}

#[test]
fn killed_at_every_step_nothing_half_applied_is_left_alone() {
    let new = files("new");
    let met = explore(&files("old"), &said(&new, &files("other")));
    assert!(met.iter().any(|world| is_kept(world, &new)), "nothing was ever kept");
}

#[test]
fn killed_at_every_step_of_a_reload_nothing_half_loaded_is_left_alone() {
    let (old, new, other) = (sonic(1, "old"), sonic(2, "new"), sonic(1, "other"));
    let met = explore(&old, &said(&new, &other));
    assert!(met.iter().any(|world| is_kept(world, &new)), "nothing was ever kept");
    let methods: BTreeSet<(Method, bool)> = met
        .iter()
        .filter_map(|world| Some((world.disk.trial.as_ref()?, world.startup == new)))
        .map(|(trial, from_new)| (trial.method, from_new))
        .collect();
    // From the old one to the other the updater does it, to the new one and back nothing but a reload.
    let expected = [(Method::Change, false), (Method::Reload, false), (Method::Reload, true)];
    assert!(expected.iter().all(|one| methods.contains(one)), "{methods:?}");
    assert!(met.iter().any(|world| !world.running.up), "no reload was ever interrupted");
}
