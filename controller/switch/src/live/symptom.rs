//! What is wrong by the counters of ports.

use proto_model::ReasonCode;
use thiserror::Error;

/// What the counters of a port, or of several together, show.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Symptom {
    /// A server's NIC pauses its port without end, and others stand still for it.
    #[error(
        "{server} ({nic}) pauses this port without end, for {seconds} s by now; {stopped} ports of the fabric stand still for it"
    )]
    Storm {
        /// The server.
        server: String,
        /// Its NIC.
        nic: String,
        /// Since when.
        seconds: u64,
        /// Ports that stand still, this one included.
        stopped: usize,
    },
    /// A switch pauses others, and nothing pauses it.
    #[error(
        "it pauses {port} without end, and nothing pauses it; {stopped} ports of the fabric stand still for it"
    )]
    SwitchStorm {
        /// A port that it pauses.
        port: String,
        /// Ports that stand still.
        stopped: usize,
    },
    /// Ports that wait for each other.
    #[error("these ports wait for each other: {ports}")]
    Deadlock {
        /// The ports, in their order.
        ports: String,
    },
    /// What stops others is beyond a switch that is not read.
    #[error(
        "{stopped} ports of the fabric stand still for something at or beyond it, and its ports are not read"
    )]
    StormBeyond {
        /// Ports that stand still.
        stopped: usize,
    },
    /// A server pauses its port for a part of the time.
    #[error("{server} ({nic}) pauses this port for {percent} % of the time{}", if *.by_host { ": its server's memory or PCIe does not take what arrives" } else { "" })]
    Paused {
        /// Share of the time.
        percent: u64,
        /// The server.
        server: String,
        /// Its NIC.
        nic: String,
        /// The server says that it holds up its NIC.
        by_host: bool,
    },
    /// Packets to a server are marked, and its NIC notifies nobody of that.
    #[error(
        "{marked} packets to {server} ({nic}) left with ECN's mark within three minutes, and the NIC has notified no sender: its notification point is off, or for another priority"
    )]
    MarksUnanswered {
        /// Packets.
        marked: u64,
        /// The server.
        server: String,
        /// Its NIC.
        nic: String,
    },
    /// A NIC notifies senders of congestion, and none of them receives that.
    #[error(
        "{marked} packets to {server} ({nic}) left with ECN's mark within three minutes; the NIC has sent {sent} notifications, and no NIC of the fabric has received any: the way back loses them, or who sends is not of this cluster"
    )]
    NotificationsLost {
        /// Packets.
        marked: u64,
        /// The server.
        server: String,
        /// Its NIC.
        nic: String,
        /// Notifications.
        sent: u64,
    },
    /// The PFC watchdog found storms lately, and dropped what it holds back.
    #[error("the PFC watchdog found {0} storms within the last two minutes, and dropped what it held back")]
    WatchdogStorms(u64),
    /// Packets of the lossless class were dropped lately.
    #[error("{0} packets of the lossless class were dropped within the last two minutes")]
    LosslessDrops(u64),
    /// Frames arrived damaged lately.
    #[error("{0} frames arrived damaged within the last two minutes")]
    Damaged(u64),
    /// The link went and came.
    #[error("its link came or went {0} times within the last two minutes")]
    Flapping(u64),
}

impl Symptom {
    /// The code by which programs know it.
    #[must_use]
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::Storm { .. }
            | Self::SwitchStorm { .. }
            | Self::Deadlock { .. }
            | Self::StormBeyond { .. } => ReasonCode::SwitchPauseStorm,
            Self::Paused { .. } => ReasonCode::SwitchPortPaused,
            Self::MarksUnanswered { .. } => ReasonCode::SwitchMarksUnanswered,
            Self::NotificationsLost { .. } => ReasonCode::SwitchNotificationsLost,
            Self::WatchdogStorms(_) => ReasonCode::SwitchWatchdog,
            Self::LosslessDrops(_) => ReasonCode::SwitchLosslessDrops,
            Self::Damaged(_) => ReasonCode::SwitchPortDamage,
            Self::Flapping(_) => ReasonCode::SwitchPortFlapping,
        }
    }
}
