//! Arrays: jobs that one submit made, named, waited for and reported together.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_wire::v1::{self, job_event, job_status::Phase};

use super::{
    due::Pace,
    progress::{Progress, Seldom, ended, within},
    watch::{Resumer, open},
};
use crate::{
    client::{Api, JobRef, PAGE, elements},
    error::Error,
    output::now,
};

/// What a name of a job stands for.
pub enum Named {
    /// A job, or one element of an array.
    Job(Box<v1::Job>),
    /// An array, or some of its elements, by their index.
    Array(Array),
}

/// Some or all elements of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Tenant and name of the array.
    pub of: JobRef,
    /// Those of its elements that are meant and known, by index.
    pub jobs: Vec<v1::Job>,
}

/// Of which array a job is an element.
pub fn place(job: &v1::Job) -> Option<&v1::ArrayPlace> {
    job.status.as_ref()?.array.as_ref().filter(|place| !place.array.is_empty())
}

/// The array that a job is an element of.
pub fn array_of(job: &v1::Job) -> Option<JobRef> {
    Some(JobRef { tenant: JobRef::of(job).tenant, name: place(job)?.array.clone() })
}

/// By tenant and name; elements of an array in the order of their indices, where the array's name would stand.
pub fn in_order(jobs: &mut [v1::Job]) {
    jobs.sort_by_cached_key(order);
}

/// Where a job stands among others ([`in_order`]): tenant, array or name, index, name.
pub fn order(job: &v1::Job) -> (String, String, u32, String) {
    let JobRef { tenant, name } = JobRef::of(job);
    match place(job) {
        Some(place) => (tenant, place.array.clone(), place.index, name),
        None => (tenant, name.clone(), 0, name),
    }
}

/// The indices of a list such as 3,7-9; none stands for all.
fn indices(text: &str, list: &str) -> Result<BTreeSet<u32>, Error> {
    if list.is_empty() {
        return Ok(BTreeSet::new());
    }
    let parsed = proto_model::ArraySpec::new(list);
    let parsed = parsed.map_err(|error| Error::Usage(format!("`{text}`: {error}")))?;
    if parsed.at_once > 0 {
        return Err(Error::Usage(format!("`{text}`: `%` is for submits; name elements as in [3,7-9]")));
    }
    Ok(parsed.indices.into_iter().collect())
}

/// The elements of an array that is there, by index; `None`: there is no such array.
async fn all(of: &JobRef, api: &Api) -> Result<Option<Array>, Error> {
    let mut jobs = api.list_elements(of).await?.jobs;
    // A controller of an earlier release knows no arrays and lists every job.
    jobs.retain(|job| place(job).is_some_and(|place| place.array == of.name));
    in_order(&mut jobs);
    let of = jobs.first().and_then(array_of);
    Ok(of.map(|of| Array { of, jobs }))
}

/// What is meant by NAME, or by NAME[3,7-9].
///
/// # Errors
/// [`Error::Usage`] if the text is not a job; [`Error::Rpc`] if the controller refuses or does not answer, or if an element that is named
/// is not there.
pub async fn find(text: &str, api: &Api) -> Result<Named, Error> {
    let (name, list) = elements(text)?;
    let wanted = indices(text, &list)?;
    let of = api.job_ref(name);
    if wanted.is_empty() {
        return match api.get_job(&of).await {
            Ok(job) => Ok(Named::Job(Box::new(job))),
            Err(error) if error.is_not_found() => match all(&of, api).await? {
                Some(array) => Ok(Named::Array(array)),
                None => Err(nearest(&of, error, api).await),
            },
            Err(error) => Err(error),
        };
    }
    let Some(mut array) = all(&of, api).await? else {
        return Err(Error::NotFound(format!("there is no array `{of}`")));
    };
    let known: BTreeSet<u32> = array.jobs.iter().filter_map(|job| Some(place(job)?.index)).collect();
    if let Some(missing) = wanted.iter().find(|index| !known.contains(index)) {
        let (first, last) = (known.first().copied().unwrap_or(0), known.last().copied().unwrap_or(0));
        let count = known.len();
        return Err(Error::NotFound(format!(
            "array `{of}` has no element {missing}; it has {count} from {first} to {last}"
        )));
    }
    array.jobs.retain(|job| place(job).is_some_and(|place| wanted.contains(&place.index)));
    match <[v1::Job; 1]>::try_from(array.jobs) {
        Ok([job]) => Ok(Named::Job(Box::new(job))),
        Err(jobs) => Ok(Named::Array(Array { of: array.of, jobs })),
    }
}

/// Tells which name was probably meant, by those of the jobs that one short request lists.
async fn nearest(of: &JobRef, mut error: Error, api: &Api) -> Error {
    let request = v1::ListJobsRequest { tenant: of.tenant.clone(), page_size: PAGE, ..Default::default() };
    let Ok(page) = api.jobs().list_jobs(request).await else { return error };
    let names = page.into_inner().jobs.into_iter().map(|job| JobRef::of(&job).name);
    let near = names
        .map(|name| (strsim::damerau_levenshtein(&name, &of.name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1.max(name.len() / 4));
    if let (Error::Rpc { error, .. }, Some((_, name))) = (&mut error, near) {
        error.message.push_str(&format!("; did you mean '{name}'?"));
    }
    error
}

/// One job; of an array an element must be named.
///
/// # Errors
/// As [`find`]; [`Error::Usage`] if the text stands for several elements.
pub async fn one(text: &str, api: &Api) -> Result<v1::Job, Error> {
    match find(text, api).await? {
        Named::Job(job) => Ok(*job),
        Named::Array(array) => {
            let first = array.jobs.first().and_then(place).map_or(0, |place| place.index);
            Err(Error::Usage(format!(
                "`{text}` stands for {} elements of an array; name one of them, for example `{}[{first}]`",
                array.jobs.len(),
                array.of.name
            )))
        }
    }
}

/// How many of some jobs are how far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts(BTreeMap<i32, usize>);

impl Counts {
    /// Counts jobs by their phase.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a v1::Job>) -> Self {
        let mut counts = BTreeMap::new();
        for job in jobs {
            *counts.entry(job.status.as_ref().map_or(0, |status| status.phase)).or_default() += 1;
        }
        Self(counts)
    }

    fn in_phase(&self, phase: Phase) -> usize {
        self.0.get(&phase.into()).copied().unwrap_or(0)
    }

    /// Those that have ended, of whatever kind.
    pub fn ended(&self) -> usize {
        [Phase::Completed, Phase::Failed, Phase::Cancelled]
            .into_iter()
            .map(|phase| self.in_phase(phase))
            .sum()
    }

    /// The counts in words: "2 Running, 1 Failed".
    pub fn words(&self) -> String {
        let part = |(phase, count): (&i32, &usize)| format!("{count} {}", crate::render::job_phase(*phase));
        self.0.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// Failures that are shown in words.
const FAILURES: usize = 5;

/// The first that failed, each with why: "sweep[3]: RankExited: rank 0 ended with 1".
pub fn failures(jobs: &[v1::Job]) -> Vec<String> {
    let failed = |job: &&v1::Job| job.status.as_ref().is_some_and(|status| status.phase() == Phase::Failed);
    let all: Vec<&v1::Job> = jobs.iter().filter(failed).collect();
    let line = |job: &&v1::Job| {
        let reasons = job.status.iter().flat_map(|status| &status.reasons);
        let reasons: Vec<String> = reasons.map(|one| format!("{}: {}", one.code, one.message)).collect();
        let name =
            place(job).map_or_else(|| JobRef::of(job).name, |at| format!("{}[{}]", at.array, at.index));
        format!(
            "{name}: {}",
            if reasons.is_empty() { "no reason is known".to_owned() } else { reasons.join("; ") }
        )
    };
    let mut lines: Vec<String> = all.iter().take(FAILURES).map(line).collect();
    if all.len() > FAILURES {
        lines.push(format!("and {} more", all.len() - FAILURES));
    }
    lines
}

/// Waits until every one of these elements has ended, and gives them. A timeout or Ctrl-C leaves them as they are.
///
/// # Errors
/// [`Error::Timeout`] after `limit`; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn until_ended(api: &Api, array: &Array, limit: Option<Duration>) -> Result<Vec<v1::Job>, Error> {
    let of = &array.of;
    let hint = format!("; `railctl cancel {of}` ends it");
    let wait = async { follow(api, array, &Progress::new()).await };
    within(&format!("array {of}"), &hint, limit, wait).await
}

/// By uid: another array may take the name meanwhile. What is deleted on the way has ended before.
async fn follow(api: &Api, array: &Array, progress: &Progress) -> Result<Vec<v1::Job>, Error> {
    let uid = |job: &v1::Job| job.metadata.clone().unwrap_or_default().uid;
    let name = |job: &v1::Job| job.metadata.clone().unwrap_or_default().name;
    let mut jobs: BTreeMap<String, v1::Job> = array.jobs.iter().map(|job| (uid(job), job.clone())).collect();
    let mut waits: BTreeSet<String> =
        jobs.iter().filter(|(_, job)| !ended(job)).map(|(uid, _)| uid.clone()).collect();
    let (of, doing) = (&array.of, format!("wait for array `{}`", array.of));
    let mut resumer = Resumer::new(0);
    let (mut reported, mut pace) = (Seldom::new(progress), Pace::default());
    while !waits.is_empty() {
        let request = v1::WatchJobsRequest {
            tenant: of.tenant.clone(),
            array: of.name.clone(),
            after_revision: resumer.revision,
            ..v1::WatchJobsRequest::default()
        };
        let mut seen = BTreeSet::new();
        let anew = resumer.revision == 0;
        let mut synced = !anew;
        let lost = match open(api, request).await {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                if waits.is_empty() {
                    break None;
                }
                match stream.message().await {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        let kind = event.r#type();
                        resumer.arrived(event.revision, kind == job_event::Type::Synced);
                        // Those that are not among what is there were deleted before.
                        if kind == job_event::Type::Synced && anew {
                            waits.retain(|uid| seen.contains(uid));
                        }
                        if let Some(job) = event.job {
                            let uid = uid(&job);
                            if kind == job_event::Type::Delete && uid.is_empty() {
                                // It is not known what it was: none of its name is there any more.
                                waits.retain(|uid| {
                                    jobs.get(uid).is_none_or(|known| name(known) != name(&job))
                                });
                            } else if ended(&job) || kind == job_event::Type::Delete {
                                waits.remove(&uid);
                            }
                            seen.insert(uid.clone());
                            if let Some(known) = jobs.get_mut(&uid) {
                                *known = job;
                            }
                        }
                        synced |= kind == job_event::Type::Synced;
                        let counts = Counts::of(jobs.values());
                        let text =
                            format!("{} of {} have ended: {}", counts.ended(), jobs.len(), counts.words());
                        if synced {
                            progress.expect(pace.due(counts.ended(), jobs.len(), now()));
                            reported.say(text, waits.is_empty());
                        }
                    }
                }
            },
        };
        if !waits.is_empty() {
            resumer.lost(&doing, lost).await?;
        }
    }
    let mut jobs: Vec<v1::Job> = jobs.into_values().collect();
    in_order(&mut jobs);
    Ok(jobs)
}

/// What elements that have ended mean for the exit code.
///
/// # Errors
/// [`Error::ArrayEnded`] unless all elements have completed.
pub fn verdict(of: &JobRef, jobs: &[v1::Job]) -> Result<(), Error> {
    let counts = Counts::of(jobs);
    // One that was deleted unseen has no last phase that is known: that is no success.
    let bad = jobs.len() - counts.in_phase(Phase::Completed);
    if bad == 0 {
        return Ok(());
    }
    let lines = failures(jobs);
    let because = if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) };
    Err(Error::ArrayEnded { array: of.to_string(), bad, all: jobs.len(), words: counts.words(), because })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(index: u32, phase: Phase) -> v1::Job {
        let name = format!("sweep-{index}");
        let array = Some(v1::ArrayPlace { array: "sweep".into(), index, size: 12 });
        let reason = v1::Reason {
            code: "RankExited".into(),
            message: "rank 0 ended with 1".into(),
            ..Default::default()
        };
        let reasons = if phase == Phase::Failed { vec![reason] } else { Vec::new() };
        v1::Job {
            metadata: Some(v1::Metadata { name, tenant: "t".into(), ..Default::default() }),
            status: Some(v1::JobStatus { phase: phase.into(), array, reasons, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn elements_stand_in_the_order_of_their_numbers() {
        let plain = v1::Job {
            metadata: Some(v1::Metadata { name: "sweeper".into(), tenant: "t".into(), ..Default::default() }),
            ..Default::default()
        };
        let mut jobs =
            vec![plain, element(10, Phase::Pending), element(2, Phase::Pending), element(1, Phase::Pending)];
        in_order(&mut jobs);
        let names: Vec<String> = jobs.iter().map(|job| JobRef::of(job).name).collect();
        assert_eq!(names, ["sweep-1", "sweep-2", "sweep-10", "sweeper"]);
    }

    #[test]
    fn an_array_has_failed_if_any_of_it_has() {
        let of = JobRef { tenant: "t".into(), name: "sweep".into() };
        let good: Vec<v1::Job> = (0..3).map(|index| element(index, Phase::Completed)).collect();
        assert!(verdict(&of, &good).is_ok());
        let mut lost = good.clone();
        lost.push(element(3, Phase::Running));
        assert!(verdict(&of, &lost).is_err(), "one that vanished while it was waited for");
        let mixed: Vec<v1::Job> = (0..12)
            .map(|index| element(index, if index < 5 { Phase::Completed } else { Phase::Failed }))
            .collect();
        let error = verdict(&of, &mixed).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 1);
        assert!(text.starts_with("7 of the 12 elements of array t/sweep did not complete (5 Completed, 7 Failed): sweep[5]: RankExited"), "{text}");
        assert!(text.ends_with("and 2 more"), "{text}");
        assert_eq!(
            (Counts::of(&mixed).ended(), Counts::of(&mixed).words()),
            (12, "5 Completed, 7 Failed".to_owned())
        );
    }

    #[test]
    fn elements_are_named_by_lists_of_indices() {
        assert!(indices("a", "").unwrap().is_empty());
        assert_eq!(indices("a", "3,7-9").unwrap().into_iter().collect::<Vec<_>>(), [3, 7, 8, 9]);
        assert!(indices("a", "x").is_err() && indices("a", "1-3%2").is_err());
    }
}
