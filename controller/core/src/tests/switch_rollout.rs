//! Configurations on their way to switches: stages, trials, faults, drift, and another controller in the middle.

use proptest::prelude::*;
use proto_model::{
    BgpState, DesiredSwitch, QosState, ReasonCode, SwitchAsic, SwitchConfig, SwitchName, SwitchNos,
    SwitchPhase, SwitchProgress, SwitchReport, SwitchSession, SwitchSpec, SwitchStanding,
};

use controller_state::error::switches::SwitchError;

use super::{drains::fabric, *};
use crate::{QosAction, SwitchEvent, SwitchOrder};

const LEAVES: [&str; 4] = ["p0r0", "p0r1", "p1r0", "p1r1"];

pub(super) fn switch(text: &str) -> SwitchName {
    SwitchName::new(text).unwrap()
}

pub(super) fn known(w: &mut World, leaf: &str, repair_drift: bool) {
    let spec = SwitchSpec {
        nos: SwitchNos::Sonic,
        version: String::new(),
        asic: Some(SwitchAsic::Spectrum4),
        loopback: None,
        asn: 0,
        cable_m: 0,
        ports: Vec::new(),
        management: None,
        repair_drift,
    };
    let config =
        SwitchConfig { name: switch(leaf), uid: String::new(), generation: 0, created: Timestamp(0), spec };
    w.ok(Event::ApplySwitch { switch: Box::new(config), if_version: 0, dry_run: false });
}

fn order() -> SwitchOrder {
    SwitchOrder {
        default_profile: "{}".into(),
        reason: "why".into(),
        by: "admin/root".into(),
        canary: Some(switch("p0r0")),
        confirm_within: Duration::from_secs(20),
        soak: Duration::from_secs(2),
        at_once: 4,
        force: false,
    }
}

fn roll_out(w: &mut World) -> bool {
    match w.ok(Event::Switch(SwitchEvent::RollOut(Box::new(order())))) {
        Reply::SwitchRollout { changed, .. } => changed,
        other => panic!("{other:?}"),
    }
}

fn control(w: &mut World, action: QosAction) {
    w.ok(Event::Switch(SwitchEvent::Control { action, reason: String::new(), by: "admin/root".into() }));
}

/// One switch with its agent.
#[derive(Debug, Clone, Default)]
struct Agent {
    /// It has the configuration that is rolled out.
    has: bool,
    progress: Option<SwitchProgress>,
    /// Seconds of the trial.
    tried: u32,
    /// It cannot be brought to it.
    fails: bool,
    /// It says nothing, and hears nothing.
    deaf: bool,
    /// What is rolled out ends its BGP session.
    cuts: bool,
    /// It had a session when it said so last before its trial.
    had: bool,
    desired: Option<DesiredSwitch>,
}

impl Agent {
    fn session(&self) -> BgpState {
        if self.cuts && self.has { BgpState::Active } else { BgpState::Established }
    }

    /// Its session is with a spine that nobody has ever heard of.
    fn report(&self, compared: u64) -> SwitchReport {
        let on_trial = self.progress.as_ref().is_some_and(|own| own.state == QosState::Trial);
        let (port, peer) = ("Ethernet8".into(), Some(switch("spine0")));
        let session = SwitchSession { port, peer, state: self.session(), before_trial: on_trial && self.had };
        SwitchReport {
            agent_version: "1".into(),
            nos_version: "202505".into(),
            progress: self.progress.clone(),
            standing: if self.has { SwitchStanding::Same } else { SwitchStanding::Differs(3) },
            unreadable: String::new(),
            compared,
            sessions: Some(vec![session]),
        }
    }
}

pub(super) fn say(w: &mut World, leaf: &SwitchName, report: SwitchReport) -> Option<DesiredSwitch> {
    let event = Event::Switch(SwitchEvent::Reported { switch: leaf.clone(), report: Arc::new(report) });
    let Reply::SwitchDesired { desired, .. } = w.ok(event) else { panic!() };
    desired
}

/// All switches, and in which order they were tried.
struct Switches {
    agents: BTreeMap<SwitchName, Agent>,
    trials: Vec<SwitchName>,
}

impl Switches {
    fn new(w: &mut World) -> Self {
        w.ok(fabric());
        for leaf in LEAVES {
            known(w, leaf, false);
        }
        Self { agents: LEAVES.map(|leaf| (switch(leaf), Agent::default())).into(), trials: Vec::new() }
    }

    fn agent(&mut self, leaf: &str) -> &mut Agent {
        self.agents.get_mut(&switch(leaf)).unwrap()
    }

    /// What each hears and does in a second. A configuration changes only where all rails of the switch are drained.
    fn second(&mut self, w: &mut World) {
        for n in 0..4 {
            let drained = w.drained.get(&name(n)).cloned().unwrap_or_default();
            assert!(drained.len() <= 1, "n{n}: {drained:?}");
        }
        for (leaf, agent) in &mut self.agents {
            let on_trial = agent.progress.as_ref().is_some_and(|own| own.state == QosState::Trial);
            agent.tried += u32::from(on_trial);
            if on_trial && agent.tried >= 20 {
                agent.has = false;
                agent.progress.as_mut().unwrap().state = QosState::Failed;
            }
            if agent.deaf {
                continue;
            }
            if let Some(desired) = agent.desired.clone() {
                Self::act(leaf, agent, &desired, w, &mut self.trials);
            }
            agent.desired = say(w, leaf, agent.report(w.state.base.switch_plans));
        }
        w.tick(Duration::from_secs(1));
    }

    fn act(
        leaf: &SwitchName,
        agent: &mut Agent,
        desired: &DesiredSwitch,
        w: &World,
        trials: &mut Vec<SwitchName>,
    ) {
        let of_this = agent.progress.clone().filter(|own| own.generation == desired.generation);
        let old = of_this.map(|own| own.state);
        let state = match (desired.phase, old) {
            (SwitchPhase::Trial, Some(QosState::Failed)) => QosState::Failed,
            (SwitchPhase::Trial, _) if agent.fails => QosState::Failed,
            (SwitchPhase::Trial, old) => {
                if old != Some(QosState::Trial) {
                    agent.had = agent.session() == BgpState::Established;
                    (agent.has, agent.tried) = (true, 0);
                    trials.push(leaf.clone());
                }
                let (pod, rail) =
                    (leaf.as_str().as_bytes()[1] - b'0', u32::from(leaf.as_str().as_bytes()[3] - b'0'));
                for n in [usize::from(pod) * 2, usize::from(pod) * 2 + 1] {
                    let drained = w.drained.get(&name(n)).is_some_and(|rails| rails.contains(&rail));
                    assert!(drained, "{leaf} is tried, and n{n} uses it");
                }
                QosState::Trial
            }
            (SwitchPhase::Keep, Some(QosState::Trial)) => {
                let lost = agent.had && agent.session() != BgpState::Established;
                assert!(!lost, "{leaf} is kept without its session");
                QosState::Kept
            }
            (SwitchPhase::Keep, Some(QosState::Kept)) => QosState::Kept,
            (SwitchPhase::Hold, Some(QosState::Trial)) => {
                agent.has = false;
                QosState::Held
            }
            (_, old) => old.unwrap_or(QosState::Held),
        };
        let message = if state == QosState::Failed { "it cannot be" } else { "" }.to_owned();
        let (generation, observed_number) = (desired.generation, desired.number);
        agent.progress = Some(SwitchProgress { state, generation, message, observed_number });
    }

    fn seconds(&mut self, w: &mut World, seconds: u32) {
        (0..seconds).for_each(|_| self.second(w));
    }
}

fn paused(w: &World) -> Option<ReasonCode> {
    let rollout = w.state.0.base.switch_rollout.as_ref()?;
    Some(rollout.paused.as_ref()?.code.clone())
}

#[test]
fn a_configuration_gets_to_every_switch_stage_by_stage() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.seconds(&mut w, 2);
    let plan = w.state.switch_plan(order(), w.now).unwrap();
    assert_eq!(
        plan.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        ["canary p0r0", "rail 0", "pod p0", "pod p1"]
    );
    assert!(roll_out(&mut w) && !roll_out(&mut w));
    all.seconds(&mut w, 60);
    assert_eq!(all.trials, ["p0r0", "p1r0", "p0r1", "p1r1"].map(switch));
    let view = w.state.switch_rollout_view(w.now);
    assert!(view.done && view.active_total == 0, "{view:?}");
    assert!(
        all.agents
            .values()
            .all(|agent| agent.has && agent.progress.as_ref().unwrap().state == QosState::Kept)
    );
    assert!(w.drained.values().all(BTreeSet::is_empty));
    // Nothing begins where all have it.
    assert!(!roll_out(&mut w));
    assert!(w.state.switch_plan(order(), w.now).unwrap().unchanged);
}

#[test]
fn what_fails_pauses_the_rollout_and_is_tried_again_where_it_goes_on() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agent("p1r0").fails = true;
    all.seconds(&mut w, 1);
    roll_out(&mut w);
    all.seconds(&mut w, 40);
    assert_eq!(paused(&w), Some(ReasonCode::SwitchFailed));
    assert!(w.drained.values().all(BTreeSet::is_empty));
    assert_eq!(all.trials, [switch("p0r0")]);
    all.agent("p1r0").fails = false;
    control(&mut w, QosAction::Resume);
    all.seconds(&mut w, 60);
    assert!(w.state.switch_rollout_view(w.now).done);
}

#[test]
fn a_session_that_a_trial_ends_takes_it_back_and_one_that_never_was_does_not() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agent("p0r0").cuts = true;
    all.seconds(&mut w, 2);
    roll_out(&mut w);
    all.seconds(&mut w, 30);
    let rollout = w.state.base.switch_rollout.clone().unwrap();
    let paused = rollout.paused.as_ref().unwrap();
    assert!(matches!(paused.code, ReasonCode::SwitchUnwell | ReasonCode::SwitchFailed), "{paused:?}");
    assert!(!all.agent("p0r0").has && w.drained.values().all(BTreeSet::is_empty));
    // Had it no session before, nobody waits for one whose other end was never heard.
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agent("p0r0").cuts = true;
    all.seconds(&mut w, 2);
    let agent = all.agent("p0r0").clone();
    let on_trial = |w: &World, generation| {
        let (state, message) = (QosState::Trial, String::new());
        let progress = Some(SwitchProgress { state, generation, message, observed_number: 1 });
        Agent { progress, has: true, had: false, ..agent.clone() }.report(w.state.base.switch_plans)
    };
    roll_out(&mut w);
    let generation = w.state.base.switch_rollout.as_ref().unwrap().generation;
    let report = on_trial(&w, generation);
    say(&mut w, &switch("p0r0"), report.clone());
    let unwell = |w: &World| {
        let rollout = w.state.base.switch_rollout.clone().unwrap();
        let units = w.state.switch_units(&rollout, w.now);
        units.into_iter().find(|unit| unit.name == switch("p0r0")).unwrap().unwell
    };
    assert_eq!(unwell(&w), None);
    // One to a switch that has what it is to have is asked for, and so is any word at all of them.
    let mut to_leaf = report.clone();
    to_leaf.sessions.iter_mut().flatten().for_each(|session| session.peer = Some(switch("p1r1")));
    say(&mut w, &switch("p0r0"), to_leaf);
    assert_eq!(unwell(&w), None, "p1r1 has it not yet");
    all.agent("p1r1").has = true;
    let ready = all.agent("p1r1").report(w.state.base.switch_plans);
    say(&mut w, &switch("p1r1"), ready);
    assert!(unwell(&w).unwrap().contains("with 'p1r1' on Ethernet8 is active"), "{:?}", unwell(&w));
    say(&mut w, &switch("p0r0"), SwitchReport { sessions: None, ..report });
    assert!(unwell(&w).unwrap().contains("does not say"), "{:?}", unwell(&w));
}

#[test]
fn what_was_compared_before_a_plan_changed_does_not_count_when_it_comes_after() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agents.values_mut().for_each(|agent| agent.has = true);
    all.seconds(&mut w, 2);
    let standing = |w: &World| w.state.base.switch_views[&switch("p0r1")].report.standing;
    // Compared, and on its way to the core while a document changes.
    let late = all.agent("p0r1").report(w.state.base.switch_plans);
    known(&mut w, "p0r1", true);
    say(&mut w, &switch("p0r1"), late);
    assert_eq!(standing(&w), SwitchStanding::Unread);
    let current = all.agent("p0r1").report(w.state.base.switch_plans);
    say(&mut w, &switch("p0r1"), current);
    assert_eq!(standing(&w), SwitchStanding::Same);
    // Another profile changes what all are to have; the same one does not.
    let plans = |w: &World| w.state.base.switch_plans;
    let before = plans(&w);
    roll_out(&mut w);
    assert_eq!(plans(&w), before);
    all.seconds(&mut w, 3);
    assert!(w.state.switch_rollout_view(w.now).done && all.trials.is_empty());
    let other = SwitchOrder { default_profile: r#"{"x": 1}"#.into(), ..order() };
    let report = all.agent("p0r1").report(before);
    w.ok(Event::Switch(SwitchEvent::RollOut(Box::new(other))));
    assert!(plans(&w) > before && !w.state.switch_rollout_view(w.now).done);
    say(&mut w, &switch("p0r1"), report);
    assert_eq!(standing(&w), SwitchStanding::Unread);
    all.agents.values_mut().for_each(|agent| agent.has = false);
    all.seconds(&mut w, 60);
    assert!(w.state.switch_rollout_view(w.now).done);
    assert_eq!(all.trials.len(), LEAVES.len());
    control(&mut w, QosAction::RollBack);
    let back = plans(&w);
    control(&mut w, QosAction::Pause);
    control(&mut w, QosAction::Resume);
    assert_eq!(plans(&w), back);
}

#[test]
fn a_link_that_stays_down_takes_the_trial_back() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.seconds(&mut w, 1);
    roll_out(&mut w);
    all.seconds(&mut w, 2);
    let mut dark = inventory(4, 2);
    dark.nics[0].up = false;
    let session = w.state.session(&name(0)).unwrap();
    w.step(Event::AgentInventory { node: name(0), session, inventory: Arc::new(dark) });
    all.seconds(&mut w, 30);
    assert!(
        matches!(paused(&w), Some(ReasonCode::SwitchUnwell | ReasonCode::SwitchFailed)),
        "{:?}",
        paused(&w)
    );
    assert!(!all.agent("p0r0").has);
    assert!(w.drained.values().all(BTreeSet::is_empty));
}

#[test]
fn drift_is_reported_and_put_right_only_where_that_is_asked_for() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.seconds(&mut w, 1);
    roll_out(&mut w);
    all.seconds(&mut w, 60);
    all.agent("p0r1").has = false;
    all.seconds(&mut w, 30);
    assert!(!all.agent("p0r1").has);
    known(&mut w, "p0r1", true);
    all.seconds(&mut w, 30);
    assert!(all.agent("p0r1").has, "{:?}", w.state.switch_rollout_view(w.now));
    // Who asks for it has it put right, too.
    all.agent("p1r1").has = false;
    all.seconds(&mut w, 2);
    assert!(roll_out(&mut w));
    all.seconds(&mut w, 60);
    assert!(all.agent("p1r1").has);
}

#[test]
fn what_was_read_back_before_a_document_changed_does_not_count() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agents.values_mut().for_each(|agent| agent.has = true);
    all.seconds(&mut w, 2);
    // All are as they were to be; then one is to be otherwise, and nothing of it was read back since.
    known(&mut w, "p0r1", true);
    assert!(roll_out(&mut w));
    assert!(!w.state.switch_rollout_view(w.now).done);
    all.agent("p0r1").has = false;
    all.seconds(&mut w, 60);
    assert!(w.state.switch_rollout_view(w.now).done);
    assert_eq!(all.trials, [switch("p0r1")]);
    // The same after a rollout that is done, by which it was kept.
    known(&mut w, "p0r1", false);
    assert!(roll_out(&mut w) && !w.state.switch_rollout_view(w.now).done);
    all.agent("p0r1").has = false;
    all.seconds(&mut w, 60);
    assert!(w.state.switch_rollout_view(w.now).done && all.agent("p0r1").has);
}

#[test]
fn what_was_read_back_before_the_fabric_changed_does_not_count() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.agents.values_mut().for_each(|agent| agent.has = true);
    all.seconds(&mut w, 2);
    let same = |w: &World| {
        let views = w.state.base.switch_views.values();
        views.filter(|view| view.report.standing == SwitchStanding::Same).count()
    };
    assert_eq!(same(&w), LEAVES.len());
    let apply = |is_down: bool, dry_run: bool| {
        let Event::ApplyFabric { mut fabric, .. } = fabric() else { panic!() };
        fabric.links[0].down = is_down;
        Event::ApplyFabric { fabric, allow_shrink: false, dry_run }
    };
    // Neither what is only tried nor the document that is there changes what a switch is to have.
    w.ok(apply(true, true));
    w.ok(apply(false, false));
    assert_eq!(same(&w), LEAVES.len());
    w.ok(apply(true, false));
    assert_eq!(same(&w), 0);
    assert!(roll_out(&mut w) && !w.state.switch_rollout_view(w.now).done);
    all.seconds(&mut w, 60);
    assert!(w.state.switch_rollout_view(w.now).done);
    assert_eq!(all.trials, [], "all of them have it already");
}

#[test]
fn pause_takes_a_trial_back_and_what_is_cancelled_never_goes_on() {
    let mut w = World::new();
    let mut all = Switches::new(&mut w);
    all.seconds(&mut w, 1);
    roll_out(&mut w);
    all.seconds(&mut w, 3);
    assert!(all.agent("p0r0").has);
    control(&mut w, QosAction::Pause);
    all.seconds(&mut w, 5);
    assert!(!all.agent("p0r0").has && w.drained.values().all(BTreeSet::is_empty));
    control(&mut w, QosAction::Cancel);
    let resume = Event::Switch(SwitchEvent::Control {
        action: QosAction::Resume,
        reason: String::new(),
        by: "admin/root".into(),
    });
    assert_eq!(w.refused(resume), CoreError::Switches(SwitchError::RolloutCancelled));
    let back = Event::Switch(SwitchEvent::Control {
        action: QosAction::RollBack,
        reason: String::new(),
        by: "admin/root".into(),
    });
    assert_eq!(w.refused(back), CoreError::Switches(SwitchError::NoProfileBefore));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever agents do, and whenever another controller takes over: never two rails of a server at once, nothing changes under a job's
    /// feet, nothing is kept that has ended a session (all asserted every second), and in the end all have it.
    #[test]
    fn it_comes_to_its_end(
        faults in proptest::collection::vec((0_usize..4, 0_u32..40, 0_u8..3, 1_u32..30), 0..6),
        restarts in proptest::collection::vec(0_u32..60, 0..4),
    ) {
        let mut w = World::new();
        let mut all = Switches::new(&mut w);
        all.seconds(&mut w, 1);
        roll_out(&mut w);
        for second in 0..80 {
            for (leaf, from, what, lasts) in &faults {
                let on = (*from..*from + *lasts).contains(&second);
                let agent = all.agent(LEAVES[*leaf]);
                match what {
                    0 => agent.deaf = on,
                    // Only with the next configuration: a session that ends by itself later is no fault of a trial.
                    1 if agent.progress.as_ref().is_none_or(|own| own.state != QosState::Trial) => agent.cuts = on,
                    1 => {}
                    _ => agent.fails = on,
                }
            }
            if restarts.contains(&second) {
                w.state = w.reload(7);
                (0..4).for_each(|n| w.connect(n, Vec::new()));
            }
            all.second(&mut w);
        }
        for agent in all.agents.values_mut() {
            (agent.deaf, agent.fails, agent.cuts) = (false, false, false);
        }
        for _ in 0..8 {
            if paused(&w).is_some() {
                control(&mut w, QosAction::Resume);
            }
            all.seconds(&mut w, 90);
        }
        prop_assert!(w.state.switch_rollout_view(w.now).done, "{:?}", w.state.switch_rollout_view(w.now));
        prop_assert!(all.agents.values().all(|agent| agent.has));
    }
}
