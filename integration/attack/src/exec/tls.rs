//! Connections to the controller's port below gRPC: TLS with or without a certificate, and what is written as it is.

use std::{sync::Arc, time::Duration};

use proto_rpc::{CertificateSlot, Endpoint, tls};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::ClientConfig};

use super::people::Target;

/// A connection with TLS.
pub type Tls = TlsStream<TcpStream>;

/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the first byte of an answer: a request that never ends gets none.
const FIRST: Duration = Duration::from_secs(3);
/// Most bytes that are read of an answer.
const MOST: usize = 4 << 20;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The host and port of the controller.
///
/// # Errors
/// It has no TCP address.
pub fn address(endpoint: &Endpoint) -> Result<(String, u16), String> {
    match endpoint {
        Endpoint::Tcp { host, port } => Ok((host.clone(), *port)),
        Endpoint::Unix { .. } => Err("the controller has no TCP address".to_owned()),
    }
}

/// A TCP connection.
///
/// # Errors
/// There is none.
pub async fn tcp(place: &Target) -> Result<TcpStream, String> {
    let address = address(&place.endpoint)?;
    let connected = timeout(PATIENCE, TcpStream::connect(address)).await;
    connected.map_err(|_| "no connection in time".to_owned())?.map_err(text)
}

/// How a client speaks TLS with the controller.
///
/// # Errors
/// The CA's certificate is none.
pub fn config(place: &Target, slot: Option<&CertificateSlot>, alpn: &[u8]) -> Result<ClientConfig, String> {
    let config = tls::client_config(&tls::Trust::Ca(place.ca.clone()), slot).map_err(text)?;
    let mut config = (*config).clone();
    config.alpn_protocols = if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] };
    Ok(config)
}

/// A connection with TLS.
///
/// # Errors
/// There is none, or no handshake.
pub async fn connect(place: &Target, slot: Option<&CertificateSlot>, alpn: &[u8]) -> Result<Tls, String> {
    let name = place.endpoint.server_name().map_err(text)?;
    let connector = TlsConnector::from(Arc::new(config(place, slot, alpn)?));
    let stream = tcp(place).await?;
    let connected = timeout(PATIENCE, connector.connect(name, stream)).await;
    connected.map_err(|_| "no handshake in time".to_owned())?.map_err(text)
}

/// An answer over HTTP/1.1.
#[derive(Debug, Default)]
pub struct Reply {
    /// 0 where the connection ended without an answer.
    pub status: u16,
    /// All that came until the connection ended.
    pub text: String,
}

impl Reply {
    /// The reason in a refusal of ours; empty if there is none.
    pub fn reason(&self) -> String {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let start = body.find('{').unwrap_or(0);
        let value: serde_json::Value = serde_json::Deserializer::from_str(&body[start..])
            .into_iter()
            .next()
            .and_then(Result::ok)
            .unwrap_or_default();
        value["error"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// A few words for evidence.
    pub fn words(&self) -> String {
        let text: String = self.text.chars().take(300).collect();
        format!("status {}: {text:?}", self.status)
    }
}

/// Writes a request as it is and reads what comes until the end, or until nothing comes any more.
///
/// # Errors
/// There is no connection.
pub async fn exchange(place: &Target, slot: Option<&CertificateSlot>, bytes: &[u8]) -> Result<Reply, String> {
    let stream = connect(place, slot, b"http/1.1").await?;
    let (mut read, mut write) = tokio::io::split(stream);
    let send = async {
        // It may be refused before all of it is sent.
        let _ = timeout(PATIENCE, write.write_all(bytes)).await;
        let _ = write.flush().await;
    };
    let receive = async {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        while all.len() < MOST {
            let quiet = if all.is_empty() { FIRST } else { Duration::from_millis(400) };
            match timeout(quiet, read.read(&mut buffer)).await {
                Ok(Ok(length)) if length > 0 => all.extend_from_slice(&buffer[..length]),
                _ => break,
            }
        }
        all
    };
    let ((), all) = tokio::join!(send, receive);
    let text = String::from_utf8_lossy(&all).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Ok(Reply { status, text })
}
