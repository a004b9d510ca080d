//! The proof of every placement: by the scheduler's independent checkers, on what is held at that moment.

use controller_scheduler::{Choice, Pick, RailNeed, Snapshot, check_placement, prove};
use controller_topology::RailSet;
use proto_model::{NodePlace, Placement};

use crate::workload::SimJob;

/// Everything that is wrong with a placement, before it is held.
#[must_use]
pub fn flaws(snapshot: &Snapshot, job: &SimJob, placement: &Placement) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    match choice(snapshot, placement) {
        Ok(choice) => {
            if let Err(flaws) = prove(snapshot, &job.need, &choice) {
                found.extend(flaws.iter().map(ToString::to_string));
            }
        }
        Err(unknown) => found.push(unknown),
    }
    quota(snapshot, job, placement, &mut found);
    ranks(job, placement, &mut found);
    // A document cannot ask for no rail at all; jobs inside one server that do are proved by the above alone.
    if job.need.rails != RailNeed::Exactly(RailSet::EMPTY)
        && let Err(violations) = check_placement(snapshot, &job.id.tenant, &job.spec, placement)
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
        spares: Vec::new(),
        exclusive: false,
        pods: placement.pods,
        cut: 0,
    })
}

fn quota(snapshot: &Snapshot, job: &SimJob, placement: &Placement, found: &mut Vec<String>) {
    let tenant = &job.id.tenant;
    let used = snapshot.tenant(tenant);
    let more: u64 = placement.nodes.iter().map(|place| place.gpus.len() as u64).sum();
    let (would, quota) = (used.held + more, u64::from(used.quota.unwrap_or(0)));
    if would > quota {
        found.push(format!("tenant '{tenant}' would hold {would} GPUs of {quota}"));
    }
}

fn ranks(job: &SimJob, placement: &Placement, found: &mut Vec<String>) {
    let asked = placement.nodes.len() * job.spec.gang.ranks_per_node.max(1) as usize;
    if placement.ranks.len() != asked {
        found.push(format!("{} ranks are placed, {asked} were asked for", placement.ranks.len()));
    }
}
