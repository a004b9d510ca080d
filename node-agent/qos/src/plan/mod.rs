//! Ordered edits that make a port what its profile says, each with its undo; and what is withheld, and why.
//!
//! Contracts, each proved by a property test with the model of the drivers:
//! 1. All edits of a plan that withholds nothing leave no deviation that can be fixed, and the next plan is empty.
//! 2. The undos in reverse order bring back what was, where the driver can hold it.
//! 3. After any prefix of the edits, a new plan ends in the same place.

mod app;
mod command;
mod draft;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    diff::{Deviation, Finding, diff},
    edit::{Blast, Edit, Via},
    model,
    observed::{DcbAgent, Observed, Reading},
    profile::QosProfile,
    vendor::Vendor,
};

use draft::{Draft, Knob, ORDER};

/// What the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Options {
    /// Edits that harm traffic, on a server that is not drained.
    pub force: bool,
    /// Stop agents that set class of service by themselves.
    pub take_dcbx: bool,
}

/// An edit that is not to be made now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Withheld {
    /// The edit that is withheld.
    pub edit: Edit,
    /// Why, and what lifts it.
    pub reason: String,
}

/// What is to be done with one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Plan {
    /// Name of the network device.
    pub netdev: String,
    /// Name of the RDMA device; `None` where the network device has none.
    pub rdma: Option<String>,
    /// Name of the driver's table.
    pub vendor: String,
    /// Name of the profile.
    pub profile: String,
    /// Agents of the server that have to be stopped first, because the caller takes their place.
    pub stop_agents: Vec<DcbAgent>,
    /// In the order in which they are to be made.
    pub edits: Vec<Edit>,
    /// The edits that are not to be made now, each with the reason.
    pub withheld: Vec<Withheld>,
    /// What is wrong, whether it is fixed or not.
    pub deviations: Vec<Deviation>,
    /// What cannot be known, set or fixed.
    pub findings: Vec<Finding>,
}

impl Plan {
    /// The worst that its edits do.
    #[must_use]
    pub fn blast(&self) -> Blast {
        self.edits.iter().map(|edit| edit.blast).max().unwrap_or(Blast::Nothing)
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanRefusal {
    /// Somebody else sets the same things.
    #[error(
        "{netdev}: {} sets class of service on this server and would overwrite {changes}; stop and disable it \
         (for lldpad: 'systemctl disable --now lldpad.socket lldpad.service'), or take ownership, which stops it",
        .agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    AgentRuns {
        /// Name of the port's network device.
        netdev: String,
        /// The programs that set class of service by themselves.
        agents: Vec<DcbAgent>,
        /// How many edits it would overwrite, in words.
        changes: String,
    },
}

/// Plans one port.
///
/// # Errors
/// [`PlanRefusal`] where an agent runs that would overwrite what is set, unless `options` takes its place.
pub fn plan(
    profile: &QosProfile,
    observed: &Observed,
    vendor: &Vendor,
    options: Options,
) -> Result<Plan, PlanRefusal> {
    let verdict = diff(profile, observed, vendor);
    let drafts = drafts(profile, observed, vendor);
    let contested = drafts.iter().filter(|(_, edit)| edit.via == Via::Dcbnl).count();
    let agents = match &observed.agents {
        Reading::Known(agents) => agents.as_slice(),
        Reading::Unsupported | Reading::Unreadable(_) => &[],
    };
    if !agents.is_empty() && contested > 0 && !options.take_dcbx {
        let changes = if contested == 1 { "1 edit".to_owned() } else { format!("{contested} edits") };
        let netdev = observed.device.netdev.clone();
        return Err(PlanRefusal::AgentRuns { netdev, agents: agents.to_vec(), changes });
    }
    let (edits, withheld) = sort_out(drafts, profile, observed, vendor, options);
    Ok(Plan {
        netdev: observed.device.netdev.clone(),
        rdma: observed.device.rdma.clone(),
        vendor: vendor.name.to_owned(),
        profile: profile.spec().name.clone(),
        stop_agents: if options.take_dcbx { agents.to_vec() } else { Vec::new() },
        edits,
        withheld,
        deviations: verdict.deviations,
        findings: verdict.findings,
    })
}

/// All edits in order, each made of what the ones before it leave.
fn drafts(profile: &QosProfile, observed: &Observed, vendor: &Vendor) -> Vec<(Knob, Edit)> {
    let mut at = observed.clone();
    let mut all = Vec::new();
    let mut differing = draft::differing(profile, &at.settings, vendor);
    for (knob, _) in ORDER {
        let before = all.len();
        for Draft { change, undo, aspects } in draft::of(*knob, &differing, profile, &at.settings, vendor) {
            let Some(edit) = draft::edit(*knob, change, undo, &aspects, &at, vendor) else { continue };
            at = model::apply(&at, &edit.change, vendor);
            all.push((*knob, edit));
        }
        if all.len() > before {
            differing = draft::differing(profile, &at.settings, vendor);
        }
    }
    all
}

/// What is made now, and what is not. The data class of RDMA data is changed as a whole or not at all: half a new data class is worse
/// for running jobs than the whole old one.
fn sort_out(
    drafts: Vec<(Knob, Edit)>,
    profile: &QosProfile,
    observed: &Observed,
    vendor: &Vendor,
    options: Options,
) -> (Vec<Edit>, Vec<Withheld>) {
    let free = observed.drained || options.force;
    let owner = draft::owner_missing(profile, observed, vendor).or_else(|| {
        let taking = drafts.iter().find(|(knob, edit)| knob.owns() && !free && !edit.blast.is_harmless());
        taking.map(|(knob, _)| format!("it needs {}, which is withheld", knob.as_str()))
    });
    let harmful = |(knob, edit): &&(Knob, Edit)| knob.is_data_class() && !edit.blast.is_harmless();
    let half = drafts.iter().find(harmful).filter(|_| !free).map(|(knob, edit)| (*knob, edit.blast));
    let (mut edits, mut withheld) = (Vec::new(), Vec::new());
    for (knob, edit) in drafts {
        let reason = if let Some(owner) =
            owner.as_ref().filter(|_| knob.needs_owner() || knob.is_data_class())
        {
            Some(owner.clone())
        } else if !free && !edit.blast.is_harmless() {
            Some(format!("it causes {} and the server is not drained; drain it, or force", edit.blast))
        } else if let Some((other, blast)) = half.filter(|_| knob.is_data_class()) {
            Some(format!(
                "it changes the data class of RDMA data, which is changed as a whole, and {} causes {blast}",
                other.as_str()
            ))
        } else {
            None
        };
        match reason {
            None => edits.push(edit),
            Some(reason) => withheld.push(Withheld { edit, reason }),
        }
    }
    (edits, withheld)
}
