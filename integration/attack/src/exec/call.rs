//! One gRPC call of any method with a message in JSON, and the answer to it.

use std::time::Duration;

use bytes::{Buf as _, BufMut as _};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use proto_rpc::{Client, RpcError};
use serde_json::Value;
use tonic::{
    Code, Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Longest wait for the first message or the refusal of a call.
const PATIENCE: Duration = Duration::from_secs(10);
/// A stream that says nothing for so long has said what comes at once.
const QUIET: Duration = Duration::from_millis(300);
/// Messages of a stream that are read.
const MOST: usize = 256;

/// What a call gave.
#[derive(Debug, Default)]
pub struct Answer {
    /// Messages, in canonical JSON where the schema is known.
    pub messages: Vec<String>,
    /// How it ended, if badly.
    pub error: Option<RpcError>,
}

impl Answer {
    /// All that was answered.
    pub fn text(&self) -> String {
        let error = self
            .error
            .as_ref()
            .map(|error| format!("{} {} {:?}", error.reason, error.message, error.violations));
        let mut text = self.messages.join("\n");
        text.push_str(&error.unwrap_or_default());
        text
    }

    /// The reason of the refusal; empty if there is none.
    pub fn reason(&self) -> &str {
        self.error.as_ref().map_or("", |error| error.reason.as_str())
    }

    /// The first message as JSON.
    pub fn json(&self) -> Value {
        self.messages.first().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// A few words for evidence.
    pub fn words(&self) -> String {
        let mut text = match &self.error {
            Some(error) => format!("{}: {}", error.reason, error.message),
            None => format!("answered: {}", self.messages.join(" ")),
        };
        if text.len() > 300 {
            let end = (0..=300).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        text
    }
}

/// Bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
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
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// The method of `package.Service/Method`, where it is of our schema.
pub fn method(rpc: &str) -> Option<MethodDescriptor> {
    let (service, name) = rpc.split_once('/')?;
    let service = proto_wire::descriptor_pool().get_service_by_name(service)?;
    service.methods().find(|method| method.name() == name)
}

fn encoded(rpc: &str, body: &Value) -> Result<Vec<u8>, String> {
    let Some(method) = method(rpc) else { return Ok(Vec::new()) };
    let message = DynamicMessage::deserialize(method.input(), body);
    Ok(message.map_err(|error| format!("{rpc}: {error} in {body}"))?.encode_to_vec())
}

fn shown(rpc: &str, bytes: &[u8]) -> String {
    let decoded = method(rpc).and_then(|method| DynamicMessage::decode(method.output(), bytes).ok());
    decoded
        .and_then(|message| serde_json::to_string(&message).ok())
        .unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Calls with a message in canonical JSON.
///
/// # Errors
/// The attempt itself is wrong: its message does not fit the schema.
pub async fn call(client: &Client, rpc: &str, body: &Value) -> Result<Answer, String> {
    Ok(frame(client, rpc, encoded(rpc, body)?).await)
}

/// Calls a method with these bytes as its message, whether they decode or not.
pub async fn frame(client: &Client, rpc: &str, bytes: Vec<u8>) -> Answer {
    let mut answer = Answer::default();
    let done = tokio::time::timeout(PATIENCE, read(client, rpc, bytes, &mut answer)).await;
    let done = done.unwrap_or_else(|_| Err(Status::new(Code::DeadlineExceeded, "no answer in time")));
    answer.error = done.err().map(|status| RpcError::from_status(&status));
    answer
}

async fn read(client: &Client, rpc: &str, bytes: Vec<u8>, answer: &mut Answer) -> Result<(), Status> {
    let mut grpc = tonic::client::Grpc::new(client.without_timeout());
    grpc.ready().await?;
    let path = format!("/{rpc}").parse().map_err(|_| Status::new(Code::Internal, "no path"))?;
    let response = grpc.server_streaming(Request::new(bytes), path, Raw).await?;
    let mut messages = response.into_inner();
    while answer.messages.len() < MOST {
        match tokio::time::timeout(QUIET, messages.message()).await {
            Ok(message) => match message? {
                Some(bytes) => answer.messages.push(shown(rpc, &bytes)),
                None => return Ok(()),
            },
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// As `call`, and it must succeed.
///
/// # Errors
/// What came instead.
pub async fn must(client: &Client, rpc: &str, body: Value) -> Result<Value, String> {
    let answer = call(client, rpc, &body).await?;
    match &answer.error {
        None => Ok(answer.json()),
        Some(_) => Err(format!("{rpc}: {}", answer.words())),
    }
}
