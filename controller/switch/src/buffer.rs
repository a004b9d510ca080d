//! How a switch's packet buffer is divided: headroom of each port's lossless groups, the pool that they share, and what is left for all;
//! and whether that fits.

use std::collections::BTreeMap;

use proto_profile::{EcnThresholds, QosProfile};
use thiserror::Error;

use crate::{
    asic::Asic,
    ecn::{self, EcnRefusal},
    headroom::{self, Headroom, NoHeadroom},
    model::{Name, Port, Switch},
    source::{Source, Sourced},
};

/// How many groups are taken to fill at the same time, where it is asked at which length one pauses.
const FILL_AT_ONCE: u64 = 4;
/// The least part of the buffer that has to be left for all, in percent.
const SHARED_MIN_PERCENT: u64 = 20;

/// What ports of one kind have in common: speed in Gbit/s, number of lanes, length of the cable in metres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKind {
    /// Speed in Gbit/s.
    pub speed: u32,
    /// Number of lanes.
    pub lanes: u8,
    /// Length of the cable in metres.
    pub cable_m: u16,
}

impl PortKind {
    /// That of a port; none where its speed is not known.
    #[must_use]
    pub fn of(port: &Port) -> Option<Self> {
        let lanes = u8::try_from(port.lanes.len()).unwrap_or(u8::MAX);
        Some(Self { speed: port.speed?, lanes, cable_m: port.cable_m })
    }
}

/// A switch's buffer as it is to be divided; all in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferPlan {
    /// What a lossless group of each kind of port needs.
    pub groups: BTreeMap<PortKind, Headroom>,
    /// When each speed marks.
    pub ecn: BTreeMap<u32, Sourced<EcnThresholds>>,
    /// What is reserved for single groups, in all.
    pub reserved: u64,
    /// The pool of headroom that ports share; 0 where each has its own.
    pub headroom_pool: u64,
    /// What is left for all.
    pub shared: u64,
    /// The whole.
    pub total: Sourced<u64>,
    /// The length at which a lossless group pauses.
    pub pause: Sourced<u64>,
}

/// Why a switch's buffer cannot be divided so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BufferRefusal {
    /// Headroom and marking follow from a speed that is not known.
    #[error("{switch} {port}: its speed is not known")]
    NoSpeed {
        /// The switch.
        switch: Name,
        /// The port.
        port: Name,
    },
    /// A port's headroom is not known.
    #[error("{switch} {port}: {why}")]
    Headroom {
        /// The switch.
        switch: Name,
        /// The port.
        port: Name,
        /// Why not.
        why: NoHeadroom,
    },
    /// It does not fit.
    #[error(
        "{switch}: {ports} ports need {reserved} bytes for themselves and {pool} in common, which leaves {shared} of the {total} bytes of {asic}; at least {least} must be left: shorter cables, fewer lossless classes, or more ports that share headroom"
    )]
    TooLittle {
        /// The switch.
        switch: Name,
        /// Its ASIC.
        asic: Asic,
        /// How many ports it has in use.
        ports: usize,
        /// Reserved for single groups.
        reserved: u64,
        /// Headroom in common.
        pool: u64,
        /// Left for all.
        shared: u64,
        /// The whole.
        total: u64,
        /// What has to be left.
        least: u64,
    },
    /// No thresholds for marking are right.
    #[error("{switch}: {why}")]
    Ecn {
        /// The switch.
        switch: Name,
        /// Why not.
        why: EcnRefusal,
    },
}

/// What the headroom of a port of `switch` depends on.
#[must_use]
pub fn input(asic: Asic, kind: PortKind, profile: &QosProfile) -> headroom::Input {
    let end = &profile.spec().switch;
    headroom::Input {
        asic,
        speed: kind.speed,
        lanes: kind.lanes,
        cable_m: kind.cable_m,
        port_mtu: end.mtu,
        lossless_mtu: end.lossless_mtu,
        small_packet_percent: end.small_packet_percent,
        gearbox: 0,
        shared: end.headroom_shared_by > 0,
    }
}

/// The length at which one of `FILL_AT_ONCE` groups pauses that fill `shared` bytes, each up to 2^`alpha` times of what is free.
const fn pause_length(shared: u64, alpha: i8) -> u64 {
    // Alpha is from -8 to 7, so that 256 times it is whole.
    let alpha256 = if alpha < 0 { 256 >> alpha.unsigned_abs() } else { 256 << alpha };
    shared * alpha256 / (256 + FILL_AT_ONCE * alpha256)
}

/// Divides the buffer of `switch`.
///
/// # Errors
/// [`BufferRefusal`], with the numbers, where it does not fit or nothing is known.
pub fn plan(switch: &Switch, profile: &QosProfile) -> Result<BufferPlan, BufferRefusal> {
    let end = &profile.spec().switch;
    let classes = profile.spec().pfc.iter().count() as u64;
    let mut groups = BTreeMap::new();
    let (mut reserved, mut xoff) = (0, 0);
    for port in &switch.ports {
        let kind = PortKind::of(port)
            .ok_or_else(|| BufferRefusal::NoSpeed { switch: switch.name.clone(), port: port.name.clone() })?;
        let headroom = headroom::plan(&input(switch.asic, kind, profile)).map_err(|why| {
            BufferRefusal::Headroom { switch: switch.name.clone(), port: port.name.clone(), why }
        })?;
        reserved += headroom.size * classes;
        xoff += headroom.xoff * classes;
        groups.insert(kind, headroom);
    }
    let shared_by = u64::from(end.headroom_shared_by);
    let headroom_pool = if shared_by == 0 { 0 } else { xoff.div_ceil(shared_by) };
    let total = switch.asic.row().buffer;
    let shared = total.value.saturating_sub(reserved + headroom_pool);
    let least = total.value / 100 * SHARED_MIN_PERCENT;
    if shared < least {
        return Err(BufferRefusal::TooLittle {
            switch: switch.name.clone(),
            asic: switch.asic,
            ports: switch.ports.len(),
            reserved,
            pool: headroom_pool,
            shared,
            total: total.value,
            least,
        });
    }
    let pause = end.pause_bytes.map_or(
        Sourced {
            value: pause_length(shared, end.lossless_alpha),
            source: Source::Rule("alpha times what is free, while four groups fill at once"),
        },
        |value| Sourced { value, source: Source::Profile("switch.pauseBytes") },
    );
    let speeds = switch.ports.iter().filter_map(|port| port.speed);
    let planned = |speed| Ok((speed, ecn::plan(speed, profile, pause.value)?));
    let ecn = speeds
        .map(planned)
        .collect::<Result<_, EcnRefusal>>()
        .map_err(|why| BufferRefusal::Ecn { switch: switch.name.clone(), why })?;
    Ok(BufferPlan { groups, ecn, reserved, headroom_pool, shared, total, pause })
}
