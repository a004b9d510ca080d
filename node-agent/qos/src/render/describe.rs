//! One change in one line.

use crate::{
    edit::Change,
    settings::{AppEntry, AppTable, Ets, Pfc},
};

/// `what: before -> after`.
#[must_use]
pub fn describe(change: &Change) -> String {
    match change {
        Change::Dcbx { from, to, .. } => format!("dcbx: {from} -> {to}"),
        Change::FirmwareLldp { from, to } => format!("firmware LLDP agent: {} -> {}", on(*from), on(*to)),
        Change::Pause { from, to } => format!(
            "global pause: rx {} tx {} -> rx {} tx {}",
            on(from.rx),
            on(from.tx),
            on(to.rx),
            on(to.tx)
        ),
        Change::Mtu { from, to } => format!("mtu: {from} -> {to}"),
        Change::Trust { from, to } => format!("trust: {from} -> {to}"),
        Change::App { from, to, .. } => app(from, to),
        Change::Ets { from, to } => ets(from, to),
        Change::MaxRate { from, to } => format!("max rate in kbit/s: {} -> {}", list(from), list(to)),
        Change::Pfc { from, to } => pfc(from, to),
        Change::Buffer { from, to } => format!(
            "buffers: priorities in {} -> {}, sizes {} -> {}",
            list(&from.prio_buffer),
            list(&to.prio_buffer),
            list(&from.size),
            list(&to.size)
        ),
        Change::PfcPrevention { from, to } => format!("pfc storm prevention in ms: {from} -> {to}"),
        Change::DefaultTos { from, to } => format!("default ToS of RDMA-CM: {from} -> {to}"),
        Change::DefaultMode { from, to } => format!("default mode of RDMA-CM: {from} -> {to}"),
        Change::ForcedTos { from, to } => format!("forced ToS: {} -> {}", forced(*from), forced(*to)),
        Change::CcEnable { side, priority, from, to } => {
            format!("DCQCN {side}, priority {priority}: {} -> {}", on(*from), on(*to))
        }
        Change::CcDevice { from, to } => format!("congestion control: {} -> {}", on(*from), on(*to)),
        Change::CnpDscp { from, to } => format!("DSCP of CNPs: {from} -> {to}"),
        Change::CnpPriority { from, to } => format!("priority of CNPs: {from} -> {to}"),
        Change::RoceDscp { from, to } => format!("DSCP of RDMA data: {from} -> {to}"),
        Change::RocePriority { from, to } => format!("priority of RDMA data: {from} -> {to}"),
        Change::CcParam { param, from, to } => format!("DCQCN {param}: {from} -> {to}"),
    }
}

const fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn forced(tos: Option<u8>) -> String {
    tos.map_or("not forced".to_owned(), |tos| tos.to_string())
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn ets(from: &Ets, to: &Ets) -> String {
    let mut parts = Vec::new();
    if from.willing != to.willing {
        parts.push(format!("willing {} -> {}", on(from.willing), on(to.willing)));
    }
    if from.prio_tc != to.prio_tc {
        parts.push(format!("priorities in classes {} -> {}", list(&from.prio_tc), list(&to.prio_tc)));
    }
    if from.tsa != to.tsa {
        parts.push(format!("served {} -> {}", list(&from.tsa), list(&to.tsa)));
    }
    let (shares, then) = (from.meant().bandwidth, to.meant().bandwidth);
    if shares != then {
        parts.push(format!("shares {} -> {}", list(&shares), list(&then)));
    }
    format!("ets: {}", parts.join("; "))
}

fn pfc(from: &Pfc, to: &Pfc) -> String {
    let mut parts = Vec::new();
    if from.enabled != to.enabled {
        parts.push(format!("{} -> {}", from.enabled, to.enabled));
    }
    if from.delay != to.delay {
        parts.push(format!("cable {} m -> {} m", from.delay, to.delay));
    }
    format!("pfc: {}", parts.join(", "))
}

/// Entries that go and come; a whole map by its number of entries.
fn app(from: &AppTable, to: &AppTable) -> String {
    let texts = |a: &AppTable, b: &AppTable, sign: char| -> Vec<String> {
        a.difference(b).map(|entry| format!("{sign}{entry}")).collect()
    };
    let mut changes = texts(from, to, '-');
    changes.extend(texts(to, from, '+'));
    if changes.len() <= 8 {
        return format!("application table: {}", changes.join(" "));
    }
    let dscp = |table: &AppTable| table.iter().filter(|entry| entry.is_dscp()).count();
    let others: Vec<String> = to
        .difference(from)
        .filter(|entry| !entry.is_dscp())
        .map(|entry: &AppEntry| format!(", +{entry}"))
        .collect();
    format!(
        "application table: {} DSCP entries -> {}, {} different{}",
        dscp(from),
        dscp(to),
        from.symmetric_difference(to).filter(|entry| entry.is_dscp()).count(),
        others.concat()
    )
}
