//! PCI devices: where they are, how fast their links run (kernel `Documentation/ABI/testing/sysfs-bus-pci`).

use std::collections::BTreeMap;

use proto_model::PciDevice;

use crate::{
    finding::FindingKind,
    look::Look,
    sysfs::{Tree, is_pci_address},
};

/// Physical slots by the address of what is in them, without the function (`0000:18:00`).
pub type Slots = BTreeMap<String, String>;

/// The slots that the firmware names (`/sys/bus/pci/slots`).
#[must_use]
pub fn slots(tree: &Tree) -> Slots {
    let names = tree.names("sys/bus/pci/slots").into_iter();
    let named = names.filter(|name| name.len() <= 32 && !name.chars().any(char::is_control));
    named.filter_map(|name| Some((tree.text(&format!("sys/bus/pci/slots/{name}/address"))?, name))).collect()
}

/// The address of the PCI device that a link such as `sys/class/net/X/device` leads to; empty where there is none.
#[must_use]
pub fn address(tree: &Tree, link: &str) -> String {
    let path = tree.device_path(link).unwrap_or_default();
    path.into_iter().rev().find(|part| is_pci_address(part)).unwrap_or_default()
}

/// What sysfs says of the device at `address`.
pub fn device(look: &mut Look<'_>, address: &str, slots: &Slots) -> PciDevice {
    if address.is_empty() {
        return PciDevice::default();
    }
    let base = format!("sys/bus/pci/devices/{address}");
    let hex = |text: String| text.trim_start_matches("0x").to_owned();
    let vendor = hex(look.line(address, &format!("{base}/vendor")));
    let kind = hex(look.line(address, &format!("{base}/device")));
    let path = look.tree.device_path(&base).unwrap_or_default().join("/");
    PciDevice {
        id: if vendor.is_empty() { String::new() } else { format!("{vendor}:{kind}") },
        class: look.line(address, &format!("{base}/class")),
        path: if path.len() <= 256 { path } else { String::new() },
        speed: look.line(address, &format!("{base}/current_link_speed")),
        width: look.number(address, &format!("{base}/current_link_width")).unwrap_or(0),
        slot: address.rsplit_once('.').and_then(|(slot, _)| slots.get(slot)).cloned().unwrap_or_default(),
    }
}

/// Whether the link of a device runs below what it was built for. Not for GPUs: they slow their links down while idle.
pub fn check_link(look: &mut Look<'_>, subject: &str, address: &str, now: &PciDevice) {
    let base = format!("sys/bus/pci/devices/{address}");
    let best = look.line(subject, &format!("{base}/max_link_speed"));
    let lanes: u32 = look.number(subject, &format!("{base}/max_link_width")).unwrap_or(0);
    let slower = matches!((rate(&now.speed), rate(&best)), (Some(now), Some(best)) if now < best);
    // 255 is what a device says that has fallen off the bus.
    let narrower = now.width > 0 && now.width < lanes && lanes < 255;
    if slower || narrower {
        let text = format!(
            "its PCIe link runs at {} x{} and could at {best} x{lanes}; seat it anew, or look at its slot's settings",
            now.speed, now.width
        );
        look.find(FindingKind::PcieDegraded, subject, text);
    }
}

/// `32.0 GT/s PCIe` in tenths of GT/s.
fn rate(speed: &str) -> Option<u64> {
    let rate: f64 = speed.split_whitespace().next()?.parse().ok()?;
    (0.0..1e4).contains(&rate).then_some((rate * 10.0) as u64)
}
