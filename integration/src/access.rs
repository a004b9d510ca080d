//! Access to a cluster's API as its administrator, for tests and benches that speak gRPC themselves.

use std::path::PathBuf;

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use serde_json::Value;

use crate::Cluster;

/// Where the controller is and whose files open it.
#[derive(Debug, Clone)]
pub struct Access {
    /// The controller's addresses.
    pub endpoints: Vec<String>,
    /// The CA's certificate.
    pub ca: PathBuf,
    /// The administrator's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Access {
    /// Reads what `railctl dev up` wrote for this cluster.
    ///
    /// # Errors
    /// The context lacks something.
    pub fn of(cluster: &Cluster) -> Result<Self, String> {
        let view = cluster.json(&["config", "view"])?;
        let contexts = view["contexts"].as_object().ok_or("the configuration has no contexts")?;
        let context = contexts.values().next().ok_or("the configuration has no context")?;
        let text = |key: &str| -> Result<PathBuf, String> {
            context[key]
                .as_str()
                .map(Into::into)
                .ok_or_else(|| format!("the context has no {key}: {context}"))
        };
        let addresses = context["controller"].as_array().map(Vec::as_slice).unwrap_or_default();
        let endpoints = addresses.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { endpoints, ca: text("ca")?, certificate: text("cert")?, key: text("key")? })
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
