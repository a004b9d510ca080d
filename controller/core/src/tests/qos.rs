//! A profile of class of service on its way to every NIC.

use proptest::prelude::*;
use proto_model::{DesiredQos, QosPort, QosState, RailState, ReasonCode};

use super::{
    drains::{fabric, report, says},
    *,
};
use crate::{QosAction, QosOrder, QosView};

const NEW: &str = r#"{"name":"new"}"#;

fn order(document: &str) -> QosOrder {
    QosOrder {
        document: document.into(),
        reason: "why".into(),
        by: "admin/root".into(),
        canary: None,
        confirm_within: Duration::from_secs(20),
        soak: Duration::from_secs(2),
        at_once: 8,
        force: false,
    }
}

fn apply(w: &mut World, order: QosOrder) -> bool {
    match w.ok(Event::ApplyQos(Box::new(order))) {
        Reply::Qos { changed, .. } => changed,
        other => panic!("{other:?}"),
    }
}

fn steer(w: &mut World, action: QosAction) -> bool {
    let event = Event::ControlRollout { action, reason: String::new(), by: "admin/root".into() };
    match w.ok(event) {
        Reply::Qos { changed, .. } => changed,
        other => panic!("{other:?}"),
    }
}

/// Agents that do what is desired, and what they did in order. While they change a NIC they hear nothing and tell nothing.
#[derive(Default)]
struct Agents {
    /// What each says of its NICs, by node and rail.
    says: BTreeMap<(usize, u32), QosPort>,
    /// NICs that were put on trial, in order.
    trials: Vec<(usize, u32)>,
    /// Trials that fail there.
    fails: BTreeSet<(usize, u32)>,
    /// Links that do not come up again.
    dark: BTreeSet<(usize, u32)>,
    /// Agents that do nothing.
    deaf: BTreeSet<usize>,
    /// They do something again after so many seconds; 0: never.
    deaf_for: u32,
    /// Agents that confirm nothing.
    stuck: BTreeSet<usize>,
    /// Seconds that a change takes, and its way back.
    delay: u32,
    /// Seconds that each still takes.
    busy: BTreeMap<(usize, u32), u32>,
    /// What each that is changing NICs, or has, has last heard.
    at: BTreeMap<usize, Arc<DesiredQos>>,
    /// Seconds for which each has been without a connection, or deaf.
    away: BTreeMap<usize, u32>,
}

impl Agents {
    /// Every agent looks at what it was told last, and says what became of it. At no time are two rails of a server out of
    /// use, and nothing is changed that is in use.
    fn act(&mut self, w: &mut World) {
        for n in 0..4 {
            if self.deaf_for > 0 && self.away.get(&n).is_some_and(|seconds| *seconds >= self.deaf_for) {
                self.deaf.remove(&n);
            }
            let Some(drained) = w.drained.get(&name(n)).cloned() else { continue };
            assert!(drained.len() <= 1, "n{n}: {drained:?}");
            for ((_, rail), left) in self.busy.range_mut((n, 0)..(n + 1, 0)) {
                assert!(drained.contains(rail), "n{n}:{rail} is changed and is in use");
                *left -= 1;
            }
            self.busy.retain(|_, left| *left > 0);
            if self.busy.range((n, 0)..(n + 1, 0)).next().is_some() {
                continue;
            }
            // The time of a trial is the agent's own: it runs out also where nothing more is said or heard.
            if w.state.session(&name(n)).is_none() || self.deaf.contains(&n) {
                self.alone(n);
            } else {
                self.away.remove(&n);
                self.check(w, n, &drained);
            }
        }
    }

    /// Nobody confirms: a trial is taken back in time.
    fn alone(&mut self, n: usize) {
        let away = self.away.entry(n).or_default();
        *away += 1;
        if *away == 20 {
            self.at.remove(&n);
            for (_, port) in self.says.range_mut((n, 0)..(n + 1, 0)) {
                if port.state == QosState::Trial {
                    (port.state, port.observed_generation) = (QosState::Held, 0);
                }
            }
        }
    }

    fn check(&mut self, w: &mut World, n: usize, drained: &BTreeSet<u32>) {
        let changed = self.at.remove(&n);
        let Some(desired) = changed.clone().or_else(|| w.qos.get(&name(n)).cloned().flatten()) else {
            return;
        };
        let mut news = Vec::new();
        for rail in 0..2 {
            let was = self.says.get(&(n, rail));
            let on_trial = was.is_some_and(|old| old.state == QosState::Trial);
            let old = was.filter(|old| old.generation == desired.generation).map(|old| old.state);
            let state = match (desired.trial.contains(&rail), desired.kept.contains(&rail), old) {
                (true, _, Some(QosState::Failed)) => QosState::Failed,
                (true, ..) if self.fails.contains(&(n, rail)) => QosState::Failed,
                (true, ..) => {
                    assert!(drained.contains(&rail), "n{n}:{rail} is tried and is in use");
                    QosState::Trial
                }
                (_, true, Some(QosState::Trial)) if self.stuck.contains(&n) => QosState::Trial,
                (_, true, _) => QosState::Kept,
                (_, _, Some(QosState::Failed)) => QosState::Failed,
                _ => QosState::Held,
            };
            let begins = state == QosState::Trial && old != Some(QosState::Trial);
            let changes = begins || on_trial && matches!(state, QosState::Held | QosState::Failed);
            if changes && changed.is_none() && self.delay > 0 {
                self.busy.insert((n, rail), self.delay);
            } else if begins {
                self.trials.push((n, rail));
            }
            let (device, generation) = (format!("rail{rail}"), desired.generation);
            let message = if state == QosState::Failed { "it cannot be" } else { "" }.to_owned();
            news.push((
                (n, rail),
                QosPort { device, generation, state, message, observed_generation: desired.number },
            ));
        }
        if self.busy.range((n, 0)..(n + 1, 0)).next().is_some() {
            self.at.insert(n, desired);
            return;
        }
        self.says.extend(news);
        self.notify(w, n);
    }

    fn inventory(&self, n: usize) -> Inventory {
        let mut inventory = inventory(4, 2);
        inventory.qos = (0..2).filter_map(|rail| self.says.get(&(n, rail)).cloned()).collect();
        for nic in &mut inventory.nics {
            nic.up = !self.dark.contains(&(n, nic.rail));
        }
        inventory
    }

    /// The agent is there again, and reports with its first message what its NICs have: as real ones do.
    fn connect(&self, w: &mut World, n: usize) {
        w.session += 1;
        let register = Register {
            node: name(n),
            session: w.session,
            agent_version: "1".into(),
            inventory: Arc::new(self.inventory(n)),
            observations: Vec::new(),
            epoch: w.state.epoch(),
        };
        w.ok(Event::AgentConnected(Box::new(register)));
    }

    fn notify(&self, w: &mut World, n: usize) {
        let session = w.state.session(&name(n)).unwrap();
        w.step(Event::AgentInventory { node: name(n), session, inventory: Arc::new(self.inventory(n)) });
    }

    fn seconds(&mut self, w: &mut World, seconds: u32) -> QosView {
        for _ in 0..seconds {
            self.act(w);
            w.tick(Duration::from_secs(1));
        }
        w.state.qos()
    }
}

fn world() -> World {
    let mut w = World::new();
    w.ok(fabric());
    w
}

#[test]
fn a_profile_gets_to_every_nic_stage_by_stage() {
    let mut w = world();
    let mut agents = Agents::default();
    assert!(apply(&mut w, QosOrder { canary: Some(name(1)), ..order(NEW) }));
    assert!(!apply(&mut w, order(NEW)), "it is under way");
    let view = agents.seconds(&mut w, 60);
    assert!(view.done && view.rollout.unwrap().paused.is_none(), "{:?}", view.stages);
    // The canary rail by rail, the rest of its pod, the other pod with both servers at once.
    let order: Vec<(usize, u32)> = vec![(1, 0), (1, 1), (0, 0), (0, 1), (2, 0), (3, 0), (2, 1), (3, 1)];
    assert_eq!(agents.trials, order);
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
    let stages: Vec<(String, u32, u32)> =
        view.stages.into_iter().map(|stage| (stage.name, stage.nics, stage.kept)).collect();
    let expected =
        [("canary n1", 2), ("rail 0 of pod p0", 1), ("rail 1 of pod p0", 1), ("all rails of pod p1", 4)];
    assert_eq!(stages, expected.map(|(name, nics)| (name.to_owned(), nics, nics)));
    // And it survives the controller.
    assert_eq!(w.reload(8).qos().rollout, w.state.qos().rollout);
    assert!(w.state.next_tick().is_none_or(|at| at > w.now));
}

#[test]
fn what_fails_pauses_it_and_leaves_nothing_out_of_use() {
    let mut w = world();
    let mut agents = Agents::default();
    agents.fails.insert((2, 0));
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    let view = agents.seconds(&mut w, 60);
    let paused = view.rollout.unwrap().paused.clone().unwrap();
    assert_eq!((paused.code.as_str(), paused.scope.as_str()), ("QosFailed", "node/n2:0"));
    assert!(paused.message.contains("it cannot be"), "{}", paused.message);
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
    // The other server of that stage was on trial, and was taken back.
    assert_eq!(agents.says[&(3, 0)].state, QosState::Held);
    let kept = |agents: &Agents| agents.says.values().filter(|port| port.state == QosState::Kept).count();
    assert_eq!((kept(&agents), view.done), (4, false));
    // It is mended, and goes on.
    agents.fails.clear();
    assert!(steer(&mut w, QosAction::Resume) && !steer(&mut w, QosAction::Resume));
    assert!(agents.seconds(&mut w, 80).done);
    assert_eq!(kept(&agents), 8);
}

/// Also where agents tell nothing while they change NICs: `act` sees that nothing is changed that is in use.
#[test]
fn a_pause_gives_nothing_back_that_is_being_changed() {
    for delay in [1, 3, 9] {
        let mut w = world();
        let mut agents = Agents { delay, deaf_for: 40, ..Agents::default() };
        apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
        while agents.busy.is_empty() {
            agents.seconds(&mut w, 1);
        }
        steer(&mut w, QosAction::Pause);
        w.tick(Duration::from_secs(1));
        assert!(w.drained[&name(0)].contains(&0), "its agent is at work");
        let view = agents.seconds(&mut w, 1);
        assert_eq!(view.active[0].note, "what was tried is taken back");
        agents.seconds(&mut w, 2 * delay + 3);
        assert_eq!((agents.says[&(0, 0)].state, agents.trials.len()), (QosState::Held, 1));
        assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
        // One that fails at once, beside others that are at work.
        agents.fails.insert((2, 0));
        steer(&mut w, QosAction::Resume);
        let view = agents.seconds(&mut w, 100 + 10 * delay);
        assert_eq!(view.rollout.unwrap().paused.as_ref().unwrap().scope, "node/n2:0");
        assert_eq!(agents.says[&(3, 0)].state, QosState::Held);
        assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
        // Its agent comes anew in the middle of a change.
        agents.fails.clear();
        steer(&mut w, QosAction::Resume);
        while agents.busy.is_empty() {
            agents.seconds(&mut w, 1);
        }
        let (n, rail) = agents.busy.first_key_value().map(|(port, _)| *port).unwrap();
        w.disconnect(n);
        w.tick(Duration::from_secs(1));
        w.connect(n, Vec::new());
        assert!(w.drained[&name(n)].contains(&rail), "its agent may be at work");
        assert!(agents.seconds(&mut w, 100 + 10 * delay).done);
    }
}

/// What is told of desired state before is no answer, and who never answers is not waited for for ever.
#[test]
fn only_an_answer_to_what_was_told_last_gives_a_nic_back() {
    let mut w = world();
    let mut agents = Agents { delay: 5, ..Agents::default() };
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    while agents.busy.is_empty() {
        agents.seconds(&mut w, 1);
    }
    agents.deaf.insert(0);
    steer(&mut w, QosAction::Pause);
    let reported = w.qos[&name(0)].clone().unwrap();
    for observed_generation in [0, reported.number - 1] {
        let held = |rail| {
            let device = format!("rail{rail}");
            QosPort {
                device,
                generation: 1,
                state: QosState::Held,
                message: String::new(),
                observed_generation,
            }
        };
        agents.says.extend([0, 1].map(|rail| ((0, rail), held(rail))));
        agents.notify(&mut w, 0);
        agents.seconds(&mut w, 30);
        assert!(w.drained[&name(0)].contains(&0), "{observed_generation}");
    }
    agents.seconds(&mut w, 25);
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
}

#[test]
fn what_was_found_good_is_tried_again_with_another_profile() {
    let mut w = world();
    let mut agents = Agents { stuck: [0].into(), ..Agents::default() };
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    while !w.qos[&name(0)].as_ref().is_some_and(|desired| desired.kept.contains(&0)) {
        agents.seconds(&mut w, 1);
    }
    agents.stuck.clear();
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(r#"{"name":"newer"}"#) });
    let desired = w.qos[&name(0)].clone().unwrap();
    assert_eq!((desired.trial.contains(&0), desired.kept.is_empty()), (true, true));
    assert!(agents.seconds(&mut w, 60).done);
    assert_eq!(agents.trials[..2], [(0, 0); 2]);
}

#[test]
fn a_rollback_brings_the_profile_before_in_the_same_way() {
    let mut w = world();
    let mut agents = Agents::default();
    assert!(matches!(
        w.refused(Event::ControlRollout {
            action: QosAction::RollBack,
            reason: String::new(),
            by: String::new()
        }),
        CoreError::NoRollout
    ));
    apply(&mut w, order(NEW));
    assert!(matches!(
        w.refused(Event::ControlRollout {
            action: QosAction::RollBack,
            reason: String::new(),
            by: String::new()
        }),
        CoreError::NoProfileBefore
    ));
    agents.seconds(&mut w, 60);
    apply(&mut w, order(r#"{"name":"newer"}"#));
    agents.seconds(&mut w, 10);
    assert!(steer(&mut w, QosAction::RollBack));
    let rollout = w.state.qos().rollout.unwrap();
    assert_eq!((&*rollout.document, rollout.before.as_deref()), (NEW, Some(r#"{"name":"newer"}"#)));
    assert!(agents.seconds(&mut w, 60).done);
    assert!(w.qos.values().all(|desired| desired.as_ref().is_some_and(|desired| &*desired.document == NEW)));
}

#[test]
fn a_roll_out_that_is_cancelled_ends_where_it_is_and_goes_back() {
    let mut w = world();
    let mut agents = Agents { delay: 1, ..Agents::default() };
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    assert!(agents.seconds(&mut w, 120).done);
    let refused = w.refused(steering(QosAction::Cancel));
    assert_eq!(refused.code(), "ROLLOUT_DONE");
    let newer = r#"{"name":"newer"}"#;
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(newer) });
    agents.trials.clear();
    while agents.trials.len() < 3 {
        agents.seconds(&mut w, 1);
    }
    let event = Event::ControlRollout {
        action: QosAction::Cancel,
        reason: "too small".into(),
        by: "admin/ann".into(),
    };
    assert!(matches!(w.ok(event), Reply::Qos { changed: true, .. }));
    assert!(!steer(&mut w, QosAction::Cancel) && !steer(&mut w, QosAction::Pause));
    let view = agents.seconds(&mut w, 30);
    let rollout = view.rollout.unwrap();
    let paused = rollout.paused.as_ref().unwrap();
    assert_eq!((paused.code.as_str(), rollout.is_cancelled()), ("QosCancelled", true));
    assert_eq!(paused.message, "admin/ann cancelled it: too small");
    // What was kept stays, what was on trial is taken back, nothing more is begun, and nothing is out of use.
    let states = |agents: &Agents, state| agents.says.values().filter(|port| port.state == state).count();
    assert_eq!((states(&agents, QosState::Kept), states(&agents, QosState::Held)), (2, 6));
    assert_eq!(agents.trials, [(0, 0), (0, 1), (1, 0)]);
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
    agents.seconds(&mut w, 60);
    assert_eq!(agents.trials.len(), 3);
    assert_eq!(w.refused(steering(QosAction::Resume)).code(), "ROLLOUT_CANCELLED");
    // Also for the controller after this one.
    assert_eq!(w.reload(8).qos().rollout.unwrap(), rollout);
    // It goes back; no server that it never reached is told to have what was cancelled.
    assert!(steer(&mut w, QosAction::RollBack));
    let back = w.state.qos().rollout.unwrap();
    assert_eq!((&*back.document, back.mixed, back.paused.is_none()), (NEW, true, true));
    assert!(w.qos.values().flatten().all(|desired| &*desired.document == NEW && desired.before.is_none()));
    assert!(agents.seconds(&mut w, 150).done);
    assert_eq!(states(&agents, QosState::Kept), 8);
    // The next one has a profile before it again.
    apply(&mut w, order(newer));
    let next = w.state.qos().rollout.unwrap();
    assert_eq!((next.before.as_deref(), next.mixed), (Some(NEW), false));
}

#[test]
fn what_was_cancelled_is_nothing_to_go_back_to() {
    let mut w = world();
    let mut agents = Agents::default();
    apply(&mut w, order(NEW));
    agents.seconds(&mut w, 60);
    apply(&mut w, order(r#"{"name":"newer"}"#));
    agents.seconds(&mut w, 5);
    steer(&mut w, QosAction::Cancel);
    apply(&mut w, order(r#"{"name":"newest"}"#));
    let rollout = w.state.qos().rollout.unwrap();
    assert_eq!((rollout.before.as_deref(), rollout.mixed), (Some(NEW), true));
    assert!(agents.seconds(&mut w, 60).done);
}

#[test]
fn a_plan_tells_the_stages_and_who_moves_and_begins_nothing() {
    let mut w = world();
    let mut agents = Agents::default();
    let rails = RailRequest { required: 1, allow_partial: true, ..RailRequest::default() };
    w.submit("a", JobSpec { rails, ..spec(4, 1) });
    w.run("a");
    let (up, down) = (report(0, RailState::Up), report(1, RailState::Down));
    for n in 0..4 {
        says(&mut w, "a", n, &[up.clone(), down.clone()]);
    }
    w.disconnect(3);
    let before = w.state.clone();
    let asked = QosOrder { canary: Some(name(1)), at_once: 2, ..order(NEW) };
    let plan = w.state.qos_plan(&asked, w.now).unwrap();
    assert!(w.state.same(&before) && w.state.qos().rollout.is_none());
    let stages: Vec<(&str, u32, u32, u32, u32)> = plan
        .stages
        .iter()
        .map(|one| (one.name.as_str(), one.nics, one.silent, one.at_once, one.steps))
        .collect();
    let expected = [
        ("canary n1", 2, 0, 1, 2),
        ("rail 0 of pod p0", 1, 0, 2, 1),
        ("rail 1 of pod p0", 1, 0, 2, 1),
        ("all rails of pod p1", 4, 2, 2, 2),
    ];
    assert_eq!(stages, expected);
    assert_eq!((plan.nics_total, plan.nodes, plan.jobs, plan.unchanged), (8, 4, 1, false));
    assert_eq!(plan.at_least, Duration::from_secs(12));
    let first = &plan.nics[0];
    assert_eq!((first.node.clone(), first.rail, first.jobs.clone()), (name(1), 0, vec![id("a")]));
    assert_eq!(first.note, "job 'red/a' would have no rail left: it is waited for");
    assert!(plan.nics.iter().any(|nic| nic.node == name(3) && nic.note.contains("not heard")));
    let unknown = QosOrder { canary: Some(NodeName::new("nobody").unwrap()), ..order(NEW) };
    assert_eq!(w.state.qos_plan(&unknown, w.now).unwrap_err().code(), "NODE_NOT_FOUND");
    // What it says is what happens.
    w.connect(3, Vec::new());
    apply(&mut w, QosOrder { force: true, ..asked.clone() });
    agents.seconds(&mut w, 1);
    assert!(w.drained[&name(1)].contains(&0), "{:?}", w.drained);
    assert!(w.state.qos_plan(&asked, w.now).unwrap().unchanged);
}

fn steering(action: QosAction) -> Event {
    Event::ControlRollout { action, reason: String::new(), by: "admin/root".into() }
}

#[test]
fn a_trial_that_is_not_well_is_not_kept() {
    let mut w = world();
    let mut agents = Agents::default();
    agents.dark.insert((0, 0));
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    let view = agents.seconds(&mut w, 10);
    assert_eq!(agents.says[&(0, 0)].state, QosState::Trial);
    assert!(view.active[0].note.contains("not well: its link is down"), "{:?}", view.active);
    let view = agents.seconds(&mut w, 20);
    assert_eq!(view.rollout.unwrap().paused.as_ref().unwrap().code, ReasonCode::QosUnwell);
    assert_eq!((agents.says[&(0, 0)].state, agents.trials.len()), (QosState::Held, 1));
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
}

#[test]
fn an_agent_that_does_nothing_is_not_waited_for_for_ever() {
    let mut w = world();
    let mut agents = Agents { deaf: [1].into(), ..Agents::default() };
    apply(&mut w, QosOrder { canary: Some(name(1)), ..order(NEW) });
    let view = agents.seconds(&mut w, 85);
    let paused = view.rollout.unwrap().paused.clone().unwrap();
    assert_eq!((paused.code.as_str(), agents.trials.len()), ("QosSilent", 0));
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
}

#[test]
fn an_agent_that_does_not_confirm_is_not_waited_for_for_ever() {
    let mut w = world();
    let mut agents = Agents { stuck: [1].into(), ..Agents::default() };
    apply(&mut w, QosOrder { canary: Some(name(1)), ..order(NEW) });
    let view = agents.seconds(&mut w, 90);
    let paused = view.rollout.unwrap().paused.clone().unwrap();
    assert_eq!((paused.code.as_str(), agents.trials.len()), ("QosSilent", 1));
    assert!(paused.message.contains("has not confirmed rail0"), "{}", paused.message);
    assert!(w.drained.values().all(BTreeSet::is_empty), "{:?}", w.drained);
}

#[test]
fn jobs_move_off_a_rail_before_it_is_touched() {
    let mut w = world();
    let mut agents = Agents::default();
    w.submit("a", spec(4, 1));
    w.run("a");
    let up = |rail| report(rail, RailState::Up);
    for n in 0..4 {
        says(&mut w, "a", n, &[up(0), up(1)]);
    }
    apply(&mut w, QosOrder { canary: Some(name(0)), ..order(NEW) });
    let view = agents.seconds(&mut w, 10);
    assert_eq!((agents.trials.len(), w.drained[&name(0)].contains(&0)), (0, true));
    assert!(view.active[0].note.contains("'red/a': it has not begun to move"), "{:?}", view.active);
    says(&mut w, "a", 0, &[report(0, RailState::Drained), up(1)]);
    agents.seconds(&mut w, 3);
    assert_eq!(agents.trials, [(0, 0)]);
}

#[test]
fn a_jobs_last_rail_is_waited_for_unless_it_is_forced() {
    for force in [false, true] {
        let mut w = world();
        let mut agents = Agents::default();
        let rails = RailRequest { required: 1, allow_partial: true, ..RailRequest::default() };
        w.submit("a", JobSpec { rails, ..spec(4, 1) });
        w.run("a");
        let (up, down) = (report(0, RailState::Up), report(1, RailState::Down));
        for n in 0..4 {
            says(&mut w, "a", n, &[up.clone(), down.clone()]);
        }
        apply(&mut w, QosOrder { canary: Some(name(0)), force, ..order(NEW) });
        let view = agents.seconds(&mut w, 5);
        assert_eq!(w.drained[&name(0)].contains(&0), force);
        let said = view.active[0].note.contains("job 'red/a' would have no rail left");
        assert_eq!(said, !force, "{:?}", view.active);
    }
}

#[test]
fn another_controller_goes_on_where_this_one_was() {
    let mut w = world();
    let mut agents = Agents::default();
    apply(&mut w, QosOrder { canary: Some(name(0)), soak: Duration::from_secs(5), ..order(NEW) });
    agents.seconds(&mut w, 3);
    assert_eq!(agents.says[&(0, 0)].state, QosState::Trial);
    w.state = w.reload(7);
    for n in 0..4 {
        agents.connect(&mut w, n);
    }
    assert!(w.drained[&name(0)].contains(&0), "it is on trial still");
    assert!(agents.seconds(&mut w, 90).done);
    assert_eq!(agents.trials.len(), 8, "{:?}", agents.trials);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever agents and servers do, but for an agent that is heard, does nothing for as long as one is waited for, and then begins
    /// with what it was told before: of one server at most one rail is out of use, nothing in use is changed (both in `act`), and in the
    /// end either all that is heard has the profile, or the rollout is paused; then nothing is out of use.
    #[test]
    fn whatever_happens_it_ends_clean(
        delay in 0u32..5,
        steps in prop::collection::vec((0usize..9, 0usize..4, 0u32..2, 1u32..8), 1..30),
    ) {
        let mut w = world();
        let mut agents = Agents { delay, deaf_for: 40, ..Agents::default() };
        apply(&mut w, order(NEW));
        for (what, n, rail, seconds) in steps {
            match what {
                0 => drop(agents.fails.insert((n, rail))),
                1 => drop(agents.dark.insert((n, rail))),
                2 if w.state.session(&name(n)).is_some() => w.disconnect(n),
                3 => agents.connect(&mut w, n),
                4 => drop(steer(&mut w, QosAction::Pause)),
                5 => drop(steer(&mut w, QosAction::Resume)),
                6 => drop(agents.deaf.insert(n)),
                // Nothing to be cancelled is no fault; it begins anew.
                7 => {
                    w.step(steering(QosAction::Cancel));
                    apply(&mut w, order(NEW));
                }
                _ => agents.fails.clear(),
            }
            agents.seconds(&mut w, seconds);
        }
        agents.dark.clear();
        agents.deaf.clear();
        agents.fails.clear();
        steer(&mut w, QosAction::Resume);
        let view = agents.seconds(&mut w, 150);
        let paused = view.rollout.as_ref().and_then(|rollout| rollout.paused.clone());
        prop_assert!(view.done || paused.is_some(), "{:?} {:?}", view.stages, view.active);
        let heard = |n: &usize| w.state.session(&name(*n)).is_some();
        prop_assert!((0..4).filter(heard).all(|n| w.drained[&name(n)].is_empty()), "{:?}", w.drained);
        let fresh = w.reload(8);
        prop_assert_eq!(fresh.qos().rollout, w.state.qos().rollout);
    }
}
