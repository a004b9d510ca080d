//! SwitchAgentService: a switch's agent joins, says what its switch is like, and reads what is desired.
//!
//! A switch speaks for itself only: its name comes from its certificate.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest;
use controller_core::{Event, Reply, SwitchEvent};
use controller_switch::change::OWNED;
use proto_model::{
    BgpState, DesiredSwitch, SwitchName, SwitchPhase, SwitchReport, SwitchSession, SwitchStanding, Timestamp,
};
use proto_rpc::{
    ErrorClass, Identity, PeerInfo, RpcError, Token, TokenKind,
    ca::{Issued, NODE_LIFETIME},
};
use proto_wire::{
    convert::{desired_switch, duration_to_wire, switch_progress, switch_sessions},
    v1::{self, switch_agent_service_server::SwitchAgentService},
};
use tokio::{sync::Semaphore, task::spawn_blocking};
use tonic::{Request, Response, Status};

use crate::{
    access,
    authz::Rpc,
    context::Context,
    credential::token_digest,
    fault,
    guard::Caller,
    switch::{
        board::{Inputs, Verdict},
        ports::SwitchReports,
        refused,
    },
};

/// Comparisons that are worked out at a time: each may look at all cables of the fabric.
const AT_ONCE: usize = 2;
/// Bytes of a version.
const VERSION: usize = 128;

/// The handlers of `SwitchAgentService`.
#[derive(Clone)]
pub struct SwitchAgents {
    context: Context,
    known: SwitchReports,
    comparing: Arc<Semaphore>,
}

impl SwitchAgents {
    /// Handlers over the loop, and over what is known of switches.
    #[must_use]
    pub(crate) fn new(context: Context, known: SwitchReports) -> Self {
        Self { context, known, comparing: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    fn joined(&self, issued: &Issued) -> v1::JoinSwitchResponse {
        v1::JoinSwitchResponse {
            certificate_pem: issued.chain_pem.clone(),
            ca_pem: self.context.ca.certificate_pem(),
            expires: Some(issued.not_after.into()),
        }
    }

    /// What is desired, with the files that an agent which is done with the state of number `done` needs for it. None where another rollout
    /// has begun since it was decided: files of one are never given out as those of another, and the next report has the new one.
    async fn with_files(
        &self,
        name: SwitchName,
        desired: &DesiredSwitch,
        done: u64,
    ) -> Result<Option<v1::DesiredSwitch>, RpcError> {
        let mut answer = desired_switch(desired);
        if !wants_files(desired, done) {
            return Ok(Some(answer));
        }
        let inputs = self.context.query(|state, _| Inputs::of(state)).await?;
        if inputs.generation != desired.generation {
            return Ok(None);
        }
        let files = spawn_blocking(move || inputs.agent_files(&name)).await.map_err(|_| failed())?;
        answer.files = files.map_err(|findings| refused(&findings))?;
        answer.owned_tables = OWNED.map(str::to_owned).into();
        Ok(Some(answer))
    }

    /// How the switch stands by this report; none where its files are to be sent first.
    async fn stand(
        &self,
        inputs: Inputs,
        name: &SwitchName,
        wire: &mut v1::ReportSwitchRequest,
        now: Timestamp,
    ) -> Result<Option<Arc<Verdict>>, RpcError> {
        let place = Arc::clone(&self.comparing).acquire_owned().await.map_err(|_| failed())?;
        let (known, name) = (self.known.clone(), name.clone());
        let (digest, files) = (wire.digest.clone(), std::mem::take(&mut wire.files));
        let (ports, read_ms) = (std::mem::take(&mut wire.ports), wire.ports_read_ms);
        let work = move || {
            let _place = place;
            known.ports.take(&inputs, &name, read_ms, now, &ports);
            known.board.say(&inputs, &name, ports);
            if digest.is_empty() {
                let why = "nothing was read back".to_owned();
                return Ok(Some(Arc::new(Verdict { why, ..Verdict::default() })));
            }
            known.board.take(&inputs, &name, &digest, &files)
        };
        let taken = spawn_blocking(work).await.map_err(|_| failed())?;
        taken.map_err(|error| fault::field("files", error))
    }
}

fn failed() -> RpcError {
    RpcError::new(ErrorClass::Internal, "PLANNING_FAILED", "what was asked for could not be worked out")
}

/// A certificate outlives its switch. It must buy nothing then, least of all its own renewal.
fn forgotten(name: &SwitchName) -> RpcError {
    let text =
        format!("switch '{name}' is not known: it was deleted; to bring it back, apply it and join it anew");
    RpcError::new(ErrorClass::Denied, "SWITCH_UNKNOWN", text)
}

fn line(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// Planned sessions as the switch has them; none where there are some and it does not say how they are.
fn planned_sessions(
    verdict: &Verdict,
    said: Option<&BTreeMap<String, (BgpState, bool)>>,
) -> Option<Vec<SwitchSession>> {
    if verdict.sessions.is_empty() {
        return Some(Vec::new());
    }
    let said = said?;
    let session = |(port, peer): &(String, Option<SwitchName>)| {
        let (state, before_trial) = said.get(port).copied().unwrap_or_default();
        SwitchSession { port: port.clone(), peer: peer.clone(), state, before_trial }
    };
    Some(verdict.sessions.iter().map(session).collect())
}

/// Whether an agent that is done with the state of number `done` needs the files of this one.
fn wants_files(desired: &DesiredSwitch, done: u64) -> bool {
    match desired.phase {
        SwitchPhase::Hold => false,
        SwitchPhase::Trial => true,
        SwitchPhase::Keep => done != desired.number,
    }
}

#[tonic::async_trait]
impl SwitchAgentService for SwitchAgents {
    async fn join_switch(
        &self,
        request: Request<v1::JoinSwitchRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let switch = SwitchName::new(&wire.name).map_err(|error| fault::field("name", error))?;
        let bad = |text: String| RpcError::new(ErrorClass::Denied, "TOKEN_INVALID", text);
        let token = Token::parse(TokenKind::Join, &wire.token)
            .map_err(|error| self.context.guard.note(Rpc::JoinSwitch, &caller, bad(error.to_string())))?;
        let identity = Identity::switch(switch.as_str()).map_err(|error| fault::field("name", error))?;
        // Signed before the token is spent: a faulty request must not cost the token. It leaves only after.
        let now = self.context.handle.revoked().get().issue_time(&identity, SystemTime::now());
        let issued = self.context.ca.issue(&wire.csr_pem, &identity, NODE_LIFETIME, now);
        let issued = issued.map_err(|error| fault::ca(&error))?;
        let mut csr = [0; 32];
        csr.copy_from_slice(digest::digest(&digest::SHA256, wire.csr_pem.as_bytes()).as_ref());
        let hash = token_digest(&token.hash());
        let event = Event::Switch(SwitchEvent::Join { switch: switch.clone(), hash, csr });
        if let Err(refusal) = self.context.handle.apply(&caller.actor, event).await {
            let error = fault::refused(&refusal);
            return Err(self.context.guard.note(Rpc::JoinSwitch, &caller, error).into());
        }
        tracing::info!(%switch, token = token.id(), serial = issued.serial, "switch joined");
        Ok(Response::new(self.joined(&issued)))
    }

    async fn report_switch(
        &self,
        request: Request<v1::ReportSwitchRequest>,
    ) -> Result<Response<v1::ReportSwitchResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = caller.switch()?;
        let mut wire = request.into_inner();
        let progress = switch_progress(wire.progress.take().unwrap_or_default());
        let progress = progress.map_err(|errors| fault::fields(errors, "progress"))?;
        let sessions = wire.sessions.take().map(switch_sessions).transpose();
        let sessions = sessions.map_err(|errors| fault::fields(errors, "sessions"))?;
        let done = progress.as_ref().map_or(0, |progress| progress.observed_number);
        let own = name.clone();
        let ask = move |state: &controller_core::State, now| {
            state.switch(&own).is_some().then(|| (Inputs::of(state), state.epoch(), now))
        };
        let Some((inputs, epoch, now)) = self.context.query(ask).await? else {
            return Err(self.context.guard.note(Rpc::ReportSwitch, &caller, forgotten(&name)).into());
        };
        let compared = inputs.plans;
        let verdict = self.stand(inputs, &name, &mut wire, now).await?;
        let why = verdict.as_ref().map(|verdict| verdict.why.clone()).unwrap_or_default();
        let unreadable = if wire.unreadable.is_empty() { why } else { wire.unreadable };
        let report = SwitchReport {
            agent_version: line(&wire.agent_version, VERSION),
            nos_version: line(&wire.nos_version, VERSION),
            progress,
            standing: verdict.as_ref().map_or(SwitchStanding::Unread, |verdict| verdict.standing()),
            unreadable: line(&unreadable, 1024),
            compared,
            sessions: verdict.as_ref().and_then(|verdict| planned_sessions(verdict, sessions.as_ref())),
        };
        let event = Event::Switch(SwitchEvent::Reported { switch: name.clone(), report: Arc::new(report) });
        let applied = self.context.apply(&caller, event).await?;
        let Reply::SwitchDesired { desired, interval } = applied.reply else {
            return Err(crate::context::unexpected());
        };
        let answer = match &desired {
            Some(desired) => self.with_files(name, desired, done).await?,
            None => None,
        };
        let interval: Duration = interval;
        Ok(Response::new(v1::ReportSwitchResponse {
            epoch,
            interval: Some(duration_to_wire(interval)),
            send_files: verdict.is_none(),
            desired: answer,
        }))
    }

    async fn renew_switch_certificate(
        &self,
        request: Request<v1::RenewSwitchCertificateRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = caller.switch()?;
        // Read before it is decided: what is revoked meanwhile was issued before.
        let now = SystemTime::now();
        let shown = request.extensions().get::<PeerInfo>().and_then(|peer| peer.certificate.as_ref());
        let shown = shown.map_or(SystemTime::UNIX_EPOCH, |certificate| certificate.issued);
        let refused = match self.context.handle.may_renew_switch(&name, shown).await {
            Err(refusal) => return Err(fault::refused(&refusal).into()),
            Ok(None) => Some(forgotten(&name)),
            Ok(Some(false)) => Some(access::refusal(&caller.identity)),
            Ok(Some(true)) => None,
        };
        if let Some(refused) = refused {
            return Err(self.context.guard.note(Rpc::RenewSwitchCertificate, &caller, refused).into());
        }
        let csr = request.into_inner().csr_pem;
        let identity = Identity::switch(name.as_str())
            .map_err(|error| RpcError::new(ErrorClass::Denied, "NOT_A_SWITCH", error.to_string()))?;
        let issued = self.context.ca.issue(&csr, &identity, NODE_LIFETIME, now);
        let issued = issued.map_err(|error| fault::ca(&error))?;
        let noted = format!("{identity}, serial {}", issued.serial);
        let noted = self.context.handle.note(&caller.actor, "certificate", noted, "").await;
        noted.map_err(|refusal| fault::refused(&refusal))?;
        tracing::info!(switch = %name, serial = issued.serial, "switch certificate renewed");
        Ok(Response::new(self.joined(&issued)))
    }
}
