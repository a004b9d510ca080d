//! The apply: an agent that dies at every step, in the middle of a change too, never leaves half a port in service.

use std::time::Duration;

use proto_model::Timestamp;

use super::plan::{any, reachable};
use crate::{
    Change, Journal, Observed,
    edit::AppOp,
    journal::{Action, Asker, Event, Service, Stage, step},
    model,
    plan::{Options, plan},
    trial,
    vendor::Vendor,
};

const ANY: Options = Options { force: true, take_dcbx: true };
const WINDOW: Duration = Duration::from_secs(60);

/// A port, a disk, and an agent that may die before any of its next moves.
struct World<'a> {
    vendor: &'a Vendor,
    port: Observed,
    disk: Journal,
    now: Timestamp,
    /// Moves until the agent dies; more than there are for never.
    dies: u32,
    /// The edit or undo that the kernel refuses.
    refuses: Option<u32>,
    made: u32,
    confirms: bool,
    moves: u32,
}

struct Died;

impl<'a> World<'a> {
    fn new(case: &'a trial::Case, journal: Journal) -> Self {
        let port = case.observed.clone();
        let now = Timestamp(1_000_000);
        Self {
            vendor: case.vendor,
            port,
            disk: journal,
            now,
            dies: u32::MAX,
            refuses: None,
            made: 0,
            confirms: true,
            moves: 0,
        }
    }

    fn alive(&mut self) -> Result<(), Died> {
        self.moves += 1;
        self.check();
        if self.moves == self.dies { Err(Died) } else { Ok(()) }
    }

    /// What the disk says holds for the port, whoever reads it now.
    fn check(&self) {
        let end = |edits: usize| {
            let made = self.disk.edits.iter().take(edits);
            made.fold(self.disk.before.clone(), |at, edit| model::apply(&at, &edit.change, self.vendor))
                .settings
        };
        match self.disk.service() {
            Service::No => {}
            Service::AsBefore => assert_eq!(self.port.settings, end(0), "{:?}", self.disk.stage),
            Service::Yes => assert_eq!(self.port.settings, end(usize::MAX), "{:?}", self.disk.stage),
        }
    }

    /// An application table is changed entry by entry: it may end in the middle.
    fn make(&mut self, change: &Change) -> Result<(), Died> {
        if let Change::App { from, to, ops, undo_ops } = change {
            for op in ops {
                let one: Vec<AppOp> = vec![*op];
                let part =
                    Change::App { from: from.clone(), to: to.clone(), ops: one, undo_ops: undo_ops.clone() };
                self.port = model::apply(&self.port, &part, self.vendor);
                // Dying between any two of 64 is the same as between the first or the last two.
                if ops.first() == Some(op) || ops.last() == Some(op) {
                    self.alive()?;
                }
            }
            return Ok(());
        }
        self.port = model::apply(&self.port, change, self.vendor);
        self.alive()
    }

    /// One life of an agent, from its first event to the end of the journal or its own.
    fn live(&mut self, first: Event) -> Result<(), Died> {
        let mut queue = vec![first];
        while let Some(event) = queue.pop() {
            self.alive()?;
            let (journal, actions) = step(&self.disk, &event, self.now);
            self.disk = journal;
            self.alive()?;
            for action in actions {
                match action {
                    Action::Make { change, .. } => {
                        self.made += 1;
                        if self.refuses == Some(self.made) {
                            queue.push(Event::Failed { error: "EBUSY".into() });
                            continue;
                        }
                        self.make(&change)?;
                        queue.push(Event::Made);
                    }
                    Action::Read => queue.push(Event::Read(Box::new(self.port.clone()))),
                    Action::Wake(at) if self.confirms => {
                        self.now = Timestamp(at.0 - 1);
                        queue.insert(0, Event::Confirm);
                    }
                    Action::Wake(at) => {
                        self.now = at;
                        queue.insert(0, Event::Tick);
                    }
                    Action::Over => {}
                }
            }
        }
        Ok(())
    }

    /// Lives until the journal is over; the agent dies at most once more in each life after the first.
    fn run(&mut self, again: Option<u32>) {
        let mut again = again;
        let mut event = Event::Start;
        while self.live(event).is_err() {
            // What the disk has is all that is left: it has to survive being written and read.
            let text = serde_json::to_string(&self.disk).unwrap();
            self.disk = serde_json::from_str(&text).unwrap();
            self.dies = again.take().map_or(u32::MAX, |more| self.moves + more);
            event = Event::Restarted;
        }
        self.check();
    }
}

fn journals(count: u64) -> Vec<(trial::Case, Journal)> {
    let journal = |mut case: trial::Case| {
        // What a driver cannot hold is not brought back exactly; the undo of that is tried elsewhere.
        case.observed.drained = true;
        let plan = plan(&case.profile, &case.observed, case.vendor, ANY).unwrap();
        let journal = Journal::new(&plan, &case.observed, Asker::Local("ada".into()), WINDOW);
        (case, journal)
    };
    // One thing wrong, and several: an apply of many edits has many places to die in.
    let several =
        (0..400).map(any).filter(reachable).map(journal).filter(|(_, journal)| journal.edits.len() > 2);
    (0..count).map(trial::wrong).map(journal).chain(several.take(8)).collect()
}

#[test]
fn an_agent_that_dies_at_any_step_goes_on() {
    for (seed, (case, journal)) in journals(70).into_iter().enumerate() {
        let mut whole = World::new(&case, journal.clone());
        whole.run(None);
        assert_eq!(whole.disk.stage, Stage::Confirmed, "seed {seed} {}", case.name);
        for dies in 1..=whole.moves {
            for again in [None, Some(1), Some(3)] {
                let mut world = World::new(&case, journal.clone());
                world.dies = dies;
                world.run(again);
                assert_eq!(
                    world.disk.stage,
                    Stage::Confirmed,
                    "seed {seed} {}, dies at {dies}, {again:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn what_is_refused_or_not_confirmed_is_undone_whoever_dies() {
    for (seed, (case, journal)) in journals(70).into_iter().enumerate() {
        if case.name.contains("two entries") || case.name.contains("with entries") {
            continue;
        }
        let edits = u32::try_from(journal.edits.len()).unwrap();
        for refuses in (1..=edits).map(Some).chain([None]) {
            let world = || World { refuses, confirms: false, ..World::new(&case, journal.clone()) };
            let mut whole = world();
            whole.run(None);
            let undone = |stage: &Stage| matches!(stage, Stage::RolledBack { .. });
            assert!(undone(&whole.disk.stage), "seed {seed} {}: {:?}", case.name, whole.disk.stage);
            assert_eq!(whole.port, case.observed, "seed {seed} {}", case.name);
            for dies in 1..=whole.moves {
                let mut world = world();
                world.dies = dies;
                world.run(None);
                assert!(
                    undone(&world.disk.stage),
                    "seed {seed} {} {dies}: {:?}",
                    case.name,
                    world.disk.stage
                );
                assert_eq!(world.port, case.observed);
            }
        }
    }
}

#[test]
fn a_change_by_others_while_the_agent_is_away_is_told() {
    let mut reported = 0;
    for (case, journal) in journals(60) {
        if journal.edits.len() < 2 {
            continue;
        }
        let (applying, _) = step(&journal, &Event::Start, Timestamp(0));
        let (second, _) = step(&applying, &Event::Made, Timestamp(0));
        // The server was restarted: the first edit is not there any more, and neither is what it had before.
        let mut port = case.observed.clone();
        port.settings.mtu = crate::Reading::Known(1111);
        port.settings.pause = crate::Reading::Unsupported;
        port.settings.app = crate::Reading::Unsupported;
        port.settings.dcbx = crate::Reading::Unsupported;
        port.settings.ets = crate::Reading::Unsupported;
        port.settings.pfc = crate::Reading::Unsupported;
        let (asked, actions) = step(&second, &Event::Restarted, Timestamp(0));
        assert_eq!(actions, [Action::Read]);
        let (stuck, _) = step(&asked, &Event::Read(Box::new(port)), Timestamp(0));
        if let Stage::Stuck { reason } = &stuck.stage {
            assert!(reason.contains("make a new plan"), "{reason}");
            assert_eq!(stuck.service(), Service::No);
            reported += 1;
        }
    }
    assert!(reported > 0);
}

#[test]
fn late_and_foreign_events_change_nothing() {
    let (case, journal) = journals(1).remove(0);
    let mut whole = World::new(&case, journal.clone());
    whole.run(None);
    for event in
        [Event::Start, Event::Made, Event::Tick, Event::Restarted, Event::Reject { why: "late".into() }]
    {
        let (after, actions) = step(&whole.disk, &event, Timestamp(u64::MAX));
        assert_eq!((after, actions), (whole.disk.clone(), Vec::new()), "{event:?}");
    }
    let strange = Journal { vendor: "other".into(), ..journal };
    let (after, _) = step(&strange, &Event::Start, Timestamp(0));
    assert!(matches!(after.stage, Stage::Stuck { .. }));
}
