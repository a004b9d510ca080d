//! What a NIC is, whole. A part that cannot be read is said to be so; the rest is read nevertheless.

use std::collections::BTreeMap;

use node_agent_netlink::{
    Files, Kernel,
    dcb::{Dcb, Table, selector},
    ethtool::Ethtool,
    private,
    route::Route,
};
use node_agent_qos::{
    Congestion, DcbAgent, Device, Observed, Reading, Settings,
    settings::{AppTable, DcbxMode},
    vendor::{self, TrustStyle, Vendor},
    words::Trust,
};

use super::{
    congestion, connection,
    convert::{self, part, reading},
    paths,
};

/// Reads a NIC. `drained` and `agents` are of the whole server, and so are the caller's to know.
#[must_use]
pub fn observe(
    kernel: &dyn Kernel,
    device: &Device,
    drained: bool,
    agents: Reading<Vec<DcbAgent>>,
) -> Observed {
    let bare = Observed { device: device.clone(), drained, agents, settings: nothing() };
    let vendor = vendor::of(&bare);
    Observed { settings: settings(kernel, device, vendor), ..bare }
}

/// Settings of a device of which nothing has been asked yet.
fn nothing() -> Settings {
    Settings {
        dcbx: Reading::Unsupported,
        firmware_lldp: Reading::Unsupported,
        trust: Reading::Unsupported,
        app: Reading::Unsupported,
        pfc: Reading::Unsupported,
        ets: Reading::Unsupported,
        max_rate: Reading::Unsupported,
        buffer: Reading::Unsupported,
        pause: Reading::Unsupported,
        mtu: Reading::Unsupported,
        default_tos: Reading::Unsupported,
        default_mode: Reading::Unsupported,
        forced_tos: Reading::Unsupported,
        pfc_prevention: Reading::Unsupported,
        congestion: Congestion {
            notification: Reading::Unsupported,
            reaction: Reading::Unsupported,
            cnp_dscp: Reading::Unsupported,
            cnp_priority: Reading::Unsupported,
            roce_dscp: Reading::Unsupported,
            roce_priority: Reading::Unsupported,
            params: BTreeMap::new(),
        },
    }
}

fn settings(kernel: &dyn Kernel, device: &Device, vendor: &Vendor) -> Settings {
    let files = kernel.files();
    let netdev = &device.netdev;
    let dcb = reading(Dcb::open(kernel).and_then(|mut dcb| dcb.read(netdev)));
    let pause = reading(Ethtool::open(kernel).and_then(|mut ethtool| ethtool.pause(netdev)));
    let link = reading(Route::open(kernel).and_then(|mut route| route.link(netdev)));
    let flags = reading(private::flags(kernel, netdev));
    let lldp = |flags: &Vec<(String, bool)>| {
        flags.iter().find(|(name, _)| name == "fw-lldp-agent").map(|(_, on)| *on)
    };
    Settings {
        dcbx: part(&dcb, |table| table.dcbx.map(DcbxMode)),
        firmware_lldp: part(&flags, lldp),
        trust: trust(files, netdev, &dcb, vendor),
        app: part(&dcb, app_table),
        pfc: part(&dcb, |table| table.pfc.as_ref().map(convert::pfc)),
        ets: part(&dcb, |table| table.ets.as_ref().map(convert::ets)),
        max_rate: part(&dcb, |table| table.max_rate.map(|rate| rate.0)),
        buffer: part(&dcb, |table| table.buffer.as_ref().map(convert::buffer)),
        pause: part(&pause, |pause| Some(convert::pause(pause))),
        mtu: part(&link, |link| Some(link.mtu)),
        default_tos: connection::tos(files, device.rdma.as_deref(), device.port),
        default_mode: connection::mode(files, device.rdma.as_deref(), device.port),
        forced_tos: forced_tos(files, device, vendor),
        pfc_prevention: part(&reading(private::storm_limit(kernel, netdev)), |limit| {
            Some(convert::millis(*limit))
        }),
        congestion: congestion::read(files, device, vendor),
    }
}

fn app_table(table: &Table) -> Option<AppTable> {
    Some(table.app.as_ref()?.iter().map(convert::entry).collect())
}

/// What the priority of a packet is read from: as the vendor's own file says where there is one, else by what the driver does.
fn trust(files: &dyn Files, netdev: &str, dcb: &Reading<Table>, vendor: &Vendor) -> Reading<Trust> {
    match files.text(&format!("sys/class/net/{netdev}/qos/trust")).as_deref() {
        Some("dscp") => return Reading::Known(Trust::Dscp),
        Some("pcp") => return Reading::Known(Trust::Pcp),
        _ => {}
    }
    let by = |dscp: bool| if dscp { Trust::Dscp } else { Trust::Pcp };
    match vendor.trust {
        TrustStyle::FollowsEntries | TrustStyle::FollowsEntriesAndResets => {
            part(dcb, |table| app_table(table).map(|table| by(table.iter().any(|entry| entry.is_dscp()))))
        }
        TrustStyle::Own => {
            part(dcb, |table| table.trust.as_ref().map(|order| by(order.first() == Some(&selector::DSCP))))
        }
        TrustStyle::None => Reading::Unsupported,
    }
}

/// `Global tclass=106` among lines on single addresses; without it none is forced.
fn forced_tos(files: &dyn Files, device: &Device, vendor: &Vendor) -> Reading<Option<u8>> {
    let path = paths::file(vendor, vendor::Aspect::ForcedTos, device, vendor::path::Filling::default());
    let Some(path) = path else { return Reading::Unsupported };
    match files.read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let said = text.lines().find_map(|line| line.trim().strip_prefix("Global tclass="));
            match said.map(|number| number.trim().parse::<u8>()) {
                None => Reading::Known(None),
                // The driver takes 0 for "not forced".
                Some(Ok(tos)) => Reading::Known(Some(tos).filter(|tos| *tos != 0)),
                Some(Err(_)) => Reading::Unreadable(format!("{path} says '{}'", text.trim())),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Reading::Unsupported,
        Err(error) => Reading::Unreadable(format!("{path}: {error}")),
    }
}
