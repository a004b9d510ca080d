//! Whether a port that was read is where a journal thinks it is. Only what the edits touch counts.

use super::Journal;
use crate::{
    edit::Change,
    observed::{Observed, Reading, Settings},
    settings::CcSide,
};

/// Where a port differs from what is expected: at the edit in question, if anywhere, or elsewhere.
pub enum Where {
    /// Before or after the edit in question, or in the middle of it.
    Here,
    /// Something else is otherwise than expected.
    Elsewhere(String),
}

/// What of `journal`'s touch is otherwise in `read` than in `expected`; none if nothing is.
pub fn differing(journal: &Journal, expected: &Observed, read: &Observed) -> Option<String> {
    let odd = journal.edits.iter().find(|edit| !same(&edit.change, &expected.settings, &read.settings));
    odd.map(|edit| format!("{} is not as expected", name(&edit.change)))
}

/// Whether `read` is one of `expected`, but for what edit `edit` touches.
pub fn locate(journal: &Journal, edit: usize, expected: &[Observed; 2], read: &Observed) -> Where {
    let Some(own) = journal.edits.get(edit) else { return Where::Here };
    let fits = |expected: &Observed| {
        journal
            .edits
            .iter()
            .filter(|other| name(&other.change) != name(&own.change))
            .find(|other| !same(&other.change, &expected.settings, &read.settings))
            .map(|other| format!("{} is not as expected", name(&other.change)))
    };
    // What an edit changes beside its own value (trust, ETS) differs between the two.
    match (fits(&expected[0]), fits(&expected[1])) {
        (Some(what), Some(_)) => Where::Elsewhere(what),
        _ => Where::Here,
    }
}

/// What a change is about.
pub const fn name(change: &Change) -> &'static str {
    match change {
        Change::Dcbx { .. } => "dcbx",
        Change::FirmwareLldp { .. } => "firmware-lldp",
        Change::Pause { .. } => "global-pause",
        Change::Mtu { .. } => "mtu",
        Change::Trust { .. } => "trust",
        Change::App { .. } => "the application table",
        Change::Ets { .. } => "ets",
        Change::MaxRate { .. } => "max-rate",
        Change::Pfc { .. } => "pfc",
        Change::Buffer { .. } => "buffer",
        Change::PfcPrevention { .. } => "pfc-prevention",
        Change::DefaultTos { .. } => "default-tos",
        Change::DefaultMode { .. } => "default-mode",
        Change::ForcedTos { .. } => "forced-tos",
        Change::CcEnable { side: CcSide::NotificationPoint, .. } => "dcqcn-np",
        Change::CcEnable { side: CcSide::ReactionPoint, .. } => "dcqcn-rp",
        Change::CcDevice { .. } => "congestion control",
        Change::CnpDscp { .. } => "cnp-dscp",
        Change::CnpPriority { .. } => "cnp-prio",
        Change::RoceDscp { .. } => "roce-dscp",
        Change::RocePriority { .. } => "roce-prio",
        Change::CcParam { param, .. } => param.as_str(),
    }
}

/// Whether two ports are the same in what `change` touches.
fn same(change: &Change, a: &Settings, b: &Settings) -> bool {
    let (ca, cb) = (&a.congestion, &b.congestion);
    match change {
        Change::Dcbx { .. } => a.dcbx == b.dcbx,
        Change::FirmwareLldp { .. } => a.firmware_lldp == b.firmware_lldp,
        Change::Pause { .. } => a.pause == b.pause,
        Change::Mtu { .. } => a.mtu == b.mtu,
        Change::Trust { .. } => a.trust == b.trust,
        Change::App { .. } => a.app == b.app && a.trust == b.trust,
        Change::Ets { .. } => ets(a) == ets(b),
        Change::MaxRate { .. } => a.max_rate == b.max_rate,
        Change::Pfc { .. } => a.pfc == b.pfc,
        Change::Buffer { .. } => a.buffer == b.buffer,
        Change::PfcPrevention { .. } => a.pfc_prevention == b.pfc_prevention,
        Change::DefaultTos { .. } => a.default_tos == b.default_tos,
        Change::DefaultMode { .. } => a.default_mode == b.default_mode,
        Change::ForcedTos { .. } => a.forced_tos == b.forced_tos,
        Change::CcEnable { side: CcSide::NotificationPoint, .. } => ca.notification == cb.notification,
        Change::CcEnable { side: CcSide::ReactionPoint, .. } => ca.reaction == cb.reaction,
        Change::CcDevice { .. } => ca.notification == cb.notification && ca.reaction == cb.reaction,
        Change::CnpDscp { .. } => ca.cnp_dscp == cb.cnp_dscp,
        Change::CnpPriority { .. } => ca.cnp_priority == cb.cnp_priority,
        Change::RoceDscp { .. } => ca.roce_dscp == cb.roce_dscp,
        Change::RocePriority { .. } => ca.roce_priority == cb.roce_priority,
        Change::CcParam { param, .. } => ca.params.get(param) == cb.params.get(param),
    }
}

/// Why what `change` touches could not be read; none if it was, or if there is no such thing.
pub fn unreadable<'a>(change: &Change, set: &'a Settings) -> Option<&'a str> {
    let cc = &set.congestion;
    match change {
        Change::Dcbx { .. } => why(&set.dcbx),
        Change::FirmwareLldp { .. } => why(&set.firmware_lldp),
        Change::Pause { .. } => why(&set.pause),
        Change::Mtu { .. } => why(&set.mtu),
        Change::Trust { .. } => why(&set.trust),
        Change::App { .. } => why(&set.app).or_else(|| why(&set.trust)),
        Change::Ets { .. } => why(&set.ets),
        Change::MaxRate { .. } => why(&set.max_rate),
        Change::Pfc { .. } => why(&set.pfc),
        Change::Buffer { .. } => why(&set.buffer),
        Change::PfcPrevention { .. } => why(&set.pfc_prevention),
        Change::DefaultTos { .. } => why(&set.default_tos),
        Change::DefaultMode { .. } => why(&set.default_mode),
        Change::ForcedTos { .. } => why(&set.forced_tos),
        Change::CcEnable { .. } | Change::CcDevice { .. } => {
            why(&cc.notification).or_else(|| why(&cc.reaction))
        }
        Change::CnpDscp { .. } => why(&cc.cnp_dscp),
        Change::CnpPriority { .. } => why(&cc.cnp_priority),
        Change::RoceDscp { .. } => why(&cc.roce_dscp),
        Change::RocePriority { .. } => why(&cc.roce_priority),
        Change::CcParam { param, .. } => cc.params.get(param).and_then(why),
    }
}

fn why<T>(reading: &Reading<T>) -> Option<&str> {
    match reading {
        Reading::Unreadable(why) => Some(why),
        Reading::Known(_) | Reading::Unsupported => None,
    }
}

/// ETS without what means nothing: the share of a class that has none is whatever the driver likes to report.
fn ets(set: &Settings) -> Option<crate::settings::Ets> {
    set.ets.known().map(|ets| {
        let mut ets = *ets;
        for (tsa, share) in ets.tsa.into_iter().zip(&mut ets.bandwidth) {
            if tsa != crate::words::Tsa::Ets {
                *share = 0;
            }
        }
        ets
    })
}
