//! Cabling lists: one row per cable, as a site's records have them, made into a fabric document.
//!
//! A list names at least the server, its NIC, the leaf and the leaf's port. Which leaves make a pod and which a rail is
//! taken from columns of those names, or else from the list itself: leaves that share their servers are a pod, leaves
//! that share the names of NICs a rail. A leaf to which most of its servers have several NICs serves several rails: those
//! of the column, or else the NICs of a server are numbered in the order of their names. What the list does not say, or says in two ways, is a fault with its row; such
//! a row is left out, or kept without what is doubtful, and the fault says which.

mod classes;
mod number;
mod odd;
mod place;
mod rails;
mod rows;
mod work;

use proto_model::{Fabric, Leaf, Link, Rail};

use crate::{
    Finding, Table, TableError,
    cabling::work::{Entry, Pods, Rails, Work},
    gather, natural,
};

pub use work::lines;

/// What a list became. `rows == links + left_out`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// The document; free of faults by itself, its cables in groups.
    pub fabric: Fabric,
    /// Rows of the list, its header and blank lines apart.
    pub rows: usize,
    /// Blank lines of the list, which mean nothing.
    pub blank: usize,
    /// Cables of the document.
    pub links: usize,
    /// Rows that are not in the document.
    pub left_out: usize,
    /// What is wrong in the list, by line.
    pub faults: Vec<Finding>,
    /// What is odd, or was settled: nothing need be done.
    pub notes: Vec<Finding>,
}

/// Makes a document of a list.
///
/// # Errors
/// [`TableError`] where the text is not a table, or lacks a column without which no row means anything.
pub fn import(text: &[u8], name: &str) -> Result<Imported, TableError> {
    let table = Table::read(text)?;
    let mut work = Work::default();
    rows::read(&table, &mut work)?;
    let (rows, blank) = (table.rows.len(), table.blank);
    drop(table);
    number::number(&mut work.entries);
    rows::twice(&mut work);
    let pods = place::pods(&mut work);
    let rails = rails::rails(&mut work, &pods);
    rails::one_nic_per_rail(&mut work);
    odd::ports(&mut work);
    odd::servers(&mut work);
    let links = work.entries.len();
    let fabric = document(name, work.entries, &pods, &rails);
    work.faults.sort();
    work.notes.sort();
    Ok(Imported {
        fabric: gather(fabric),
        rows,
        blank,
        links,
        left_out: rows - links,
        faults: work.faults,
        notes: work.notes,
    })
}

fn document(name: &str, entries: Vec<Entry>, pods: &Pods, rails: &Rails) -> Fabric {
    let mut leaves: Vec<Leaf> = number::leaves(&entries)
        .into_values()
        .map(|entry| {
            let leaf = &entry.leaf;
            let (own, plane) = rails.get(leaf).cloned().unwrap_or_default();
            let (rail, more_rails) = own.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
            let (name, pod) = (leaf.clone(), pods.get(leaf).cloned().unwrap_or_default());
            Leaf { name, rail, more_rails: more_rails.to_vec(), pod, plane, down: false }
        })
        .collect();
    leaves.sort_by(|a, b| {
        let key = |leaf: &Leaf| (leaf.rail, leaf.plane);
        natural::compare(&a.pod, &b.pod)
            .then(key(a).cmp(&key(b)))
            .then_with(|| natural::compare(&a.name, &b.name))
    });
    let count = leaves.iter().flat_map(Leaf::rails).map(|rail| rail + 1).max().unwrap_or(0);
    let several = number::by_leaf(&entries, |leaf| rails.get(leaf).map(|(rails, _)| rails.len() > 1));
    let links = entries.into_iter().map(|entry| Link {
        rail: entry.rail.filter(|_| several[entry.at.leaf as usize] == Some(true)),
        node: entry.node,
        nic: entry.nic,
        leaf: entry.leaf,
        port: entry.port,
        speed_mbps: entry.speed,
        down: false,
    });
    Fabric {
        name: name.to_owned(),
        rails: (0..count).map(|index| Rail { index, name: format!("rail{index}") }).collect(),
        leaves,
        links: links.collect(),
        ..Fabric::default()
    }
}
