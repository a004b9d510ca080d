//! A loop with one node and one tenant.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_core::{Event, Naming, Register, Submit};
use controller_leader::{Ended, Handle, LoopMetrics, Options, Session};
use controller_store::Store;
use proto_audit::Actor;
use proto_model::{
    Authority, CommandSpec, Gang, JobId, JobName, JobSpec, NodeName, RequestId, Role, TenantName, Work,
};
use proto_rpc::Metrics;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::store::Moody;

/// Long enough for a slow machine under load; nothing waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    pub handle: Handle,
    pub running: JoinHandle<Ended>,
    pub metrics: Metrics,
    pub stop: CancellationToken,
}

impl World {
    pub async fn start(store: Arc<Moody>) -> Self {
        Self::start_with(store, |_| {}).await
    }

    pub async fn start_with(store: Arc<dyn Store>, change: impl FnOnce(&mut Options)) -> Self {
        let metrics = Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        let stop = CancellationToken::new();
        let mut options = Options::new("test", stop.clone());
        change(&mut options);
        let (handle, running) =
            controller_leader::start(store, options, LoopMetrics::new(&metrics)).await.unwrap();
        controller_leader::bootstrap(&handle, "0").await.unwrap();
        Self { handle, running, metrics, stop }
    }

    pub async fn join(&self, name: &str) {
        let node: NodeName = name.parse().unwrap();
        let hash = [7; 32];
        self.handle
            .apply(&who(), Event::CreateToken { node: node.clone(), hash, lifetime: None })
            .await
            .unwrap();
        self.handle.apply(&who(), Event::Join { node, hash, csr: hash }).await.unwrap();
    }

    pub async fn connect(&self, name: &str) -> Session {
        let register = Register {
            node: name.parse().unwrap(),
            session: 0,
            agent_version: "test".into(),
            inventory: Arc::default(),
            observations: Vec::new(),
            epoch: 0,
        };
        self.handle.connect(register).await.unwrap()
    }

    pub async fn jobs(&self) -> usize {
        self.handle.query(|state, _| state.jobs(None).count()).await.unwrap()
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, mut so: impl FnMut(&Handle) -> bool) {
        let wait = async {
            while !so(&self.handle) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}"));
    }
}

/// Who asks.
pub fn who() -> Arc<Actor> {
    Arc::new(Actor { who: "admin/root".to_owned(), rpc: "Test".to_owned(), ..Actor::default() })
}

/// Deletes a job of the default tenant.
pub fn delete(name: &str) -> Event {
    let (tenant, name) = (TenantName::new("default").unwrap(), JobName::new(name).unwrap());
    Event::DeleteJob { by: None, id: JobId { tenant, name }, indices: Vec::new() }
}

pub fn submit(name: &str, request: Option<&str>) -> Event {
    let work = Work::Command(CommandSpec {
        argv: vec!["true".into()],
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    let spec = JobSpec { grace_period: Duration::from_secs(1), ..JobSpec::new(Gang::new(1, 0, 1), work) };
    Event::Submit(Box::new(Submit {
        tenant: TenantName::new("default").unwrap(),
        by: Authority { role: Role::User, user: "ann".to_owned() },
        name: Naming::Name(JobName::new(name).unwrap()),
        labels: BTreeMap::new(),
        spec: Box::new(spec),
        request: request.and_then(RequestId::new),
        digest: [1; 32],
        trace_parent: String::new(),
        hold: false,
    }))
}
