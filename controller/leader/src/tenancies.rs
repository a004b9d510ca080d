//! Which tenants there are now: of each name the uid, and the revision since which it is that tenant's. Credentials are bound
//! to the uid, so that those of a deleted tenant are refused, also when another tenant has its name.
//!
//! The store is the truth. Every controller follows it, and knows the answer in memory; whoever is to be refused is looked up
//! in the store first, so that a tenant that was made just now is never taken for none.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use controller_store::{Event, KeyValue, RangeRequest, Store, StoreError};
use proto_model::TenantName;
use proto_rpc::Identity;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::{
    codec,
    error::{CorruptError, Refusal, StartError},
    keys, records,
};

/// Wait before tenants are followed again after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// One life of a tenant's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenancy {
    /// The uid of the tenant that has the name.
    pub uid: Arc<str>,
    /// The revision that made it: what is older belongs to somebody else.
    pub since: u64,
}

/// How a caller stands to its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to no tenant: an administrator, a node, a controller, nobody.
    Apart,
    /// Its credentials are of the tenant that there is.
    Holds(Tenancy),
    /// That tenant was deleted; another one may have its name.
    Gone,
    /// Its credentials do not say which tenant of that name they are of.
    Unbound,
}

/// What is known of one name, and at which revision it was so.
type Known = (u64, Option<Tenancy>);

#[derive(Debug, Default)]
struct Table {
    /// Everything up to this revision was heard of.
    floor: u64,
    names: BTreeMap<String, Known>,
}

impl Table {
    /// What a look at one name has shown. Older than what was followed, it is no news. True if something is another now.
    fn learn(&mut self, name: &str, revision: u64, found: Option<Tenancy>) -> bool {
        if revision <= self.floor {
            return false;
        }
        match self.names.get_mut(name) {
            Some(known) if known.0 <= revision => {
                let other = known.1 != found;
                *known = (revision, found);
                other
            }
            Some(_) => false,
            // Nothing is kept of names that are nobody's.
            None if found.is_none() => false,
            None => self.names.insert(name.to_owned(), (revision, found)).is_none(),
        }
    }

    fn listed(&mut self, revision: u64, all: BTreeMap<String, Tenancy>) -> bool {
        self.names.retain(|_, (known, _)| *known > revision);
        for (name, tenancy) in all {
            self.names.entry(name).or_insert((revision, Some(tenancy)));
        }
        self.floor = self.floor.max(revision);
        true
    }

    fn changed(&mut self, revision: u64, name: &str, now: Option<Tenancy>) -> bool {
        if self.names.get(name).is_none_or(|(known, _)| *known <= revision) {
            self.names.insert(name.to_owned(), (revision, now));
        }
        self.floor = self.floor.max(revision);
        // A name that is gone need not be remembered once nothing older can come.
        let floor = self.floor;
        self.names.retain(|_, (known, tenancy)| tenancy.is_some() || *known > floor);
        true
    }
}

/// The tenants, as a process knows them. Clones share it.
#[derive(Debug, Clone)]
pub struct Tenancies {
    table: Arc<RwLock<Table>>,
    /// A counter that every change of the table increases, to be waited for.
    changes: Arc<watch::Sender<u64>>,
}

impl Default for Tenancies {
    fn default() -> Self {
        Self { table: Arc::default(), changes: Arc::new(watch::Sender::new(0)) }
    }
}

impl Tenancies {
    /// The present tenant of that name, as far as it is known.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Tenancy> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.names.get(name).and_then(|(_, tenancy)| tenancy.clone())
    }

    /// How a caller stands, as far as it is known.
    #[must_use]
    pub fn standing(&self, identity: &Identity) -> Standing {
        let Some(tenant) = identity.tenant() else { return Standing::Apart };
        let Some(uid) = identity.tenant_uid() else { return Standing::Unbound };
        self.get(tenant).filter(|now| *now.uid == *uid).map_or(Standing::Gone, Standing::Holds)
    }

    /// Returns once the caller's tenant is not that of its credentials any more.
    pub async fn until_gone(self, identity: Identity) {
        let lets_in = |standing| matches!(standing, Standing::Apart | Standing::Holds(_));
        // Cannot end by the sender's end: it is held here.
        let _ = self.changes.subscribe().wait_for(|_| !lets_in(self.standing(&identity))).await;
    }

    /// Looks one name up in the store.
    ///
    /// # Errors
    /// The store's, and a value that cannot be read.
    pub async fn learn(&self, store: &dyn Store, name: &str) -> Result<(), Refusal> {
        // What is no name is no tenant's.
        let Ok(name) = TenantName::new(name) else { return Ok(()) };
        let key = keys::tenant(&name);
        // Of all keys that begin with it the key itself is the first.
        let request = RangeRequest { limit: 1, ..RangeRequest::prefix(key.clone()) };
        let found = store.range(request).await.map_err(|error| Refusal::read(&error))?;
        let kv = found.items.iter().find(|kv| kv.key == key);
        let tenancy = kv.map(tenancy).transpose().map_err(Refusal::Corrupt)?;
        self.change(|table| table.learn(name.as_str(), found.revision, tenancy));
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Table) -> bool) {
        let news = change(&mut self.table.write().unwrap_or_else(PoisonError::into_inner));
        if news {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    async fn list(&self, store: &dyn Store) -> Result<u64, StartError> {
        let found = store.range_all(keys::TENANTS.into()).await?;
        let named = |kv: &KeyValue| Ok((name_of(&kv.key).to_owned(), tenancy(kv)?));
        let all = found.items.iter().map(named).collect::<Result<_, CorruptError>>()?;
        self.change(|table| table.listed(found.revision, all));
        Ok(found.revision)
    }
}

fn name_of(key: &Bytes) -> &str {
    std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(keys::TENANTS)).unwrap_or_default()
}

fn tenancy(kv: &KeyValue) -> Result<Tenancy, CorruptError> {
    let tenant: records::Tenant = codec::decode(kv)?;
    let uid = tenant.metadata.map(|metadata| metadata.uid).unwrap_or_default();
    Ok(Tenancy { uid: uid.into(), since: kv.create_revision })
}

/// Reads the tenants, and follows them until `stop`, whoever changes them.
///
/// # Errors
/// They cannot be read now.
pub async fn follow_tenancies(
    store: &Arc<dyn Store>,
    known: &Tenancies,
    stop: CancellationToken,
) -> Result<(), StartError> {
    let from = known.list(store.as_ref()).await?;
    let (store, known) = (Arc::clone(store), known.clone());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = follow(store.as_ref(), &known, from) => {}
        }
    });
    Ok(())
}

async fn follow(store: &dyn Store, known: &Tenancies, mut from: u64) {
    loop {
        if let Err(error) = follow_once(store, known, from).await {
            tracing::warn!(%error, "changes of tenants by other controllers are not heard of; trying again");
        }
        tokio::time::sleep(AGAIN).await;
        match known.list(store).await {
            Ok(revision) => from = revision,
            Err(error) => tracing::debug!(%error, "the tenants cannot be listed"),
        }
    }
}

async fn follow_once(store: &dyn Store, known: &Tenancies, from: u64) -> Result<(), StartError> {
    let mut changes = store.watch(keys::TENANTS.into(), from + 1).await?;
    while let Some(batch) = changes.next().await {
        let batch = batch?;
        for event in &batch.events {
            let (key, now) = match event {
                Event::Put { kv, .. } => (&kv.key, Some(tenancy(kv)?)),
                Event::Delete { key, .. } => (key, None),
            };
            known.change(|table| table.changed(batch.revision, name_of(key), now));
        }
    }
    Err(StoreError::Closed.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_rpc::Role;

    fn life(uid: &str, since: u64) -> Option<Tenancy> {
        Some(Tenancy { uid: uid.into(), since })
    }

    fn ann(uid: &str) -> Identity {
        Identity::user("red", "ann", [Role::User]).unwrap().of_tenant(uid).unwrap()
    }

    #[test]
    fn what_is_newer_counts_whatever_way_it_came() {
        let known = Tenancies::default();
        known.change(|table| table.listed(10, BTreeMap::from([("red".to_owned(), life("a", 4).unwrap())])));
        assert_eq!(known.standing(&ann("a")), Standing::Holds(life("a", 4).unwrap()));
        // Looked up before it was deleted, and told after: the name must not come to life again.
        known.change(|table| table.changed(12, "red", None));
        known.change(|table| table.learn("red", 11, life("a", 4)));
        assert_eq!(known.standing(&ann("a")), Standing::Gone);
        // A look is ahead of what was followed, and is not undone by it.
        known.change(|table| table.learn("red", 20, life("b", 20)));
        known.change(|table| table.changed(14, "red", life("x", 14)));
        assert_eq!(known.standing(&ann("b")), Standing::Holds(life("b", 20).unwrap()));
        known.change(|table| table.learn("red", 30, None));
        known.change(|table| table.changed(20, "red", life("b", 20)));
        assert_eq!(known.standing(&ann("b")), Standing::Gone);
        known.change(|table| table.listed(40, BTreeMap::new()));
        assert!(known.table.read().unwrap().names.is_empty(), "nothing is remembered for ever");
    }

    #[test]
    fn only_users_of_the_tenant_that_there_is_are_let_in() {
        let known = Tenancies::default();
        known.change(|table| table.changed(5, "red", life("a", 5)));
        let bare = Identity::user("red", "ann", [Role::User]).unwrap();
        assert_eq!(known.standing(&bare), Standing::Unbound);
        assert_eq!(known.standing(&ann("b")), Standing::Gone);
        assert_eq!(known.standing(&Identity::admin("root").unwrap()), Standing::Apart);
        assert_eq!(known.standing(&Identity::Anonymous), Standing::Apart);
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_the_end_and_of_nothing_else() {
        let known = Tenancies::default();
        known.change(|table| table.changed(5, "red", life("a", 5)));
        let mut gone = std::pin::pin!(known.clone().until_gone(ann("a")));
        let mut apart = std::pin::pin!(known.clone().until_gone(Identity::admin("root").unwrap()));
        let short = Duration::from_millis(20);
        known.change(|table| table.changed(6, "blue", None));
        assert!(tokio::time::timeout(short, gone.as_mut()).await.is_err());
        known.change(|table| table.changed(7, "red", life("b", 7)));
        tokio::time::timeout(Duration::from_secs(5), gone).await.unwrap();
        assert!(tokio::time::timeout(short, apart.as_mut()).await.is_err());
    }
}
