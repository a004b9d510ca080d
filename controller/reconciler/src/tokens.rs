//! API tokens: made once, stored as hashes, looked up by their public id. Join tokens are the core's.

use controller_store::{Compare, Op};
use prost::Message;
use proto_model::Timestamp;
use proto_rpc::{Identity, Subject, Token, TokenHash, TokenKind, token::TokenError};
use thiserror::Error;

use crate::{
    codec,
    error::Refusal,
    handle::Handle,
    keys, records,
    revocations::{stamp, time},
};

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
        identity: &Identity,
        cluster: &str,
        issued_by: &str,
        expires: Timestamp,
    ) -> Result<Token, UserTokenError> {
        let token = Token::generate(TokenKind::User)?;
        let record = records::UserToken {
            hash: token.hash().to_string(),
            identity: identity.to_uri(cluster)?,
            expires_ms: expires.0,
            issued_by: issued_by.to_owned(),
            issued_ms: stamp(self.revoked().get().issue_time(identity, time(self.now()))).0,
        };
        let key = keys::user_token(token.id());
        self.fenced(vec![Compare::absent(key.clone())], vec![Op::put(key, record.encode_to_vec())]).await?;
        Ok(token)
    }

    /// Whom a shown token speaks for.
    ///
    /// # Errors
    /// [`UserTokenError`]; it never says whether the id exists.
    pub async fn identify(&self, token: &Token, cluster: &str) -> Result<Identity, UserTokenError> {
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
        Ok(identity)
    }
}

impl Handle {
    /// Removes every token that speaks for somebody of `tenant`; answers how many.
    ///
    /// # Errors
    /// [`UserTokenError`]; some may be gone then, and the call may be repeated.
    pub async fn drop_tokens_of(&self, tenant: &str, cluster: &str) -> Result<usize, UserTokenError> {
        self.drop_tokens(|record| {
            let identity = Identity::from_uri(&record.identity, cluster);
            identity.is_ok_and(|identity| identity.tenant() == Some(tenant))
        })
        .await
    }

    /// Removes every token that `subject` was given until `at`.
    ///
    /// # Errors
    /// As above.
    pub async fn drop_tokens_given(
        &self,
        subject: &Subject,
        at: Timestamp,
        cluster: &str,
    ) -> Result<usize, UserTokenError> {
        self.drop_tokens(|record| {
            let identity = Identity::from_uri(&record.identity, cluster).ok();
            record.issued_ms <= at.0
                && identity.and_then(|identity| Subject::of(&identity)).as_ref() == Some(subject)
        })
        .await
    }

    /// Removes tokens whose time is over; answers how many.
    ///
    /// # Errors
    /// As above.
    pub async fn drop_expired_tokens(&self) -> Result<usize, UserTokenError> {
        let now = self.now().0;
        self.drop_tokens(|record| record.expires_ms <= now).await
    }

    async fn drop_tokens(
        &self,
        doomed: impl Fn(&records::UserToken) -> bool,
    ) -> Result<usize, UserTokenError> {
        let found = self.store().range_all(keys::USER_TOKENS.into()).await;
        let found = found.map_err(|error| Refusal::read(&error))?;
        let mut ops = Vec::new();
        for kv in found.items {
            if doomed(&codec::decode(&kv).map_err(Refusal::Corrupt)?) {
                ops.push(Op::delete(kv.key));
            }
        }
        let count = ops.len();
        let at_once = self.store().limits().txn_ops.max(1);
        while !ops.is_empty() {
            let rest = ops.split_off(ops.len().min(at_once));
            self.fenced(Vec::new(), std::mem::replace(&mut ops, rest)).await?;
        }
        Ok(count)
    }
}
