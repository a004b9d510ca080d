//! Kubelet's side of the sockets, as kubelet calls them.

use std::{collections::BTreeMap, path::Path, time::Duration};

use node_agent_dra::kubelet::{
    registration::{InfoRequest, PluginInfo, RegistrationStatus, registration_client::RegistrationClient},
    v1, v1beta1,
};
use proto_rpc::{Client, ClientOptions, Endpoint};
use tonic::Status;

/// Kubelet gives a driver so long for one call.
const CALL: Duration = Duration::from_secs(45);

/// Which version of the interface is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// That of Kubernetes 1.34 and later.
    V1,
    /// That of 1.32 and 1.33.
    V1Beta1,
}

/// What a claim's pod is given: names of devices, and what the container runtime is told for each.
pub type Answer = Result<BTreeMap<String, Vec<String>>, String>;

/// A connection to one socket.
#[derive(Debug, Clone)]
pub struct Kubelet {
    client: Client,
    interface: Interface,
}

/// A claim: UID, namespace, name.
type Claim<'a> = (&'a str, &'a str, &'a str);

/// The two versions have the same messages in different packages.
macro_rules! call {
    ($self:ident, $version:ident, $method:ident, $request:ident, $claims:ident) => {{
        let one = |(uid, namespace, name): &Claim<'_>| $version::Claim {
            uid: (*uid).to_owned(),
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
        };
        let request = $version::$request { claims: $claims.iter().map(one).collect() };
        let mut client = $version::dra_plugin_client::DraPluginClient::new($self.client.clone());
        client.$method(request).await?.into_inner().claims.into_iter()
    }};
}

macro_rules! prepare {
    ($self:ident, $version:ident, $claims:ident) => {{
        let answers = call!($self, $version, node_prepare_resources, NodePrepareResourcesRequest, $claims);
        let one = |(uid, answer): (String, $version::NodePrepareResourceResponse)| {
            let devices = answer.devices.into_iter();
            let given = devices.map(|device| (device.device_name, device.cdi_device_ids)).collect();
            (uid, if answer.error.is_empty() { Ok(given) } else { Err(answer.error) })
        };
        answers.map(one).collect()
    }};
}

macro_rules! unprepare {
    ($self:ident, $version:ident, $claims:ident) => {{
        let answers =
            call!($self, $version, node_unprepare_resources, NodeUnprepareResourcesRequest, $claims);
        answers
            .map(|(uid, answer): (String, $version::NodeUnprepareResourceResponse)| (uid, answer.error))
            .collect()
    }};
}

impl Kubelet {
    /// Of a socket; connects with the first call, and again whenever the connection is lost. Must be called inside a tokio runtime.
    #[must_use]
    pub fn at(socket: &Path, interface: Interface) -> Self {
        let options = ClientOptions { timeout: Some(CALL), ..ClientOptions::default() };
        let endpoint = Endpoint::Unix { path: socket.to_owned() };
        Self { client: Client::of_others(&endpoint, None, &options).unwrap(), interface }
    }

    /// Asks a plugin who it is, and says that it is registered.
    ///
    /// # Errors
    /// What the plugin said.
    pub async fn register(&self) -> Result<PluginInfo, Status> {
        let mut client = RegistrationClient::new(self.client.clone());
        let info = client.get_info(InfoRequest {}).await?.into_inner();
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        client.notify_registration_status(status).await?;
        Ok(info)
    }

    /// Has claims prepared.
    ///
    /// # Errors
    /// The call as a whole failed.
    pub async fn prepare(&self, claims: &[Claim<'_>]) -> Result<BTreeMap<String, Answer>, Status> {
        Ok(match self.interface {
            Interface::V1 => prepare!(self, v1, claims),
            Interface::V1Beta1 => prepare!(self, v1beta1, claims),
        })
    }

    /// Has claims removed; gives the error of each, which is empty where it is done.
    ///
    /// # Errors
    /// The call as a whole failed.
    pub async fn unprepare(&self, claims: &[Claim<'_>]) -> Result<BTreeMap<String, String>, Status> {
        Ok(match self.interface {
            Interface::V1 => unprepare!(self, v1, claims),
            Interface::V1Beta1 => unprepare!(self, v1beta1, claims),
        })
    }

    /// Has one claim prepared.
    ///
    /// # Errors
    /// What the driver said of it, or of the call.
    pub async fn prepare_one(&self, claim: Claim<'_>) -> Answer {
        let mut answers = self.prepare(&[claim]).await.map_err(|status| status.to_string())?;
        answers.remove(claim.0).unwrap_or_else(|| Err("the answer leaves the claim out".to_owned()))
    }

    /// Has one claim removed.
    ///
    /// # Errors
    /// What the driver said of it, or of the call.
    pub async fn unprepare_one(&self, claim: Claim<'_>) -> Result<(), String> {
        let mut answers = self.unprepare(&[claim]).await.map_err(|status| status.to_string())?;
        match answers.remove(claim.0).as_deref() {
            Some("") => Ok(()),
            Some(error) => Err(error.to_owned()),
            None => Err("the answer leaves the claim out".to_owned()),
        }
    }
}
