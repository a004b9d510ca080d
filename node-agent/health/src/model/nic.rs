//! One NIC: true counters, and what a reader sees of them.

use std::sync::Arc;

use proto_random::Random;

use crate::{
    layout::{Layout, PRIORITIES},
    sample::PortKey,
    vendor::{Source, Vendor},
};

/// A device that has every counter that its vendor's table knows.
#[must_use]
pub fn full_layout(vendor: Vendor) -> Layout {
    let mut names: Vec<(Source, String)> = Vec::new();
    for row in vendor.rows() {
        // The preferred name only: a device has one of them.
        for name in row.names.iter().take(1) {
            let each = if name.contains("{p}") { 0..PRIORITIES as u8 } else { 0..1 };
            names.extend(each.map(|p| (row.source, name.replace("{p}", &p.to_string()))));
        }
    }
    Layout::new(vendor, names.iter().map(|(source, name)| (*source, name.as_str())))
}

/// Where counters are that the model moves.
#[derive(Debug, Clone)]
pub struct Places {
    pub tx: [Option<usize>; PRIORITIES],
    pub rx: [Option<usize>; PRIORITIES],
    pub pause_rx: Vec<usize>,
    pub pause_tx: Vec<usize>,
    layout: Arc<Layout>,
}

impl Places {
    pub fn new(layout: &Arc<Layout>) -> Self {
        Self {
            tx: layout.tx().by_priority,
            rx: layout.rx().by_priority,
            pause_rx: layout.pause_rx().to_vec(),
            pause_tx: layout.pause_tx().to_vec(),
            layout: layout.clone(),
        }
    }

    /// The counter that has one of these names.
    pub fn named(&self, names: &[&str]) -> Option<usize> {
        self.layout.columns().iter().position(|column| names.contains(&column.name.as_str()))
    }
}

/// One NIC of the modelled server, with its counters.
#[derive(Debug, Clone)]
pub struct Nic {
    pub key: PortKey,
    pub device: String,
    pub rail: u32,
    pub life: u64,
    pub link: bool,
    /// Not on its bus until then.
    pub absent_until: u64,
    /// When the link comes up again.
    pub down_until: u64,
    /// When it was down or absent last.
    pub away_at: u64,
    pub counts: Vec<u64>,
    pub values: Vec<Option<u64>>,
}

impl Nic {
    pub fn new(rail: u32, layout: &Layout, random: &mut Random) -> Self {
        let key = PortKey {
            pci_address: format!("0000:{:02x}:00.0", 0x18 + rail * 0x10),
            guid: format!("b83f:d203:00{rail:02x}:0000"),
            port: 1,
        };
        // Some counters are about to wrap.
        let counts = layout.columns().iter().map(|column| match column.row.bits {
            32 => random.within(0, u64::from(u32::MAX)),
            _ => random.within(0, 1 << 50),
        });
        Self {
            key,
            device: format!("mlx5_{rail}"),
            rail,
            life: 1,
            link: true,
            absent_until: 0,
            down_until: 0,
            away_at: 0,
            counts: counts.collect(),
            values: Vec::new(),
        }
    }

    /// Adds to a counter; nothing where the NIC does not have it.
    pub fn add(&mut self, place: Option<usize>, by: u64) {
        if let Some(count) = place.and_then(|place| self.counts.get_mut(place)) {
            *count = count.wrapping_add(by);
        }
    }

    /// All counters begin at 0.
    pub fn clear(&mut self) {
        self.counts.iter_mut().for_each(|count| *count = 0);
    }

    /// What a reader sees now, in `values`.
    pub fn read(&mut self, layout: &Layout) {
        self.values.clear();
        let each = layout.columns().iter().zip(&self.counts);
        self.values.extend(each.map(|(column, count)| {
            let raw = count / u64::from(column.row.scale);
            Some(if column.row.bits == 32 { raw & 0xffff_ffff } else { raw })
        }));
    }
}
