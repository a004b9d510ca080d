//! One server as far as the controller can see, so that jobs may wait for it.

use std::time::Duration;

use proto_rpc::{CertificateSlot, Client, Credentials, KeyRequest, tls::Trust};
use proto_wire::v1::{
    self, agent_message::Body, agent_service_client::AgentServiceClient,
    enroll_service_client::EnrollServiceClient, node_service_client::NodeServiceClient,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::load::Caller;

const NAME: &str = "n0";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Joins, registers, and beats for as long as the runtime lives; gives the certificate and its key.
///
/// # Errors
/// The controller refuses the token, the join or the registration.
pub async fn join(
    admin: &Client,
    caller: impl Fn(Credentials) -> Result<Caller, String>,
) -> Result<(String, String), String> {
    let ask = v1::CreateJoinTokenRequest { node: NAME.to_owned(), lifetime: None };
    let made = NodeServiceClient::new(admin.clone()).create_join_token(ask).await.map_err(text)?.into_inner();
    let pinned = caller(Credentials::new(Trust::Pin(made.ca_pin.parse().map_err(text)?)))?.client()?;
    let key = KeyRequest::generate().map_err(text)?;
    let request = v1::JoinRequest { token: made.token, node: NAME.to_owned(), csr_pem: key.csr_pem.clone() };
    let joined = EnrollServiceClient::new(pinned).join(request).await.map_err(text)?.into_inner();
    let slot = CertificateSlot::new(&joined.certificate_pem, &key.key_pem).map_err(text)?;
    let credentials = Credentials::new(Trust::Ca(joined.ca_pem.clone())).with_certificate(slot);
    let mut agent = AgentServiceClient::new(caller(credentials)?.client()?.without_timeout());
    let (say, said) = mpsc::channel(16);
    let message = |body| v1::AgentMessage { body: Some(body) };
    let register = v1::Register { node: NAME.to_owned(), inventory: Some(inventory()), ..Default::default() };
    say.send(message(Body::Register(register))).await.map_err(text)?;
    let mut orders = agent.connect(ReceiverStream::new(said)).await.map_err(text)?.into_inner();
    orders.message().await.map_err(text)?.ok_or("no Welcome")?;
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = beat.tick() => {
                    if say.send(message(Body::Heartbeat(v1::Heartbeat::default()))).await.is_err() {
                        return;
                    }
                }
                // It does nothing that it is sent: its jobs never begin, and the others wait.
                order = orders.message() => if !matches!(order, Ok(Some(_))) { return },
            }
        }
    });
    Ok((joined.certificate_pem, key.key_pem))
}

fn inventory() -> v1::Inventory {
    let nic = v1::Nic {
        device: "rail0".to_owned(),
        netdev: "rail0".to_owned(),
        address: "127.0.0.1".to_owned(),
        mtu: 9000,
        speed_mbps: 10_000,
        up: true,
        gid_index: -1,
        ..v1::Nic::default()
    };
    let gpu = v1::Gpu { model: "none".to_owned(), ..v1::Gpu::default() };
    v1::Inventory {
        gpus: vec![gpu],
        nics: vec![nic],
        numa_nodes: 1,
        cpus: 2,
        memory_bytes: 1 << 30,
        ..v1::Inventory::default()
    }
}
