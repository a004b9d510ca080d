//! StreamLogs: asks the gang's agents for their share and merges what they upload, in bounded memory.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use controller_leader::{CHUNKS, NoUpload, Opening, keys};
use proto_model::{JobId, NodeName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, job_status::Phase};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::Status;

use crate::{
    context::Context,
    fault,
    watch::{self, Change, Events},
};

/// How long an agent may take to begin its upload.
const OPEN_DEADLINE: Duration = Duration::from_secs(5);
/// How often a reader that follows looks for agents that were away.
const CHECK: Duration = Duration::from_millis(500);
/// Ranks that a reader may name.
const MAX_RANKS: usize = 4096;

type Out = mpsc::Sender<Result<v1::LogChunk, Status>>;

/// Begins to stream a job's logs. `job` is the job as stored now.
///
/// # Errors
/// The job has not started and nobody wants to wait for it, or a rank is named that it does not have.
pub fn stream(
    context: &Context,
    id: JobId,
    job: v1::Job,
    wire: v1::StreamLogsRequest,
) -> Result<Events<v1::LogChunk>, RpcError> {
    check_ranks(&job, &wire.ranks)?;
    check_attempt(&job, wire.attempt)?;
    let earlier = past(&job, wire.attempt).is_some();
    if !wire.follow && !earlier && try_of(&job, 0).is_none() {
        let phase = phase(&job).as_str_name();
        let before = match known(&job).as_slice() {
            [] => String::new(),
            attempts => format!("; of its attempts before, {} are known", list(attempts)),
        };
        let text = format!(
            "job '{id}' is {phase} and has written nothing yet; follow it, or try again later{before}"
        );
        return Err(RpcError::new(ErrorClass::Infeasible, "NOT_STARTED", text));
    }
    let (out, receiver) = mpsc::channel(CHUNKS);
    let reader = Reader { context: context.clone(), id, wire, out: out.clone() };
    let ending = context.ending.clone();
    tokio::spawn(async move {
        tokio::select! {
            outcome = reader.read(job) => if let Err(error) = outcome {
                // The client may have gone away.
                let _ = out.send(Err(error.into())).await;
            },
            // The client went away: the agents' uploads end with their receiver.
            () = out.closed() => {}
            () = ending.cancelled() => {}
        }
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

fn check_ranks(job: &v1::Job, ranks: &[u32]) -> Result<(), RpcError> {
    let count = job.spec.as_ref().map_or(0, v1::JobSpec::total_ranks);
    if ranks.len() > MAX_RANKS {
        return Err(fault::field(
            "ranks",
            format!("names more than {MAX_RANKS} ranks; leave it out for all"),
        ));
    }
    match ranks.iter().find(|rank| u64::from(**rank) >= count) {
        Some(rank) => {
            Err(fault::field("ranks", format!("{rank} is not a rank of this job; it has 0 to {}", count - 1)))
        }
        None => Ok(()),
    }
}

/// The attempts before the present one that are known.
fn known(job: &v1::Job) -> Vec<u32> {
    job.status.iter().flat_map(|status| &status.past_attempts).map(|past| past.attempt).collect()
}

fn list(attempts: &[u32]) -> String {
    attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An attempt before the present one, as it is remembered.
fn past(job: &v1::Job, attempt: u32) -> Option<&v1::PastAttempt> {
    job.status.iter().flat_map(|status| &status.past_attempts).find(|past| past.attempt == attempt)
}

/// An attempt that is asked for is the present one, or is remembered.
fn check_attempt(job: &v1::Job, attempt: u32) -> Result<(), RpcError> {
    let present = job.status.as_ref().map_or(0, |status| status.attempt);
    if attempt == 0 || attempt == present || past(job, attempt).is_some() {
        return Ok(());
    }
    let mut attempts = known(job);
    attempts.push(present);
    Err(fault::field("attempt", format!("attempt {attempt} is not known; there are {}", list(&attempts))))
}

fn phase(job: &v1::Job) -> Phase {
    job.status.as_ref().map_or(Phase::Unspecified, v1::JobStatus::phase)
}

fn is_terminal(job: &v1::Job) -> bool {
    matches!(phase(job), Phase::Completed | Phase::Failed | Phase::Cancelled)
}

/// The attempt after `after` whose ranks may have written something, with its nodes.
fn try_of(job: &v1::Job, after: u32) -> Option<(u32, v1::Placement)> {
    let status = job.status.as_ref()?;
    let begun = matches!(status.phase(), Phase::Running | Phase::Recovering) || is_terminal(job);
    let placement = status.placement.clone()?;
    (begun && status.attempt > after).then_some((status.attempt, placement))
}

/// How far the nodes of an attempt are.
struct Uploads {
    /// Asked, when, and not known to have answered.
    openings: Vec<(NodeName, Opening, Instant)>,
    /// Not asked: their agents are not connected.
    missing: BTreeSet<NodeName>,
}

struct Reader {
    context: Context,
    id: JobId,
    wire: v1::StreamLogsRequest,
    out: Out,
}

impl Reader {
    /// Try after try, until the job has ended or nobody wants to wait.
    async fn read(&self, mut job: v1::Job) -> Result<(), RpcError> {
        if let Some(past) = past(&job, self.wire.attempt) {
            let nodes = past.nodes.iter().filter_map(|node| NodeName::new(node).ok()).collect();
            let attempt = past.attempt;
            if !self.read_try(&job, attempt, nodes).await? {
                let text =
                    format!("nothing that attempt {attempt} wrote is kept any more, or it wrote nothing");
                // The client may have gone away.
                let _ = self.out.send(Ok(note(text))).await;
            }
            return Ok(());
        }
        let mut last = 0;
        loop {
            if let Some((attempt, placement)) = try_of(&job, last) {
                self.read_try(&job, attempt, self.nodes(&placement)).await?;
                last = attempt;
                if !self.wire.follow || self.wire.attempt != 0 {
                    return Ok(());
                }
            }
            if is_terminal(&job) {
                return Ok(());
            }
            match self.next_try(last).await? {
                Some(next) => job = next,
                None => return Ok(()),
            }
        }
    }

    /// The job once it has ended or begun an attempt after `last`; none when it was deleted.
    async fn next_try(&self, last: u32) -> Result<Option<v1::Job>, RpcError> {
        let key = keys::job(&self.id);
        let (exact, reader) = (key.clone(), crate::reader::Reader::of_tenant(self.id.tenant.clone()));
        let make = move |change: Change| {
            let event = match change {
                Change::Put(kv, _) if kv.key == exact => {
                    crate::reader::stored_job(&kv, &reader).map(|job| Some(Some(job)))
                }
                Change::Delete(key, ..) if key == exact => Ok(Some(None)),
                _ => Ok(None),
            };
            std::future::ready(event)
        };
        let (store, ending) = (Arc::clone(self.context.handle.store()), self.context.ending.clone());
        let mut events = watch::follow(store, key, 0, ending, make).await?;
        while let Some(event) = events.next().await {
            match event.map_err(|status| RpcError::from_status(&status))? {
                Some(job) if is_terminal(&job) || try_of(&job, last).is_some() => return Ok(Some(job)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// One attempt's output, of these servers; true if there was some.
    async fn read_try(
        &self,
        job: &v1::Job,
        attempt: u32,
        nodes: BTreeSet<NodeName>,
    ) -> Result<bool, RpcError> {
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let mut uploads = Uploads { openings: Vec::new(), missing: nodes };
        self.open_missing(&mut uploads, job, attempt, &sender)?;
        // While a sender is kept, the attempt is not over: agents that are away may still come, after a restart of the
        // controller all of them.
        let mut sender = Some(sender).filter(|_| !uploads.missing.is_empty() && self.wire.follow);
        if sender.is_none() {
            self.give_up(&uploads.missing).await;
        }
        let mut check = tokio::time::interval_at(tokio::time::Instant::now() + CHECK, CHECK);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut any = false;
        loop {
            tokio::select! {
                chunk = chunks.recv() => match chunk {
                    // The client went away: dropping the receiver ends the uploads.
                    Some(chunk) => {
                        any = true;
                        if self.out.send(Ok(chunk)).await.is_err() {
                            return Ok(any);
                        }
                    }
                    None => return Ok(any),
                },
                _ = check.tick(), if sender.is_some() || !uploads.openings.is_empty() => {
                    if let Some(chunks) = &sender {
                        // Asked before the last attempt to open, so that an agent that comes at the end is heard too.
                        // A loop that is too busy to say is asked again.
                        let over = !self.runs(job, attempt).await.unwrap_or(true);
                        self.open_missing(&mut uploads, job, attempt, chunks)?;
                        if over || uploads.missing.is_empty() {
                            self.give_up(&uploads.missing).await;
                            sender = None;
                        }
                    }
                    self.drop_silent(&mut uploads).await;
                }
            }
        }
    }

    /// Asks those who were not asked yet and are connected.
    fn open_missing(
        &self,
        uploads: &mut Uploads,
        job: &v1::Job,
        attempt: u32,
        chunks: &mpsc::Sender<v1::LogChunk>,
    ) -> Result<(), RpcError> {
        let sessions = self.context.handle.sessions();
        let here: Vec<_> =
            uploads.missing.iter().filter(|node| sessions.is_connected(node)).cloned().collect();
        for node in here {
            match self.open(job, attempt, &node, chunks.clone()) {
                Ok(opening) => {
                    uploads.missing.remove(&node);
                    uploads.openings.push((node, opening, Instant::now()));
                }
                Err(NoUpload::NotConnected) => {}
                Err(NoUpload::TooMany) => {
                    let text = "too many logs are being read; try again later";
                    return Err(RpcError::new(ErrorClass::Overloaded, "TOO_MANY_LOG_READERS", text)
                        .with_retry_after(Duration::from_secs(1)));
                }
            }
        }
        Ok(())
    }

    /// Lets go of answered requests, and takes back those that were not answered in time: that drops their senders, so
    /// that the rest can come to an end.
    async fn drop_silent(&self, uploads: &mut Uploads) {
        uploads.openings.retain(|(_, opening, _)| !opening.is_answered());
        let silent = uploads.openings.extract_if(.., |(.., asked)| asked.elapsed() > OPEN_DEADLINE);
        for (node, opening, _) in silent.collect::<Vec<_>>() {
            drop(opening);
            self.note(&node, "did not answer in time; its ranks' output is missing here").await;
        }
    }

    async fn give_up(&self, missing: &BTreeSet<NodeName>) {
        for node in missing {
            self.note(node, "is not connected; its ranks' output is missing here").await;
        }
    }

    /// Whether this attempt of the job still goes on.
    async fn runs(&self, job: &v1::Job, attempt: u32) -> Result<bool, RpcError> {
        let (id, uid) = (self.id.clone(), job.metadata.as_ref().map(|metadata| metadata.uid.clone()));
        let found = move |state: &controller_core::State, _| {
            state.job(&id).is_some_and(|job| {
                let same = uid.is_some_and(|uid| uid == job.uid.to_string());
                same && job.status.attempt == attempt && !job.status.phase.is_terminal()
            })
        };
        self.context.query(found).await
    }

    /// The nodes that hold the ranks that are asked for.
    fn nodes(&self, placement: &v1::Placement) -> BTreeSet<NodeName> {
        let wanted = |rank: u32| self.wire.ranks.is_empty() || self.wire.ranks.contains(&rank);
        let ranks = placement.ranks.iter().filter(|rank| wanted(rank.rank));
        ranks.filter_map(|rank| NodeName::new(&rank.node).ok()).collect()
    }

    fn open(
        &self,
        job: &v1::Job,
        attempt: u32,
        node: &NodeName,
        chunks: mpsc::Sender<v1::LogChunk>,
    ) -> Result<Opening, NoUpload> {
        let handle = &self.context.handle;
        let ask = v1::OpenLogs {
            stream_id: String::new(),
            job_uid: job.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default(),
            attempt,
            ranks: self.wire.ranks.clone(),
            follow: self.wire.follow,
            tail_lines: self.wire.tail_lines,
            since: self.wire.since,
            timestamps: self.wire.timestamps,
        };
        handle.logs().open(handle.sessions(), node, handle.epoch(), ask, chunks)
    }

    async fn note(&self, node: &NodeName, what: &str) {
        // The client may have gone away.
        let _ = self.out.send(Ok(note(format!("node {node} {what}")))).await;
    }
}

/// A line of Railyard's own in a log.
pub(crate) fn note(text: String) -> v1::LogChunk {
    v1::LogChunk {
        rank: 0,
        stream: v1::log_chunk::Stream::Note.into(),
        data: format!("{text}\n").into_bytes(),
        time: None,
    }
}
