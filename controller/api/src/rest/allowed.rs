//! The answer to a method that a path does not take.

use axum::{
    http::{Method, header},
    response::{IntoResponse, Response},
};
use proto_rpc::{ErrorClass, RpcError};

/// 405, with the methods that it takes.
pub(super) fn not_allowed(allowed: &[Method]) -> Response {
    let allowed = allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let text = format!("this path takes {allowed} only");
    let mut response = RpcError::new(ErrorClass::Method, "METHOD_NOT_ALLOWED", text).into_response();
    if let Ok(value) = allowed.parse() {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}
