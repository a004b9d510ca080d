//! What the server hears over LLDP (IEEE 802.1AB): the frames that systemd-networkd keeps for each network device, and what lldpd says of
//! those of which networkd keeps none.

mod lldpd;

use std::collections::BTreeSet;

use proto_model::Neighbor;

pub use lldpd::neighbors;

use crate::{finding::FindingKind, pass::DiscoveryPass, sysfs::Tree};

/// Where systemd-networkd keeps them, a file per device, named by the device's number.
const FRAMES: &str = "run/systemd/netif/lldp";
/// The Ethernet type of LLDP.
const ETHERTYPE: [u8; 2] = [0x88, 0xcc];
/// Frames of one device at most; a cable has one other end.
const FRAMES_MAX: usize = 16;

/// Every neighbour of every network device that says its name and its port. `here`: this is the machine itself, on which lldpd can be
/// asked;
/// `needed`: rails are found by it, so that it is a finding where nobody listens.
pub fn discover(pass: &mut DiscoveryPass<'_>, here: bool, needed: bool) -> Vec<Neighbor> {
    const SUBJECT: &str = "lldp";
    let mut found = kept_frames(pass.tree);
    let mut listens = pass.tree.at(FRAMES).is_dir();
    let client = if here { lldpd::Client::find(pass.tree) } else { Ok(None) };
    match client.and_then(|client| client.map(|client| client.ask()).transpose()) {
        Ok(None) => {}
        Ok(Some(said)) => {
            listens = true;
            let known: BTreeSet<String> = found.iter().map(|one| one.netdev.clone()).collect();
            found.extend(said.into_iter().filter(|one| !known.contains(&one.netdev)));
        }
        Err(error) => {
            listens = true;
            pass.find(FindingKind::LldpFailed, SUBJECT, error.to_string());
        }
    }
    if needed && !listens {
        let text = "rails are found by switches, and nobody here listens to them; run lldpd, or set LLDP=yes in systemd-networkd";
        pass.find(FindingKind::LldpFailed, SUBJECT, text);
    }
    found.sort();
    found.dedup();
    found
}

/// The neighbours that systemd-networkd keeps as raw frames below `/run/systemd/netif/lldp`.
fn kept_frames(tree: &Tree) -> Vec<Neighbor> {
    let mut found = Vec::new();
    for netdev in tree.names("sys/class/net") {
        let Some(index) = tree.number::<u32>(&format!("sys/class/net/{netdev}/ifindex")) else { continue };
        let Some(bytes) = tree.bytes(&format!("{FRAMES}/{index}")) else { continue };
        let heard = frames(&bytes).take(FRAMES_MAX).filter_map(neighbor);
        found.extend(heard.map(|(switch, port)| Neighbor { netdev: netdev.clone(), switch, port }));
    }
    found
}

/// The frames of a file: each after its length in eight bytes, little end first.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (frame, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some(frame)
    })
}

/// A frame that says these two, as systemd-networkd keeps it; for recordings.
pub(crate) fn kept(switch: &str, port: &str) -> Vec<u8> {
    let tlv = |kind: u16, value: &[u8]| {
        let length = u16::try_from(value.len()).unwrap_or(0) & 0x1ff;
        [&(kind << 9 | length).to_be_bytes()[..], &value[..usize::from(length)]].concat()
    };
    // A port's identity by its interface name.
    let port = [&[5], port.as_bytes()].concat();
    let frame = [&[0; 12][..], &ETHERTYPE, &tlv(2, &port), &tlv(5, switch.as_bytes()), &tlv(0, &[])].concat();
    [&(frame.len() as u64).to_le_bytes()[..], &frame].concat()
}

/// The system's name and the port's of one Ethernet frame; `None` if it is no LLDP, broken, or does not say them.
#[must_use]
pub fn neighbor(frame: &[u8]) -> Option<(String, String)> {
    let mut rest = frame.get(12..)?.strip_prefix(&ETHERTYPE)?;
    let (mut switch, mut port, mut description) = (None, None, None);
    while let Some((head, after)) = rest.split_first_chunk::<2>() {
        let head = u16::from_be_bytes(*head);
        let (kind, length) = (head >> 9, usize::from(head & 0x1ff));
        let (value, after) = after.split_at_checked(length)?;
        match (kind, value.split_first()) {
            (0, _) => break,
            // A port's identity by its interface name (5) or as locally known (7); others are addresses.
            (2, Some((5 | 7, name))) => port = text(name),
            (4, _) => description = text(value),
            (5, _) => switch = text(value),
            _ => {}
        }
        rest = after;
    }
    Some((switch?, port.or(description)?))
}

/// Printable text of up to 128 bytes, as the wire takes it.
fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim_matches(['\0', ' ']);
    (!text.is_empty() && text.len() <= 128 && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
        let head = kind << 9 | u16::try_from(value.len()).unwrap();
        [&head.to_be_bytes()[..], value].concat()
    }

    fn frame(tlvs: &[Vec<u8>]) -> Vec<u8> {
        [&[1; 12][..], &ETHERTYPE, &tlvs.concat()].concat()
    }

    fn file(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().flat_map(|frame| [&(frame.len() as u64).to_le_bytes()[..], frame].concat()).collect()
    }

    #[test]
    fn frames_say_who_is_at_the_other_end() {
        let whole = frame(&[
            tlv(1, b"\x04\x01\x02\x03\x04\x05\x06"),
            tlv(2, b"\x05Ethernet1/1"),
            tlv(3, &[0, 120]),
            tlv(4, b"to gpu1"),
            tlv(5, b"leaf-1"),
            tlv(0, b""),
        ]);
        let by_mac =
            frame(&[tlv(2, b"\x03\x01\x02\x03\x04\x05\x06"), tlv(4, b"Ethernet1/2"), tlv(5, b"leaf-2")]);
        let nameless = frame(&[tlv(2, b"\x05Ethernet1/1"), tlv(0, b"")]);
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        put("sys/class/net/ens1/ifindex", b"7\n");
        put("sys/class/net/ens2/ifindex", b"8\n");
        put("sys/class/net/lo/ifindex", b"1\n");
        put(&format!("{FRAMES}/7"), &file(&[whole.clone(), nameless.clone()]));
        put(&format!("{FRAMES}/8"), &file(&[by_mac]));
        let (tree, mut findings) = (Tree::new(dir.path()), Vec::new());
        let found = discover(&mut DiscoveryPass { tree: &tree, findings: &mut findings }, false, true);
        let found: Vec<String> =
            found.iter().map(|one| format!("{} {} {}", one.netdev, one.switch, one.port)).collect();
        assert_eq!(found, ["ens1 leaf-1 Ethernet1/1", "ens2 leaf-2 Ethernet1/2"]);
        assert_eq!(findings, []);

        assert_eq!(neighbor(&nameless), None);
        for cut in 0..whole.len() {
            let _ = neighbor(&whole[..cut]);
            assert!(
                frames(&file(std::slice::from_ref(&whole))[..cut]).all(|frame| frame.len() < whole.len())
            );
        }
    }

    #[test]
    fn that_nobody_listens_is_told_where_rails_hang_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::new(dir.path());
        let findings = |needed| {
            let mut findings = Vec::new();
            assert_eq!(
                discover(&mut DiscoveryPass { tree: &tree, findings: &mut findings }, false, needed),
                []
            );
            findings
        };
        assert_eq!(findings(false), []);
        assert!(findings(true)[0].message.contains("run lldpd"), "{:?}", findings(true));
    }
}
