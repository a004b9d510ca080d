//! Where it is known from which rails a server has and how they are: the controller, or this server alone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use node_agent_host::Host;
use proto_model::NodeName;
use proto_rpc::{
    Client, ClientOptions, CredentialFiles, Credentials, Endpoint, MAX_FABRIC_BYTES, MAX_MESSAGE_BYTES,
    RpcError,
};
use proto_wire::v1::{
    self, fabric_service_client::FabricServiceClient, node_service_client::NodeServiceClient,
    rail_service_client::RailServiceClient,
};
use tonic::Status;

use crate::{
    controller::{self, Location},
    devices::ServerView,
    error::SourceError,
};

/// A server's place in the fabric is asked for no more often: the answer is of the whole fabric.
const PLACE_EVERY: Duration = Duration::from_secs(600);

/// The source.
pub enum Source {
    /// This server's own hardware, or a file in its place: without health, pod, leaf and what administrators say.
    Host(Arc<dyn Host>),
    /// The controller, which has it of the server's agent.
    Controller(Box<ControllerSource>),
}

/// What the controller says of one server.
pub struct ControllerSource {
    node: NodeName,
    endpoints: Vec<Endpoint>,
    files: CredentialFiles,
    /// The connection, and the token that it was made with.
    connected: Option<(Clients, Option<String>)>,
    place: Location,
    placed: Option<Instant>,
}

#[derive(Clone)]
struct Clients {
    nodes: NodeServiceClient<Client>,
    rails: RailServiceClient<Client>,
    fabrics: FabricServiceClient<Client>,
}

impl ControllerSource {
    /// Of this server, by these credentials.
    ///
    /// # Errors
    /// [`SourceError::Credentials`] or [`SourceError::Client`] if they cannot be used; the controller is not called.
    pub fn new(
        node: NodeName,
        endpoints: Vec<Endpoint>,
        files: CredentialFiles,
    ) -> Result<Self, SourceError> {
        let (place, placed) = (Location::default(), None);
        let mut source = Self { node, endpoints, files, connected: None, place, placed };
        source.clients()?;
        Ok(source)
    }

    /// A connection with the token that is in the file now: tokens end, and files are replaced while this runs.
    fn clients(&mut self) -> Result<Clients, SourceError> {
        let token = self.files.token.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        if let Some((clients, known)) = &self.connected
            && *known == token
        {
            return Ok(clients.clone());
        }
        let credentials = Credentials::load(&self.files)?;
        let client = Client::new(&self.endpoints, &credentials, &ClientOptions::default())?;
        let clients = Clients {
            nodes: NodeServiceClient::new(client.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
            rails: RailServiceClient::new(client.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
            fabrics: FabricServiceClient::new(client).max_decoding_message_size(MAX_FABRIC_BYTES),
        };
        self.connected = Some((clients.clone(), token));
        Ok(clients)
    }

    async fn view(&mut self) -> Result<ServerView, SourceError> {
        let failed = |call: &'static str| {
            move |status: Status| SourceError::Controller {
                call,
                source: Box::new(RpcError::from_status(&status)),
            }
        };
        let mut clients = self.clients()?;
        let request = v1::GetNodeRequest { name: self.node.to_string() };
        let node = clients.nodes.get_node(request).await.map_err(failed("GetNode"))?.into_inner();
        let rails = clients.rails.list_rails(v1::ListRailsRequest::default()).await;
        let rails = rails.map_err(failed("ListRails"))?.into_inner();
        if self.placed.is_none_or(|placed| placed.elapsed() >= PLACE_EVERY) {
            match clients.fabrics.get_topology(v1::GetTopologyRequest {}).await {
                Ok(topology) => self.place = controller::place(topology.get_ref(), &self.node),
                // Rails can be used without it, and claims that select by it wait.
                Err(status) => {
                    let error = RpcError::from_status(&status);
                    tracing::warn!(%error, "pod and leaves of this server are not known; they are asked for again in ten minutes");
                }
            }
            self.placed = Some(Instant::now());
        }
        controller::view(node, &rails.drains, &self.place, &self.node)
    }
}

impl Source {
    /// What is known now.
    ///
    /// # Errors
    /// [`SourceError`]: then what was known before is the best that there is.
    pub async fn view(&mut self) -> Result<ServerView, SourceError> {
        match self {
            Self::Host(host) => {
                let host = Arc::clone(host);
                let read = tokio::task::spawn_blocking(move || host.discover());
                let found =
                    read.await.map_err(|_| SourceError::Answer("the driver is ending".to_owned()))??;
                Ok(ServerView { inventory: found.inventory, ..ServerView::default() })
            }
            Self::Controller(controller) => controller.view().await,
        }
    }
}
