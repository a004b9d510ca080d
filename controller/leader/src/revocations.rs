//! Revoked credentials: stored in a bounded list beside the core, known in memory to whoever lets callers in.
//!
//! The store is the truth. This process reads the list again whenever it changes, whoever changed it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use controller_core::{AttachedWrite, AuditNote, Event, Reply, SwitchEvent};
use controller_store::{Compare, Op, OpResult, Store, StoreError};
use prost::Message;
use proto_audit::Actor;
use proto_model::{NodeName, SwitchName, TenantName, Timestamp};
use proto_rpc::{Identity, Revocations, Revoked, Subject, revocation::next_second};
use thiserror::Error;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{stamp, time},
    error::{Refusal, StartError},
    handle::Handle,
    keys, records,
    revocation::{Revocation, decode},
    tokens::UserTokenError,
};

/// Entries at a time; each goes when nothing that it takes back could still be valid.
pub const MAX_REVOCATIONS: usize = 4096;
/// Wait before the list is followed again after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Why nothing was revoked.
#[derive(Debug, Error)]
pub enum RevokeError {
    /// The store or the loop.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The list is full.
    #[error(
        "{MAX_REVOCATIONS} revocations are in force, the most that are kept; the first ends at {first_ends_ms} ms"
    )]
    TooMany {
        /// When there is room again, in milliseconds since 1970.
        first_ends_ms: u64,
    },
    /// The tokens of a user could not be removed. They are refused all the same.
    #[error("revoked, but tokens were left in the store: {0}")]
    Tokens(#[from] UserTokenError),
}

/// Reads the list and lets everybody know.
pub(crate) async fn refresh(store: &dyn Store, known: &Revocations) -> Result<Vec<Revocation>, StartError> {
    let found = store.range_all(keys::REVOCATIONS.into()).await?;
    let list = found.items.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    let mut revoked = Revoked::default();
    list.iter().for_each(|entry| revoked.insert(entry.subject.clone(), time(entry.at)));
    known.set(found.revision, revoked);
    Ok(list)
}

/// Reads the list, and follows it until `stop`: another controller may write it.
///
/// # Errors
/// It cannot be read now.
pub async fn follow_revocations(
    store: &Arc<dyn Store>,
    known: &Revocations,
    stop: CancellationToken,
) -> Result<(), StartError> {
    refresh(store.as_ref(), known).await?;
    tokio::spawn(follow(Arc::clone(store), known.clone(), stop));
    Ok(())
}

async fn follow(store: Arc<dyn Store>, known: Revocations, stop: CancellationToken) {
    let following = async {
        loop {
            if let Err(error) = follow_once(store.as_ref(), &known).await {
                tracing::warn!(%error, "revocations by other controllers are not heard of; trying again");
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = following => {}
    }
}

async fn follow_once(store: &dyn Store, known: &Revocations) -> Result<(), StartError> {
    // Opened before the list is read, so that no change falls between the two.
    let mut changes = store.watch(keys::REVOCATIONS.into(), 0).await?;
    loop {
        refresh(store, known).await?;
        match changes.next().await {
            Some(batch) => drop(batch?),
            None => return Err(StoreError::Closed.into()),
        }
    }
}

impl Handle {
    /// What is revoked, for whoever lets callers in.
    #[must_use]
    pub fn revoked(&self) -> &Revocations {
        &self.revocations
    }

    /// What is in force, by subject.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list_revocations(&self) -> Result<Vec<Revocation>, Refusal> {
        let now = self.now();
        let list = refresh(self.store().as_ref(), &self.revocations).await.map_err(unreadable)?;
        Ok(list.into_iter().filter(|entry| entry.expires > now).collect())
    }

    /// Takes back all that `subject` was given until now: its certificates, and its tokens, a node's to join among them.
    /// `keep`: how long something that was issued now could be valid. The record of it is in the same transaction. When
    /// this returns, this process refuses them.
    ///
    /// # Errors
    /// [`RevokeError`].
    pub async fn revoke(
        &self,
        actor: &Arc<Actor>,
        subject: &Subject,
        reason: &str,
        keep: Duration,
        cluster: &str,
    ) -> Result<Revocation, RevokeError> {
        self.suspend_schedules(actor, subject).await?;
        let entry = self.store_revocation(actor, subject, reason, keep).await?;
        refresh(self.store().as_ref(), &self.revocations).await.map_err(unreadable)?;
        // One that was applied anew until the credentials were refused.
        self.suspend_schedules(actor, subject).await?;
        if !matches!(subject, Subject::Node(_) | Subject::Switch(_) | Subject::Serial(_)) {
            self.drop_tokens_given(actor, subject, entry.at, cluster).await?;
        }
        Ok(entry)
    }

    /// What would go on in the name of whom is revoked stops first: a revocation that then fails is asked for again.
    async fn suspend_schedules(&self, actor: &Arc<Actor>, subject: &Subject) -> Result<(), RevokeError> {
        let (tenant, user) = match subject {
            Subject::User { tenant, user } => match TenantName::new(tenant) {
                Ok(tenant) => (Some(tenant), user),
                // No tenant has such a name.
                Err(_) => return Ok(()),
            },
            Subject::Admin(user) => (None, user),
            Subject::Node(_) | Subject::Switch(_) | Subject::Serial(_) => return Ok(()),
        };
        loop {
            let event = Event::SuspendSchedules(tenant.clone(), user.clone());
            match self.apply(actor, event).await?.reply {
                Reply::Suspended(1..) => {}
                _ => return Ok(()),
            }
        }
    }

    async fn store_revocation(
        &self,
        actor: &Arc<Actor>,
        subject: &Subject,
        reason: &str,
        keep: Duration,
    ) -> Result<Revocation, RevokeError> {
        // Only the leader writes, and in it one at a time: what is read here is not changed before it is written.
        let _alone = self.revoking.lock().await;
        let found = self.store().range_all(keys::REVOCATIONS.into()).await;
        let found = found.map_err(|error| Refusal::read(&error))?;
        let list = found.items.iter().map(decode).collect::<Result<Vec<_>, _>>().map_err(Refusal::Corrupt)?;
        let before = list.iter().find(|entry| entry.subject == *subject);
        // Certificates are issued by the wall clock, which may run ahead of the loop's.
        let now = self.now().max(stamp(SystemTime::now()));
        if before.is_none() && list.len() >= MAX_REVOCATIONS {
            self.drop_expired_revocations().await?;
            let first = list.iter().map(|entry| entry.expires.0).min().unwrap_or_default();
            if first > now.0 {
                return Err(RevokeError::TooMany { first_ends_ms: first });
            }
        }
        // Behind whatever was issued in the second of the last revocation.
        let at = before.map_or(now, |entry| now.max(stamp(next_second(time(entry.at)))));
        let expires = at.plus(keep).max(before.map_or(Timestamp(0), |entry| entry.expires));
        let (reason, by) = (reason.to_owned(), actor.who.clone());
        let entry = Revocation { subject: subject.clone(), at, expires, reason, by, revision: 0 };
        let record = records::Revocation {
            revoked_ms: at.0,
            expires_ms: expires.0,
            reason: entry.reason.clone(),
            revoked_by: entry.by.clone(),
        };
        let key = String::from_utf8_lossy(&keys::revocation(subject)).into();
        let beside = AttachedWrite { key, value: Some(record.encode_to_vec().into()) };
        let node = match subject {
            Subject::Node(name) => NodeName::new(name).ok(),
            _ => None,
        };
        let event = match (node, subject) {
            // What a token bought until now is taken back with the rest, and nothing is bought by it later.
            (Some(node), _) => Event::WithdrawTokens { node },
            (None, Subject::Switch(name)) if let Ok(switch) = SwitchName::new(name) => {
                Event::Switch(SwitchEvent::WithdrawTokens { switch })
            }
            (None, _) => {
                let tenant = subject.tenant().unwrap_or_default().to_owned();
                Event::AuditNote(AuditNote { kind: "revocation", name: subject.to_string(), tenant })
            }
        };
        self.apply_with(actor, vec![beside], event).await?;
        Ok(entry)
    }

    /// Removes entries whose time is over; answers how many.
    ///
    /// # Errors
    /// The store's.
    pub async fn drop_expired_revocations(&self) -> Result<usize, Refusal> {
        let now = self.now();
        let found = self.store().range_all(keys::REVOCATIONS.into()).await;
        let mut count = 0;
        for kv in found.map_err(|error| Refusal::read(&error))?.items {
            if decode(&kv).map_err(Refusal::Corrupt)?.expires > now {
                continue;
            }
            let same = Compare::mod_revision(kv.key.clone(), kv.mod_revision);
            count += usize::from(self.fenced(vec![same], vec![Op::delete(kv.key)]).await?.succeeded);
        }
        Ok(count)
    }

    /// Whether a node that was issued its certificate at `issued` may have a new one: decided by what is stored, in a
    /// transaction that only the leader's fence lets through. `None`: the node is not known (any more).
    ///
    /// # Errors
    /// The store's, and [`Refusal::Stopped`] where another controller leads.
    pub async fn may_renew(&self, node: &NodeName, issued: SystemTime) -> Result<Option<bool>, Refusal> {
        let identity = Identity::Node { name: node.to_string() };
        self.may_be_issued(&identity, &Subject::Node(node.to_string()), keys::node(node), issued).await
    }

    /// The same for a switch.
    ///
    /// # Errors
    /// As [`Self::may_renew`].
    pub async fn may_renew_switch(
        &self,
        switch: &SwitchName,
        issued: SystemTime,
    ) -> Result<Option<bool>, Refusal> {
        let identity = Identity::Switch { name: switch.to_string() };
        let subject = Subject::Switch(switch.to_string());
        self.may_be_issued(&identity, &subject, keys::switch(switch), issued).await
    }

    /// `key` is that of its row: none, and it is not known (any more).
    async fn may_be_issued(
        &self,
        identity: &Identity,
        subject: &Subject,
        key: Bytes,
        issued: SystemTime,
    ) -> Result<Option<bool>, Refusal> {
        let revocation = keys::revocation(subject);
        let known = Compare::exists(key);
        let outcome = self.fenced(vec![known], vec![Op::get(revocation)]).await?;
        if !outcome.succeeded {
            return Ok(None);
        }
        let Some(OpResult::Got(Some(kv))) = outcome.results.first() else { return Ok(Some(true)) };
        let entry = decode(kv).map_err(Refusal::Corrupt)?;
        let mut revoked = Revoked::default();
        revoked.insert(entry.subject, time(entry.at));
        Ok(Some(!revoked.refuses_since(identity, issued)))
    }
}

fn unreadable(error: StartError) -> Refusal {
    match error {
        StartError::Corrupt(error) => Refusal::Corrupt(error),
        other => Refusal::Unreadable { cause: other.to_string() },
    }
}
