//! What is recorded, looked at after each commit.

use std::{collections::BTreeMap, sync::Arc};

use controller_core::{CoreError, Key, Reply, Write};
use proto_audit::{Content, Log, Record};
use proto_model::JobId;

use crate::{
    controller::{From, Stepped},
    etcd::Body,
    plant::Bug,
    world::World,
};

use super::Kind;

/// How many records a reply stands for, if that is certain.
fn expected(step: &Stepped) -> Option<u32> {
    match (step.kind, step.out.reply.as_ref()?) {
        (Kind::Denied, _) | (Kind::Delete, Ok(_)) | (_, Ok(Reply::Job { existed: false, .. })) => Some(1),
        (Kind::Submit | Kind::Repeated, Ok(_)) | (_, Err(_)) => Some(0),
        _ => None,
    }
}

fn reports_of(record: &Record, id: &JobId) -> bool {
    let Content::Change(change) = &record.content else { return false };
    change.object.kind == "job" && change.object.name == id.name.as_str()
}

impl World {
    /// A transaction was done: its records go on where the log was, and every job that comes or goes has one.
    pub(crate) fn check_audit(&mut self, body: &Body, replaced: &[(usize, Option<Write>)]) {
        let mut records: Vec<Arc<Record>> = Vec::new();
        let mut oldest: BTreeMap<Log, u64> = BTreeMap::new();
        for (_, write) in &body.writes {
            let Write::PutAudit(row) = write else { continue };
            for record in &row.records {
                let (last, head) = self.checks.recorded.last.get(&record.log).copied().unwrap_or_default();
                // While a cluster is furnished a row is written many times in one transaction.
                if body.epoch == 0 && record.seq <= last {
                    continue;
                }
                if (record.seq, record.previous) != (last + 1, head) {
                    self.violated(format!("audit record {} does not follow record {last}", record.seq));
                }
                self.checks.recorded.last.insert(record.log, (record.seq, record.hash));
                if let Some(call) = record.actor().and_then(|actor| actor.request.parse().ok()) {
                    *self.checks.recorded.calls.entry(call).or_default() += 1;
                }
                if let Content::Checkpoint(checkpoint) = &record.content {
                    oldest.insert(record.log, checkpoint.oldest);
                }
                records.push(Arc::clone(record));
            }
        }
        let dropped = body.writes.iter().find_map(|(_, write)| match write {
            Write::DeleteAudit(log, first) if *first >= oldest.get(log).copied().unwrap_or(0) => Some(*first),
            _ => None,
        });
        if let Some(first) = dropped {
            self.violated(format!("audit record {first} is dropped, and no checkpoint says so"));
        }
        for (at, old) in replaced {
            let (Key::Job(id), write) = &body.writes[*at] else { continue };
            let comes_or_goes = old.is_none() || write.is_delete();
            if comes_or_goes && !records.iter().any(|record| reports_of(record, id)) {
                self.violated(format!("job {id} comes or goes without an audit record"));
            }
        }
    }

    /// A client gets an answer: what it says was recorded, once, or nothing was to be recorded.
    pub(crate) fn report_client(&mut self, controller: usize, step: &mut Stepped) {
        let found = self.checks.recorded.calls.get(&step.call).copied().unwrap_or(0);
        let expected = if matches!(step.from, From::Client(..)) { expected(step) } else { None };
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            let kind = step.kind;
            self.violated(format!("a {kind:?} is told with {found} audit records instead of {expected}"));
        }
        let same = |error: &CoreError| {
            // What else comes of it is for its client to judge.
            matches!(error, CoreError::NameTaken { .. } | CoreError::RequestIdReused { .. })
        };
        if let (Kind::Repeated, Some(Err(error))) = (step.kind, &step.out.reply)
            && !same(error)
        {
            self.violated(format!("a repeated submit of a job that is there is refused: {error}"));
        }
        self.answer(controller, step.from, step.out.reply.take());
    }

    /// Records of a batch that could not be stored, for a planted bug that keeps them as the head of the chain.
    pub(crate) fn keep_head(&mut self, controller: usize, body: &Body) {
        if !self.bug(Bug::KeepAuditHead) {
            return;
        }
        let last = body.writes.iter().rev().find_map(|(_, write)| match write {
            Write::PutAudit(row) => row.records.last(),
            _ => None,
        });
        self.controllers[controller].lost_head = last.map(|record| record.hash);
    }

    /// What that bug writes next.
    pub(crate) fn spoil_head(&mut self, controller: usize, body: &mut Body) {
        let rows = body.writes.iter_mut().filter_map(|(_, write)| match write {
            Write::PutAudit(row) => Some(row),
            _ => None,
        });
        let mut head = None;
        for row in rows {
            let Some(mut previous) = head.or(self.controllers[controller].lost_head.take()) else { return };
            for record in &mut Arc::make_mut(row).records {
                let reported =
                    Record::new(record.log, record.seq, record.time_ms, previous, record.content.clone());
                previous = reported.hash;
                *record = Arc::new(reported);
            }
            head = Some(previous);
        }
    }
}
