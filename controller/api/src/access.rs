//! Who was let in and must not stay: what a caller whose credentials no longer count is told, and how its streams end.

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
use controller_leader::Handle;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use proto_rpc::{ErrorClass, Identity, PeerInfo, REVOKED, REVOKED_ADVICE, Revocations, RpcError};
use tonic::Status;

use crate::fair::StreamPlace;

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

/// The error for a stream that is open when the token of its caller ends.
fn expired(identity: &Identity) -> RpcError {
    let text = format!("the token of {identity} has expired; show a new one");
    RpcError::new(ErrorClass::Unauthenticated, "TOKEN_EXPIRED", text)
}

/// How long what a caller has shown counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// When it was looked at.
    pub since: SystemTime,
    /// How long it counts from now on; none for certificates, which connections end with.
    pub left: Option<Duration>,
}

/// Returns after a time; never where there is none.
async fn after(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Ends once a caller that was let in must not stay, and says why: it is revoked (by the certificate that it showed, or else by the time at
/// which its token was looked at), its token ends, or its tenant is deleted.
pub(crate) fn over(
    handle: &Handle,
    identity: Identity,
    peer: Option<&PeerInfo>,
    span: Span,
) -> impl Future<Output = RpcError> + Send + use<> {
    let certificate = peer.and_then(|peer| peer.certificate.clone());
    let (whose, caller) = (identity.clone(), identity.clone());
    let revoked = handle.revoked().clone().until(move |now| match &certificate {
        Some(certificate) => now.refuses(&whose, certificate),
        None => now.refuses_since(&whose, span.since),
    });
    let left = handle.tenancies().clone().until_gone(caller);
    async move {
        tokio::select! {
            () = revoked => refusal(&identity),
            () = left => gone(&identity),
            () = after(span.left) => expired(&identity),
        }
    }
}

/// Ends a stream with the reason once its caller must not stay.
pub(crate) fn bounded(
    response: Response,
    handle: &Handle,
    identity: Identity,
    peer: Option<&PeerInfo>,
    span: Span,
    place: Option<StreamPlace>,
) -> Response {
    let over = over(handle, identity, peer, span);
    let over = Some(Box::pin(async move { Status::from(over.await) }) as Pin<Box<_>>);
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
