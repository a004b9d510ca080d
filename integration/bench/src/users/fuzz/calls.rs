//! Calls with anything in them, as gRPC and as REST.

use std::fmt::Write as _;

use http_body_util::BodyExt as _;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use proto_rpc::{Client, RpcError};
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::Value;
use tonic::{
    Code, Request, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{Service as _, http},
};

use super::{
    dice::Dice,
    message::{broken, message},
    tally::{Fault, PATIENCE, Tally},
};

/// What an administrator would end the cluster with, or lock itself out.
const SPARED: [&str; 5] = ["Revoke", "DeleteTenant", "ApplyFabric", "DeleteFabric", "UpdateNode"];
/// Longest part of an answer that is read.
const MOST: usize = 16 << 20;

/// Somebody who calls.
pub struct Caller {
    client: Client,
    methods: Vec<MethodDescriptor>,
    routes: Vec<Route>,
}

/// A row of the OpenAPI document.
struct Route {
    method: String,
    path: String,
    query: Vec<String>,
    body: Option<MessageDescriptor>,
}

impl Caller {
    /// By this client; an administrator leaves out what would end everything.
    ///
    /// # Errors
    /// The controller does not tell what REST it has.
    pub async fn new(client: Client, admin: bool) -> Result<Self, String> {
        let client = client.with_timeout(PATIENCE);
        let may = |name: &str| !admin || !SPARED.iter().any(|spared| name.eq_ignore_ascii_case(spared));
        let services = proto_wire::descriptor_pool().services().collect::<Vec<_>>();
        let ours = services.iter().filter(|service| service.full_name().starts_with("rail.v1."));
        let all: Vec<MethodDescriptor> =
            ours.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        let methods = all.iter().filter(|method| may(method.name()) && !method.is_client_streaming());
        let mut caller = Self { methods: methods.cloned().collect(), routes: Vec::new(), client };
        let (status, document) = caller.request(http::Method::GET, "/v1/openapi.json", None).await?;
        let document: Value =
            serde_json::from_str(&document).map_err(|error| format!("{status}: {error}"))?;
        for (path, ways) in document["paths"].as_object().into_iter().flatten() {
            for (method, way) in ways.as_object().into_iter().flatten() {
                let rpc = way["operationId"].as_str().unwrap_or_default();
                if may(rpc) {
                    caller.routes.push(route(path, method, way, &all));
                }
            }
        }
        if caller.routes.is_empty() {
            Err("the OpenAPI document has no paths".to_owned())
        } else {
            Ok(caller)
        }
    }

    /// Makes one gRPC call and counts what came of it.
    pub async fn grpc(&self, dice: &mut Dice, tally: &mut Tally) {
        let Some(method) = dice.of(&self.methods) else { return };
        let message = message(dice, &method.input());
        let whole = !dice.percent(10);
        let bytes = message.encode_to_vec();
        let bytes = if whole { bytes } else { broken(dice, bytes) };
        let status = self.unary(method, bytes).await.err().unwrap_or_else(|| Status::ok(""));
        tally.answer(format!("{:?}{}", status.code(), if whole { "" } else { " to broken bytes" }));
        let shown = || {
            let input = serde_json::to_string(&message).unwrap_or_else(|_| format!("{message:?}"));
            format!("{} {:?}: {} <- {input}", method.name(), status.code(), status.message())
        };
        match status.code() {
            Code::DeadlineExceeded => tally.fault(Fault::Hang, shown),
            Code::Internal | Code::Unknown | Code::DataLoss | Code::Unavailable => {
                tally.fault(Fault::Server, shown);
            }
            Code::InvalidArgument if whole => {
                let named = RpcError::from_status(&status)
                    .violations
                    .first()
                    .is_some_and(|one| !one.field.is_empty());
                if !named {
                    tally.fault(Fault::NoField, shown);
                }
            }
            _ => {}
        }
    }

    async fn unary(&self, method: &MethodDescriptor, bytes: Vec<u8>) -> Result<(), Status> {
        let mut grpc = tonic::client::Grpc::new(self.client.clone());
        grpc.ready().await?;
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let path = path.parse().map_err(|_| Status::new(Code::Internal, "no path"))?;
        if method.is_server_streaming() {
            // What it refuses it refuses at once; how it goes on is not of this row.
            return grpc.server_streaming(Request::new(bytes), path, Raw).await.map(drop);
        }
        grpc.unary(Request::new(bytes), path, Raw).await.map(drop)
    }

    /// Makes one REST request and counts what came of it.
    pub async fn rest(&self, dice: &mut Dice, tally: &mut Tally) {
        let Some(route) = dice.of(&self.routes) else { return };
        let mut uri = String::new();
        for part in route.path.split_inclusive(['{', '}']) {
            match part.strip_suffix('}') {
                Some(_) => uri.push_str(&encoded(&dice.text())),
                None => uri.push_str(part.trim_end_matches('{')),
            }
        }
        for (at, name) in
            route.query.iter().filter(|_| dice.percent(40)).cloned().collect::<Vec<_>>().iter().enumerate()
        {
            let value = if dice.percent(50) { dice.text() } else { dice.number().to_string() };
            let _ = write!(uri, "{}{name}={}", if at == 0 { '?' } else { '&' }, encoded(&value));
        }
        uri.truncate(60_000);
        let (body, whole) = route.body.as_ref().map_or((None, true), |of| {
            let (body, whole) = json(dice, of);
            (Some(body), whole)
        });
        let method = route.method.to_ascii_uppercase();
        let Ok(method) = http::Method::from_bytes(method.as_bytes()) else { return };
        let answer = self.request(method, &uri, body.clone()).await;
        let shown = |what: &str| {
            let input = body.clone().unwrap_or_default();
            format!("{} {uri}: {what} <- {input}", route.method)
        };
        match answer {
            Err(error) if error == LATE => {
                tally.answer(LATE);
                tally.fault(Fault::Hang, || shown(LATE));
            }
            Err(error) => {
                tally.answer("no connection");
                tally.fault(Fault::Server, || shown(&error));
            }
            Ok((status, text)) => {
                tally.answer(status.to_string());
                if status >= 500 {
                    tally.fault(Fault::Server, || shown(&format!("{status} {text}")));
                }
                let field = serde_json::from_str::<Value>(&text).unwrap_or_default();
                let field = &field["error"]["violations"][0]["field"];
                if whole && status == 400 && field.as_str().unwrap_or_default().is_empty() {
                    tally.fault(Fault::NoField, || shown(&text));
                }
            }
        }
    }

    /// Status and body of an answer.
    async fn request(
        &self,
        method: http::Method,
        uri: &str,
        body: Option<String>,
    ) -> Result<(u16, String), String> {
        let endless = uri.contains(":watch") || uri.contains("/logs") || uri.contains(":export");
        let request =
            http::Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let body = body.map_or_else(Body::empty, |text| Body::new(http_body_util::Full::from(text)));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let mut client = self.client.clone();
        let answered = async {
            std::future::poll_fn(|context| client.poll_ready(context))
                .await
                .map_err(|error| error.to_string())?;
            let answer = client.call(request).await.map_err(|error| match error.code() {
                Code::DeadlineExceeded => LATE.to_owned(),
                _ => error.to_string(),
            })?;
            let status = answer.status().as_u16();
            if endless && status == 200 {
                return Ok((status, String::new()));
            }
            let limited = http_body_util::Limited::new(answer.into_body(), MOST);
            let bytes = limited.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| Err(LATE.to_owned()))
    }

    /// Ends and deletes what was submitted, so that there is room for more.
    pub async fn sweep(&self) {
        let mut jobs = JobServiceClient::new(self.client.clone());
        let request = v1::ListJobsRequest { tenant: "fuzz".to_owned(), ..Default::default() };
        let Ok(listed) = jobs.list_jobs(request).await else { return };
        for job in listed.into_inner().jobs {
            let (name, tenant) = (job.metadata.unwrap_or_default().name, "fuzz".to_owned());
            let request =
                v1::CancelJobRequest { name: name.clone(), tenant: tenant.clone(), ..Default::default() };
            let _ = jobs.cancel_job(request).await;
            let _ = jobs.delete_job(v1::DeleteJobRequest { name, tenant, ..Default::default() }).await;
        }
    }
}

/// What is said of an answer that does not come in time.
const LATE: &str = "no answer in time";

fn route(path: &str, method: &str, way: &Value, all: &[MethodDescriptor]) -> Route {
    let names = way["parameters"].as_array().into_iter().flatten();
    let query =
        names.filter(|one| one["in"] == "query").filter_map(|one| one["name"].as_str()).map(str::to_owned);
    let rpc = way["operationId"].as_str().unwrap_or_default();
    let schema = &way["requestBody"]["content"]["application/json"]["schema"];
    let named = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    let pool = proto_wire::descriptor_pool();
    let named = named.and_then(|name| pool.get_message_by_name(&format!("rail.v1.{name}")));
    let whole = || {
        let method = all.iter().find(|method| method.name().eq_ignore_ascii_case(rpc));
        way.get("requestBody").and(method).map(MethodDescriptor::input)
    };
    Route {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.collect(),
        body: named.or_else(whole),
    }
}

/// A body, and whether it is a message of that kind at all.
fn json(dice: &mut Dice, of: &MessageDescriptor) -> (String, bool) {
    let message: DynamicMessage = message(dice, of);
    // Times that are out of range have no form in JSON.
    let Ok(text) = serde_json::to_string(&message) else { return ("{}".to_owned(), true) };
    match dice.below(12) {
        0 => (text.chars().take(dice.below(text.len() + 1)).collect(), false),
        1 => (format!("[{text}]"), false),
        2 => (format!("{}{}", "{\"spec\":".repeat(dice.below(300)), text), false),
        3 => (text.replacen(':', dice.of(&[": null, \"x\":", "", ":[", ":1e400,"]).unwrap_or(&""), 1), false),
        4 => (dice.text(), false),
        _ => (text, true),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~[]%".contains(&byte) && !text.contains('%') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let left = bytes::Buf::remaining(buffer);
        bytes::Buf::advance(buffer, left);
        Ok(Some(()))
    }
}
