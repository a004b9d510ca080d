//! Usage records, looked at after each commit and in the end.

use std::collections::BTreeMap;

use controller_core::{Key, UsageKey, Write};

use crate::{etcd::Body, world::World};

use super::{Span, UsageTally, agree, recorded, summed};

impl World {
    /// A transaction was done: the attempts that end in it have their records in it.
    pub(crate) fn check_usage(&mut self, body: &Body, replaced: &[(usize, Option<Write>)]) {
        let before = replaced.iter().filter_map(|(_, old)| match old {
            Some(Write::PutJob(job)) => Some((job.uid, &**job)),
            _ => None,
        });
        let ended = self.checks.usage.follow(&body.transitions, body.time, &before.collect());
        let mut records: BTreeMap<UsageKey, Span> = BTreeMap::new();
        for (key, write) in &body.writes {
            match (key, write) {
                (_, Write::PutUsage(record)) => drop(records.insert(record.key(), recorded(record))),
                (Key::Usage(uid, attempt), _) => {
                    self.violated(format!("the usage record of {uid}.{attempt} is gone before its time"));
                }
                _ => {}
            }
        }
        for (key, span) in ended {
            let record = records.remove(&key);
            if !record.is_some_and(|record| agree(&span, &record)) {
                self.violated(format!("attempt {key:?} held {span:?}, and its record is {record:?}"));
            }
            if self.checks.usage.ended.insert(key, span).is_some() {
                self.violated(format!("attempt {key:?} has ended twice"));
            }
        }
        if let Some((key, record)) = records.first_key_value() {
            self.violated(format!("{key:?} has a usage record without an end: {record:?}"));
        }
    }

    /// All that is stored in the end, and what the controller that leads makes of it, beside what was seen.
    pub(crate) fn tally_usage(&self) -> UsageTally {
        let mut tally = UsageTally::default();
        let mut stored: BTreeMap<UsageKey, Span> = BTreeMap::new();
        for (write, _) in self.etcd.rows.values() {
            if let Write::PutUsage(record) = write {
                stored.insert(record.key(), recorded(record));
            }
        }
        for (key, seen) in &self.checks.usage.ended {
            let held = seen.ended.0 - seen.placed.0;
            let [gpus, ..] = seen.size.unwrap_or_default();
            tally.attempts += 1;
            tally.gpu_ms += gpus * held;
            match stored.remove(key) {
                None => tally.lost += 1,
                Some(record) => tally.wrong += u64::from(!agree(seen, &record)),
            }
        }
        tally.doubled = stored.len() as u64;
        let leader = self.leader().and_then(|leader| self.controllers[leader].state.as_deref());
        tally.gpu_ms_recorded = leader.map_or(0, summed);
        tally
    }
}
