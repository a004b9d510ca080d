//! What the options of `railctl switch` name: the switches of a fabric document, the profile, the plan that follows from both.

use std::{collections::BTreeMap, path::Path};

use controller_switch::{
    asic::Asic,
    desired,
    fabric::{Hardware, switches},
    model::{Nos, Role, Switch},
    state::{BufferModel, SwitchState},
};
use proto_profile::QosProfile;

use super::{fabric::document, qos};
use crate::{
    args::{SwitchAsic, SwitchBuffers, SwitchHardware, SwitchNos},
    error::Error,
};

/// Things of one kind that are named at most.
const NAMED: usize = 20;

/// What the options name.
pub(super) struct Site {
    pub(super) profile: QosProfile,
    pub(super) switches: Vec<Switch>,
    pub(super) model: BufferModel,
}

pub(super) fn site(file: &Path, said: &SwitchHardware) -> Result<Site, Error> {
    let profile = qos::profile_of(said.profile.as_deref())?;
    let switches = of_document(file, &|role| hardware(said, role))?;
    let model = match said.buffers {
        SwitchBuffers::Static => BufferModel::Static,
        SwitchBuffers::Dynamic => BufferModel::Dynamic,
    };
    Ok(Site { profile, switches, model })
}

pub(super) fn of_document(file: &Path, hardware: &dyn Fn(Role) -> Hardware) -> Result<Vec<Switch>, Error> {
    let fabric = document(file)?;
    switches(&fabric, hardware).map_err(|all| Error::Document(several(&file.display().to_string(), &all)))
}

/// Findings as lines, the first ones by name.
pub(super) fn several(shown: &str, all: &[impl ToString]) -> String {
    let mut lines: Vec<String> =
        all.iter().take(NAMED).map(|one| format!("{shown}: {}", one.to_string())).collect();
    if all.len() > NAMED {
        lines.push(format!("{shown}: and {} more", all.len() - NAMED));
    }
    lines.join("\n")
}

fn hardware(source: &SwitchHardware, role: Role) -> Hardware {
    let asic = match role {
        Role::Leaf => source.asic,
        Role::Spine(_) => source.spine_asic.unwrap_or(source.asic),
    };
    let asic = match asic {
        SwitchAsic::Spectrum2 => Asic::Spectrum2,
        SwitchAsic::Spectrum3 => Asic::Spectrum3,
        SwitchAsic::Spectrum4 => Asic::Spectrum4,
        SwitchAsic::Spectrum5 => Asic::Spectrum5,
        SwitchAsic::Tomahawk4 => Asic::Tomahawk4,
        SwitchAsic::Tomahawk5 => Asic::Tomahawk5,
        SwitchAsic::Tofino2 => Asic::Tofino2,
        SwitchAsic::SonicVs => Asic::SonicVs,
    };
    let nos = system(source.nos);
    let cable_m = if role == Role::Leaf { source.cable } else { source.spine_cable };
    Hardware { nos, version: String::new(), asic, lanes: source.lanes, cable_m }
}

pub(super) fn system(nos: SwitchNos) -> Nos {
    match nos {
        SwitchNos::Sonic => Nos::Sonic,
        SwitchNos::Cumulus => Nos::Cumulus,
        SwitchNos::Eos => Nos::Eos,
        SwitchNos::NxOs => Nos::NxOs,
        SwitchNos::Frr => Nos::Linux,
    }
}

pub(super) fn named<'s>(site: &'s Site, name: &str) -> Result<&'s Switch, Error> {
    site.switches.iter().find(|switch| switch.name.as_str() == name).ok_or_else(|| {
        let names = site.switches.iter().map(|switch| switch.name.as_str());
        let near = names.min_by_key(|other| strsim::damerau_levenshtein(other, name)).unwrap_or_default();
        Error::NotFound(format!(
            "the document has no switch {name}; did you mean {near}? `railctl switch list` shows all {}",
            site.switches.len()
        ))
    })
}

pub(super) fn states(site: &Site) -> Result<BTreeMap<String, SwitchState>, Error> {
    let states = desired::plan(&site.profile, &site.switches, site.model)
        .map_err(|all| Error::Infeasible(several("plan", &all)))?;
    Ok(states.into_iter().map(|(name, state)| (name.to_string(), state)).collect())
}
