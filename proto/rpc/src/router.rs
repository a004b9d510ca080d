//! One router for gRPC and REST on one port: merged routes, one answer for what is not there, common layers.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tonic::Code;
use tonic::service::Routes;

use crate::deadline::DeadlinePolicy;
use crate::metrics::{Metrics, SecondsBy};
pub use crate::refusal::{is_grpc, refuse};
use crate::status::{ErrorClass, RpcError, code_name};
use crate::{MAX_MESSAGE_BYTES, cross_site, deadline, trace};

/// What happens around every call.
#[derive(Debug, Clone)]
pub struct CallLayers {
    deadlines: DeadlinePolicy,
    seconds: SecondsBy<2>,
}

impl CallLayers {
    /// Registers `rail_call_seconds{call,code}`; once per process.
    #[must_use]
    pub fn new(metrics: &Metrics, deadlines: DeadlinePolicy) -> Self {
        let seconds =
            metrics.seconds_by("call_seconds", "Time to the head of the response", ["call", "code"]);
        CallLayers { deadlines, seconds }
    }
}

/// Merges gRPC services and REST routes (without a fallback of their own) and wraps every call in, from outside
/// to inside: trace span, time and count, calls of other sites refused, deadline, panics contained, body limit.
pub fn merge(grpc: Routes, rest: Router, layers: &CallLayers) -> Router {
    grpc.into_axum_router()
        .reset_fallback()
        .merge(rest)
        .fallback(nothing_here)
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
        .layer(from_fn(contain))
        .layer(from_fn_with_state(layers.deadlines, deadline::enforce))
        .layer(from_fn(cross_site::bar))
        .layer(from_fn_with_state(layers.seconds.clone(), count))
        .layer(from_fn(trace::serve))
}

async fn nothing_here(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(256).collect();
    if is_grpc(request.headers()) {
        let error = RpcError::new(
            ErrorClass::Unimplemented,
            "UNKNOWN_METHOD",
            format!("there is no method {path} here"),
        );
        return refuse(true, &error);
    }
    let message = format!("there is no {path} here; see /v1/openapi.json");
    RpcError::new(ErrorClass::NotFound, "UNKNOWN_PATH", message).into_response()
}

async fn count(State(seconds): State<SecondsBy<2>>, request: Request, next: Next) -> Response {
    let call = trace::call_name(&request);
    let begin = Instant::now();
    let response = next.run(request).await;
    let code = outcome(&response);
    // Methods that do not exist are made up by the caller, who must not choose what we count.
    let call = if code == code_name(Code::Unimplemented) { "unknown" } else { &call };
    seconds.observe([call, code], begin.elapsed());
    response
}

/// A handler that panics is a defect of one call; without this it would end the other calls of its connection too.
async fn contain(request: Request, next: Next) -> Response {
    let grpc = is_grpc(request.headers());
    let mut handler = pin!(next.run(request));
    let outcome = poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            // The future is not polled again: its state is unknown.
            Err(_) => Poll::Ready(None),
        }
    });
    match outcome.await {
        Some(response) => response,
        None => {
            tracing::error!("a handler panicked; the panic's own message names the place");
            let message = "a defect in the server; its log says where";
            refuse(grpc, &RpcError::new(ErrorClass::Internal, "PANIC", message))
        }
    }
}

/// The gRPC code's name where the response says one, else the one that its HTTP status stands for.
fn outcome(response: &Response) -> &'static str {
    let code = match response.headers().get("grpc-status") {
        Some(value) => Code::from_bytes(value.as_bytes()),
        None if response.status().is_success() => Code::Ok,
        None => ErrorClass::of_http(response.status().as_u16()).code(),
    };
    code_name(code)
}
