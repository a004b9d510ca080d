//! Revocation: who may take back whose credentials, and how long streams and new certificates heed it.

use std::{
    pin::Pin,
    task::{Context as Waker, Poll},
    time::{Duration, SystemTime},
};

use axum::{
    body::{Body, Bytes},
    http::HeaderMap,
    response::Response,
};
use controller_leader::{Handle, Revocation};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use proto_rpc::{
    ErrorClass, Identity, PeerInfo, REVOKED, REVOKED_ADVICE, Revocations, RpcError, Subject,
    ca::{CA_LIFETIME, NODE_LIFETIME},
};
use proto_wire::{convert::time_to_wire, v1};
use tonic::Status;

use crate::{
    authz::Rpc, context::Context, fair::StreamPlace, fault, guard::Caller, tenant::LONGEST_LIFETIME,
};

/// The most bytes that a reason may have.
const MAX_REASON: usize = 256;

/// How long something that is issued now can be valid. An administrator's certificate can be as old as the authority,
/// and of a serial number nothing else is known.
fn keep(subject: &Subject) -> Duration {
    match subject {
        Subject::Node(_) => NODE_LIFETIME,
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

/// The error that a revoked caller gets.
pub(crate) fn refusal(identity: &Identity) -> RpcError {
    let text = format!("the credentials of {identity} were revoked; {REVOKED_ADVICE}");
    RpcError::new(ErrorClass::Unauthenticated, REVOKED, text)
}

/// The error that people of a deleted tenant get.
pub(crate) fn gone(identity: &Identity) -> RpcError {
    let text = format!(
        "the tenant that the credentials of {identity} were issued for was deleted; if you belong to a later tenant of that \
         name, have new ones issued"
    );
    RpcError::new(ErrorClass::Unauthenticated, "TENANT_GONE", text)
}

/// The error for holders of credentials that do not say which tenant of that name they are of.
pub(crate) fn unbound(identity: &Identity) -> RpcError {
    let text = format!(
        "the credentials of {identity} name no tenant uid: an older release issued them; have new ones issued with \
         `railctl tenant issue-cert` or `railctl tenant issue-token`"
    );
    RpcError::new(ErrorClass::Unauthenticated, "NO_TENANT_UID", text)
}

/// Whether the certificate of a connection was revoked while the connection lives on.
pub(crate) fn refuses(revocations: &Revocations, peer: &PeerInfo) -> bool {
    peer.certificate.as_ref().is_some_and(|shown| revocations.get().refuses(&peer.identity, shown))
}

/// Ends a stream with the reason once its caller is revoked (by the certificate that it showed, or else by the time
/// at which its token was looked at) or its tenant is deleted.
pub(crate) fn bounded(
    response: Response,
    handle: &Handle,
    identity: Identity,
    peer: Option<&PeerInfo>,
    since: SystemTime,
    place: Option<StreamPlace>,
) -> Response {
    let certificate = peer.and_then(|peer| peer.certificate.clone());
    let (whose, caller) = (identity.clone(), identity.clone());
    let revoked = handle.revoked().clone().until(move |now| match &certificate {
        Some(certificate) => now.refuses(&whose, certificate),
        None => now.refuses_since(&whose, since),
    });
    let left = handle.tenancies().clone().until_gone(caller);
    let over = async move {
        tokio::select! {
            () = revoked => Status::from(refusal(&identity)),
            () = left => Status::from(gone(&identity)),
        }
    };
    let over = Some(Box::pin(over) as Pin<Box<_>>);
    response.map(|inner| Body::new(Bounded { inner, over, _place: place }))
}

struct Bounded {
    inner: Body,
    /// Why it ends; none once it has ended.
    over: Option<Pin<Box<dyn Future<Output = Status> + Send>>>,
    /// Among the streams of its tenant.
    _place: Option<StreamPlace>,
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(over) = self.over.as_mut() else { return Poll::Ready(None) };
        if let Poll::Ready(reported) = over.as_mut().poll(waker) {
            self.over = None;
            // What the handler still does for this stream ends with it.
            self.inner = Body::empty();
            let mut trailers = HeaderMap::new();
            // Without trailers the caller sees a stream that broke: less, but nothing wrong.
            let _ = reported.add_header(&mut trailers);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Pin::new(&mut self.inner).poll_frame(waker)
    }

    fn is_end_stream(&self) -> bool {
        self.over.is_none() || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
