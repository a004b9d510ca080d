//! From what deviates to changes: which kernel objects, in which order, from what to what.

use super::{app, command};
use crate::{
    diff::{Compared, all},
    edit::{Change, Edit, FileRoot, Via},
    item::Item,
    observed::Observed,
    profile::QosProfile,
    settings::{CcParam, CcSide, DcbxMode, Ets, Pfc},
    vendor::{
        Aspect, How, Interface, TrustStyle, Vendor,
        path::{Filling, fill},
    },
    wanted::{Wanted, host_mode, pause},
    words::PrioritySet,
};

/// A kernel object that is set as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    FirmwareLldp,
    Dcbx,
    Pause,
    Mtu,
    Trust,
    App,
    Ets,
    MaxRate,
    Buffer,
    Pfc,
    PfcPrevention,
    RoceClass,
    Cnp,
    CcParam,
    CcEnable,
    ForcedTos,
    DefaultMode,
    DefaultTos,
}

/// The order of edits, and why each stands where it stands.
pub const ORDER: &[(Knob, &str)] = &[
    (Knob::FirmwareLldp, "first, because drivers refuse DCB settings while it runs"),
    (Knob::Dcbx, "before all DCB settings, because the firmware would take them back"),
    (Knob::Pause, "before PFC, because the two exclude each other"),
    (Knob::Mtu, "before PFC, because the lossless buffer's thresholds depend on it"),
    (Knob::Trust, "before the map that it brings into force"),
    (Knob::App, "before ETS and PFC, because a port that begins to trust DSCP may put both back"),
    (Knob::Ets, "before PFC, because the lossless class has to be there first"),
    (Knob::MaxRate, "after the classes that it limits"),
    (Knob::Buffer, "before PFC, because what is sent before a pause holds needs its place"),
    (Knob::Pfc, "after pause, map and classes, so that the right class becomes lossless at once"),
    (Knob::PfcPrevention, "after PFC, whose storms it ends"),
    (Knob::RoceClass, "after the map and PFC, because RDMA data goes there"),
    (Knob::Cnp, "after the map, so that CNPs are served first from the beginning"),
    (Knob::CcParam, "before congestion control is switched on"),
    (Knob::CcEnable, "after the class and the parameters of CNPs"),
    (Knob::ForcedTos, "after all that makes the data class lossless"),
    (Knob::DefaultMode, "before the ToS, which only RoCE v2 carries"),
    (Knob::DefaultTos, "last, so that connections get the data class when it stands"),
];

impl Knob {
    /// The name of the knob in texts for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirmwareLldp => "firmware-lldp",
            Self::Dcbx => "dcbx",
            Self::Pause => "global-pause",
            Self::Mtu => "mtu",
            Self::Trust => "trust",
            Self::App => "the DSCP map",
            Self::Ets => "ets",
            Self::MaxRate => "max-rate",
            Self::Buffer => "buffer",
            Self::Pfc => "pfc",
            Self::PfcPrevention => "pfc-prevention",
            Self::RoceClass => "roce-class",
            Self::Cnp => "cnp",
            Self::CcParam => "cc-params",
            Self::CcEnable => "dcqcn",
            Self::ForcedTos => "forced-tos",
            Self::DefaultMode => "default-mode",
            Self::DefaultTos => "default-tos",
        }
    }

    /// Whether it decides who may set the others.
    pub const fn owns(self) -> bool {
        matches!(self, Self::FirmwareLldp | Self::Dcbx)
    }

    /// Whether the host has to own DCBX for it.
    pub const fn needs_owner(self) -> bool {
        matches!(self, Self::Trust | Self::App | Self::Ets | Self::MaxRate | Self::Buffer | Self::Pfc)
    }

    /// Whether it is a part of the way of RDMA data and its CNPs.
    pub const fn is_data_class(self) -> bool {
        matches!(
            self,
            Self::Pause
                | Self::Trust
                | Self::App
                | Self::Ets
                | Self::Pfc
                | Self::RoceClass
                | Self::Cnp
                | Self::ForcedTos
                | Self::DefaultTos
        )
    }
}

/// A change, its undo, and what it touches.
pub struct Draft {
    pub change: Change,
    pub undo: Change,
    pub aspects: Vec<Aspect>,
}

impl Draft {
    pub fn new(change: Change, aspects: &[Aspect]) -> Self {
        Self { undo: change.inverse(), change, aspects: aspects.to_vec() }
    }
}

/// What of DCBX is not the host's and never will be by a setting; none if there is no such thing.
pub fn owner_missing(profile: &QosProfile, observed: &Observed, vendor: &Vendor) -> Option<String> {
    let differs = all(profile, &observed.settings, vendor)
        .into_iter()
        .any(|compared| compared.item == Item::Dcbx && compared.differs());
    let for_good = vendor.dcbx.firmwares_for_good?;
    let mode = observed.settings.dcbx.known()?;
    (differs && mode.has(DcbxMode::LLD_MANAGED)).then(|| format!("it needs DCBX: {for_good}"))
}

/// The items that are known to be otherwise than wanted.
pub fn differing(profile: &QosProfile, set: &crate::observed::Settings, vendor: &Vendor) -> Vec<Item> {
    all(profile, set, vendor).into_iter().filter(Compared::differs).map(|compared| compared.item).collect()
}

/// The changes of one object; none if nothing of it is among `differing`.
pub fn of(
    knob: Knob,
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
    vendor: &Vendor,
) -> Vec<Draft> {
    let differs = |item: Item| differing.contains(&item);
    let one = |change: Option<Change>, aspect: Aspect| {
        change.map(|change| Draft::new(change, &[aspect])).into_iter().collect::<Vec<_>>()
    };
    let spec = profile.spec();
    match knob {
        Knob::FirmwareLldp => {
            let change =
                differs(Item::FirmwareLldp).then_some(Change::FirmwareLldp { from: true, to: false });
            one(change, Aspect::FirmwareLldp)
        }
        Knob::Dcbx => one(dcbx(differs(Item::Dcbx), set, vendor), Aspect::Dcbx),
        Knob::Pause => {
            let found = set.pause.known().filter(|_| differs(Item::GlobalPause));
            one(found.map(|from| Change::Pause { from: *from, to: pause(*from, profile) }), Aspect::Pause)
        }
        Knob::Mtu => {
            let found = set.mtu.known().filter(|_| differs(Item::Mtu));
            one(found.map(|from| Change::Mtu { from: *from, to: spec.mtu }), Aspect::Mtu)
        }
        Knob::Trust => {
            let found = set.trust.known().filter(|_| differs(Item::Trust) && vendor.trust == TrustStyle::Own);
            one(found.map(|from| Change::Trust { from: *from, to: spec.trust }), Aspect::Trust)
        }
        Knob::App => app::drafts(profile, set, vendor, differing),
        Knob::Ets => ets(differing, profile, set, vendor),
        Knob::Pfc => pfc(differing, profile, set, vendor),
        Knob::MaxRate | Knob::Buffer | Knob::PfcPrevention => limits(knob, differing, profile, set),
        Knob::RoceClass | Knob::Cnp => marks(knob, differing, profile, set),
        Knob::CcParam | Knob::CcEnable => congestion(knob, differing, profile, set, vendor),
        Knob::ForcedTos | Knob::DefaultMode | Knob::DefaultTos => connections(knob, differing, profile, set),
    }
}

fn dcbx(differs: bool, set: &crate::observed::Settings, vendor: &Vendor) -> Option<Change> {
    let from = *set.dcbx.known().filter(|_| differs)?;
    if vendor.dcbx.firmwares_for_good.is_some() && from.has(DcbxMode::LLD_MANAGED) {
        return None;
    }
    let to = host_mode(from, vendor);
    let back = if vendor.dcbx.zero_returns && !from.has(DcbxMode::HOST) { DcbxMode(0) } else { from };
    Some(Change::Dcbx { from, to, send: to, undo_send: back })
}

fn ets(
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
    vendor: &Vendor,
) -> Vec<Draft> {
    let map = differing.iter().any(|item| matches!(item, Item::PrioTc(_)));
    let shares =
        differing.iter().any(|item| matches!(item, Item::EtsWilling | Item::Tsa(_) | Item::Bandwidth(_)));
    let Some(from) = set.ets.known().filter(|_| map || shares) else { return Vec::new() };
    vec![ets_draft(*from, Wanted::of(profile, vendor).ets)]
}

/// ETS from one to another, with the aspects that differ.
pub fn ets_draft(from: Ets, to: Ets) -> Draft {
    let mut aspects = Vec::new();
    if from.prio_tc != to.prio_tc {
        aspects.push(Aspect::EtsMap);
    }
    let shares = |ets: &Ets| (ets.willing, ets.tsa, ets.meant().bandwidth);
    if shares(&from) != shares(&to) {
        aspects.push(Aspect::EtsShares);
    }
    Draft::new(Change::Ets { from, to }, &aspects)
}

fn pfc(
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
    vendor: &Vendor,
) -> Vec<Draft> {
    let (mask, cable) = (differing.contains(&Item::Pfc), differing.contains(&Item::CableLength));
    let Some(from) = set.pfc.known().filter(|_| mask || cable) else { return Vec::new() };
    let wanted = Wanted::of(profile, vendor);
    let to = Pfc {
        enabled: wanted.pfc,
        // 0 is what a device reports that cannot lay out its buffers.
        delay: wanted.delay.filter(|_| from.delay != 0).unwrap_or(from.delay),
    };
    vec![pfc_draft(*from, to)]
}

/// PFC from one to another, with the aspects that differ.
pub fn pfc_draft(from: Pfc, to: Pfc) -> Draft {
    let mut aspects = Vec::new();
    if from.enabled != to.enabled {
        aspects.push(Aspect::PfcMask);
    }
    if from.delay != to.delay {
        aspects.push(Aspect::PfcDelay);
    }
    Draft::new(Change::Pfc { from, to }, &aspects)
}

fn limits(
    knob: Knob,
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
) -> Vec<Draft> {
    let spec = profile.spec();
    let change = match knob {
        Knob::MaxRate if differing.iter().any(|item| matches!(item, Item::MaxRate(_))) => {
            let change = set.max_rate.known().zip(spec.max_rate);
            change.map(|(from, to)| (Change::MaxRate { from: *from, to }, Aspect::MaxRate))
        }
        Knob::Buffer if differing.contains(&Item::Buffer) => {
            let change = set.buffer.known().zip(spec.buffer);
            change.map(|(from, to)| (Change::Buffer { from: *from, to }, Aspect::Buffer))
        }
        Knob::PfcPrevention if differing.contains(&Item::PfcPrevention) => {
            let change = set.pfc_prevention.known().zip(spec.pfc_prevention);
            change.map(|(from, to)| (Change::PfcPrevention { from: *from, to }, Aspect::PfcPrevention))
        }
        _ => None,
    };
    change.map(|(change, aspect)| Draft::new(change, &[aspect])).into_iter().collect()
}

/// DSCPs and priorities of CNPs, and what the device takes for those of data.
fn marks(
    knob: Knob,
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
) -> Vec<Draft> {
    let (spec, cc) = (profile.spec(), &set.congestion);
    let mut drafts = Vec::new();
    let mut add = |item: Item, change: Option<Change>, aspect: Aspect| {
        if let Some(change) = change.filter(|_| differing.contains(&item)) {
            drafts.push(Draft::new(change, &[aspect]));
        }
    };
    if knob == Knob::RoceClass {
        let change = cc.roce_dscp.known().map(|from| Change::RoceDscp { from: *from, to: spec.data_dscp });
        add(Item::RoceDscp, change, Aspect::RoceDscp);
        let to = spec.lossless_priority;
        let change = cc.roce_priority.known().map(|from| Change::RocePriority { from: *from, to });
        add(Item::RocePriority, change, Aspect::RocePriority);
        return drafts;
    }
    let change = cc.cnp_dscp.known().map(|from| Change::CnpDscp { from: *from, to: spec.cnp_dscp });
    add(Item::CnpDscp, change, Aspect::CnpDscp);
    // Writing the priority makes the mode 0; so the mode comes first, and is taken back last.
    let param = CcParam::CnpPrioMode;
    let found = cc.params.get(&param).and_then(|reading| reading.known());
    let change = found.map(|from| Change::CcParam { param, from: *from, to: 0 });
    add(Item::CcParam(param), change, Aspect::CnpMode);
    let change =
        cc.cnp_priority.known().map(|from| Change::CnpPriority { from: *from, to: spec.cnp_priority });
    add(Item::CnpPriority, change, Aspect::CnpPriority);
    drafts
}

fn congestion(
    knob: Knob,
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
    vendor: &Vendor,
) -> Vec<Draft> {
    let (spec, cc) = (profile.spec(), &set.congestion);
    if knob == Knob::CcParam {
        let param = |(param, to): (&CcParam, &u32)| {
            let from =
                cc.params.get(param)?.known().filter(|_| differing.contains(&Item::CcParam(*param)))?;
            let change = Change::CcParam { param: *param, from: *from, to: *to };
            Some(Draft::new(change, &[Aspect::CcParam]))
        };
        return spec.dcqcn.params.iter().filter_map(param).collect();
    }
    let priority = spec.lossless_priority;
    let ends = [
        (CcSide::NotificationPoint, spec.dcqcn.notification, &cc.notification),
        (CcSide::ReactionPoint, spec.dcqcn.reaction, &cc.reaction),
    ];
    let mut drafts = Vec::new();
    for (side, wanted, reading) in ends {
        let found: Option<&PrioritySet> =
            reading.known().filter(|_| differing.contains(&Item::Dcqcn(side, priority)));
        let Some(found) = found else { continue };
        let (from, to) = (found.contains(priority), wanted.contains(priority));
        let change = if vendor.one_cc_switch {
            Change::CcDevice { from, to }
        } else {
            Change::CcEnable { side, priority, from, to }
        };
        drafts.push(Draft::new(change, &[Aspect::CcEnable]));
    }
    drafts.dedup_by(|a, b| a.change == b.change);
    drafts
}

fn connections(
    knob: Knob,
    differing: &[Item],
    profile: &QosProfile,
    set: &crate::observed::Settings,
) -> Vec<Draft> {
    let spec = profile.spec();
    let change = match knob {
        Knob::ForcedTos if differing.contains(&Item::ForcedTos) => {
            let to = Some(spec.default_tos);
            set.forced_tos.known().map(|from| (Change::ForcedTos { from: *from, to }, Aspect::ForcedTos))
        }
        Knob::DefaultMode if differing.contains(&Item::DefaultMode) => {
            let to = spec.default_mode;
            set.default_mode
                .known()
                .map(|from| (Change::DefaultMode { from: *from, to }, Aspect::DefaultMode))
        }
        Knob::DefaultTos if differing.contains(&Item::DefaultTos) => {
            let to = spec.default_tos;
            set.default_tos.known().map(|from| (Change::DefaultTos { from: *from, to }, Aspect::DefaultTos))
        }
        _ => None,
    };
    change.map(|(change, aspect)| Draft::new(change, &[aspect])).into_iter().collect()
}

/// The edit of a draft; none where the driver has no way.
pub fn edit(
    knob: Knob,
    change: Change,
    undo: Change,
    aspects: &[Aspect],
    at: &Observed,
    vendor: &Vendor,
) -> Option<Edit> {
    let mut rows = Vec::new();
    for aspect in aspects {
        match vendor.row(*aspect).how {
            How::Set { by, blast, why } => rows.push((blast, why, by)),
            How::Never { .. } => return None,
        }
    }
    // The worst first; what is as bad is named as well.
    rows.sort_by_key(|(blast, ..)| std::cmp::Reverse(*blast));
    let (blast, _, by) = *rows.first()?;
    let mut reasons: Vec<&str> =
        rows.iter().filter(|(other, ..)| *other == blast).map(|(_, why, _)| *why).collect();
    reasons.dedup();
    let place = ORDER.iter().find(|(other, _)| *other == knob).map_or("", |(_, why)| why);
    let via = via(by, &change, at)?;
    let commands = command::of(&change, &via, at, vendor);
    let undo_commands = command::of(&undo, &via, at, vendor);
    let why = format!("{}; {place}", reasons.join("; "));
    Some(Edit { change, via, blast, why, commands, undo, undo_commands })
}

/// The interface with the device's names filled in; none if it has not got a name that is needed.
fn via(by: Interface, change: &Change, at: &Observed) -> Option<Via> {
    let device = &at.device;
    let fill = |text: &str| fill(text, device, Filling::of(change));
    Some(match by {
        Interface::Dcbnl => Via::Dcbnl,
        Interface::EthtoolPause => Via::EthtoolPause,
        Interface::EthtoolTunable => Via::EthtoolTunable,
        Interface::PrivateFlag(flag) => Via::EthtoolPrivateFlag(flag.to_owned()),
        Interface::Link => Via::Link,
        Interface::File(root, path, apply) => file(root, fill(path)?, apply.map(fill)),
        Interface::RdmaCm(file) => {
            Via::RdmaCm { device: device.rdma.clone()?, port: device.port, file: file.to_owned() }
        }
    })
}

fn file(root: FileRoot, path: String, apply: Option<Option<String>>) -> Via {
    Via::File { root, path, apply: apply.flatten() }
}
