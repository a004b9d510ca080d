//! At the door of every call: who is it, and does the table let them in.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use controller_leader::{Handle, Refusal, Standing, Tenancy};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use proto_audit::{ANONYMOUS, Actor};
use proto_model::{NodeName, SwitchName, TenantName, Timestamp};
use proto_rpc::{
    ErrorClass, Identity, Metrics, PeerInfo, Role, RpcError, Token, TokenKind, Unproved,
    deadline::DeadlinePolicy,
    metrics::CounterBy,
    router::{self, CallLayers},
    trace,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::{
    access::{self, Span},
    authz::{Rpc, authorise},
    fair::{FairLimits, Gate, Seat, StreamPlace},
    feed::metrics::FeedMetrics,
    sign_on::{NotTaken, SignOn, SignOnOptions, Vouched},
    switch::series::SwitchSeries,
};

/// The caller's own id of a request, where it has no place in the message.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// What the door needs; clones share it.
#[derive(Clone)]
pub struct Guard {
    shared: Arc<Shared>,
    gate: Gate,
}

struct Shared {
    handle: Handle,
    cluster: String,
    refusals: CounterBy<3>,
    sign_on: Option<SignOn>,
}

/// Who a call's credentials show, and whether they are good.
struct Shown {
    identity: Identity,
    /// For whom an OpenID provider has vouched.
    oidc_subject: String,
    /// When what was shown ends.
    until: Option<SystemTime>,
    good: Result<(), RpcError>,
}

impl Shown {
    fn plain(identity: Identity, good: Result<(), RpcError>) -> Self {
        Self { identity, oidc_subject: String::new(), until: None, good }
    }
}

/// Who calls, as the door has found. In the request's extensions.
#[derive(Debug, Clone)]
pub struct Caller {
    /// From the certificate, or from the bearer token.
    pub identity: Identity,
    /// The same and the way of the call, for the audit log.
    pub actor: Arc<Actor>,
    /// The tenant that a user acts in, as it is now; none for everybody else.
    pub tenancy: Option<Tenancy>,
    /// When the token that was shown ends; none for certificates.
    pub until: Option<SystemTime>,
}

/// What the API counts, and what lets its callers take turns; once per process, however often it leads. Clones share it.
#[derive(Clone)]
pub struct ApiMetrics {
    refusals: CounterBy<3>,
    gate: Gate,
    pub(crate) layers: CallLayers,
    pub(crate) switches: SwitchSeries,
    pub(crate) feed: FeedMetrics,
    oidc_fetches: CounterBy<1>,
    sign_on: Option<SignOn>,
}

impl ApiMetrics {
    /// Registers `rail_refusals_total{rpc,role,reason}`, what [`CallLayers`] counts, what ports of switches count, and what pages' streams
    /// count.
    #[must_use]
    pub fn new(metrics: &Metrics, limits: FairLimits) -> Self {
        let refusals = metrics.counter_by(
            "refusals",
            "Calls that the table of roles or a scope refused",
            ["rpc", "role", "reason"],
        );
        let gate = Gate::new(limits, metrics);
        let layers = CallLayers::new(metrics, DeadlinePolicy::default());
        let oidc_fetches = metrics.counter_by(
            "oidc_fetches",
            "Attempts to fetch the keys of the OpenID provider",
            ["outcome"],
        );
        let switches = SwitchSeries::new(metrics);
        let feed = FeedMetrics::new(metrics);
        Self { refusals, gate, layers, switches, feed, oidc_fetches, sign_on: None }
    }

    /// Takes tokens of an OpenID provider too, whose keys are fetched until `stop`.
    #[must_use]
    pub fn signing_on(mut self, options: SignOnOptions, stop: CancellationToken) -> Self {
        self.sign_on = Some(SignOn::start(options, self.oidc_fetches.clone(), stop));
        self
    }
}

impl Guard {
    /// A door to one life of the loop.
    #[must_use]
    pub fn new(handle: Handle, cluster: &str, metrics: &ApiMetrics) -> Self {
        let (refusals, gate, sign_on) =
            (metrics.refusals.clone(), metrics.gate.clone(), metrics.sign_on.clone());
        Self { shared: Arc::new(Shared { handle, cluster: cluster.to_owned(), refusals, sign_on }), gate }
    }

    /// Finds out who calls and asks the table.
    ///
    /// # Errors
    /// `Unauthenticated` or `Denied`; counted and logged here.
    pub async fn admit(
        &self,
        rpc: Rpc,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<Caller, RpcError> {
        let Shown { identity, oidc_subject, until, good } = self.identify(extensions, headers).await;
        let found = match good {
            Ok(()) => self.tenancy(&identity).await,
            Err(error) => Err(error),
        };
        // What an earlier tenant's people were refused is not for the people of the later one of that name.
        let tenant = found.as_ref().ok().and(identity.tenant()).unwrap_or_default();
        let mut actor = self.actor(rpc, &identity, tenant, extensions, headers);
        actor.oidc_subject = oidc_subject;
        let actor = Arc::new(actor);
        match found.and_then(|tenancy| authorise(rpc, &identity).map(|()| tenancy)) {
            Ok(tenancy) => Ok(Caller { identity, actor, tenancy, until }),
            Err(error) if is_denial(&error) => {
                self.refuse(rpc, &identity, &error);
                Err(self.record(&actor, error).await)
            }
            // Nothing was decided: the token's record could not be read.
            Err(error) => Err(error),
        }
    }

    /// Lets in whoever may make a call, when it is their turn: one tenant's storm must not hold up another. What it gives is to be kept
    /// until the answer begins, and a stream's place until it ends.
    ///
    /// # Errors
    /// As [`Guard::admit`] and [`Gate::turn`]; `Unavailable` if this controller only reads the store, and the call asks for more.
    pub(crate) async fn let_in(
        &self,
        rpc: Rpc,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<(Caller, (Option<Seat>, Option<StreamPlace>)), RpcError> {
        if !self.shared.handle.has_loop() && !rpc.reads_the_store() {
            return Err(crate::fault::refused(&Refusal::Stopped { cause: "it follows another one" }));
        }
        let caller = self.admit(rpc, extensions, headers).await?;
        let turn = self.gate.turn(rpc, &caller.identity).await?;
        if let Err(error) = self.still(&caller, extensions.get::<PeerInfo>()) {
            self.refuse(rpc, &caller.identity, &error);
            return Err(self.record(&caller.actor, error).await);
        }
        Ok((caller, turn))
    }

    /// Who calls, and by which way, as the audit log tells it.
    fn actor(
        &self,
        rpc: Rpc,
        identity: &Identity,
        tenant: &str,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Actor {
        let anonymous = |_| ANONYMOUS.to_owned();
        let source = extensions.get::<PeerInfo>().map(|peer| peer.address.to_string());
        let roles: Vec<&str> = identity.roles().iter().map(|role| role.as_str()).collect();
        Actor {
            who: identity.to_uri(&self.shared.cluster).unwrap_or_else(anonymous),
            roles: roles.join(","),
            tenant: tenant.to_owned(),
            source: source.unwrap_or_default(),
            rpc: rpc.name().to_owned(),
            request: header_text(headers, REQUEST_ID).unwrap_or_default(),
            trace: trace::current_trace_id().or_else(|| trace_id(headers)).unwrap_or_default(),
            oidc_subject: String::new(),
        }
    }

    /// Records a denial; gives the error for the caller: the denial, or that it could not be recorded.
    async fn record(&self, actor: &Arc<Actor>, denial: RpcError) -> RpcError {
        match self.shared.handle.deny(actor, &denial.reason, &denial.message).await {
            Ok(()) => denial,
            Err(refusal) => crate::fault::refused(&refusal),
        }
    }

    /// A certificate counts before a token: whoever holds a node's certificate is that node, whatever else it shows. But a token
    /// that is shown must be good: one that was guessed, or taken back, is never passed over in silence.
    async fn identify(&self, extensions: &Extensions, headers: &HeaderMap) -> Shown {
        let peer = extensions.get::<PeerInfo>();
        let certified = peer.map_or(Identity::Anonymous, |peer| peer.identity.clone());
        if peer.is_some_and(|peer| access::refuses(self.shared.handle.revoked(), peer)) {
            return Shown::plain(Identity::Anonymous, Err(access::refusal(&certified)));
        }
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Shown::plain(certified, Ok(())) };
        match self.bearer(value).await {
            Err(NotTaken { subject, error }) => {
                Shown { oidc_subject: subject, ..Shown::plain(certified, Err(error)) }
            }
            Ok(_) if certified != Identity::Anonymous => Shown::plain(certified, Ok(())),
            Ok(shown) => {
                if let Some(unproved) = extensions.get::<Unproved>() {
                    unproved.proved(&shown.identity);
                }
                shown
            }
        }
    }

    /// The identity that a bearer token belongs to: one of ours, or one of the provider that the site has named.
    async fn bearer(&self, value: &HeaderValue) -> Result<Shown, NotTaken> {
        let bad = || RpcError::new(ErrorClass::Unauthenticated, "BAD_TOKEN", "the bearer token is not valid");
        let text = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).ok_or_else(bad)?;
        match (Token::parse(TokenKind::User, text), &self.shared.sign_on) {
            (Ok(token), _) => {
                let identified = self.shared.handle.identify(&token, &self.shared.cluster).await;
                let (identity, ends) = identified.map_err(|error| crate::fault::token(&error))?;
                Ok(Shown { until: Some(time_of(ends)), ..Shown::plain(identity, Ok(())) })
            }
            (Err(_), Some(sign_on)) => self.vouched(sign_on, text).await,
            (Err(_), None) => Err(bad().into()),
        }
    }

    /// The identity for which the provider vouches, bound to the tenant that there is now.
    async fn vouched(&self, sign_on: &SignOn, text: &str) -> Result<Shown, NotTaken> {
        let handle = &self.shared.handle;
        let vouched = sign_on.bearer(text, time_of(handle.now())).await?;
        let (identity, oidc_subject, until) = self.bound(vouched).await?;
        Ok(Shown { oidc_subject, until: Some(until), ..Shown::plain(identity, Ok(())) })
    }

    /// Who that is in the tenant that there is now, unless what was issued then was taken back.
    pub(crate) async fn bound(&self, vouched: Vouched) -> Result<(Identity, String, SystemTime), NotTaken> {
        let handle = &self.shared.handle;
        let Vouched { identity, subject, issued, until } = vouched;
        let tenant = identity.tenant().unwrap_or_default().to_owned();
        let bound = match handle.bind(identity).await {
            Ok(Some(bound)) => bound,
            Ok(None) => {
                let text = format!(
                    "the token of {subject}: it is granted a role in tenant '{tenant}', which there is not"
                );
                let error = RpcError::new(ErrorClass::Unauthenticated, "NO_GRANT", text);
                return Err(NotTaken { subject, error });
            }
            Err(refusal) => return Err(crate::fault::refused(&refusal).into()),
        };
        if handle.revoked().get().refuses_since(&bound, issued) {
            return Err(NotTaken { subject, error: access::refusal(&bound) });
        }
        Ok((bound, subject, until))
    }

    /// The provider whose tokens are taken, where there is one.
    pub(crate) fn sign_on(&self) -> Option<&SignOn> {
        self.shared.sign_on.as_ref()
    }

    /// The tenant that a user acts in. Its credentials must be of the tenant that there is now, not of one that was deleted
    /// and had the same name.
    pub(crate) async fn tenancy(&self, identity: &Identity) -> Result<Option<Tenancy>, RpcError> {
        let standing = self.shared.handle.standing(identity).await;
        stands(identity, standing.map_err(|refusal| crate::fault::refused(&refusal))?)
    }

    /// Whether whoever was let in before it waited for its turn may still go on.
    fn still(&self, caller: &Caller, peer: Option<&PeerInfo>) -> Result<(), RpcError> {
        let handle = &self.shared.handle;
        if peer.is_some_and(|peer| access::refuses(handle.revoked(), peer)) {
            return Err(access::refusal(&caller.identity));
        }
        stands(&caller.identity, handle.tenancies().standing(&caller.identity)).map(drop)
    }

    fn refuse(&self, rpc: Rpc, identity: &Identity, error: &RpcError) {
        let role = identity.roles().iter().next().map_or("none", |role| role.as_str());
        self.shared.refusals.inc([rpc.name(), role, &error.reason]);
        tracing::info!(%rpc, caller = %identity, reason = error.reason, "call refused: {}", error.message);
    }

    /// Counts a refusal that a handler decided: a foreign tenant, another node's record. The door records it.
    pub fn note(&self, rpc: Rpc, caller: &Caller, error: RpcError) -> RpcError {
        if is_denial(&error) {
            self.refuse(rpc, &caller.identity, &error);
        }
        error
    }
}

/// Middleware of the gRPC router. A path that the table does not name is not served, whatever is mounted there.
pub async fn at_the_door(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let Some(rpc) = Rpc::at(request.uri().path()) else {
        let path: String = request.uri().path().chars().take(128).collect();
        let text = format!("there is no method {path} here");
        return router::refuse(true, &RpcError::new(ErrorClass::Unimplemented, "UNKNOWN_METHOD", text));
    };
    let (parts, body) = request.into_parts();
    let (peer, since) = (parts.extensions.get::<PeerInfo>().cloned(), SystemTime::now());
    match guard.let_in(rpc, &parts.extensions, &parts.headers).await {
        Ok((caller, (seat, place))) => {
            let actor = Arc::clone(&caller.actor);
            request = Request::from_parts(parts, body);
            let (identity, until) = (caller.identity.clone(), caller.until);
            request.extensions_mut().insert(caller);
            let response =
                if rpc == Rpc::UploadLogs { long_upload(request, next) } else { next.run(request).await };
            drop(seat);
            let response = match refusal_in(&response).map(reported_apart) {
                Some(RefusalKind::Denied(denial)) => {
                    router::refuse(true, &guard.record(&actor, denial).await)
                }
                Some(RefusalKind::Malformed(error)) => router::refuse(true, &error),
                Some(RefusalKind::Other) | None => response,
            };
            if !rpc.is_stream() {
                return response;
            }
            let span = span_of(&guard.shared.handle, since, until);
            access::bounded(response, &guard.shared.handle, identity, peer.as_ref(), span, place)
        }
        Err(error) => router::refuse(true, &error),
    }
}

/// How long what somebody has shown counts from now on: it was looked at then, and is good until then.
pub(crate) fn span_of(handle: &Handle, since: SystemTime, until: Option<SystemTime>) -> Span {
    let now = time_of(handle.now());
    Span { since, left: until.map(|until| until.duration_since(now).unwrap_or_default()) }
}

/// A time of the loop's clock.
pub(crate) fn time_of(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0)
}

/// The tenancy of a caller that is let in.
fn stands(identity: &Identity, standing: Standing) -> Result<Option<Tenancy>, RpcError> {
    match standing {
        Standing::Apart => Ok(None),
        Standing::Holds(tenancy) => Ok(Some(tenancy)),
        Standing::Gone => Err(access::gone(identity)),
        Standing::Unbound => Err(access::unbound(identity)),
    }
}

/// Whether somebody is refused for want of authority: that leaves a record.
fn is_denial(error: &RpcError) -> bool {
    matches!(error.class, ErrorClass::Denied | ErrorClass::Unauthenticated)
}

/// The refusal in an answer's head.
fn refusal_in(response: &Response) -> Option<Status> {
    Status::from_header_map(response.headers()).filter(|status| status.code() != Code::Ok)
}

/// A refusal by what the door does with it.
enum RefusalKind {
    /// A handler, or the core, has refused it for want of authority.
    Denied(RpcError),
    /// The request's message cannot be read.
    Malformed(RpcError),
    Other,
}

/// Our own refusals have details. What the library says itself before there is a message to handle has none, and is a defect of
/// the caller's message, whatever code it is given there.
fn reported_apart(status: Status) -> RefusalKind {
    if status.code() == Code::Internal && status.details().is_empty() {
        let text = format!("the request's message cannot be read: {}", status.message());
        return RefusalKind::Malformed(RpcError::new(ErrorClass::Invalid, "MALFORMED_MESSAGE", text));
    }
    let error = RpcError::from_status(&status);
    if is_denial(&error) { RefusalKind::Denied(error) } else { RefusalKind::Other }
}

/// A header of printable text that is not long.
fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (text.len() <= 128).then(|| text.to_owned())
}

/// The trace's id in `00-<32 hex digits>-...`, for a process without telemetry.
fn trace_id(headers: &HeaderMap) -> Option<String> {
    let text = header_text(headers, trace::TRACEPARENT)?;
    let id = text.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// A call's deadline bounds the time to the head of its answer, but an upload that follows a job is answered when the
/// job ends: its head goes out at once, and the answer itself when it is there.
fn long_upload(request: Request, next: Next) -> Response {
    let (frames, receiver) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(4);
    tokio::spawn(async move {
        let response = next.run(request).await;
        if Status::from_header_map(response.headers()).is_some() {
            // An answer without body has its status in the head; here the head is gone already.
            let trailers = response.headers().clone();
            // The agent may be gone.
            let _ = frames.send(Ok(Frame::trailers(trailers))).await;
            return;
        }
        let mut body = response.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            if frames.send(Ok(frame)).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(receiver))));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Caller {
    /// The caller of a gRPC request; the door has put it there.
    ///
    /// # Errors
    /// `Internal` if a service is mounted without the door: nothing is served then.
    pub fn of(extensions: &tonic::Extensions) -> Result<Self, RpcError> {
        let missing = || RpcError::new(ErrorClass::Internal, "NO_CALLER", "the call did not pass the door");
        extensions.get::<Self>().cloned().ok_or_else(missing)
    }

    /// The caller with its id of this request, where the message has one.
    #[must_use]
    pub fn asking(mut self, request: &str) -> Self {
        if !request.is_empty() {
            let request = request.chars().take(128).collect();
            self.actor = Arc::new(Actor { request, ..(*self.actor).clone() });
        }
        self
    }

    /// Whether the caller runs the cluster.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.identity.roles().contains(&Role::Admin)
    }

    /// The tenant of a user; none for administrators.
    ///
    /// # Errors
    /// The certificate names what no tenant can be called.
    pub fn own_tenant(&self) -> Result<Option<TenantName>, RpcError> {
        let name = self.identity.tenant().map(TenantName::new).transpose();
        name.map_err(|error| RpcError::new(ErrorClass::Denied, "BAD_TENANT", error.to_string()))
    }

    /// The revision at which the caller's tenant was made: what is older is not for the caller. 0 for administrators.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.tenancy.as_ref().map_or(0, |tenancy| tenancy.since)
    }

    /// From which revision on a watch of the caller's goes: not from before its tenant was made. 0 begins with what there is.
    #[must_use]
    pub fn after(&self, revision: u64) -> u64 {
        if revision == 0 { 0 } else { revision.max(self.since()) }
    }

    /// The one tenant that a call concerns. `asked` is the request's field for administrators; `None` for an
    /// administrator who named none.
    ///
    /// # Errors
    /// `Denied` if somebody else names a tenant that is not their own.
    pub fn scope(&self, field: &str, asked: &str) -> Result<Option<TenantName>, RpcError> {
        let named = if asked.is_empty() {
            None
        } else {
            Some(TenantName::new(asked).map_err(|error| crate::fault::field(field, error))?)
        };
        if self.is_admin() {
            return Ok(named);
        }
        let own = self.own_tenant()?.ok_or_else(|| self.no_tenant())?;
        match named {
            Some(other) if other != own => Err(RpcError::new(
                ErrorClass::Denied,
                "FOREIGN_TENANT",
                format!("{field}: {} may act in tenant '{own}' only, not in '{other}'", self.identity),
            )),
            _ => Ok(Some(own)),
        }
    }

    /// As `scope`; an administrator who names no tenant means the default one.
    ///
    /// # Errors
    /// As `scope`.
    pub fn tenant(&self, field: &str, asked: &str) -> Result<TenantName, RpcError> {
        match self.scope(field, asked)? {
            Some(tenant) => Ok(tenant),
            None => TenantName::new(controller_leader::DEFAULT_TENANT)
                .map_err(|error| crate::fault::field(field, error)),
        }
    }

    /// The node that an agent speaks for.
    ///
    /// # Errors
    /// `Denied` if the caller is no node, or its name is none that a node can have.
    pub fn node(&self) -> Result<NodeName, RpcError> {
        let denied = |text: String| RpcError::new(ErrorClass::Denied, "NOT_A_NODE", text);
        match &self.identity {
            Identity::Node { name } => NodeName::new(name).map_err(|error| denied(error.to_string())),
            other => Err(denied(format!("{other} is not a node"))),
        }
    }

    /// The switch that an agent speaks for.
    ///
    /// # Errors
    /// `Denied` if the caller is no switch, or its name is none that a switch can have.
    pub fn switch(&self) -> Result<SwitchName, RpcError> {
        let denied = |text: String| RpcError::new(ErrorClass::Denied, "NOT_A_SWITCH", text);
        match &self.identity {
            Identity::Switch { name } => SwitchName::new(name).map_err(|error| denied(error.to_string())),
            other => Err(denied(format!("{other} is not a switch"))),
        }
    }

    fn no_tenant(&self) -> RpcError {
        RpcError::new(ErrorClass::Denied, "NO_TENANT", format!("{} belongs to no tenant", self.identity))
    }
}
