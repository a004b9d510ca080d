//! The proof of every placement: by the scheduler's independent checkers, on what is held at that moment.

use controller_queue::Entry;
use controller_scheduler::{Choice, Host, Need, Pick, RailNeed, Snapshot, check_placement, prove};
use controller_topology::RailSet;
use proto_model::{JobSpec, NodePlace, Placement, TenantName};

use crate::workload::SimJob;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// The tenant of the job.
    pub tenant: &'a TenantName,
    /// What the placement must give at least.
    pub need: std::borrow::Cow<'a, Need>,
    /// Ranks of each server.
    pub ranks_per_node: u32,
    /// The document that says so, where there is one.
    pub spec: Option<&'a JobSpec>,
}

impl<'a> Claim<'a> {
    /// Of a job of the queue. Of an elastic one any number of servers is right that the queue allows, which the queue's
    /// own proof looks at.
    #[must_use]
    pub fn of(entry: &'a Entry) -> Self {
        Self {
            tenant: &entry.id.tenant,
            need: std::borrow::Cow::Borrowed(&entry.need),
            ranks_per_node: entry.ranks_per_node,
            spec: None,
        }
    }
}

impl<'a> From<&'a SimJob> for Claim<'a> {
    fn from(job: &'a SimJob) -> Self {
        Self {
            tenant: &job.id.tenant,
            need: std::borrow::Cow::Borrowed(&job.need),
            ranks_per_node: job.spec.gang.ranks_per_node,
            spec: Some(&job.spec),
        }
    }
}

/// Everything that is wrong with a placement, before it is held.
#[must_use]
pub fn flaws(snapshot: &Snapshot, job: &Claim<'_>, placement: &Placement) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    match choice(snapshot, placement) {
        Ok(choice) => {
            let mut need = job.need.clone();
            if job.spec.is_none() && choice.nodes.len() != need.nodes as usize {
                need.to_mut().nodes = u32::try_from(choice.nodes.len()).unwrap_or(u32::MAX);
            }
            if let Err(flaws) = prove(snapshot, &need, &choice) {
                found.extend(flaws.iter().map(ToString::to_string));
            }
        }
        Err(unknown) => found.push(unknown),
    }
    quota(snapshot, job, placement, &mut found);
    ranks(job, placement, &mut found);
    // A document cannot ask for no rail at all; jobs inside one server that do are proved by the above alone.
    if job.need.rails != RailNeed::Exactly(RailSet::EMPTY)
        && let Some(spec) = job.spec
        && let Err(violations) = check_placement(snapshot, job.tenant, spec, placement)
    {
        found.extend(violations.iter().map(ToString::to_string));
    }
    found
}

/// A placement as nodes, GPUs and rails; each node with exactly the NICs that the rails say.
fn choice(snapshot: &Snapshot, placement: &Placement) -> Result<Choice, String> {
    let rails: RailSet = placement.rails.iter().copied().collect();
    let pick = |place: &NodePlace| {
        let node = snapshot.topology().index(&place.node);
        let node = node.ok_or_else(|| format!("node '{}' is not in the cluster", place.node))?;
        let nics: RailSet = place.nics.iter().map(|nic| nic.rail).collect();
        if nics != rails || place.nics.len() != placement.rails.len() {
            return Err(format!("node '{}' has NICs on rails {nics}, the gang is on {rails}", place.node));
        }
        let mut gpus = 0;
        for gpu in &place.gpus {
            let bit = 1_u64.checked_shl(*gpu).unwrap_or(0);
            if bit == 0 || gpus & bit != 0 {
                return Err(format!(
                    "node '{}' is placed with GPU {gpu} twice, or has none such",
                    place.node
                ));
            }
            gpus |= bit;
        }
        Ok(Pick { node, gpus })
    };
    Ok(Choice {
        rails,
        nodes: placement.nodes.iter().map(pick).collect::<Result<_, _>>()?,
        spares: placement.spares.iter().map(pick).collect::<Result<_, _>>()?,
        host: placement
            .nodes
            .first()
            .map_or(Host::NONE, |place| Host { cpus: place.cpus, memory: place.memory_bytes }),
        // No run of the simulator has components.
        hosts: Vec::new(),
        exclusive: placement.exclusive,
        pods: placement.pods,
        cut: 0,
    })
}

fn quota(snapshot: &Snapshot, job: &Claim<'_>, placement: &Placement, found: &mut Vec<String>) {
    let tenant = job.tenant;
    let used = snapshot.tenant(tenant);
    let more: u64 =
        placement.nodes.iter().chain(&placement.spares).map(|place| place.gpus.len() as u64).sum();
    let (would, quota) = (used.held + more, u64::from(used.quota.unwrap_or(0)));
    if would > quota {
        found.push(format!("tenant '{tenant}' would hold {would} GPUs of {quota}"));
    }
}

fn ranks(job: &Claim<'_>, placement: &Placement, found: &mut Vec<String>) {
    let asked = placement.nodes.len() * job.ranks_per_node.max(1) as usize;
    if placement.ranks.len() != asked {
        found.push(format!("{} ranks are placed, {asked} were asked for", placement.ranks.len()));
    }
}
