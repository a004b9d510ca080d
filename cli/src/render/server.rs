//! A server's hardware for people: its rails as a picture, what its NICs and GPUs are, what is odd, and what changed lately.

use std::{collections::BTreeMap, fmt::Write as _};

use proto_wire::v1::{self, gpu_facts::Distance, gpu_link::Peer};

use super::{Table, gpudirect, words};

/// Rails as lines from GPU to switch, by NUMA node:
///
/// ```text
/// NUMA 0
///   GPU 0  --PIX--  mlx5_0 ens1np0  ====  rail 0  ====  leaf-r0 Ethernet1/7  400 Gbit/s
/// ```
#[must_use]
pub fn picture(inventory: &v1::Inventory) -> String {
    let mut rows: Vec<(i32, Vec<String>)> = Vec::new();
    for nic in &inventory.nics {
        let near: Vec<&v1::Gpu> = inventory.gpus.iter().filter(|gpu| nearest(gpu) == nic.device).collect();
        let line = rail(nic, inventory);
        let numa = near.first().map_or(nic.numa_node, |gpu| gpu.numa_node);
        let first =
            near.first().map_or_else(|| [String::new(), String::new()], |gpu| [gpu_name(gpu), reach(gpu)]);
        rows.push((numa, first.into_iter().chain(line).collect()));
        for gpu in near.iter().skip(1) {
            rows.push((numa, vec![gpu_name(gpu), reach(gpu), "  (the same)".to_owned()]));
        }
    }
    let alone = |gpu: &&v1::Gpu| inventory.nics.iter().all(|nic| nic.device != nearest(gpu));
    for gpu in inventory.gpus.iter().filter(alone) {
        rows.push((gpu.numa_node, vec![gpu_name(gpu), "no NIC".to_owned()]));
    }
    rows.sort_by_key(|(numa, _)| *numa);
    let mut table = Table::bare();
    let mut by_node: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (at, (numa, cells)) in rows.into_iter().enumerate() {
        by_node.entry(numa).or_default().push(at);
        table.row(cells.into_iter().map(|cell| if cell.is_empty() { " ".to_owned() } else { cell }));
    }
    let text = table.render("    ");
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for (numa, at) in by_node {
        let name = if numa < 0 { "NUMA node not known".to_owned() } else { format!("NUMA {numa}") };
        let _ = writeln!(out, "  {name}");
        for line in at.into_iter().filter_map(|at| lines.get(at)) {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn nearest(gpu: &v1::Gpu) -> &str {
    gpu.facts.as_ref().map_or("", |facts| facts.nic.as_str())
}

fn gpu_name(gpu: &v1::Gpu) -> String {
    format!("GPU {}", gpu.index)
}

fn reach(gpu: &v1::Gpu) -> String {
    let distance = gpu.facts.as_ref().map_or(Distance::Unspecified, v1::GpuFacts::nic_distance);
    match distance {
        Distance::Unspecified => "-------".to_owned(),
        known => format!("--{}--", known.as_str_name()),
    }
}

/// From the NIC to the switch.
fn rail(nic: &v1::Nic, inventory: &v1::Inventory) -> [String; 6] {
    let heard: Vec<String> = inventory
        .neighbors
        .iter()
        .filter(|one| one.netdev == nic.netdev)
        .map(|one| format!("{} {}", one.switch, one.port))
        .collect();
    let name = match nic.netdev == nic.device {
        true => nic.device.clone(),
        false => format!("{} {}", nic.device, nic.netdev),
    };
    let switch = if heard.is_empty() { "(no switch heard)".to_owned() } else { heard.join(", ") };
    let cable = if nic.up { "====" } else { "-x x-" };
    let sick = inventory.health.iter().find(|one| one.device == nic.device);
    let sick =
        sick.map(|one| one.conditions.iter().map(|one| one.code.clone()).collect::<Vec<_>>().join(","));
    let state = match (nic.up, sick) {
        (false, _) => "DOWN".to_owned(),
        (true, None) => speed(nic.speed_mbps),
        (true, Some(codes)) => format!("{} {codes}", speed(nic.speed_mbps)),
    };
    [name, cable.to_owned(), format!("rail {}", nic.rail), cable.to_owned(), switch, state]
}

fn speed(mbps: u64) -> String {
    match mbps {
        0 => String::new(),
        mbps if mbps.is_multiple_of(1000) => format!("{} Gbit/s", mbps / 1000),
        mbps => format!("{mbps} Mbit/s"),
    }
}

/// What NICs and GPUs are, where their agent tells.
#[must_use]
pub fn hardware(inventory: &v1::Inventory) -> String {
    let mut out = String::new();
    let mut nics = Table::new([
        "NIC",
        "DRIVER",
        "FIRMWARE",
        "PORT",
        "PCI ID",
        "PCIE",
        "SLOT",
        "ROCE V2 GIDS",
        "RAIL BY",
    ]);
    let reported = inventory.nics.iter().filter_map(|nic| Some((nic, nic.facts.as_ref()?)));
    let mut some = false;
    for (nic, facts) in reported {
        some = true;
        let pci = facts.pci.clone().unwrap_or_default();
        nics.row([
            nic.device.clone(),
            facts.driver.clone(),
            facts.firmware.clone(),
            facts.port.as_ref().map(port).unwrap_or_default(),
            pci.id.clone(),
            link(&pci),
            pci.slot,
            gids(facts),
            facts.rail_reason.clone(),
        ]);
    }
    if some {
        let _ = write!(out, "\n{}", nics.render("  "));
    }
    let mut gpus = Table::new(["GPU", "DRIVER", "PCI ID", "PCIE", "NEAREST NIC", "MEMORY BY", "LINKS"]);
    let reported = inventory.gpus.iter().filter_map(|gpu| Some((gpu, gpu.facts.as_ref()?)));
    let mut some = false;
    for (gpu, facts) in reported {
        some = true;
        let pci = facts.pci.clone().unwrap_or_default();
        let near = match facts.nic_distance() {
            Distance::Unspecified => facts.nic.clone(),
            distance => format!("{} ({})", facts.nic, distance.as_str_name()),
        };
        gpus.row([
            gpu.index.to_string(),
            format!("{} {}", facts.driver, facts.driver_version).trim().to_owned(),
            pci.id.clone(),
            link(&pci),
            near,
            gpudirect::way(facts),
            links(facts),
        ]);
    }
    if some {
        let _ = write!(out, "\n{}", gpus.render("  "));
    }
    out.push_str(&gpudirect::causes(inventory));
    out
}

fn port(port: &v1::NicPort) -> String {
    let word = |text: &str| text.to_lowercase().replace('_', "-");
    let (state, physical) = (port.state(), port.physical());
    let state = match state {
        v1::nic_port::State::Unspecified => "unknown".to_owned(),
        known => word(known.as_str_name()),
    };
    match physical {
        v1::nic_port::Physical::Unspecified => format!("{} {state}", port.number),
        known => format!("{} {state}, {}", port.number, word(known.as_str_name())),
    }
}

fn link(pci: &v1::PciDevice) -> String {
    let speed = pci.speed.trim_end_matches(" PCIe");
    if pci.width == 0 { speed.to_owned() } else { format!("{speed} x{}", pci.width) }
}

/// Those that rails use, each with its index; how many there are besides.
fn gids(facts: &v1::NicFacts) -> String {
    let used =
        |gid: &&v1::Gid| gid.r#type() == v1::gid::Type::RoceV2 && !gid.gid.to_lowercase().starts_with("fe80");
    let shown: Vec<String> = facts
        .gids
        .iter()
        .filter(used)
        .map(|gid| format!("{} {}", gid.index, gid.gid.trim_start_matches("::ffff:")))
        .collect();
    match facts.gids.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{}, +{more} others", shown.join(", ")).trim_start_matches(", ").to_owned(),
    }
}

fn links(facts: &v1::GpuFacts) -> String {
    let one = |link: &v1::GpuLink| {
        let version = if link.version == 0 { String::new() } else { format!(" v{}", link.version) };
        match link.peer() {
            Peer::Gpu => format!("{}{version} to GPU {}", link.count, link.gpu),
            Peer::Switch => format!("{}{version} to switches", link.count),
            Peer::Unspecified => format!("{}{version} to others", link.count),
        }
    };
    facts.links.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What its agent found odd, and what changed lately.
#[must_use]
pub fn reported(inventory: &v1::Inventory, now: f64) -> String {
    let mut out = String::new();
    if !inventory.findings.is_empty() {
        let mut table = Table::new(["ODD", "WHAT", "WHY"]);
        for one in &inventory.findings {
            table.row([one.scope.clone(), one.code.clone(), one.message.clone()]);
        }
        let _ = write!(out, "\n{}", table.render("  "));
    }
    if !inventory.changes.is_empty() {
        let mut table = Table::new(["CHANGED", "AGO", "WHAT", "HOW"]);
        for one in inventory.changes.iter().rev() {
            let ago = words::age(one.since.as_ref(), None, now);
            table.row([one.scope.clone(), ago, one.code.clone(), one.message.clone()]);
        }
        let _ = write!(out, "\n{}", table.render("  "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(rail: u32, numa: i32, up: bool) -> v1::Nic {
        let gid = |index, gid: &str, kind: v1::gid::Type| v1::Gid {
            index,
            gid: gid.into(),
            r#type: kind.into(),
            netdev: String::new(),
        };
        let facts = v1::NicFacts {
            pci: Some(v1::PciDevice {
                id: "15b3:1021".into(),
                speed: "32.0 GT/s PCIe".into(),
                width: 16,
                ..Default::default()
            }),
            driver: "mlx5_core".into(),
            firmware: "28.43.2026".into(),
            port: Some(v1::NicPort {
                number: 1,
                state: if up { 4 } else { 1 },
                physical: if up { 5 } else { 3 },
            }),
            gids: vec![
                gid(1, "fe80::1", v1::gid::Type::RoceV2),
                gid(2, &format!("::ffff:10.{rail}.0.7"), v1::gid::Type::RoceV1),
                gid(3, &format!("::ffff:10.{rail}.0.7"), v1::gid::Type::RoceV2),
            ],
            rail_reason: "PCI order".into(),
        };
        v1::Nic {
            device: format!("mlx5_{rail}"),
            netdev: format!("ens{rail}np0"),
            rail,
            numa_node: numa,
            up,
            speed_mbps: if up { 400_000 } else { 0 },
            facts: Some(facts),
            ..Default::default()
        }
    }

    fn gpu(index: u32, numa: i32, nic: &str) -> v1::Gpu {
        let link = v1::GpuLink { peer: Peer::Switch.into(), gpu: 0, count: 18, version: 4 };
        let facts = v1::GpuFacts {
            driver: "nvidia".into(),
            driver_version: "550.90.07".into(),
            nic: nic.into(),
            nic_distance: if nic.is_empty() { 0 } else { Distance::Pix.into() },
            links: vec![link],
            ..Default::default()
        };
        v1::Gpu { index, numa_node: numa, facts: Some(facts), ..Default::default() }
    }

    fn server() -> v1::Inventory {
        let sick = v1::NicCondition { code: "Storm".into(), ..Default::default() };
        v1::Inventory {
            nics: vec![nic(0, 0, true), nic(1, 0, true), nic(2, 1, false)],
            gpus: vec![gpu(0, 0, "mlx5_0"), gpu(1, 0, "mlx5_0"), gpu(2, 1, "mlx5_2"), gpu(3, 1, "")],
            neighbors: vec![v1::Neighbor {
                netdev: "ens0np0".into(),
                switch: "leaf-r0".into(),
                port: "Ethernet1/7".into(),
            }],
            health: vec![v1::NicHealth {
                device: "mlx5_1".into(),
                conditions: vec![sick],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn a_server_is_a_picture_of_its_rails() {
        let expected = [
            "  NUMA 0",
            "    GPU 0  --PIX--  mlx5_0 ens0np0  ====   rail 0  ====   leaf-r0 Ethernet1/7  400 Gbit/s",
            "    GPU 1  --PIX--    (the same)",
            "                    mlx5_1 ens1np0  ====   rail 1  ====   (no switch heard)    400 Gbit/s Storm",
            "  NUMA 1",
            "    GPU 2  --PIX--  mlx5_2 ens2np0  -x x-  rail 2  -x x-  (no switch heard)    DOWN",
            "    GPU 3  no NIC",
        ];
        assert_eq!(picture(&server()).lines().collect::<Vec<_>>(), expected);
        assert_eq!(picture(&v1::Inventory::default()), "");
    }

    #[test]
    fn what_nics_and_gpus_are_is_a_table() {
        let text = hardware(&server());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2],
            "  mlx5_0  mlx5_core  28.43.2026  1 active, link-up  15b3:1021  32.0 GT/s x16  -     3 10.0.0.7, +2 others  PCI order"
        );
        assert!(text.contains("1 down, disabled"), "{text}");
        assert!(text.contains("nvidia 550.90.07") && text.contains("18 v4 to switches"), "{text}");
        let old = v1::Inventory { nics: vec![v1::Nic::default()], ..Default::default() };
        assert_eq!(hardware(&old), "", "an agent that does not tell");
    }

    #[test]
    fn what_is_odd_and_what_changed_is_told_the_last_first() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let change = |code: &str, since| v1::Reason {
            code: code.into(),
            message: "the link".into(),
            scope: "nic/mlx5_1".into(),
            since,
            ..Default::default()
        };
        let inventory = v1::Inventory {
            findings: vec![change("PcieDegraded", None)],
            changes: vec![change("NicDown", at(10)), change("NicUp", at(40))],
            ..Default::default()
        };
        let expected = "
  ODD         WHAT          WHY
  nic/mlx5_1  PcieDegraded  the link

  CHANGED     AGO  WHAT     HOW
  nic/mlx5_1  30s  NicUp    the link
  nic/mlx5_1  1m   NicDown  the link
";
        assert_eq!(reported(&inventory, 70.0), expected);
    }
}
