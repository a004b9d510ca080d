//! The service beside slurmctld: keeps both of one mind, keeps Slurm's topology current, and says where a job would best run.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proto_wire::v1::{self, job_spec::Work, placement_request::Within};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    time::MissedTickBehavior,
};

use super::{
    candidates::{Servers, named},
    hold,
    promise::Promises,
    question::{Answer, LONGEST, Question},
    sync, tools,
    topology::Topology,
};
use crate::{
    args::SlurmServe,
    client::{Api, repeat},
    commands::allocation::Ending,
    error::Error,
};

/// A question has come, and its answer has gone, within this time; others wait meanwhile.
const TALK: Duration = Duration::from_secs(1);
/// A controller that has not said within this time where a job would run does not know; below what job_submit.lua waits.
const CALL: Duration = Duration::from_millis(400);
/// One that did not answer is not asked again for this time: slurmctld waits for each answer.
const AWAY: Duration = Duration::from_secs(5);

/// What questions and rounds share.
#[derive(Default)]
struct Known {
    servers: Servers,
    promises: Promises,
}

/// `slurm serve`.
///
/// # Errors
/// [`Error::File`] if it cannot listen. What goes wrong later is said, and it goes on.
pub async fn run(args: &SlurmServe, api: &Api) -> Result<(), Error> {
    let mut ending = Ending::listen()?;
    let known = RefCell::default();
    let mut answering = Answering { args, api: api.within(CALL), known: &known, away_until: None };
    let topology = args.topology.clone().map(Topology::of);
    let mut keeping = Keeping { args, api, topology, waiting: BTreeMap::new(), known: &known };
    let work = async {
        // Nobody is answered before: a slurmctld that waits for an answer would keep us from asking it.
        keeping.round().await;
        let socket = Socket::listen(&args.socket)?;
        eprintln!("answers at {}", args.socket.display());
        tokio::join!(questions(&socket, &mut answering), rounds(args.every, &mut keeping));
        Ok(())
    };
    tokio::select! {
        done = work => done,
        _ = ending.next() => Ok(()),
    }
}

async fn questions(socket: &Socket, answering: &mut Answering<'_>) {
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => answering.talk(stream).await,
            Err(error) => {
                eprintln!("{}: {error}", socket.path.display());
                // Such as no more descriptors: it will not be better at once.
                tokio::time::sleep(TALK).await;
            }
        }
    }
}

async fn rounds(every: Duration, keeping: &mut Keeping<'_>) {
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one has been.
    tick.tick().await;
    loop {
        tick.tick().await;
        keeping.round().await;
    }
}

/// The socket, which goes with us.
struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    fn listen(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::File { action: "listen at", path: path.to_owned(), source };
        // One that is left over by a process that was killed answers nobody.
        let is_left = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if is_left {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), listener })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left over, it is taken away by the next one.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers one question after the other: each one knows what was proposed before.
struct Answering<'a> {
    args: &'a SlurmServe,
    api: Api,
    known: &'a RefCell<Known>,
    /// No controller has answered; none is asked before that.
    away_until: Option<Instant>,
}

impl Answering<'_> {
    async fn talk(&mut self, mut stream: UnixStream) {
        let talk = async {
            let mut line = Vec::new();
            let (reading, mut writing) = stream.split();
            BufReader::new(reading.take(LONGEST)).read_until(b'\n', &mut line).await?;
            let answer = match serde_json::from_slice(&line) {
                Ok(question) => self.answer(&question).await,
                Err(error) => Answer::Unknown(format!("what was asked is no question ({error})")),
            };
            let mut line = serde_json::to_vec(&answer)?;
            line.push(b'\n');
            writing.write_all(&line).await
        };
        match tokio::time::timeout(TALK, talk).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("a question: {error}"),
            Err(_) => eprintln!("a question: nothing came, or nobody took the answer, for {TALK:?}"),
        }
    }

    async fn answer(&mut self, question: &Question) -> Answer {
        let now = Instant::now();
        if self.away_until.is_some_and(|until| now < until) {
            return Answer::Unknown(format!("no controller has answered for up to {AWAY:?}"));
        }
        match tokio::time::timeout(CALL, self.planned(question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.away_until = hold::is_away(&error).then(|| now + AWAY);
                Answer::Unknown(error.to_string())
            }
            Err(_) => {
                self.away_until = Some(now + AWAY);
                Answer::Unknown(format!("no controller has answered within {CALL:?}"))
            }
        }
    }

    async fn planned(&self, question: &Question) -> Result<Answer, Error> {
        let wanted = usize::try_from(question.nodes).unwrap_or(usize::MAX);
        let found = {
            let known = self.known.borrow();
            if known.servers.ours.is_empty() {
                return Ok(Answer::Unknown("no controller has said yet which servers there are".to_owned()));
            }
            known.servers.candidates(question, &known.promises.servers(Instant::now()))
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => return Ok(Answer::Anywhere(why)),
        };
        if found.ever.len() < wanted {
            return Ok(Answer::Anywhere(format!(
                "Railyard has {} of the servers that it may have",
                found.ever.len()
            )));
        }
        if found.now.len() >= wanted {
            let planned = self.plan(question, &found.now, Within::Unspecified).await?;
            if let Some(place) = planned.and_then(|planned| planned.placement) {
                let servers: Vec<String> = place.nodes.into_iter().map(|node| node.node).collect();
                self.known.borrow_mut().promises.add(&servers, Instant::now(), self.args.pin);
                return Ok(Answer::Now(servers));
            }
        }
        Ok(match self.plan(question, &found.ever, Within::Leaves).await? {
            Some(planned) if !planned.infeasible => Answer::Together,
            Some(_) => Answer::Anywhere("it is larger than any servers that share their leaves".to_owned()),
            None => Answer::Anywhere("its servers are too many to be named".to_owned()),
        })
    }

    /// What the controller would do with a job that may have these servers; nothing where they cannot be named.
    async fn plan(
        &self,
        question: &Question,
        may: &BTreeSet<String>,
        within: Within,
    ) -> Result<Option<v1::PlanJobResponse>, Error> {
        let Some((nodes, exclude)) = self.known.borrow().servers.said(may) else { return Ok(None) };
        let job = v1::Job {
            metadata: Some(v1::Metadata { name: "slurm-place".to_owned(), ..v1::Metadata::default() }),
            spec: Some(v1::JobSpec {
                work: Some(Work::Allocation(v1::Allocation::default())),
                gang: Some(v1::Gang {
                    nodes: question.nodes,
                    gpus_per_node: self.args.gpus_per_node,
                    ranks_per_node: 1,
                    ..v1::Gang::default()
                }),
                placement: Some(v1::PlacementRequest {
                    nodes,
                    exclude,
                    exclusive: self.args.exclusive,
                    within: within.into(),
                    ..v1::PlacementRequest::default()
                }),
                queue: self.args.queue.clone().unwrap_or_default(),
                ..v1::JobSpec::default()
            }),
            ..v1::Job::default()
        };
        let on_behalf_of = match &question.account {
            Some(account) if self.args.account_is_tenant => account.clone(),
            _ => self.api.tenant.clone(),
        };
        let request = v1::PlanJobRequest { job: Some(job), on_behalf_of };
        let planned = repeat("plan a job of Slurm", |_| {
            let (mut client, request) = (self.api.jobs(), request.clone());
            async move { client.plan_job(request).await }
        });
        planned.await.map(Some)
    }
}

/// A job that waits for the servers that it was given.
struct Waiting {
    since: Instant,
    /// As Slurm lists them; another list is somebody else's.
    servers: String,
}

/// What is done once in a while.
struct Keeping<'a> {
    args: &'a SlurmServe,
    api: &'a Api,
    topology: Option<Topology>,
    waiting: BTreeMap<u64, Waiting>,
    known: &'a RefCell<Known>,
}

impl Keeping<'_> {
    /// All of it; what fails keeps nothing else from being done, and is said.
    async fn round(&mut self) {
        let mut failed = Vec::new();
        match sync::once(&self.args.names, false, self.api).await {
            Ok(synced) => {
                let down = synced.theirs.into_iter().filter(|(_, node)| !node.is_up);
                let down = down.map(|(name, _)| name).collect();
                self.known.borrow_mut().servers = Servers { ours: synced.ours, down };
                failed.extend(synced.failed);
            }
            Err(error) => failed.push(error),
        }
        self.pinned(&mut failed).await;
        if let Some(topology) = &mut self.topology {
            failed.extend(topology.keep(self.api).await.err());
        }
        failed.iter().flat_map(Error::lines).for_each(|line| eprintln!("{line}"));
    }

    /// Forgets what was proposed to jobs that are no more, and lets jobs start anywhere that have waited too long for the servers that they were
    /// given.
    async fn pinned(&mut self, failed: &mut Vec<Error>) {
        let asked = Instant::now();
        let pinned = match tools::pinned().await {
            Ok(pinned) => pinned,
            Err(error) => return failed.push(error),
        };
        // A list that cannot be read is none that was proposed.
        let lists = pinned.iter().filter_map(|job| named(std::slice::from_ref(&job.servers)).ok());
        self.known.borrow_mut().promises.keep(&lists.collect::<Vec<_>>(), asked);
        self.waiting.retain(|id, _| pinned.iter().any(|job| job.id == *id));
        for job in pinned {
            let first = || Waiting { since: asked, servers: job.servers.clone() };
            let waiting = self.waiting.entry(job.id).or_insert_with(first);
            if waiting.servers != job.servers || asked.duration_since(waiting.since) < self.args.pin {
                continue;
            }
            match tools::free(job.id).await {
                Ok(()) => {
                    eprintln!(
                        "job {} of Slurm may start anywhere: {} were not free for {:?}",
                        job.id, job.servers, self.args.pin
                    );
                    self.waiting.remove(&job.id);
                }
                Err(error) => failed.push(error),
            }
        }
    }
}
