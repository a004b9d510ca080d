//! One pass over one workload: decides, does, and decides again, until nothing is left to do now.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;
use tokio::task::JoinSet;

use crate::{
    decide::{Decision, Plan, Step, decide},
    hold::Hold,
    kubernetes::{KubeError, Kubernetes},
    names::{HoldKey, UID_LABEL},
    nodes::KubeNode,
    queue::Outcome,
    railyard::{RailError, Railyard},
    settings::Settings,
    world::World,
};

/// Steps of a pass, at most; what is left then is done by the next one.
const STEPS: usize = 32;
/// Nodes that are labelled at a time for one workload.
const AT_A_TIME: usize = 16;

/// Why a pass has failed.
#[derive(Debug, Error)]
pub enum PassError {
    /// On the side of Kubernetes.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// On the side of Railyard.
    #[error(transparent)]
    Rail(#[from] RailError),
    /// A thread has ended before its time.
    #[error("labelling nodes was given up: the program is ending")]
    Ending,
}

/// What passes share.
#[derive(Clone)]
pub struct Shared {
    /// What is known.
    pub world: Arc<Mutex<World>>,
    /// The API server.
    pub kubernetes: Kubernetes,
    /// The controller.
    pub railyard: Railyard,
    /// What the site says.
    pub settings: Arc<Settings>,
}

impl Shared {
    /// What is known; it is held for no longer than it takes to read or write it.
    pub fn world(&self) -> MutexGuard<'_, World> {
        // Whoever panicked while they held it has changed one entry or none.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// One pass.
///
/// # Errors
/// [`PassError`]: the step that failed is repeated by the next pass.
pub async fn pass(shared: &Shared, uid: &str) -> Result<Outcome, PassError> {
    let mut plan: Option<Plan> = None;
    for _ in 0..STEPS {
        let default = shared.settings.policy.tenant.as_deref();
        let Some(known) = shared.world().known(uid, default) else { return Ok(Outcome::Settled(None)) };
        let tenant = &known.tenant;
        let Decision { step, reason } =
            decide(&known.snapshot(plan.as_ref()), &shared.settings.policy, now());
        let workload = known.workload.as_ref().map(|one| one.path()).unwrap_or_default();
        match step {
            Step::Wait(until) => return Ok(Outcome::Settled(until.map(instant))),
            Step::Report(report) => {
                tracing::info!(uid, workload, state = report.state.as_str(), reason, "admission check");
                return match shared.kubernetes.report(&report).await {
                    // It has changed, and comes again as it is now.
                    Err(error) if error.is_conflict() || error.is_missing() => Ok(Outcome::Settled(None)),
                    written => Ok(written.map(|()| Outcome::Settled(None))?),
                };
            }
            Step::Plan(job) => {
                let answer = shared.railyard.plan(&job, tenant).await;
                plan = Some(answer.or_else(|error| error.verdict().ok_or(error))?);
            }
            Step::Create { key, job } => {
                let name = key.name(&shared.settings.policy.prefix);
                tracing::info!(uid, workload, name, "holding servers");
                plan = created(shared, &name, shared.railyard.create(&job, tenant).await)?;
            }
            Step::Release { key, tenant } => {
                tracing::info!(uid, workload, reason, "giving back servers");
                release(shared, &key, &tenant).await?;
            }
            Step::Label(nodes) => {
                let all = nodes.into_iter().map(|(node, value)| (node, Some(value))).collect();
                label(shared, uid, all).await?;
            }
            Step::Unlabel(nodes) => {
                tracing::info!(uid, workload, nodes = nodes.len(), reason, "taking labels away");
                label(shared, uid, nodes.into_iter().map(|node| (node, None)).collect()).await?;
            }
        }
    }
    Ok(Outcome::Settled(Some(Instant::now())))
}

fn instant(at: u64) -> Instant {
    // Seconds are rounded down, and nothing is due before its time.
    Instant::now() + Duration::from_secs(at.saturating_sub(now())).max(Duration::from_millis(100))
}

/// What a refusal says of the workload; nothing where the job was made.
fn created(
    shared: &Shared,
    name: &str,
    answer: Result<proto_wire::v1::Job, RailError>,
) -> Result<Option<Plan>, RailError> {
    match answer {
        Ok(job) => match Hold::of(&shared.settings.policy.prefix, &job, now()) {
            Some(hold) => {
                shared.world().put_hold(hold);
                Ok(None)
            }
            // Its next reservation has another name.
            None => Ok(Some(Plan::Refused {
                causes: format!(
                    "job {name} of its tenant is somebody else's: it has not the label {UID_LABEL}"
                ),
            })),
        },
        Err(error) => error.verdict().map(Some).ok_or(error),
    }
}

async fn release(shared: &Shared, key: &HoldKey, tenant: &str) -> Result<(), RailError> {
    let prefix = &shared.settings.policy.prefix;
    let released = shared.railyard.release(&key.name(prefix), tenant).await;
    match released? {
        Some(job) => {
            if let Some(hold) = Hold::of(prefix, &job, now()) {
                shared.world().put_hold(hold);
            }
        }
        None => shared.world().remove_hold(key, tenant),
    }
    Ok(())
}

/// Gives nodes labels, or takes them away, some at a time.
async fn label(
    shared: &Shared,
    uid: &str,
    mut nodes: Vec<(String, Option<String>)>,
) -> Result<(), PassError> {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.len() < AT_A_TIME {
            let Some((node, value)) = nodes.pop() else { break };
            let (kubernetes, uid) = (shared.kubernetes.clone(), uid.to_owned());
            tasks.spawn(async move {
                let done = kubernetes.label(&node, &uid, value.as_deref()).await;
                (node, done)
            });
        }
        let Some(done) = tasks.join_next().await else { return Ok(()) };
        let (name, done) = done.map_err(|_| PassError::Ending)?;
        match done? {
            Some(node) => {
                if let Some(node) = KubeNode::of(&node, &shared.settings.flavor_label) {
                    shared.world().put_node(node);
                }
            }
            // What follows from that is decided next.
            None => shared.world().remove_node(&name),
        }
    }
}
