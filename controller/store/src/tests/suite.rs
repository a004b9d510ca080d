//! The conformance suite, run on both stores.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::conformance::Rig;
use crate::{EmbeddedOptions, EmbeddedStore, History, Limits, ManualClock, MemoryStore, Store};

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

mod memory {
    crate::store_conformance!(super::MemoryRig::new());
}

mod embedded {
    crate::store_conformance!(super::EmbeddedRig::new());
}
