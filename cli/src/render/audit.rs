//! The audit log as a table.

use proto_wire::v1::{self, audit_record::Content};

use super::Table;

/// A time in milliseconds since 1970, as RFC 3339.
#[must_use]
pub fn time(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    prost_types::Timestamp { seconds, nanos: 0 }.to_string()
}

/// The name that people know: of `spiffe://rail/<cluster>/admin/root` the end.
fn short(who: &str) -> &str {
    let rest = who.strip_prefix("spiffe://rail/").and_then(|rest| rest.split_once('/'));
    rest.map_or(who, |(_, rest)| rest)
}

/// A record's number: of a denial with a `d` before it, since each log counts for itself.
#[must_use]
pub fn audit_number(record: &v1::AuditRecord) -> String {
    let denial = record.log == i32::from(v1::AuditLog::Denials);
    format!("{}{}", if denial { "d" } else { "" }, record.seq)
}

fn row(record: &v1::AuditRecord, wide: bool) -> Vec<String> {
    let actor = |actor: &Option<v1::AuditActor>| actor.clone().unwrap_or_default();
    let (by, decision, what) = match &record.content {
        Some(Content::Change(change)) => {
            let tenant = if change.tenant.is_empty() { String::new() } else { format!("{}/", change.tenant) };
            let what = format!("{} {tenant}{}", change.kind, change.name);
            (actor(&change.actor), "allowed".to_owned(), what.trim_end().to_owned())
        }
        Some(Content::Denial(denial)) => {
            let times = if denial.count > 1 { format!(" x{}", denial.count) } else { String::new() };
            let what = if wide { denial.detail.clone() } else { denial.reason.clone() };
            (actor(&denial.actor), format!("denied{times}"), what)
        }
        Some(Content::Checkpoint(checkpoint)) => {
            let what = format!("checkpoint of epoch {}, kept from {}", checkpoint.epoch, checkpoint.oldest);
            (v1::AuditActor::default(), String::new(), what)
        }
        Some(Content::Resumed(resumed)) => {
            (v1::AuditActor::default(), String::new(), format!("resumed: {}", resumed.cause))
        }
        None => (v1::AuditActor::default(), String::new(), String::new()),
    };
    let at =
        record.time.map_or_else(String::new, |time| prost_types::Timestamp { nanos: 0, ..time }.to_string());
    let mut cells = vec![audit_number(record), at, short(&by.who).to_owned(), by.rpc, decision, what];
    if wide {
        let revision = if record.revision == 0 { String::new() } else { record.revision.to_string() };
        cells.extend([by.oidc_subject, by.source, by.request_id, by.trace_id, revision]);
    }
    cells
}

/// Records, one per line.
#[must_use]
pub fn audit(records: &[v1::AuditRecord], wide: bool) -> String {
    let mut table = if wide {
        let wide = [
            "SEQ", "TIME", "WHO", "CALL", "DECISION", "WHAT", "OIDC", "FROM", "REQUEST", "TRACE", "REVISION",
        ];
        Table::new(wide)
    } else {
        Table::new(["SEQ", "TIME", "WHO", "CALL", "DECISION", "WHAT"])
    };
    records.iter().for_each(|record| table.row(row(record, wide)));
    table.render("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_denials_read_well() {
        let actor = |who: &str, rpc: &str| {
            Some(v1::AuditActor { who: who.into(), rpc: rpc.into(), ..v1::AuditActor::default() })
        };
        let time = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 5_000_000 });
        let change = v1::AuditChange {
            actor: actor("spiffe://rail/c/admin/root", "CreateJob"),
            kind: "job".into(),
            name: "a".into(),
            tenant: "red".into(),
            version_before: 0,
        };
        let denial = v1::AuditDenial {
            actor: actor("anonymous", "GetJob"),
            reason: "NO_CREDENTIALS".into(),
            detail: "none".into(),
            count: 3,
        };
        let record = |seq, log: v1::AuditLog, content| v1::AuditRecord {
            seq,
            time,
            log: log.into(),
            content: Some(content),
            ..Default::default()
        };
        let records = [
            record(2, v1::AuditLog::Denials, Content::Denial(denial)),
            record(1, v1::AuditLog::Changes, Content::Change(change)),
        ];
        let text = audit(&records, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "d2   2027-01-15T08:00:00Z  anonymous   GetJob     denied x3  NO_CREDENTIALS");
        assert_eq!(lines[2], "1    2027-01-15T08:00:00Z  admin/root  CreateJob  allowed    job red/a");
        assert!(audit(&records, true).contains("REVISION"));
    }
}
