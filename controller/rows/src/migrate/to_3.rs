//! Version 2 of the rows to version 3, which knows one kind more: usage records. All other rows are as they were. Without a number of its own a
//! program of version 2 would take the first usage record for a key that nobody of ours wrote, and advise to move it away.

use super::tables;

/// All tables of version 2. Builds between the releases wrote usage records beside them.
const TABLES: [&str; 33] = [
    "/rail/v1/attempts/",
    "/rail/v1/audit/",
    "/rail/v1/bootstrap",
    "/rail/v1/configs/",
    "/rail/v1/decisions/",
    "/rail/v1/deliveries/",
    "/rail/v1/denials/",
    "/rail/v1/drains/",
    "/rail/v1/fabric",
    "/rail/v1/jobs/",
    "/rail/v1/leader",
    "/rail/v1/licenses/",
    "/rail/v1/nodes/",
    "/rail/v1/page-key",
    "/rail/v1/probe",
    "/rail/v1/qos",
    "/rail/v1/queues/",
    "/rail/v1/requests/",
    "/rail/v1/reservations/",
    "/rail/v1/resting-names/",
    "/rail/v1/revocations/",
    "/rail/v1/schedules/",
    "/rail/v1/seal",
    "/rail/v1/secrets/",
    "/rail/v1/service-classes/",
    "/rail/v1/switch-rollout",
    "/rail/v1/switches/",
    "/rail/v1/tenants/",
    "/rail/v1/tokens/",
    "/rail/v1/tombstones/",
    "/rail/v1/usage/",
    "/rail/v1/webhooks/",
    "/rail/v1/format",
];

/// Whether a key is of version 2: its row is of version 3 as it is.
pub(super) fn knows(key: &[u8]) -> bool {
    tables::is_of(&TABLES, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_no_table_is_none() {
        assert!(
            knows(b"/rail/v1/jobs/t/a") && knows(b"/rail/v1/fabric") && knows(b"/rail/v1/switch-rollout")
        );
        for key in ["/rail/v1/odd", "/rail/v1/fabrics", "/rail/v1/job", "/other"] {
            assert!(!knows(key.as_bytes()), "{key}");
        }
    }
}
