//! The shell on a kernel in memory: what is read, each kind of change, and what a kernel says without doing it.

use node_agent_netlink::{
    Errno, Kernel,
    fake::{FakeKernel, Style},
};
use node_agent_qos::{
    AppOp, Change, FileRoot, Item, Observed, Options, QosProfile, Reading, Via, diff, plan,
    settings::{AppEntry, AppTable, CcParam, CcSide, DcbxMode, Ets, Pause, Pfc},
    vendor,
    words::{Dscp, Priority, PrioritySet, RoceMode, Trust, Tsa},
};

use super::{ApplyError, agents, apply, devices, observe};
use super::{Modelled, modelled};

pub(super) const PCI: &str = "0000:18:00.0";

/// A server with one NIC of this style, `mlx5_0` over `eth0`, and the files that its driver has.
pub(super) fn server(style: Style, version: &str) -> FakeKernel {
    let nic = Modelled { netdev: "eth0".into(), device: "mlx5_0".into(), pci: PCI.into() };
    modelled(&[nic], style, version)
}

pub(super) fn check(kernel: &FakeKernel) -> Observed {
    let found = devices(kernel);
    assert_eq!(found.len(), 1, "{found:?}");
    observe(kernel, &found[0], true, agents::find(kernel.files()))
}

#[test]
fn a_nic_is_read_whole() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let seen = check(&kernel);
    let device = &seen.device;
    assert_eq!(
        (device.rdma.as_deref(), device.pci.as_deref(), device.driver.as_str()),
        (Some("mlx5_0"), Some(PCI), "mlx5_core")
    );
    assert_eq!((&device.speed_mbps, &device.link_up), (&Reading::Known(400_000), &Reading::Known(true)));
    let set = &seen.settings;
    assert_eq!(set.trust, Reading::Known(Trust::Pcp));
    assert_eq!(set.pause, Reading::Known(Pause { autoneg: false, rx: true, tx: true }));
    assert_eq!((&set.mtu, &set.default_tos), (&Reading::Known(1500), &Reading::Known(0)));
    assert_eq!((&set.default_mode, &set.pfc_prevention), (&Reading::Known(RoceMode::V2), &Reading::Known(0)));
    assert_eq!((&set.forced_tos, &set.firmware_lldp), (&Reading::Unsupported, &Reading::Unsupported));
    assert_eq!(set.congestion.cnp_dscp, Reading::Known(Dscp::of(0)));
    assert_eq!(set.congestion.params[&CcParam::AiRate], Reading::Known(5));
    assert_eq!(set.congestion.params[&CcParam::Gd], Reading::Unsupported);
    assert_eq!(set.congestion.notification, Reading::Unsupported);
    assert_eq!(seen.agents, Reading::Known(vec![]));
    assert_eq!(kernel.done(), [""; 0], "reading changes nothing");
}

fn cm(file: &str) -> Via {
    Via::RdmaCm { device: "mlx5_0".into(), port: 1, file: file.into() }
}

fn debugfs(file: &str) -> Via {
    Via::File { root: FileRoot::Debugfs, path: format!("mlx5/{PCI}/cc_params/{file}"), apply: None }
}

/// The changes that make the default profile of a fresh mlx5.
fn all_changes(seen: &Observed) -> Vec<(Change, Via)> {
    let profile = QosProfile::default();
    let set = &seen.settings;
    let to = profile.dscp_entries();
    let ops = to.iter().copied().map(AppOp::Set).collect();
    let from = set.app.known().cloned().unwrap_or_default();
    let pfc = Pfc { enabled: PrioritySet::only(Priority::of(3)), delay: 40 };
    let off = Pause { autoneg: false, ..Pause::OFF };
    vec![
        (
            Change::Dcbx { from: DcbxMode(13), to: DcbxMode(9), send: DcbxMode(9), undo_send: DcbxMode(13) },
            Via::Dcbnl,
        ),
        (Change::Pause { from: *set.pause.known().unwrap(), to: off }, Via::EthtoolPause),
        (Change::Mtu { from: 1500, to: 9000 }, Via::Link),
        (Change::App { from, to, ops, undo_ops: vec![] }, Via::Dcbnl),
        (Change::Ets { from: *set.ets.known().unwrap(), to: profile.ets() }, Via::Dcbnl),
        (Change::MaxRate { from: [0; 8], to: [0, 0, 0, 0, 0, 0, 1_000_001, 0] }, Via::Dcbnl),
        (Change::Pfc { from: *set.pfc.known().unwrap(), to: pfc }, Via::Dcbnl),
        (Change::PfcPrevention { from: 0, to: u16::MAX }, Via::EthtoolTunable),
        (Change::DefaultTos { from: 0, to: 106 }, cm("default_roce_tos")),
        (Change::DefaultMode { from: RoceMode::V2, to: RoceMode::V1 }, cm("default_roce_mode")),
        (Change::CnpDscp { from: Dscp::of(0), to: Dscp::of(48) }, debugfs("np_cnp_dscp")),
        (Change::CnpPriority { from: Priority::of(0), to: Priority::of(6) }, debugfs("np_cnp_prio")),
        (Change::CcParam { param: CcParam::AiRate, from: 5, to: 20 }, debugfs("rp_ai_rate")),
    ]
}

#[test]
fn each_change_is_made_and_read_back() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let first = check(&kernel);
    let mut seen = first.clone();
    let changes = all_changes(&first);
    for (change, via) in &changes {
        seen = apply(&kernel, &seen, change, via).unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    assert_eq!(seen.settings.trust, Reading::Known(Trust::Dscp));
    assert_eq!(seen.settings.default_tos, Reading::Known(106));
    assert_eq!(seen, check(&kernel));
    for (change, via) in changes.iter().rev() {
        let undo = match change.inverse() {
            Change::App { from, to, undo_ops, .. } => {
                let ops = from.iter().copied().map(AppOp::Delete).collect();
                Change::App { from, to, ops, undo_ops }
            }
            other => other,
        };
        seen = apply(&kernel, &seen, &undo, via).unwrap_or_else(|error| panic!("{undo:?}: {error}"));
    }
    assert_eq!(seen, first);
}

/// mlx5 makes the mode 0 when the priority is written, also when that is taken back.
#[test]
fn the_mode_of_cnps_is_mended_and_taken_back() {
    let kernel = server(Style::Mlx5, "6.12.0");
    kernel.change(|world| {
        world.files.put(&format!("sys/kernel/debug/mlx5/{PCI}/cc_params/np_cnp_prio_mode"), "1\n");
    });
    let (profile, first) = (QosProfile::default(), check(&kernel));
    let vendor = vendor::of(&first);
    let deviations =
        |seen: &Observed| diff(&profile, seen, vendor).deviations.into_iter().map(|one| one.item).collect();
    let wrong: Vec<Item> = deviations(&first);
    assert!(
        wrong.contains(&Item::CcParam(CcParam::CnpPrioMode)) && wrong.contains(&Item::CnpPriority),
        "{wrong:?}"
    );
    let edits = plan(&profile, &first, vendor, Options::default()).unwrap().edits;
    let made = edits
        .iter()
        .fold(first.clone(), |seen, edit| apply(&kernel, &seen, &edit.change, &edit.via).unwrap());
    assert_eq!(deviations(&made), [] as [Item; 0]);
    let undone =
        edits.iter().rev().fold(made, |seen, edit| apply(&kernel, &seen, &edit.undo, &edit.via).unwrap());
    assert_eq!(undone, first);
}

#[test]
fn what_a_kernel_says_without_doing_it_is_found_out() {
    let kernel = server(Style::Simple, "6.1.0");
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().forgets_trust = true);
    let seen = check(&kernel);
    let trust = Change::Trust { from: Trust::Pcp, to: Trust::Dscp };
    let error = apply(&kernel, &seen, &trust, &Via::Dcbnl).unwrap_err();
    assert!(matches!(&error, ApplyError::NotTaken { what: "trust", .. }), "{error}");
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().forgets_trust = false);
    apply(&kernel, &seen, &trust, &Via::Dcbnl).unwrap();
}

#[test]
fn entries_that_are_so_already_are_no_error() {
    let kernel = server(Style::Simple, "6.1.0");
    let seen = check(&kernel);
    let entry = |dscp, priority| AppEntry::dscp(Dscp::of(dscp), Priority::of(priority));
    let change =
        |ops: Vec<AppOp>| Change::App { from: AppTable::new(), to: AppTable::new(), ops, undo_ops: vec![] };
    let first = change(vec![AppOp::Set(entry(26, 3))]);
    apply(&kernel, &seen, &first, &Via::Dcbnl).unwrap();
    let mixed = vec![
        AppOp::Set(entry(26, 3)),
        AppOp::Set(entry(48, 6)),
        AppOp::Delete(entry(1, 1)),
        AppOp::Delete(entry(26, 3)),
    ];
    let seen = apply(&kernel, &seen, &change(mixed), &Via::Dcbnl).unwrap();
    assert_eq!(seen.settings.app, Reading::Known([entry(48, 6)].into()));
}

#[test]
fn refusals_and_losses_are_named() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let seen = check(&kernel);
    let ets = Ets { willing: false, tsa: [Tsa::Ets; 8], bandwidth: [1; 8], prio_tc: [0; 8] };
    let change = Change::Ets { from: ets, to: ets };
    let error = apply(&kernel, &seen, &change, &Via::Dcbnl).unwrap_err();
    assert!(error.to_string().contains("set ETS of eth0: the driver answers EINVAL (-22)"), "{error}");
    let error = apply(&kernel, &seen, &change, &Via::Link).unwrap_err();
    assert!(matches!(error, ApplyError::Mismatch { what: "ETS", .. }), "{error}");
    let gone = Change::CnpDscp { from: Dscp::of(0), to: Dscp::of(1) };
    let error = apply(&kernel, &seen, &gone, &debugfs("no_such_file")).unwrap_err();
    assert!(error.is_gone() && error.to_string().contains("no_such_file"), "{error}");
    kernel.change(|world| {
        world.devices.get_mut("eth0").unwrap().failures.insert("dcb", vec![Errno::IO]);
        let path = format!("sys/kernel/debug/mlx5/{PCI}/cc_params/np_cnp_dscp");
        world.files.file(&path).unwrap().fails = Some(Errno(110));
    });
    let seen = check(&kernel);
    assert!(
        matches!(&seen.settings.ets, Reading::Unreadable(why) if why.contains("EIO")),
        "{:?}",
        seen.settings.ets
    );
    assert!(matches!(&seen.settings.congestion.cnp_dscp, Reading::Unreadable(_)));
    assert_eq!(seen.settings.mtu, Reading::Known(1500), "the rest is read nevertheless");
    kernel
        .change(|world| world.files.put(&format!("sys/kernel/debug/mlx5/{PCI}/cc_params/no_such_file"), "0"));
    let error = apply(&kernel, &seen, &gone, &debugfs("no_such_file")).unwrap_err();
    assert!(matches!(error, ApplyError::NotReadBack { what: "the DSCP of CNPs", .. }), "{error}");
    kernel.change(|world| world.devices.remove("eth0"));
    let error = apply(&kernel, &seen, &Change::Mtu { from: 1500, to: 9000 }, &Via::Link).unwrap_err();
    assert!(error.is_gone(), "{error}");
}

#[test]
fn the_vendors_package_has_files_of_its_own() {
    let kernel = server(Style::Mlx5, "24.10-1.1.4");
    kernel.change(|world| {
        for end in ["roce_np", "roce_rp"] {
            for priority in 0..8 {
                world.files.put(&format!("sys/class/net/eth0/ecn/{end}/enable/{priority}"), "1\n");
            }
        }
        world.files.put("sys/class/net/eth0/ecn/roce_np/cnp_dscp", "48\n");
        world.files.put("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\n");
        world.files.put("sys/class/net/eth0/qos/trust", "dscp\n");
    });
    let seen = check(&kernel);
    let set = &seen.settings;
    assert_eq!((&set.trust, &set.forced_tos), (&Reading::Known(Trust::Dscp), &Reading::Known(Some(106))));
    assert_eq!(set.congestion.notification, Reading::Known(PrioritySet(0xff)));
    let side = CcSide::ReactionPoint;
    let off = Change::CcEnable { side, priority: Priority::of(5), from: true, to: false };
    let path = "class/net/eth0/ecn/roce_rp/enable/5".to_owned();
    let seen = apply(&kernel, &seen, &off, &Via::File { root: FileRoot::Sysfs, path, apply: None }).unwrap();
    assert_eq!(seen.settings.congestion.reaction, Reading::Known(PrioritySet(0xdf)));
}

#[test]
fn another_agent_is_seen() {
    let kernel = server(Style::Mlx5, "6.12.0");
    kernel.change(|world| world.files.put("proc/77/comm", "lldpad\n"));
    let Reading::Known(found) = agents::find(kernel.files()) else { panic!("not read") };
    assert_eq!((found.len(), found[0].pid), (1, Some(77)));
    kernel.change(|world| {
        world.files.remove_all("proc/77");
        world
            .files
            .put("proc/net/unix", "Num RefCount\n0000: 00000002 00000000 0 0002 01 333 @/com/intel/lldpad\n");
    });
    let Reading::Known(found) = agents::find(kernel.files()) else { panic!("not read") };
    assert_eq!((found.len(), found[0].pid), (1, None));
    kernel.change(|world| world.files.remove_all("proc"));
    assert!(matches!(agents::find(kernel.files()), Reading::Unreadable(_)));
}
