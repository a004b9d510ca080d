//! REST under /v1: the canonical JSON mapping of the same services, driven by one table of routes.

mod allowed;
mod events;
mod examples;
mod links;
mod login;
mod map;
mod openapi;
mod params;
mod place;
pub mod routes;
mod taken;
mod transcode;
mod ui;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{Method, header, request::Parts},
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::any,
};
use prost_reflect::{DynamicMessage, Kind, MethodDescriptor, Value};
use proto_manifest::{Format, read_message, to_json};
use proto_rpc::{ErrorClass, MAX_MESSAGE_BYTES, RpcError, negotiate, whole};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

use crate::{
    authz::Rpc,
    context::Context,
    feed::metrics::FeedMetrics,
    rest::{
        allowed::not_allowed,
        routes::{Body as RouteBody, OPENAPI, ROUTES, Route},
        transcode::Messages,
    },
};

pub use openapi::document;

/// Lines that wait for one reader of a stream.
const LINES: usize = 64;
const NDJSON: &str = "application/x-ndjson";

#[derive(Clone)]
struct Rest {
    grpc: Router,
    context: Context,
    /// Made when somebody asks for it first: a controller that takes the lead has no time for it.
    document: Arc<OnceLock<Bytes>>,
}

/// The routes over a gRPC router that has its door already.
pub(crate) fn router(grpc: Router, context: Context, metrics: &FeedMetrics) -> Router {
    // Several routes may share a path, each with its own name for what the path carries; the table knows which.
    let mounts: BTreeSet<String> = ROUTES.iter().map(|route| plain(route.mount())).collect();
    let mut router = Router::new().route(OPENAPI, any(describe));
    for mount in mounts {
        router = router.route(&mount, any(serve));
    }
    router =
        router.merge(ui::router()).merge(map::router(context.clone())).merge(login::router(context.clone()));
    router = router.merge(events::router(context.clone(), metrics));
    router.layer(from_fn(negotiate::pack)).with_state(Rest { grpc, context, document: Arc::default() })
}

/// The path with one name for all parameters.
fn plain(mount: &str) -> String {
    let segment = |segment| if str::starts_with(segment, '{') { "{name}" } else { segment };
    mount.split('/').map(segment).collect::<Vec<_>>().join("/")
}

async fn describe(State(rest): State<Rest>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return not_allowed(&[Method::GET, Method::HEAD]);
    }
    match rest.context.guard.admit(Rpc::OpenApi, &parts.extensions, &parts.headers).await {
        Ok(_) => {
            let document =
                rest.document.get_or_init(|| document(rest.context.version).to_string().into()).clone();
            ([(header::CONTENT_TYPE, "application/json")], document).into_response()
        }
        Err(error) => error.into_response(),
    }
}

async fn serve(State(rest): State<Rest>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    match routes::find(&parts.method, &path) {
        Ok((route, values)) => {
            transact(&rest, route, &values, &parts, body).await.unwrap_or_else(IntoResponse::into_response)
        }
        Err(others) if others.is_empty() => {
            let text = format!("there is no {path} here; see {OPENAPI}");
            RpcError::new(ErrorClass::NotFound, "UNKNOWN_PATH", text).into_response()
        }
        Err(others) => not_allowed(&others),
    }
}

async fn transact(
    rest: &Rest,
    route: &'static Route,
    values: &[&str],
    parts: &Parts,
    body: Body,
) -> Result<Response, RpcError> {
    // Who may not call learns nothing about what it sent; the door inside asks once more for the gRPC call.
    rest.context.guard.admit(route.rpc, &parts.extensions, &parts.headers).await?;
    let missing =
        || RpcError::new(ErrorClass::Internal, "NO_METHOD", "the route's method is not in the schema");
    let method = transcode::method(route.rpc).ok_or_else(missing)?;
    let message = request_message(route, &method, values, parts, body).await?;
    let mut messages =
        transcode::call(rest.grpc.clone(), route.rpc, parts, &message, method.output()).await?;
    if method.is_server_streaming() {
        return Ok(stream(route.rpc, parts, messages));
    }
    let none = || RpcError::new(ErrorClass::Internal, "NO_ANSWER", "the handler gave no answer");
    let answer = messages.next().await?.ok_or_else(none)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json(&answer)?).into_response())
}

fn json(message: &DynamicMessage) -> Result<String, RpcError> {
    let value = to_json(message);
    let value = value.map_err(|error| RpcError::new(ErrorClass::Internal, "NO_JSON", error.to_string()))?;
    Ok(value.to_string())
}

async fn request_message(
    route: &Route,
    method: &MethodDescriptor,
    values: &[&str],
    parts: &Parts,
    body: Body,
) -> Result<DynamicMessage, RpcError> {
    let bytes = whole::read(&parts.headers, body, MAX_MESSAGE_BYTES).await?;
    if !bytes.is_empty() {
        taken::check(&parts.headers)?;
    }
    let mut message = DynamicMessage::new(method.input());
    let mut taken = Vec::new();
    match route.body {
        RouteBody::None if bytes.is_empty() => {}
        RouteBody::None => return Err(crate::fault::field("body", "this call takes none")),
        RouteBody::Whole if bytes.is_empty() => {}
        RouteBody::Whole => message = read_body(&bytes, &method.input())?,
        RouteBody::Field(name) => {
            taken.push(name);
            let field = method.input().get_field_by_name(name);
            if let Some((field, Kind::Message(of))) = field.map(|field| (field.clone(), field.kind())) {
                message.set_field(&field, Value::Message(read_body(&bytes, &of)?));
            }
        }
    }
    for (name, value) in route.parameters().into_iter().zip(values) {
        let value = params::decode(value, false, name)?;
        let field = method.input().get_field_by_name(name);
        if let Some(field) = field {
            let given = message.get_field(&field).as_str().unwrap_or_default().to_owned();
            if !given.is_empty() && given != value {
                let text = format!("is '{given}' in the body but '{value}' in the path");
                return Err(crate::fault::field(field.json_name(), text));
            }
            message.set_field(&field, Value::String(value));
            taken.push(name);
        }
    }
    if route.body != RouteBody::Whole {
        for (name, value) in params::query(parts.uri.query().unwrap_or_default())? {
            params::set(&mut message, &name, &value, &taken)?;
        }
    } else if parts.uri.query().is_some_and(|query| !query.is_empty()) {
        return Err(crate::fault::field(
            "query",
            "this call takes its fields in the body, not as query parameters",
        ));
    }
    Ok(message)
}

/// Strict: an unknown field is an error that names the place and the nearest known one.
fn read_body(bytes: &Bytes, of: &prost_reflect::MessageDescriptor) -> Result<DynamicMessage, RpcError> {
    read_message("body", bytes, Format::Json, of).map_err(|findings| {
        let error = RpcError::new(ErrorClass::Invalid, "INVALID_BODY", findings.to_string());
        findings.items.iter().fold(error, |error, finding| {
            let at = format!("line {}, column {}: {}", finding.at.line, finding.at.column, finding.message);
            let field =
                if finding.field.is_empty() { broken_at(bytes, finding) } else { finding.field.clone() };
            error.with_violation(field, at)
        })
    })
}

/// What a finding is about that names no field: the field in which the text cannot be read, or all of the body.
fn broken_at(bytes: &Bytes, finding: &proto_manifest::Finding) -> String {
    let field = place::field_at(&String::from_utf8_lossy(bytes), finding.at.line, finding.at.column);
    if field.is_empty() { "body".to_owned() } else { field }
}

/// A stream as one JSON object per line; logs as plain text for those who ask for it. An error that comes later than
/// the first line is the last line.
fn stream(rpc: Rpc, parts: &Parts, mut messages: Messages) -> Response {
    let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let plain = rpc == Rpc::StreamLogs && accept.contains("text/plain");
    let (lines, receiver) = tokio::sync::mpsc::channel::<Bytes>(LINES);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = messages.next() => next,
                // The client went away: the handler's stream ends with its body.
                () = lines.closed() => return,
            };
            let (line, last) = match next {
                Ok(None) => return,
                Ok(Some(message)) if plain => (data(&message), false),
                Ok(Some(message)) => match json(&message) {
                    Ok(text) => (format!("{text}\n").into(), false),
                    Err(error) => (error_line(&error, plain), true),
                },
                Err(error) => (error_line(&error, plain), true),
            };
            if lines.send(line).await.is_err() || last {
                return;
            }
        }
    });
    let kind = if plain { "text/plain; charset=utf-8" } else { NDJSON };
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

fn data(chunk: &DynamicMessage) -> Bytes {
    let field = chunk.get_field_by_name("data");
    field.and_then(|value| value.as_bytes().cloned()).unwrap_or_default()
}

fn error_line(error: &RpcError, plain: bool) -> Bytes {
    if plain { format!("error: {error}\n").into() } else { format!("{}\n", error.to_json()).into() }
}
