//! RDMA netlink (kernel `drivers/infiniband/core/nldev.c`, `include/uapi/rdma/rdma_netlink.h`): devices, ports, the network device
//! behind each port, hardware counters, and whether devices are shared by network namespaces. What the kernel does not give this way
//! is read from `/sys/class/infiniband`.

use crate::{
    ask::Session,
    error::NetlinkError,
    kernel::{Family, Files, Kernel},
    wire::{ACK, Builder, DUMP, Message, REQUEST, WireError},
};

/// `RDMA_NL_NLDEV`, in the upper bits of a message's type.
const CLIENT: u16 = 5 << 10;

/// `RDMA_NLDEV_CMD_*`, as message types.
pub(crate) mod kind {
    use super::CLIENT;

    pub(crate) const GET: u16 = CLIENT | 1;
    pub(crate) const PORT_GET: u16 = CLIENT | 5;
    pub(crate) const SYS_GET: u16 = CLIENT | 6;
    pub(crate) const STAT_GET: u16 = CLIENT | 17;
    /// A notice to all that listen; kernel 6.12 and later.
    pub(crate) const MONITOR: u16 = CLIENT | 28;
}

/// Attributes of RDMA netlink messages (`RDMA_NLDEV_ATTR_*` of the kernel's `rdma_netlink.h`).
pub(crate) mod attribute {
    pub(crate) const DEVICE_INDEX: u16 = 1;
    pub(crate) const DEVICE_NAME: u16 = 2;
    pub(crate) const PORT_INDEX: u16 = 3;
    pub(crate) const FIRMWARE: u16 = 5;
    pub(crate) const NODE_GUID: u16 = 6;
    pub(crate) const PORT_STATE: u16 = 12;
    pub(crate) const PHYSICAL_STATE: u16 = 13;
    pub(crate) const NETDEV_NAME: u16 = 51;
    pub(crate) const NAMESPACE_MODE: u16 = 66;
    pub(crate) const PROTOCOL: u16 = 67;
    pub(crate) const COUNTERS: u16 = 80;
    pub(crate) const COUNTER: u16 = 81;
    pub(crate) const COUNTER_NAME: u16 = 82;
    pub(crate) const COUNTER_VALUE: u16 = 83;
    pub(crate) const EVENT: u16 = 102;
}

/// Ports that a device has at most.
const PORTS_MOST: u32 = 255;

/// An RDMA device, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The kernel's number for it; `None` where the device was found by sysfs.
    pub index: Option<u32>,
    /// Name of the device, such as `mlx5_0`.
    pub name: String,
    /// Version of the device's firmware, where the kernel says it.
    pub firmware: Option<String>,
    /// GUID, in the machine's order.
    pub node_guid: Option<u64>,
    /// `roce`, `ib`, `iw`; kernel 5.4 and later.
    pub protocol: Option<String>,
    /// Ports of the device, ascending by number.
    pub ports: Vec<Port>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Port {
    /// Number of the port, counted from 1.
    pub number: u32,
    /// 1 down, 2 init, 3 armed, 4 active (`ib_port_state`).
    pub state: Option<u8>,
    /// 2 polling, 3 disabled, 5 link up (`ib_port_phys_state`).
    pub physical: Option<u8>,
    /// The network device behind it, as this network namespace sees it.
    pub netdev: Option<String>,
}

/// An event of an RDMA device, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The kernel's number for the device.
    pub device: u32,
    /// Which of its ports, where it is about one.
    pub port: Option<u32>,
    /// What happened to the device or port.
    pub what: Happened,
}

/// What can happen to an RDMA device (`enum rdma_nl_notify_event_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The device is there.
    Registered,
    /// The device is gone.
    Unregistered,
    /// A port has a network device.
    Attached,
    /// A port has lost its network device.
    Detached,
    /// The device has another name.
    Renamed,
    /// The network device has another name.
    NetdevRenamed,
    /// Something that this program does not know.
    Other(u8),
}

impl Notice {
    /// From a notice.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let (mut device, mut port, mut what) = (0, None, Happened::Other(u8::MAX));
        for attribute in message.attributes(0) {
            let attribute = attribute?;
            match attribute.kind {
                attribute::DEVICE_INDEX => device = attribute.u32("the device's index")?,
                attribute::PORT_INDEX => port = Some(attribute.u32("the port's number")?),
                attribute::EVENT => {
                    what = match attribute.u8("what happened")? {
                        0 => Happened::Registered,
                        1 => Happened::Unregistered,
                        2 => Happened::Attached,
                        3 => Happened::Detached,
                        4 => Happened::Renamed,
                        5 => Happened::NetdevRenamed,
                        other => Happened::Other(other),
                    }
                }
                _ => {}
            }
        }
        Ok(Self { device, port, what })
    }
}

/// Whether network namespaces share RDMA devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceMode {
    /// Each is in one namespace.
    Exclusive,
    /// Every namespace sees every device.
    Shared,
}

impl Device {
    /// From an answer; without its ports.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<(Self, u32), WireError> {
        let (mut found, mut ports) = (Self::default(), 0);
        for attribute in message.attributes(0) {
            let attribute = attribute?;
            match attribute.kind {
                attribute::DEVICE_INDEX => found.index = Some(attribute.u32("the device's index")?),
                attribute::DEVICE_NAME => found.name = attribute.text("the device's name")?.to_owned(),
                attribute::PORT_INDEX => ports = attribute.u32("the number of ports")?.min(PORTS_MOST),
                attribute::FIRMWARE => {
                    found.firmware = Some(attribute.text("the firmware's version")?.to_owned())
                }
                attribute::NODE_GUID => found.node_guid = Some(attribute.u64("the node's GUID")?),
                attribute::PROTOCOL => found.protocol = Some(attribute.text("the protocol")?.to_owned()),
                _ => {}
            }
        }
        Ok((found, ports))
    }
}

impl Port {
    /// From an answer.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let mut found = Self::default();
        for attribute in message.attributes(0) {
            let attribute = attribute?;
            match attribute.kind {
                attribute::PORT_INDEX => found.number = attribute.u32("the port's number")?,
                attribute::PORT_STATE => found.state = Some(attribute.u8("the port's state")?),
                attribute::PHYSICAL_STATE => {
                    found.physical = Some(attribute.u8("the port's physical state")?)
                }
                attribute::NETDEV_NAME => {
                    found.netdev = Some(attribute.text("the network device")?.to_owned())
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Counters of a port, in the driver's order.
///
/// # Errors
/// Bytes that no kernel sends.
pub fn decode_counters(message: Message<'_>) -> Result<Vec<(String, u64)>, WireError> {
    let mut counters = Vec::new();
    for attribute in message.attributes(0) {
        let attribute = attribute?;
        if attribute.kind != attribute::COUNTERS {
            continue;
        }
        for entry in attribute.nest() {
            let entry = entry?;
            let (mut name, mut value) = (None, None);
            for inside in entry.nest() {
                let inside = inside?;
                match inside.kind {
                    attribute::COUNTER_NAME => name = Some(inside.text("a counter's name")?.to_owned()),
                    attribute::COUNTER_VALUE => value = Some(inside.u64("a counter's value")?),
                    _ => {}
                }
            }
            counters.extend(name.zip(value).filter(|_| entry.kind == attribute::COUNTER));
        }
    }
    Ok(counters)
}

/// A socket for RDMA netlink, to ask for devices, ports and counters.
#[derive(Debug)]
pub struct Rdma {
    session: Session,
}

impl Rdma {
    /// Opens a socket.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` where the kernel's RDMA module is not loaded.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        Ok(Self { session: Session::open(kernel, Family::Rdma)? })
    }

    /// All devices that this network namespace sees, with their ports.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn devices(&mut self) -> Result<Vec<Device>, NetlinkError> {
        let what = "list the RDMA devices";
        let unreadable = |source| NetlinkError::Unreadable { what: what.to_owned(), source };
        let parts = self.session.list(what, &Builder::message(kind::GET, REQUEST | DUMP, &[]))?;
        let mut devices = Vec::new();
        for part in parts.iter().filter(|part| part.kind == kind::GET) {
            let (mut device, ports) = Device::decode(part.message()).map_err(unreadable)?;
            for number in 1..=ports {
                match self.port(device.index.unwrap_or(0), number) {
                    Ok(port) => device.ports.push(port),
                    // It went since the listing.
                    Err(error) if error.errno().is_some() => {}
                    Err(error) => return Err(error),
                }
            }
            devices.push(device);
        }
        Ok(devices)
    }

    fn about(
        &mut self,
        what: &str,
        kind: u16,
        device: u32,
        port: u32,
    ) -> Result<Vec<crate::ask::Part>, NetlinkError> {
        let request = Builder::message(kind, REQUEST | ACK, &[])
            .put(attribute::DEVICE_INDEX, &device.to_ne_bytes())
            .put(attribute::PORT_INDEX, &port.to_ne_bytes());
        self.session.ask(what, request)
    }

    fn port(&mut self, device: u32, number: u32) -> Result<Port, NetlinkError> {
        let what = format!("read port {number} of RDMA device {device}");
        let parts = self.about(&what, kind::PORT_GET, device, number)?;
        let port = parts.first().map(|part| Port::decode(part.message())).transpose();
        let port = port.map_err(|source| NetlinkError::Unreadable { what: what.clone(), source })?;
        port.ok_or(NetlinkError::Lacks { what, missing: "the port" })
    }

    /// Hardware counters of a port, those that are switched on. Kernel 5.3 and later.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn counters(&mut self, device: u32, port: u32) -> Result<Vec<(String, u64)>, NetlinkError> {
        let what = format!("read the counters of port {port} of RDMA device {device}");
        let parts = self.about(&what, kind::STAT_GET, device, port)?;
        let part = parts.first();
        let part = part.ok_or_else(|| NetlinkError::Lacks { what: what.clone(), missing: "the counters" })?;
        decode_counters(part.message()).map_err(|source| NetlinkError::Unreadable { what, source })
    }

    /// Whether network namespaces share devices.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn namespace_mode(&mut self) -> Result<NamespaceMode, NetlinkError> {
        let what = "read the RDMA namespace mode";
        let parts = self.session.ask(what, Builder::message(kind::SYS_GET, REQUEST | ACK, &[]))?;
        let found = parts.first().and_then(|part| {
            part.message().attributes(0).map_while(Result::ok).find(|a| a.kind == attribute::NAMESPACE_MODE)
        });
        match found.map(|attribute| attribute.u8("the mode")) {
            Some(Ok(0)) => Ok(NamespaceMode::Exclusive),
            Some(Ok(_)) => Ok(NamespaceMode::Shared),
            Some(Err(source)) => Err(NetlinkError::Unreadable { what: what.to_owned(), source }),
            None => Err(NetlinkError::Lacks { what: what.to_owned(), missing: "the mode" }),
        }
    }
}

/// All devices, by netlink, or from sysfs where the kernel has no RDMA netlink or it fails.
#[must_use]
pub fn devices(kernel: &dyn Kernel) -> Vec<Device> {
    Rdma::open(kernel).and_then(|mut rdma| rdma.devices()).unwrap_or_else(|_| from_sysfs(kernel.files()))
}

/// All devices, as sysfs lists them.
#[must_use]
pub fn from_sysfs(files: &dyn Files) -> Vec<Device> {
    let base = "sys/class/infiniband";
    let device = |name: String| {
        let of = |attribute: &str| files.text(&format!("{base}/{name}/{attribute}"));
        let guid = of("node_guid").and_then(|text| u64::from_str_radix(&text.replace(':', ""), 16).ok());
        let numbers = files.names(&format!("{base}/{name}/ports"));
        let mut ports: Vec<Port> = numbers
            .iter()
            .filter_map(|number| number.parse().ok())
            .map(|number| port_from_sysfs(files, &name, number))
            .collect();
        ports.sort_by_key(|port| port.number);
        let layer = of("ports/1/link_layer");
        let protocol = layer.and_then(|layer| match layer.as_str() {
            "Ethernet" => Some("roce".to_owned()),
            "InfiniBand" => Some("ib".to_owned()),
            _ => None,
        });
        Device { index: None, firmware: of("fw_ver"), node_guid: guid, protocol, ports, name }
    };
    files.names(base).into_iter().map(device).collect()
}

fn port_from_sysfs(files: &dyn Files, device: &str, number: u32) -> Port {
    let base = format!("sys/class/infiniband/{device}");
    // `4: ACTIVE`, `5: LinkUp`.
    let state = |name: &str| {
        let text = files.text(&format!("{base}/ports/{number}/{name}"))?;
        text.split(':').next()?.trim().parse().ok()
    };
    let beside = || files.names(&format!("{base}/device/net")).into_iter().next();
    // A software device (rxe) has no PCI device; its GIDs name the network device.
    let by_gid = crate::gid::table(files, device, number).into_iter().find_map(|gid| gid.netdev);
    Port { number, state: state("state"), physical: state("phys_state"), netdev: by_gid.or_else(beside) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_devices_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let message = Message { kind: kind::GET, flags: 0, sequence: 0, body: &body };
            let _ = (Device::decode(message), Port::decode(message), decode_counters(message));
            let _ = Notice::decode(message);
        }
    }

    #[test]
    fn sysfs_tells_the_same_where_netlink_does_not() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join("sys/class/infiniband/mlx5_0").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("fw_ver", "28.39.1002\n");
        put("node_guid", "b8ce:f603:00aa:bbcc\n");
        put("ports/1/state", "4: ACTIVE\n");
        put("ports/1/phys_state", "5: LinkUp\n");
        put("ports/1/link_layer", "Ethernet\n");
        put("device/net/eth0/x", "");
        let expected = Device {
            index: None,
            name: "mlx5_0".into(),
            firmware: Some("28.39.1002".into()),
            node_guid: Some(0xb8ce_f603_00aa_bbcc),
            protocol: Some("roce".into()),
            ports: vec![Port { number: 1, state: Some(4), physical: Some(5), netdev: Some("eth0".into()) }],
        };
        assert_eq!(from_sysfs(&crate::sysfs::Tree::new(root.path())), [expected]);
        assert_eq!(from_sysfs(&crate::sysfs::Tree::new("/nowhere")), []);
    }
}
