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
    hold,
    promise::Promises,
    question::{Answer, LONGEST, Question},
    sync, tools,
};
use crate::{
    args::SlurmServe,
    client::{Api, repeat},
    commands::{
        allocation::{Ending, nodes_of},
        topology,
    },
    error::Error,
};

/// A question has come, and its answer has gone, within this time; others wait meanwhile.
const TALK: Duration = Duration::from_secs(1);
/// A controller that has not said within this time where a job would run does not know; below what job_submit.lua waits.
const CALL: Duration = Duration::from_millis(400);

/// `slurm serve`.
///
/// # Errors
/// [`Error::File`] if it cannot listen. What goes wrong later is said, and it goes on.
pub async fn run(args: &SlurmServe, api: &Api) -> Result<(), Error> {
    let socket = Socket::listen(&args.socket)?;
    let mut ending = Ending::listen()?;
    let down = Down::default();
    let mut answering = Answering { args, api: api.within(CALL), promises: Promises::default(), down: &down };
    let mut keeping = Keeping { args, api, topology: None, waiting: BTreeMap::new(), down: &down };
    let questions = async {
        loop {
            match socket.listener.accept().await {
                Ok((stream, _)) => answering.talk(stream).await,
                Err(error) => {
                    eprintln!("{}: {error}", args.socket.display());
                    // Such as no more descriptors: it will not be better at once.
                    tokio::time::sleep(TALK).await;
                }
            }
        }
    };
    let rounds = async {
        let mut tick = tokio::time::interval(args.every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            keeping.round().await;
        }
    };
    eprintln!("answers at {}", args.socket.display());
    tokio::select! {
        () = questions => {}
        () = rounds => {}
        _ = ending.next() => {}
    }
    Ok(())
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

/// Nodes on which Slurm starts nothing, as they were in the last round.
type Down = RefCell<BTreeSet<String>>;

/// Answers one question after the other: each one knows what was proposed before.
struct Answering<'a> {
    args: &'a SlurmServe,
    api: Api,
    promises: Promises,
    down: &'a Down,
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
        match tokio::time::timeout(CALL, self.planned(question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Unknown(error.to_string()),
            Err(_) => Answer::Unknown(format!("no controller has answered within {CALL:?}")),
        }
    }

    async fn planned(&mut self, question: &Question) -> Result<Answer, Error> {
        let tenant = match &question.account {
            Some(account) if self.args.account_is_tenant => account.clone(),
            _ => self.api.tenant.clone(),
        };
        self.settle(&tenant).await?;
        let mut promised = self.promises.servers();
        promised.extend(self.down.borrow().iter().cloned());
        let planned = self.plan(&tenant, question, &promised, Within::Unspecified).await?;
        if let Some(place) = &planned.placement {
            let servers: Vec<String> = place.nodes.iter().map(|node| node.node.clone()).collect();
            self.promises.add(&servers, Instant::now(), self.args.pin);
            return Ok(Answer::Now(servers));
        }
        let why = planned.reasons.first().map_or_else(String::new, |reason| reason.message.clone());
        if planned.infeasible {
            return Ok(Answer::Anywhere(why));
        }
        let together = self.plan(&tenant, question, &BTreeSet::new(), Within::Leaves).await?;
        Ok(if together.infeasible { Answer::Anywhere(why) } else { Answer::Together })
    }

    /// Forgets what was proposed and is held by now.
    async fn settle(&mut self, tenant: &str) -> Result<(), Error> {
        if self.promises.is_empty() {
            return Ok(());
        }
        let held = hold::held_for_slurm(&self.api, tenant, &self.args.names.prefix).await?;
        let servers: Vec<Vec<String>> = held.iter().map(|(job, _)| nodes_of(job)).collect();
        self.promises.settle(&servers, Instant::now());
        Ok(())
    }

    async fn plan(
        &self,
        tenant: &str,
        question: &Question,
        promised: &BTreeSet<String>,
        within: Within,
    ) -> Result<v1::PlanJobResponse, Error> {
        let exclude = question.exclude.iter().chain(promised).cloned().collect();
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
                    nodes: question.among.clone(),
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
        let request = v1::PlanJobRequest { job: Some(job), on_behalf_of: tenant.to_owned() };
        repeat("plan a job of Slurm", |_| {
            let (mut client, request) = (self.api.jobs(), request.clone());
            async move { client.plan_job(request).await }
        })
        .await
    }
}

/// What is done once in a while.
struct Keeping<'a> {
    args: &'a SlurmServe,
    api: &'a Api,
    /// What slurmctld was told to read last.
    topology: Option<String>,
    /// Jobs that wait for the servers that they were given, and since when that is known.
    waiting: BTreeMap<u64, Instant>,
    down: &'a Down,
}

impl Keeping<'_> {
    /// All of it; what fails keeps nothing else from being done.
    async fn round(&mut self) {
        let synced = sync::once(&self.args.names, false, self.api).await.map(|nodes| {
            let down = nodes.into_iter().filter(|(_, node)| !node.is_up);
            *self.down.borrow_mut() = down.map(|(name, _)| name).collect();
        });
        let freed = self.free().await;
        let current = self.topology().await;
        for error in [synced, freed, current].into_iter().filter_map(Result::err) {
            error.lines().iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// Lets jobs start anywhere that have waited too long for the servers that they were given.
    async fn free(&mut self) -> Result<(), Error> {
        let (pinned, now) = (tools::pinned().await?, Instant::now());
        self.waiting.retain(|id, _| pinned.contains(id));
        for id in pinned {
            let since = *self.waiting.entry(id).or_insert(now);
            if now.duration_since(since) >= self.args.pin {
                tools::free(id).await?;
                eprintln!(
                    "job {id} of Slurm may start anywhere: its servers were not free for {:?}",
                    self.args.pin
                );
                self.waiting.remove(&id);
            }
        }
        Ok(())
    }

    /// Writes the topology where it has changed, and tells slurmctld.
    async fn topology(&mut self) -> Result<(), Error> {
        let Some(path) = &self.args.topology else { return Ok(()) };
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        let text = topology::for_slurm(is_yaml, self.api).await?;
        let failed = |action| move |source| Error::File { action, path: path.clone(), source };
        let there = match fs::read_to_string(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read")(error)),
        };
        if there.as_ref() != Some(&text) {
            // Whole or not at all: slurmctld may be reading it.
            let mut beside = path.clone().into_os_string();
            beside.push(".new");
            fs::write(&beside, &text).and_then(|()| fs::rename(&beside, path)).map_err(failed("write"))?;
        } else if self.topology.as_ref() == Some(&text) {
            return Ok(());
        }
        // Also once at the beginning: whoever wrote it may not have come so far.
        tools::reconfigure().await?;
        eprintln!("slurmctld reads {} again", path.display());
        self.topology = Some(text);
        Ok(())
    }
}
