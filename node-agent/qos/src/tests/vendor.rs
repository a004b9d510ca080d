//! Tables of drivers are whole, and what they say agrees with what the tools' documentation says.

use crate::{
    Blast, Change, Options, ProfileSpec, QosProfile, Reading,
    item::Item,
    model,
    plan::plan,
    settings::{AppTable, CcParam, DcbxMode, Ets, Pfc},
    trial::right_port,
    vendor::{self, Aspect, How, VENDORS, named, of},
    wanted::Wanted,
    words::{PrioritySet, Trust, Tsa},
};

const ASPECTS: [Aspect; 25] = [
    Aspect::Dcbx,
    Aspect::FirmwareLldp,
    Aspect::Pause,
    Aspect::Mtu,
    Aspect::Trust,
    Aspect::TrustSwitch,
    Aspect::DscpEntry,
    Aspect::RocePort,
    Aspect::EtsShares,
    Aspect::EtsMap,
    Aspect::MaxRate,
    Aspect::PfcMask,
    Aspect::PfcDelay,
    Aspect::Buffer,
    Aspect::PfcPrevention,
    Aspect::DefaultTos,
    Aspect::DefaultMode,
    Aspect::ForcedTos,
    Aspect::CcEnable,
    Aspect::CnpDscp,
    Aspect::CnpPriority,
    Aspect::CnpMode,
    Aspect::RoceDscp,
    Aspect::RocePriority,
    Aspect::CcParam,
];

#[test]
fn each_table_has_one_row_for_each_aspect() {
    for vendor in VENDORS {
        let rows: Vec<Aspect> = vendor.rows.iter().map(|row| row.aspect).collect();
        assert_eq!(rows.len(), ASPECTS.len(), "{}", vendor.name);
        for aspect in ASPECTS {
            assert!(rows.contains(&aspect), "{} has no row for {aspect:?}", vendor.name);
        }
        for row in vendor.rows {
            let (How::Set { why, .. } | How::Never { why, .. }) = row.how;
            assert!(!why.is_empty() && !why.ends_with('.'), "{} {:?}", vendor.name, row.aspect);
        }
    }
}

#[test]
fn drivers_are_told_apart() {
    let profile = QosProfile::default();
    for vendor in VENDORS {
        assert_eq!(of(&right_port(&profile, vendor)).name, vendor.name);
    }
    for (version, name) in [
        ("24.10-1.1.4", "mlx5-ofed"),
        ("5.8-3.0.7", "mlx5-ofed"),
        ("6.8.0-60-generic", "mlx5"),
        ("5.14.0-427.13.1.el9_4.x86_64", "mlx5"),
        ("", "mlx5"),
    ] {
        let mut port = right_port(&profile, named("mlx5").unwrap());
        port.device.driver_version = version.into();
        assert_eq!(of(&port).name, name, "{version}");
    }
    let mut port = right_port(&profile, named("mlx5").unwrap());
    port.device.driver = "mana".into();
    assert_eq!(of(&port).name, "unknown");
    assert!(named("nobody").is_none());
}

/// A port of a driver with one thing changed, and the edits for it.
fn edits(driver: &str, change: impl FnOnce(&mut crate::Settings)) -> Vec<crate::Edit> {
    let (profile, vendor) = (QosProfile::default(), named(driver).unwrap());
    let mut port = right_port(&profile, vendor);
    change(&mut port.settings);
    plan(&profile, &port, vendor, Options { force: true, take_dcbx: true }).unwrap().edits
}

fn no_map(set: &mut crate::Settings) {
    set.trust = Reading::Known(Trust::Pcp);
    set.app = Reading::Known(AppTable::new());
}

fn no_pfc(set: &mut crate::Settings) {
    set.pfc = Reading::Known(Pfc { enabled: PrioritySet::EMPTY, delay: 7 });
}

type Case = (&'static str, fn(&mut crate::Settings), &'static [&'static str], Blast);

/// As NVIDIA documents mlnx_qos, as dcb(8) and its pages document `dcb`, and ethtool(8).
const DOCUMENTED: &[Case] = &[
    ("mlx5-ofed", no_map, &["mlnx_qos -i eth2 --trust dscp"], Blast::TrafficLoss),
    ("mlx5-ofed", no_pfc, &["mlnx_qos -i eth2 --pfc 0,0,0,1,0,0,0,0 --cable_len 40"], Blast::LinkFlap),
    (
        "mlx5",
        no_pfc,
        &["dcb pfc set dev eth2 prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off delay 40"],
        Blast::LinkFlap,
    ),
    (
        "bnxt_re",
        |s| s.pause = Reading::Known(crate::settings::Pause { autoneg: true, rx: true, tx: true }),
        &["ethtool -A eth2 rx off tx off"],
        Blast::LinkFlap,
    ),
    ("mlx5", |s| s.mtu = Reading::Known(1500), &["ip link set dev eth2 mtu 9000"], Blast::TrafficLoss),
    ("mlx5-ofed", |s| s.dcbx = Reading::Known(DcbxMode(12)), &["mlnx_qos -i eth2 --dcbx os"], Blast::Hitless),
    (
        "mlx5",
        |s| s.dcbx = Reading::Known(DcbxMode(12)),
        &["dcb dcbx set dev eth2 host cee ieee"],
        Blast::Hitless,
    ),
    (
        "mlx5-ofed",
        |s| {
            if let Some(ets) = s.ets.known_mut() {
                ets.bandwidth[0] = 10
            }
        },
        &["mlnx_qos -i eth2 --tsa ets,ets,ets,ets,ets,ets,strict,ets --tcbw 50,0,0,50,0,0,0,0"],
        Blast::Hitless,
    ),
    (
        "mlx5",
        |s| s.default_tos = Reading::Known(104),
        &[
            "mkdir -p /sys/kernel/config/rdma_cm/rdma0",
            "echo 106 > /sys/kernel/config/rdma_cm/rdma0/ports/1/default_roce_tos",
            "rmdir /sys/kernel/config/rdma_cm/rdma0",
        ],
        Blast::Nothing,
    ),
    (
        "mlx5",
        |s| s.congestion.cnp_dscp = Reading::Known(crate::words::Dscp::of(4)),
        &["echo 48 > /sys/kernel/debug/mlx5/0000:18:00.0/cc_params/np_cnp_dscp"],
        Blast::Hitless,
    ),
    (
        "mlx5",
        |s| drop(s.congestion.params.insert(CcParam::CnpPrioMode, Reading::Known(1))),
        &["echo 0 > /sys/kernel/debug/mlx5/0000:18:00.0/cc_params/np_cnp_prio_mode"],
        Blast::Hitless,
    ),
    (
        "mlx5-ofed",
        |s| s.congestion.notification = Reading::Known(PrioritySet::EMPTY),
        &["echo 1 > /sys/class/net/eth2/ecn/roce_np/enable/3"],
        Blast::Hitless,
    ),
    (
        "bnxt_re-package",
        |s| s.congestion.cnp_dscp = Reading::Known(crate::words::Dscp::of(4)),
        &[
            "echo 48 > /sys/kernel/config/bnxt_re/rdma0/ports/1/cc/cnp_dscp",
            "echo 1 > /sys/kernel/config/bnxt_re/rdma0/ports/1/cc/apply",
        ],
        Blast::Hitless,
    ),
    (
        "ice",
        |s| s.firmware_lldp = Reading::Known(true),
        &["ethtool --set-priv-flags eth2 fw-lldp-agent off"],
        Blast::TrafficLoss,
    ),
];

#[test]
fn edits_are_what_documentation_says() {
    for (driver, change, commands, blast) in DOCUMENTED {
        let edits = edits(driver, change);
        assert_eq!(edits.len(), 1, "{driver} {commands:?}: {edits:?}");
        assert_eq!(
            (edits[0].commands.as_slice(), edits[0].blast),
            (&commands.map_owned()[..], *blast),
            "{driver}"
        );
    }
}

trait Owned {
    fn map_owned(&self) -> Vec<String>;
}

impl Owned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn dcbx_is_given_back_as_the_driver_takes_it() {
    let edit = edits("mlx5", |s| s.dcbx = Reading::Known(DcbxMode(12))).remove(0);
    let Change::Dcbx { from, to, send, .. } = edit.undo else { panic!("{:?}", edit.undo) };
    assert_eq!((from.0, to.0, send.0), (13, 12, 0));
}

/// mlx5 reports 100 % for a class that is strict.
#[test]
fn a_share_that_means_nothing_is_no_change() {
    let edits = edits("mlx5", |set| {
        let ets = set.ets.known_mut().unwrap();
        (ets.bandwidth[6], ets.prio_tc[1]) = (100, 1);
    });
    let commands: Vec<&str> = edits.iter().flat_map(|edit| &edit.commands).map(String::as_str).collect();
    assert_eq!(commands, ["dcb ets set dev eth2 prio-tc 0:0 1:0 2:0 3:3 4:0 5:0 6:6 7:0"]);
    assert!(!edits[0].why.contains("weights"), "{}", edits[0].why);
    let Change::Ets { from, to } = edits[0].change else { panic!("{:?}", edits[0].change) };
    assert_ne!(from.meant(), to.meant());
    assert_eq!(Ets { prio_tc: to.prio_tc, ..from }.meant(), to.meant());
    let other = Ets { bandwidth: [60, 0, 0, 40, 0, 0, 0, 0], ..to };
    assert_ne!(other.meant(), to.meant(), "a share that means something counts");
}

/// `bnxt_ets_validate`: EINVAL where a class is served by share, has none, and the others have it all.
#[test]
fn a_class_without_a_share_does_not_starve_where_that_is_refused() {
    let wanted = |driver: &str, spec: &ProfileSpec| {
        let profile = QosProfile::new(spec.clone()).unwrap();
        Wanted::of(&profile, named(driver).unwrap()).ets
    };
    let mut spec = ProfileSpec::default();
    for driver in ["bnxt_re", "bnxt_re-package"] {
        let ets = wanted(driver, &spec);
        let strict = [1, 2, 4, 5, 6, 7].into_iter().all(|tc| ets.tsa[tc] == Tsa::Strict);
        assert!(strict && !ets.starves_a_class(), "{driver}: {ets:?}");
        assert_eq!((ets.tsa[0], ets.tsa[3], ets.bandwidth), (Tsa::Ets, Tsa::Ets, spec.bandwidth), "{driver}");
    }
    assert_eq!(wanted("mlx5", &spec), QosProfile::default().ets(), "others take it as it is");
    // With priorities in it, it would be served before RDMA data if it were strict.
    (spec.prio_tc[1], spec.prio_tc[2]) = (1, 2);
    let ets = wanted("bnxt_re", &spec);
    assert_eq!((ets.tsa[1], ets.tsa[2], ets.tsa[4]), (Tsa::Ets, Tsa::Ets, Tsa::Strict));
    assert_eq!(ets.bandwidth, [49, 1, 1, 49, 0, 0, 0, 0]);
    let port = right_port(&QosProfile::new(spec).unwrap(), named("bnxt_re").unwrap());
    let (from, to) = (ets, QosProfile::default().ets());
    let after = model::apply(&port, &Change::Ets { from, to }, named("bnxt_re").unwrap());
    assert_eq!(after, port, "refused");
}

#[test]
fn order_is_that_of_the_drivers() {
    let all = edits("ice", |s| {
        no_map(s);
        s.firmware_lldp = Reading::Known(true);
        s.dcbx = Reading::Known(DcbxMode(10));
        s.pfc = Reading::Known(Pfc { enabled: PrioritySet(0x10), delay: 0 });
    });
    let kinds: Vec<&str> = all
        .iter()
        .map(|edit| match &edit.change {
            Change::FirmwareLldp { .. } => "lldp",
            Change::Dcbx { .. } => "dcbx",
            Change::App { .. } => "app",
            Change::Ets { .. } => "ets",
            Change::Pfc { .. } => "pfc",
            _ => "other",
        })
        .collect();
    // What the switch of trust puts back is put back before, with an undo of its own.
    assert_eq!(kinds, ["lldp", "pfc", "ets", "app", "ets", "pfc"]);
    assert_eq!(vendor::aspect(Item::Pfc), Aspect::PfcMask);
}
