//! StepService: asks the agents of a running job to run a command, and carries what goes between them and the caller, in bounded memory.
//! Nothing of a step is stored: it ends with this stream, with the job, or with this controller's lead.

use std::time::{Duration, Instant};

use controller_core::CoreError;
use controller_leader::{CHUNKS, NoUpload, Opening, StepPart};
use proto_model::{Authority, JobId, JobName, NodeName, StepInput, StepOrder, StepRequest, StepWork};
use proto_rpc::{ErrorClass, NOT_RUNNING, RpcError};
use proto_wire::v1::{
    self, attach_step_response, job_spec::Work, job_status::Phase, run_step_request, step_event::What,
    step_service_server::StepService,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::{authz::Rpc, changes, context::Context, fault, guard::Caller, stream::first, watch::Events};

/// How long an agent may take to attend to a step.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How often agents that have not answered are looked for.
const CHECK: Duration = Duration::from_millis(500);
/// Input that waits for one agent.
const INPUTS: usize = 64;
/// Input that an agent does not take for so long is given up, and with it the step.
const INPUT_LIMIT: Duration = Duration::from_secs(10);
/// The most servers of one step.
const NODES_MAX: usize = 1024;

type Orders = mpsc::Sender<v1::AttachStepResponse>;

/// The handlers of `StepService`.
#[derive(Clone)]
pub struct Steps {
    context: Context,
}

/// One server's part, as it is asked for.
struct Asked {
    node: NodeName,
    opening: Opening<StepPart>,
    at: Instant,
}

/// A step that was asked for.
struct Running {
    asked: Vec<Asked>,
    orders: Vec<Orders>,
    events: mpsc::Receiver<v1::StepEvent>,
}

impl Steps {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// What runs in a job sees all that is the job's: only whoever may change it runs something there.
    fn is_owner(&self, caller: &Caller, id: &JobId, job: &v1::Job) -> Result<(), RpcError> {
        let owner = job.status.as_ref().and_then(|status| status.submitter.clone());
        let owner = owner.and_then(|owner| Authority::try_from(owner).ok());
        if changes::authority(caller)?.may_change(owner.as_ref()) {
            return Ok(());
        }
        let (what, owner) = (format!("job '{}'", id.name), owner.map(|owner| owner.user));
        let error = CoreError::NotOwner { what, owner };
        let denied = RpcError::new(ErrorClass::Denied, error.code(), error.to_string());
        Err(self.context.guard.note(Rpc::RunStep, caller, denied))
    }

    fn id(&self, caller: &Caller, start: &v1::StepStart) -> Result<JobId, RpcError> {
        let tenant = caller.tenant("start.tenant", &start.tenant);
        let tenant = tenant.map_err(|error| self.context.guard.note(Rpc::RunStep, caller, error))?;
        let name = JobName::new(&start.job).map_err(|error| fault::field("start.job", error))?;
        Ok(JobId { tenant, name })
    }

    /// Nothing is begun where an agent is away.
    fn check_connected(&self, parts: &[(NodeName, StepOrder)]) -> Result<(), RpcError> {
        let sessions = self.context.handle.sessions();
        let away = parts.iter().filter(|(node, _)| !sessions.is_connected(node));
        let away: Vec<&str> = away.map(|(node, _)| node.as_str()).collect();
        if away.is_empty() { Ok(()) } else { Err(not_connected(&away)) }
    }

    /// Asks every server of the step.
    fn open(&self, job: &v1::Job, parts: Vec<(NodeName, StepOrder)>) -> Result<Running, RpcError> {
        let handle = &self.context.handle;
        let (sender, events) = mpsc::channel(CHUNKS);
        let mut running = Running { asked: Vec::new(), orders: Vec::new(), events };
        for (node, order) in parts {
            let (orders, receiver) = mpsc::channel(INPUTS);
            let body = Some(attach_step_response::Body::Order(order.into()));
            // It is the first of the queue, so there is room.
            let _ = orders.try_send(v1::AttachStepResponse { body });
            let ask = v1::OpenStep {
                stream_id: String::new(),
                job_uid: job.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default(),
                attempt: job.status.as_ref().map_or(0, |status| status.attempt),
            };
            let part = StepPart { orders: receiver, events: sender.clone() };
            let opened = handle.steps().open(handle.sessions(), &node, handle.epoch(), ask, part);
            let opening = opened.map_err(|refused| match refused {
                NoUpload::NotConnected => not_connected(&[node.as_str()]),
                NoUpload::TooMany => {
                    let text = "too many steps are being started; try again later";
                    RpcError::new(ErrorClass::Overloaded, "TOO_MANY_STEPS", text)
                        .with_retry_after(Duration::from_secs(1))
                }
            })?;
            running.asked.push(Asked { node, opening, at: Instant::now() });
            running.orders.push(orders);
        }
        // From here on only agents, and parts that wait for one, hold senders.
        Ok(running)
    }
}

fn not_connected(nodes: &[&str]) -> RpcError {
    let listed: Vec<&str> = nodes.iter().take(8).copied().collect();
    let more = if nodes.len() > 8 { ", ..." } else { "" };
    let text = format!(
        "the agent of {}{more} is not connected, so nothing can be started there; see `railctl get nodes`, or name other servers of the job",
        listed.join(", ")
    );
    RpcError::new(ErrorClass::Unavailable, "AGENT_NOT_CONNECTED", text)
}

/// The servers of a job that runs.
fn nodes_of(id: &JobId, job: &v1::Job) -> Result<Vec<NodeName>, RpcError> {
    let status = job.status.clone().unwrap_or_default();
    let phase = status.phase();
    if phase != Phase::Running || status.start_time.is_none() {
        let name = phase.as_str_name();
        let text = match phase {
            Phase::Completed | Phase::Failed | Phase::Cancelled => {
                format!("job '{id}' has ended ({name}); a step runs in a job that is RUNNING")
            }
            Phase::Running => format!(
                "not all processes of job '{id}' have started yet; `railctl wait job/{} --for started` waits for them",
                id.name
            ),
            _ => format!(
                "job '{id}' is {name} and does not run yet; `railctl explain job {}` tells why, `railctl get jobs -w` when it does",
                id.name
            ),
        };
        return Err(RpcError::new(ErrorClass::Infeasible, NOT_RUNNING, text));
    }
    let places = status.placement.unwrap_or_default().nodes;
    let nodes = places.iter().map(|place| NodeName::new(&place.node)).collect::<Result<_, _>>();
    nodes.map_err(|error| RpcError::new(ErrorClass::Internal, "BAD_PLACEMENT", error.to_string()))
}

/// An allocation has no ranks of its own: what a signal would reach is what holds it.
fn check_signal(id: &JobId, job: &v1::Job, request: &StepRequest) -> Result<(), RpcError> {
    let work = job.spec.as_ref().and_then(|spec| spec.work.as_ref());
    if !matches!((work, &request.work), (Some(Work::Allocation(_)), StepWork::Signal(_))) {
        return Ok(());
    }
    let text = format!(
        "job '{id}' is an allocation, which has no ranks of its own to signal; signal the steps where they were started (`railctl run` passes \
         signals on), or end all of it with `railctl cancel {}`",
        id.name
    );
    Err(RpcError::new(ErrorClass::Infeasible, "NO_RANKS", text))
}

/// What a step is called in the audit log: the job and the program, without its arguments.
fn audited(id: &JobId, request: &StepRequest) -> String {
    let what: String = request.work.name().chars().take(128).collect();
    format!("{}: {what}", id.name)
}

#[tonic::async_trait]
impl StepService for Steps {
    type RunStepStream = Events<v1::StepEvent>;

    async fn run_step(
        &self,
        request: Request<Streaming<v1::RunStepRequest>>,
    ) -> Result<Response<Self::RunStepStream>, Status> {
        let caller = Caller::of(request.extensions())?;
        let mut stream = request.into_inner();
        let Some(run_step_request::Body::Start(start)) = first(&mut stream).await?.body else {
            return Err(fault::field("body", "the first message must be `start`").into());
        };
        let id = self.id(&caller, &start)?;
        let request = StepRequest::try_from(start).map_err(|errors| fault::fields(errors, "start"))?;
        let job = crate::job::stored(&self.context, &caller, &id).await?;
        self.is_owner(&caller, &id, &job)?;
        let nodes = nodes_of(&id, &job)?;
        check_signal(&id, &job, &request)?;
        let parts = request.parts(&nodes, random()).map_err(|flaw| fault::field("start.nodes", flaw))?;
        if parts.len() > NODES_MAX {
            let text =
                format!("a step runs on at most {NODES_MAX} servers, not on {}; name some", parts.len());
            return Err(fault::field("start.nodes", text).into());
        }
        self.check_connected(&parts)?;
        // Before anything begins.
        let noted =
            self.context.handle.note(&caller.actor, "step", audited(&id, &request), id.tenant.as_str()).await;
        noted.map_err(|refusal| fault::refused(&refusal))?;
        let running = self.open(&job, parts)?;
        let (out, receiver) = mpsc::channel(CHUNKS);
        let ending = self.context.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = running.relay(stream, &out) => {}
                // The client went away: the agents' streams end with their receiver.
                () = out.closed() => {}
                () = ending.cancelled() => {
                    let text = "this controller leads no more; the step has been ended with it";
                    let error = RpcError::new(ErrorClass::Unavailable, "STEP_LOST", text);
                    let _ = out.try_send(Err(error.into()));
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn random() -> u64 {
    // Two versions of random bits are fixed; the rest is enough to tell steps apart.
    let mut bytes = [0; 8];
    // Without random numbers it is the same for all steps, which only makes their ports alike.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

impl Running {
    /// Until every server's part is over, or the caller breaks the rules.
    async fn relay(
        mut self,
        stream: Streaming<v1::RunStepRequest>,
        out: &mpsc::Sender<Result<v1::StepEvent, Status>>,
    ) {
        // While this is kept, input goes to the agents; while `self.orders` are kept, their streams stay open.
        let mut inputs = JoinSet::new();
        let (broken, mut breaks) = oneshot::channel();
        let mut may_break = true;
        let orders = self.orders.clone();
        inputs.spawn(async move {
            if let Err(error) = carry_input(stream, &orders).await {
                let _ = broken.send(error);
            }
        });
        let mut check = tokio::time::interval_at(tokio::time::Instant::now() + CHECK, CHECK);
        loop {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => if out.send(Ok(event)).await.is_err() { return },
                    None => return,
                },
                broken = &mut breaks, if may_break => match broken {
                    Ok(error) => {
                        let _ = out.send(Err(error.into())).await;
                        return;
                    }
                    // All that the caller sent was right, and nothing more comes: what the agents say is still carried.
                    Err(_) => may_break = false,
                },
                _ = check.tick(), if !self.asked.is_empty() => {
                    self.asked.retain(|asked| !asked.opening.is_answered());
                    let late = |asked: &mut Asked| asked.at.elapsed() > OPEN_LIMIT;
                    for asked in self.asked.extract_if(.., late).collect::<Vec<_>>() {
                        let text = "its agent did not answer in time; nothing was started there";
                        if out.send(Ok(failure(&asked.node, text))).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// What the caller sends, to every server of the step, until it sends nothing more; then the step is to end.
async fn carry_input(mut stream: Streaming<v1::RunStepRequest>, orders: &[Orders]) -> Result<(), RpcError> {
    loop {
        let next = stream.message().await;
        let last = !matches!(next, Ok(Some(_)));
        let input = match next {
            Ok(Some(message)) => match message.body {
                Some(run_step_request::Body::Input(input)) => {
                    StepInput::try_from(input).map_err(|errors| fault::fields(errors, "input"))?
                }
                Some(run_step_request::Body::Start(_)) => {
                    return Err(fault::field("body", "a step starts once"));
                }
                None => return Err(fault::field("body", "is required")),
            },
            // Whether it said so or was lost.
            Ok(None) | Err(_) => StepInput::End,
        };
        let body = Some(attach_step_response::Body::Input(v1::StepInput::from(input.clone())));
        let data = matches!(input, StepInput::Data(_) | StepInput::EndOfInput);
        // Standard input is the first process's.
        for to in orders.iter().take(if data { 1 } else { usize::MAX }) {
            let sent =
                tokio::time::timeout(INPUT_LIMIT, to.send(v1::AttachStepResponse { body: body.clone() }));
            if sent.await.is_err() {
                let text = "a server of the step takes no input; the step has been ended";
                return Err(RpcError::new(ErrorClass::Unavailable, "STEP_STUCK", text));
            }
            // A server whose part is over takes nothing more.
        }
        if last {
            return Ok(());
        }
    }
}

/// A server's part cannot go on.
fn failure(node: &NodeName, text: &str) -> v1::StepEvent {
    let what = What::Failure(v1::StepFailure { message: text.to_owned() });
    v1::StepEvent { node: node.to_string(), rank: 0, what: Some(what) }
}

/// Carries an agent's events to the step's caller, until either has ended; the agent's answer ends with it.
pub(crate) async fn attend(
    node: NodeName,
    mut stream: Streaming<v1::AttachStepRequest>,
    events: mpsc::Sender<v1::StepEvent>,
) {
    // Processes that have not ended; none is known before they have begun.
    let mut left = None;
    loop {
        let next = tokio::select! {
            next = stream.message() => next,
            () = events.closed() => return,
        };
        let event = match next {
            Ok(Some(message)) => match message.event {
                Some(event) if is_short(&event) => v1::StepEvent { node: node.to_string(), ..event },
                Some(_) => failure(&node, "its agent sent more at once than it may"),
                None => continue,
            },
            Ok(None) if left == Some(0) => return,
            Ok(None) => failure(&node, "its agent said no more before the step had ended there"),
            Err(_) => {
                failure(&node, "the connection to its agent broke; the step's processes there are ended")
            }
        };
        match &event.what {
            Some(What::Started(started)) => left = Some(started.ranks),
            Some(What::Exit(_)) => left = left.map(|left| left.saturating_sub(1)),
            _ => {}
        }
        let lost = matches!(event.what, Some(What::Failure(_)));
        if events.send(event).await.is_err() || lost {
            return;
        }
    }
}

fn is_short(event: &v1::StepEvent) -> bool {
    let length = match &event.what {
        Some(What::Stdout(data) | What::Stderr(data)) => data.len(),
        Some(What::Failure(failure)) => failure.message.len(),
        _ => 0,
    };
    length <= StepRequest::CHUNK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> JobId {
        JobId { tenant: "t".parse().unwrap(), name: JobName::new("a").unwrap() }
    }

    fn job(phase: Phase) -> v1::Job {
        let place = |node: &str| v1::NodePlace { node: node.into(), ..Default::default() };
        let placement = v1::Placement { nodes: vec![place("n0"), place("n1")], ..Default::default() };
        let status = v1::JobStatus {
            phase: phase.into(),
            placement: Some(placement),
            start_time: Some(prost_types::Timestamp::default()),
            ..Default::default()
        };
        v1::Job { status: Some(status), ..Default::default() }
    }

    #[test]
    fn a_step_runs_in_a_job_that_runs() {
        assert_eq!(nodes_of(&id(), &job(Phase::Running)).unwrap().len(), 2);
        let waits = nodes_of(&id(), &job(Phase::Pending)).unwrap_err();
        assert_eq!(waits.reason, NOT_RUNNING);
        assert!(waits.message.contains("PENDING and does not run yet"), "{}", waits.message);
        let over = nodes_of(&id(), &job(Phase::Failed)).unwrap_err();
        assert!(over.message.contains("has ended (FAILED)"), "{}", over.message);
        let mut starts = job(Phase::Running);
        starts.status.get_or_insert_default().start_time = None;
        assert!(nodes_of(&id(), &starts).is_err());
    }

    #[test]
    fn an_allocation_has_no_ranks_to_signal() {
        let of = |work| v1::Job {
            spec: Some(v1::JobSpec { work: Some(work), ..Default::default() }),
            ..job(Phase::Running)
        };
        let (held, command) =
            (of(Work::Allocation(v1::Allocation::default())), of(Work::Command(v1::Command::default())));
        let signal = StepRequest { work: StepWork::Signal(9), ..StepRequest::default() };
        let refused = check_signal(&id(), &held, &signal).unwrap_err();
        assert!(refused.reason == "NO_RANKS" && refused.message.contains("railctl cancel a"), "{refused}");
        assert!(check_signal(&id(), &command, &signal).is_ok());
        assert!(check_signal(&id(), &held, &StepRequest::default()).is_ok());
    }

    #[test]
    fn the_audit_log_tells_the_program_and_not_its_arguments() {
        let work = StepWork::Run(vec!["psql".into(), "password".into()]);
        let request = StepRequest { work, ..StepRequest::default() };
        assert_eq!(audited(&id(), &request), "a: psql");
    }

    #[test]
    fn what_an_agent_sends_is_bounded() {
        let event = |data| v1::StepEvent { what: Some(What::Stdout(data)), ..Default::default() };
        assert!(is_short(&event(vec![0; StepRequest::CHUNK])));
        assert!(!is_short(&event(vec![0; StepRequest::CHUNK + 1])));
    }
}
