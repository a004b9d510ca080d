//! What kubelet calls: who the driver is, and claims to be prepared and removed, in both versions of the interface.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use tokio::{sync::Notify, task::JoinSet};
use tonic::{Request, Response, Status, service::Routes};

use crate::{
    cdi,
    claims::Record,
    driver::Driver,
    error::ClaimError,
    key::{ClaimKey, DRIVER},
    kubelet::{
        registration::{
            InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
            registration_server::{Registration, RegistrationServer},
        },
        v1, v1beta1,
    },
};

/// What kubelet's registry calls plugins of this kind.
const KIND: &str = "DRAPlugin";
/// The interfaces that are served, the best first, as kubelet names them.
const SERVED: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];
/// Claims of one call: a pod has few.
const CLAIMS_MAX: usize = 256;

/// Answers who the driver is.
#[derive(Debug, Clone)]
pub struct Registrar {
    endpoint: PathBuf,
    registered: Arc<Notify>,
}

impl Registrar {
    /// For a driver that is served on the socket `endpoint`; `registered` is notified whenever kubelet has registered it.
    #[must_use]
    pub fn new(endpoint: PathBuf, registered: Arc<Notify>) -> Self {
        Self { endpoint, registered }
    }

    /// The service.
    #[must_use]
    pub fn routes(&self) -> Routes {
        Routes::new(RegistrationServer::new(self.clone()))
    }
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: KIND.to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: SERVED.map(str::to_owned).to_vec(),
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!("registered at kubelet");
            self.registered.notify_one();
        } else {
            tracing::error!(error = status.error, "kubelet has not registered this driver");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Both versions of the interface over one driver.
#[must_use]
pub fn routes(driver: &Driver) -> Routes {
    let mut all = Routes::builder();
    all.add_service(v1::dra_plugin_server::DraPluginServer::new(Plugin(driver.clone())));
    all.add_service(v1beta1::dra_plugin_server::DraPluginServer::new(Plugin(driver.clone())));
    all.routes()
}

/// A claim as kubelet names it.
struct Named {
    uid: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Clone)]
struct Plugin(Driver);

impl Plugin {
    /// Each claim with what became of it; they do not wait for one another.
    async fn each<T, F>(
        &self,
        claims: Vec<Named>,
        work: impl Fn(Driver, Named) -> F,
    ) -> Result<HashMap<String, Result<T, ClaimError>>, Status>
    where
        T: Send + 'static,
        F: Future<Output = (String, Result<T, ClaimError>)> + Send + 'static,
    {
        if claims.len() > CLAIMS_MAX {
            let text = format!("{} claims in one call; at most {CLAIMS_MAX} are taken", claims.len());
            return Err(Status::invalid_argument(text));
        }
        let mut all = JoinSet::new();
        claims.into_iter().for_each(|claim| _ = all.spawn(work(self.0.clone(), claim)));
        let done = all.join_all().await;
        for (uid, result) in &done {
            if let Err(error) = result {
                tracing::warn!(uid, %error, "claim not served");
            }
        }
        Ok(done.into_iter().collect())
    }

    async fn prepare(
        &self,
        claims: Vec<Named>,
    ) -> Result<HashMap<String, Result<Record, ClaimError>>, Status> {
        let work = |driver: Driver, claim: Named| async move {
            let result = match ClaimKey::new(&claim.uid, &claim.namespace, &claim.name) {
                Ok(key) => driver.prepare(key).await,
                Err(error) => Err(error.into()),
            };
            (claim.uid, result)
        };
        self.each(claims, work).await
    }

    async fn unprepare(&self, claims: Vec<Named>) -> Result<HashMap<String, Result<(), ClaimError>>, Status> {
        let work = |driver: Driver, claim: Named| async move {
            let result = match ClaimKey::new(&claim.uid, &claim.namespace, &claim.name) {
                Ok(key) => driver.unprepare(&key.uid).await,
                Err(error) => Err(error.into()),
            };
            (claim.uid, result)
        };
        self.each(claims, work).await
    }
}

/// The two versions have the same messages in different packages.
macro_rules! served {
    ($version:ident) => {
        #[tonic::async_trait]
        impl $version::dra_plugin_server::DraPlugin for Plugin {
            async fn node_prepare_resources(
                &self,
                request: Request<$version::NodePrepareResourcesRequest>,
            ) -> Result<Response<$version::NodePrepareResourcesResponse>, Status> {
                let claims = request.into_inner().claims.into_iter();
                let claims =
                    claims.map(|$version::Claim { uid, namespace, name }| Named { uid, namespace, name });
                let done = self.prepare(claims.collect()).await?;
                let device = |record: &Record, given: &crate::claims::Given| $version::Device {
                    request_names: given.requests.clone(),
                    pool_name: record.pool.clone(),
                    device_name: given.device.name.clone(),
                    cdi_device_ids: cdi::ids(record, given),
                };
                let answer = |result: Result<Record, ClaimError>| match result {
                    Ok(record) => $version::NodePrepareResourceResponse {
                        devices: record.devices.iter().map(|given| device(&record, given)).collect(),
                        error: String::new(),
                    },
                    Err(error) => $version::NodePrepareResourceResponse {
                        devices: Vec::new(),
                        error: error.to_string(),
                    },
                };
                let claims = done.into_iter().map(|(uid, result)| (uid, answer(result))).collect();
                Ok(Response::new($version::NodePrepareResourcesResponse { claims }))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<$version::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<$version::NodeUnprepareResourcesResponse>, Status> {
                let claims = request.into_inner().claims.into_iter();
                let claims =
                    claims.map(|$version::Claim { uid, namespace, name }| Named { uid, namespace, name });
                let done = self.unprepare(claims.collect()).await?;
                let answer = |result: Result<(), ClaimError>| $version::NodeUnprepareResourceResponse {
                    error: result.err().map(|error| error.to_string()).unwrap_or_default(),
                };
                let claims = done.into_iter().map(|(uid, result)| (uid, answer(result))).collect();
                Ok(Response::new($version::NodeUnprepareResourcesResponse { claims }))
            }
        }
    };
}

served!(v1);
served!(v1beta1);
