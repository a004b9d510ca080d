//! Random events, sensible and senseless: nothing panics, a rollback is exact, a reload is the same, nothing is held
//! twice, phases follow their graph.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;
use proto_model::{
    ArraySpec, Concurrency, Dependency, DependencyWhen, History, JobSchedule, Observed, Phase, RailLoss,
    Reason, ReasonCode, Replace, Requeue, Role,
};

use super::*;
use crate::{JobChange, JobOrder, JobUpdate, event::Transition};

#[derive(Debug, Clone)]
enum Act {
    Submit { job: u8, nodes: u32, gpus: u32, rails: u32, policy: u8, request: Option<u8> },
    Cancel(u8),
    Delete(u8),
    Observe { node: usize, job: u8, attempt_off: u32, state: usize, code: Option<i32>, cause: bool },
    Connect { node: usize, jobs: Vec<(u8, usize)> },
    Disconnect(usize),
    Gate { node: usize, closed: bool },
    RemoveNode { node: usize, force: bool },
    Join(usize),
    Quota(u32),
    Drain { node: usize, rail: u32, whole: bool, on: bool, force: bool },
    Array { job: u8, size: u32, at_once: u32 },
    Return(usize),
    Hold { job: u8, role: usize },
    Release { job: u8, role: usize },
    Suspend { job: u8, role: usize },
    Requeue(u8),
    Update { job: u8, what: u8, value: u32 },
    NicDown { node: usize, down: bool },
    Schedule { name: u8, what: u8, size: u32 },
    Unschedule(u8),
    Values(u8),
    Pass(u16),
}

const STATES: [Observed; 6] = [
    Observed::Preparing,
    Observed::Prepared,
    Observed::Starting,
    Observed::Running,
    Observed::Stopping,
    Observed::Ended,
];

fn act() -> impl Strategy<Value = Act> {
    let node = 0usize..4;
    let node2 = node.clone();
    prop_oneof![
        6 => (0u8..6, 1u32..4, 0u32..5, 0u32..3, 0u8..3, prop::option::of(0u8..4))
            .prop_map(|(job, nodes, gpus, rails, policy, request)| Act::Submit { job, nodes, gpus, rails, policy, request }),
        2 => (0u8..6).prop_map(Act::Cancel),
        1 => (0u8..6).prop_map(Act::Delete),
        16 => (node.clone(), 0u8..8, prop_oneof![9 => Just(0u32), 1 => Just(1)], 0usize..6, prop::option::weighted(0.3, 0i32..2), prop::bool::weighted(0.1))
            .prop_map(|(node, job, attempt_off, state, code, cause)| Act::Observe { node, job, attempt_off, state, code, cause }),
        3 => (node.clone(), prop::collection::vec((0u8..6, 0usize..6), 0..3)).prop_map(|(node, jobs)| Act::Connect { node, jobs }),
        2 => node.clone().prop_map(Act::Disconnect),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, closed)| Act::Gate { node, closed }),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, force)| Act::RemoveNode { node, force }),
        2 => node.prop_map(Act::Join),
        1 => (0u32..20).prop_map(Act::Quota),
        2 => (node2, 0u32..2, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(node, rail, whole, on, force)| Act::Drain { node, rail, whole, on, force }),
        1 => (0u8..3, 1u32..5, 0u32..3).prop_map(|(job, size, at_once)| Act::Array { job, size, at_once }),
        1 => (0usize..4).prop_map(Act::Return),
        2 => (0u8..9, 0usize..3).prop_map(|(job, role)| Act::Hold { job, role }),
        2 => (0u8..9, 0usize..3).prop_map(|(job, role)| Act::Release { job, role }),
        3 => (0u8..9, 0usize..3).prop_map(|(job, role)| Act::Suspend { job, role }),
        1 => (0u8..9).prop_map(Act::Requeue),
        2 => (0u8..9, 0u8..5, 0u32..4).prop_map(|(job, what, value)| Act::Update { job, what, value }),
        2 => (0usize..4, any::<bool>()).prop_map(|(node, down)| Act::NicDown { node, down }),
        2 => (0u8..3, 0u8..12, 0u32..4).prop_map(|(name, what, size)| Act::Schedule { name, what, size }),
        1 => (0u8..3).prop_map(Act::Unschedule),
        3 => (0u8..5).prop_map(Act::Values),
        4 => (0u16..60_000).prop_map(Act::Pass),
    ]
}

/// What an act is; what it takes to get there is done, and its transitions are in `before`.
fn event(w: &mut World, act: &Act, before: &mut Vec<Transition>) -> Option<Event> {
    let text = |job: &u8| format!("j{job}");
    Some(match act {
        Act::Submit { job, nodes, gpus, rails, policy, request } => {
            let mut spec = requeue(
                spec(*nodes, *gpus),
                [Requeue::Never, Requeue::OnInfrastructure, Requeue::OnAny][usize::from(*policy)],
                2,
            );
            spec.rails = RailRequest {
                required: *rails,
                allow_partial: *policy == 1,
                avoid_drained: *job % 3 == 1,
                ..RailRequest::default()
            };
            spec.priority = i32::from(*job) % 2;
            spec.time_limit = (*job == 3).then_some(Duration::from_secs(40));
            vary(&mut spec, *job, *gpus, w.now);
            let id = request.map(|r| format!("r{r}"));
            submit_as("red", &text(job), spec, id.as_deref().map(|id| (id, *job)))
        }
        Act::Cancel(job) => Event::Cancel { by: None, indices: Vec::new(), id: id(&text(job)), grace: None },
        Act::Delete(job) => Event::DeleteJob { by: None, indices: Vec::new(), id: id(&text(job)) },
        Act::Observe { node, job, attempt_off, state, code, cause } => {
            let session = w.state.session(&name(*node))?;
            let observation = observation(w, *node, *job, *attempt_off, *state, *code, *cause)?;
            Event::AgentObserved { node: name(*node), session, observation: Box::new(observation) }
        }
        Act::Connect { node, jobs } => {
            w.session += 1;
            let observations = jobs
                .iter()
                .filter_map(|(job, state)| observation(w, *node, *job, 0, *state, None, false))
                .collect();
            Event::AgentConnected(Box::new(Register {
                node: name(*node),
                session: w.session,
                agent_version: String::new(),
                inventory: Arc::new(inventory(4, 2)),
                observations,
                epoch: 7,
            }))
        }
        Act::Disconnect(node) => {
            Event::AgentDisconnected { node: name(*node), session: w.state.session(&name(*node))? }
        }
        Act::RemoveNode { node, force } => Event::DeleteNode { name: name(*node), force: *force, uid: None },
        Act::Join(node) => {
            let hash = [*node as u8; 32];
            let out = w.step(Event::CreateToken { node: name(*node), hash, lifetime: None });
            before.extend(out.transitions);
            Event::Join { node: name(*node), hash, csr: [9; 32] }
        }
        Act::Drain { node, rail, whole, on, force } => {
            let target = if *whole { rail.to_string() } else { format!("n{node}:{rail}") };
            let (reason, by) = (String::new(), String::new());
            match on {
                true => Event::DrainRail { target, reason, by, force: *force },
                false => Event::UndrainRail { target },
            }
        }
        Act::Pass(millis) => {
            w.now = w.now.plus(Duration::from_millis(u64::from(*millis)));
            Event::Tick
        }
        _ => return event_of_the_rest(w, act),
    })
}

fn event_of_the_rest(w: &mut World, act: &Act) -> Option<Event> {
    Some(match act {
        Act::Quota(gpus) => Event::ApplyTenant {
            name: tenant("red"),
            description: String::new(),
            quota: Quota::new(*gpus, 0),
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        },
        Act::Array { job, size, at_once } => {
            let array = ArraySpec { indices: (0..*size).collect(), at_once: *at_once };
            submit(&format!("a{job}"), JobSpec { array: Some(array), ..spec(1, 1) })
        }
        Act::Schedule { name, what, size } => scheduled(*name, *what, *size),
        Act::Gate { node, closed } => Event::UpdateNode {
            name: name(*node),
            change: crate::NodeChange::unschedulable(*closed, ""),
            if_version: 0,
        },
        Act::Values(what) => secret(*what),
        Act::Unschedule(name) => Event::DeleteSchedule {
            by: None,
            tenant: tenant("red"),
            name: schedules::called(&format!("s{name}")),
        },
        Act::Return(node) => Event::ReturnNode { name: name(*node) },
        Act::Hold { job, role } => Event::HoldJob { order: order(*job, *role), reason: String::new() },
        Act::Suspend { job, role } => Event::SuspendJob { order: order(*job, *role), reason: String::new() },
        Act::Requeue(job) => Event::RequeueJob { order: order(*job, 0), reason: String::new() },
        Act::Release { job, role } => Event::ReleaseJob(order(*job, *role)),
        Act::Update { job, what, value } => {
            let (priority, limit) = (*value as i32 - 1, Duration::from_secs(u64::from(*value) * 20));
            let change = match what {
                0 => JobChange { priority: Some(priority), ..JobChange::default() },
                1 => JobChange { time_limit: Some(Some(limit)), ..JobChange::default() },
                2 => JobChange { time_limit: Some(None), ..JobChange::default() },
                3 => JobChange { nodes: Some(*value), ..JobChange::default() },
                _ => JobChange { min_nodes: Some(*value), ..JobChange::default() },
            };
            let order = *order(*job, *value as usize % 3);
            Event::UpdateJob(Box::new(JobUpdate { order, change, if_version: 0 }))
        }
        Act::NicDown { node, down } => {
            let session = w.state.session(&name(*node))?;
            let mut inventory = inventory(4, 2);
            inventory.nics[1].up = !down;
            Event::AgentInventory { node: name(*node), session, inventory: Arc::new(inventory) }
        }
        _ => return None,
    })
}

/// The secret `s3` gets another value, keeps it, goes, or is not what jobs need any more.
fn secret(what: u8) -> Event {
    match what {
        0 => Event::DeleteValues(values::s3()),
        1 => values::secret(&[("OTHER", "x")]),
        _ => values::secret(&[("TOKEN", ["a", "b", "c"][usize::from(what - 2)])]),
    }
}

/// Agents that prepare an attempt were told what secrets hold now.
fn environments(w: &World, entry: &controller_state::rows::job::JobEntry) {
    let env = w.state.hidden_env(entry);
    let Some(attempt) = entry.attempt.as_ref().filter(|attempt| attempt.ending.is_none()) else { return };
    for (_, node) in
        controller_state::rows::job::gang(entry).filter(|(_, node)| w.state.session(node).is_some())
    {
        let reported = w.desired.get(&(node.clone(), entry.job.uid));
        if let Some((of, DesiredState::Prepared { env: reported, .. })) =
            reported.filter(|(of, _)| *of == attempt.attempt)
            && entry.job.status.phase != Phase::Running
        {
            assert_eq!((reported, *of), (&env, attempt.attempt), "{node} was told something else");
            assert_eq!(env.len(), entry.job.spec.work.env_from().len());
        }
    }
}

/// Jobs `j0` to `j5`, and arrays `a0` to `a2`.
fn order(job: u8, role: usize) -> Box<JobOrder> {
    let text = if job < 6 { format!("j{job}") } else { format!("a{}", job - 6) };
    Box::new(super::holds::order(&text, Role::ALL[role]))
}

/// Schedules `s0` to `s2`, of jobs or of arrays.
fn scheduled(name: u8, what: u8, size: u32) -> Event {
    let indices: Vec<u32> = (0..size).collect();
    let array = (size > 1).then_some(ArraySpec { indices, at_once: 1 });
    let cron = if what < 9 { "* * * * *" } else { "*/2 * * * *" };
    schedules::apply(JobSchedule {
        concurrency: Concurrency::ALL[usize::from(what % 3)],
        suspended: what == 11,
        starting_deadline: (what % 4 == 1).then_some(Duration::from_secs(30)),
        history: History { completed: size, failed: u32::from(what % 2) },
        ..schedules::schedule(&format!("s{name}"), cron, JobSpec { array, ..spec(1, 1) })
    })
}

/// Some jobs wait for another, some are elastic, some let nodes be replaced, some may be stopped for others.
fn vary(spec: &mut JobSpec, job: u8, gpus: u32, now: Timestamp) {
    match job {
        0 => {
            let other = JobName::new("j1").unwrap();
            spec.after = vec![Dependency { job: other, when: DependencyWhen::ALL[gpus as usize % 4] }];
        }
        1 => {
            spec.gang.min_nodes = 1;
            values::refer(spec);
        }
        2 => {
            values::refer(spec);
            spec.failure.replace = Replace::Any;
            spec.failure.max_replacements = 3;
            spec.failure.on_rail_loss = RailLoss::ALL[gpus as usize % 3];
            spec.placement.spares = u32::from(gpus == 1);
        }
        4 => {
            spec.preemption.preemptible = true;
            spec.priority = -5;
        }
        3 if gpus == 1 => {
            spec.components = components::of(&[("a", 1, 2, 1), ("b", 1, 0, 1)]);
            spec.gang = proto_model::Component::gang(&spec.components);
        }
        3 if gpus == 2 => spec.deadline = Some(now.plus(Duration::from_secs(60))),
        5 => spec.begin = Some(now.plus(Duration::from_secs(u64::from(gpus) * 5))),
        _ => {}
    }
}

fn observation(
    w: &World,
    node: usize,
    job: u8,
    attempt_off: u32,
    state: usize,
    code: Option<i32>,
    cause: bool,
) -> Option<Observation> {
    let text = if job < 6 { format!("j{job}") } else { format!("a0-{}", job - 6) };
    w.state.job(&id(&text))?;
    let job = w.job(&text);
    let rank =
        job.status.placement.as_ref().and_then(|p| p.nodes.iter().position(|place| place.node == name(node)));
    let exits = code.map(|code| RankExit {
        rank: rank.unwrap_or(7) as u32,
        code,
        signal: 0,
        time: w.now,
        usage: proto_model::RankUsage::default(),
    });
    let seen = w.seen(&text, node, STATES[state]);
    Some(Observation {
        attempt: seen.attempt.saturating_sub(attempt_off),
        exits: exits.into_iter().collect(),
        cause: cause.then(|| Reason::new(ReasonCode::EngineLost, "killed")),
        ..seen
    })
}

fn invariants(w: &World, transitions: &[Transition], phases: &mut BTreeMap<JobUid, (Phase, u32)>) {
    for t in transitions {
        let (phase, attempt) = phases.entry(t.uid).or_insert((Phase::Pending, 1));
        assert_eq!(*phase, t.from, "a transition was not told");
        assert!(t.from.may_become(t.to), "{t:?}");
        assert!(t.attempt >= *attempt);
        (*phase, *attempt) = (t.to, t.attempt);
    }
    let mut held = BTreeSet::new();
    let mut gpus = 0;
    let mut turns: BTreeMap<JobName, u32> = BTreeMap::new();
    for job in w.state.jobs(None) {
        let status = &job.status;
        assert_eq!(phases.get(&job.uid).map_or((Phase::Pending, 1), |p| *p), (status.phase, status.attempt));
        let entry = &w.state.base.jobs[&job.uid];
        let somebody_holds = !status.holds.is_empty();
        assert!(!somebody_holds || !status.phase.is_terminal(), "{status:?}");
        assert!(!somebody_holds || status.phase != Phase::Pending || entry.held, "{status:?}");
        assert_eq!(entry.attempt.is_some(), status.phase.holds());
        assert!(
            status.reasons.iter().all(|reason| reason.code != ReasonCode::PlacementRefused),
            "{status:?}"
        );
        let goes_on = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_none());
        environments(w, entry);
        assert!(!goes_on || status.holds.iter().all(|hold| !hold.suspended), "{status:?}");
        if !status.phase.holds() {
            continue;
        }
        if let (Some(place), Some(array)) = (&status.array, &job.spec.array) {
            let turns = turns.entry(place.array.clone()).or_default();
            *turns += 1;
            assert!(array.at_once == 0 || *turns <= array.at_once, "{turns} of {array:?} at once");
        }
        let placement = status.placement.as_ref().unwrap();
        let gang = job.spec.gang;
        let placed = placement.nodes.len() as u32;
        assert!((gang.min_nodes..=gang.nodes).contains(&placed), "{placed} of {gang:?}");
        for place in placement.nodes.iter().chain(&placement.spares) {
            gpus += place.gpus.len();
            for gpu in &place.gpus {
                assert!(held.insert((place.node.clone(), "gpu", *gpu)), "a GPU is held twice");
            }
            for nic in &place.nics {
                assert!(held.insert((place.node.clone(), "nic", nic.rail)), "a NIC is held twice");
            }
        }
    }
    let mut runs: BTreeMap<_, BTreeSet<JobUid>> = BTreeMap::new();
    for job in w.state.jobs(None) {
        let Some(run) = &job.status.schedule else { continue };
        runs.entry((run.schedule.clone(), run.time)).or_default().insert(job.uid);
        let array = job.status.array.as_ref().map_or(&job.id.name, |place| &place.array);
        assert_eq!(run.time.0 % 60_000, 0);
        assert_eq!(array.as_str(), format!("{}-{}", run.schedule, clock(run.time)));
    }
    let known = w.state.index.runs.iter().flat_map(|((_, name), times)| {
        times.iter().map(move |(time, jobs)| ((name.clone(), *time), jobs.clone()))
    });
    assert!(runs.into_iter().eq(known), "runs are not what jobs say");
    for n in (0..4).filter(|n| w.state.session(&name(*n)).is_some()) {
        let drained: BTreeSet<u32> = w.state.drained_rails(&name(n)).iter().collect();
        assert_eq!(w.drained[&name(n)], drained, "n{n} does not know what is drained");
    }
    assert_eq!(gpus as u64, w.state.usage(&tenant("red")).gpus_used);
}

/// Who waits, and is not held by people, has an expected start, or is told why there is none; and always why it waits.
fn forecasts(w: &World) {
    let waits = |job: &&Arc<proto_model::Job>| job.status.phase == Phase::Pending;
    let ids: Vec<JobId> = w.state.jobs(None).filter(waits).map(|job| job.id.clone()).collect();
    for (id, prospect) in ids.iter().zip(w.state.prospects(&ids, w.now)) {
        let job = w.state.job(id).unwrap();
        let reasons: Vec<&Reason> = prospect.stored.iter().chain(&prospect.reasons).collect();
        assert!(!reasons.is_empty(), "{id} waits without a reason");
        let said = prospect.eta.is_some() || !job.status.holds.is_empty();
        assert!(said || reasons.iter().any(|reason| OPEN_ENDED.contains(&reason.code)), "{id}: {reasons:?}");
    }
}

/// Causes for which nobody can say when a job starts.
const OPEN_ENDED: [ReasonCode; 9] = [
    ReasonCode::Dependency,
    ReasonCode::DependencyNeverMet,
    ReasonCode::ArrayTurn,
    ReasonCode::GangShape,
    ReasonCode::NodeShape,
    ReasonCode::NodeNotReady,
    ReasonCode::NodeUnschedulable,
    ReasonCode::QuotaTooSmall,
    ReasonCode::RailDrained,
];

/// Whether what is applied would be taken; `None` for what has no dry run, and where the queue is to be looked at anyhow.
fn dry_run(state: &mut State, event: &Event, now: Timestamp) -> Option<bool> {
    let inner = if let Event::Attributed(by) = event { &by.event } else { event };
    let applied = matches!(inner, Event::Submit(_) | Event::ApplyTenant { .. } | Event::ApplySchedule { .. });
    if !applied || state.next_tick().is_some_and(|due| due <= now) {
        return None;
    }
    // Twice, so that the second is judged beside the first.
    let events = vec![inner.clone(), inner.clone()];
    let mut random = 5;
    let out = step(state, Event::DryRun(events), now, &mut |buffer| fill(&mut random, buffer));
    assert!(out.writes.is_empty() && out.pushes.is_empty() && out.transitions.is_empty(), "{out:?}");
    let Some(Ok(Reply::DryRun(reported))) = out.reply else { panic!("{:?}", out.reply) };
    state.commit(1);
    Some(reported[0].is_ok())
}

/// `19700101-0017`.
fn clock(time: Timestamp) -> String {
    let digits: String = time.utc().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{}", &digits[..8], &digits[8..12])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_events(acts in prop::collection::vec(act(), 1..120), fail in prop::collection::vec(prop::bool::weighted(0.2), 120)) {
        let mut w = World::new();
        w.ok(secret(2));
        let (mut phases, mut truth) = (BTreeMap::new(), super::usage::Truth::default());
        for (act, fail) in acts.iter().zip(fail) {
            let mut before = Vec::new();
            let event = event(&mut w, act, &mut before);
            invariants(&w, &before, &mut phases);
            truth.follow(&w, &before);
            truth.check(&w);
            let Some(event) = event else { continue };
            let before = w.state.clone();
            let mut random = 5;
            let event = super::attributed(&w.state, event);
            if fail {
                // A transaction that fails: exactly as before, whatever the step did.
                for _ in 0..2 {
                    step(&mut w.state, event.clone(), w.now, &mut |buffer| fill(&mut random, buffer));
                }
                w.state.rollback();
                prop_assert!(w.state.same(&before), "rollback of {event:?}");
                continue;
            }
            let quota = w.state.tenant(&tenant("red")).unwrap().quota.gpus;
            let held = w.state.usage(&tenant("red")).gpus_used;
            let predicted = dry_run(&mut w.state, &event, w.now);
            prop_assert!(predicted.is_none() || w.state.same(&before), "a dry run left something: {event:?}");
            let out = w.step(event.clone());
            if let Some(predicted) = predicted {
                prop_assert_eq!(predicted, matches!(out.reply, Some(Ok(_))), "{:?}", event);
            }
            prop_assert!(out.writes.len() <= 120, "{} writes", out.writes.len());
            if matches!(out.reply, Some(Err(_))) {
                prop_assert!(w.state.same(&before), "a refusal changed something: {event:?}");
            }
            prop_assert_eq!(&w.reload(7).base.chains, &w.state.base.chains);
            invariants(&w, &out.transitions, &mut phases);
            truth.follow(&w, &out.transitions);
            truth.check(&w);
            forecasts(&w);
            let after = w.state.usage(&tenant("red")).gpus_used;
            prop_assert!(after <= held || after <= u64::from(quota.max(w.state.tenant(&tenant("red")).unwrap().quota.gpus)));
            phases.retain(|uid, _| w.state.job_by_uid(uid).is_some());
        }
        // A new controller finds the same, apart from what agents must tell it again.
        w.state.0.config.due_limit = 1000;
        w.tick(Duration::ZERO);
        let fresh = w.reload(8);
        let jobs = |state: &State| state.base.jobs.values().map(|e| (e.job.clone(), e.attempt.clone())).collect::<Vec<_>>();
        prop_assert_eq!(jobs(&fresh), jobs(&w.state));
        prop_assert_eq!(&fresh.base.usage, &w.state.base.usage);
        prop_assert_eq!(&fresh.index.usage, &w.state.index.usage);
        prop_assert_eq!(&fresh.index.holding, &w.state.index.holding);
        prop_assert_eq!(&fresh.base.values, &w.state.base.values);
        prop_assert_eq!(&fresh.base.nodes, &w.state.base.nodes);
        prop_assert_eq!(&fresh.base.requests, &w.state.base.requests);
        prop_assert_eq!(&fresh.base.tokens, &w.state.base.tokens);
        prop_assert_eq!(&fresh.index.holds, &w.state.index.holds);
        prop_assert_eq!(&fresh.index.names, &w.state.index.names);
        prop_assert_eq!(&fresh.index.tenants, &w.state.index.tenants);
        prop_assert_eq!(&fresh.index.runs, &w.state.index.runs);
        let schedules = |state: &State| state.base.schedules.values().map(|e| e.schedule.clone()).collect::<Vec<_>>();
        prop_assert_eq!(schedules(&fresh), schedules(&w.state));
    }
}
