//! Access to a cluster's API as its administrator, for tests and benches that speak gRPC themselves.

use std::path::PathBuf;

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use serde_json::Value;

use crate::Cluster;

/// Where the controller is and whose files open it.
#[derive(Debug, Clone)]
pub struct Access {
    /// The addresses at which the controllers listen.
    pub endpoints: Vec<String>,
    /// The path of the CA's certificate.
    pub ca: PathBuf,
    /// The path of the administrator's certificate.
    pub certificate: PathBuf,
    /// The path of that certificate's private key.
    pub key: PathBuf,
}

impl Access {
    /// Reads what the controller of this cluster wrote when it was ready.
    ///
    /// # Errors
    /// The file is not there or lacks something.
    pub fn of(cluster: &Cluster) -> Result<Self, String> {
        let dir = cluster.dir().join("controller");
        let path = dir.join("controller.json");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let ready: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let endpoints = ready["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let file = |name: &str| dir.join(name);
        Ok(Self {
            endpoints: endpoints.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            ca: file("ca.pem"),
            certificate: file("admin.pem"),
            key: file("admin.key"),
        })
    }

    /// The base address for REST: the one that is reached by TCP.
    ///
    /// # Errors
    /// The controller listens on no TCP address.
    pub fn rest(&self) -> Result<&str, String> {
        let found = self.endpoints.iter().find(|endpoint| endpoint.starts_with("https://"));
        found.map(String::as_str).ok_or_else(|| format!("no TCP address among {:?}", self.endpoints))
    }

    /// A client. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with an address or a file.
    pub fn client(&self) -> Result<Client, String> {
        let files = CredentialFiles {
            ca: Some(self.ca.clone()),
            certificate: Some(self.certificate.clone()),
            key: Some(self.key.clone()),
            ..CredentialFiles::default()
        };
        let credentials = Credentials::load(&files).map_err(|error| error.to_string())?;
        let parsed: Result<Vec<Endpoint>, _> = self.endpoints.iter().map(|text| text.parse()).collect();
        let endpoints = parsed.map_err(|error| format!("{error}"))?;
        Client::new(&endpoints, &credentials, &ClientOptions::default()).map_err(|error| error.to_string())
    }
}
