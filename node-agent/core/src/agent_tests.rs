//! The agent's rules as data, and random event sequences with crashes of the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use proto_model::{
    Assignment, Certify, CommandSpec, DesiredState, Gang, JobId, JobKey, JobName, JobSpec, JobUid, Measured,
    Observation, Observed, Placement, ReasonCode, TenantName, Timestamp, Work,
};

use crate::{
    agent::{Action, Command, Event, Message, Recovered, State, step},
    record::{Key, Life, Order, Record, Report, Snapshot},
};

const T0: Timestamp = Timestamp(5_000_000);

fn key(job: u8, attempt: u32) -> Key {
    Key { uid: JobUid::from_random([job; 16]), attempt }
}

fn spec() -> Arc<JobSpec> {
    let command = CommandSpec {
        argv: vec!["true".into()],
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    };
    Arc::new(JobSpec::new(Gang::new(1, 0, 1), Work::Command(command)))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum W {
    P,
    R,
    S(u64),
}

fn assignment(key: Key, w: W) -> Assignment {
    let (spec, placement, secret) = (spec(), Arc::new(Placement::default()), JobKey::new([1; 32]));
    let desired = match w {
        W::P => DesiredState::Prepared { spec, placement, key: secret, env: Arc::default() },
        W::R => DesiredState::Running { spec, placement, key: secret, peers: Vec::new(), certify: None },
        W::S(secs) => {
            DesiredState::Stopped { grace: Duration::from_secs(secs), signal: 0, reason: "cancelled".into() }
        }
    };
    let id = JobId { tenant: TenantName::new("t").unwrap(), name: JobName::new("j").unwrap() };
    Assignment { uid: key.uid, attempt: key.attempt, id, desired, trace_parent: String::new() }
}

fn command(epoch: u64, key: Key, w: W) -> Event {
    Event::Command { epoch, command: Command::Assignment(Box::new(assignment(key, w))) }
}

fn welcome(epoch: u64, desired: &[(Key, W)]) -> Event {
    let all = desired.iter().map(|(key, w)| assignment(*key, *w)).collect();
    Event::Command { epoch, command: Command::Welcome(all) }
}

fn seen(key: Key, state: Observed) -> Event {
    let snapshot = Snapshot { state, ..Snapshot::default() };
    Event::Supervisor { key, report: Box::new(Report::State(snapshot)) }
}

fn report(key: Key, report: Report) -> Event {
    Event::Supervisor { key, report: Box::new(report) }
}

fn run(state: &mut State, events: Vec<Event>) -> Vec<Action> {
    events.into_iter().flat_map(|event| step(state, event, T0)).collect()
}

fn connected() -> State {
    let mut state = State::default();
    run(&mut state, vec![Event::Recovered { epoch: 0, records: vec![] }, Event::Connected]);
    state
}

fn spawns(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::SpawnSupervisor(_))).count()
}

fn observations(actions: &[Action]) -> Vec<&Observation> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Send(Message::Observation(observation)) => Some(&**observation),
            _ => None,
        })
        .collect()
}

fn orders(actions: &[Action]) -> Vec<&Order> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::TellSupervisor { order, .. } => Some(order),
            _ => None,
        })
        .collect()
}

fn drained(epoch: u64, rails: &[u32]) -> Event {
    Event::Command { epoch, command: Command::Drained(rails.iter().copied().collect()) }
}

fn follows(key: Key, drained: Option<&[u32]>) -> Event {
    let drained = drained.map(|rails| rails.iter().copied().collect());
    let snapshot = Snapshot { state: Observed::Running, drained, ..Snapshot::default() };
    report(key, Report::State(snapshot))
}

fn drains(actions: &[Action]) -> Vec<Vec<u32>> {
    let rails = |order: &&Order| match order {
        Order::Drain { rails } => Some(rails.iter().copied().collect()),
        _ => None,
    };
    orders(actions).iter().filter_map(rails).collect()
}

#[test]
fn supervisors_are_told_what_is_drained_until_they_follow() {
    let (mut state, k) = (connected(), key(1, 1));
    let actions = run(&mut state, vec![drained(7, &[2]), command(7, k, W::P)]);
    assert_eq!(actions[0], Action::PersistEpoch(7));
    assert_eq!((drains(&actions), state.drained()), (vec![], BTreeSet::from([2])), "it begins with that");
    assert!(drains(&run(&mut state, vec![follows(k, Some(&[2]))])).is_empty());
    assert_eq!(drains(&run(&mut state, vec![drained(7, &[1, 2])])), [vec![1, 2]]);
    // Whatever was lost on the way: it is told again whenever it speaks, until it follows.
    assert_eq!(drains(&run(&mut state, vec![follows(k, Some(&[2]))])), [vec![1, 2]]);
    assert!(drains(&run(&mut state, vec![follows(k, Some(&[1, 2])), drained(7, &[1, 2])])).is_empty());
    // An older controller's wish counts for nothing.
    let actions = run(&mut state, vec![drained(6, &[])]);
    assert!(drains(&actions).is_empty() && state.drained().len() == 2);
    assert!(matches!(actions[..], [Action::Send(Message::StaleEpoch { .. })]));
    let actions = run(&mut state, vec![command(7, k, W::S(5)), drained(7, &[])]);
    assert!(drains(&actions).is_empty(), "what ends is left alone");
}

#[test]
fn a_supervisor_that_is_too_old_is_not_told_of_drains() {
    let (mut state, k) = (connected(), key(1, 1));
    let actions = run(&mut state, vec![command(7, k, W::P), drained(7, &[2]), follows(k, None)]);
    assert!(drains(&actions).is_empty());
    // Nor is one while the controller, a too old one, has not said what is drained.
    let mut state = connected();
    let actions = run(&mut state, vec![command(7, k, W::P), follows(k, Some(&[2]))]);
    assert!(drains(&actions).is_empty());
}

#[test]
fn a_job_is_persisted_spawned_started_reported_and_forgotten() {
    let (mut state, k) = (connected(), key(1, 1));
    let actions = run(&mut state, vec![command(7, k, W::P)]);
    assert_eq!(actions[0], Action::PersistEpoch(7));
    assert!(matches!(actions[1], Action::PersistRecord(_)));
    assert!(matches!(actions[2], Action::SpawnSupervisor(_)));
    assert_eq!(observations(&actions)[0].state, Observed::Preparing);
    let actions = run(&mut state, vec![command(7, k, W::P), seen(k, Observed::Prepared)]);
    assert_eq!((spawns(&actions), orders(&actions).len()), (0, 0));
    let actions = run(&mut state, vec![command(7, k, W::R)]);
    assert!(matches!(orders(&actions)[..], [Order::Start { .. }]));
    let actions = run(&mut state, vec![seen(k, Observed::Running), command(7, k, W::P), command(7, k, W::R)]);
    assert!(orders(&actions).is_empty(), "{actions:?}");
    let actions = run(&mut state, vec![seen(k, Observed::Ended)]);
    assert_eq!(observations(&actions)[0].state, Observed::Ended);
    assert_eq!(state.record(k).map(Record::ended), Some(true));
    let forget = Event::Command { epoch: 7, command: Command::Forget(k) };
    assert_eq!(run(&mut state, vec![forget]), vec![Action::RemoveRecord(k)]);
    let actions = run(&mut state, vec![command(7, k, W::P)]);
    assert_eq!(spawns(&actions), 0, "a late desired state does not start it again");
    assert_eq!(observations(&actions)[0].state, Observed::Ended);
}

/// What is to be measured is told for each series once that before it is over, and the word that ranks may start after any of them.
#[test]
fn a_job_is_measured_once_or_twice_before_it_starts() {
    let k = key(1, 1);
    let desired = |series: Option<u32>| {
        let mut assignment = assignment(k, W::R);
        if let DesiredState::Running { certify, .. } = &mut assignment.desired {
            *certify = series.map(|series| Certify { series, ..Certify::default() });
        }
        Event::Command { epoch: 7, command: Command::Assignment(Box::new(assignment)) }
    };
    let reported = |series: u32| {
        let measured = Some(Measured { series, ..Measured::default() });
        report(k, Report::State(Snapshot { state: Observed::Starting, measured, ..Snapshot::default() }))
    };
    let series = |actions: &[Action]| -> Vec<Option<u32>> {
        let of = |order: &&Order| match order {
            Order::Start { certify, .. } => Some(certify.as_ref().map(|certify| certify.series)),
            _ => None,
        };
        orders(actions).iter().filter_map(of).collect()
    };
    for twice in [false, true] {
        let mut state = connected();
        run(&mut state, vec![command(7, k, W::P), seen(k, Observed::Prepared)]);
        assert_eq!(series(&run(&mut state, vec![desired(Some(0))])), [Some(0)]);
        let actions = run(&mut state, vec![seen(k, Observed::Starting), reported(0)]);
        assert_eq!(observations(&actions).last().unwrap().measured.as_ref().unwrap().series, 0);
        if twice {
            assert_eq!(series(&run(&mut state, vec![desired(Some(1)), desired(Some(0))])), [Some(1)]);
            let actions = run(&mut state, vec![reported(1), reported(0), desired(Some(0))]);
            assert_eq!(series(&actions), []);
            assert_eq!(observations(&actions).last().unwrap().measured.as_ref().unwrap().series, 1);
        }
        assert_eq!(series(&run(&mut state, vec![desired(None), desired(Some(1))])), [None], "twice: {twice}");
    }
}

#[test]
fn a_lower_epoch_is_refused_and_reported() {
    let (mut state, k) = (connected(), key(1, 1));
    run(&mut state, vec![command(9, k, W::P)]);
    for event in [command(8, k, W::S(0)), welcome(8, &[]), command(8, key(2, 1), W::P)] {
        let refused = Action::Send(Message::StaleEpoch { refused: 8, current: 9 });
        assert_eq!(run(&mut state, vec![event]), vec![refused]);
    }
    let mut state = State::default();
    run(&mut state, vec![Event::Recovered { epoch: 9, records: vec![] }, Event::Connected]);
    assert_eq!(spawns(&run(&mut state, vec![command(8, k, W::P)])), 0, "also after a restart");
}

#[test]
fn a_welcome_stops_what_it_does_not_list_and_a_lost_controller_stops_nothing() {
    let (mut state, a, b) = (connected(), key(1, 1), key(2, 1));
    run(&mut state, vec![command(1, a, W::P), command(1, b, W::P), seen(a, Observed::Prepared)]);
    assert!(run(&mut state, vec![Event::Disconnected, Event::Tick, seen(b, Observed::Prepared)]).is_empty());
    let actions = run(&mut state, vec![Event::Connected]);
    assert!(
        matches!(&actions[..], [Action::Send(Message::Register { observations, .. })] if observations.len() == 2)
    );
    let actions = run(&mut state, vec![welcome(2, &[(b, W::R)])]);
    let stopped: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::TellSupervisor { key, order } => Some((*key, matches!(order, Order::Stop { .. }))),
            _ => None,
        })
        .collect();
    assert_eq!(stopped, vec![(a, true), (b, false)]);
}

#[test]
fn a_restarted_agent_takes_up_what_lives_reaps_what_was_lost_and_waits_for_what_was_never_started() {
    let mut first = connected();
    let (live, lost, unstarted) = (key(1, 1), key(2, 1), key(3, 1));
    run(&mut first, vec![command(4, live, W::P), command(4, lost, W::P), command(4, unstarted, W::P)]);
    let records = [(live, true, true), (lost, false, true), (unstarted, false, false)]
        .map(|(k, alive, ran)| Recovered { record: first.record(k).unwrap().clone(), alive, ran });
    let mut state = State::default();
    let actions = run(&mut state, vec![Event::Recovered { epoch: 4, records: records.to_vec() }]);
    assert_eq!(actions, vec![Action::Reap(lost)]);
    let all = [(live, W::P), (lost, W::P), (unstarted, W::P)];
    let actions = run(&mut state, vec![Event::Connected, welcome(4, &all)]);
    assert_eq!(spawns(&actions), 1, "{actions:?}");
    assert_eq!(state.record(unstarted).unwrap().life, Life::Spawned);
    let actions = run(&mut state, vec![report(lost, Report::Reaped(Snapshot::default()))]);
    let reported = observations(&actions)[0];
    assert_eq!(
        (reported.state, reported.cause.as_ref().unwrap().code.as_str()),
        (Observed::Ended, "SupervisorLost")
    );
    // Asked to run what was never prepared here: it cannot have our endpoints.
    let record = Record { life: Life::None, ..first.record(unstarted).unwrap().clone() };
    let mut state = State::default();
    let found = vec![Recovered { record, alive: false, ran: false }];
    run(&mut state, vec![Event::Recovered { epoch: 4, records: found }, Event::Connected]);
    let actions = run(&mut state, vec![welcome(4, &[(unstarted, W::R)])]);
    assert_eq!(observations(&actions)[0].cause.as_ref().unwrap().code, ReasonCode::AttemptUnknown);
}

#[test]
fn a_newer_try_waits_until_the_older_one_has_ended() {
    let (mut state, old, new) = (connected(), key(1, 1), key(1, 2));
    run(&mut state, vec![command(1, old, W::P), seen(old, Observed::Prepared)]);
    let actions = run(&mut state, vec![command(1, new, W::P)]);
    assert_eq!(spawns(&actions), 0);
    assert!(matches!(orders(&actions)[..], [Order::Stop { .. }]));
    assert_eq!(spawns(&run(&mut state, vec![seen(old, Observed::Stopping)])), 0);
    assert_eq!(spawns(&run(&mut state, vec![seen(old, Observed::Ended)])), 1);
    let actions = run(&mut state, vec![command(1, key(1, 1), W::P)]);
    assert_eq!(spawns(&actions), 0, "the older one does not come back");
}

#[test]
fn what_could_not_be_spawned_and_what_is_not_here_are_told_as_ended() {
    let (mut state, k) = (connected(), key(1, 1));
    run(&mut state, vec![command(1, k, W::P)]);
    let failed = report(k, Report::SpawnFailed { message: "no such file: rail-engine".into() });
    let actions = run(&mut state, vec![failed]);
    let reported = observations(&actions)[0];
    assert_eq!(
        (reported.state, reported.cause.as_ref().unwrap().code.as_str()),
        (Observed::Ended, "SupervisorFailed")
    );
    let actions = run(&mut state, vec![command(1, key(5, 1), W::S(1))]);
    assert_eq!(observations(&actions)[0].state, Observed::Ended);
    assert_eq!(spawns(&run(&mut state, vec![command(1, key(5, 1), W::P)])), 0, "a stop is final");
}

#[test]
fn observations_are_repeated_in_case_one_was_lost() {
    let (mut state, k) = (connected(), key(1, 1));
    run(&mut state, vec![command(1, k, W::P)]);
    assert!(step(&mut state, Event::Tick, T0.plus(Duration::from_secs(14))).is_empty());
    assert_eq!(step(&mut state, Event::Tick, T0.plus(Duration::from_secs(15))).len(), 1);
    assert!(step(&mut state, Event::Tick, T0.plus(Duration::from_secs(16))).is_empty());
}

fn any_key() -> impl Strategy<Value = Key> {
    (1u8..4, 1u32..3).prop_map(|(job, attempt)| key(job, attempt))
}

fn any_w() -> impl Strategy<Value = W> {
    prop_oneof![3 => Just(W::P), 3 => Just(W::R), 1 => (0u64..3).prop_map(W::S)]
}

#[derive(Debug, Clone)]
enum Step {
    Event(Event),
    /// A supervisor moves to this state, if there is one.
    Moves(Key, Observed),
    /// The agent dies and comes back; supervisors live on, or not.
    Crash {
        supervisors_die: bool,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let observed = prop_oneof![
        Just(Observed::Prepared),
        Just(Observed::Starting),
        Just(Observed::Running),
        Just(Observed::Stopping),
        Just(Observed::Ended),
    ];
    prop_oneof![
        6 => (1u64..4, any_key(), any_w()).prop_map(|(e, k, w)| Step::Event(command(e, k, w))),
        2 => (1u64..4, prop::collection::vec((any_key(), any_w()), 0..3))
            .prop_map(|(e, desired)| Step::Event(welcome(e, &desired))),
        1 => (1u64..4, any_key())
            .prop_map(|(epoch, k)| Step::Event(Event::Command { epoch, command: Command::Forget(k) })),
        1 => (1u64..4, 0u32..4).prop_map(|(epoch, rail)| Step::Event(drained(epoch, &[rail]))),
        1 => Just(Step::Event(Event::Connected)),
        1 => Just(Step::Event(Event::Disconnected)),
        1 => Just(Step::Event(Event::Tick)),
        1 => any_key().prop_map(|k| Step::Event(report(k, Report::Lost))),
        1 => any_key().prop_map(|k| Step::Event(report(k, Report::Reaped(Snapshot::default())))),
        5 => (any_key(), observed).prop_map(|(k, state)| Step::Moves(k, state)),
        1 => any::<bool>().prop_map(|supervisors_die| Step::Crash { supervisors_die }),
    ]
}

/// The world outside: the disk, and which supervisors were ever spawned and still live.
#[derive(Default)]
struct World {
    epoch: u64,
    disk: BTreeMap<Key, Record>,
    spawned: BTreeSet<Key>,
    live: BTreeMap<Key, Observed>,
    running_desired: BTreeSet<Key>,
    reported: BTreeMap<Key, Observed>,
    /// Forgotten on this epoch's word, and the agent was restarted since: they are in no desired state any more.
    forgotten: BTreeSet<Key>,
    past: BTreeSet<Key>,
}

impl World {
    fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), TestCaseError> {
        for action in actions {
            match action {
                Action::PersistEpoch(epoch) => {
                    prop_assert!(epoch > self.epoch);
                    self.epoch = epoch;
                }
                Action::PersistRecord(record) => {
                    self.disk.insert(record.key, *record);
                }
                Action::SpawnSupervisor(assignment) => {
                    let k = Key::of(&assignment);
                    prop_assert!(self.disk.contains_key(&k), "persisted before it is spawned");
                    prop_assert!(self.spawned.insert(k), "two supervisors for {k}");
                    let other = self.live.keys().any(|other| other.uid == k.uid);
                    prop_assert!(!other, "two attempts of one job at once");
                    self.live.insert(k, Observed::Preparing);
                }
                Action::TellSupervisor { key, order: Order::Start { .. } } => {
                    prop_assert!(self.running_desired.contains(&key), "start without desired state");
                }
                Action::RemoveRecord(key) => {
                    prop_assert!(!self.live.contains_key(&key), "a live attempt was dropped");
                    self.disk.remove(&key);
                    self.reported.remove(&key);
                }
                Action::Send(Message::Observation(reported)) => self.on_report(*reported)?,
                Action::Send(Message::Register { observations, .. }) => {
                    for reported in observations {
                        self.on_report(reported)?;
                    }
                }
                Action::TellSupervisor { .. }
                | Action::Reap(_)
                | Action::Send(_)
                | Action::KeepQos(_)
                | Action::Prove(_) => {}
            }
        }
        Ok(())
    }

    fn on_report(&mut self, reported: Observation) -> Result<(), TestCaseError> {
        let k = Key { uid: reported.uid, attempt: reported.attempt };
        let before = self.reported.insert(k, reported.state);
        prop_assert!(
            before.is_none_or(|before| before <= reported.state),
            "{k} went back to {:?}",
            reported.state
        );
        if reported.state == Observed::Ended {
            prop_assert!(!self.live.contains_key(&k), "{k} was told as ended while it lives");
        }
        Ok(())
    }

    /// False if no controller would send this.
    fn note_desired(&mut self, event: &Event) -> bool {
        let Event::Command { epoch, command } = event else { return true };
        if *epoch < self.epoch {
            return true;
        }
        if let Command::Forget(key) = command {
            self.forgotten.insert(*key);
        }
        let desired: Vec<&Assignment> = match command {
            Command::Welcome(all) => all.iter().collect(),
            Command::Assignment(one) => vec![one],
            Command::Forget(_) | Command::Drained(_) | Command::Qos(_) | Command::Prove(_) => vec![],
        };
        let over = |assignment: &Assignment| {
            self.past.iter().any(|past| past.uid == assignment.uid && past.attempt >= assignment.attempt)
        };
        if desired.iter().any(|assignment| over(assignment)) {
            return false;
        }
        let running = desired
            .into_iter()
            .filter(|assignment| matches!(assignment.desired, DesiredState::Running { .. }));
        self.running_desired.extend(running.map(Key::of));
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_sequence_with_crashes_keeps_the_invariants(steps in prop::collection::vec(any_step(), 0..80)) {
        let mut world = World::default();
        let mut state = connected();
        let mut now = T0;
        for one in steps {
            now = now.plus(Duration::from_secs(3));
            match one {
                Step::Event(Event::Supervisor { key, report }) => {
                    // The shell reports a loss of one that lived, and a reaping of one that was lost.
                    let fits = match &*report {
                        Report::Lost => world.live.remove(&key).is_some(),
                        _ => state.record(key).is_some_and(|record| record.life == Life::Lost),
                    };
                    if fits {
                        world.carry_out(step(&mut state, Event::Supervisor { key, report }, now))?;
                    }
                }
                Step::Event(event) => {
                    if world.note_desired(&event) {
                        world.carry_out(step(&mut state, event, now))?;
                    }
                }
                Step::Moves(k, to) => {
                    let Some(at) = world.live.get_mut(&k) else { continue };
                    *at = (*at).max(to);
                    let at = *at;
                    if at == Observed::Ended {
                        world.live.remove(&k);
                    }
                    world.carry_out(step(&mut state, seen(k, at), now))?;
                }
                Step::Crash { supervisors_die } => {
                    if supervisors_die {
                        world.live.clear();
                    }
                    let records = world.disk.values().map(|record| Recovered {
                        record: record.clone(),
                        alive: world.live.contains_key(&record.key),
                        ran: world.spawned.contains(&record.key),
                    }).collect();
                    state = State::default();
                    world.past.append(&mut world.forgotten);
                    let actions = step(&mut state, Event::Recovered { epoch: world.epoch, records }, now);
                    world.carry_out(actions)?;
                    // A new process is a new view: what it tells begins with what the supervisors say again.
                    world.reported.retain(|_, reported| *reported == Observed::Ended);
                    let live: Vec<_> = world.live.iter().map(|(k, at)| (*k, *at)).collect();
                    for (k, at) in live {
                        world.carry_out(step(&mut state, seen(k, at), now))?;
                    }
                    world.carry_out(step(&mut state, Event::Connected, now))?;
                }
            }
        }
    }
}
