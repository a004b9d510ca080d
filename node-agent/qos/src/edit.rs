//! One change of one port: what, by which interface, from what to what, what it does while it is made, and its undo.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    settings::{AppEntry, AppTable, Buffer, CcParam, CcSide, DcbxMode, Ets, Pause, Pfc},
    words::{Dscp, Priority, RoceMode, Trust},
};

/// What a change does to traffic while it is made; from harmless to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blast {
    /// Nothing: only what is set up afterwards is different.
    Nothing,
    /// Running traffic is served in another way, but none is lost.
    Hitless,
    /// The link goes down and comes up again.
    LinkFlap,
    /// Packets may be lost or leave the lossless data class, for longer than a link takes to come up or in a way that
    /// nothing reports.
    TrafficLoss,
    /// It holds only after the server has been restarted.
    Reboot,
}

impl Blast {
    /// Whether it may be done under running jobs.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Nothing | Self::Hitless)
    }
}

impl fmt::Display for Blast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Hitless => "hitless",
            Self::LinkFlap => "link flap",
            Self::TrafficLoss => "traffic loss",
            Self::Reboot => "reboot",
        })
    }
}

/// Where a file system of the kernel's own is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileRoot {
    /// The sysfs of this server's kernel, `/sys`.
    Sysfs,
    /// The debug file system, `/sys/kernel/debug`.
    Debugfs,
    /// The configuration file system, `/sys/kernel/config`.
    Configfs,
}

impl FileRoot {
    /// The path at which it usually is mounted.
    #[must_use]
    pub const fn usual(self) -> &'static str {
        match self {
            Self::Sysfs => "/sys",
            Self::Debugfs => "/sys/kernel/debug",
            Self::Configfs => "/sys/kernel/config",
        }
    }
}

/// By which interface of the kernel a change is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Via {
    /// DCB over netlink: `RTM_SETDCB` over NETLINK_ROUTE.
    Dcbnl,
    /// Pause frames over ethtool netlink: `ETHTOOL_MSG_PAUSE_SET`.
    EthtoolPause,
    /// A tunable over the ethtool ioctl: `ETHTOOL_STUNABLE` with `ETHTOOL_PFC_PREVENTION_TOUT`.
    EthtoolTunable,
    /// A private flag of the driver (`ethtool --set-priv-flags`).
    EthtoolPrivateFlag(String),
    /// An attribute of a network interface over netlink: `RTM_NEWLINK` over NETLINK_ROUTE.
    Link,
    /// A file that takes the value of [`Change::text`].
    File {
        /// The file system that the path is in.
        root: FileRoot,
        /// Path in it, for example `mlx5/0000:18:00.0/cc_params/np_cnp_dscp`.
        path: String,
        /// A file beside it that takes `1` afterwards, where values hold only then.
        apply: Option<String>,
    },
    /// The connection manager's configfs: make the directory of the RDMA device if it is not there, write the value
    /// of [`Change::text`] to `ports/<port>/<file>`, remove the directory if it was made.
    RdmaCm {
        /// Name of the RDMA device.
        device: String,
        /// Number of the RDMA device's port, counted from 1.
        port: u32,
        /// Name of the file: `default_roce_tos` or `default_roce_mode`.
        file: String,
    },
}

/// One step in an application table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppOp {
    /// `DCB_CMD_IEEE_SET`. An entry that is there already (`EEXIST`) is no error.
    Set(AppEntry),
    /// `DCB_CMD_IEEE_DEL`. An entry that is not there (`ENOENT`) is no error.
    Delete(AppEntry),
}

/// What is changed, from what to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// Who decides over DCB settings, and by which protocol (`DCB_CMD_SDCBX`).
    Dcbx {
        /// The mode before the change.
        from: DcbxMode,
        /// The mode after the change.
        to: DcbxMode,
        /// What is sent to get there: mlx5 hands DCBX back to its firmware by 0.
        send: DcbxMode,
        /// What is sent to get back to `from`.
        undo_send: DcbxMode,
    },
    /// The LLDP agent of the firmware.
    FirmwareLldp {
        /// Whether the agent runs before the change.
        from: bool,
        /// Whether the agent runs after the change.
        to: bool,
    },
    /// Global pause (IEEE 802.3 annex 31B), which excludes PFC.
    Pause {
        /// The setting before the change.
        from: Pause,
        /// The setting after the change.
        to: Pause,
    },
    /// MTU of the network device.
    Mtu {
        /// The MTU before the change, in bytes.
        from: u32,
        /// The MTU after the change, in bytes.
        to: u32,
    },
    /// What the priority of a packet is read from, where that is set by itself.
    Trust {
        /// What is trusted before the change.
        from: Trust,
        /// What is trusted after the change.
        to: Trust,
    },
    /// The application table. Only `ops` are done, in this order; neighbours of one kind may share a message.
    App {
        /// The whole table as it is.
        from: AppTable,
        /// The whole table as it becomes.
        to: AppTable,
        /// The steps that lead from `from` to `to`.
        ops: Vec<AppOp>,
        /// The steps that lead back from `to` to `from`.
        undo_ops: Vec<AppOp>,
    },
    /// Enhanced transmission selection (IEEE 802.1Qaz): how traffic classes share the link.
    Ets {
        /// The setting before the change.
        from: Ets,
        /// The setting after the change.
        to: Ets,
    },
    /// Greatest rates in kbit/s.
    MaxRate {
        /// The rate of each traffic class before the change; 0 is no limit.
        from: [u64; 8],
        /// The rate of each traffic class after the change; 0 is no limit.
        to: [u64; 8],
    },
    /// Priority-based flow control (IEEE 802.1Qbb).
    Pfc {
        /// The setting before the change.
        from: Pfc,
        /// The setting after the change.
        to: Pfc,
    },
    /// Receive buffers of the port: their sizes, and which priority uses which.
    Buffer {
        /// The setting before the change.
        from: Buffer,
        /// The setting after the change.
        to: Buffer,
    },
    /// PFC storm prevention, ms.
    PfcPrevention {
        /// The time before the change; 0 never, 65535 when the driver thinks fit.
        from: u16,
        /// The time after the change; 0 never, 65535 when the driver thinks fit.
        to: u16,
    },
    /// ToS byte of RDMA connections.
    DefaultTos {
        /// The byte before the change.
        from: u8,
        /// The byte after the change.
        to: u8,
    },
    /// RoCE version of RDMA connections.
    DefaultMode {
        /// The version before the change.
        from: RoceMode,
        /// The version after the change.
        to: RoceMode,
    },
    /// ToS byte that all queue pairs are forced to.
    ForcedTos {
        /// The byte before the change; `None` where queue pairs are free to choose.
        from: Option<u8>,
        /// The byte after the change; `None` where queue pairs are free to choose.
        to: Option<u8>,
    },
    /// An end of congestion control on one priority.
    CcEnable {
        /// The end of congestion control: notification or reaction.
        side: CcSide,
        /// The priority on which it is switched.
        priority: Priority,
        /// Whether it is on before the change.
        from: bool,
        /// Whether it is on after the change.
        to: bool,
    },
    /// Congestion control of a device that has one switch for both ends and all priorities.
    CcDevice {
        /// Whether it is on before the change.
        from: bool,
        /// Whether it is on after the change.
        to: bool,
    },
    /// The DSCP of congestion notification packets (CNPs).
    CnpDscp {
        /// The DSCP before the change.
        from: Dscp,
        /// The DSCP after the change.
        to: Dscp,
    },
    /// The priority of congestion notification packets (CNPs).
    CnpPriority {
        /// The priority before the change.
        from: Priority,
        /// The priority after the change.
        to: Priority,
    },
    /// The DSCP that the device takes for that of RDMA data.
    RoceDscp {
        /// The DSCP before the change.
        from: Dscp,
        /// The DSCP after the change.
        to: Dscp,
    },
    /// The priority that the device takes for that of RDMA data.
    RocePriority {
        /// The priority before the change.
        from: Priority,
        /// The priority after the change.
        to: Priority,
    },
    /// A parameter of congestion control.
    CcParam {
        /// The parameter that is changed.
        param: CcParam,
        /// The value before the change, in the parameter's unit.
        from: u32,
        /// The value after the change, in the parameter's unit.
        to: u32,
    },
}

impl Change {
    /// Whether it is about the lossless data class of RDMA data itself: what a packet's priority is read from, the maps, the classes,
    /// flow control.
    #[must_use]
    pub const fn is_of_data_class(&self) -> bool {
        matches!(self, Self::Trust { .. } | Self::App { .. } | Self::Ets { .. } | Self::Pfc { .. })
    }

    /// The change that brings back what was.
    #[must_use]
    pub fn inverse(&self) -> Self {
        macro_rules! swap {
            ($($variant:ident),+) => {
                match self {
                    $(Self::$variant { from, to } => Self::$variant { from: to.clone(), to: from.clone() },)+
                    Self::Dcbx { from, to, send, undo_send } => {
                        Self::Dcbx { from: *to, to: *from, send: *undo_send, undo_send: *send }
                    }
                    Self::App { from, to, ops, undo_ops } => Self::App {
                        from: to.clone(),
                        to: from.clone(),
                        ops: undo_ops.clone(),
                        undo_ops: ops.clone(),
                    },
                    Self::CcEnable { side, priority, from, to } => {
                        Self::CcEnable { side: *side, priority: *priority, from: *to, to: *from }
                    }
                    Self::CcParam { param, from, to } => Self::CcParam { param: *param, from: *to, to: *from },
                }
            };
        }
        swap!(
            FirmwareLldp,
            Pause,
            Mtu,
            Trust,
            Ets,
            MaxRate,
            Pfc,
            Buffer,
            PfcPrevention,
            DefaultTos,
            DefaultMode,
            ForcedTos,
            CcDevice,
            CnpDscp,
            CnpPriority,
            RoceDscp,
            RocePriority
        )
    }

    /// What a file takes for it; none for what no file takes.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let switch = |on: bool| u8::from(on).to_string();
        Some(match self {
            Self::Trust { to, .. } => to.to_string(),
            Self::DefaultTos { to, .. } => to.to_string(),
            Self::DefaultMode { to, .. } => to.to_string(),
            // The vendor's driver takes 0 for "not forced".
            Self::ForcedTos { to, .. } => to.unwrap_or(0).to_string(),
            Self::CcEnable { to, .. } | Self::CcDevice { to, .. } => switch(*to),
            Self::CnpDscp { to, .. } | Self::RoceDscp { to, .. } => to.to_string(),
            Self::CnpPriority { to, .. } | Self::RocePriority { to, .. } => to.to_string(),
            Self::CcParam { to, .. } => to.to_string(),
            Self::Dcbx { .. }
            | Self::FirmwareLldp { .. }
            | Self::Pause { .. }
            | Self::Mtu { .. }
            | Self::App { .. }
            | Self::Ets { .. }
            | Self::MaxRate { .. }
            | Self::Pfc { .. }
            | Self::Buffer { .. }
            | Self::PfcPrevention { .. } => return None,
        })
    }
}

/// One change of one port, with all that somebody has to know before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Edit {
    /// What is changed, from which value to which.
    pub change: Change,
    /// The interface of the kernel by which it is changed.
    pub via: Via,
    /// What it does while it is made.
    pub blast: Blast,
    /// Why it does that, and why it stands at its place in the order.
    pub why: String,
    /// The same in commands that a network engineer knows; for the eye, nothing runs them.
    pub commands: Vec<String>,
    /// What brings back what was.
    pub undo: Change,
    /// The undo in commands that a network engineer knows; nothing runs them.
    pub undo_commands: Vec<String>,
}
