//! Clients: they submit with request ids until they know what became of it, cancel, delete and read; and hold the
//! controllers to what they were answered.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use integration_sim::rng::Rng;
use proto_rpc::{Client, ClientOptions, Credentials, Endpoint};
use proto_wire::v1::{self, job_service_client::JobServiceClient, job_status::Phase};
use tonic::{Code, Status};

use crate::{controller::PORT, net, plant::Bug, record::Record};

/// Longest wait for an answer.
const DEADLINE: Duration = Duration::from_millis(1500);
/// Without a sign of life a connection is given up.
const SILENCE: Duration = Duration::from_millis(400);

/// A job as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What the client named the submit.
    pub request: String,
    /// What the controller named the job.
    pub name: String,
    /// The uid that the controller gave the job.
    pub uid: String,
    /// The cancel was acknowledged.
    pub cancelled: bool,
    /// A deletion was asked for; true once it was acknowledged.
    pub deleted: Option<bool>,
}

/// What the clients have been answered.
#[derive(Clone, Default)]
pub struct ReportedState(Arc<Mutex<Tally>>);

/// The sums of it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Jobs whose submit was acknowledged.
    pub jobs: Vec<Known>,
    /// Submits that were made, and that nothing is known of yet.
    pub open: u64,
    /// Calls, repeated ones too.
    pub calls: u64,
    /// Clients that have done all they wanted.
    pub done: usize,
}

impl ReportedState {
    /// Locks the sums of all clients.
    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client and what it will do.
pub struct Script {
    /// Its host, and its number there.
    pub name: String,
    /// The names of the controllers' hosts.
    pub controllers: Vec<String>,
    /// What draws the things that it does, and their times.
    pub rng: Rng,
    /// How many submits it makes.
    pub submits: u64,
    /// Milliseconds between two things that it does, at most.
    pub think_ms: u64,
    /// Where it counts the answers that it got.
    pub reported: ReportedState,
    /// The record of the run.
    pub record: Record,
    /// The planted bug, if there is one.
    pub bug: Option<Bug>,
}

type Jobs = JobServiceClient<Client>;

impl Script {
    /// Does all of it.
    ///
    /// # Errors
    /// A client cannot be made of the controllers' addresses.
    pub async fn run(mut self) -> turmoil::Result {
        let first = self.rng.below(self.controllers.len());
        let turned = self.controllers.iter().cycle().skip(first).take(self.controllers.len());
        let endpoints = turned.map(|host| Endpoint::Tcp { host: host.clone(), port: PORT });
        let options = ClientOptions {
            connect_timeout: SILENCE,
            timeout: Some(DEADLINE),
            keepalive_interval: SILENCE,
            keepalive_timeout: SILENCE,
            keepalive_while_idle: true,
        };
        let client = Client::new(&endpoints.collect::<Vec<_>>(), &Credentials::over(net::dial), &options)?;
        let mut jobs = JobServiceClient::new(client);
        for number in 0..self.submits {
            self.think().await;
            let Some(known) = self.submit(&mut jobs, number).await else { continue };
            if self.rng.chance(400) {
                self.think().await;
                self.read(&mut jobs, &known).await;
            }
            if self.rng.chance(300) {
                self.think().await;
                let cancelled = self.cancel(&mut jobs, &known).await;
                if cancelled && self.rng.chance(400) {
                    self.think().await;
                    self.delete(&mut jobs, &known).await;
                    self.read(&mut jobs, &known).await;
                }
            }
        }
        self.reported.tally().done += 1;
        self.record.report(&format!("{} is done", self.name));
        Ok(())
    }

    async fn think(&mut self) {
        let ms = self.rng.range(0..self.think_ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn wait_again(&mut self) {
        let ms = self.rng.range(20..150);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn report(&self, what: &str) {
        self.record.report(&format!("{} {what}", self.name));
    }

    fn refused(&self, what: &str, status: &Status) {
        self.reported.tally().calls += 1;
        let (code, text) = (status.code(), status.message());
        self.report(&format!("{what}: {code:?} {text}"));
    }

    async fn submit(&mut self, jobs: &mut Jobs, number: u64) -> Option<Known> {
        let mut request = format!("{}-{number}", self.name);
        self.reported.tally().open += 1;
        let mut repeated = 0;
        loop {
            let job = job(&format!("{}-{number}", self.name));
            let ask = v1::CreateJobRequest {
                job: Some(job),
                request_id: request.clone(),
                ..v1::CreateJobRequest::default()
            };
            match jobs.create_job(ask).await {
                Ok(answer) => return Some(self.acknowledged(&request, &answer.into_inner())),
                // A cluster that is new has no tenant and no server yet.
                Err(status)
                    if again(&status)
                        || matches!(status.code(), Code::NotFound | Code::FailedPrecondition) =>
                {
                    self.refused(&format!("submits {request}"), &status);
                    if self.bug == Some(Bug::NewRequestId) {
                        repeated += 1;
                        request = format!("{}-{number}-{repeated}", self.name);
                    }
                    self.wait_again().await;
                }
                Err(status) => {
                    self.refused(&format!("submits {request}"), &status);
                    self.record.fail(format!("the submit {request} was refused: {status}"));
                    self.reported.tally().open -= 1;
                    return None;
                }
            }
        }
    }

    fn acknowledged(&self, request: &str, job: &v1::Job) -> Known {
        let metadata = job.metadata.clone().unwrap_or_default();
        let known = Known {
            request: request.to_owned(),
            name: metadata.name,
            uid: metadata.uid,
            cancelled: false,
            deleted: None,
        };
        self.report(&format!("submits {request}: {} {}", known.name, known.uid));
        let mut tally = self.reported.tally();
        tally.calls += 1;
        tally.open -= 1;
        tally.jobs.push(known.clone());
        known
    }

    fn note(&self, known: &Known, change: impl FnOnce(&mut Known)) {
        let mut tally = self.reported.tally();
        if let Some(noted) = tally.jobs.iter_mut().find(|noted| noted.uid == known.uid) {
            change(noted);
        }
    }

    async fn read(&mut self, jobs: &mut Jobs, known: &Known) {
        let deleted = {
            let tally = self.reported.tally();
            tally.jobs.iter().find(|noted| noted.uid == known.uid).and_then(|noted| noted.deleted)
        };
        // Submitted again it is the same job, while there is one.
        if deleted.is_none() && self.rng.chance(300) {
            let number = known.request.rsplit('-').next().and_then(|text| text.parse::<u64>().ok());
            let again = v1::CreateJobRequest {
                job: Some(job(&format!("{}-{}", self.name, number.unwrap_or(0)))),
                request_id: known.request.clone(),
                ..v1::CreateJobRequest::default()
            };
            if let Ok(answer) = jobs.create_job(again).await {
                let uid = answer.into_inner().metadata.unwrap_or_default().uid;
                self.report(&format!("submits {} again: {uid}", known.request));
                if uid != known.uid {
                    self.record.fail(format!("{} gave {} first and {uid} now", known.request, known.uid));
                }
            }
        }
        let ask = v1::GetJobRequest { name: known.name.clone(), ..v1::GetJobRequest::default() };
        match jobs.get_job(ask).await {
            Ok(answer) => {
                let uid = answer.into_inner().metadata.unwrap_or_default().uid;
                self.report(&format!("reads {}: {uid}", known.name));
                if uid != known.uid {
                    self.record.fail(format!("{} was {} and is {uid}", known.name, known.uid));
                }
                if deleted == Some(true) {
                    self.record.fail(format!("{} is read after its deletion was acknowledged", known.name));
                }
            }
            Err(status) if status.code() == Code::NotFound => {
                self.refused(&format!("reads {}", known.name), &status);
                if deleted.is_none() {
                    self.record.fail(format!("{} is not found after it was acknowledged", known.name));
                }
            }
            Err(status) => self.refused(&format!("reads {}", known.name), &status),
        }
    }

    /// Until it is known; false: it cannot be.
    async fn cancel(&mut self, jobs: &mut Jobs, known: &Known) -> bool {
        loop {
            let ask = v1::CancelJobRequest { name: known.name.clone(), ..v1::CancelJobRequest::default() };
            match jobs.cancel_job(ask).await {
                Ok(answer) => {
                    let phase = answer.into_inner().status.unwrap_or_default().phase();
                    self.report(&format!("cancels {}: {phase:?}", known.name));
                    if phase != Phase::Cancelled {
                        self.record.fail(format!("{} was cancelled and is {phase:?}", known.name));
                    }
                    self.note(known, |noted| noted.cancelled = true);
                    return true;
                }
                Err(status) if again(&status) => {
                    self.refused(&format!("cancels {}", known.name), &status);
                    self.wait_again().await;
                }
                Err(status) => {
                    self.refused(&format!("cancels {}", known.name), &status);
                    self.record.fail(format!("the cancel of {} was refused: {status}", known.name));
                    return false;
                }
            }
        }
    }

    async fn delete(&mut self, jobs: &mut Jobs, known: &Known) {
        self.note(known, |noted| noted.deleted = Some(false));
        let mut doubt = false;
        loop {
            let ask = v1::DeleteJobRequest { name: known.name.clone(), ..v1::DeleteJobRequest::default() };
            match jobs.delete_job(ask).await {
                Ok(_) => break,
                // One that was not answered has done it.
                Err(status) if doubt && status.code() == Code::NotFound => break,
                Err(status) if again(&status) => {
                    self.refused(&format!("deletes {}", known.name), &status);
                    doubt = true;
                    self.wait_again().await;
                }
                Err(status) => {
                    self.refused(&format!("deletes {}", known.name), &status);
                    self.record.fail(format!("the deletion of {} was refused: {status}", known.name));
                    return;
                }
            }
        }
        self.report(&format!("deletes {}", known.name));
        self.note(known, |noted| noted.deleted = Some(true));
    }
}

/// Whether a call that failed so is made again: what is not known, and what may pass.
fn again(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

fn job(label: &str) -> v1::Job {
    v1::Job {
        metadata: Some(v1::Metadata {
            generate_name: "j-".to_owned(),
            labels: [("submit".to_owned(), label.to_owned())].into(),
            ..v1::Metadata::default()
        }),
        spec: Some(v1::JobSpec {
            gang: Some(v1::Gang { nodes: 1, gpus_per_node: 0, ranks_per_node: 1, ..v1::Gang::default() }),
            work: Some(v1::job_spec::Work::Command(v1::Command {
                argv: vec!["true".to_owned()],
                ..v1::Command::default()
            })),
            ..v1::JobSpec::default()
        }),
        ..v1::Job::default()
    }
}
