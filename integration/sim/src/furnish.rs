//! What a run begins with: tenants, servers, fabric, clients, controllers, and the plan of its faults.

use std::{collections::VecDeque, sync::Arc};

use controller_core::{Event as Core, State};
use proto_model::{
    ClassMembers, ClassPreemption, Fabric, JobId, JobLimits, JobName, Leaf, Link, NodeName, Quota, Rail,
    ServiceClass, ServiceClassName, TenantName, Timestamp, UserLimits,
};

use crate::{
    agent::Node,
    client::Client,
    controller::core_config,
    etcd::{Body, stored},
    faults::{Kind, Planned},
    plant::Bug,
    rng::Rng,
    world::{Event, START_MS, World},
};

/// GPUs of every server.
const GPUS: u32 = 4;

/// The name of a server.
#[must_use]
pub fn name(node: usize) -> Option<NodeName> {
    NodeName::new(format!("n{node}")).ok()
}

/// Jobs of a user that hold a place at once, in the service class that some jobs are of.
pub const FEW_JOBS: u32 = 2;

/// The service class whose users hold a place with at most [`FEW_JOBS`] jobs at once.
#[must_use]
pub fn few() -> Option<ServiceClass> {
    let name = ServiceClassName::new("few").ok()?;
    Some(ServiceClass {
        name,
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        members: ClassMembers::default(),
        default_class: false,
        job: JobLimits::default(),
        user: UserLimits { jobs_running: Some(FEW_JOBS), ..UserLimits::default() },
        preemption: ClassPreemption::default(),
    })
}

impl World {
    /// All that is there before anything can fail.
    pub fn furnish(&mut self) {
        self.skewed = self.rng.chance(200) && self.config.skew;
        let count = self.rng.range(2..self.config.nodes.max(2) + 1);
        let rails = u32::try_from(self.rng.range(1..5)).unwrap_or(1);
        let tenants = self.found(count, rails);
        let jobs = self.rng.range(self.config.jobs.max(2) / 2..self.config.jobs.max(2) + 1);
        let mut begins = Vec::new();
        for at in 0..jobs {
            let Ok(job) = JobName::new(format!("j{at}")) else { continue };
            let tenant = tenants[self.rng.below(tenants.len())].clone();
            let client = self.make_client(at, &tenant, job, (count, GPUS, rails));
            self.clients.push(client);
            let begin = self.rng.range(500..self.config.chaos_ms * 4 / 5);
            begins.push(begin);
            let index = usize::try_from(at).unwrap_or(0);
            if self.config.only_jobs.as_ref().is_none_or(|only| only.contains(&index)) {
                self.after(begin, Event::Client(index));
            } else {
                self.clients[index].wants.clear();
            }
        }
        if let (Some(tenant), Ok(job)) = (tenants.first().cloned(), JobName::new("administrator")) {
            let id = JobId { tenant, name: job };
            self.clients.push(Client::administrator(id, VecDeque::new()));
        }
        self.slots = usize::try_from(self.rng.range(1..self.config.controllers.max(1) + 1)).unwrap_or(1);
        for slot in 0..self.slots {
            let wait = 1 + slot as u64 * 20;
            self.after(wait, Event::ControllerStart(slot));
        }
        self.draw_plan(&begins);
    }

    /// Tenants, servers that have joined, and perhaps a fabric, written by nobody that is here any more.
    fn found(&mut self, count: u64, rails: u32) -> Vec<TenantName> {
        let mut tenants = Vec::new();
        let mut events = Vec::with_capacity(3 + 2 * usize::try_from(count).unwrap_or(0));
        for text in ["red", "blue"] {
            let Ok(name) = TenantName::new(text) else { continue };
            let quota = u32::try_from(self.rng.range(count * 2..count * 4 + 1)).unwrap_or(4);
            self.checks.quotas.insert(name.clone(), quota);
            let (description, quota) = (String::new(), Quota::new(quota, 0));
            events.push(Core::ApplyTenant {
                name: name.clone(),
                description,
                quota,
                isolation: proto_model::IsolationPolicy::BestEffort,
                dry_run: false,
            });
            tenants.push(name);
        }
        events.extend(few().map(|class| Core::ApplyServiceClass { class: Box::new(class), dry_run: false }));
        self.nodes.reserve(usize::try_from(count).unwrap_or(0));
        for node in 0..usize::try_from(count).unwrap_or(2) {
            let Some(name) = name(node) else { continue };
            events.extend(self.join_events(node, &name));
            let crossed = self.config.certify && rails > 1 && self.rng.chance(150);
            let mut server = Node::new(name, GPUS, rails);
            server.crossed = crossed;
            server.apart = node % 3 == 1;
            server.boasts = self.config.bug == Some(Bug::TenantsTogether);
            self.nodes.push(server);
            let wait = 60 + self.rng.range(0..20);
            self.after(wait, Event::AgentStart(node));
        }
        if self.rng.chance(500) {
            let fabric = Box::new(self.fabric(rails));
            events.push(Core::ApplyFabric { fabric, allow_shrink: false, dry_run: false });
        }
        let now = self.time();
        let Ok(mut state) = State::load(core_config(&self.config), 0, now, stored(&self.etcd.rows)) else {
            self.violated("an empty store cannot be read");
            return tenants;
        };
        let mut body = Body::default();
        for event in events {
            let rng = &mut self.rng;
            let event = crate::audit::by(event, "founder".to_owned(), 0);
            let out = controller_core::step(&mut state, event, now, &mut |buffer| rng.fill(buffer));
            body.writes.extend(out.writes.into_iter().map(|write| (write.key(), write)));
            if let Some(Err(error)) = out.reply {
                self.violated(format!("furnishing: {error}"));
            }
        }
        self.check_audit(&body, &[]);
        if let Err(refused) = self.etcd.commit(&Arc::new(body), false) {
            self.violated(format!("furnishing: {refused:?}"));
        }
        tenants
    }

    /// What makes a server join.
    pub fn join_events(&mut self, node: usize, name: &NodeName) -> Vec<Core> {
        let mut hash = [0; 32];
        self.rng.fill(&mut hash);
        let csr = [u8::try_from(node).unwrap_or(0); 32];
        vec![
            Core::CreateToken { node: name.clone(), hash, lifetime: None },
            Core::Join { node: name.clone(), hash, csr },
        ]
    }

    /// One or two pods, one leaf per pod and rail.
    fn fabric(&mut self, rails: u32) -> Fabric {
        let pods = 1 + self.rng.below(2);
        let mut fabric = Fabric { name: "sim".to_owned(), ..Fabric::default() };
        for rail in 0..rails {
            fabric.rails.push(Rail { index: rail, name: format!("rail{rail}") });
            for pod in 0..pods {
                fabric.leaves.push(Leaf {
                    name: format!("leaf{pod}-{rail}"),
                    rail,
                    pod: format!("pod{pod}"),
                    ..Leaf::default()
                });
            }
            for (at, node) in self.nodes.iter().enumerate() {
                fabric.links.push(Link {
                    node: node.name.clone(),
                    nic: format!("mlx5_{rail}"),
                    leaf: format!("leaf{}-{rail}", at % pods),
                    port: format!("p{at}"),
                    speed_mbps: 0,
                    down: false,
                    rail: None,
                });
            }
        }
        fabric
    }

    /// The faults of the run: half of them at any time, half of them soon after a client has begun.
    fn draw_plan(&mut self, begins: &[u64]) {
        for at in 0..usize::try_from(self.config.faults).unwrap_or(0) {
            let near = self.rng.chance(600) && !begins.is_empty();
            let time = if near {
                begins[self.rng.below(begins.len())] + self.rng.range(0..6000)
            } else {
                self.rng.range(1000..self.config.chaos_ms - 1000)
            };
            let kind = Kind::draw(&mut self.rng);
            let planned =
                Planned { at_ms: time.min(self.config.chaos_ms - 1), kind, rng: Rng::new(self.rng.draw()) };
            if self.config.only_faults.as_ref().is_none_or(|only| only.contains(&at)) {
                self.at(START_MS + planned.at_ms, Event::Planned(at));
            }
            self.plan.push(planned);
        }
    }
}
