//! The conformance suite, run on all three stores; on etcd with a real one of its own for each case.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::conformance::Rig;
use crate::real_etcd::RealEtcd;
use crate::{EmbeddedOptions, EmbeddedStore, EtcdStore, History, Limits, ManualClock, MemoryStore, Store};

struct MemoryRig {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl MemoryRig {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone(), Limits::default(), History::default()));
        Self { store, clock }
    }
}

#[async_trait]
impl Rig for MemoryRig {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.store.tick();
    }
}

struct EmbeddedRig {
    store: Arc<EmbeddedStore>,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

impl EmbeddedRig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::default());
        let options =
            EmbeddedOptions { clock: clock.clone(), ..EmbeddedOptions::new(dir.path().join("store")) };
        Self { store: Arc::new(EmbeddedStore::open(options).unwrap()), clock, _dir: dir }
    }
}

#[async_trait]
impl Rig for EmbeddedRig {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.store.tick().await.unwrap();
    }
}

struct EtcdRig {
    store: Arc<EtcdStore>,
    _etcd: RealEtcd,
}

impl EtcdRig {
    async fn new() -> Option<Self> {
        let etcd = RealEtcd::start(&[])?;
        let store = Arc::new(EtcdStore::open(etcd.options()).await.unwrap());
        Some(Self { store, _etcd: etcd })
    }
}

#[async_trait]
impl Rig for EtcdRig {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Its clock is the machine's.
    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }
}

mod etcd {
    crate::store_conformance!(super::EtcdRig::new().await);
}

mod memory {
    crate::store_conformance!(Some(super::MemoryRig::new()));
}

mod embedded {
    crate::store_conformance!(Some(super::EmbeddedRig::new()));
}
