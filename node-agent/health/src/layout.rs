//! Which of a device's counters are read, in which order, and what each of them says.

use crate::{
    counter_kind::CounterKind,
    vendor::{Row, Source, Vendor},
};

/// The number of priorities of Ethernet.
pub const PRIORITIES: usize = 8;
/// A device has not more counters that mean anything here.
pub const COLUMNS_MAX: usize = 512;

/// One counter of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As the device names it.
    pub name: String,
    /// The row that it comes from.
    pub row: &'static Row,
    /// Of which priority, where the counter is of one.
    pub priority: Option<u8>,
}

impl Column {
    /// The counter kind that the column counts.
    #[must_use]
    pub fn word(&self) -> CounterKind {
        self.row.word
    }

    /// Whether both count the same thing of a device, whatever they are called.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.row, other.row) && self.priority == other.priority
    }
}

/// All counters of one device that are read: a sample has a value for each, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    vendor: Vendor,
    columns: Vec<Column>,
    tx: Priorities,
    rx: Priorities,
    pause_rx: Vec<usize>,
    pause_tx: Vec<usize>,
}

/// Where the bytes of one direction are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Priorities {
    /// Place of the counter of each priority; `None` where there is none.
    pub by_priority: [Option<usize>; PRIORITIES],
    /// Of all priorities, by the device's own count.
    pub total: Option<usize>,
    /// What the network stack has sent or received: without RDMA, on most devices.
    pub stack: Option<usize>,
}

impl Priorities {
    /// Whether each priority is counted.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.by_priority.iter().all(Option::is_some)
    }
}

impl Layout {
    /// What a device with these counters has. Of several names of one counter the preferred one is taken; what no row
    /// knows is left out.
    pub fn new<'a>(vendor: Vendor, names: impl IntoIterator<Item = (Source, &'a str)>) -> Self {
        let names: std::collections::BTreeSet<(Source, &str)> = names.into_iter().collect();
        let mut columns: Vec<Column> = Vec::new();
        for row in vendor.rows() {
            let each: &[Option<u8>] = if row.names.iter().any(|name| name.contains("{p}")) {
                &[Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7)]
            } else {
                &[None]
            };
            for &priority in each {
                let found = row.names.iter().map(|name| spelled(name, priority));
                let found = found.into_iter().find(|name| names.contains(&(row.source, name.as_str())));
                // A vendor's own row stands before the common one of the same name.
                let taken =
                    |name: &String| columns.iter().any(|c| c.row.source == row.source && c.name == *name);
                if let Some(name) = found.filter(|name| !taken(name) && columns.len() < COLUMNS_MAX) {
                    columns.push(Column { name, row, priority });
                }
            }
        }
        Self::of_columns(vendor, columns)
    }

    /// The same counters in another order: those with a lower key first.
    #[must_use]
    pub fn sorted_by_key<K: Ord>(mut self, key: impl Fn(&Column) -> K) -> Self {
        self.columns.sort_by_key(key);
        Self::of_columns(self.vendor, self.columns)
    }

    fn of_columns(vendor: Vendor, columns: Vec<Column>) -> Self {
        let (tx, rx) =
            (priorities(&columns, CounterKind::TxBytes), priorities(&columns, CounterKind::RxBytes));
        let of = |word| places(&columns, word).collect();
        let (pause_rx, pause_tx) = (of(CounterKind::PauseRxUs), of(CounterKind::PauseTxUs));
        Self { vendor, columns, tx, rx, pause_rx, pause_tx }
    }

    /// The vendor whose driver the device has.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// All counters, in the order of a sample's values.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Where the bytes that it sends are counted.
    #[must_use]
    pub fn tx(&self) -> &Priorities {
        &self.tx
    }

    /// Where the bytes that it receives are counted.
    #[must_use]
    pub fn rx(&self) -> &Priorities {
        &self.rx
    }

    /// Where it counts how long the network made it pause.
    #[must_use]
    pub fn pause_rx(&self) -> &[usize] {
        &self.pause_rx
    }

    /// Where it counts how long it made the network pause.
    #[must_use]
    pub fn pause_tx(&self) -> &[usize] {
        &self.pause_tx
    }

    /// Where all that says `word` is.
    pub fn places(&self, word: CounterKind) -> impl Iterator<Item = usize> {
        places(&self.columns, word)
    }
}

fn places(columns: &[Column], word: CounterKind) -> impl Iterator<Item = usize> {
    columns.iter().enumerate().filter(move |(_, column)| column.word() == word).map(|(at, _)| at)
}

fn priorities(columns: &[Column], word: CounterKind) -> Priorities {
    let mut priorities = Priorities::default();
    for at in places(columns, word) {
        match columns[at].priority {
            Some(priority) => priorities.by_priority[usize::from(priority)] = Some(at),
            None if columns[at].row.source == Source::Netdev => priorities.stack = Some(at),
            None => priorities.total = Some(at),
        }
    }
    priorities
}

/// A row's name for one priority.
pub(crate) fn spelled(name: &str, priority: Option<u8>) -> String {
    match priority {
        Some(priority) => name.replace("{p}", &priority.to_string()),
        None => name.to_owned(),
    }
}
