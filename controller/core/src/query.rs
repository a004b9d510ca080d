//! Reading the state: resources, plans, explanations, the topology, health.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use controller_scheduler::Decision;
use controller_topology::RailSet;
use proto_model::{
    Authority, Backfill, Fabric, Health, IsolationPolicy, Job, JobId, JobName, JobSpec, JobUid, Node,
    NodeName, Phase, Placement, Reason, ReasonCode, Tenant, TenantName, Timestamp,
};

use crate::{error::CoreError, state::State};

/// What one job holds on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The job.
    pub id: JobId,
    /// The job.
    pub uid: JobUid,
    /// GPU indices.
    pub gpus: Vec<u32>,
    /// Device names of NICs.
    pub nics: Vec<String>,
    /// CPUs that are its alone.
    pub cpus: u32,
    /// Bytes of main memory that are its alone.
    pub memory_bytes: u64,
}

/// What a tenant uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantUsage {
    /// GPUs that its placed jobs hold.
    pub gpus_used: u64,
    /// Jobs that have not ended.
    pub jobs_active: u32,
    /// Bytes of the store that its jobs are counted with, ended ones included.
    pub stored_bytes: u64,
    /// How much isolation its jobs must have.
    pub isolation: IsolationPolicy,
}

/// What would happen if a job were submitted now.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanResult {
    /// It would start at once, here.
    pub placement: Option<Placement>,
    /// It would not: every cause.
    pub reasons: Vec<Reason>,
    /// It could never start on this cluster as it is described now.
    pub infeasible: bool,
    /// Jobs that would be stopped for it.
    pub preempts: Vec<JobId>,
    /// It would wait: what stands in its way.
    pub detail: Option<crate::job::explain::Detail>,
}

/// Why a job is in its phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Its phase.
    pub phase: Phase,
    /// Every cause.
    pub reasons: Vec<Reason>,
    /// Jobs ahead of it in the queue, if it waits.
    pub queue_position: u32,
    /// It could never start on this cluster as it is described now.
    pub infeasible: bool,
    /// Of a job that runs: its nodes' rails, those with something amiss first.
    pub rails: Vec<crate::NodeRails>,
    /// Nodes that are left out of `rails`.
    pub rails_omitted: u32,
    /// Of a job that runs: how its operations are carried out.
    pub choices: Vec<proto_model::AlgorithmChoice>,
    /// Of a job that waits for room or quota: what stands in its way.
    pub detail: Option<crate::job::explain::Detail>,
    /// How much isolation its servers must give.
    pub isolation: IsolationPolicy,
    /// Who may start before jobs that wait ahead of it.
    pub backfill: Backfill,
}

/// The fabric as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopologyView {
    /// In name order; nodes that the document does not cable come last, in a pod without name.
    pub pods: Vec<PodView>,
    /// Number of rails.
    pub rails: u32,
    /// What does not fit.
    pub findings: Vec<Reason>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Its leaves, one list per rail.
    pub leaves: Vec<Vec<String>>,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// GPUs that can be scheduled.
    pub gpus: u32,
    /// Those that no job holds.
    pub gpus_free: u32,
    /// Whether new jobs may be placed there.
    pub schedulable: bool,
    /// One per rail of the fabric.
    pub ports: Vec<PortView>,
}

/// A node's NIC on one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortView {
    /// The rail.
    pub rail: u32,
    /// Device name; empty if there is none.
    pub nic: String,
    /// Leaf; may be empty.
    pub leaf: String,
    /// Up and cabled.
    pub usable: bool,
    /// Drained.
    pub drained: bool,
}

/// How the cluster is, at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthView {
    /// Nodes that are heard.
    pub nodes_ready: u32,
    /// Nodes.
    pub nodes_total: u32,
    /// GPUs that can be scheduled.
    pub gpus_total: u32,
    /// GPUs that jobs hold.
    pub gpus_held: u32,
    /// Jobs that wait.
    pub jobs_pending: u32,
    /// Jobs that hold something.
    pub jobs_running: u32,
    /// Per rail: NICs up and NICs in all.
    pub rails: Vec<(u32, u32)>,
    /// What is wrong.
    pub reasons: Vec<Reason>,
    /// Servers and their rails, those that are least well first; not more than [`HEAT_MAX`].
    pub nodes: Vec<NodeHeat>,
    /// Servers that `nodes` leaves out.
    pub nodes_left_out: u32,
}

/// Servers whose rails one answer shows.
pub const HEAT_MAX: usize = 256;

/// How well the rails of one server are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHeat {
    /// Its name.
    pub name: String,
    /// Rails on which it has a NIC.
    pub rails: Vec<RailHeat>,
}

/// How well one rail of one server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RailHeat {
    /// Which.
    pub rail: u32,
    /// 100: nothing is known against it. 0: down, or no new job should use it.
    pub score: u32,
    /// New jobs may use it.
    pub usable: bool,
    /// What is wrong.
    pub codes: Vec<String>,
}

/// The rails of one server.
fn heat(server: &controller_topology::Server) -> NodeHeat {
    let rail = |rail: u32| {
        let port = server.ports.get(rail as usize).copied().flatten()?;
        let nic = server.inventory.nics.get(port.nic as usize)?;
        let sick = server.inventory.health.iter().find(|sick| sick.device == nic.device);
        let usable = server.usable.has(rail);
        let mut codes: Vec<String> =
            sick.iter().flat_map(|sick| &sick.conditions).map(|one| one.code.clone()).collect();
        let mut score = sick.map_or(100, |sick| sick.score);
        if !usable && !server.unfit.has(rail) {
            codes.insert(0, "Down".to_owned());
            score = 0;
        }
        Some(RailHeat { rail, score, usable, codes })
    };
    let rails = server.present.iter().filter_map(rail).collect();
    NodeHeat { name: server.name.to_string(), rails }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl State {
    /// A job by name.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Arc<Job>> {
        self.job_by_uid(self.index.names.get(id)?)
    }

    /// A job by identity.
    #[must_use]
    pub fn job_by_uid(&self, uid: &JobUid) -> Option<&Arc<Job>> {
        self.base.jobs.get(uid).map(|entry| &entry.job)
    }

    /// How many jobs are in each phase, in the order of [`Phase::ALL`].
    #[must_use]
    pub fn phases(&self) -> [i64; Phase::ALL.len()] {
        self.index.phases
    }

    /// All jobs, by tenant and name, after the given one.
    pub fn jobs(&self, after: Option<&JobId>) -> impl Iterator<Item = &Arc<Job>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.index.names.range((from, Bound::Unbounded)).filter_map(|(_, uid)| self.job_by_uid(uid))
    }

    /// A tenant's jobs by name, after the given one.
    pub fn jobs_of<'a>(
        &'a self,
        tenant: &'a TenantName,
        after: Option<&'a JobId>,
    ) -> impl Iterator<Item = &'a Arc<Job>> {
        let first = JobName::new("0").ok().map(|name| JobId { tenant: tenant.clone(), name });
        let from = match (after, first) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let rows = self.index.names.range((from, Bound::Unbounded));
        rows.take_while(move |(id, _)| id.tenant == *tenant).filter_map(|(_, uid)| self.job_by_uid(uid))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        self.base.nodes.get(name)
    }

    /// All nodes by name, after the given one.
    pub fn nodes(&self, after: Option<&NodeName>) -> impl Iterator<Item = &Arc<Node>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.base.nodes.range::<NodeName, _>((from, Bound::Unbounded)).map(|(_, node)| node)
    }

    /// When a node's agent was last heard by this controller; `None` if never since its start.
    #[must_use]
    pub fn last_heard(&self, name: &NodeName) -> Option<Timestamp> {
        self.base.links.get(name).map(|link| link.heard)
    }

    /// The connection on which a node's agent is heard now.
    #[must_use]
    pub fn session(&self, name: &NodeName) -> Option<u64> {
        self.base.links.get(name)?.session
    }

    /// What jobs hold on a node.
    #[must_use]
    pub fn holds(&self, name: &NodeName) -> Vec<Hold> {
        let Some(jobs) = self.index.holds.get(name) else { return Vec::new() };
        let hold = |(uid, position): (&JobUid, &u32)| {
            let job = self.job_by_uid(uid)?;
            let place = job.status.placement.as_ref()?.nodes.get(*position as usize)?;
            let nics = place.nics.iter().map(|nic| nic.device.clone()).collect();
            let (id, gpus) = (job.id.clone(), place.gpus.clone());
            Some(Hold { id, uid: *uid, gpus, nics, cpus: place.cpus, memory_bytes: place.memory_bytes })
        };
        jobs.iter().filter_map(hold).collect()
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, name: &TenantName) -> Option<&Arc<Tenant>> {
        self.base.tenants.get(name)
    }

    /// All tenants by name, after the given one.
    pub fn tenants(&self, after: Option<&TenantName>) -> impl Iterator<Item = &Arc<Tenant>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.base.tenants.range::<TenantName, _>((from, Bound::Unbounded)).map(|(_, tenant)| tenant)
    }

    /// What a tenant uses.
    #[must_use]
    pub fn usage(&self, tenant: &TenantName) -> TenantUsage {
        let jobs = self.index.tenants.get(tenant).copied().unwrap_or_default();
        TenantUsage {
            gpus_used: self.index.snapshot.tenant(tenant).held,
            jobs_active: jobs.active,
            stored_bytes: jobs.bytes,
            isolation: self.isolation(tenant),
        }
    }

    /// How much isolation a tenant's jobs must have: the stricter of the cluster's and its own setting.
    #[must_use]
    pub fn isolation(&self, tenant: &TenantName) -> IsolationPolicy {
        let tenant = self.base.tenants.get(tenant);
        tenant.map_or(IsolationPolicy::BestEffort, |tenant| tenant.isolation.max(self.config.isolation))
    }

    /// The fabric document.
    #[must_use]
    pub fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.base.fabric.as_ref()
    }

    /// What differs between the fabric document and the nodes' inventories.
    #[must_use]
    pub fn findings(&self) -> Vec<Reason> {
        self.index.snapshot.topology().findings()
    }

    /// What would happen if the job were submitted now, by the code of the real submit.
    ///
    /// # Errors
    /// As for a submit, except that an infeasible job is an answer here.
    pub fn plan(
        &self,
        tenant: &TenantName,
        by: &Authority,
        spec: &JobSpec,
        now: Timestamp,
    ) -> Result<PlanResult, CoreError> {
        let planned = self.decide_new(tenant, by, spec, now)?;
        let name = |uid: &JobUid| Some(self.base.jobs.get(uid)?.job.id.clone());
        let preempts = planned.victims.iter().filter_map(name).collect();
        Ok(match planned.decision {
            Decision::Place(placement) => PlanResult {
                placement: Some(*placement),
                reasons: Vec::new(),
                infeasible: false,
                preempts,
                detail: None,
            },
            Decision::Wait(wait) => {
                let waiting = planned.entry.filter(|_| !wait.infeasible);
                let detail = waiting.map(|entry| self.detail(&entry, planned.eta, now));
                let (reasons, infeasible) = (wait.reasons, wait.infeasible);
                PlanResult { placement: None, reasons, infeasible, preempts, detail }
            }
        })
    }

    /// Why a job is in its phase; for a waiting job the causes of this moment.
    ///
    /// # Errors
    /// There is no such job.
    pub fn explain(&self, id: &JobId, now: Timestamp) -> Result<Explanation, CoreError> {
        let uid = self.index.names.get(id);
        let entry = uid.and_then(|uid| self.base.jobs.get(uid));
        let entry = entry.ok_or_else(|| CoreError::JobNotFound { id: id.clone() })?;
        let status = &entry.job.status;
        let mut explanation = Explanation {
            phase: status.phase,
            reasons: status.reasons.clone(),
            queue_position: 0,
            infeasible: false,
            rails: Vec::new(),
            rails_omitted: 0,
            choices: Vec::new(),
            detail: None,
            isolation: self.isolation(&id.tenant),
            backfill: self.config.backfill,
        };
        if status.phase != Phase::Pending {
            self.explain_rails(entry, &mut explanation);
            return Ok(explanation);
        }
        let latest = entry.job.spec.latest_start().map(|latest| {
            let (at, left) = (latest.utc(), latest.since(now).as_secs());
            Reason::new(
                ReasonCode::LatestStart,
                format!("the job fails if it has not started by {at}, in {left} s"),
            )
        });
        let key = entry.key();
        explanation.queue_position = number(self.index.queue.range(..key).count());
        if entry.held {
            let eta = self.predicted(entry.job.uid, now);
            explanation.reasons.extend(latest);
            explanation.detail =
                eta.map(|eta| crate::job::explain::Detail { eta: Some(eta), ..Default::default() });
            return Ok(explanation);
        }
        let infeasible = match self.feasible(id, &entry.job.spec, now) {
            Err(CoreError::Infeasible { reasons }) => reasons,
            _ => Vec::new(),
        };
        explanation.infeasible = !infeasible.is_empty();
        explanation.reasons = infeasible;
        if !explanation.infeasible {
            explanation.reasons = self.waits(&self.index.queue_state, entry, now).reasons;
            explanation.detail = Some(self.detail(entry, self.predicted(entry.job.uid, now), now));
        }
        explanation.reasons.extend(latest);
        Ok(explanation)
    }

    /// Rails of a node's NICs that are up and well, and that the fabric cuts off: not cabled there, a cable or a leaf that is
    /// known to be down, or another leaf heard.
    #[must_use]
    pub fn rails_cut(&self, name: &NodeName) -> RailSet {
        let topology = self.index.snapshot.topology();
        let Some(server) = topology.index(name).and_then(|ix| topology.server(ix)) else {
            return RailSet::EMPTY;
        };
        let well = |nic: &&proto_model::Nic| nic.up && server.inventory.is_fit(&nic.device);
        let up: RailSet = server.inventory.nics.iter().filter(well).map(|nic| nic.rail).collect();
        up.without(server.usable)
    }

    /// The fabric as the scheduler sees it.
    #[must_use]
    pub fn topology(&self) -> TopologyView {
        let topology = self.index.snapshot.topology();
        let rails = topology.rails();
        let mut pods: BTreeMap<Option<usize>, PodView> = BTreeMap::new();
        for pod in topology.pod_indices() {
            let leaves =
                (0..rails).map(|rail| topology.leaves_of(pod, rail).map(str::to_owned).collect()).collect();
            let view = PodView { name: topology.pod_name(pod).to_owned(), leaves, nodes: Vec::new() };
            pods.insert(Some(pod.index()), view);
        }
        let mut outside = PodView::default();
        for (ix, server) in topology.servers() {
            let capacity = self.index.snapshot.capacity(ix);
            let (drained, names) = (self.drained_rails(&server.name), self.names(&server.name));
            let port = |rail: u32| {
                let port = server.ports.get(rail as usize).copied().flatten();
                let nic = port.and_then(|port| server.inventory.nics.get(port.nic as usize));
                PortView {
                    rail,
                    nic: nic.map_or_else(String::new, |nic| nic.device.clone()),
                    leaf: port
                        .and_then(|port| port.leaf)
                        .map_or("", |leaf| topology.leaf_name(leaf))
                        .to_owned(),
                    usable: server.usable.has(rail),
                    drained: drained.has(names.of(rail)),
                }
            };
            let view = NodeView {
                name: server.name.clone(),
                gpus: capacity.gpus.count_ones(),
                gpus_free: capacity.free_gpus().count_ones(),
                schedulable: capacity.gate.is_open(),
                ports: (0..rails).map(port).collect(),
            };
            let pod = pods.get_mut(&server.pod.map(controller_topology::PodIx::index));
            pod.unwrap_or(&mut outside).nodes.push(view);
        }
        let mut pods: Vec<PodView> = pods.into_values().collect();
        if !outside.nodes.is_empty() {
            pods.push(outside);
        }
        TopologyView { pods, rails, findings: topology.findings() }
    }

    /// How the cluster is.
    #[must_use]
    pub fn health(&self) -> HealthView {
        let mut health = HealthView {
            nodes_total: number(self.base.nodes.len()),
            jobs_pending: number(self.index.waiting),
            jobs_running: number(self.index.holding),
            rails: vec![(0, 0); self.index.snapshot.topology().rails() as usize],
            ..HealthView::default()
        };
        for (_, server, capacity) in self.index.snapshot.nodes() {
            health.nodes.push(heat(server));
            health.gpus_total += capacity.gpus.count_ones();
            health.gpus_held += (capacity.gpus & capacity.held.gpus).count_ones();
            for (rail, counts) in health.rails.iter_mut().enumerate() {
                let rail = number(rail);
                counts.0 += u32::from(server.usable.has(rail));
                counts.1 += u32::from(server.present.has(rail));
            }
        }
        let least = |node: &NodeHeat| node.rails.iter().map(|rail| rail.score).min().unwrap_or(100);
        health.nodes.sort_by(|a, b| (least(a), &a.name).cmp(&(least(b), &b.name)));
        health.nodes_left_out = number(health.nodes.len().saturating_sub(HEAT_MAX));
        health.nodes.truncate(HEAT_MAX);
        let ready = self.base.nodes.values().filter(|node| node.health == Health::Ready);
        health.nodes_ready = number(ready.count());
        let silent = health.nodes_total - health.nodes_ready;
        if silent > 0 {
            let message = format!("{silent} of {} nodes are not heard from", health.nodes_total);
            health.reasons.push(Reason::new(ReasonCode::NodeNotReady, message).count(silent as usize));
        }
        let drains = self.base.drains.len();
        if drains > 0 {
            let message = format!("{drains} rails, leaves or ports are drained; see `railctl rail ls`");
            health.reasons.push(Reason::new(ReasonCode::RailsDrained, message).count(drains));
        }
        let unproved = self.unproved();
        if unproved > 0 {
            let message = format!(
                "{unproved} rails of servers are out of use until something proves them well; see `railctl describe node`"
            );
            health.reasons.push(Reason::new(ReasonCode::RailsUnproved, message).count(unproved));
        }
        let findings = self.findings();
        if !findings.is_empty() {
            let message =
                format!("{} things in the fabric do not fit; see `railctl topology show`", findings.len());
            health.reasons.push(Reason::new(ReasonCode::FabricFindings, message).count(findings.len()));
        }
        health
    }
}
