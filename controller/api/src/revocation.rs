//! Revocation: who may take back whose credentials, and how long streams and new certificates heed it.

use std::time::Duration;

use controller_leader::Revocation;
use proto_rpc::{
    ErrorClass, RpcError, Subject,
    ca::{CA_LIFETIME, NODE_LIFETIME},
};
use proto_wire::{convert::time_to_wire, v1};

use crate::{authz::Rpc, context::Context, credential::LONGEST_LIFETIME, fault, guard::Caller};

/// The most bytes that a reason may have.
const MAX_REASON: usize = 256;

/// How long something that is issued now can be valid. An administrator's certificate can be as old as the authority,
/// and of a serial number nothing else is known.
fn keep(subject: &Subject) -> Duration {
    match subject {
        Subject::Node(_) | Subject::Switch(_) => NODE_LIFETIME,
        Subject::User { .. } => LONGEST_LIFETIME,
        Subject::Admin(_) | Subject::Serial(_) => CA_LIFETIME,
    }
}

/// Revokes, if the caller may.
pub(crate) async fn revoke(
    context: &Context,
    caller: &Caller,
    wire: v1::RevokeRequest,
) -> Result<v1::Revocation, RpcError> {
    let subject: Subject = wire.subject.parse().map_err(|error| fault::field("subject", error))?;
    if wire.reason.len() > MAX_REASON || wire.reason.chars().any(char::is_control) {
        return Err(fault::field("reason", format!("is one line of at most {MAX_REASON} bytes")));
    }
    let denied = |reason: &str, text: String| {
        context.guard.note(Rpc::Revoke, caller, RpcError::new(ErrorClass::Denied, reason, text))
    };
    if Subject::of(&caller.identity).as_ref() == Some(&subject) {
        let text = format!("{subject} cannot revoke itself: have somebody else do it");
        return Err(denied("OWN_CREDENTIALS", text));
    }
    if !caller.is_admin() {
        let own = caller.own_tenant()?;
        if subject.tenant().is_none() || subject.tenant() != own.as_ref().map(AsRef::as_ref) {
            return Err(denied(
                "FOREIGN_TENANT",
                format!("{} may revoke users of its own tenant", caller.identity),
            ));
        }
    }
    let by = caller.identity.to_string();
    let (keep, cluster) = (keep(&subject), context.ca.cluster());
    let revoked = context.handle.revoke(&caller.actor, &subject, &wire.reason, keep, cluster).await;
    let revoked = revoked.map_err(|error| fault::revoke(&error))?;
    tracing::info!(%subject, by, reason = wire.reason, "credentials revoked");
    Ok(shown(revoked))
}

/// What the caller may see of what is revoked.
pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
) -> Result<v1::ListRevocationsResponse, RpcError> {
    let all = context.handle.list_revocations().await.map_err(|refusal| fault::refused(&refusal))?;
    let own = caller.own_tenant()?;
    let sees = |entry: &Revocation| match &own {
        None => caller.is_admin(),
        // Those of an earlier tenant of the name are not shown.
        Some(own) => entry.subject.tenant() == Some(own.as_ref()) && entry.revision > caller.since(),
    };
    let revocations = all.into_iter().filter(sees).map(shown).collect();
    Ok(v1::ListRevocationsResponse { revocations })
}

fn shown(entry: Revocation) -> v1::Revocation {
    v1::Revocation {
        subject: entry.subject.to_string(),
        reason: entry.reason,
        revoked_by: entry.by,
        revoked: Some(time_to_wire(entry.at)),
        expires: Some(time_to_wire(entry.expires)),
    }
}
