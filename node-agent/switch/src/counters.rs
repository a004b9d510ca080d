//! What ports are like and what they count: from the kernel, from SONiC's database, and who is at the other end.

pub mod lldp;
pub mod sonic;
pub mod sysfs;

use proto_wire::v1::SwitchPortStatus;

/// Most ports of a report.
pub const PORTS_MAX: usize = 1024;

/// Says of ports what others have found of them, by name.
pub fn add<T>(
    ports: &mut [SwitchPortStatus],
    found: &std::collections::BTreeMap<String, T>,
    add: impl Fn(&mut SwitchPortStatus, &T),
) {
    for port in ports {
        if let Some(of_port) = found.get(&port.name) {
            add(port, of_port);
        }
    }
}
