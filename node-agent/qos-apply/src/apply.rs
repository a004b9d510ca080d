//! One change, done by the interface that it names, and read back: that the kernel took it does not say that it is so.

use std::io;

use node_agent_netlink::{
    Errno, Kernel, NetlinkError,
    dcb::{Change as DcbChange, Dcb, MaxRate, Pfc as KernelPfc, selector},
    ethtool::Ethtool,
    private::{self, StormLimit},
    route::Route,
};
use node_agent_qos::{
    AppOp, Change, Device, Observed, Reading, Via, settings::AppEntry, vendor, words::Trust,
};

use super::{connection, convert, paths, read::observe};

/// A change that was not made, or not as asked.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel or the driver refused.
    #[error(transparent)]
    Kernel(#[from] NetlinkError),
    /// A file cannot be written.
    #[error("cannot write '{text}' to {path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// What was to be written.
        text: String,
        /// What the operating system answered.
        source: io::Error,
    },
    /// It was taken, and yet it is not so.
    #[error(
        "{netdev}: {what} was taken without an error, but is '{found}' where '{wanted}' was asked; the driver or kernel does not know it"
    )]
    NotTaken {
        /// Name of the network device.
        netdev: String,
        /// The setting that was changed, as messages name it.
        what: &'static str,
        /// The value that was read back.
        found: String,
        /// The value that was written.
        wanted: String,
    },
    /// It was taken, and what is now cannot be read: the device may be gone.
    #[error("{netdev}: {what} was changed, and cannot be read back: {why}")]
    NotReadBack {
        /// Name of the network device.
        netdev: String,
        /// The setting that was changed, as messages name it.
        what: &'static str,
        /// Why it cannot be read back.
        why: String,
    },
    /// The change and the interface do not fit each other.
    #[error("{netdev}: {what} cannot be made by this interface; report this with the plan")]
    Mismatch {
        /// Name of the network device.
        netdev: String,
        /// The setting that was to be changed, as messages name it.
        what: &'static str,
    },
}

impl ApplyError {
    /// True if the device is not there: gone, or under another name.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_gone(),
            Self::File { source, .. } => matches!(source.raw_os_error(), Some(2 | 19)),
            Self::NotTaken { .. } | Self::NotReadBack { .. } | Self::Mismatch { .. } => false,
        }
    }
}

/// Makes a change of a device and reads it back; what is now is returned.
///
/// # Errors
/// The kernel's refusal; or [`ApplyError::NotTaken`] where it did not refuse and did nothing.
pub fn apply(
    kernel: &dyn Kernel,
    before: &Observed,
    change: &Change,
    via: &Via,
) -> Result<Observed, ApplyError> {
    make(kernel, &before.device, change, via)?;
    let after = observe(kernel, &before.device, before.drained, before.agents.clone());
    confirm(change, &after)?;
    Ok(after)
}

fn make(kernel: &dyn Kernel, device: &Device, change: &Change, via: &Via) -> Result<(), ApplyError> {
    let netdev = device.netdev.as_str();
    let mismatch = || ApplyError::Mismatch { netdev: netdev.to_owned(), what: name(change) };
    match (via, change) {
        (Via::Dcbnl, _) => dcb(kernel, netdev, change, mismatch),
        (Via::EthtoolPause, Change::Pause { to, .. }) => {
            Ok(Ethtool::open(kernel)?.set_pause(netdev, convert::kernel_pause(*to))?)
        }
        (Via::EthtoolTunable, Change::PfcPrevention { to, .. }) => {
            Ok(private::set_storm_limit(kernel, netdev, StormLimit::decode(*to))?)
        }
        (Via::EthtoolPrivateFlag(flag), Change::FirmwareLldp { to, .. }) => {
            Ok(private::set_flag(kernel, netdev, flag, *to)?)
        }
        (Via::Link, Change::Mtu { to, .. }) => Ok(Route::open(kernel)?.set_mtu(netdev, *to)?),
        (Via::File { root, path, apply }, _) => {
            let text = change.text().ok_or_else(mismatch)?;
            let write = |path: &str, text: &str| {
                let path = paths::below(*root, path);
                let written = kernel.files().write(&path, text.as_bytes());
                written.map_err(|source| ApplyError::File { path, text: text.to_owned(), source })
            };
            write(path, &text)?;
            apply.as_ref().map_or(Ok(()), |path| write(path, "1"))
        }
        (Via::RdmaCm { device, port, file }, _) => {
            let text = change.text().ok_or_else(mismatch)?;
            let written = connection::write(kernel.files(), device, *port, file, &text);
            let path = format!("rdma_cm/{device}/ports/{port}/{file}");
            written.map_err(|source| ApplyError::File { path, text, source })
        }
        _ => Err(mismatch()),
    }
}

fn dcb(
    kernel: &dyn Kernel,
    netdev: &str,
    change: &Change,
    mismatch: impl FnOnce() -> ApplyError,
) -> Result<(), ApplyError> {
    let mut dcb = Dcb::open(kernel)?;
    // What a change does not name stays as the device has it now, not as it was when the plan was made.
    let mut held = || dcb.read(netdev);
    let message = match change {
        Change::Dcbx { send, .. } => DcbChange::Dcbx(send.0),
        Change::Ets { to, .. } => DcbChange::Ets(convert::ets_over(held()?.ets.unwrap_or_default(), to)),
        Change::Pfc { to, .. } => {
            let held = held()?.pfc.unwrap_or_default();
            DcbChange::Pfc(KernelPfc { enabled: to.enabled.0, delay: to.delay, ..held })
        }
        Change::MaxRate { to, .. } => DcbChange::MaxRate(MaxRate(*to)),
        Change::Buffer { to, .. } => {
            DcbChange::Buffer(convert::buffer_over(held()?.buffer.unwrap_or_default(), to))
        }
        Change::Trust { to, .. } => DcbChange::Trust(match to {
            Trust::Dscp => vec![selector::DSCP],
            Trust::Pcp => vec![selector::PCP],
        }),
        Change::App { ops, .. } => return Ok(entries(&mut dcb, netdev, ops)?),
        _ => return Err(mismatch()),
    };
    Ok(dcb.change(netdev, &message)?)
}

/// The steps in their order; neighbours of one kind share a message. An entry that is there already, or gone already, ends the message
/// in which it is, so then each is done by itself.
fn entries(dcb: &mut Dcb, netdev: &str, ops: &[AppOp]) -> Result<(), NetlinkError> {
    let same = |a: &AppOp, b: &AppOp| matches!(a, AppOp::Set(_)) == matches!(b, AppOp::Set(_));
    for run in ops.chunk_by(same) {
        let message = |ops: &[AppOp]| {
            let sets = matches!(ops.first(), Some(AppOp::Set(_)));
            let apps =
                ops.iter().map(|(AppOp::Set(entry) | AppOp::Delete(entry))| convert::app(entry)).collect();
            if sets { DcbChange::AddApp(apps) } else { DcbChange::DeleteApp(apps) }
        };
        match dcb.change(netdev, &message(run)) {
            Err(error) if is_so_already(&error) => {
                for op in run {
                    match dcb.change(netdev, &message(std::slice::from_ref(op))) {
                        Err(error) if is_so_already(&error) => {}
                        other => other?,
                    }
                }
            }
            other => other?,
        }
    }
    Ok(())
}

fn is_so_already(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(Errno::EXIST | Errno::NOENT))
}

/// The name of the setting that a change is about, for messages.
fn name(change: &Change) -> &'static str {
    match change {
        Change::Dcbx { .. } => "the DCBX mode",
        Change::FirmwareLldp { .. } => "the firmware's LLDP agent",
        Change::Pause { .. } => "global pause",
        Change::Mtu { .. } => "the MTU",
        Change::Trust { .. } => "trust",
        Change::App { .. } => "the application table",
        Change::Ets { .. } => "ETS",
        Change::MaxRate { .. } => "the rates of traffic classes",
        Change::Pfc { .. } => "PFC",
        Change::Buffer { .. } => "the buffers",
        Change::PfcPrevention { .. } => "PFC storm prevention",
        Change::DefaultTos { .. } => "the default ToS",
        Change::DefaultMode { .. } => "the default RoCE mode",
        Change::ForcedTos { .. } => "the forced ToS",
        Change::CcEnable { .. } | Change::CcDevice { .. } => "congestion control",
        Change::CnpDscp { .. } => "the DSCP of CNPs",
        Change::CnpPriority { .. } => "the priority of CNPs",
        Change::RoceDscp { .. } => "the DSCP of RDMA data",
        Change::RocePriority { .. } => "the priority of RDMA data",
        Change::CcParam { .. } => "a parameter of congestion control",
    }
}

/// Compares what is now with what was asked.
fn confirm(change: &Change, after: &Observed) -> Result<(), ApplyError> {
    let set = &after.settings;
    let cc = &set.congestion;
    match change {
        Change::Dcbx { to, .. } => same(change, after, &set.dcbx, to),
        Change::FirmwareLldp { to, .. } => same(change, after, &set.firmware_lldp, to),
        Change::Pause { to, .. } => same(change, after, &set.pause, to),
        Change::Mtu { to, .. } => same(change, after, &set.mtu, to),
        Change::Trust { to, .. } => same(change, after, &set.trust, to),
        Change::App { ops, .. } => steps(change, after, ops),
        // What a driver reports as the share of a class that has none means nothing.
        Change::Ets { to, .. } => {
            same(change, after, &convert::part(&set.ets, |ets| Some(ets.meant())), &to.meant())
        }
        Change::MaxRate { to, .. } => rates(change, after, to),
        Change::Pfc { to, .. } => same(change, after, &set.pfc, to),
        Change::Buffer { to, .. } => same(change, after, &set.buffer, to),
        Change::PfcPrevention { to, .. } => same(change, after, &set.pfc_prevention, to),
        Change::DefaultTos { to, .. } => same(change, after, &set.default_tos, to),
        Change::DefaultMode { to, .. } => same(change, after, &set.default_mode, to),
        Change::ForcedTos { to, .. } => same(change, after, &set.forced_tos, to),
        Change::CcEnable { side, priority, to, .. } => {
            let mask = match side {
                node_agent_qos::settings::CcSide::NotificationPoint => &cc.notification,
                node_agent_qos::settings::CcSide::ReactionPoint => &cc.reaction,
            };
            same(change, after, &convert::part(mask, |mask| Some(mask.contains(*priority))), to)
        }
        Change::CcDevice { to, .. } => {
            same(change, after, &convert::part(&cc.notification, |mask| Some(!mask.is_empty())), to)
        }
        Change::CnpDscp { to, .. } => same(change, after, &cc.cnp_dscp, to),
        Change::CnpPriority { to, .. } => same(change, after, &cc.cnp_priority, to),
        Change::RoceDscp { to, .. } => same(change, after, &cc.roce_dscp, to),
        Change::RocePriority { to, .. } => same(change, after, &cc.roce_priority, to),
        Change::CcParam { param, to, .. } => {
            same(change, after, cc.params.get(param).unwrap_or(&Reading::Unsupported), to)
        }
    }
}

/// What is found is not what was asked, or cannot be read.
fn not_taken<T: std::fmt::Debug>(
    change: &Change,
    after: &Observed,
    found: &Reading<T>,
    wanted: String,
) -> ApplyError {
    let (netdev, what) = (after.device.netdev.clone(), name(change));
    let found = match found {
        Reading::Known(found) => format!("{found:?}"),
        Reading::Unsupported => "nothing".to_owned(),
        Reading::Unreadable(why) => return ApplyError::NotReadBack { netdev, what, why: why.clone() },
    };
    ApplyError::NotTaken { netdev, what, found, wanted }
}

fn same<T: PartialEq + std::fmt::Debug>(
    change: &Change,
    after: &Observed,
    found: &Reading<T>,
    wanted: &T,
) -> Result<(), ApplyError> {
    if found.known() == Some(wanted) {
        return Ok(());
    }
    Err(not_taken(change, after, found, format!("{wanted:?}")))
}

/// Each entry is there, or gone, as the last step on it says.
fn steps(change: &Change, after: &Observed, ops: &[AppOp]) -> Result<(), ApplyError> {
    let table = after
        .settings
        .app
        .known()
        .ok_or_else(|| not_taken(change, after, &after.settings.app, "a table".into()))?;
    let last =
        |entry: &AppEntry| ops.iter().rev().find(|(AppOp::Set(other) | AppOp::Delete(other))| other == entry);
    for op in ops {
        let (AppOp::Set(entry) | AppOp::Delete(entry)) = op;
        let wanted = matches!(last(entry), Some(AppOp::Set(_)));
        if table.contains(entry) != wanted {
            let word = |there: bool| format!("{entry} {}", if there { "there" } else { "not there" });
            let (netdev, what) = (after.device.netdev.clone(), name(change));
            let (found, wanted) = (word(!wanted), word(wanted));
            return Err(ApplyError::NotTaken { netdev, what, found, wanted });
        }
    }
    Ok(())
}

/// Drivers keep limits in steps of their own.
fn rates(change: &Change, after: &Observed, wanted: &[u64; 8]) -> Result<(), ApplyError> {
    let vendor = vendor::of(after);
    same(change, after, &after.settings.max_rate, &wanted.map(|rate| vendor.rate_kept(rate)))
}
