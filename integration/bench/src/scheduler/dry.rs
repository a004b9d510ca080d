//! C9: what a plan says, and what a submit of the same job on the same state does.

use std::collections::BTreeMap;

use controller_core::{Config, CoreError, Event, Naming, Register, State, Stored, Submit, step};
use proto_model::{
    Authority, Fabric, Inventory, JobId, JobName, JobSpec, Leaf, Link, Nic, NodeName, Quota, Rail, Role,
    TenantName, Timestamp, Within,
};
use serde_json::json;

use super::{Bench, explain::spec, site::Dice};
use crate::report::{Cpu, Goal, Line, Row, Sample};

const RAILS: u32 = 4;

type Fault = String;

/// One controller in memory.
struct Site {
    state: State,
    now: Timestamp,
    seed: u64,
    revision: u64,
}

fn text(error: impl ToString) -> Fault {
    error.to_string()
}

impl Site {
    fn step(&mut self, event: Event) -> Result<controller_core::Reply, CoreError> {
        let seed = &mut self.seed;
        let mut random = |buffer: &mut [u8]| {
            for byte in buffer {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (*seed >> 56) as u8;
            }
        };
        let out = step(&mut self.state, event, self.now, &mut random);
        self.revision += 1;
        self.state.commit(self.revision);
        out.reply.unwrap_or(Ok(controller_core::Reply::Done))
    }

    /// Until nothing more is to be done at this time.
    fn settle(&mut self) {
        for _ in 0..64 {
            if self.state.next_tick().is_none_or(|time| time > self.now) {
                return;
            }
            // Ticks are answered by nothing that matters here.
            let _ = self.step(Event::Tick);
        }
    }

    fn submit(&mut self, tenant: &TenantName, name: String, spec: JobSpec) -> Result<JobId, CoreError> {
        let name = JobName::new(name)
            .map_err(|error| CoreError::Invalid { field: "name", message: error.to_string() })?;
        let id = JobId { tenant: tenant.clone(), name: name.clone() };
        self.step(Event::Submit(Box::new(Submit {
            tenant: tenant.clone(),
            by: root(),
            name: Naming::Name(name),
            labels: BTreeMap::new(),
            spec: Box::new(spec),
            request: None,
            digest: [0; 32],
            trace_parent: String::new(),
            hold: false,
        })))?;
        Ok(id)
    }

    /// A random cluster with random jobs on it and before it.
    fn random(dice: &mut Dice) -> Result<(Self, TenantName), Fault> {
        let now = Timestamp(1_000_000);
        let state = State::load(Config::default(), 1, now, Stored::default()).map_err(text)?;
        let mut site = Self { state, now, seed: u64::from(dice.below(u32::MAX)), revision: 0 };
        let tenant = TenantName::new("nlp").map_err(text)?;
        let quota = Quota::new(8 * (1 + dice.below(24)), 0);
        let name = tenant.clone();
        site.step(Event::ApplyTenant {
            name,
            description: String::new(),
            quota,
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        })
        .map_err(text)?;
        let nodes = 2 + dice.below(12);
        let names: Vec<NodeName> = (0..nodes)
            .map(|at| NodeName::new(format!("n{at:02}")))
            .collect::<Result<_, _>>()
            .map_err(text)?;
        let fabric = Box::new(fabric(&names, dice));
        site.step(Event::ApplyFabric { fabric, allow_shrink: false, dry_run: false }).map_err(text)?;
        for (at, node) in names.iter().enumerate() {
            let hash = [at as u8; 32];
            site.step(Event::CreateToken { node: node.clone(), hash, lifetime: None }).map_err(text)?;
            site.step(Event::Join { node: node.clone(), hash, csr: [9; 32] }).map_err(text)?;
            if dice.below(12) > 0 {
                site.step(Event::AgentConnected(Box::new(Register {
                    node: node.clone(),
                    session: 1 + at as u64,
                    agent_version: "1".into(),
                    inventory: inventory(dice).into(),
                    observations: Vec::new(),
                    epoch: 0,
                })))
                .map_err(text)?;
            }
        }
        for at in 0..dice.below(10) {
            // Refused ones are not there.
            let _ = site.submit(&tenant, format!("old-{at}"), job(dice, &names));
        }
        site.settle();
        Ok((site, tenant))
    }
}

fn fabric(names: &[NodeName], dice: &mut Dice) -> Fabric {
    let mut fabric = Fabric::default();
    let pods = 1 + dice.below(3);
    let place: Vec<u32> = names.iter().map(|_| dice.below(pods)).collect();
    for rail in 0..RAILS {
        fabric.rails.push(Rail { index: rail, name: format!("r{rail}") });
        for pod in 0..pods {
            let leaf =
                Leaf { name: format!("l{pod}-{rail}"), rail, pod: format!("p{pod}"), ..Leaf::default() };
            fabric.leaves.push(leaf);
        }
        for (name, pod) in names.iter().zip(&place) {
            fabric.links.push(Link {
                node: name.clone(),
                nic: format!("mlx5_{rail}"),
                leaf: format!("l{pod}-{rail}"),
                port: String::new(),
                speed_mbps: 0,
                down: false,
                rail: None,
            });
        }
    }
    fabric
}

fn inventory(dice: &mut Dice) -> Inventory {
    let gpus = *dice.one(&[8, 8, 8, 4]);
    let gpu = |index| proto_model::Gpu {
        index,
        uuid: String::new(),
        model: String::new(),
        pci_address: String::new(),
        numa_node: None,
        memory_bytes: 0,
        facts: None,
    };
    let down = if dice.below(6) == 0 { dice.below(RAILS) } else { RAILS };
    let nic = |rail: u32| Nic {
        device: format!("mlx5_{rail}"),
        netdev: format!("eth{rail}"),
        pci_address: String::new(),
        numa_node: None,
        rail,
        address: None,
        mtu: 9000,
        speed_mbps: 0,
        up: rail != down,
        gid_index: None,
        facts: None,
    };
    Inventory {
        gpus: (0..gpus).map(gpu).collect(),
        nics: (0..RAILS).map(nic).collect(),
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        ..Inventory::default()
    }
}

fn job(dice: &mut Dice, names: &[NodeName]) -> JobSpec {
    let nodes = 1 + dice.below(6);
    let mut spec = spec(nodes);
    spec.gang.gpus_per_node = *dice.one(&[8, 8, 4, 2, 0]);
    spec.gang.ranks_per_node = spec.gang.gpus_per_node.max(1);
    spec.gang.min_nodes = if dice.below(5) == 0 { 1 + dice.below(nodes) } else { nodes };
    spec.rails.required = *dice.one(&[0, 0, 2, 3]);
    spec.rails.allow_partial = spec.rails.required > 0 && dice.below(2) == 0;
    spec.priority = *dice.one(&[0, 0, 0, 10, -10]);
    spec.preemption = proto_model::Preemption::of_priority(spec.priority);
    let place = &mut spec.placement;
    place.exclusive = dice.below(5) == 0;
    place.within = *dice.one(&[Within::Fabric, Within::Fabric, Within::Pod, Within::Leaves]);
    place.spares = u32::from(dice.below(6) == 0);
    if dice.below(6) == 0 {
        place.exclude = vec![dice.one(names).clone()];
    }
    spec
}

/// The administrator who asks for plans and submits.
fn root() -> Authority {
    Authority { role: Role::Admin, user: "root".to_owned() }
}

/// One case: true if both say the same.
fn same(site: &Site, tenant: &TenantName, spec: &JobSpec) -> Result<(bool, bool), Fault> {
    let planned = site.state.plan(tenant, &root(), spec, site.now);
    let mut real = Site { state: site.state.clone(), now: site.now, seed: 7, revision: site.revision };
    let done = real.submit(tenant, "new".to_owned(), spec.clone());
    real.settle();
    Ok(match (planned, done) {
        (Ok(plan), Ok(id)) => {
            let job = real.state.job(&id).ok_or("the submitted job is gone")?;
            (
                !plan.infeasible && plan.placement.as_ref() == job.status.placement.as_deref(),
                plan.placement.is_some(),
            )
        }
        (Ok(plan), Err(CoreError::Infeasible { reasons })) => {
            (plan.infeasible && plan.reasons == reasons, false)
        }
        (Err(planned), Err(done)) => (planned.code() == done.code(), false),
        _ => (false, false),
    })
}

/// C9: the share of random cases in which the dry run says what the submit does.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn dry_runs(row: &Row, bench: &Bench) -> Result<(), String> {
    let (sites, each) = if bench.quick { (100, 25) } else { (4_000, 25) };
    let mut dice = Dice::new(9);
    let (mut cases, mut alike, mut placed, mut first) = (0_u32, 0_u32, 0_u32, None);
    let cpu = Cpu::start();
    for at in 0..sites {
        let (site, tenant) = Site::random(&mut dice)?;
        let names: Vec<NodeName> = site.state.nodes(None).map(|node| node.name.clone()).collect();
        for case in 0..each {
            let spec = job(&mut dice, &names);
            let (equal, starts) = same(&site, &tenant, &spec)?;
            cases += 1;
            alike += u32::from(equal);
            placed += u32::from(starts);
            if !equal && first.is_none() {
                first = Some(format!("state {at}, case {case}: {spec:?}"));
            }
        }
    }
    let share = 100.0 * f64::from(alike) / f64::from(cases);
    let sample = Sample::new(vec![share]);
    row.line(&Line {
        case: "dry run equals submit on the same state, random clusters and jobs",
        value: share,
        unit: "%",
        goal: Goal::AtLeast(100.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"cases": cases, "would_start": placed, "first_difference": first}),
    });
    Ok(())
}
