//! The good path, which no device of a test machine has: the fake through the same codec as the real kernel.

use std::time::Duration;

use super::*;
use crate::{
    dcb::{App, Buffer, Change, Dcb, Ets, Pfc, dcbx, selector, tsa},
    ethtool::{Ethtool, Pause},
    events::{Event, Events},
    private::{self, StormLimit},
    rdma::{self, Happened, NamespaceMode, Notice, Rdma},
    route::Route,
};

const SOON: Duration = Duration::from_secs(5);

fn kernel(style: Style) -> FakeKernel {
    let kernel = FakeKernel::new();
    kernel.add("eth0", style);
    kernel
}

#[test]
fn dcb_is_read_as_it_was_set() {
    let kernel = kernel(Style::Simple);
    let mut dcb = Dcb::open(&kernel).unwrap();
    let before = dcb.read("eth0").unwrap();
    assert_eq!((before.device.as_str(), before.app, before.trust), ("eth0", Some(vec![]), Some(vec![])));
    let ets = Ets {
        classes: 8,
        tx_percent: [50, 0, 0, 50, 0, 0, 0, 0],
        tsa: [tsa::ETS, 0, 0, tsa::ETS, 0, 0, tsa::STRICT, 0],
        class_of: [0, 0, 0, 3, 0, 0, 6, 0],
        ..Ets::default()
    };
    let buffer = Buffer {
        buffer_of: [0, 0, 0, 1, 0, 0, 0, 0],
        size: [131_008, 131_008, 0, 0, 0, 0, 0, 0],
        total: 262_016,
    };
    let pcp = App { selector: selector::PCP, priority: 2, protocol: 11 };
    let changes = [
        Change::Ets(ets),
        Change::Pfc(Pfc { enabled: 8, delay: 40, ..Pfc::default() }),
        Change::Buffer(buffer),
        Change::AddApp(vec![App::dscp(26, 3), App::dscp(48, 6), pcp]),
        Change::Trust(vec![selector::DSCP, selector::PCP]),
        Change::AddRewrite(vec![App::dscp(26, 3)]),
        Change::Dcbx(dcbx::HOST | dcbx::IEEE | dcbx::STATIC),
        Change::DeleteApp(vec![App::dscp(48, 6)]),
    ];
    for change in &changes {
        dcb.change("eth0", change).unwrap();
    }
    let after = dcb.read("eth0").unwrap();
    assert_eq!((after.ets, after.buffer), (Some(ets), Some(buffer)));
    assert_eq!(after.pfc.map(|pfc| (pfc.capable, pfc.enabled, pfc.delay)), Some((8, 8, 40)));
    assert_eq!(after.app, Some(vec![App::dscp(26, 3), pcp]));
    assert_eq!(after.trust, Some(vec![selector::DSCP, selector::PCP]));
    assert_eq!((after.rewrite, after.dcbx), (Some(vec![App::dscp(26, 3)]), Some(0x19)));
    assert_eq!(kernel.done().len(), changes.len());
}

#[test]
fn refusals_are_the_kernels_and_the_drivers() {
    let kernel = kernel(Style::Simple);
    kernel.add("veth0", Style::Plain);
    let mut dcb = Dcb::open(&kernel).unwrap();
    assert!(dcb.read("veth0").unwrap_err().is_unsupported());
    assert!(dcb.read("eth9").unwrap_err().is_gone());
    let unequal = Ets { tsa: [tsa::ETS; 8], tx_percent: [10; 8], ..Ets::default() };
    let cases = [
        (Change::Ets(unequal), Errno::INVAL),
        (Change::DeleteApp(vec![App::dscp(1, 1)]), Errno::NOENT),
        (Change::Trust(vec![5, 5]), Errno::INVAL),
        (Change::Dcbx(dcbx::FIRMWARE), Errno::INVAL),
    ];
    for (change, errno) in cases {
        let error = dcb.change("eth0", &change).unwrap_err();
        assert!(matches!(error, crate::NetlinkError::Status { .. }), "{error}");
        assert_eq!(error.errno(), Some(errno), "{error}");
    }
    dcb.change("eth0", &Change::AddApp(vec![App::dscp(1, 1)])).unwrap();
    let error = dcb.change("eth0", &Change::AddApp(vec![App::dscp(1, 1)])).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EXIST));
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().forgets_trust = true);
    dcb.change("eth0", &Change::Trust(vec![5])).unwrap();
    assert_eq!(dcb.read("eth0").unwrap().trust, Some(vec![]), "done, said the kernel; read back");
}

#[test]
fn mlx5_replaces_entries_flaps_and_rounds() {
    let kernel = kernel(Style::Mlx5);
    let mut dcb = Dcb::open(&kernel).unwrap();
    let mut events = Events::open(&kernel).unwrap();
    dcb.change("eth0", &Change::AddApp(vec![App::dscp(26, 3)])).unwrap();
    dcb.change("eth0", &Change::AddApp(vec![App::dscp(26, 4)])).unwrap();
    assert_eq!(dcb.read("eth0").unwrap().app, Some(vec![App::dscp(26, 4)]));
    let port = App { selector: selector::DATAGRAM, priority: 3, protocol: 4791 };
    assert!(dcb.change("eth0", &Change::AddApp(vec![port])).is_err());
    dcb.change("eth0", &Change::Pfc(Pfc { enabled: 8, delay: 40, ..Pfc::default() })).unwrap();
    let mut reported = Vec::new();
    while let Some(event) = events.next(Duration::ZERO).unwrap() {
        reported.push(match event {
            Event::Link(link) => format!("{} {}", link.name, link.up),
            Event::Dcb { device } => format!("{device} dcb"),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reported, ["eth0 dcb", "eth0 dcb", "eth0 dcb", "eth0 dcb", "eth0 false", "eth0 true"]);
    let rates = [30_000_001, 1, 0, 0, 0, 0, 0, 0];
    dcb.change("eth0", &Change::MaxRate(crate::dcb::MaxRate(rates))).unwrap();
    let back = dcb.read("eth0").unwrap().max_rate.unwrap().0;
    assert_eq!(back[..3], [30_000_000, 100_000, 0]);
    assert!(dcb.change("eth0", &Change::Trust(vec![5])).unwrap_err().is_unsupported());
    let mut ets =
        Ets { tx_percent: [50, 0, 0, 50, 0, 0, 0, 0], tsa: [tsa::ETS; 8], classes: 8, ..Ets::default() };
    (ets.tsa[6], ets.tsa[7]) = (tsa::STRICT, tsa::VENDOR);
    dcb.change("eth0", &Change::Ets(ets)).unwrap();
    let back = dcb.read("eth0").unwrap().ets.unwrap();
    assert_eq!(back, Ets { tx_percent: [50, 0, 0, 50, 0, 0, 100, 100], ..ets });
}

#[test]
fn what_an_inventory_depends_on_is_told() {
    let kernel = kernel(Style::Mlx5);
    let mut events = Events::of_inventory(&kernel).unwrap();
    let index = kernel.change(|world| world.devices["eth0"].link.index);
    kernel.change(|world| {
        world.report_address("eth0", true);
        world.report_rdma(3, 1, 2);
        world.report_rdma(3, 1, 9);
        world.set_link("eth0", false);
    });
    let mut reported = Vec::new();
    while let Some(event) = events.next(Duration::ZERO).unwrap() {
        reported.push(event);
    }
    let notice = |what| Event::Rdma(Notice { device: 3, port: Some(1), what });
    assert!(reported.contains(&Event::Address { index }), "{reported:?}");
    assert!(
        reported.contains(&notice(Happened::Attached)) && reported.contains(&notice(Happened::Other(9))),
        "{reported:?}"
    );
    assert!(reported.iter().any(|event| matches!(event, Event::Link(link) if !link.up)), "{reported:?}");
    assert_eq!(reported.len(), 4, "nothing else, and nothing twice: {reported:?}");
}

#[test]
fn pause_mtu_and_what_the_ioctl_tells() {
    let kernel = kernel(Style::Mlx5);
    let mut ethtool = Ethtool::open(&kernel).unwrap();
    let mut events = Events::open(&kernel).unwrap();
    kernel.change(|world| {
        let device = world.devices.get_mut("eth0").unwrap();
        device.pause =
            Some(Pause { rx: true, tx: true, tx_frames: Some(7), rx_frames: Some(9), ..Pause::default() });
        device.statistics = vec![("rx_prio3_pause".into(), 5), ("tx_discards_phy".into(), u64::MAX)];
        device.flags = vec![("rx_cqe_moder".into(), true), ("fw-lldp-agent".into(), true)];
    });
    let held = ethtool.pause("eth0").unwrap();
    assert_eq!((held.rx, held.tx_frames, held.rx_frames), (true, Some(7), Some(9)));
    ethtool.set_pause("eth0", Pause::default()).unwrap();
    let held = ethtool.pause("eth0").unwrap();
    assert_eq!((held.rx, held.tx, held.tx_frames), (false, false, Some(7)));
    assert_eq!(events.next(SOON).unwrap(), Some(Event::Pause { device: "eth0".into() }));
    assert!(ethtool.set_pause("eth0", Pause { negotiate: true, ..Pause::default() }).is_err());
    assert_eq!(ethtool.link_state("eth0").unwrap().up, Some(true));
    assert!(ethtool.fec("eth0").unwrap_err().is_unsupported());

    let mut route = Route::open(&kernel).unwrap();
    route.set_mtu("eth0", 9000).unwrap();
    assert_eq!(route.link("eth0").unwrap().mtu, 9000);
    assert_eq!(route.set_mtu("eth0", 60_000).unwrap_err().errno(), Some(Errno::INVAL));
    assert!(route.link("eth1").unwrap_err().is_gone());

    assert_eq!(private::driver(&kernel, "eth0").unwrap().firmware, "28.39.1002");
    let expected = vec![("rx_prio3_pause".to_owned(), 5), ("tx_discards_phy".to_owned(), u64::MAX)];
    assert_eq!(private::statistics(&kernel, "eth0").unwrap(), expected);
    private::set_flag(&kernel, "eth0", "fw-lldp-agent", false).unwrap();
    assert_eq!(private::flags(&kernel, "eth0").unwrap().map_on(), ["rx_cqe_moder"]);
    assert!(private::set_flag(&kernel, "eth0", "no-such", true).unwrap_err().is_unsupported());
    let after = StormLimit::After(Duration::from_millis(100));
    for limit in [StormLimit::Automatic, after, StormLimit::Off] {
        private::set_storm_limit(&kernel, "eth0", limit).unwrap();
        assert_eq!(private::storm_limit(&kernel, "eth0").unwrap(), limit);
    }
    let short = StormLimit::After(Duration::from_millis(79));
    assert_eq!(private::set_storm_limit(&kernel, "eth0", short).unwrap_err().errno(), Some(Errno::INVAL));
}

trait On {
    fn map_on(self) -> Vec<String>;
}

impl On for Vec<(String, bool)> {
    fn map_on(self) -> Vec<String> {
        self.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }
}

#[test]
fn rdma_devices_ports_and_counters() {
    let kernel = kernel(Style::Mlx5);
    let port = rdma::Port { number: 1, state: Some(4), physical: Some(5), netdev: Some("eth0".into()) };
    let device = rdma::Device {
        index: Some(3),
        name: "mlx5_0".into(),
        firmware: Some("28.39.1002".into()),
        node_guid: Some(7),
        protocol: Some("roce".into()),
        ports: vec![port],
    };
    let counters = vec![("out_of_sequence".to_owned(), 4u64), ("np_cnp_sent".to_owned(), 5)];
    kernel.change(|world| {
        world.rdma = vec![device.clone()];
        world.counters.insert((3, 1), counters.clone());
    });
    let mut netlink = Rdma::open(&kernel).unwrap();
    assert_eq!(netlink.devices().unwrap(), [device]);
    assert_eq!(netlink.counters(3, 1).unwrap(), counters);
    assert!(netlink.counters(3, 2).is_err() && netlink.counters(4, 1).unwrap_err().is_gone());
    assert_eq!(netlink.namespace_mode().unwrap(), NamespaceMode::Shared);
}

#[test]
fn devices_come_go_and_change_their_names() {
    let kernel = kernel(Style::Mlx5);
    let mut events = Events::open(&kernel).unwrap();
    let mut next = || events.next(SOON).unwrap().unwrap();
    let index = kernel.change(|world| world.devices["eth0"].link.index);
    kernel.rename("eth0", "rail0");
    assert!(matches!(next(), Event::Link(link) if link.name == "rail0" && link.index == index));
    kernel.reload("rail0");
    assert_eq!(next(), Event::LinkGone { index, name: "rail0".into() });
    assert!(matches!(next(), Event::Link(link) if !link.up && link.index != index));
    assert!(matches!(next(), Event::Link(link) if link.up));
    kernel.change(|world| (0..5000).for_each(|_| world.report_link("rail0")));
    assert_eq!(next(), Event::Lost);
}

#[test]
fn a_dead_program_changes_nothing_more() {
    let kernel = kernel(Style::Simple);
    let mut dcb = Dcb::open(&kernel).unwrap();
    let add = |dscp| Change::AddApp(vec![App::dscp(dscp, 1)]);
    kernel.die_after(1);
    assert!(dcb.change("eth0", &add(1)).is_err(), "it dies before it hears the answer");
    assert!(dcb.change("eth0", &add(2)).is_err() && Dcb::open(&kernel).is_err());
    let mut other = Dcb::open(&kernel.foreign()).unwrap();
    other.change("eth0", &add(3)).unwrap();
    let app = |dcb: &mut Dcb| dcb.read("eth0").unwrap().app.unwrap();
    assert_eq!(app(&mut other), [App::dscp(1, 1), App::dscp(3, 1)]);
    kernel.revive();
    dcb.change("eth0", &add(2)).unwrap();
    assert_eq!(kernel.done().len(), 2);
}

#[test]
fn the_connection_managers_folder() {
    let kernel = kernel(Style::Mlx5);
    kernel.change(|world| world.files.manage("mlx5_0", 1));
    let files = kernel.files();
    let base = "sys/kernel/config/rdma_cm/mlx5_0";
    assert_eq!(files.make("sys/kernel/config/rdma_cm/mlx5_9").unwrap_err().raw_os_error(), Some(19));
    files.make(base).unwrap();
    assert_eq!(files.names(&format!("{base}/ports/1")), ["default_roce_mode", "default_roce_tos"]);
    files.write(&format!("{base}/ports/1/default_roce_tos"), b"106\n").unwrap();
    assert!(files.write(&format!("{base}/ports/1/default_roce_mode"), b"RoCE v3").is_err());
    files.remove(base).unwrap();
    assert_eq!(files.names(base), [""; 0]);
    files.make(base).unwrap();
    assert_eq!(files.text(&format!("{base}/ports/1/default_roce_tos")).as_deref(), Some("106"));
}
