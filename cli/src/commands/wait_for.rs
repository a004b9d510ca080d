//! `wait`: until something is so of jobs or servers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use proto_wire::v1::{self, job_status::Phase, node_status};

use super::{
    array::{self, Named},
    drain, lookup,
    progress::ended,
    wait::{self, until},
};
use crate::{
    args::{Condition, Wait, WaitNoun},
    client::{Api, JobRef},
    error::Error,
    render,
};

/// `wait KIND NAME... --for CONDITION`.
///
/// # Errors
/// [`Error::Usage`] if nothing is named, or the condition is not one of the kind; [`Error::Timeout`] if it takes too long; [`Error::Rpc`]
/// if the controller refuses or does not answer.
pub async fn run(args: &Wait, api: &Api) -> Result<(), Error> {
    let names = args.noun.names(&args.names)?;
    if names.is_empty() {
        return Err(args.noun.which());
    }
    let of_jobs = args.noun.kind == WaitNoun::Job;
    let condition = args.condition.unwrap_or(if of_jobs { Condition::Completed } else { Condition::Ready });
    match (of_jobs, condition) {
        (true, Condition::Ready | Condition::Drained) => Err(Error::Usage(
            "jobs are waited for until they are started, ended, completed, failed, cancelled or deleted"
                .to_owned(),
        )),
        (true, _) => jobs(&names, condition, args.timeout, api).await,
        (false, Condition::Ready | Condition::Drained | Condition::Deleted) => {
            nodes(&names, condition, args.timeout, api).await
        }
        (false, _) => {
            Err(Error::Usage("servers are waited for until they are ready, drained or deleted".to_owned()))
        }
    }
}

/// Until something is so of all of these jobs, in one time for all of them.
///
/// # Errors
/// [`Error::Timeout`] after `limit`; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn jobs(
    names: &[String],
    condition: Condition,
    limit: Option<Duration>,
    api: &Api,
) -> Result<(), Error> {
    let begun = Instant::now();
    for name in names {
        job(name, condition, limit.map(|limit| limit.saturating_sub(begun.elapsed())), api).await?;
    }
    Ok(())
}

async fn job(name: &str, condition: Condition, limit: Option<Duration>, api: &Api) -> Result<(), Error> {
    let jobs = match array::find(name, api).await {
        Ok(Named::Job(job)) => vec![*job],
        Ok(Named::Array(array)) => array.jobs,
        Err(error) if condition == Condition::Deleted && error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let begun = Instant::now();
    for job in jobs {
        let (of, uid) = (JobRef::of(&job), job.metadata.unwrap_or_default().uid);
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let seen =
            until(api, &of, &uid, left, |job| holds(condition, job) || final_without(condition, job)).await;
        let job = match seen {
            Err(Error::Gone(_)) if condition == Condition::Deleted => continue,
            other => other?,
        };
        if !holds(condition, &job) {
            return wait::verdict(&job).and(Err(ended_otherwise(&job)));
        }
        let phase = job.status.as_ref().map_or(0, |status| status.phase);
        eprintln!("job {of} is {}", render::job_phase(phase));
    }
    Ok(())
}

/// It completed where it should have ended otherwise.
fn ended_otherwise(job: &v1::Job) -> Error {
    let phase = job.status.as_ref().map_or(0, |status| status.phase);
    Error::JobEnded {
        job: JobRef::of(job).to_string(),
        phase: render::job_phase(phase).to_owned(),
        because: String::new(),
    }
}

fn holds(condition: Condition, job: &v1::Job) -> bool {
    let status = job.status.clone().unwrap_or_default();
    match condition {
        Condition::Started => status.start_time.is_some(),
        Condition::Ended => ended(job),
        Condition::Completed => status.phase() == Phase::Completed,
        Condition::Failed => status.phase() == Phase::Failed,
        Condition::Cancelled => status.phase() == Phase::Cancelled,
        Condition::Deleted | Condition::Ready | Condition::Drained => false,
    }
}

/// It can become so no more.
fn final_without(condition: Condition, job: &v1::Job) -> bool {
    ended(job) && condition != Condition::Deleted
}

async fn nodes(
    names: &[String],
    condition: Condition,
    limit: Option<Duration>,
    api: &Api,
) -> Result<(), Error> {
    let names = lookup::node_names(names)?;
    if condition == Condition::Drained {
        for name in &names {
            lookup::node(name, api).await?;
        }
    }
    let is_so = |node: Option<&v1::Node>| match condition {
        // One that has not joined yet is waited for.
        Condition::Ready => node
            .and_then(|node| node.status.as_ref())
            .is_some_and(|status| status.phase() == node_status::Phase::Ready),
        Condition::Drained => drain::is_empty(node),
        _ => node.is_none(),
    };
    let words = |waiting: &BTreeMap<String, Option<v1::Node>>| {
        let names = |there: bool| {
            let some = waiting.iter().filter(|(_, node)| node.is_some() == there);
            some.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        match (names(true).as_slice(), names(false).as_slice()) {
            (there, []) => format!("waiting for {}", drain::folded(there)),
            ([], absent) => format!("waiting for {}, which has not joined", drain::folded(absent)),
            (there, absent) => {
                let (there, absent) = (drain::folded(there), drain::folded(absent));
                format!("waiting for {there}, and for {absent}, which has not joined")
            }
        }
    };
    drain::until("waiting for servers", &names, limit, api, is_so, words).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{pending_job, running_job};

    #[test]
    fn a_condition_is_so_or_will_never_be() {
        let mut failed = running_job();
        failed.status.get_or_insert_default().phase = Phase::Failed.into();
        for (condition, pending, running, ended) in [
            (Condition::Started, (false, false), (true, false), (true, true)),
            (Condition::Ended, (false, false), (false, false), (true, true)),
            (Condition::Completed, (false, false), (false, false), (false, true)),
            (Condition::Failed, (false, false), (false, false), (true, true)),
            (Condition::Deleted, (false, false), (false, false), (false, false)),
        ] {
            let of = |job: &v1::Job| (holds(condition, job), final_without(condition, job));
            assert_eq!(of(&pending_job()), pending, "{condition:?}");
            assert_eq!(of(&running_job()), running, "{condition:?}");
            assert_eq!(of(&failed), ended, "{condition:?}");
        }
        assert_eq!(ended_otherwise(&failed).exit_code(), 1);
    }
}
