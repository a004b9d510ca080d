//! One REST request as one gRPC call inside the process: the same door, the same handlers, no second copy of either.

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Request, header, request::Parts},
};
use http_body_util::BodyExt;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use proto_rpc::{ErrorClass, MAX_MESSAGE_BYTES, RpcError};
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::authz::Rpc;

/// Bytes before each message of a gRPC stream: a flag and a length.
const PREFIX: usize = 5;
/// The longest answer that is taken from a handler: far beyond any page, far below what hurts.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// The method of the schema that an RPC of the table is.
#[must_use]
pub fn method(rpc: Rpc) -> Option<MethodDescriptor> {
    let (service, name) = rpc.path().strip_prefix('/')?.split_once('/')?;
    proto_wire::descriptor_pool().get_service_by_name(service)?.methods().find(|method| method.name() == name)
}

/// A method's name as operations are called.
#[must_use]
pub fn operation_id(method: &MethodDescriptor) -> String {
    let mut name = method.name().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    name
}

/// Calls an RPC as the REST caller: what the connection and the request say of the caller goes along.
///
/// # Errors
/// The handler's or the door's refusal, if it came before the first message.
pub async fn call(
    grpc: Router,
    rpc: Rpc,
    parts: &Parts,
    message: &DynamicMessage,
    output: MessageDescriptor,
) -> Result<Messages, RpcError> {
    let mut request = Request::new(Body::from(frame(message)?));
    *request.method_mut() = axum::http::Method::POST;
    *request.uri_mut() = axum::http::Uri::from_static(rpc.path());
    // The address of the caller, its certificate, its deadline.
    *request.extensions_mut() = parts.extensions.clone();
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let further = ["traceparent", crate::guard::REQUEST_ID].map(header::HeaderName::from_static);
    for name in further.into_iter().chain([header::AUTHORIZATION]) {
        if let Some(value) = parts.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let Ok(response) = grpc.oneshot(request).await;
    if let Some(error) = status_in(response.headers()) {
        return Err(error);
    }
    Ok(Messages { body: response.into_body(), waiting: Vec::new(), output, ended: false })
}

fn frame(message: &DynamicMessage) -> Result<Bytes, RpcError> {
    let length = message.encoded_len();
    let small = u32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE_BYTES);
    let small = small.ok_or_else(|| {
        let text = format!("the request has {length} bytes; at most {MAX_MESSAGE_BYTES} are taken");
        RpcError::new(ErrorClass::TooLarge, "MESSAGE_TOO_LARGE", text)
    })?;
    let mut bytes = Vec::with_capacity(length + PREFIX);
    bytes.push(0);
    bytes.extend_from_slice(&small.to_be_bytes());
    message.encode_raw(&mut bytes);
    Ok(bytes.into())
}

/// The refusal in headers or trailers; none where they say nothing or OK.
fn status_in(headers: &HeaderMap) -> Option<RpcError> {
    let status = Status::from_header_map(headers)?;
    (status.code() != Code::Ok).then(|| RpcError::from_status(&status))
}

/// The messages of an answer, one after the other.
pub struct Messages {
    body: Body,
    waiting: Vec<u8>,
    output: MessageDescriptor,
    ended: bool,
}

impl Messages {
    /// The next message; none at a good end.
    ///
    /// # Errors
    /// The handler's refusal, after which there is nothing more.
    pub async fn next(&mut self) -> Result<Option<DynamicMessage>, RpcError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.frame().await {
                None => self.ended = true,
                Some(Err(error)) => return Err(broken(&error.to_string())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.waiting.extend_from_slice(&data),
                    Err(frame) => {
                        self.ended = true;
                        if let Some(error) = frame.trailers_ref().and_then(status_in) {
                            self.waiting.clear();
                            return Err(error);
                        }
                    }
                },
            }
        }
    }

    /// A whole message out of what has arrived.
    fn take(&mut self) -> Result<Option<DynamicMessage>, RpcError> {
        let Some((prefix, rest)) = self.waiting.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let [_, a, b, c, d] = *prefix;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_ANSWER {
            return Err(broken("a message of the answer is too large"));
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let message =
            DynamicMessage::decode(self.output.clone(), bytes).map_err(|error| broken(&error.to_string()))?;
        self.waiting.drain(..PREFIX + length);
        Ok(Some(message))
    }
}

fn broken(cause: &str) -> RpcError {
    RpcError::new(ErrorClass::Internal, "BROKEN_ANSWER", format!("the answer cannot be read: {cause}"))
}
