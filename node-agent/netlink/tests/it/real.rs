//! Route, DCB, ethtool, RDMA and the ioctl on loopback and on a veth pair.

use std::{net::IpAddr, time::Duration};

use node_agent_netlink::{
    Errno, Kernel, RealKernel,
    dcb::{App, Change, Dcb, Pfc},
    ethtool::{Ethtool, Family},
    events::{Event, Events},
    private, rdma,
    route::Route,
};

use crate::namespace::{ip, within};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn devices_without_dcb_say_so() {
    let mut dcb = Dcb::open(&RealKernel::new()).unwrap();
    // A kernel that is built without DCB says the same.
    let error = dcb.read("lo").unwrap_err();
    assert_eq!(error.errno(), Some(Errno::OPNOTSUPP), "{error}");
    assert!(error.to_string().contains("read the DCB state of lo: EOPNOTSUPP (-95)"), "{error}");
    let error = dcb.read("no-such-device").unwrap_err();
    assert!(error.is_gone() || error.is_unsupported(), "{error}");
    for change in
        [Change::Pfc(Pfc::default()), Change::AddApp(vec![App::dscp(26, 3)]), Change::Trust(vec![5])]
    {
        let errno = dcb.change("lo", &change).unwrap_err().errno();
        assert!(matches!(errno, Some(Errno::OPNOTSUPP | Errno::PERM)), "{errno:?}");
    }
    // No name at all.
    let error = dcb.read("").unwrap_err();
    assert!(matches!(error.errno(), Some(Errno::NODEV | Errno::INVAL | Errno::OPNOTSUPP)), "{error}");
}

#[test]
fn a_pair_of_devices_from_its_making_to_its_end() {
    within(|| {
        let kernel = RealKernel::new();
        let mut events = Events::open(&kernel).unwrap();
        let mut route = Route::open(&kernel).unwrap();
        ip("link add v0 type veth peer name v1");
        ip("addr add 10.9.8.7/24 dev v0");
        ip("link set v0 up");
        ip("link set v1 up");
        let mut until = |wanted: &dyn Fn(&Event) -> bool| {
            loop {
                let event = events.next(SOON).unwrap().expect("an event");
                if wanted(&event) {
                    return event;
                }
            }
        };
        until(&|event| matches!(event, Event::Link(link) if link.name == "v0" && link.up));
        let mut changes = Events::of_inventory(&kernel).unwrap();
        ip("addr add 10.9.8.6/24 dev v0");
        let index = route.link("v0").unwrap().index;
        while changes.next(SOON).unwrap().expect("an event") != (Event::Address { index }) {}
        let addresses = route.addresses().unwrap();
        assert!(addresses["v0"].contains(&IpAddr::from([10, 9, 8, 7])), "{addresses:?}");

        route.set_mtu("v0", 4200).unwrap();
        let link = route.link("v0").unwrap();
        assert_eq!((link.mtu, link.on, link.up), (4200, true, true));
        until(&|event| matches!(event, Event::Link(link) if link.name == "v0" && link.mtu == 4200));
        let error = route.set_mtu("v0", 100_000_000).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
        assert!(error.to_string().contains('"'), "the kernel's own words are told: {error}");
        assert!(route.set_mtu("v9", 1500).unwrap_err().is_gone());

        let pair = route.links().unwrap();
        assert_eq!(pair.iter().filter(|link| link.name.starts_with('v')).count(), 2);
        ip("link set v1 down");
        until(&|event| matches!(event, Event::Link(link) if link.name == "v0" && !link.up));
        ip("link set v1 name rail1");
        let renamed = until(&|event| matches!(event, Event::Link(link) if link.name == "rail1"));
        ip("link del v0");
        let Event::Link(renamed) = renamed else { unreachable!() };
        until(
            &|event| matches!(event, Event::LinkGone { index, name } if *index == renamed.index && name == "rail1"),
        );
    });
}

#[test]
fn ethtool_of_a_pair() {
    within(|| {
        ip("link add v0 type veth peer name v1");
        let kernel = RealKernel::new();
        assert!(Family::resolve(&kernel).unwrap().monitor.is_some());
        let mut ethtool = Ethtool::open(&kernel).unwrap();
        assert!(ethtool.pause("v0").unwrap_err().is_unsupported());
        assert!(ethtool.fec("v0").unwrap_err().is_unsupported());
        assert!(ethtool.pause("v9").unwrap_err().is_gone());
        assert_eq!(ethtool.link_state("v0").unwrap().up, Some(false));

        assert_eq!(private::driver(&kernel, "v0").unwrap().name, "veth");
        let statistics = private::statistics(&kernel, "v0").unwrap();
        let mut route = Route::open(&kernel).unwrap();
        let peer = u64::from(route.link("v1").unwrap().index);
        assert!(statistics.contains(&("peer_ifindex".to_owned(), peer)), "{statistics:?}");
        assert_eq!(private::flags(&kernel, "v0").unwrap(), []);
        assert!(private::storm_limit(&kernel, "v0").unwrap_err().is_unsupported());
        assert!(private::driver(&kernel, "v9").unwrap_err().is_gone());
        assert_eq!(private::statistics(&kernel, "lo").map(|list| list.len()).unwrap_or(0), 0);
        let error = kernel.ethtool("a-name-that-is-too-long", &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(22));
    });
}

#[test]
fn rdma_devices_are_read_or_there_are_none() {
    let devices = rdma::devices(&RealKernel::new());
    let sysfs = std::fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count);
    assert_eq!(devices.len(), sysfs, "{devices:?}");
}
