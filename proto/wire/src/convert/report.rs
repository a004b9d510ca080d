//! What a node reports: more is asked of it than of what is read back from the store. A value that no server can have, or a text that
//! speaks of another resource, is refused with its field; what an attempt's end depends on is cut instead, for an end that is
//! refused would be repeated for ever.

use std::collections::BTreeMap;

use proto_model::{
    AttemptUsage, Gpu, Inventory, JobUid, Nic, NicNotifications, Observation, Reason, ReasonCode, RunResult,
    ServerUsage, Timestamp, rails::MAX_REPORTS,
};

use super::{FieldErrors, Fields};
use crate::v1;

/// Attempts of jobs on one server at most, whose use is reported.
const ATTEMPTS_MAX: usize = 1024;
/// Bytes of one short text of a GPU or NIC: an identity, a model, an address on a bus.
const TEXT_MAX: usize = 128;
/// NICs, and GPUs, of one server at most.
const DEVICES_MAX: usize = 256;
/// Bytes; the loopback's MTU is 65,536.
const MTU_MAX: u32 = 131_072;
/// The fastest NIC that is believed, in Mbit/s: 100 Tbit/s.
const SPEED_MAX: u64 = 100_000_000;
/// Logical processors, and NUMA nodes.
const CPUS_MAX: u32 = 65_536;
/// Bytes of memory, of a server or a GPU: 4 PiB.
const MEMORY_MAX: u64 = 1 << 52;
/// Ranks of one server at most whose end one observation tells.
const EXITS_MAX: usize = 4096;
/// Bytes of an observation's code, scope and message.
const CODE_MAX: usize = 64;
const SCOPE_MAX: usize = 128;
const MESSAGE_MAX: usize = 2048;
/// Kinds of resources that a device or file of a server is not.
const RESOURCES: [&str; 8] = ["node", "tenant", "job", "queue", "rail", "leaf", "pod", "reservation"];

fn short(fields: &mut Fields, field: &str, text: &str) {
    if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
        fields.fail(field, format!("must be one printable line of at most {TEXT_MAX} bytes"));
    }
}

fn at_most<T: PartialOrd + std::fmt::Display>(fields: &mut Fields, field: &str, value: T, most: T) {
    if value > most {
        fields.fail(field, format!("{value} is more than any server has; at most {most}"));
    }
}

fn gpu(fields: &mut Fields, at: usize, gpu: &Gpu) {
    let name = |field: &str| format!("gpus[{at}].{field}");
    for (field, text) in [("uuid", &gpu.uuid), ("model", &gpu.model), ("pciAddress", &gpu.pci_address)] {
        short(fields, &name(field), text);
    }
    at_most(fields, &name("memoryBytes"), gpu.memory_bytes, MEMORY_MAX);
}

fn nic(fields: &mut Fields, at: usize, nic: &Nic) {
    let name = |field: &str| format!("nics[{at}].{field}");
    for (field, text) in [("netdev", &nic.netdev), ("pciAddress", &nic.pci_address)] {
        short(fields, &name(field), text);
    }
    at_most(fields, &name("mtu"), nic.mtu, MTU_MAX);
    at_most(fields, &name("speedMbps"), nic.speed_mbps, SPEED_MAX);
    if nic.address.is_some_and(|address| address.is_multicast() || address.is_unspecified()) {
        fields.fail(&name("address"), "is no address of one server: it is multicast or unspecified");
    }
}

/// A scope is of the server itself: one of its devices or files.
fn own_scopes(fields: &mut Fields, field: &str, reasons: &[Reason]) {
    for (at, reason) in reasons.iter().enumerate() {
        let kind = reason.scope.split_once('/').map(|(kind, _)| kind);
        if kind.is_some_and(|kind| RESOURCES.contains(&kind)) {
            let text = "a node reports on its own devices and files, and on no other resource";
            fields.fail(&format!("{field}[{at}].scope"), text);
        }
    }
}

/// An inventory as a node's agent reports it.
///
/// # Errors
/// Every field with a value that no server has, that is too long, or that speaks of another resource.
pub fn reported_inventory(wire: v1::Inventory) -> Result<Inventory, FieldErrors> {
    let mut fields = Fields::default();
    for (field, count) in [("gpus", wire.gpus.len()), ("nics", wire.nics.len())] {
        at_most(&mut fields, field, count, DEVICES_MAX);
    }
    if !fields.is_empty() {
        return fields.finish(None);
    }
    let inventory = Inventory::try_from(wire)?;
    inventory.gpus.iter().enumerate().for_each(|(at, one)| gpu(&mut fields, at, one));
    inventory.nics.iter().enumerate().for_each(|(at, one)| nic(&mut fields, at, one));
    at_most(&mut fields, "cpus", inventory.cpus, CPUS_MAX);
    at_most(&mut fields, "numaNodes", inventory.numa_nodes, CPUS_MAX);
    at_most(&mut fields, "memoryBytes", inventory.memory_bytes, MEMORY_MAX);
    own_scopes(&mut fields, "findings", &inventory.findings);
    own_scopes(&mut fields, "changes", &inventory.changes);
    fields.finish(Some(inventory))
}

/// The text as one printable line of at most `most` bytes: control characters become spaces, the rest is cut off.
fn line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most));
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > most {
            break;
        }
        line.push(c);
    }
    line
}

fn bounded_cause(cause: Reason) -> Reason {
    let letters = cause.code.as_str().chars().filter(char::is_ascii_alphanumeric);
    let code: String = letters.take(CODE_MAX).collect();
    Reason {
        code: ReasonCode::from_text(&code),
        message: line(&cause.message, MESSAGE_MAX),
        count: cause.count,
        scope: line(&cause.scope, SCOPE_MAX),
        since: cause.since,
        // Who may know what is the controller's to say, and no agent's.
        named: None,
    }
}

fn bounded_result(mut result: RunResult) -> RunResult {
    let numbers = [
        &mut result.time_us_min,
        &mut result.time_us_median,
        &mut result.time_us_max,
        &mut result.alg_bw_gbps,
        &mut result.bus_bw_gbps,
    ];
    for number in numbers {
        if !number.is_finite() || *number < 0.0 {
            *number = 0.0;
        }
    }
    result.rails.truncate(MAX_REPORTS);
    result
}

/// What a server uses, as its agent reports it at a time. What is too much is cut; which jobs it concerns, others say.
///
/// # Errors
/// A job's uid that is none.
pub fn reported_usage(wire: v1::ServerUsage, time: Timestamp) -> Result<ServerUsage, FieldErrors> {
    let mut fields = Fields::default();
    let cpus = wire.cpus.min(CPUS_MAX);
    let most = u64::from(cpus).saturating_mul(1000);
    let mut attempts = BTreeMap::new();
    for (at, one) in wire.attempts.into_iter().enumerate().take(ATTEMPTS_MAX) {
        let uid = fields.take(&format!("attempts[{at}].jobUid"), one.job_uid.parse::<JobUid>());
        let usage = AttemptUsage {
            cpu_millis: one.cpu_millis.min(most),
            memory: one.memory_bytes.min(MEMORY_MAX),
            processes: one.processes,
        };
        attempts.extend(uid.map(|uid| ((uid, one.attempt), usage)));
    }
    let memory = wire.memory_bytes.min(MEMORY_MAX);
    fields.finish(Some(ServerUsage {
        time,
        cpu_millis: wire.cpu_millis.min(most),
        cpus,
        memory_used: wire.memory_used_bytes.min(memory),
        memory,
        attempts,
        notifications: wire.notifications.into_iter().take(MAX_REPORTS).map(notifications).collect(),
    }))
}

fn notifications(wire: v1::NicNotifications) -> (u32, NicNotifications) {
    (wire.rail, NicNotifications { sent: wire.sent, received: wire.received })
}

/// An observation as a node's agent reports it: every list and text within its bounds. Which of it concerns the node, the core says.
///
/// # Errors
/// A job's uid or a state that is none, or a time or an address that is none.
pub fn reported_observation(mut wire: v1::Observation) -> Result<Observation, FieldErrors> {
    wire.exits.truncate(EXITS_MAX);
    wire.endpoints.truncate(MAX_REPORTS);
    wire.rails.truncate(MAX_REPORTS);
    if let Some(measured) = &mut wire.measured {
        measured.unable = line(&measured.unable, MESSAGE_MAX);
    }
    let seen = Observation::try_from(wire)?;
    Ok(Observation { cause: seen.cause.map(bounded_cause), result: seen.result.map(bounded_result), ..seen })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(inventory: v1::Inventory) -> Vec<String> {
        let errors = reported_inventory(inventory).unwrap_err();
        errors.0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn what_no_server_has_is_refused_by_field() {
        let nic = |address: &str| v1::Nic {
            device: "rail0".into(),
            address: address.into(),
            mtu: 9000,
            speed_mbps: 400_000,
            ..v1::Nic::default()
        };
        let good = v1::Inventory { nics: vec![nic("10.0.0.1")], cpus: 512, ..v1::Inventory::default() };
        assert!(reported_inventory(good.clone()).is_ok());
        let fast =
            v1::Nic { speed_mbps: u64::MAX, mtu: 1 << 30, netdev: "x".repeat(200), ..nic("224.0.0.1") };
        let gpu = v1::Gpu { uuid: "u".repeat(4096), memory_bytes: u64::MAX, ..v1::Gpu::default() };
        let wrong = v1::Inventory { nics: vec![fast], gpus: vec![gpu], cpus: u32::MAX, ..good.clone() };
        let fields = [
            "gpus[0].uuid",
            "gpus[0].memoryBytes",
            "nics[0].netdev",
            "nics[0].mtu",
            "nics[0].speedMbps",
            "nics[0].address",
            "cpus",
        ];
        assert_eq!(refused(wrong), fields);
        let many = v1::Inventory { nics: vec![nic(""); 257], ..good.clone() };
        assert_eq!(refused(many), ["nics"]);
        let about =
            |scope: &str| v1::Reason { code: "Odd".into(), scope: scope.into(), ..v1::Reason::default() };
        let findings = vec![about("nic/mlx5_0"), about("/sys/class/net"), about("machine"), about("node/n2")];
        let foreign = v1::Inventory { findings, changes: vec![about("job/red/a")], ..good };
        assert_eq!(refused(foreign), ["findings[3].scope", "changes[0].scope"]);
    }

    #[test]
    fn the_end_of_an_attempt_is_cut_and_never_refused() {
        let cause = v1::Reason {
            code: "Engine\nLost".repeat(30),
            message: "ä\n".repeat(5000),
            scope: "node/".repeat(100),
            ..v1::Reason::default()
        };
        let wire = v1::Observation {
            job_uid: "00000000000000000000000000000001".into(),
            state: v1::observation::State::Ended.into(),
            exits: vec![
                v1::RankExit { time: Some(prost_types::Timestamp::default()), ..Default::default() };
                10_000
            ],
            rails: vec![v1::RailBytes::default(); 10_000],
            cause: Some(cause),
            result: Some(v1::CollectiveResult {
                bus_bw_gbps: f64::NAN,
                alg_bw_gbps: -1.0,
                rails: vec![v1::RailBytes::default(); 10_000],
                ..Default::default()
            }),
            ..v1::Observation::default()
        };
        let seen = reported_observation(wire).unwrap();
        let cause = seen.cause.unwrap();
        assert_eq!((seen.exits.len(), seen.rails.len()), (EXITS_MAX, MAX_REPORTS));
        assert!(cause.code.as_str().len() <= CODE_MAX && cause.scope.len() <= SCOPE_MAX);
        assert!(cause.message.len() <= MESSAGE_MAX && !cause.message.contains('\n'));
        let result = seen.result.unwrap();
        assert_eq!((result.bus_bw_gbps, result.alg_bw_gbps, result.rails.len()), (0.0, 0.0, MAX_REPORTS));
    }
}
