//! Ports as the kernel has them, below a folder (`/` on a switch).

use std::{fs, path::Path, str::FromStr};

use proto_wire::v1::SwitchPortStatus;

use super::PORTS_MAX;
use crate::text;

/// Ethernet, as `type` has it (`ARPHRD_ETHER`).
const ETHERNET: u32 = 1;
/// The schema's longest name.
const NAME_MAX: usize = 63;

/// Every Ethernet interface whose name begins so; bridges and bonds are none. What the kernel does not say is 0.
#[must_use]
pub fn ports(root: &Path, beginning: &str) -> Vec<SwitchPortStatus> {
    let folder = root.join("sys/class/net");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(beginning) && text::within(name, NAME_MAX) == *name)
        .filter(|name| is_port(&folder.join(name)))
        .collect();
    names.sort_by_cached_key(|name| natural(name));
    names.truncate(PORTS_MAX);
    names.iter().map(|name| port(&folder.join(name), name)).collect()
}

fn is_port(folder: &Path) -> bool {
    read::<u32>(folder, "type") == Some(ETHERNET)
        && !["bridge", "bonding"].iter().any(|other| folder.join(other).exists())
}

fn port(folder: &Path, name: &str) -> SwitchPortStatus {
    let count = |file: &str| read(folder, &format!("statistics/{file}")).unwrap_or(0);
    let up = match read::<String>(folder, "operstate").as_deref() {
        Some("up") => true,
        // Some drivers do not say.
        Some("unknown") => read::<u32>(folder, "carrier") == Some(1),
        _ => false,
    };
    SwitchPortStatus {
        name: name.to_owned(),
        up,
        // -1, or an error, where there is no link.
        speed_mbps: read::<i64>(folder, "speed").and_then(|speed| u64::try_from(speed).ok()).unwrap_or(0),
        mtu: read(folder, "mtu").unwrap_or(0),
        rx_bytes: count("rx_bytes"),
        tx_bytes: count("tx_bytes"),
        rx_errors: count("rx_errors"),
        tx_drops: count("tx_dropped"),
        link_changes: read(folder, "carrier_changes").unwrap_or(0),
        ..SwitchPortStatus::default()
    }
}

fn read<T: FromStr>(folder: &Path, file: &str) -> Option<T> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// For an order in which Ethernet8 comes before Ethernet16.
#[must_use]
pub fn natural(name: &str) -> (String, u64, String) {
    let letters = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(name.len());
    let (beginning, rest) = name.split_at(letters);
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    (beginning.to_owned(), rest[..digits].parse().unwrap_or(0), rest[digits..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_a_folder() {
        let room = tempfile::tempdir().unwrap();
        let write = |port: &str, file: &str, value: &str| {
            let path = room.path().join("sys/class/net").join(port).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        };
        for port in ["swp16", "swp8", "swp8s1", "br0", "lo", "eth0"] {
            write(port, "type", if port == "lo" { "772" } else { "1" });
            write(port, "operstate", "down");
        }
        write("br0", "bridge/bridge_id", "8000");
        for (file, value) in [
            ("operstate", "up"),
            ("speed", "400000"),
            ("mtu", "9216"),
            ("carrier_changes", "3"),
            ("statistics/rx_bytes", "18446744073709551615"),
            ("statistics/tx_bytes", "7"),
            ("statistics/rx_errors", "1"),
            ("statistics/tx_dropped", "2"),
        ] {
            write("swp8", file, value);
        }
        write("swp16", "speed", "-1");
        write("swp16", "operstate", "unknown");
        write("swp16", "carrier", "1");
        let all = ports(room.path(), "");
        let names: Vec<&str> = all.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["eth0", "swp8", "swp8s1", "swp16"]);
        assert_eq!(
            all[1],
            SwitchPortStatus {
                name: "swp8".into(),
                up: true,
                speed_mbps: 400_000,
                mtu: 9216,
                rx_bytes: u64::MAX,
                tx_bytes: 7,
                rx_errors: 1,
                tx_drops: 2,
                link_changes: 3,
                ..SwitchPortStatus::default()
            }
        );
        assert!(all[3].up && all[3].speed_mbps == 0 && !all[0].up);
        assert_eq!(ports(room.path(), "swp").len(), 3);
        assert!(ports(&room.path().join("no"), "").is_empty());
    }
}
