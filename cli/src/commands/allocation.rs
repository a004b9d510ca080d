//! Servers that are held: asked for, waited for, and released whatever happens.

use std::time::Duration;

use proto_wire::v1::{self, job_spec::Work, job_status::Phase};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{cancel, progress, wait};
use crate::{
    args::Sizing,
    client::{Api, JobRef, repeat},
    documents::Source,
    error::Error,
};

/// What an allocation without a name is called.
const PREFIX: &str = "alloc-";

/// An allocation that runs.
#[derive(Debug)]
pub struct RunningAllocation {
    /// Tenant and name of the job that holds the servers.
    pub name: JobRef,
    /// As it was when it began to run.
    pub job: v1::Job,
}

/// Signals that end what railctl does.
#[derive(Debug)]
pub struct Ending {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Ending {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// [`Error::Config`] if the process cannot listen to signals.
    pub fn listen() -> Result<Self, Error> {
        Ok(Self {
            interrupt: listen_to(SignalKind::interrupt())?,
            terminate: listen_to(SignalKind::terminate())?,
            hangup: listen_to(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of these signals.
    pub async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}

/// Signals of one kind, from now on.
///
/// # Errors
/// [`Error::Config`] if the process cannot listen to signals.
pub fn listen_to(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|error| Error::Config(format!("cannot listen to signals: {error}")))
}

/// What a signal that ended railctl makes of its exit code.
pub fn code_of(kind: SignalKind) -> u8 {
    u8::try_from(kind.as_raw_value()).map_or(u8::MAX, |signal| 128 + signal)
}

/// The job that holds what is asked for.
///
/// # Errors
/// [`Error::File`] or [`Error::Document`] if the file cannot be read or holds no job; [`Error::Usage`] if file and options contradict each
/// other.
pub fn job_of(sizing: &Sizing, nodes: Option<u32>) -> Result<v1::Job, Error> {
    let mut job = match &sizing.file {
        Some(file) => Source::open(file)?.job()?,
        None => v1::Job::default(),
    };
    let metadata = job.metadata.get_or_insert_default();
    match &sizing.name {
        Some(name) => {
            metadata.name.clone_from(name);
            metadata.generate_name.clear();
        }
        None if metadata.name.is_empty() && metadata.generate_name.is_empty() => {
            PREFIX.clone_into(&mut metadata.generate_name);
        }
        None => {}
    }
    let spec = job.spec.get_or_insert_default();
    // What the file would run is not run; steps find its environment and begin where it would.
    let mut held = match spec.work.take() {
        Some(Work::Command(command)) => v1::Allocation {
            env: command.env,
            working_dir: command.working_dir,
            env_hidden: command.env_hidden,
            env_from: command.env_from,
        },
        Some(Work::Allocation(held)) => held,
        Some(Work::Collective(_)) | None => v1::Allocation::default(),
    };
    held.env_from.extend(sizing.env_from.iter().cloned());
    spec.work = Some(Work::Allocation(held));
    if !spec.array.is_empty() {
        return Err(Error::Usage("an allocation is one job, and this file asks for an array".to_owned()));
    }
    let gang = spec.gang.get_or_insert_default();
    // The ranks that hold the servers do nothing: one on each is enough.
    gang.ranks_per_node = 1;
    if let Some(nodes) = nodes {
        (gang.nodes, gang.min_nodes) = (nodes, 0);
    }
    gang.nodes = gang.nodes.max(1);
    gang.gpus_per_node = sizing.gpus_per_node.unwrap_or(gang.gpus_per_node);
    if sizing.no_rails {
        spec.rails = Some(v1::RailRequest { none: true, ..v1::RailRequest::default() });
    }
    if let Some(limit) = sizing.time_limit {
        spec.time_limit = Some(cancel::duration(limit)?);
    }
    for (given, field) in [
        (&sizing.queue, &mut spec.queue),
        (&sizing.service_class, &mut spec.service_class),
        (&sizing.reservation, &mut spec.reservation),
    ] {
        if let Some(given) = given {
            field.clone_from(given);
        }
    }
    sizing.asked.put(&mut job);
    Ok(job)
}

/// Submits it, and waits until its servers are held. It is released if that is given up.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::JobEnded`] or [`Error::Interrupted`] if the job ends before it
/// runs; [`Error::Exited`] if a signal ends the wait.
pub async fn hold(api: &Api, job: v1::Job, ending: &mut Ending) -> Result<RunningAllocation, Error> {
    let request = v1::CreateJobRequest {
        job: Some(job),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: api.tenant.clone(),
        ..v1::CreateJobRequest::default()
    };
    let made = repeat("allocate servers", |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.create_job(request).await }
    });
    let made = made.await?;
    let name = JobRef::of(&made);
    eprintln!("allocation {name} is submitted");
    let uid = made.metadata.clone().unwrap_or_default().uid;
    let waited = tokio::select! {
        waited = wait::until_running(api, &name, &uid) => waited,
        kind = ending.next() => Err(Error::Exited(code_of(kind))),
    };
    match waited {
        Ok(job) if progress::ended(&job) => wait::verdict(&job).and(Err(Error::Interrupted)),
        Ok(job) => {
            eprintln!("allocation {name} holds {}", nodes_of(&job).join(","));
            Ok(RunningAllocation { name, job })
        }
        Err(error) => {
            release(api, &name).await;
            Err(error)
        }
    }
}

/// Names of the servers that the job holds.
pub fn nodes_of(job: &v1::Job) -> Vec<String> {
    let placement = job.status.as_ref().and_then(|status| status.placement.as_ref());
    placement.iter().flat_map(|place| &place.nodes).map(|place| place.node.clone()).collect()
}

/// Gives the servers back. What cannot be done is said, with what does it.
pub async fn release(api: &Api, name: &JobRef) {
    let request =
        v1::CancelJobRequest { name: name.name.clone(), tenant: name.tenant.clone(), ..Default::default() };
    let released = repeat(format!("release allocation `{name}`"), |_| {
        let (mut client, request) = (api.within(Duration::from_secs(10)).jobs(), request.clone());
        async move { client.cancel_job(request).await }
    });
    match released.await {
        Ok(job) if progress::ended(&job) => {
            let phase = job.status.as_ref().map_or(Phase::Unspecified, v1::JobStatus::phase);
            eprintln!("allocation {name} has ended ({})", crate::render::job_phase(phase.into()));
        }
        Ok(_) => eprintln!("allocation {name} is released"),
        Err(Error::Rpc { error, .. }) if error.reason == "JOB_ENDED" => {
            eprintln!("allocation {name} has ended before");
        }
        Err(error) => {
            for line in error.lines() {
                eprintln!("{line}");
            }
            eprintln!("allocation {name} is not released; `railctl cancel {name}` does that");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_held_and_nothing_runs() {
        let sizing = Sizing {
            gpus_per_node: Some(8),
            time_limit: Some(Duration::from_secs(3600)),
            queue: Some("q".into()),
            ..Sizing::default()
        };
        let job = job_of(&sizing, Some(4)).unwrap();
        let spec = job.spec.unwrap();
        let gang = spec.gang.unwrap();
        assert_eq!((gang.nodes, gang.gpus_per_node, gang.ranks_per_node), (4, 8, 1));
        assert_eq!((spec.queue.as_str(), spec.time_limit.unwrap().seconds), ("q", 3600));
        assert_eq!(spec.work, Some(Work::Allocation(v1::Allocation::default())));
        assert_eq!(job.metadata.unwrap().generate_name, PREFIX);
        assert_eq!(job_of(&Sizing::default(), None).unwrap().spec.unwrap().gang.unwrap().nodes, 1);
    }

    #[test]
    fn a_file_gives_its_shape_and_its_environment() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("job.yaml");
        std::fs::write(
            &file,
            "apiVersion: rail/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  gang: {nodes: 3, gpusPerNode: 2}\n  \
             command: {argv: [train], env: {A: b}, workingDir: /w}\n",
        )
        .unwrap();
        let sizing = Sizing { file: Some(file), name: Some("mine".into()), ..Sizing::default() };
        let job = job_of(&sizing, None).unwrap();
        assert_eq!(job.metadata.unwrap().name, "mine");
        let spec = job.spec.unwrap();
        assert_eq!(spec.gang.unwrap().nodes, 3);
        let held = v1::Allocation {
            env: [("A".to_owned(), "b".to_owned())].into(),
            working_dir: "/w".into(),
            ..Default::default()
        };
        assert_eq!(spec.work, Some(Work::Allocation(held)));
    }
}
