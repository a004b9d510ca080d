//! What must hold when everything has settled.

use std::collections::BTreeMap;

use controller_core::Key;
use controller_leader::keys;
use prost::Message as _;
use proto_wire::v1::{self, job_status::Phase};

use crate::{client::Tally, reader::Reader, wire::KeyValue};

/// A job as it is stored, and as a leader has it: name, uid, phase, revision of its last change.
pub type Row = (String, String, i32, u64);

/// Jobs as they are stored.
///
/// # Errors
/// A value that is no job.
pub fn stored(data: &[KeyValue]) -> Result<Vec<(v1::Job, u64)>, String> {
    let jobs = data.iter().filter(|kv| kv.key.starts_with(keys::JOBS.as_bytes()));
    let decoded = jobs.map(|kv| {
        let job = v1::Job::decode(kv.value.as_slice());
        let job = job.map_err(|error| format!("{} cannot be read: {error}", kv.key.escape_ascii()))?;
        Ok((job, u64::try_from(kv.mod_revision).unwrap_or(0)))
    });
    decoded.collect()
}

/// The same, to be compared.
#[must_use]
pub fn rows(jobs: &[(v1::Job, u64)]) -> Vec<Row> {
    let row = |(job, revision): &(v1::Job, u64)| {
        let metadata = job.metadata.clone().unwrap_or_default();
        let phase = job.status.as_ref().map_or(0, |status| status.phase);
        (metadata.name, metadata.uid, phase, *revision)
    };
    let mut rows: Vec<Row> = jobs.iter().map(row).collect();
    rows.sort();
    rows
}

/// Jobs as a leader has them.
#[must_use]
pub fn led(state: &controller_core::State) -> Vec<Row> {
    let row = |job: &std::sync::Arc<proto_model::Job>| {
        let revision = state.version(&Key::Job(job.id.clone())).unwrap_or(0);
        let wire = v1::Job::from(job.as_ref());
        let phase = wire.status.as_ref().map_or(0, |status| status.phase);
        (job.id.name.to_string(), job.uid.to_string(), phase, revision)
    };
    let mut rows: Vec<Row> = state.jobs(None).map(row).collect();
    rows.sort();
    rows
}

/// No acknowledged submit is lost, none is doubled, and what was acknowledged after it stays.
///
/// # Errors
/// The first that is wrong.
pub fn promises(reported: &Tally, jobs: &[(v1::Job, u64)]) -> Result<(), String> {
    let mut by_submit: BTreeMap<String, Vec<&v1::Job>> = BTreeMap::new();
    for (job, _) in jobs {
        let metadata = job.metadata.as_ref();
        let label = metadata.and_then(|metadata| metadata.labels.get("submit")).cloned().unwrap_or_default();
        by_submit.entry(label).or_default().push(job);
    }
    for (submit, made) in &by_submit {
        if made.len() > 1 {
            return Err(format!("the submit {submit} made {} jobs", made.len()));
        }
    }
    let uid = |job: &v1::Job| job.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default();
    let by_uid: BTreeMap<String, &v1::Job> = jobs.iter().map(|(job, _)| (uid(job), job)).collect();
    let mut kept = 0;
    for known in &reported.jobs {
        let found = by_uid.get(&known.uid);
        match (known.deleted, found) {
            (None, None) => {
                return Err(format!("{} was acknowledged as {} and is lost", known.request, known.name));
            }
            (Some(true), Some(_)) => return Err(format!("{} was deleted and is there again", known.name)),
            (_, None) => {}
            (_, Some(job)) => {
                kept += 1;
                let metadata = job.metadata.clone().unwrap_or_default();
                if metadata.name != known.name {
                    return Err(format!("{} was acknowledged as {}", metadata.name, known.name));
                }
                let phase = job.status.as_ref().map_or(Phase::Unspecified, v1::JobStatus::phase);
                if known.cancelled != (phase == Phase::Cancelled) {
                    return Err(format!(
                        "{}: cancelled {}, and it is {phase:?}",
                        known.name, known.cancelled
                    ));
                }
            }
        }
    }
    if kept != jobs.len() {
        return Err(format!("{} jobs are stored, of which {kept} were acknowledged", jobs.len()));
    }
    Ok(())
}

/// A reader's copy is what is stored; `None`: it is.
#[must_use]
pub fn differs(reader: &Reader, data: &[KeyValue]) -> Option<String> {
    let copy = reader.copy();
    if let Some(wrong) = &copy.wrong {
        return Some(format!("its watch told {wrong}"));
    }
    let ours = data.iter().filter(|kv| kv.key.starts_with(keys::ROOT.as_bytes()));
    let mut count = 0;
    for kv in ours {
        count += 1;
        let revision = u64::try_from(kv.mod_revision).unwrap_or(0);
        match copy.rows.get(kv.key.as_slice()) {
            Some((at, value)) if *at == revision && *value == kv.value => {}
            Some((at, _)) => return Some(format!("{} is of {at}, not {revision}", kv.key.escape_ascii())),
            None => return Some(format!("{} of {revision} is missing", kv.key.escape_ascii())),
        }
    }
    (copy.rows.len() != count).then(|| format!("{} keys, {count} are stored", copy.rows.len()))
}
