//! Taking the lead and reading everything that is stored.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use controller_core::{Config, State, Stored};
use controller_store::{Compare, KeyValue, Op, RangeRequest, Store, StoreError, Txn};
use prost::Message;
use proto_model::Timestamp;

use crate::{codec, error::StartError, keys, records};

/// How often a take-over tries again when the leader key changes under it.
const TRIES: u32 = 8;
/// Wait between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes the leader key and answers its create revision: the epoch.
///
/// For a store that one process has for itself (the embedded store holds a lock on its directory): a key that is
/// there was left by a process that is gone, so it is replaced. The fence is the revision, never the key's presence.
///
/// # Errors
/// [`StartError::Taken`] if another process keeps taking it, and the store's own errors.
pub async fn take(store: &dyn Store, holder: &str, now: Timestamp) -> Result<u64, StartError> {
    let record = records::Leader { holder: holder.to_owned(), since_ms: now.0 }.encode_to_vec();
    let key = Bytes::from_static(keys::LEADER.as_bytes());
    let mut seen = 0;
    for _ in 0..TRIES {
        if let Some(old) = store.get(key.clone()).await? {
            seen = old.create_revision;
            let drop_old =
                Txn::new().when(Compare::create_revision(key.clone(), seen)).then(Op::delete(key.clone()));
            store.txn(drop_old).await?;
        }
        let claim = Txn::new().when(Compare::absent(key.clone())).then(Op::put(key.clone(), record.clone()));
        let outcome = store.txn(claim).await?;
        if outcome.succeeded {
            return Ok(outcome.revision);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(StartError::Taken { epoch: seen })
}

/// Every write of a leader compares this.
#[must_use]
pub fn fence(epoch: u64) -> Compare {
    Compare::create_revision(keys::LEADER, epoch)
}

/// Reads all that is stored; answers the revision that it is valid at.
///
/// # Errors
/// A value that cannot be read, a key that nobody of ours wrote, a contradiction: each names the key. Nothing is
/// ever overwritten then.
pub async fn read(store: &dyn Store) -> Result<(Stored, u64), StartError> {
    let mut stored = Stored::default();
    let mut request = RangeRequest::prefix(keys::ROOT);
    loop {
        let page = store.range(request.clone()).await?;
        for kv in &page.items {
            sort_in(kv, &mut stored)?;
        }
        if !page.more {
            return Ok((stored, page.revision));
        }
        request.revision = Some(page.revision);
        request.after = page.items.last().map(|kv| kv.key.clone());
    }
}

/// The core's state of what is stored.
///
/// # Errors
/// [`StartError::Unsound`] names every contradiction.
pub fn build(config: &Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<State, StartError> {
    State::load(config.clone(), epoch, now, stored).map_err(|error| StartError::Unsound(error.to_string()))
}

/// Reads all and builds the state of it.
///
/// # Errors
/// As for [`read`] and [`build`].
pub async fn load(
    store: &Arc<dyn Store>,
    config: &Config,
    epoch: u64,
    now: Timestamp,
) -> Result<State, StartError> {
    let (stored, _) = read(store.as_ref()).await?;
    build(config, epoch, now, stored)
}

/// Decodes one stored key.
pub(crate) fn sort_in(kv: &KeyValue, stored: &mut Stored) -> Result<(), StartError> {
    let revision = kv.mod_revision;
    let under = |prefix: &str| kv.key.starts_with(prefix.as_bytes());
    let is = |key: &str| kv.key == key.as_bytes();
    if under(keys::JOBS) {
        stored.jobs.push((codec::job(kv)?, revision));
    } else if under(keys::ATTEMPTS) {
        stored.attempts.push(codec::attempt(kv)?);
    } else if under(keys::NODES) {
        stored.nodes.push((codec::node(kv)?, revision));
    } else if under(keys::TENANTS) {
        stored.tenants.push((codec::tenant(kv)?, revision));
    } else if under(keys::QUEUES) {
        stored.queues.push((codec::queue(kv)?, revision));
    } else if under(keys::RESERVATIONS) {
        stored.reservations.push((codec::reservation(kv)?, revision));
    } else if under(keys::REQUESTS) {
        stored.requests.push(codec::request(kv)?);
    } else if under(keys::JOIN_TOKENS) {
        stored.tokens.push(codec::join_token(kv)?);
    } else if is(keys::FABRIC) {
        stored.fabric = Some((codec::fabric(kv)?, revision));
    } else if under(keys::DRAINS) {
        stored.drains.push(codec::drain(kv)?);
    } else if under(keys::DECISIONS) {
        stored.decisions.push(codec::decisions(kv)?);
    } else if under(keys::USER_TOKENS) {
        codec::decode::<records::UserToken>(kv)?;
    } else if is(keys::BOOTSTRAP) {
        codec::decode::<records::Bootstrap>(kv)?;
    } else if !is(keys::LEADER) && !is(keys::PROBE) {
        return Err(StartError::ForeignKey { key: kv.key.escape_ascii().to_string() });
    }
    Ok(())
}

/// Whether nothing of a failed transaction was stored for sure.
#[must_use]
pub fn surely_not_stored(error: &StoreError) -> bool {
    !matches!(error, StoreError::Unknown { .. } | StoreError::Closed)
}
