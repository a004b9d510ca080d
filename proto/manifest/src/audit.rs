//! Exports of the audit log: one record per line, in canonical JSON.

use proto_audit::Record;
use proto_wire::v1;
use serde_json::Value;

use crate::{
    finding::Findings,
    registry::read_message,
    tree::Format,
    write::{WriteError, json_of},
};

/// Longest line of an export, in bytes.
pub const MAX_LINE: usize = 64 * 1024;

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LineError {
    /// The line is longer than any record.
    #[error("line {line} has {length} bytes; no record has more than {MAX_LINE}")]
    TooLong {
        /// Which line, from 1.
        line: u64,
        /// Bytes that the line has.
        length: usize,
    },
    /// No message of the schema; it says where and what.
    #[error("line {line}: {findings}")]
    Malformed {
        /// Which line, from 1.
        line: u64,
        /// What is wrong, with the place in the line.
        findings: Findings,
    },
    /// The line is a message of the schema, but not a record.
    #[error("line {line}: {cause}")]
    NoRecord {
        /// Which line, from 1.
        line: u64,
        /// What is wrong, in words.
        cause: String,
    },
}

/// One line of an export.
///
/// # Errors
/// It is no record. Whether the record is the right one is for `proto_audit::Verifier` to say.
pub fn read_audit_line(line: u64, text: &[u8]) -> Result<Record, LineError> {
    if text.len() > MAX_LINE {
        return Err(LineError::TooLong { line, length: text.len() });
    }
    let no_record = |cause: String| LineError::NoRecord { line, cause };
    let descriptor = proto_wire::descriptor_pool().get_message_by_name("rail.v1.AuditRecord");
    let descriptor =
        descriptor.ok_or_else(|| no_record("this program does not know the message".to_owned()))?;
    let message = read_message("export", text, Format::Json, &descriptor)
        .map_err(|findings| LineError::Malformed { line, findings })?;
    let wire: v1::AuditRecord = message.transcode_to().map_err(|error| no_record(error.to_string()))?;
    if wire.revision != 0 {
        return Err(no_record("revision: is in lists only; no hash is of it".to_owned()));
    }
    Record::try_from(wire).map_err(|error| no_record(error.to_string()))
}

/// A record as a line, with its end.
///
/// # Errors
/// The schema of this program is damaged.
pub fn write_audit_line(record: &v1::AuditRecord) -> Result<String, WriteError> {
    let descriptor = proto_wire::descriptor_pool().get_message_by_name("rail.v1.AuditRecord");
    let value = descriptor.map(|descriptor| json_of(&descriptor, record)).transpose()?;
    Ok(format!("{}\n", value.unwrap_or(Value::Null)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto_audit::{Actor, Content, Denial, Log};

    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_nothing_else_is() {
        let actor = Arc::new(Actor { who: "spiffe://rail/c/admin/a".into(), ..Actor::default() });
        let denial = Denial { actor, reason: "R".into(), detail: "d\n\"".into(), count: 2 };
        let record = Record::new(Log::Denials, 7, 1_700_000_000_120, [9; 32], Content::Denial(denial));
        let text = write_audit_line(&(&record).into()).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(read_audit_line(1, text.trim_end().as_bytes()).unwrap(), record);
        let more = text.replacen('{', "{\"revision\":\"4\",", 1);
        assert!(read_audit_line(3, more.as_bytes()).unwrap_err().to_string().starts_with("line 3: revision"));
        let unknown = text.replacen('{', "{\"note\":\"x\",", 1);
        assert!(matches!(read_audit_line(1, unknown.as_bytes()), Err(LineError::Malformed { .. })));
        for bad in ["", "{}", "[]", "nonsense", "{\"seq\":\"1\"}"] {
            assert!(read_audit_line(1, bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(matches!(read_audit_line(1, &vec![b' '; MAX_LINE + 1]), Err(LineError::TooLong { .. })));
    }
}
