//! Where everything lives in the store. The layout is a contract with stores that older releases wrote.

use bytes::Bytes;
use controller_core::Key;
use data_encoding::HEXLOWER;
use proto_audit::Log;
use proto_model::{
    JobId, LicenseName, NodeName, QueueName, ReservationName, ScheduleName, ServiceClassName, SwitchName,
    TenantName, ValuesId, ValuesKind, WebhookName,
};
use proto_rpc::Subject;

/// Everything of ours is under this.
pub const ROOT: &str = "/rail/v1/";
/// The leader key; its create revision is the epoch.
pub const LEADER: &str = "/rail/v1/leader";
/// The one fabric document.
pub const FABRIC: &str = "/rail/v1/fabric";
/// What is drained, `rail/<index>`, `leaf/<name>` or `node/<name>:<rail>`.
pub const DRAINS: &str = "/rail/v1/drains/";
/// The rollout of a profile of class of service.
pub const QOS: &str = "/rail/v1/qos";
/// The rollout to switches.
pub const SWITCH_ROLLOUT: &str = "/rail/v1/switch-rollout";
/// Prefix of jobs, which are at `<tenant>/<name>`.
pub const JOBS: &str = "/rail/v1/jobs/";
/// The controller's own records of running attempts, `<job uid>`; they hold secrets.
pub const ATTEMPTS: &str = "/rail/v1/attempts/";
/// Prefix of nodes, which are at `<name>`.
pub const NODES: &str = "/rail/v1/nodes/";
/// Prefix of tenants, which are at `<name>`.
pub const TENANTS: &str = "/rail/v1/tenants/";
/// Names of deleted tenants, `<name>`.
pub const RESTING_NAMES: &str = "/rail/v1/resting-names/";
/// What was deleted and can be brought back, `fabric/<name>` or `tenant/<name>`.
pub const TOMBSTONES: &str = "/rail/v1/tombstones/";
/// Prefix of queues, which are at `<tenant>/<name>`.
pub const QUEUES: &str = "/rail/v1/queues/";
/// Prefix of service classes, which are at `<name>`.
pub const SERVICE_CLASSES: &str = "/rail/v1/service-classes/";
/// Prefix of licenses, which are at `<name>`.
pub const LICENSES: &str = "/rail/v1/licenses/";
/// Prefix of switches, which are at `<name>`.
pub const SWITCHES: &str = "/rail/v1/switches/";
/// Prefix of reservations, which are at `<name>`.
pub const RESERVATIONS: &str = "/rail/v1/reservations/";
/// Prefix of schedules, which are at `<tenant>/<name>`.
pub const SCHEDULES: &str = "/rail/v1/schedules/";
/// Prefix of webhooks, which are at `<tenant>/<name>`.
pub const WEBHOOKS: &str = "/rail/v1/webhooks/";
/// Prefix of secrets, which are at `<tenant>/<name>`.
pub const SECRETS: &str = "/rail/v1/secrets/";
/// Prefix of configs, which are at `<tenant>/<name>`.
pub const CONFIGS: &str = "/rail/v1/configs/";
/// What waits to be sent by webhooks, `<tenant>/<name>/<number>`.
pub const DELIVERIES: &str = "/rail/v1/deliveries/";
/// What attempts of jobs held, `<job uid>/<attempt>`.
pub const USAGE: &str = "/rail/v1/usage/";
/// Prefix of the ids of requests that made a job, which are at `<tenant>/<id>`.
pub const REQUESTS: &str = "/rail/v1/requests/";
/// Prefix of join tokens, which are at `<hash>`, in hex.
pub const JOIN_TOKENS: &str = "/rail/v1/tokens/join/";
/// Prefix of API tokens, which are at `<id>`.
pub const USER_TOKENS: &str = "/rail/v1/tokens/user/";
/// What was taken back before its end, `node/<name>`, `tenant/<tenant>/user/<user>`, `admin/<user>` or `serial/<hex>`.
pub const REVOCATIONS: &str = "/rail/v1/revocations/";
/// Set once the first start has made what a new cluster needs.
pub const BOOTSTRAP: &str = "/rail/v1/bootstrap";
/// The decision log, one row per step, by number.
pub const DECISIONS: &str = "/rail/v1/decisions/";
/// The audit log of changes, one row of records under the number of its first one.
pub const AUDIT: &str = "/rail/v1/audit/";
/// The audit log of denials, likewise.
pub const DENIALS: &str = "/rail/v1/denials/";
/// The key that page tokens are sealed with, shared by all controllers.
pub const PAGE_KEY: &str = "/rail/v1/page-key";
/// What is under these holds secrets: keys of engines, what tenants put into the environment of a job or of a schedule's template,
/// secrets and configs of tenants, what webhooks sign with, what is kept of both of a deleted tenant, and the key of page tokens.
pub const SECRET: [&str; 8] = [JOBS, ATTEMPTS, SCHEDULES, SECRETS, CONFIGS, WEBHOOKS, TOMBSTONES, PAGE_KEY];
/// The id of the key that secret values are sealed with, 8 hex digits; absent where none ever was.
pub const SEAL: &str = "/rail/v1/seal";
/// Of which version the rows are, [`controller_rows::format`]; absent where that is the first one.
pub const FORMAT: &str = "/rail/v1/format";
/// Written to find out whether the store takes writes again.
pub const PROBE: &str = "/rail/v1/probe";

/// Whether a key says who leads or whether writes are taken: of no use in another store.
#[must_use]
pub fn is_of_the_process(key: &[u8]) -> bool {
    key == LEADER.as_bytes() || key == PROBE.as_bytes()
}

/// The store key of what a core's write concerns.
#[must_use]
pub fn of(key: &Key) -> Bytes {
    match key {
        Key::Job(id) => job(id),
        Key::Attempt(uid) => format!("{ATTEMPTS}{uid}").into(),
        Key::Node(name) => node(name),
        Key::Tenant(name) => tenant(name),
        Key::RestingName(name) => format!("{RESTING_NAMES}{name}").into(),
        Key::Tombstone(key) => format!("{TOMBSTONES}{key}").into(),
        Key::Queue(tenant, name) => queue(tenant, name),
        Key::ServiceClass(name) => service_class(name),
        Key::License(name) => license(name),
        Key::Switch(name) => switch(name),
        Key::Reservation(name) => reservation(name),
        Key::Schedule(tenant, name) => schedule(tenant, name),
        Key::Usage(uid, attempt) => format!("{USAGE}{uid}/{attempt:08x}").into(),
        Key::Values(id) => values(id),
        Key::Webhook(tenant, name) => webhook(tenant, name),
        Key::Delivery(tenant, name, seq) => format!("{DELIVERIES}{tenant}/{name}/{seq:016x}").into(),
        Key::Fabric => FABRIC.into(),
        Key::Qos => QOS.into(),
        Key::SwitchRollout => SWITCH_ROLLOUT.into(),
        Key::Drain(target) => format!("{DRAINS}{target}").into(),
        Key::Request(tenant, request) => format!("{REQUESTS}{tenant}/{request}").into(),
        Key::Decisions(seq) => format!("{DECISIONS}{seq:016x}").into(),
        Key::Audit(log, first) => audit(*log, *first),
        Key::AttachedWrite(key) => Bytes::copy_from_slice(key.as_bytes()),
        Key::Token(hash) => format!("{JOIN_TOKENS}{}", HEXLOWER.encode(hash)).into(),
    }
}

/// The key of a job.
#[must_use]
pub fn job(id: &JobId) -> Bytes {
    format!("{JOBS}{}/{}", id.tenant, id.name).into()
}

/// The prefix of a tenant's jobs; of all jobs for `None`.
#[must_use]
pub fn jobs_of(tenant: Option<&TenantName>) -> Bytes {
    tenant.map_or_else(|| JOBS.into(), |tenant| format!("{JOBS}{tenant}/").into())
}

/// The key of a node.
#[must_use]
pub fn node(name: &NodeName) -> Bytes {
    format!("{NODES}{name}").into()
}

/// The key of a tenant.
#[must_use]
pub fn tenant(name: &TenantName) -> Bytes {
    format!("{TENANTS}{name}").into()
}

/// The key of a queue.
#[must_use]
pub fn queue(tenant: &TenantName, name: &QueueName) -> Bytes {
    format!("{QUEUES}{tenant}/{name}").into()
}

/// The prefix of a tenant's queues; of all queues for `None`.
#[must_use]
pub fn queues_of(tenant: Option<&TenantName>) -> Bytes {
    tenant.map_or_else(|| QUEUES.into(), |tenant| format!("{QUEUES}{tenant}/").into())
}

/// The key of a schedule.
#[must_use]
pub fn schedule(tenant: &TenantName, name: &ScheduleName) -> Bytes {
    format!("{SCHEDULES}{tenant}/{name}").into()
}

/// The prefix of a tenant's schedules; of all schedules for `None`.
#[must_use]
pub fn schedules_of(tenant: Option<&TenantName>) -> Bytes {
    tenant.map_or_else(|| SCHEDULES.into(), |tenant| format!("{SCHEDULES}{tenant}/").into())
}

/// The key of a webhook.
#[must_use]
pub fn webhook(tenant: &TenantName, name: &WebhookName) -> Bytes {
    format!("{WEBHOOKS}{tenant}/{name}").into()
}

/// The prefix of a tenant's webhooks; of all webhooks for `None`.
#[must_use]
pub fn webhooks_of(tenant: Option<&TenantName>) -> Bytes {
    tenant.map_or_else(|| WEBHOOKS.into(), |tenant| format!("{WEBHOOKS}{tenant}/").into())
}

/// The key of a secret or a config.
#[must_use]
pub fn values(id: &ValuesId) -> Bytes {
    format!("{}{}/{}", values_prefix(id.kind), id.tenant, id.name).into()
}

/// The prefix of a tenant's secrets or configs; of those of all tenants for `None`.
#[must_use]
pub fn values_of(kind: ValuesKind, tenant: Option<&TenantName>) -> Bytes {
    let prefix = values_prefix(kind);
    tenant.map_or_else(|| prefix.into(), |tenant| format!("{prefix}{tenant}/").into())
}

fn values_prefix(kind: ValuesKind) -> &'static str {
    match kind {
        ValuesKind::Secret => SECRETS,
        ValuesKind::Config => CONFIGS,
    }
}

/// The prefix of an audit log's rows.
#[must_use]
pub fn audit_of(log: Log) -> &'static str {
    match log {
        Log::Changes => AUDIT,
        Log::Denials => DENIALS,
    }
}

/// The key of a row of an audit log by its first record.
#[must_use]
pub fn audit(log: Log, first: u64) -> Bytes {
    format!("{}{first:016x}", audit_of(log)).into()
}

/// A service class's key.
#[must_use]
pub fn service_class(name: &ServiceClassName) -> Bytes {
    format!("{SERVICE_CLASSES}{name}").into()
}

/// The key of a license.
#[must_use]
pub fn license(name: &LicenseName) -> Bytes {
    format!("{LICENSES}{name}").into()
}

/// The key of a switch.
#[must_use]
pub fn switch(name: &SwitchName) -> Bytes {
    format!("{SWITCHES}{name}").into()
}

/// The key of a reservation.
#[must_use]
pub fn reservation(name: &ReservationName) -> Bytes {
    format!("{RESERVATIONS}{name}").into()
}

/// The key of an API token by its public id.
#[must_use]
pub fn user_token(id: &str) -> Bytes {
    format!("{USER_TOKENS}{id}").into()
}

/// The key of a revocation.
#[must_use]
pub fn revocation(subject: &Subject) -> Bytes {
    format!("{REVOCATIONS}{subject}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prefix_hides_another() {
        let all = [
            LEADER,
            FABRIC,
            DRAINS,
            QOS,
            SWITCH_ROLLOUT,
            JOBS,
            ATTEMPTS,
            NODES,
            TENANTS,
            RESTING_NAMES,
            TOMBSTONES,
            QUEUES,
            SERVICE_CLASSES,
            LICENSES,
            SWITCHES,
            RESERVATIONS,
            SCHEDULES,
            SECRETS,
            CONFIGS,
            WEBHOOKS,
            DELIVERIES,
            USAGE,
            REQUESTS,
            JOIN_TOKENS,
            USER_TOKENS,
            REVOCATIONS,
            BOOTSTRAP,
            PROBE,
            SEAL,
            FORMAT,
            PAGE_KEY,
            DECISIONS,
            AUDIT,
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.starts_with(ROOT));
            for (other_at, other) in all.iter().enumerate() {
                assert!(at == other_at || !other.starts_with(one), "{one} hides {other}");
            }
        }
    }
}
