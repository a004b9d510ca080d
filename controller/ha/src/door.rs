//! The entry of all calls to a controller that may lead or not: they are answered here, forwarded to the leader, or wait for one.
//!
//! A call that was not begun may be begun again elsewhere. One that may have been done is reported as such, unless it may be
//! repeated: it has no side effects, or it is idempotent by its request id ([`crate::repeat`]).

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderName, Method, StatusCode, Version, header, request::Parts},
    response::Response,
    routing::any,
};
use http_body_util::{BodyExt as _, Limited};
use prost_reflect::MethodDescriptor;
use proto_rpc::{
    Client, ErrorClass, Identity, MAX_FABRIC_BYTES, MAX_MESSAGE_BYTES, PeerInfo, RpcError, Unproved,
    deadline::{self, DeadlinePolicy},
    router::{is_grpc, refuse},
    whole,
};
use proto_wire::v1::controller_service_server::ControllerServiceServer;
use tokio::time::Instant;
use tonic::{Code, Status, service::Routes};
use tower::{Service as _, ServiceExt as _};

use crate::{
    caller,
    heartbeats::Heartbeats,
    leadership::{LeadershipWatch, Route, Target},
    repeat::{self, PREFIX},
};

/// Longest wait for a leader.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest pause before a call that was turned away is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a call that was forwarded waits for its answer after the leadership has changed: one that may not be repeated, and one
/// that may.
const LEFT: Duration = Duration::from_secs(3);
const LEFT_REPEATS: Duration = Duration::from_millis(500);
/// The service whose calls may carry a whole fabric.
const FABRICS: &str = "rail.v1.FabricService";
/// Longest body of a caller without credentials, in bytes.
const NOBODYS: usize = 64 * 1024;
/// Longest body of a refusal that is read for its reason, in bytes.
const REFUSAL: usize = 16 * 1024;
/// The reason of a controller that does not lead any more and has not begun a call.
const NOT_LEADING: &str = "NOT_LEADING";
/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::HOST,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

#[derive(Clone)]
struct Door {
    leadership: LeadershipWatch,
    cluster: String,
    /// Answers calls that only read the store, whoever leads; `None`: the leader answers them.
    reads: Option<Router>,
}

/// The router of one of several controllers; `reads` answers calls that only read the store while this controller does not lead.
pub fn router(
    leadership: LeadershipWatch,
    cluster: &str,
    heartbeats: Heartbeats,
    reads: Option<Router>,
) -> Router {
    let service = ControllerServiceServer::new(heartbeats).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let own = Routes::new(service).into_axum_router().reset_fallback();
    let door = Door { leadership, cluster: cluster.to_owned(), reads };
    // Only the service among controllers is answered whether or not this one leads.
    Router::new().fallback(any(enter)).with_state(door).merge(own)
}

async fn enter(State(door): State<Door>, mut request: Request) -> Response {
    let grpc = is_grpc(request.headers());
    let mut peer = request.extensions_mut().remove::<PeerInfo>();
    if let Some(peer) = &mut peer
        && caller::believe(request.headers_mut(), peer, &door.cluster).is_none()
    {
        let text = "a controller hands on a call of nobody";
        return refuse(grpc, &RpcError::new(ErrorClass::Denied, "BAD_CALLER", text));
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    match Call::read(request).await {
        Ok(call) => door.answer(call).await.unwrap_or_else(|error| refuse(grpc, &error)),
        Err(error) => refuse(grpc, &error),
    }
}

/// A call as it was received; it can be made once or, if its whole body is known, again.
struct Call {
    parts: Parts,
    body: Recorded,
    grpc: bool,
    reads: bool,
    /// Done twice it is the same as done once: it has no side effects, or is idempotent by its request id.
    repeats: bool,
}

enum Recorded {
    Whole(Bytes),
    Once(Option<Body>),
}

impl Call {
    async fn read(request: Request) -> Result<Self, RpcError> {
        let (parts, body) = request.into_parts();
        let grpc = is_grpc(&parts.headers);
        let method = if grpc { method(parts.uri.path()) } else { None };
        let reads = match &method {
            Some(method) => repeat::has_no_side_effects(method),
            None => !grpc && (parts.method == Method::GET || parts.method == Method::HEAD),
        };
        let idempotent = method.as_ref().filter(|method| repeat::is_idempotent(method));
        let streams = grpc && method.as_ref().is_none_or(|method| method.is_client_streaming());
        let body = if streams {
            Recorded::Once(Some(body))
        } else {
            let limit = most_bytes(&parts, method.as_ref());
            let read = tokio::time::timeout(asked(&parts), whole::read(&parts.headers, body, limit)).await;
            let late = |_| {
                let text = "the request's body did not come to its end in time";
                RpcError::new(ErrorClass::Timeout, "DEADLINE_EXCEEDED", text)
            };
            Recorded::Whole(read.map_err(late)??)
        };
        let known = match (idempotent, &body) {
            (Some(method), Recorded::Whole(bytes)) => repeat::has_request_id(method, bytes),
            _ => false,
        };
        let repeats = reads || known;
        Ok(Self { parts, body, grpc, reads, repeats })
    }

    /// The request to send; `None` if it was sent and its body cannot be sent again.
    fn make(&mut self) -> Option<Request> {
        let body = match &mut self.body {
            Recorded::Whole(bytes) => Body::from(bytes.clone()),
            Recorded::Once(body) => body.take()?,
        };
        Some(Request::from_parts(self.parts.clone(), body))
    }

    /// When the caller stops waiting, or this controller does.
    fn until(&self) -> Instant {
        Instant::now() + asked(&self.parts).min(PATIENCE)
    }
}

/// How long the caller waits, by its deadline.
fn asked(parts: &Parts) -> Duration {
    let policy = DeadlinePolicy::default();
    let asked = parts.headers.get(deadline::GRPC_TIMEOUT).and_then(|value| value.to_str().ok());
    asked.and_then(deadline::parse).unwrap_or(policy.default).min(policy.longest)
}

/// The longest body, in bytes, that is kept before it is known whether the caller may call: without credentials only as much as a
/// server needs to join.
fn most_bytes(parts: &Parts, method: Option<&MethodDescriptor>) -> usize {
    let known = parts.extensions.get::<PeerInfo>().is_some_and(|peer| peer.identity != Identity::Anonymous);
    let shows = parts.headers.contains_key(header::AUTHORIZATION);
    let fabric = method.is_some_and(|method| method.parent_service().full_name() == FABRICS);
    let largest = if fabric { MAX_FABRIC_BYTES } else { MAX_MESSAGE_BYTES };
    if known || shows { largest + PREFIX } else { NOBODYS }
}

/// Whether a call succeeded, by the headers of its answer.
fn is_answered<B>(response: &axum::http::Response<B>) -> bool {
    let status = response.headers().get("grpc-status");
    response.status().is_success() && status.is_none_or(|status| status.as_bytes() == b"0")
}

fn method(path: &str) -> Option<MethodDescriptor> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    proto_wire::descriptor_pool().get_service_by_name(service)?.methods().find(|method| method.name() == name)
}

impl Door {
    async fn answer(&self, mut call: Call) -> Result<Response, RpcError> {
        if let Some(response) = self.read_here(&mut call).await {
            return Ok(response);
        }
        let until = call.until();
        let mut route = self.leadership.route();
        loop {
            let nobody = || {
                let text = "no controller leads at the moment; nothing was done";
                RpcError::new(ErrorClass::Unavailable, "NO_LEADER", text)
                    .with_retry_after(Duration::from_millis(500))
            };
            let target =
                tokio::time::timeout_at(until, route.target()).await.ok().flatten().ok_or_else(nobody)?;
            let made = match target {
                Target::Local(mut router, at_work) => {
                    let request = call.make().ok_or_else(nobody)?;
                    let Ok(response) = router.call(request).await;
                    drop(at_work);
                    Ok(response)
                }
                Target::Remote(epoch, client) => {
                    let request = call.make().ok_or_else(nobody)?;
                    self.hand_on(call.repeats, client, request, &mut route)
                        .await
                        .map_err(|error| (epoch, error))
                }
            };
            let error = match made {
                Ok(response) => match turned_away(call.grpc, response).await {
                    Away::No(response) => return Ok(response),
                    Away::Yes(_) if matches!(call.body, Recorded::Whole(_)) && Instant::now() < until => None,
                    Away::Yes(response) => return Ok(response),
                },
                Err((epoch, error)) => {
                    tracing::debug!(epoch, %error.message, "a call could not be handed on");
                    Some(error)
                }
            };
            if let Some(error) = error {
                let begun = error.reason != "UNREACHABLE";
                if (begun && !call.repeats)
                    || matches!(call.body, Recorded::Once(None))
                    || Instant::now() >= until
                {
                    return Err(error);
                }
            }
            // Another leader may be known already, or the known one may be about to lead.
            let _ = tokio::time::timeout(AGAIN, route.changed()).await;
        }
    }

    /// The answer to what can be read here; `None` where the leader is to be asked: it needs more than the store, its denial
    /// is to be recorded, or the store is out of this controller's reach.
    async fn read_here(&self, call: &mut Call) -> Option<Response> {
        let mut reads = self.reads.clone().filter(|_| call.reads && !self.leadership.is_local())?;
        if matches!(call.body, Recorded::Once(_)) {
            return None;
        }
        let Ok(response) = reads.call(call.make()?).await;
        let refused = match call.grpc {
            true => Status::from_header_map(response.headers())
                .is_some_and(|status| status.code() == Code::Unavailable),
            false => response.status() == StatusCode::SERVICE_UNAVAILABLE,
        };
        (!refused).then_some(response)
    }

    async fn hand_on(
        &self,
        repeats: bool,
        mut client: Client,
        request: Request,
        route: &mut Route,
    ) -> Result<Response, RpcError> {
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.get::<PeerInfo>().cloned();
        let shows = parts.headers.contains_key(header::AUTHORIZATION);
        let unproved = parts.extensions.get::<Unproved>().cloned().filter(|_| shows);
        parts.extensions.clear();
        HOP_BY_HOP.iter().for_each(|name| _ = parts.headers.remove(name));
        parts.version = Version::HTTP_2;
        let reported = peer.and_then(|peer| caller::report(&mut parts.headers, &peer, &self.cluster));
        if reported.is_none() {
            let text = "the caller's identity cannot be handed on";
            return Err(RpcError::new(ErrorClass::Internal, "NO_CALLER", text));
        }
        let request = axum::http::Request::from_parts(parts, tonic::body::Body::new(body));
        let ready = client.ready().await.map_err(|status| RpcError::from_status(&status))?;
        let lost = || {
            let text = "the leader was lost while it worked at the call; it is not known whether it was done: repeat it with the same request id";
            RpcError::new(ErrorClass::Unavailable, "OUTCOME_UNKNOWN", text)
        };
        let given_up = async {
            route.changed().await;
            // A leader that ends in good order still answers the calls that it has received.
            tokio::time::sleep(if repeats { LEFT_REPEATS } else { LEFT }).await;
        };
        let answer = tokio::select! {
            answer = ready.call(request) => answer,
            () = given_up => return Err(lost()),
        };
        match answer {
            Ok(response) => {
                // A call with a token that was answered: the token is good.
                if let Some(unproved) = unproved.filter(|_| is_answered(&response)) {
                    unproved.vouched();
                }
                let mut response = response.map(Body::new);
                *response.version_mut() = Version::default();
                Ok(response)
            }
            Err(status) => {
                let error = RpcError::from_status(&status);
                let not_begun = error.reason == "UNREACHABLE";
                Err(if not_begun || repeats { error } else { lost() })
            }
        }
    }
}

/// Whether a controller that does not lead any more has turned a call away without doing anything; the answer in either case.
enum Away {
    No(Response),
    Yes(Response),
}

async fn turned_away(grpc: bool, response: Response) -> Away {
    if grpc {
        let status = Status::from_header_map(response.headers());
        let is = status.is_some_and(|status| RpcError::from_status(&status).reason == NOT_LEADING);
        return if is { Away::Yes(response) } else { Away::No(response) };
    }
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        return Away::No(response);
    }
    let (parts, body) = response.into_parts();
    match Limited::new(body, REFUSAL).collect().await {
        Ok(body) => {
            let bytes = body.to_bytes();
            let is = reason(&bytes).is_some_and(|reason| reason == NOT_LEADING);
            let response = Response::from_parts(parts, Body::from(bytes));
            if is { Away::Yes(response) } else { Away::No(response) }
        }
        Err(_) => {
            let text = "the answer was cut off";
            Away::No(refuse(false, &RpcError::new(ErrorClass::Unavailable, "CONNECTION_LOST", text)))
        }
    }
}

/// The reason in the JSON body of a refused REST call ([`RpcError::to_json`]); `None` where the body is something else.
fn reason(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    body.pointer("/error/reason")?.as_str().map(ToOwned::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on shall say where")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_end_is_not_waited_for_and_one_of_nobody_is_short() {
        let request = |body: Body| Request::post("/rail.v1.JobService/CreateJob").body(body).unwrap();
        let mut endless =
            request(Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>()));
        endless.headers_mut().insert(header::CONTENT_TYPE, "application/grpc".parse().unwrap());
        endless.headers_mut().insert(deadline::GRPC_TIMEOUT, "20m".parse().unwrap());
        let Err(error) = Call::read(endless).await else { panic!("it was read") };
        assert_eq!(error.reason, "DEADLINE_EXCEEDED");
        let long = || Body::from(vec![0; NOBODYS + 1]);
        let Err(error) = Call::read(request(long())).await else { panic!("it was read") };
        assert_eq!(error.reason, "MESSAGE_TOO_LARGE");
        let mut known = request(long());
        known.headers_mut().insert(header::AUTHORIZATION, "Bearer x".parse().unwrap());
        assert!(Call::read(known).await.is_ok());
    }

    #[tokio::test]
    async fn only_the_reason_of_a_refusal_says_that_nothing_was_done() {
        let is_away = async |response: Response| matches!(turned_away(false, response).await, Away::Yes(_));
        let refused =
            |reason, text: &str| refuse(false, &RpcError::new(ErrorClass::Unavailable, reason, text));
        assert!(is_away(refused(NOT_LEADING, "the controller is ending")).await);
        assert!(
            !is_away(refused("UNWRITABLE", "a job named \"NOT_LEADING\"")).await,
            "it stands in the message"
        );
        let status = StatusCode::SERVICE_UNAVAILABLE;
        for body in ["\"NOT_LEADING\"", r#"{"reason": "NOT_LEADING"}"#, "not JSON \"NOT_LEADING\"", ""] {
            let response = Response::builder().status(status).body(Body::from(body)).unwrap();
            assert!(!is_away(response).await, "{body}");
        }
        let Away::No(kept) = turned_away(false, refused("UNWRITABLE", "no space")).await else {
            panic!("it is taken for turned away")
        };
        let body = kept.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(reason(&body).unwrap(), "UNWRITABLE", "the caller gets the body whole");
    }

    #[test]
    fn methods_are_found_by_their_path() {
        assert_eq!(method("/rail.v1.JobService/GetJob").unwrap().name(), "GetJob");
        assert!(method("/rail.v1.JobService/None").is_none() && method("x").is_none());
        assert!(method("/rail.v1.AgentService/Connect").unwrap().is_client_streaming());
    }
}
