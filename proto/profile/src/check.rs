//! What contradicts itself in a profile: every wrong field at once.

use thiserror::Error;

use crate::{
    settings::CcParam,
    spec::ProfileSpec,
    switch_check::{self, SwitchFlaw},
    words::{Dscp, Ownership, Priority, RoceMode, Trust, Tsa},
};

/// RoCE path MTU of 4096 bytes and the headers around it: a network device has to carry this.
pub const MTU_MIN: u32 = 4192;
/// The largest that NICs and switches of this kind carry.
pub const MTU_MAX: u32 = 9216;
/// mlx5 takes cables that are shorter than 1000 m (`MLX5E_MAX_CABLE_LENGTH`).
pub const CABLE_MAX: u16 = 999;
/// PFC storm prevention times that drivers take, in ms.
pub const PREVENTION: std::ops::RangeInclusive<u16> = 80..=8000;

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// No name, or one that is no word.
    #[error("name: '{0}' must be 1 to 63 letters, digits, '-', '_' or '.'")]
    Name(String),
    /// The priority of RDMA data has no flow control: data would be dropped.
    #[error("pfc: the lossless priority {lossless} has no flow control, PFC is on for {pfc}; add {lossless}")]
    LosslessWithoutPfc {
        /// The priority of RDMA data.
        lossless: Priority,
        /// The priorities that have flow control, as a list.
        pfc: String,
    },
    /// Each lossless class takes buffers from all others and is one more way into a deadlock.
    #[error("pfc: priority {extra} has flow control but carries no RDMA data; only {lossless} should")]
    PfcTooWide {
        /// The priority that has flow control without need.
        extra: Priority,
        /// The priority of RDMA data.
        lossless: Priority,
    },
    /// Notifications would wait behind what they warn of.
    #[error("cnpPriority: CNPs are on priority {0}, which is lossless; take another one, such as 6")]
    CnpLossless(Priority),
    /// CNPs have the same DSCP as data.
    #[error("cnpDscp: {0} is the DSCP of data as well")]
    CnpDscpIsDatas(Dscp),
    /// CNPs wait behind others.
    #[error("tsa[{tc}]: the class of CNPs (priority {priority}) is '{tsa}'; it must be 'strict'")]
    CnpNotStrict {
        /// The priority of CNPs.
        priority: Priority,
        /// The traffic class of that priority.
        tc: u8,
        /// How the profile has that class served.
        tsa: Tsa,
    },
    /// Notifications and data would share a queue.
    #[error("prioTc: data (priority {lossless}) and CNPs (priority {cnp}) share traffic class {tc}")]
    CnpSharesClass {
        /// The priority of RDMA data.
        lossless: Priority,
        /// The priority of CNPs.
        cnp: Priority,
        /// The traffic class that both have.
        tc: u8,
    },
    /// A lossless queue that others fill too.
    #[error(
        "prioTc[{other}]: priority {other} shares traffic class {tc} with the lossless priority {lossless}"
    )]
    LosslessSharesClass {
        /// The priority of RDMA data.
        lossless: Priority,
        /// The priority that shares the class.
        other: Priority,
        /// The traffic class that both have.
        tc: u8,
    },
    /// The map says otherwise than the field.
    #[error("dscpMap[{dscp}]: priority {found}, but {field} puts DSCP {dscp} on priority {wanted}")]
    MapContradicts {
        /// The DSCP for which map and field differ.
        dscp: Dscp,
        /// The priority that the map gives it.
        found: Priority,
        /// The priority that the field gives it.
        wanted: Priority,
        /// Name of the field that says otherwise.
        field: &'static str,
    },
    /// A priority is mapped to a traffic class that does not exist.
    #[error("prioTc[{priority}]: there is no traffic class {found}; they are numbered 0 to 7")]
    NoSuchClass {
        /// The priority whose class does not exist.
        priority: usize,
        /// The class that the profile names.
        found: u8,
    },
    /// Shares that are not a whole.
    #[error("bandwidth: the shares of the 'ets' classes sum to {0} %, not to 100")]
    EtsSum(u32),
    /// A share of a class that has none.
    #[error("bandwidth[{tc}]: {share} %, but the class is served '{tsa}', which has no share")]
    ShareWithoutEts {
        /// Number of the traffic class.
        tc: usize,
        /// The share that the profile gives it, in percent.
        share: u8,
        /// How the profile has that class served.
        tsa: Tsa,
    },
    /// The class of data would starve.
    #[error("bandwidth[{0}]: the class of RDMA data has no share; it would starve")]
    DataStarves(u8),
    /// What no NIC serves in that way.
    #[error("tsa[{tc}]: '{tsa}' is not served alike by all NICs; take 'strict' or 'ets'")]
    OddTsa {
        /// Number of the traffic class.
        tc: usize,
        /// How the profile has it served.
        tsa: Tsa,
    },
    /// Not marked, so never slowed down.
    #[error(
        "defaultTos: {found} has no ECT bit, switches drop where they should mark; it should be {wanted}"
    )]
    TosWithoutEct {
        /// The ToS byte that the profile has.
        found: u8,
        /// The ToS byte that it should be.
        wanted: u8,
    },
    /// Another data class than that of data.
    #[error("defaultTos: {found} carries DSCP {}, data has DSCP {data}; it should be {wanted}", found >> 2)]
    TosOtherDscp {
        /// The ToS byte that the profile has.
        found: u8,
        /// The DSCP of RDMA data.
        data: Dscp,
        /// The ToS byte that it should be.
        wanted: u8,
    },
    /// No DSCP in RoCE v1.
    #[error("defaultMode: '{0}' carries no DSCP; it should be 'RoCE v2'")]
    OldRoce(RoceMode),
    /// Too small for the path MTU, or larger than what is carried.
    #[error("mtu: {0} is not from {MTU_MIN} (RoCE path MTU 4096 and its headers) to {MTU_MAX}")]
    Mtu(u32),
    /// Global pause and PFC are both on.
    #[error("globalPause: excludes PFC, which is on for {0}")]
    PauseWithPfc(String),
    /// The length is none that a cable can have.
    #[error("cableLength: {0} m is not from 1 to {CABLE_MAX}")]
    Cable(u16),
    /// The time of storm prevention is none that drivers take.
    #[error("pfcPrevention: {0} ms is neither 0 (never) nor 65535 (automatic) nor from 80 to 8000")]
    Prevention(u16),
    /// CNPs that nobody heeds, or that nobody sends.
    #[error("dcqcn: priority {priority} has only one of notification and reaction; one is of no use alone")]
    HalfDcqcn {
        /// The priority that has only one of the two.
        priority: Priority,
    },
    /// Congestion control of what is no RDMA data.
    #[error("dcqcn: priority {0} carries no RDMA data; only {1} does")]
    DcqcnElsewhere(Priority, Priority),
    /// Out of the parameter's range.
    #[error("dcqcn.params.{param}: {found} is more than {max}")]
    Param {
        /// The parameter whose value is out of range.
        param: CcParam,
        /// The value that the profile has.
        found: u32,
        /// The greatest value that the parameter can have.
        max: u32,
    },
    /// Values that the firmware would change.
    #[error(
        "dcbx: 'firmware' takes what the switch says; PFC, ETS and the DSCP map of this profile would not hold"
    )]
    NotOwned,
    /// The tag of packets that have none.
    #[error("trust: 'pcp' reads VLAN tags, which routed RoCE v2 has not; take 'dscp' or remove dscpMap")]
    PcpWithMap,
    /// A priority is mapped to a receive buffer that does not exist.
    #[error("buffer.prioBuffer[{priority}]: there is no buffer {found}; they are numbered 0 to 7")]
    NoSuchBuffer {
        /// The priority whose buffer does not exist.
        priority: usize,
        /// The buffer that the profile names.
        found: u8,
    },
    /// Priorities use a buffer whose size is 0.
    #[error("buffer.size[{0}]: priorities use this buffer, but its size is 0")]
    NoRoom(u8),
    /// Of the classes or of the switches' end.
    #[error(transparent)]
    Switch(#[from] SwitchFlaw),
}

/// All that is wrong with a profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the profile contradicts itself: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ProfileError(pub Vec<Flaw>);

/// Every flaw, in the order of the fields.
pub(crate) fn check(spec: &ProfileSpec) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if spec.name.is_empty() || spec.name.len() > 63 || !spec.name.chars().all(fine) {
        flaws.push(Flaw::Name(spec.name.clone()));
    }
    data_classes(spec, &mut flaws);
    classes(spec, &mut flaws);
    shares(spec, &mut flaws);
    congestion(spec, &mut flaws);
    connection(spec, &mut flaws);
    port(spec, &mut flaws);
    flaws.extend(switch_check::check(spec).into_iter().map(Flaw::Switch));
    flaws
}

/// Priorities, DSCPs and who has flow control.
fn data_classes(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    let lossless = spec.lossless_priority;
    if !spec.pfc.contains(lossless) {
        flaws.push(Flaw::LosslessWithoutPfc { lossless, pfc: spec.pfc.to_string() });
    }
    let extra =
        spec.pfc.iter().filter(|priority| !spec.is_lossless(*priority) && *priority != spec.cnp_priority);
    flaws.extend(extra.map(|extra| Flaw::PfcTooWide { extra, lossless }));
    if spec.cnp_priority == lossless || spec.pfc.contains(spec.cnp_priority) {
        flaws.push(Flaw::CnpLossless(spec.cnp_priority));
    }
    if spec.cnp_dscp == spec.data_dscp {
        flaws.push(Flaw::CnpDscpIsDatas(spec.cnp_dscp));
    }
    let own = [(spec.data_dscp, lossless, "dataDscp"), (spec.cnp_dscp, spec.cnp_priority, "cnpDscp")];
    for (dscp, wanted, field) in own {
        if let Some(found) = spec.dscp_map.get(&dscp).copied().filter(|found| *found != wanted) {
            flaws.push(Flaw::MapContradicts { dscp, found, wanted, field });
        }
    }
    if spec.trust == Trust::Pcp && !spec.dscp_map.is_empty() {
        flaws.push(Flaw::PcpWithMap);
    }
}

/// Traffic classes of the priorities.
fn classes(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    for (priority, found) in spec.prio_tc.into_iter().enumerate().filter(|(_, tc)| *tc > 7) {
        flaws.push(Flaw::NoSuchClass { priority, found });
    }
    let (lossless, cnp) = (spec.lossless_priority, spec.cnp_priority);
    let tc = spec.prio_tc[lossless.index()];
    for other in Priority::all().filter(|other| *other != lossless && spec.prio_tc[other.index()] == tc) {
        if other == cnp {
            flaws.push(Flaw::CnpSharesClass { lossless, cnp, tc });
        } else {
            flaws.push(Flaw::LosslessSharesClass { lossless, other, tc });
        }
    }
    let of_cnp = spec.prio_tc[cnp.index()];
    if let Some(tsa) = spec.tsa.get(usize::from(of_cnp)).copied().filter(|tsa| *tsa != Tsa::Strict) {
        flaws.push(Flaw::CnpNotStrict { priority: cnp, tc: of_cnp, tsa });
    }
}

/// How classes are served.
fn shares(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    let mut sum = 0;
    for (tc, (tsa, share)) in spec.tsa.into_iter().zip(spec.bandwidth).enumerate() {
        match tsa {
            Tsa::Ets => sum += u32::from(share),
            Tsa::Strict if share == 0 => {}
            Tsa::Strict => flaws.push(Flaw::ShareWithoutEts { tc, share, tsa }),
            Tsa::CreditBased | Tsa::Vendor | Tsa::Other(_) => flaws.push(Flaw::OddTsa { tc, tsa }),
        }
    }
    if spec.tsa.contains(&Tsa::Ets) && sum != 100 {
        flaws.push(Flaw::EtsSum(sum));
    }
    let data = spec.prio_tc[spec.lossless_priority.index()];
    let at = usize::from(data);
    if spec.tsa.get(at) == Some(&Tsa::Ets) && spec.bandwidth.get(at) == Some(&0) {
        flaws.push(Flaw::DataStarves(data));
    }
}

/// Both ends of DCQCN, and its parameters.
fn congestion(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    let (np, rp) = (spec.dcqcn.notification, spec.dcqcn.reaction);
    for priority in Priority::all() {
        if np.contains(priority) != rp.contains(priority) {
            flaws.push(Flaw::HalfDcqcn { priority });
        }
        if (np.contains(priority) || rp.contains(priority)) && !spec.is_lossless(priority) {
            flaws.push(Flaw::DcqcnElsewhere(priority, spec.lossless_priority));
        }
    }
    for (param, found) in &spec.dcqcn.params {
        let max = param_max(*param);
        if *found > max {
            flaws.push(Flaw::Param { param: *param, found: *found, max });
        }
    }
}

/// The greatest value of a parameter: that of its unit, else of its field in the device.
const fn param_max(param: CcParam) -> u32 {
    match param {
        CcParam::CnpPrioMode => 0,
        CcParam::ClampTgtRate | CcParam::ClampTgtRateAti => 1,
        CcParam::MinDecFac => 100,
        CcParam::DceTcpG | CcParam::InitialAlphaValue => 1023,
        CcParam::Gd => 15,
        CcParam::Threshold => 31,
        CcParam::DceTcpRtt | CcParam::RateReduceMonitorPeriod | CcParam::TimeReset => 131_071,
        CcParam::ByteReset => 32_767,
        CcParam::MinTimeBetweenCnps => 4095,
        CcParam::AiRate
        | CcParam::HaiRate
        | CcParam::MinRate
        | CcParam::MaxRate
        | CcParam::RateToSetOnFirstCnp => 1_600_000,
    }
}

/// Checks what connections get: the default ToS byte and RoCE version.
fn connection(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    // ECT(0), which DCQCN uses.
    let wanted = spec.data_dscp.get() << 2 | 0b10;
    let found = spec.default_tos;
    if found >> 2 != spec.data_dscp.get() {
        flaws.push(Flaw::TosOtherDscp { found, data: spec.data_dscp, wanted });
    }
    if !matches!(found & 0b11, 0b01 | 0b10) {
        flaws.push(Flaw::TosWithoutEct { found, wanted });
    }
    if spec.default_mode != RoceMode::V2 {
        flaws.push(Flaw::OldRoce(spec.default_mode));
    }
}

/// Checks the settings of the port itself: MTU, pause, cable length, storm prevention, DCBX and buffers.
fn port(spec: &ProfileSpec, flaws: &mut Vec<Flaw>) {
    if !(MTU_MIN..=MTU_MAX).contains(&spec.mtu) {
        flaws.push(Flaw::Mtu(spec.mtu));
    }
    if spec.global_pause && !spec.pfc.is_empty() {
        flaws.push(Flaw::PauseWithPfc(spec.pfc.to_string()));
    }
    if spec.cable_length == 0 || spec.cable_length > CABLE_MAX {
        flaws.push(Flaw::Cable(spec.cable_length));
    }
    if let Some(ms) = spec.pfc_prevention.filter(|ms| *ms != 0 && *ms != u16::MAX && !PREVENTION.contains(ms))
    {
        flaws.push(Flaw::Prevention(ms));
    }
    if spec.dcbx != Ownership::Host {
        flaws.push(Flaw::NotOwned);
    }
    let Some(buffer) = spec.buffer else { return };
    for (priority, found) in buffer.prio_buffer.into_iter().enumerate() {
        match buffer.size.get(usize::from(found)) {
            None => flaws.push(Flaw::NoSuchBuffer { priority, found }),
            Some(0) if !flaws.contains(&Flaw::NoRoom(found)) => flaws.push(Flaw::NoRoom(found)),
            Some(_) => {}
        }
    }
}
