//! What goes wrong with ports: one thing at a time, with the items that it makes wrong.

use std::collections::BTreeSet;

use super::{Case, Dice};
use crate::{
    Observed, QosProfile, Reading,
    item::Item,
    settings::{AppEntry, CcParam, CcSide, DcbxMode},
    vendor::{TrustStyle, Vendor},
    words::{Dscp, Priority, PrioritySet, RoceMode, Trust, Tsa},
};

/// Makes one thing wrong and says which items that is.
pub type Mutate = fn(&mut Observed, &QosProfile, &Vendor, &mut Dice) -> BTreeSet<Item>;

type Entry = (&'static str, fn(&Case) -> bool, Mutate);

/// All that can go wrong on this case's driver with its profile.
pub fn all(case: &Case) -> Vec<(&'static str, Mutate)> {
    ALL.iter().filter(|(_, there, _)| there(case)).map(|(name, _, mutate)| (*name, *mutate)).collect()
}

/// The names of all of them.
#[cfg(test)]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, ..)| *name).collect()
}

fn is<T>(reading: &Reading<T>) -> bool {
    reading.known().is_some()
}

fn with_app(case: &Case) -> bool {
    is(&case.observed.settings.app)
}

fn with_ets(case: &Case) -> bool {
    is(&case.observed.settings.ets)
}

fn with_pfc(case: &Case) -> bool {
    is(&case.observed.settings.pfc)
}

const ALL: &[Entry] = &[
    (
        "global pause on",
        |_| true,
        |o, _, _, dice| {
            if let Some(pause) = o.settings.pause.known_mut() {
                (pause.rx, pause.tx) = dice.pick(&[(true, true), (true, false), (false, true)]);
            }
            [Item::GlobalPause].into()
        },
    ),
    (
        "MTU 1500 or another",
        |_| true,
        |o, p, _, dice| {
            let others: Vec<u32> =
                [1500, 1280, 2200, 4200, 9000, 9216].into_iter().filter(|mtu| *mtu != p.spec().mtu).collect();
            o.settings.mtu = Reading::Known(dice.pick(&others));
            [Item::Mtu].into()
        },
    ),
    (
        "trust pcp",
        |c| is(&c.observed.settings.trust),
        |o, _, v, _| {
            o.settings.trust = Reading::Known(Trust::Pcp);
            if let Some(table) = o.settings.app.known_mut().filter(|_| v.trust != TrustStyle::Own) {
                table.retain(|entry| !entry.is_dscp());
            }
            [Item::Trust].into()
        },
    ),
    (
        "trust pcp, with entries",
        |c| c.vendor.trust == TrustStyle::FollowsEntries,
        |o, _, _, _| {
            o.settings.trust = Reading::Known(Trust::Pcp);
            [Item::Trust].into()
        },
    ),
    ("data DSCP on another priority", with_app, |o, p, _, dice| remap(o, p.spec().data_dscp, dice)),
    ("CNP DSCP on another priority", with_app, |o, p, _, dice| remap(o, p.spec().cnp_dscp, dice)),
    ("a DSCP on another priority", with_app, |o, _, _, dice| remap(o, Dscp::of(dice.byte(64)), dice)),
    ("two entries for the data DSCP", with_app, |o, p, _, dice| double(o, p.spec().data_dscp, dice)),
    ("two entries for a DSCP", with_app, |o, _, _, dice| double(o, Dscp::of(dice.byte(64)), dice)),
    ("no entry for the data DSCP", with_app, |o, p, _, _| forget(o, p.spec().data_dscp)),
    ("no entry for a DSCP", with_app, |o, _, _, dice| forget(o, Dscp::of(dice.byte(64)))),
    (
        "RoCE's port on another priority",
        |c| c.vendor.roce_port_entry,
        |o, p, _, dice| {
            let other = dice.byte_but(8, p.spec().lossless_priority.get());
            if let Some(table) = o.settings.app.known_mut() {
                if dice.coin() {
                    table.retain(|entry| !entry.is_roce_port());
                }
                if dice.coin() || table.iter().any(AppEntry::is_roce_port) {
                    table.insert(AppEntry::roce_port(Priority::of(other)));
                }
            }
            [Item::RocePort].into()
        },
    ),
    ("willing", with_ets, |o, _, _, _| {
        if let Some(ets) = o.settings.ets.known_mut() {
            ets.willing = true;
        }
        [Item::EtsWilling].into()
    }),
    (
        "a priority in another class",
        |c| with_ets(c) && !c.vendor.data_classes_are_classes,
        |o, p, _, dice| {
            let priority = if dice.coin() { p.spec().lossless_priority } else { Priority::of(dice.byte(8)) };
            if let Some(ets) = o.settings.ets.known_mut() {
                let tc = &mut ets.prio_tc[priority.index()];
                *tc = dice.byte_but(8, *tc);
            }
            [Item::PrioTc(priority)].into()
        },
    ),
    ("a class served otherwise", with_ets, |o, p, _, dice| {
        let tc = if dice.coin() { p.spec().prio_tc[p.spec().cnp_priority.index()] } else { dice.byte(8) };
        if let Some(ets) = o.settings.ets.known_mut() {
            let tsa = &mut ets.tsa[usize::from(tc)];
            *tsa = if *tsa == Tsa::Ets { dice.pick(&[Tsa::Strict, Tsa::Vendor]) } else { Tsa::Vendor };
        }
        [Item::Tsa(tc)].into()
    }),
    ("shares that are no whole", with_ets, |o, p, _, dice| {
        let tc = if dice.coin() { p.spec().prio_tc[p.spec().lossless_priority.index()] } else { 0 };
        if let Some(ets) = o.settings.ets.known_mut() {
            let share = &mut ets.bandwidth[usize::from(tc)];
            *share = dice.byte_but(101, *share);
        }
        [Item::Bandwidth(tc)].into()
    }),
    ("shares moved", with_ets, |o, p, _, dice| {
        let tc = p.spec().prio_tc[p.spec().lossless_priority.index()];
        if let Some(ets) = o.settings.ets.known_mut() {
            let moved = 1 + dice.byte(29);
            ets.bandwidth[0] = ets.bandwidth[0].saturating_add(moved);
            let share = &mut ets.bandwidth[usize::from(tc)];
            *share = share.saturating_sub(moved);
        }
        [Item::Bandwidth(0), Item::Bandwidth(tc)].into()
    }),
    (
        "another rate limit",
        |c| c.profile.spec().max_rate.is_some() && is(&c.observed.settings.max_rate),
        |o, _, _, dice| {
            let tc = dice.byte(8);
            if let Some(rate) = o.settings.max_rate.known_mut() {
                rate[usize::from(tc)] = 25_000_000;
            }
            [Item::MaxRate(tc)].into()
        },
    ),
    (
        "other buffers",
        |c| c.profile.spec().buffer.is_some() && is(&c.observed.settings.buffer),
        |o, _, _, dice| {
            if let Some(buffer) = o.settings.buffer.known_mut() {
                if dice.coin() { buffer.size[1] ^= 256 } else { buffer.prio_buffer[3] = 0 }
            }
            [Item::Buffer].into()
        },
    ),
    ("PFC on 3 and 4", with_pfc, |o, p, _, _| {
        let set = PrioritySet(0x18);
        let wider = if p.spec().pfc.0 & 0x18 == 0 { PrioritySet(p.spec().pfc.0 | 0x18) } else { set };
        pfc(o, wider)
    }),
    ("PFC off", with_pfc, |o, _, _, _| pfc(o, PrioritySet::EMPTY)),
    ("PFC elsewhere", with_pfc, |o, _, _, dice| {
        let now = o.settings.pfc.known().map_or(0, |pfc| pfc.enabled.0);
        let other = dice.byte_but(255, now);
        pfc(o, PrioritySet(other))
    }),
    (
        "another cable",
        |c| c.vendor.delay == crate::vendor::DelayMeaning::Metres,
        |o, p, _, dice| {
            if let Some(pfc) = o.settings.pfc.known_mut() {
                let others: Vec<u16> =
                    [7, 300, 999].into_iter().filter(|metres| *metres != p.spec().cable_length).collect();
                pfc.delay = dice.pick(&others);
            }
            [Item::CableLength].into()
        },
    ),
    (
        "another time for storms",
        |c| c.profile.spec().pfc_prevention.is_some() && is(&c.observed.settings.pfc_prevention),
        |o, _, _, dice| {
            o.settings.pfc_prevention = Reading::Known(dice.pick(&[0, 8000, u16::MAX]));
            [Item::PfcPrevention].into()
        },
    ),
    (
        "ToS without ECT, or of another DSCP",
        |_| true,
        |o, p, _, dice| {
            let right = p.spec().default_tos;
            o.settings.default_tos =
                Reading::Known(dice.pick(&[right & 0xfc, right & 0xfc | 1, right | 3, 0, right ^ 0x40]));
            [Item::DefaultTos].into()
        },
    ),
    (
        "RoCE v1",
        |_| true,
        |o, _, _, _| {
            o.settings.default_mode = Reading::Known(RoceMode::V1);
            [Item::DefaultMode].into()
        },
    ),
    (
        "forced to another ToS",
        |c| is(&c.observed.settings.forced_tos),
        |o, p, _, dice| {
            let right = p.spec().default_tos;
            o.settings.forced_tos = Reading::Known(Some(dice.pick(&[right & 0xfc, 0, right ^ 0x40])));
            [Item::ForcedTos].into()
        },
    ),
    ("DCQCN the other way", |c| is(&c.observed.settings.congestion.notification), dcqcn),
    (
        "CNP DSCP 4 or another",
        |c| is(&c.observed.settings.congestion.cnp_dscp),
        |o, p, _, dice| {
            let other = if dice.coin() { 4 } else { dice.byte_but(64, p.spec().cnp_dscp.get()) };
            o.settings.congestion.cnp_dscp = Reading::Known(Dscp::of(other));
            [Item::CnpDscp].into()
        },
    ),
    (
        "CNP priority",
        |c| is(&c.observed.settings.congestion.cnp_priority),
        |o, p, _, dice| {
            let other = dice.byte_but(8, p.spec().cnp_priority.get());
            o.settings.congestion.cnp_priority = Reading::Known(Priority::of(other));
            [Item::CnpPriority].into()
        },
    ),
    (
        "CNPs of another priority than that",
        |c| c.observed.settings.congestion.params.get(&CcParam::CnpPrioMode).is_some_and(is),
        |o, _, _, _| {
            o.settings.congestion.params.insert(CcParam::CnpPrioMode, Reading::Known(1));
            [Item::CcParam(CcParam::CnpPrioMode)].into()
        },
    ),
    (
        "RoCE DSCP",
        |c| is(&c.observed.settings.congestion.roce_dscp),
        |o, p, _, dice| {
            let other = dice.byte_but(64, p.spec().data_dscp.get());
            o.settings.congestion.roce_dscp = Reading::Known(Dscp::of(other));
            [Item::RoceDscp].into()
        },
    ),
    (
        "RoCE priority",
        |c| is(&c.observed.settings.congestion.roce_priority),
        |o, p, _, dice| {
            let other = dice.byte_but(8, p.spec().lossless_priority.get());
            o.settings.congestion.roce_priority = Reading::Known(Priority::of(other));
            [Item::RocePriority].into()
        },
    ),
    (
        "a parameter of DCQCN",
        |c| !c.profile.spec().dcqcn.params.is_empty() && params(c),
        |o, p, _, dice| {
            let all: Vec<_> = p.spec().dcqcn.params.iter().map(|(param, value)| (*param, *value)).collect();
            let (param, value) = dice.pick(&all);
            o.settings.congestion.params.insert(param, Reading::Known(value + 1));
            [Item::CcParam(param)].into()
        },
    ),
    (
        "DCBX in firmware",
        |c| is(&c.observed.settings.dcbx),
        |o, _, v, dice| {
            let versions = if v.dcbx.keeps_versions && dice.coin() { DcbxMode::VER_CEE } else { 0 };
            o.settings.dcbx = Reading::Known(DcbxMode(DcbxMode::VER_IEEE | versions));
            [Item::Dcbx].into()
        },
    ),
    (
        "the firmware's LLDP agent",
        |c| is(&c.observed.settings.firmware_lldp),
        |o, _, _, _| {
            o.settings.firmware_lldp = Reading::Known(true);
            o.settings.dcbx = Reading::Known(DcbxMode(DcbxMode::LLD_MANAGED | DcbxMode::VER_IEEE));
            [Item::FirmwareLldp, Item::Dcbx].into()
        },
    ),
];

fn params(case: &Case) -> bool {
    case.observed.settings.congestion.params.values().all(is)
}

fn remap(o: &mut Observed, dscp: Dscp, dice: &mut Dice) -> BTreeSet<Item> {
    if let Some(table) = o.settings.app.known_mut() {
        let is = |entry: &&AppEntry| entry.is_dscp() && entry.protocol == u16::from(dscp.get());
        let now = table.iter().find(is).map_or(0, |entry| entry.priority);
        table.retain(|entry| !is(&entry));
        table.insert(AppEntry::dscp(dscp, Priority::of(dice.byte_but(8, now))));
    }
    [Item::Dscp(dscp)].into()
}

fn double(o: &mut Observed, dscp: Dscp, dice: &mut Dice) -> BTreeSet<Item> {
    if let Some(table) = o.settings.app.known_mut() {
        let is = |entry: &&AppEntry| entry.is_dscp() && entry.protocol == u16::from(dscp.get());
        let now = table.iter().find(is).map_or(0, |entry| entry.priority);
        table.insert(AppEntry::dscp(dscp, Priority::of(dice.byte_but(8, now))));
        if dice.coin() {
            table.insert(AppEntry::dscp(dscp, Priority::of(dice.byte_but(8, now))));
        }
    }
    [Item::Dscp(dscp)].into()
}

fn forget(o: &mut Observed, dscp: Dscp) -> BTreeSet<Item> {
    if let Some(table) = o.settings.app.known_mut() {
        table.retain(|entry| !entry.is_dscp() || entry.protocol != u16::from(dscp.get()));
    }
    [Item::Dscp(dscp)].into()
}

fn pfc(o: &mut Observed, set: PrioritySet) -> BTreeSet<Item> {
    if let Some(pfc) = o.settings.pfc.known_mut() {
        pfc.enabled = set;
    }
    [Item::Pfc].into()
}

fn dcqcn(o: &mut Observed, p: &QosProfile, v: &Vendor, dice: &mut Dice) -> BTreeSet<Item> {
    let lossless = p.spec().lossless_priority;
    let congestion = &mut o.settings.congestion;
    let ends = [
        (CcSide::NotificationPoint, &mut congestion.notification),
        (CcSide::ReactionPoint, &mut congestion.reaction),
    ];
    let which = dice.below(3);
    let mut wrong = BTreeSet::new();
    for ((side, mask), at) in ends.into_iter().zip(0..) {
        let Some(mask) = mask.known_mut() else { continue };
        if v.one_cc_switch {
            mask.0 = !mask.0;
        } else if which == at || which == 2 {
            mask.0 ^= PrioritySet::only(lossless).0;
        } else {
            continue;
        }
        wrong.insert(Item::Dcqcn(side, lossless));
    }
    wrong
}
