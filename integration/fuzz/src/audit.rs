//! Exports of the audit log: every line is a record or refused, and what was read is written back to the same record; the
//! check of the chain ends, and takes nothing whose hashes do not fit.

use std::collections::BTreeMap;

use proto_audit::{Log, Record, Verifier};
use proto_manifest::{read_audit_line, write_audit_line};

/// Reads the bytes as an export, by a key that has signed everything.
pub fn run(data: &[u8]) {
    let mut verifier = Verifier::new(|_: &[u8], _: &[u8]| true);
    let mut sound = true;
    let mut before: BTreeMap<Log, Record> = BTreeMap::new();
    for (line, text) in (1..).zip(data.split(|byte| *byte == b'\n')) {
        let record = match read_audit_line(line, text) {
            Ok(record) => record,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let again = write_audit_line(&(&record).into()).unwrap_or_default();
        assert_eq!(read_audit_line(line, again.trim_end().as_bytes()), Ok(record.clone()));
        let taken = sound && verifier.take(&record).is_ok();
        if taken {
            assert_eq!(record.computed(), record.hash);
            let before = before.get(&record.log);
            assert!(
                before.is_none_or(|before| (before.seq + 1, before.hash) == (record.seq, record.previous))
            );
        }
        sound = taken;
        before.insert(record.log, record);
    }
    let (seen, end) = (verifier.so_far(), verifier.finish());
    assert!(end.is_err() || end == Ok(seen));
}
