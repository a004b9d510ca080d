//! API tokens: made once, stored as hashes, looked up by their public id. Join tokens are the core's.

use std::sync::Arc;

use bytes::Bytes;
use controller_core::{AttachedWrite, AuditNote, Event};
use controller_store::Op;
use prost::Message;
use proto_audit::Actor;
use proto_model::Timestamp;
use proto_rpc::{Identity, Subject, Token, TokenHash, TokenKind, token::TokenError};
use thiserror::Error;

use crate::{
    clock::{stamp, time},
    codec,
    error::Refusal,
    handle::Handle,
    keys, records,
};

/// A token that was issued, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The public id, by which the token is looked up and revoked.
    pub id: String,
    /// For whom it speaks.
    pub identity: Identity,
    /// Who asked for it.
    pub issued_by: String,
    /// When it was issued.
    pub issued: Timestamp,
    /// Until when it is good.
    pub expires: Timestamp,
    /// It is not taken any more.
    pub revoked: bool,
}

/// Why a token was not made or not taken.
#[derive(Debug, Error)]
pub enum UserTokenError {
    /// The store or the loop.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No randomness, or a malformed text.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The identity cannot be written.
    #[error(transparent)]
    Identity(#[from] proto_rpc::identity::IdentityError),
    /// Never made here, deleted, or wrong.
    #[error("the token is not valid")]
    Invalid,
    /// Its time is over.
    #[error("the token has expired; have a new one issued")]
    Expired,
    /// An administrator took it back.
    #[error("the token was revoked; have a new one issued")]
    Revoked,
}

impl Handle {
    /// Makes a token that speaks for `identity` until `expires`. Only its hash is kept.
    ///
    /// # Errors
    /// [`UserTokenError`].
    pub async fn issue_token(
        &self,
        actor: &Arc<Actor>,
        identity: &Identity,
        cluster: &str,
        expires: Timestamp,
    ) -> Result<Token, UserTokenError> {
        let token = Token::generate(TokenKind::User)?;
        let record = records::UserToken {
            hash: token.hash().to_string(),
            identity: identity.to_uri(cluster)?,
            expires_ms: expires.0,
            issued_by: actor.who.clone(),
            issued_ms: stamp(self.revoked().get().issue_time(identity, time(self.now()))).0,
        };
        let key = format!("{}{}", keys::USER_TOKENS, token.id()).into();
        let beside = AttachedWrite { key, value: Some(record.encode_to_vec().into()) };
        let name = format!("{} for {}", token.id(), record.identity);
        let tenant = identity.tenant().unwrap_or_default().to_owned();
        let noted = Event::AuditNote(AuditNote { kind: "api-token", name, tenant });
        self.apply_with(actor, vec![beside], noted).await?;
        Ok(token)
    }

    /// Whom a shown token speaks for, and until when.
    ///
    /// # Errors
    /// [`UserTokenError`]; it never says whether the id exists.
    pub async fn identify(
        &self,
        token: &Token,
        cluster: &str,
    ) -> Result<(Identity, Timestamp), UserTokenError> {
        let found = self.store().get(keys::user_token(token.id())).await;
        let kv = found.map_err(|error| Refusal::read(&error))?.ok_or(UserTokenError::Invalid)?;
        let record: records::UserToken = codec::decode(&kv).map_err(Refusal::Corrupt)?;
        let hash: TokenHash = record.hash.parse()?;
        if !hash.verify(token) {
            return Err(UserTokenError::Invalid);
        }
        if record.expires_ms <= self.now().0 {
            return Err(UserTokenError::Expired);
        }
        let identity = Identity::from_uri(&record.identity, cluster)?;
        if self.revoked().get().refuses_since(&identity, time(Timestamp(record.issued_ms))) {
            return Err(UserTokenError::Revoked);
        }
        Ok((identity, Timestamp(record.expires_ms)))
    }
}

impl Handle {
    /// All tokens that have not expired, the newest first.
    ///
    /// # Errors
    /// The store, or a record that cannot be read.
    pub async fn issued_tokens(&self, cluster: &str) -> Result<Vec<IssuedToken>, UserTokenError> {
        let found = self.store().range_all(keys::USER_TOKENS.into()).await;
        let found = found.map_err(|error| Refusal::read(&error))?;
        let (now, revoked) = (self.now().0, self.revoked());
        let mut issued = Vec::new();
        for kv in &found.items {
            let record: records::UserToken = codec::decode(kv).map_err(Refusal::Corrupt)?;
            if record.expires_ms <= now {
                continue;
            }
            let identity = Identity::from_uri(&record.identity, cluster)?;
            let id = kv.key.get(keys::USER_TOKENS.len()..).unwrap_or_default();
            issued.push(IssuedToken {
                id: String::from_utf8_lossy(id).into_owned(),
                revoked: revoked.get().refuses_since(&identity, time(Timestamp(record.issued_ms))),
                identity,
                issued_by: record.issued_by,
                issued: Timestamp(record.issued_ms),
                expires: Timestamp(record.expires_ms),
            });
        }
        issued.sort_by(|a, b| b.issued.cmp(&a.issued).then_with(|| a.id.cmp(&b.id)));
        Ok(issued)
    }

    /// Removes every token that speaks for somebody of `tenant`; answers how many. Each transaction has its record.
    ///
    /// # Errors
    /// [`UserTokenError`]; some may be gone then, and the call may be repeated.
    pub async fn drop_tokens_of(
        &self,
        actor: &Arc<Actor>,
        tenant: &str,
        cluster: &str,
    ) -> Result<usize, UserTokenError> {
        let doomed = self.doomed_tokens(|record| {
            let identity = Identity::from_uri(&record.identity, cluster);
            identity.is_ok_and(|identity| identity.tenant() == Some(tenant))
        });
        let doomed = doomed.await?;
        self.remove_tokens(actor, &doomed, "removed with the tenant", tenant).await?;
        Ok(doomed.len())
    }

    /// Removes every token that `subject` was given until `at`.
    ///
    /// # Errors
    /// As above.
    pub async fn drop_tokens_given(
        &self,
        actor: &Arc<Actor>,
        subject: &Subject,
        at: Timestamp,
        cluster: &str,
    ) -> Result<usize, UserTokenError> {
        let doomed = self.doomed_tokens(|record| {
            let identity = Identity::from_uri(&record.identity, cluster).ok();
            record.issued_ms <= at.0
                && identity.and_then(|identity| Subject::of(&identity)).as_ref() == Some(subject)
        });
        let doomed = doomed.await?;
        self.remove_tokens(actor, &doomed, "revoked", "").await?;
        Ok(doomed.len())
    }

    /// Removes these, with a record for each transaction.
    async fn remove_tokens(
        &self,
        actor: &Arc<Actor>,
        doomed: &[Bytes],
        why: &str,
        tenant: &str,
    ) -> Result<(), UserTokenError> {
        for some in doomed.chunks(self.at_once()) {
            let gone = |key: &Bytes| AttachedWrite { key: String::from_utf8_lossy(key).into(), value: None };
            let name = format!("{} {why}", some.len());
            let noted = Event::AuditNote(AuditNote { kind: "api-token", name, tenant: tenant.to_owned() });
            self.apply_with(actor, some.iter().map(gone).collect(), noted).await?;
        }
        Ok(())
    }

    /// Removes tokens whose time is over; answers how many. Nobody asked for that, so it leaves no audit record.
    ///
    /// # Errors
    /// As above.
    pub async fn drop_expired_tokens(&self) -> Result<usize, UserTokenError> {
        let now = self.now().0;
        let doomed = self.doomed_tokens(|record| record.expires_ms <= now).await?;
        for some in doomed.chunks(self.at_once()) {
            self.fenced(Vec::new(), some.iter().cloned().map(Op::delete).collect()).await?;
        }
        Ok(doomed.len())
    }

    /// Operations of one transaction, with room for a record.
    fn at_once(&self) -> usize {
        self.store().limits().txn_ops.saturating_sub(4).clamp(1, 100)
    }

    async fn doomed_tokens(
        &self,
        doomed: impl Fn(&records::UserToken) -> bool,
    ) -> Result<Vec<Bytes>, UserTokenError> {
        let found = self.store().range_all(keys::USER_TOKENS.into()).await;
        let found = found.map_err(|error| Refusal::read(&error))?;
        let mut keys = Vec::new();
        for kv in found.items {
            if doomed(&codec::decode(&kv).map_err(Refusal::Corrupt)?) {
                keys.push(kv.key);
            }
        }
        Ok(keys)
    }
}
