//! What the fake kernel holds, and how it answers each family's bytes.

use std::collections::{BTreeMap, VecDeque};

use super::{
    device::{Device, describe},
    files::Folder,
};
use crate::{
    dcb::{Buffer, Change, Ets, MaxRate, Pfc, table},
    error::Errno,
    ethtool::{self, control, header, pause},
    kernel::Family,
    rdma,
    route::{self, DELETED_LINK, LINK_FIXED, LOWER_UP, NEW_LINK, RUNNING, UP, link},
    wire::{Builder, CAPPED, DONE, DUMP, ERROR, MULTI, Message, WireError, u32_at},
};

/// The number that the fake gives ethtool's family, and the group of its notifications.
const ETHTOOL: u16 = 20;
const MONITOR: u32 = 5;
const GROUP_LINK: u32 = 1;
const GROUP_IPV4: u32 = 5;
const GROUP_DCB: u32 = 23;
const GROUP_RDMA: u32 = 4;
/// Events that a socket holds before some are lost.
const EVENTS_MOST: usize = 4096;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) family: Family,
    pub(super) groups: Vec<u32>,
    pub(super) datagrams: VecDeque<Vec<u8>>,
    pub(super) lost: bool,
}

/// Everything that the fake kernel holds.
#[derive(Debug, Default)]
pub struct World {
    /// Network devices by name.
    pub devices: BTreeMap<String, Device>,
    /// RDMA devices, as RDMA netlink lists them.
    pub rdma: Vec<rdma::Device>,
    /// Counters of RDMA devices' ports, by the device's index and the port.
    pub counters: BTreeMap<(u32, u32), Vec<(String, u64)>>,
    /// Files of sysfs, debugfs and configfs.
    pub files: Folder,
    /// Changes that were asked for and done, in words, in their order.
    pub done: Vec<String>,
    pub(super) queues: BTreeMap<u64, Queue>,
    pub(super) opened: u64,
    /// How many more changes succeed before every call fails; `None` for no end.
    pub(super) lives: Option<u64>,
    next_index: u32,
}

type Answer = Result<Vec<Builder>, Errno>;

impl World {
    /// Counts a change by a mortal caller; an error if its time has come.
    pub(super) fn spend(&mut self, what: String) -> Result<(), Errno> {
        if let Some(left) = &mut self.lives {
            *left = left.checked_sub(1).ok_or(Errno::IO)?;
        }
        self.done.push(what);
        Ok(())
    }

    pub(super) fn is_dead(&self) -> bool {
        self.lives == Some(0)
    }

    /// An index that no device has had.
    pub fn fresh_index(&mut self) -> u32 {
        let used = self.devices.values().map(|device| device.link.index).max().unwrap_or(1);
        self.next_index = self.next_index.max(used) + 1;
        self.next_index
    }

    /// Sends a datagram to all sockets of a group.
    fn report(&mut self, family: Family, group: u32, message: Builder) {
        let bytes = message.finish(0);
        let heard =
            self.queues.values_mut().filter(|queue| queue.family == family && queue.groups.contains(&group));
        for queue in heard {
            if queue.datagrams.len() < EVENTS_MOST {
                queue.datagrams.push_back(bytes.clone());
            } else {
                queue.lost = true;
            }
        }
    }

    /// Tells of a link as it is now.
    pub fn report_link(&mut self, name: &str) {
        if let Some(device) = self.devices.get(name) {
            let message = link_message(device, NEW_LINK, 0);
            self.report(Family::Route, GROUP_LINK, message);
        }
    }

    /// Tells that a device is gone.
    pub fn report_gone(&mut self, device: &Device) {
        self.report(Family::Route, GROUP_LINK, link_message(device, DELETED_LINK, 0));
    }

    /// Sends the event that a device has an address more or less.
    pub fn report_address(&mut self, name: &str, came: bool) {
        let Some(device) = self.devices.get(name) else { return };
        let kind = if came { route::NEW_ADDRESS } else { route::DELETED_ADDRESS };
        let fixed = [[2, 24, 0, 0], device.link.index.to_ne_bytes()].concat();
        self.report(Family::Route, GROUP_IPV4, Builder::message(kind, 0, &fixed));
    }

    /// Tells that something happened to a port of an RDMA device (`enum rdma_nl_notify_event_type`).
    pub fn report_rdma(&mut self, device: u32, port: u32, event: u8) {
        let message = Builder::message(rdma::kind::MONITOR, 0, &[])
            .put(rdma::attribute::DEVICE_INDEX, &device.to_ne_bytes())
            .put(rdma::attribute::PORT_INDEX, &port.to_ne_bytes())
            .put(rdma::attribute::EVENT, &[event]);
        self.report(Family::Rdma, GROUP_RDMA, message);
    }

    fn report_dcb(&mut self, name: &str, command: u8) {
        let Some(device) = self.devices.get(name) else { return };
        let Some(dcb) = &device.dcb else { return };
        let message = describe(device, dcb, Builder::message(table::SET, 0, &[0, command, 0, 0]));
        self.report(Family::Route, GROUP_DCB, message);
    }

    /// Takes a link down or up, and sends the event.
    pub fn set_link(&mut self, name: &str, up: bool) {
        if let Some(device) = self.devices.get_mut(name).filter(|device| device.link.up != up) {
            device.link.up = up;
            device.link.carrier_changes = device.link.carrier_changes.map(|count| count.saturating_add(1));
        }
        self.report_link(name);
    }

    /// The whole answer to one request: its parts and its end.
    pub(super) fn answer(&mut self, family: Family, message: Message<'_>, mortal: bool) -> Vec<Vec<u8>> {
        let answer = match family {
            Family::Route => self.route(message, mortal),
            Family::Generic => self.generic(message, mortal),
            Family::Rdma => self.rdma(message),
        };
        let sequence = message.sequence;
        let code = |kind, flags, errno: i32| {
            // An error repeats the request's header; a listing's end does not.
            let mut body = errno.to_ne_bytes().to_vec();
            if kind == ERROR {
                body.extend([0; 16]);
            }
            Builder::message(kind, flags, &body).finish(sequence)
        };
        match answer {
            Err(errno) => vec![code(ERROR, CAPPED, -errno.0)],
            Ok(parts) if message.flags & DUMP == DUMP => {
                let mut datagrams: Vec<Vec<u8>> = parts
                    .chunks(8)
                    .map(|some| some.iter().flat_map(|part| part.clone().finish(sequence)).collect())
                    .collect();
                datagrams.push(code(DONE, MULTI, 0));
                datagrams
            }
            Ok(parts) => {
                let mut datagrams: Vec<Vec<u8>> =
                    parts.into_iter().map(|part| part.finish(sequence)).collect();
                datagrams.push(code(ERROR, CAPPED, 0));
                datagrams
            }
        }
    }

    fn route(&mut self, message: Message<'_>, mortal: bool) -> Answer {
        match message.kind {
            table::GET | table::SET => self.dcb(message, mortal),
            route::GET_LINK | route::SET_LINK => {
                let flags = if message.flags & DUMP == DUMP { MULTI } else { 0 };
                if flags != 0 {
                    return Ok(self
                        .devices
                        .values()
                        .map(|device| link_message(device, NEW_LINK, flags))
                        .collect());
                }
                let name = text_of(message, LINK_FIXED, link::NAME).ok_or(Errno::INVAL)?;
                let device = self.devices.get_mut(&name).ok_or(Errno::NODEV)?;
                if message.kind == route::GET_LINK {
                    return Ok(vec![link_message(device, NEW_LINK, 0)]);
                }
                let mtu = value_of(message, LINK_FIXED, link::MTU).and_then(|value| u32_at(value, 0));
                let mtu = mtu.ok_or(Errno::INVAL)?;
                device.failure("mtu")?;
                let most = device.link.mtu_most.unwrap_or(u32::MAX);
                if !(device.link.mtu_least.unwrap_or(0)..=most).contains(&mtu) {
                    return Err(Errno::INVAL);
                }
                if mortal {
                    self.spend(format!("{name}: MTU {mtu}"))?;
                }
                if let Some(device) = self.devices.get_mut(&name) {
                    device.link.mtu = mtu;
                }
                self.report_link(&name);
                Ok(vec![])
            }
            22 => Ok(self.addresses()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn addresses(&self) -> Vec<Builder> {
        let one = |index: u32, address: std::net::IpAddr| {
            let (family, bytes) = match address {
                std::net::IpAddr::V4(v4) => (2, v4.octets().to_vec()),
                std::net::IpAddr::V6(v6) => (10, v6.octets().to_vec()),
            };
            let mut fixed = [0; 8];
            fixed[0] = family;
            fixed[4..].copy_from_slice(&index.to_ne_bytes());
            Builder::message(20, MULTI, &fixed).put(1, &bytes)
        };
        let of = |device: &Device| -> Vec<Builder> {
            device.addresses.iter().map(|address| one(device.link.index, *address)).collect()
        };
        self.devices.values().flat_map(of).collect()
    }

    fn dcb(&mut self, message: Message<'_>, mortal: bool) -> Answer {
        let command = *message.body.get(1).ok_or(Errno::INVAL)?;
        let changes =
            matches!(command, table::command::IEEE_SET | table::command::IEEE_DEL | table::command::SET_DCBX);
        if changes && message.kind != table::SET {
            return Err(Errno::PERM);
        }
        let name = text_of(message, table::FIXED, table::attribute::NAME).ok_or(Errno::INVAL)?;
        let device = self.devices.get_mut(&name).ok_or(Errno::NODEV)?;
        let Some(dcb) = device.dcb.clone() else { return Err(Errno::OPNOTSUPP) };
        device.failure("dcb")?;
        let reply = |kind| Builder::message(kind, message.flags, &[0, command, 0, 0]);
        match command {
            table::command::IEEE_GET => return Ok(vec![describe(device, &dcb, reply(table::GET))]),
            table::command::GET_DCBX => {
                return Ok(vec![reply(table::GET).put(table::attribute::DCBX, &[dcb.dcbx])]);
            }
            _ if !changes => return Err(Errno::OPNOTSUPP),
            _ => {}
        }
        let wanted = read_changes(message, command).map_err(|_| Errno::INVAL)?;
        let (mut status, mut toggled) = (0u8, false);
        for change in &wanted {
            if mortal {
                self.spend(format!("{name}: {}", change.name()))?;
            }
            let Some(device) = self.devices.get_mut(&name) else { return Err(Errno::NODEV) };
            match device.change(change) {
                Ok(toggles) => toggled |= toggles,
                Err(errno) => {
                    status =
                        if command == table::command::SET_DCBX { 1 } else { 0u8.wrapping_sub(errno.0 as u8) };
                    break;
                }
            }
        }
        let kind =
            if command == table::command::SET_DCBX { table::attribute::DCBX } else { table::attribute::IEEE };
        self.report_dcb(&name, command);
        if toggled {
            self.set_link(&name, false);
            self.set_link(&name, true);
        }
        Ok(vec![reply(table::SET).put(kind, &[status])])
    }

    fn generic(&mut self, message: Message<'_>, mortal: bool) -> Answer {
        let command = *message.body.first().ok_or(Errno::INVAL)?;
        if message.kind == control::ID {
            let name = text_of(message, ethtool::FIXED, control::FAMILY_NAME);
            if command != control::GET_FAMILY || name.as_deref() != Some("ethtool") {
                return Err(Errno::NOENT);
            }
            let reply = Builder::message(control::ID, 0, &[1, 2, 0, 0])
                .put(control::FAMILY_ID, &ETHTOOL.to_ne_bytes())
                .put_text(control::FAMILY_NAME, "ethtool")
                .nest(control::GROUPS, |nest| {
                    nest.nest(1, |group| {
                        group
                            .put_text(control::GROUP_NAME, "monitor")
                            .put(control::GROUP_ID, &MONITOR.to_ne_bytes())
                    })
                });
            return Ok(vec![reply]);
        }
        if message.kind != ETHTOOL {
            return Err(Errno::NOENT);
        }
        let head =
            message.attributes(ethtool::FIXED).map_while(Result::ok).find(|a| a.kind == header::HEADER);
        let head = head.ok_or(Errno::INVAL)?;
        let inside = |kind| head.nest().map_while(Result::ok).find(|a| a.kind == kind);
        let name = inside(header::NAME).and_then(|a| a.text("name").ok()).ok_or(Errno::INVAL)?.to_owned();
        let statistics =
            inside(header::FLAGS).and_then(|a| a.u32("flags").ok()).unwrap_or(0) & header::STATISTICS != 0;
        self.ethtool(message, command, &name, statistics, mortal)
    }

    fn ethtool(
        &mut self,
        message: Message<'_>,
        command: u8,
        name: &str,
        statistics: bool,
        mortal: bool,
    ) -> Answer {
        let device = self.devices.get_mut(name).ok_or(Errno::NODEV)?;
        let reply = |command| {
            Builder::message(ETHTOOL, 0, &[command, 1, 0, 0])
                .nest(header::HEADER, |nest| nest.put_text(header::NAME, name))
        };
        match command {
            ethtool::command::LINKSTATE_GET => Ok(vec![reply(6).put(2, &[device.link.up.into()])]),
            ethtool::command::PAUSE_GET => {
                device.failure("pause")?;
                let held = device.pause.ok_or(Errno::OPNOTSUPP)?;
                Ok(vec![describe_pause(held, reply(22), statistics)])
            }
            ethtool::command::PAUSE_SET => {
                device.failure("pause")?;
                let held = device.pause.ok_or(Errno::OPNOTSUPP)?;
                let asked = ethtool::Pause::decode(message).map_err(|_| Errno::INVAL)?;
                let wanted =
                    ethtool::Pause { negotiate: asked.negotiate, rx: asked.rx, tx: asked.tx, ..held };
                // mlx5 negotiates no pause.
                if wanted.negotiate && device.style == super::Style::Mlx5 {
                    return Err(Errno::INVAL);
                }
                if mortal {
                    self.spend(format!("{name}: pause rx {} tx {}", wanted.rx, wanted.tx))?;
                }
                self.set_pause(name, wanted);
                Ok(vec![])
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Changes pause settings, and sends the event.
    pub fn set_pause(&mut self, name: &str, wanted: ethtool::Pause) {
        let Some(device) = self.devices.get_mut(name) else { return };
        device.pause = Some(wanted);
        let message = Builder::message(ETHTOOL, 0, &[ethtool::command::PAUSE_CHANGED, 1, 0, 0])
            .nest(header::HEADER, |nest| nest.put_text(header::NAME, name));
        self.report(Family::Generic, MONITOR, describe_pause(wanted, message, false));
    }

    fn rdma(&mut self, message: Message<'_>) -> Answer {
        use rdma::{attribute as a, kind};
        let number = |kind| value_of(message, 0, kind).and_then(|value| u32_at(value, 0));
        let by_index =
            |index: u32| self.rdma.iter().find(|device| device.index == Some(index)).ok_or(Errno::NODEV);
        match message.kind {
            kind::GET => Ok(self.rdma.iter().map(|device| describe_rdma(device, MULTI)).collect()),
            kind::SYS_GET => Ok(vec![Builder::message(kind::SYS_GET, 0, &[]).put(a::NAMESPACE_MODE, &[1])]),
            kind::PORT_GET | kind::STAT_GET => {
                let device = by_index(number(a::DEVICE_INDEX).ok_or(Errno::INVAL)?)?;
                let wanted = number(a::PORT_INDEX).ok_or(Errno::INVAL)?;
                let port = device.ports.iter().find(|port| port.number == wanted).ok_or(Errno::INVAL)?;
                let reply = Builder::message(message.kind, 0, &[])
                    .put(a::DEVICE_INDEX, &device.index.unwrap_or(0).to_ne_bytes())
                    .put_text(a::DEVICE_NAME, &device.name)
                    .put(a::PORT_INDEX, &wanted.to_ne_bytes());
                if message.kind == kind::PORT_GET {
                    return Ok(vec![describe_port(port, reply)]);
                }
                let counters =
                    self.counters.get(&(device.index.unwrap_or(0), wanted)).ok_or(Errno::OPNOTSUPP)?;
                let entry = |nest: Builder, (name, value): &(String, u64)| {
                    nest.nest(a::COUNTER, |entry| {
                        entry.put_text(a::COUNTER_NAME, name).put(a::COUNTER_VALUE, &value.to_ne_bytes())
                    })
                };
                Ok(vec![reply.nest(a::COUNTERS, |nest| counters.iter().fold(nest, entry))])
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

fn describe_rdma(device: &rdma::Device, flags: u16) -> Builder {
    use rdma::attribute as a;
    let ports = u32::try_from(device.ports.len()).unwrap_or(0);
    let message = Builder::message(rdma::kind::GET, flags, &[])
        .put(a::DEVICE_INDEX, &device.index.unwrap_or(0).to_ne_bytes())
        .put_text(a::DEVICE_NAME, &device.name)
        .put(a::PORT_INDEX, &ports.to_ne_bytes())
        .put_text(a::FIRMWARE, device.firmware.as_deref().unwrap_or(""))
        .put(a::NODE_GUID, &device.node_guid.unwrap_or(0).to_ne_bytes());
    match &device.protocol {
        Some(protocol) => message.put_text(a::PROTOCOL, protocol),
        None => message,
    }
}

fn describe_port(port: &rdma::Port, message: Builder) -> Builder {
    use rdma::attribute as a;
    let message = message
        .put(a::PORT_STATE, &[port.state.unwrap_or(0)])
        .put(a::PHYSICAL_STATE, &[port.physical.unwrap_or(0)]);
    match &port.netdev {
        Some(netdev) => message.put_text(a::NETDEV_NAME, netdev),
        None => message,
    }
}

fn describe_pause(held: ethtool::Pause, message: Builder, statistics: bool) -> Builder {
    let message = message
        .put(pause::AUTONEG, &[held.negotiate.into()])
        .put(pause::RX, &[held.rx.into()])
        .put(pause::TX, &[held.tx.into()]);
    let (Some(tx), Some(rx), true) = (held.tx_frames, held.rx_frames, statistics) else { return message };
    message.nest(pause::STATISTICS, |nest| {
        nest.put(pause::TX_FRAMES, &tx.to_ne_bytes()).put(pause::RX_FRAMES, &rx.to_ne_bytes())
    })
}

fn link_message(device: &Device, kind: u16, flags: u16) -> Builder {
    let held = &device.link;
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&held.index.to_ne_bytes());
    let state = if held.up {
        UP | RUNNING | LOWER_UP
    } else if held.on {
        UP
    } else {
        0
    };
    fixed[8..12].copy_from_slice(&state.to_ne_bytes());
    let mut message = Builder::message(kind, flags, &fixed)
        .put_text(link::NAME, &held.name)
        .put(link::MTU, &held.mtu.to_ne_bytes())
        .put(link::MIN_MTU, &held.mtu_least.unwrap_or(0).to_ne_bytes())
        .put(link::MAX_MTU, &held.mtu_most.unwrap_or(0).to_ne_bytes());
    if let Some(changes) = held.carrier_changes {
        message = message.put(link::CARRIER_CHANGES, &changes.to_ne_bytes());
    }
    if let Some(parent) = &held.parent {
        message = message.put_text(link::PARENT, parent);
    }
    message
}

fn value_of(message: Message<'_>, fixed: usize, kind: u16) -> Option<&[u8]> {
    message.attributes(fixed).map_while(Result::ok).find(|a| a.kind == kind).map(|a| a.value)
}

fn text_of(message: Message<'_>, fixed: usize, kind: u16) -> Option<String> {
    let found = message.attributes(fixed).map_while(Result::ok).find(|a| a.kind == kind)?;
    found.text("text").ok().map(str::to_owned)
}

/// The changes that a request asks for, in the order in which `dcbnl_ieee_set` does them.
fn read_changes(message: Message<'_>, command: u8) -> Result<Vec<Change>, WireError> {
    use table::attribute as a;
    let missing = WireError::Missing { what: "DCB_ATTR_IEEE" };
    if command == table::command::SET_DCBX {
        let value = value_of(message, table::FIXED, a::DCBX).and_then(<[u8]>::first);
        return Ok(vec![Change::Dcbx(*value.ok_or(missing)?)]);
    }
    let ieee = message.attributes(table::FIXED).map_while(Result::ok).find(|found| found.kind == a::IEEE);
    let mut changes = Vec::new();
    for attribute in ieee.ok_or(missing)?.nest() {
        let attribute = attribute?;
        let value = attribute.value;
        let adds = command == table::command::IEEE_SET;
        changes.push(match (attribute.kind, adds) {
            (a::ETS, true) => Change::Ets(Ets::decode(value)?),
            (a::MAXRATE, true) => Change::MaxRate(MaxRate::decode(value)?),
            (a::PFC, true) => Change::Pfc(Pfc::decode(value)?),
            (a::BUFFER, true) => Change::Buffer(Buffer::decode(value)?),
            (a::TRUST, true) => Change::Trust(table::selectors(attribute)?),
            (a::APP, true) => Change::AddApp(table::entries(attribute)?),
            (a::APP, false) => Change::DeleteApp(table::entries(attribute)?),
            (a::REWRITE, true) => Change::AddRewrite(table::entries(attribute)?),
            (a::REWRITE, false) => Change::DeleteRewrite(table::entries(attribute)?),
            _ => continue,
        });
    }
    let order = |change: &Change| match change {
        Change::Ets(_) => 0,
        Change::MaxRate(_) => 1,
        Change::Pfc(_) => 2,
        Change::Buffer(_) => 3,
        Change::AddApp(_) | Change::DeleteApp(_) => 4,
        Change::Trust(_) => 5,
        _ => 6,
    };
    changes.sort_by_key(order);
    Ok(changes)
}
