//! Text and numbers of sysfs files; the tree that it is read from is [`Tree`].

pub use node_agent_netlink::Tree;

/// True for `dddd:bb:dd.f`, the form of a PCI address in sysfs.
#[must_use]
pub fn is_pci_address(text: &str) -> bool {
    let shape = "hhhh:hh:hh.h".as_bytes();
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, kind)| match kind {
            b'h' => byte.is_ascii_hexdigit(),
            other => byte == *other,
        })
}

/// A NUMA number as sysfs writes it: -1 means not known.
pub(crate) fn numa(tree: &Tree, path: &str) -> Option<u32> {
    tree.number::<i64>(path).and_then(|number| u32::try_from(number).ok())
}

/// How many are in a list such as `0-3,8`.
pub(crate) fn list_len(text: &str) -> u32 {
    let range = |part: &str| -> Option<u32> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        high.checked_sub(low)?.checked_add(1)
    };
    text.split(',').filter_map(range).fold(0, u32::saturating_add)
}
