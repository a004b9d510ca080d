//! Two tenants on the same servers: whatever happens, what is told to the people of one names nothing of the other.

use std::collections::BTreeSet;

use proto_model::{Observed, Preemption, Reason, Reservation};

use super::{
    documents::{apply, reservation},
    *,
};
use crate::Detail;

/// A seeded stream of small numbers.
struct Dice(u64);

impl Dice {
    fn under(&mut self, most: u64) -> u64 {
        let mut bytes = [0; 8];
        fill(&mut self.0, &mut bytes);
        u64::from_le_bytes(bytes) % most
    }
}

/// What of a tenant must not be told to others: its name and those of its things.
fn marks(owner: &str) -> [&'static str; 3] {
    if owner == "red" { ["red/", "'red'", "sun"] } else { ["blue", "moon", "lunar"] }
}

fn other(owner: &str) -> &'static str {
    if owner == "red" { "blue" } else { "red" }
}

/// What a reader of that tenant is told.
fn reported(reason: &Reason, reader: &TenantName) -> String {
    match reason.named.as_ref().filter(|named| named.to.contains(reader)) {
        Some(named) => format!("{} {} {}", reason.code, named.message, named.scope),
        None => format!("{} {} {}", reason.code, reason.message, reason.scope),
    }
}

fn some_spec(dice: &mut Dice, reserved: bool) -> JobSpec {
    let priority = dice.under(3) as i32 * 10 - 10;
    let nodes = 1 + dice.under(4) as u32;
    let mut made = spec(nodes, 1 + dice.under(4) as u32);
    made.priority = priority;
    made.preemption = Preemption { preemptible: dice.under(2) == 0, ..Preemption::of_priority(priority) };
    made.gang.min_nodes = if dice.under(2) == 0 { 1 } else { nodes };
    made.expected = (dice.under(2) == 0).then(|| Duration::from_secs(600 + dice.under(7200)));
    made.placement.spares = if dice.under(4) == 0 { 1 } else { 0 };
    made.placement.exclusive = dice.under(3) == 0;
    if reserved {
        made.reservation = Some("lunar".parse().unwrap());
    }
    made
}

fn submit_some(w: &mut World, dice: &mut Dice, count: u64) {
    let (owner, kind) = if dice.under(2) == 0 { ("red", "sun") } else { ("blue", "moon") };
    let reserved = owner == "blue" && dice.under(6) == 0;
    let made = some_spec(dice, reserved);
    // Some ask for what there is not, or is not there any more.
    drop(w.step(submit_as(owner, &format!("{kind}-{count}"), made, None)));
}

/// One job that holds something goes on.
fn advance(w: &mut World, dice: &mut Dice) {
    let holding = |entry: &&controller_state::rows::job::JobEntry| entry.job.status.phase.holds();
    let jobs: Vec<Arc<Job>> =
        w.state.base.jobs.values().filter(holding).map(|entry| Arc::clone(&entry.job)).collect();
    if jobs.is_empty() {
        return;
    }
    let job = &jobs[dice.under(jobs.len() as u64) as usize];
    let state = match job.status.phase {
        Phase::Reserved => Observed::Prepared,
        Phase::Preparing => Observed::Running,
        Phase::Running if dice.under(3) > 0 => return,
        _ => Observed::Ended,
    };
    let code = if dice.under(4) == 0 { 1 } else { 0 };
    for (rank, place) in job.status.placement.clone().unwrap().nodes.iter().enumerate() {
        let exit = RankExit {
            rank: rank as u32,
            code,
            signal: 0,
            time: w.now,
            usage: proto_model::RankUsage::default(),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 4000));
        let ended = state == Observed::Ended;
        let observation = Observation {
            uid: job.uid,
            attempt: job.status.attempt,
            state,
            endpoints: if ended { Vec::new() } else { vec![RailEndpoint { rail: 0, address }] },
            exits: if ended { vec![exit] } else { Vec::new() },
            cause: None,
            result: None,
            rails: Vec::new(),
            reports: Vec::new(),
            choices: Vec::new(),
            measured: None,
        };
        let node: usize = place.node.as_str()[1..].parse().unwrap();
        if w.state.session(&place.node).is_some() {
            w.report(node, observation);
        }
    }
}

fn reserve(w: &mut World, dice: &mut Dice) {
    let start = w.now.plus(Duration::from_secs(dice.under(3000)));
    let first = dice.under(3) as usize;
    let made = Reservation {
        tenants: vec![tenant("blue")],
        reason: "the lunar landing".to_owned(),
        ..reservation("lunar", &[first, first + 1], start)
    };
    drop(w.step(apply(made)));
}

fn happens(w: &mut World, dice: &mut Dice, count: u64) {
    match dice.under(12) {
        0..5 => submit_some(w, dice, count),
        5..9 => advance(w, dice),
        9 => reserve(w, dice),
        10 => {
            let (n, by) = (dice.under(4) as usize, Duration::from_secs(dice.under(900)));
            if dice.under(4) > 0 {
                w.tick(by);
            } else if w.state.session(&name(n)).is_some() {
                w.disconnect(n);
            } else {
                w.connect(n, Vec::new());
            }
        }
        _ => {
            let target = w.state.target(&format!("n{}:{}", dice.under(4), dice.under(2)));
            if let Ok(target) = target {
                let (reason, by) = (String::new(), "admin/root".to_owned());
                drop(w.step(Event::DrainRail { target: target.to_string(), reason, by, force: true }));
            }
        }
    }
}

/// Everything that a tenant's people can be told of its jobs, and of one that they might submit.
fn check(w: &World, dice: &mut Dice, named: &mut BTreeSet<String>) {
    let jobs: Vec<Arc<Job>> = w.state.base.jobs.values().map(|entry| Arc::clone(&entry.job)).collect();
    let mut all: Vec<(&str, Vec<Reason>)> = Vec::new();
    for job in &jobs {
        let owner = if job.id.tenant.as_str() == "red" { "red" } else { "blue" };
        let mut reasons = job.status.reasons.clone();
        reasons.extend(job.status.placement.iter().flat_map(|placement| placement.reasons.clone()));
        let explained = w.state.explain(&job.id, w.now).unwrap();
        reasons.extend(explained.reasons);
        let past = w.state.explain_at(&job.id, Timestamp(0), w.now);
        reasons
            .extend(past.into_iter().flat_map(|past| past.decisions).flat_map(|(_, record)| record.reasons));
        all.push((owner, reasons));
    }
    for owner in ["red", "blue"] {
        let planned = w.state.plan(&tenant(owner), &by(Role::Admin), &some_spec(dice, false), w.now);
        let reasons = match planned {
            Ok(plan) => {
                let _: Option<Detail> = plan.detail;
                plan.reasons
            }
            Err(error) => {
                assert!(!marks(other(owner)).iter().any(|mark| error.to_string().contains(mark)), "{error}");
                error.reasons().to_vec()
            }
        };
        all.push((owner, reasons));
    }
    for (owner, reasons) in all {
        for reason in reasons {
            let text = reported(&reason, &tenant(owner));
            let leak = marks(other(owner)).into_iter().find(|mark| text.contains(mark));
            assert_eq!(leak, None, "people of {owner} are told: {text}");
            // Where no care is taken of who reads, nobody is named at all.
            if let Some(words) = &reason.named {
                let both = [marks("red"), marks("blue")].concat();
                let plain = format!("{} {}", reason.message, reason.scope);
                assert!(!both.iter().any(|mark| plain.contains(mark)), "{plain}");
                assert!(both.iter().any(|mark| words.message.contains(mark) || words.scope.contains(mark)));
                named.insert(reason.code.to_string());
            }
        }
    }
}

#[test]
fn nothing_that_is_told_to_one_tenant_names_a_thing_of_the_other() {
    let mut named = BTreeSet::new();
    for seed in 0..48 {
        let (mut w, mut dice) = (World::new(), Dice(seed));
        let quota = |text: &str| Event::ApplyTenant {
            name: tenant(text),
            description: String::new(),
            quota: Quota::new(16, 0),
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        };
        w.ok(quota("blue"));
        for count in 0..40 {
            happens(&mut w, &mut dice, count);
            check(&w, &mut dice, &mut named);
        }
    }
    // The names were there to be told.
    for code in ["Preempted", "PreemptedForPriority", "ReservationInTheWay", "Resized"] {
        assert!(named.contains(code), "{code} never came to pass: {named:?}");
    }
}
