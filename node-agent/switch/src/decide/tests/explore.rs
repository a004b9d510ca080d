//! Every world that can be reached: the program killed before, in the middle of and after every action and every write, the switch
//! started anew at any time, time that passes, actions that fail, and a controller that says anything in any order.

use std::collections::BTreeSet;

use super::{Action, Desired, Event, Outcome, Saved, Stage, at, files, hold, keep, step, trial};
use crate::files::Files;

/// Times: a trial of the first may be confirmed in the second, and is over in the third.
const TIMES: u64 = 3;
const STEP_MS: u64 = 40_000;
const BOOTS: u8 = 1;

/// A configuration; none: half of one.
type Config = Option<Files>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    disk: Saved,
    /// What the program knows, while it runs.
    memory: Option<Saved>,
    running: Config,
    /// What the switch starts with.
    startup: Config,
    boot: u8,
    time: u64,
    /// What the controller has confirmed in time.
    confirmed: BTreeSet<Files>,
}

impl World {
    fn begin() -> Self {
        let old = Some(files("old"));
        Self {
            disk: Saved::default(),
            memory: Some(Saved::default()),
            running: old.clone(),
            startup: old,
            boot: 0,
            time: 0,
            confirmed: BTreeSet::from([files("old")]),
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

    /// Every way in which the action can go: done, failed half-way, failed before it began.
    fn acted(&self, action: Action) -> Vec<(Self, bool)> {
        let trial = self.disk.trial.as_ref();
        let half = Self { running: None, ..self.clone() };
        let mut done = self.clone();
        match action {
            Action::Nothing => return Vec::new(),
            Action::Try => done.running = trial.map(|trial| trial.wanted.clone()),
            Action::TakeBack => done.running = trial.map(|trial| trial.before.clone()),
            Action::Keep { again } => {
                if again {
                    done.running = trial.map(|trial| trial.wanted.clone());
                }
                done.startup.clone_from(&done.running);
                let failed = self.clone();
                return if again {
                    vec![(done, true), (failed, false), (half, false)]
                } else {
                    vec![(done, true), (failed, false)]
                };
            }
        }
        vec![(done, true), (half, false), (self.clone(), false)]
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
            let (running, boot) = (self.startup.clone(), self.boot + 1);
            into.insert(Self { running, boot, memory: None, time: 0, ..self.clone() });
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
            let found = self.running.as_ref();
            self.after(&Event::Heard { epoch: 1, desired: Some(desired), found }, &mut into);
        }
        into
    }

    fn check(&self) {
        let good = |config: &Config| config.as_ref().is_some_and(|files| self.confirmed.contains(files));
        assert!(good(&self.startup), "the switch would start with what nobody confirmed: {self:#?}");
        if !good(&self.running) {
            let trial = self.disk.trial.as_ref();
            let trial = trial.unwrap_or_else(|| panic!("nobody would take it back: {self:#?}"));
            let half = self.running.is_none();
            assert!(!half || trial.stage != Stage::InPlace, "half of it is taken for all: {self:#?}");
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

#[test]
fn killed_at_every_step_nothing_half_applied_is_left_alone() {
    let said = [trial(1, 1, "new"), keep(1, 2, "new"), hold(1, 3), trial(2, 4, "other")];
    let (mut met, mut new) = (BTreeSet::from([World::begin()]), vec![World::begin()]);
    while let Some(world) = new.pop() {
        world.check();
        let end = world.settle();
        assert!(end.disk.trial.is_none(), "{world:#?}\n{end:#?}");
        assert!(end.running.is_some() && end.running == end.startup, "{world:#?}\n{end:#?}");
        assert!(end.confirmed.contains(end.running.as_ref().unwrap()), "{world:#?}\n{end:#?}");
        if let Some(kept) = world.disk.trial.as_ref().filter(|trial| trial.stage == Stage::Keeping) {
            assert_eq!(end.running.as_ref(), Some(&kept.wanted), "what was confirmed is lost: {world:#?}");
        }
        if end.disk.done.outcome == Outcome::Kept {
            let digest = end.running.as_ref().map(Files::digest);
            assert_eq!(digest.as_ref(), Some(&end.disk.done.digest), "{world:#?}\n{end:#?}");
        }
        for desired in &said {
            // The same again does nothing, once it is done with.
            let done = &end.disk.done;
            if (done.number, done.generation) == (desired.number, desired.generation) {
                let heard = Event::Heard { epoch: 1, desired: Some(desired), found: end.running.as_ref() };
                let (state, action) = step(&end.disk, &heard, &end.now()).unwrap();
                assert_eq!((state.done, state.trial, action), (done.clone(), None, Action::Nothing));
            }
        }
        for next in world.next(&said) {
            if met.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    println!("{} worlds", met.len());
    assert!(met.len() > 1_000, "{} worlds", met.len());
    let kept = |world: &World| world.running == Some(files("new")) && world.disk.trial.is_none();
    assert!(met.iter().any(kept), "nothing was ever kept");
}
