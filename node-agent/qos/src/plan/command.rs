//! The same changes as commands that a network engineer knows: `dcb`, `mlnx_qos`, `ethtool`, `ip`. For the eye only.

use std::fmt::Display;

use crate::{
    edit::{AppOp, Change, Via},
    observed::Observed,
    settings::{AppEntry, Buffer, DcbxMode, Ets, Pfc},
    vendor::{Tool, Vendor},
    words::Priority,
};

/// The commands of `change`.
pub fn of(change: &Change, via: &Via, at: &Observed, vendor: &Vendor) -> Vec<String> {
    let dev = at.device.netdev.as_str();
    let mlnx = vendor.tool == Tool::MlnxQos;
    match change {
        Change::Dcbx { send, .. } => vec![dcbx(*send, dev, mlnx || vendor.dcbx.zero_returns && send.0 == 0)],
        Change::FirmwareLldp { to, .. } => {
            vec![format!("ethtool --set-priv-flags {dev} fw-lldp-agent {}", on(*to))]
        }
        Change::Pause { to, .. } => vec![format!("ethtool -A {dev} rx {} tx {}", on(to.rx), on(to.tx))],
        Change::Mtu { to, .. } => vec![format!("ip link set dev {dev} mtu {to}")],
        Change::Trust { to, .. } => vec![format!("dcb apptrust set dev {dev} order {to}")],
        Change::App { from, ops, .. } => {
            let empty = !from.iter().any(AppEntry::is_dscp);
            if mlnx { mlnx_app(ops, empty, dev) } else { dcb_app(ops, dev) }
        }
        Change::Ets { from, to } if mlnx => mlnx_ets(from, to, dev),
        Change::Ets { from, to } => vec![dcb_ets(from, to, dev)],
        Change::MaxRate { to, .. } if mlnx => {
            // In Gbit/s; 0 is no limit.
            vec![format!("mlnx_qos -i {dev} --ratelimit {}", list(&to.map(|rate| rate / 1_000_000)))]
        }
        Change::MaxRate { to, .. } => {
            vec![format!(
                "dcb maxrate set dev {dev} tc-maxrate {}",
                pairs(&to.map(|rate| format!("{rate}kbit")))
            )]
        }
        Change::Pfc { from, to } => vec![pfc(from, to, dev, mlnx)],
        Change::Buffer { to, .. } => vec![buffer(to, dev, mlnx)],
        Change::PfcPrevention { to, .. } => {
            let time = match *to {
                0 => "off".to_owned(),
                u16::MAX => "auto".to_owned(),
                ms => ms.to_string(),
            };
            vec![format!("ethtool --set-tunable {dev} pfc-prevention-tout {time}")]
        }
        _ => file(change, via),
    }
}

const fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn list<T: Display>(values: &[T]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// `0:a 1:b ...`, as `dcb` has arrays.
fn pairs<T: Display>(values: &[T]) -> String {
    let texts: Vec<String> = values.iter().enumerate().map(|(at, value)| format!("{at}:{value}")).collect();
    texts.join(" ")
}

fn dcbx(mode: DcbxMode, dev: &str, mlnx: bool) -> String {
    if mlnx {
        return format!("mlnx_qos -i {dev} --dcbx {}", if mode.has(DcbxMode::HOST) { "os" } else { "fw" });
    }
    format!("dcb dcbx set dev {dev} {mode}")
}

/// One command for each run of steps of a kind.
fn dcb_app(ops: &[AppOp], dev: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut last = None;
    for op in ops {
        let (verb, entry) = match op {
            AppOp::Set(entry) => ("add", entry),
            AppOp::Delete(entry) => ("del", entry),
        };
        let kind = match entry.selector {
            AppEntry::ETHERTYPE => "ethtype-prio",
            AppEntry::STREAM => "stream-port-prio",
            AppEntry::DGRAM => "dgram-port-prio",
            AppEntry::ANY => "port-prio",
            _ => "dscp-prio",
        };
        let value = format!("{}:{}", entry.protocol, entry.priority);
        match commands.last_mut().filter(|_| last == Some((verb, kind))) {
            Some(command) => {
                command.push(' ');
                command.push_str(&value);
            }
            None => commands.push(format!("dcb app {verb} dev {dev} {kind} {value}")),
        }
        last = Some((verb, kind));
    }
    commands
}

/// `mlnx_qos` maps one DSCP a time; its `--trust dscp` writes the map dscp / 8.
fn mlnx_app(ops: &[AppOp], empty: bool, dev: &str) -> Vec<String> {
    let mut commands = Vec::new();
    if empty && ops.iter().any(|op| matches!(op, AppOp::Set(_))) {
        commands.push(format!("mlnx_qos -i {dev} --trust dscp"));
    }
    let fresh = |entry: &AppEntry| empty && u16::from(entry.priority) == entry.protocol >> 3;
    for op in ops {
        match op {
            AppOp::Set(entry) if fresh(entry) => {}
            AppOp::Set(entry) => {
                commands
                    .push(format!("mlnx_qos -i {dev} --dscp2prio set,{},{}", entry.protocol, entry.priority));
            }
            AppOp::Delete(entry) => {
                commands
                    .push(format!("mlnx_qos -i {dev} --dscp2prio del,{},{}", entry.protocol, entry.priority));
            }
        }
    }
    // All of them at once is what trusting the VLAN tag does.
    if ops.len() > 8 && ops.iter().all(|op| matches!(op, AppOp::Delete(_))) {
        return vec![format!("mlnx_qos -i {dev} --trust pcp")];
    }
    commands
}

/// `dcb` wants 100 % in all where a class has a share, and 0 where none has; so what means nothing is 0.
fn dcb_ets(from: &Ets, to: &Ets, dev: &str) -> String {
    let (from, to) = (from.meant(), to.meant());
    let mut command = format!("dcb ets set dev {dev}");
    if from.willing != to.willing {
        command.push_str(&format!(" willing {}", on(to.willing)));
    }
    if (from.tsa, from.bandwidth) != (to.tsa, to.bandwidth) {
        command.push_str(&format!(" tc-tsa {} tc-bw {}", pairs(&to.tsa), pairs(&to.bandwidth)));
    }
    if from.prio_tc != to.prio_tc {
        command.push_str(&format!(" prio-tc {}", pairs(&to.prio_tc)));
    }
    command
}

fn mlnx_ets(from: &Ets, to: &Ets, dev: &str) -> Vec<String> {
    let (from, to) = (from.meant(), to.meant());
    let mut command = format!("mlnx_qos -i {dev}");
    if from.prio_tc != to.prio_tc {
        command.push_str(&format!(" --prio_tc {}", list(&to.prio_tc)));
    }
    if (from.tsa, from.bandwidth) != (to.tsa, to.bandwidth) {
        command.push_str(&format!(" --tsa {} --tcbw {}", list(&to.tsa), list(&to.bandwidth)));
    }
    vec![command]
}

fn pfc(from: &Pfc, to: &Pfc, dev: &str, mlnx: bool) -> String {
    let enabled = |priority: u8| to.enabled.contains(Priority::of(priority));
    let mut command = if mlnx { format!("mlnx_qos -i {dev}") } else { format!("dcb pfc set dev {dev}") };
    if from.enabled != to.enabled {
        let numbers: [u8; 8] = std::array::from_fn(|at| u8::try_from(at).unwrap_or(0));
        command.push_str(&if mlnx {
            format!(" --pfc {}", list(&numbers.map(|priority| u8::from(enabled(priority)))))
        } else {
            format!(" prio-pfc {}", pairs(&numbers.map(|priority| on(enabled(priority)))))
        });
    }
    if from.delay != to.delay {
        command.push_str(&format!(" {} {}", if mlnx { "--cable_len" } else { "delay" }, to.delay));
    }
    command
}

fn buffer(to: &Buffer, dev: &str, mlnx: bool) -> String {
    if mlnx {
        return format!(
            "mlnx_qos -i {dev} --prio2buffer {} --buffer_size {}",
            list(&to.prio_buffer),
            list(&to.size)
        );
    }
    format!("dcb buffer set dev {dev} prio-buffer {} buffer-size {}", pairs(&to.prio_buffer), pairs(&to.size))
}

fn file(change: &Change, via: &Via) -> Vec<String> {
    let Some(text) = change.text() else { return Vec::new() };
    match via {
        Via::File { root, path, apply } => {
            let usual = root.usual();
            let write = format!("echo {text} > {usual}/{path}");
            let apply = apply.as_ref().map(|apply| format!("echo 1 > {usual}/{apply}"));
            [write].into_iter().chain(apply).collect()
        }
        Via::RdmaCm { device, port, file } => {
            let base = format!("/sys/kernel/config/rdma_cm/{device}");
            vec![
                format!("mkdir -p {base}"),
                format!("echo {text} > {base}/ports/{port}/{file}"),
                format!("rmdir {base}"),
            ]
        }
        _ => Vec::new(),
    }
}
