//! Prepares claims and removes them: decisions are those of `claims`, what the scheduler has given is asked of the API server, steps go to the disk.
//!
//! What was begun is brought to its end, also where kubelet does not wait for it any more: its next call finds what became of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node_agent_qos::DataClass;
use proto_model::NodeName;
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
};

use crate::{
    allocation::{Allocated, allocated, gone},
    claims::{Claims, Given, Record, Step, VERSION},
    devices::RailDevice,
    environment,
    error::ClaimError,
    files::DeviceFiles,
    key::ClaimKey,
    keyed::Keyed,
    kube::{Kube, KubeError},
    store::Store,
};

/// Claims that may be at work at a time: kubelet starts some 250 pods on a server.
const AT_A_TIME: usize = 1024;
/// Devices that an error names, where one is not there.
const NAMED: usize = 16;

/// What a driver is made of.
#[derive(Debug)]
pub struct Parts {
    /// Name of the server in Railyard.
    pub node: NodeName,
    /// Name of its pool: that of the Node.
    pub pool: String,
    /// Its folders.
    pub store: Arc<Store>,
    /// The API server.
    pub kube: Kube,
    /// The rails, as they are seen now.
    pub devices: watch::Receiver<Arc<Vec<RailDevice>>>,
    /// Where RDMA devices have their files.
    pub files: DeviceFiles,
    /// What data is to be marked as.
    pub data_class: DataClass,
}

/// Prepares claims of one server. Clones are the same driver.
#[derive(Debug, Clone)]
pub struct Driver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: Parts,
    claims: Mutex<Claims>,
    locks: Keyed,
    places: Arc<Semaphore>,
}

impl Driver {
    /// A driver that goes on from what is on disk.
    ///
    /// # Errors
    /// The disk cannot be read, or not be brought in step.
    pub fn start(parts: Parts) -> std::io::Result<Self> {
        let (claims, steps) = Claims::recover(parts.store.load()?);
        let count = claims.keys().count();
        for step in &steps {
            parts.store.apply(step)?;
        }
        tracing::info!(claims = count, steps = steps.len(), "claims of an earlier start are in place");
        let shared = Shared {
            parts,
            claims: Mutex::new(claims),
            locks: Keyed::default(),
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        };
        Ok(Self(Arc::new(shared)))
    }

    /// The claims that are recorded, or may be.
    #[must_use]
    pub fn keys(&self) -> Vec<ClaimKey> {
        self.0.claims().keys().cloned().collect()
    }

    /// Prepares a claim, or finds that it is. What is given is on disk.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing of the claim is left then, unless that could not be removed either.
    pub async fn prepare(&self, key: ClaimKey) -> Result<Record, ClaimError> {
        let place = self.place()?;
        let shared = Arc::clone(&self.0);
        let work = tokio::spawn(async move {
            let _place = place;
            shared.prepare(key).await
        });
        work.await.map_err(|_| ClaimError::Ending)?
    }

    /// Removes all of a claim; it need not be there.
    ///
    /// # Errors
    /// [`ClaimError`] where something of it cannot be removed; its devices stay taken.
    pub async fn unprepare(&self, uid: &str) -> Result<(), ClaimError> {
        let place = self.place()?;
        let (shared, uid) = (Arc::clone(&self.0), uid.to_owned());
        let work = tokio::spawn(async move {
            let _place = place;
            let _alone = shared.locks.lock(&uid).await;
            shared.remove(&uid).await
        });
        work.await.map_err(|_| ClaimError::Ending)?
    }

    /// Whether the API server does not have the claim any more: it is not there, or its name is another claim's. Kubelet may still run its container.
    ///
    /// # Errors
    /// [`ClaimError::Api`] if the API server does not say.
    pub async fn is_gone(&self, key: &ClaimKey) -> Result<bool, ClaimError> {
        let Some(claim) = self.0.read(key).await? else { return Ok(true) };
        match claim["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
            Some(uid) => Ok(uid != key.uid),
            None => {
                let claim = format!("{}/{}", key.namespace, key.name);
                let source = KubeError::Answer("it has no metadata.uid".to_owned());
                Err(ClaimError::Api { claim, source })
            }
        }
    }

    fn place(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ClaimError> {
        Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| ClaimError::Busy(AT_A_TIME))
    }
}

impl Shared {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        // Each change of it is whole.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn prepare(&self, key: ClaimKey) -> Result<Record, ClaimError> {
        let _alone = self.locks.lock(&key.uid).await;
        if let Some(record) = self.claims().prepared(&key.uid) {
            return Ok(record.clone());
        }
        let claim = self.read(&key).await?.ok_or_else(|| gone(&key))?;
        let given = allocated(&claim, &key, &self.parts.pool)?;
        let record = self.record(key, given)?;
        let uid = record.key.uid.clone();
        let steps = self.claims().begin(record.clone())?;
        match self.apply(steps).await {
            Ok(()) => self.claims().finish(&uid),
            Err(error) => {
                // What is half there is not shown to anybody.
                if let Err(second) = self.remove(&uid).await {
                    tracing::error!(uid, error = %second, "what was begun of this claim could not be removed");
                }
                return Err(error);
            }
        }
        tracing::info!(uid, claim = record.key.name, namespace = record.key.namespace, "claim prepared");
        Ok(record)
    }

    async fn remove(&self, uid: &str) -> Result<(), ClaimError> {
        let steps = self.claims().release(uid);
        self.apply(steps).await?;
        self.claims().removed(uid);
        Ok(())
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<(), ClaimError> {
        let store = Arc::clone(&self.parts.store);
        let work = spawn_blocking(move || steps.iter().try_for_each(|step| store.apply(step)));
        Ok(work.await.map_err(|_| ClaimError::Ending)??)
    }

    async fn read(&self, key: &ClaimKey) -> Result<Option<serde_json::Value>, ClaimError> {
        let ClaimKey { namespace, name, .. } = key;
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}");
        let read = self.parts.kube.get(&path).await;
        read.map_err(|source| ClaimError::Api { claim: format!("{namespace}/{name}"), source })
    }

    fn record(&self, key: ClaimKey, given: Vec<Allocated>) -> Result<Record, ClaimError> {
        let known = Arc::clone(&self.parts.devices.borrow());
        let mut devices = Vec::with_capacity(given.len());
        for one in given {
            let found = known.iter().find(|device| device.name == one.device);
            let device = found.ok_or_else(|| no_device(&one.device, &known))?.clone();
            let files = device.rdma().map(|rdma| self.parts.files.of(rdma)).transpose()?;
            let files = files.into_iter().collect();
            devices.push(Given { device, requests: one.requests, shared: one.shared, files });
        }
        let of: Vec<&RailDevice> = devices.iter().map(|given| &given.device).collect();
        let rdma = devices.iter().any(|given| !given.files.is_empty());
        let files = self.parts.files.manager().filter(|_| rdma).into_iter().collect();
        let environment = environment::variables(&self.parts.node, &of, self.parts.data_class);
        Ok(Record { version: VERSION, key, pool: self.parts.pool.clone(), devices, environment, files })
    }
}

fn no_device(name: &str, known: &[RailDevice]) -> ClaimError {
    let names: Vec<&str> = known.iter().map(|device| device.name.as_str()).take(NAMED).collect();
    let nearest = match names.as_slice() {
        [] => "; it is not known yet which there are".to_owned(),
        names => format!("; there are {}", names.join(", ")),
    };
    ClaimError::NoDevice { device: name.to_owned(), nearest }
}
