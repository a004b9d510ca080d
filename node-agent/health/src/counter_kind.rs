//! The vocabulary: what a counter of any vendor says.

use std::fmt;

/// What a counter counts. A value that a device does not have is missing, which is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterKind {
    /// Packets lost on the way out: a NAK for a sequence gap, or a retransmission, at the requester.
    LossOut,
    /// Packets lost on the way back: replies that had to be implied, requests that came twice.
    LossBack,
    /// A requester's timer ran out: loss, or a dead path.
    Timeout,
    /// A queue pair gave up: its job has failed.
    DeadQp,
    /// A responder saw a gap of sequence numbers: loss, or reordering where routes are adaptive.
    Reorder,
    /// Packets that came with the mark of congestion (CE).
    EcnSeen,
    /// Congestion notification packets (CNPs) that the NIC sent.
    CnpSent,
    /// Congestion notifications received and obeyed.
    CnpGot,
    /// Congestion notifications received and ignored: rate control is off on that priority.
    CnpIgnored,
    /// Microseconds that the network made this host pause.
    PauseRxUs,
    /// Microseconds that this host made the network pause.
    PauseTxUs,
    /// The host's own side of the NIC (PCIe, memory) held it up.
    HostStall,
    /// Packets dropped on their way in.
    RxDrop,
    /// Packets dropped on their way out.
    TxDrop,
    /// Bits or frames that came damaged.
    Corrupt,
    /// Changes of the link or its carrier.
    Flap,
    /// A receiver was not ready: software that posts too slowly.
    Rnr,
    /// Faults of an application (access, length, operation): never the fabric's.
    AppFault,
    /// Bytes that the port sent.
    TxBytes,
    /// Bytes that the port received.
    RxBytes,
}

impl CounterKind {
    /// All counter kinds, in the order of their numbers.
    pub const ALL: [Self; 20] = [
        Self::LossOut,
        Self::LossBack,
        Self::Timeout,
        Self::DeadQp,
        Self::Reorder,
        Self::EcnSeen,
        Self::CnpSent,
        Self::CnpGot,
        Self::CnpIgnored,
        Self::PauseRxUs,
        Self::PauseTxUs,
        Self::HostStall,
        Self::RxDrop,
        Self::TxDrop,
        Self::Corrupt,
        Self::Flap,
        Self::Rnr,
        Self::AppFault,
        Self::TxBytes,
        Self::RxBytes,
    ];
    /// Number of counter kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// As metrics and people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LossOut => "loss_out",
            Self::LossBack => "loss_back",
            Self::Timeout => "timeout",
            Self::DeadQp => "dead_qp",
            Self::Reorder => "reorder",
            Self::EcnSeen => "ecn_seen",
            Self::CnpSent => "cnp_sent",
            Self::CnpGot => "cnp_got",
            Self::CnpIgnored => "cnp_ignored",
            Self::PauseRxUs => "pause_rx_us",
            Self::PauseTxUs => "pause_tx_us",
            Self::HostStall => "host_stall",
            Self::RxDrop => "rx_drop",
            Self::TxDrop => "tx_drop",
            Self::Corrupt => "corrupt",
            Self::Flap => "flap",
            Self::Rnr => "rnr",
            Self::AppFault => "app_fault",
            Self::TxBytes => "tx_bytes",
            Self::RxBytes => "rx_bytes",
        }
    }

    /// Its place in [`CounterKind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for CounterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number for each word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerWord<T>([T; CounterKind::COUNT]);

impl<T: Copy + Default> Default for PerWord<T> {
    fn default() -> Self {
        Self([T::default(); CounterKind::COUNT])
    }
}

impl<T> std::ops::Index<CounterKind> for PerWord<T> {
    type Output = T;
    fn index(&self, word: CounterKind) -> &T {
        &self.0[word.index()]
    }
}

impl<T> std::ops::IndexMut<CounterKind> for PerWord<T> {
    fn index_mut(&mut self, word: CounterKind) -> &mut T {
        &mut self.0[word.index()]
    }
}
