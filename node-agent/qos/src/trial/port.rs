//! A port that is right, and noise that means nothing to RDMA.

use std::collections::BTreeMap;

use super::Dice;
use crate::{
    Congestion, Device, Observed, ProfileSpec, QosProfile, Reading, Settings,
    settings::{AppEntry, AppTable, Buffer, CcParam, DcbxMode, Pause, Pfc},
    vendor::{Aspect, How, TrustStyle, Vendor},
    wanted::Wanted,
    words::{Dscp, Priority, PrioritySet, Tsa},
};

/// One of a few profiles that sites really use.
#[must_use]
pub fn profile(dice: &mut Dice) -> QosProfile {
    let mut spec = ProfileSpec::default();
    match dice.below(4) {
        0 => {}
        1 => {
            spec.name = "everything".into();
            spec.mtu = 4200;
            // Neither is a multiple of any step.
            spec.max_rate = Some([0, 0, 0, 0, 0, 50_500_000, 1_050_000, 0]);
            spec.buffer = Some(Buffer {
                prio_buffer: [0, 0, 0, 1, 0, 0, 2, 0],
                size: [131_072, 524_288, 65_536, 0, 0, 0, 0, 0],
            });
            spec.pfc_prevention = Some(100);
            spec.dcqcn.params = BTreeMap::from([
                (CcParam::AiRate, 80),
                (CcParam::HaiRate, 800),
                (CcParam::DceTcpG, 1019),
                (CcParam::MinTimeBetweenCnps, 4),
            ]);
        }
        2 => {
            // Data on DSCP 24 and priority 4, as some sites have it, receiver-driven: without DCQCN.
            spec.name = "receiver-driven".into();
            spec.lossless_priority = Priority::of(4);
            spec.data_dscp = Dscp::of(24);
            spec.default_tos = 24 << 2 | 2;
            spec.pfc = PrioritySet::only(Priority::of(4));
            // Priority 1 has what others leave.
            spec.prio_tc = [0, 1, 0, 0, 4, 0, 6, 0];
            spec.bandwidth = [30, 0, 0, 0, 70, 0, 0, 0];
            spec.dcqcn.notification = PrioritySet::EMPTY;
            spec.dcqcn.reaction = PrioritySet::EMPTY;
        }
        _ => {
            // CNPs on priority 7, as Broadcom's NICs have it, and some more of the map.
            spec.name = "cnp-on-7".into();
            spec.cnp_priority = Priority::of(7);
            spec.prio_tc = [0, 0, 0, 3, 0, 0, 0, 7];
            spec.tsa = [Tsa::Ets; 8];
            spec.tsa[7] = Tsa::Strict;
            spec.dscp_map =
                BTreeMap::from([(Dscp::of(24), Priority::of(0)), (Dscp::of(34), Priority::of(5))]);
            spec.cable_length = 5;
        }
    }
    // A profile that is wrong would be seen by the tests of profiles; the default is what is left then.
    QosProfile::new(spec).unwrap_or_default()
}

fn can(vendor: &Vendor, aspect: Aspect) -> bool {
    matches!(vendor.row(aspect).how, How::Set { .. })
}

fn when<T>(there: bool, value: T) -> Reading<T> {
    if there { Reading::Known(value) } else { Reading::Unsupported }
}

/// A port of this driver that is what `profile` says, and says so of all that the driver can read.
#[must_use]
pub fn right_port(profile: &QosProfile, vendor: &Vendor) -> Observed {
    let can = |aspect| can(vendor, aspect);
    let (spec, wanted) = (profile.spec(), Wanted::of(profile, vendor));
    let dcbnl = can(Aspect::EtsShares);
    let trust = vendor.trust != TrustStyle::None;
    let mut params: BTreeMap<CcParam, Reading<u32>> = BTreeMap::new();
    for param in CcParam::ALL {
        let usual = if param == CcParam::CnpPrioMode { 0 } else { 1 };
        let value = spec.dcqcn.params.get(&param).copied().unwrap_or(usual);
        params.insert(param, when(can(Aspect::CcParam), value));
    }
    // One switch is on for all priorities or for none.
    let cc = |set: PrioritySet| match (vendor.one_cc_switch, set.is_empty()) {
        (true, false) => PrioritySet(0xff),
        _ => set,
    };
    let settings = Settings {
        dcbx: when(dcbnl, DcbxMode::HOST_IEEE),
        firmware_lldp: when(can(Aspect::FirmwareLldp), false),
        trust: when(dcbnl && trust, spec.trust),
        app: when(dcbnl, wanted.dscp.iter().chain(&wanted.roce_port).copied().collect::<AppTable>()),
        pfc: when(can(Aspect::PfcMask), Pfc { enabled: wanted.pfc, delay: wanted.delay.unwrap_or(0) }),
        ets: when(dcbnl, wanted.ets),
        max_rate: when(
            can(Aspect::MaxRate),
            spec.max_rate.unwrap_or_default().map(|rate| vendor.rate_kept(rate)),
        ),
        buffer: when(
            can(Aspect::Buffer),
            spec.buffer.unwrap_or(Buffer { prio_buffer: [0; 8], size: [262_144, 0, 0, 0, 0, 0, 0, 0] }),
        ),
        pause: Reading::Known(Pause::OFF),
        mtu: Reading::Known(spec.mtu),
        default_tos: Reading::Known(spec.default_tos),
        default_mode: Reading::Known(spec.default_mode),
        forced_tos: when(can(Aspect::ForcedTos), None),
        pfc_prevention: when(can(Aspect::PfcPrevention), spec.pfc_prevention.unwrap_or(u16::MAX)),
        congestion: Congestion {
            notification: when(can(Aspect::CcEnable), cc(spec.dcqcn.notification)),
            reaction: when(can(Aspect::CcEnable), cc(spec.dcqcn.reaction)),
            cnp_dscp: when(can(Aspect::CnpDscp), spec.cnp_dscp),
            cnp_priority: when(can(Aspect::CnpPriority), spec.cnp_priority),
            roce_dscp: when(can(Aspect::RoceDscp), spec.data_dscp),
            roce_priority: when(can(Aspect::RocePriority), spec.lossless_priority),
            params,
        },
    };
    Observed { device: device(vendor), drained: true, agents: Reading::Known(Vec::new()), settings }
}

/// A device that this driver's table matches.
fn device(vendor: &Vendor) -> Device {
    let (driver_version, firmware) = match vendor.name {
        "mlx5-ofed" => ("24.10-1.1.4", "28.43.2026"),
        "bnxt_re-package" => ("1.10.3-230.2.52.0", "230.2.52.0/pkg 230.2.52.0"),
        _ => ("6.8.0-60-generic", "1.2.3"),
    };
    Device {
        netdev: "eth2".into(),
        rdma: Some("rdma0".into()),
        port: 1,
        pci: (!vendor.software).then(|| "0000:18:00.0".into()),
        driver: vendor
            .drivers
            .first()
            .copied()
            .unwrap_or(if vendor.software { "veth" } else { "strange" })
            .into(),
        driver_version: driver_version.into(),
        firmware: firmware.into(),
        speed_mbps: Reading::Known(400_000),
        link_up: Reading::Known(true),
    }
}

/// Differences that mean nothing: other devices, other links, what is not in the profile, what drivers report where
/// nothing is meant.
pub fn noise(observed: &mut Observed, profile: &QosProfile, vendor: &Vendor, dice: &mut Dice) {
    observed.device.netdev = format!("ens{}f{}np{}", dice.below(256), dice.below(2), dice.below(2));
    observed.device.firmware = format!("{}.{}.{}", dice.below(40), dice.below(50), dice.below(5000));
    observed.device.speed_mbps = Reading::Known(dice.pick(&[100_000, 200_000, 800_000]));
    observed.device.link_up = Reading::Known(dice.coin());
    observed.drained = dice.coin();
    let spec = profile.spec();
    let set = &mut observed.settings;
    if let Some(pause) = set.pause.known_mut() {
        pause.autoneg = dice.coin();
    }
    if let Some(mode) = set.dcbx.known_mut() {
        mode.0 |= dice.pick(&[0, DcbxMode::STATIC, DcbxMode::VER_CEE]);
    }
    if let Some(table) = set.app.known_mut() {
        // What other protocols have; not RDMA's.
        for _ in 0..dice.below(4) {
            let entry = match dice.below(3) {
                0 => AppEntry {
                    selector: AppEntry::ETHERTYPE,
                    protocol: dice.pick(&[0, 0x8906, 0x8914]),
                    priority: dice.byte(8),
                },
                1 => AppEntry { selector: AppEntry::STREAM, protocol: 3260, priority: dice.byte(8) },
                _ => AppEntry {
                    selector: AppEntry::DGRAM,
                    protocol: dice.pick(&[53, 2049, 4790]),
                    priority: dice.byte(8),
                },
            };
            table.insert(entry);
        }
    }
    if let Some(ets) = set.ets.known_mut() {
        // mlx5 reports 100 % for a class that has no share.
        for (tsa, share) in ets.tsa.into_iter().zip(&mut ets.bandwidth) {
            if tsa == Tsa::Strict {
                *share = dice.pick(&[0, 100]);
            }
        }
    }
    unmanaged(observed, profile, dice);
    let congestion = &mut observed.settings.congestion;
    let lossless = PrioritySet::only(spec.lossless_priority).0;
    if !vendor.one_cc_switch {
        for mask in [&mut congestion.notification, &mut congestion.reaction] {
            if let Some(mask) = mask.known_mut() {
                mask.0 = mask.0 & lossless | dice.byte(255) & !lossless;
            }
        }
    }
    for (param, value) in &mut congestion.params {
        let free = *param != CcParam::CnpPrioMode && !spec.dcqcn.params.contains_key(param);
        if let Some(value) = value.known_mut().filter(|_| free) {
            *value = u32::from(dice.byte(200));
        }
    }
}

/// What the profile leaves as it is.
fn unmanaged(observed: &mut Observed, profile: &QosProfile, dice: &mut Dice) {
    let (spec, set) = (profile.spec(), &mut observed.settings);
    if let Some(rate) = set.max_rate.known_mut().filter(|_| spec.max_rate.is_none()) {
        rate[0] = dice.below(100) * 1_000_000;
    }
    if let Some(buffer) = set.buffer.known_mut().filter(|_| spec.buffer.is_none()) {
        buffer.size[0] = 65_536 * u32::from(dice.byte(64));
    }
    if let Some(time) = set.pfc_prevention.known_mut().filter(|_| spec.pfc_prevention.is_none()) {
        *time = dice.pick(&[0, 100, 8000, u16::MAX]);
    }
    if let Some(forced) = set.forced_tos.known_mut() {
        *forced = dice.coin().then_some(spec.default_tos);
    }
}
