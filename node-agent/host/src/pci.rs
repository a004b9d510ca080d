//! PCI devices: where they are, how fast their links run (kernel `Documentation/ABI/testing/sysfs-bus-pci`).

use std::collections::BTreeMap;

use proto_model::PciDevice;

use crate::{
    finding::FindingKind,
    pass::DiscoveryPass,
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
pub fn device(pass: &mut DiscoveryPass<'_>, address: &str, slots: &Slots) -> PciDevice {
    if address.is_empty() {
        return PciDevice::default();
    }
    let base = format!("sys/bus/pci/devices/{address}");
    let hex = |text: String| text.trim_start_matches("0x").to_owned();
    let vendor = hex(pass.line(address, &format!("{base}/vendor")));
    let kind = hex(pass.line(address, &format!("{base}/device")));
    let path = pass.tree.device_path(&base).unwrap_or_default().join("/");
    let class = pass.line(address, &format!("{base}/class"));
    let which = link_attributes(pass.tree, &base, &class);
    PciDevice {
        id: if vendor.is_empty() { String::new() } else { format!("{vendor}:{kind}") },
        class,
        path: if path.len() <= 256 { path } else { String::new() },
        speed: pass.line(address, &format!("{base}/{which}_link_speed")),
        width: pass.number(address, &format!("{base}/{which}_link_width")).unwrap_or(0),
        slot: address.rsplit_once('.').and_then(|(slot, _)| slots.get(slot)).cloned().unwrap_or_default(),
    }
}

/// Which of sysfs's two pairs of attributes says what a device's link can carry: what it runs at now for a NIC, what it was built for
/// for all else. GPUs slow their links down while idle, and with them those of the bridges above; NCCL takes the latter too.
#[must_use]
pub fn link_attributes(tree: &Tree, base: &str, class: &str) -> &'static str {
    let nic = class.starts_with("0x02");
    if !nic && tree.at(&format!("{base}/max_link_speed")).exists() { "max" } else { "current" }
}

/// Whether the link of a NIC runs below what both of its ends were built for.
pub fn check_link(pass: &mut DiscoveryPass<'_>, subject: &str, now: &PciDevice) {
    let ends = now.path.rsplit('/').take(2).filter(|part| is_pci_address(part));
    let (mut best, mut lanes): (Option<(u64, String)>, Option<u32>) = (None, None);
    for end in ends {
        let base = format!("sys/bus/pci/devices/{end}");
        let speed = pass.line(subject, &format!("{base}/max_link_speed"));
        if let Some(fast) = rate(&speed) {
            best = Some(best.map_or_else(|| (fast, speed.clone()), |best| best.min((fast, speed.clone()))));
        }
        // 255 is what a device says that has fallen off the bus.
        let width =
            pass.number(subject, &format!("{base}/max_link_width")).filter(|width| (1..255).contains(width));
        lanes = lanes.into_iter().chain(width).min();
    }
    let (Some((fast, best)), Some(lanes)) = (best, lanes) else { return };
    let slower = rate(&now.speed).is_some_and(|now| now < fast);
    if slower || (now.width > 0 && now.width < lanes) {
        let text = format!(
            "its PCIe link runs at {} x{} and could at {best} x{lanes}; seat it anew, or look at its slot's settings",
            now.speed, now.width
        );
        pass.find(FindingKind::PcieDegraded, subject, text);
    }
}

/// `32.0 GT/s PCIe` in tenths of GT/s.
fn rate(speed: &str) -> Option<u64> {
    let rate: f64 = speed.split_whitespace().next()?.parse().ok()?;
    (0.0..1e4).contains(&rate).then_some((rate * 10.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot with eight lanes is no fault of the card in it.
    #[test]
    fn a_link_is_compared_with_what_both_ends_can() {
        let room = tempfile::tempdir().unwrap();
        let put = |address: &str, name: &str, text: &str| {
            let at = room.path().join("sys/bus/pci/devices").join(address);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join(name), text).unwrap();
        };
        let reported = |speed: &str, width| {
            let path = "pci0000:17/0000:17:01.0/0000:18:00.0".to_owned();
            let now = PciDevice { path, speed: speed.into(), width, ..PciDevice::default() };
            let mut findings = Vec::new();
            let tree = Tree::new(room.path());
            check_link(&mut DiscoveryPass { tree: &tree, findings: &mut findings }, "mlx5_0", &now);
            findings.into_iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        assert_eq!(reported("8.0 GT/s PCIe", 4), [], "nothing is known of either end");
        put("0000:18:00.0", "max_link_speed", "32.0 GT/s PCIe");
        put("0000:18:00.0", "max_link_width", "16");
        assert_eq!(reported("32.0 GT/s PCIe", 8), [FindingKind::PcieDegraded]);
        assert_eq!(reported("16.0 GT/s PCIe", 16), [FindingKind::PcieDegraded]);
        put("0000:17:01.0", "max_link_speed", "16.0 GT/s PCIe");
        put("0000:17:01.0", "max_link_width", "8");
        assert_eq!(reported("16.0 GT/s PCIe", 8), []);
        assert_eq!(reported("16.0 GT/s PCIe", 4), [FindingKind::PcieDegraded]);
        put("0000:18:00.0", "max_link_width", "255");
        assert_eq!(reported("16.0 GT/s PCIe", 8), []);
    }
}
