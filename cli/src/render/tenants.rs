//! Lists of tenants, and of what was taken back from their users and others.

use proto_wire::v1;

use super::{Table, sharing::stamp, words::role};
use crate::confirm::counted;

/// A list of tenants.
#[must_use]
pub fn tenants(list: &[v1::Tenant]) -> Table {
    let mut table = Table::new(["TENANT", "GPUS", "USED", "JOBS", "ACTIVE", "DESCRIPTION"]);
    for tenant in list {
        let spec = tenant.spec.clone().unwrap_or_default();
        let status = tenant.status.unwrap_or_default();
        let quota = spec.quota.unwrap_or_default();
        let jobs = if quota.jobs == 0 { "server".to_owned() } else { quota.jobs.to_string() };
        table.row([
            tenant.metadata.clone().unwrap_or_default().name,
            quota.gpus.to_string(),
            status.gpus_used.to_string(),
            jobs,
            status.jobs_active.to_string(),
            spec.description,
        ]);
    }
    table
}

/// A list of tokens that were issued.
#[must_use]
pub fn tokens(list: &[v1::IssuedToken]) -> Table {
    let mut table = Table::new(["TOKEN", "TENANT", "USER", "ROLE", "ISSUED", "EXPIRES", "BY", "STATE"]);
    for one in list {
        table.row([
            one.id.clone(),
            one.tenant.clone(),
            one.user.clone(),
            role(one.role).to_owned(),
            stamp(one.issued.as_ref()),
            stamp(one.expires.as_ref()),
            one.issued_by.clone(),
            if one.revoked { "revoked" } else { "good" }.to_owned(),
        ]);
    }
    table
}

/// What is kept with something that was deleted, or has come back with it, counted.
#[must_use]
pub fn deleted_content(one: &v1::Deleted) -> Vec<String> {
    let counts = [
        counted(one.queues, "queue", "queues"),
        counted(one.schedules, "schedule", "schedules"),
        counted(one.webhooks, "webhook", "webhooks"),
        counted(one.reservations, "reservation", "reservations"),
        counted(one.service_classes, "service class", "service classes"),
        counted(one.nodes, "server", "servers"),
    ];
    counts.into_iter().flatten().collect()
}

/// A list of what can be brought back.
#[must_use]
pub fn deleted(list: &[v1::Deleted]) -> String {
    if list.is_empty() {
        return "nothing that was deleted can be brought back\n".to_owned();
    }
    let mut table = Table::new(["DELETED", "AT", "UNTIL", "BY", "WITH"]);
    for one in list {
        let mut with = deleted_content(one);
        with.extend(counted(one.left_out, "document that was not kept", "documents that were not kept"));
        table.row([
            format!("{}/{}", one.kind, one.name),
            stamp(one.delete_time.as_ref()),
            stamp(one.expire_time.as_ref()),
            one.deleted_by.clone(),
            with.join(", "),
        ]);
    }
    table.render("")
}

/// A list of revocations.
#[must_use]
pub fn revocations(list: &[v1::Revocation]) -> String {
    let mut table = Table::new(["REVOKED", "AT", "UNTIL", "BY", "REASON"]);
    for one in list {
        table.row([
            one.subject.clone(),
            stamp(one.revoked.as_ref()),
            stamp(one.expires.as_ref()),
            one.revoked_by.clone(),
            one.reason.clone(),
        ]);
    }
    table.render("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_tenants() {
        let tenant = v1::Tenant {
            metadata: Some(v1::Metadata { name: "nlp".into(), ..Default::default() }),
            spec: Some(v1::TenantSpec {
                quota: Some(v1::Quota { gpus: 16, ..v1::Quota::default() }),
                ..v1::TenantSpec::default()
            }),
            status: Some(v1::TenantStatus { gpus_used: 4, jobs_active: 1, ..v1::TenantStatus::default() }),
            ..Default::default()
        };
        let expected =
            "TENANT  GPUS  USED  JOBS    ACTIVE  DESCRIPTION\nnlp     16    4     server  1       -\n";
        assert_eq!(tenants(&[tenant]).render(""), expected);
    }

    #[test]
    fn a_table_of_revocations() {
        let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let one = v1::Revocation {
            subject: "node/n0".into(),
            reason: String::new(),
            revoked_by: "admin/root".into(),
            revoked: time(0),
            expires: time(86_400),
        };
        let expected = "REVOKED  AT                    UNTIL                 BY          REASON\n\
                        node/n0  1970-01-01T00:00:00Z  1970-01-02T00:00:00Z  admin/root  -\n";
        assert_eq!(revocations(&[one]), expected);
    }
}
