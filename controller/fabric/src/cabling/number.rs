//! Names as numbers: a list of a million cables compares names far more often than it has different ones.

use std::collections::BTreeMap;

use super::work::{At, Entry};

/// Numbers the names of all entries.
pub(super) fn number(entries: &mut [Entry]) {
    let node = ranks(entries, |entry| entry.node.as_str());
    let nic = ranks(entries, |entry| &entry.nic);
    let leaf = ranks(entries, |entry| &entry.leaf);
    let port = ranks(entries, |entry| &entry.port);
    let all = node.into_iter().zip(nic).zip(leaf).zip(port);
    for (entry, (((node, nic), leaf), port)) in entries.iter_mut().zip(all) {
        entry.at = At { node, nic, leaf, port };
    }
}

/// Of each entry the place of its name among the sorted names.
fn ranks<'a>(entries: &'a [Entry], name: impl Fn(&'a Entry) -> &'a str) -> Vec<u32> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ranks: Vec<u32> = Vec::with_capacity(entries.len());
    let mut last: Option<(&str, u32)> = None;
    for entry in entries {
        let name = name(entry);
        let number = match last {
            // Many names follow themselves.
            Some((same, number)) if same == name => number,
            _ => {
                let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                *known.entry(name).or_insert(next)
            }
        };
        last = Some((name, number));
        ranks.push(number);
    }
    let mut places = vec![0; known.len()];
    for (place, number) in (0..).zip(known.into_values()) {
        places[number as usize] = place;
    }
    ranks.iter_mut().for_each(|rank| *rank = places[*rank as usize]);
    ranks
}

/// Entries by the number of one of their names, in the order of the names; numbers of entries that were left out have none.
pub(super) fn grouped(entries: &[Entry], number: impl Fn(At) -> u32) -> Vec<Vec<&Entry>> {
    let count = entries.iter().map(|entry| number(entry.at) as usize + 1).max().unwrap_or(0);
    let mut groups: Vec<Vec<&Entry>> = vec![Vec::new(); count];
    for entry in entries {
        groups[number(entry.at) as usize].push(entry);
    }
    groups
}

/// The first entry of each leaf, by the leaf's number.
pub(super) fn leaves(entries: &[Entry]) -> BTreeMap<u32, &Entry> {
    let mut found = BTreeMap::new();
    let mut last = None;
    for entry in entries {
        // Lists mostly go leaf by leaf.
        if last.replace(entry.at.leaf) != Some(entry.at.leaf) {
            found.entry(entry.at.leaf).or_insert(entry);
        }
    }
    found
}

/// What is known of each leaf by its name, by the leaf's number.
pub(super) fn by_leaf<'a, T>(entries: &[Entry], known: impl Fn(&str) -> Option<T> + 'a) -> Vec<Option<T>> {
    let leaves = leaves(entries);
    let count = leaves.keys().next_back().map_or(0, |last| *last as usize + 1);
    let mut found: Vec<Option<T>> = (0..count).map(|_| None).collect();
    for (at, entry) in leaves {
        found[at as usize] = known(&entry.leaf);
    }
    found
}

/// Entries in the order of a key, of equal ones in the order that they have.
pub(super) fn sorted<'a, K: Ord>(
    entries: impl IntoIterator<Item = &'a Entry>,
    key: impl Fn(&Entry) -> K,
) -> Vec<(K, &'a Entry)> {
    let mut list: Vec<(K, &Entry)> = entries.into_iter().map(|entry| (key(entry), entry)).collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(line: usize, (node, nic, leaf, port): (String, String, String, String)) -> Entry {
        let node = node.parse().unwrap();
        Entry { line, node, nic, leaf, port, speed: 0, rail: None, pod: None, plane: 0, at: At::default() }
    }

    proptest! {
        #[test]
        fn numbers_are_in_the_order_of_names(
            rows in prop::collection::vec(("[a-c]{1,3}", "[a-c]{1,2}", "[A-Ca-c]{0,3}", "[0-9/]{0,3}"), 0..40)
        ) {
            let mut entries: Vec<Entry> = rows.into_iter().enumerate().map(|(line, row)| entry(line, row)).collect();
            number(&mut entries);
            for a in &entries {
                for b in &entries {
                    prop_assert_eq!(a.node.cmp(&b.node), a.at.node.cmp(&b.at.node));
                    prop_assert_eq!(a.nic.cmp(&b.nic), a.at.nic.cmp(&b.at.nic));
                    prop_assert_eq!(a.leaf.cmp(&b.leaf), a.at.leaf.cmp(&b.at.leaf));
                    prop_assert_eq!(a.port.cmp(&b.port), a.at.port.cmp(&b.at.port));
                }
            }
            let groups = grouped(&entries, |at| at.leaf);
            prop_assert!(groups.iter().all(|own| own.windows(2).all(|two| two[0].line < two[1].line)));
            prop_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), entries.len());
            let named = by_leaf(&entries, |leaf| Some(leaf.to_owned()));
            prop_assert!(entries.iter().all(|one| named[one.at.leaf as usize].as_ref() == Some(&one.leaf)));
        }
    }
}
