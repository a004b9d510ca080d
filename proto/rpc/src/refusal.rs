//! Answers that refuse a call, for gRPC and for REST.

use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::response::Response;
use tonic::Status;

use crate::status::RpcError;

/// Whether a request speaks gRPC.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// An error in the caller's language: a Status for gRPC, JSON for REST.
#[must_use]
pub fn refuse(grpc: bool, error: &RpcError) -> Response {
    if grpc { Status::from(error).into_http() } else { error.clone().into_response() }
}
