//! The pages' one stream (`text/event-stream`): all that a page follows, to whom the calls that say the same tell it. Its events are
//! [`crate::feed`]'s.

use std::{convert::Infallible, time::SystemTime};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Method, header, request::Parts},
    response::{IntoResponse, Response},
    routing::any,
};
use controller_leader::Refusal;
use proto_rpc::{PeerInfo, RpcError};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

use super::{allowed::not_allowed, params};
use crate::{
    access,
    authz::Rpc,
    context::Context,
    fault,
    feed::{Asked, Feed, Kinds, Position, follow, metrics::FeedMetrics},
    guard::span_of,
    reader::Reader,
};

/// Where it is: among the pages.
const PATH: &str = "/ui/events";
/// The header by which a client goes on where it was.
const LAST: HeaderName = HeaderName::from_static("last-event-id");
/// The most bytes of a query.
const QUERY: usize = 512;
/// Chunks that wait for one reader: one that goes out, and one that is ready.
const CHUNKS: usize = 1;

/// The route of the stream.
pub(super) fn router<S: Clone + Send + Sync + 'static>(context: Context, metrics: &FeedMetrics) -> Router<S> {
    let feed = Feed::new(context.clone(), metrics.clone());
    Router::new().route(PATH, any(serve)).with_state(Events { feed, context })
}

#[derive(Clone)]
struct Events {
    feed: Feed,
    context: Context,
}

async fn serve(State(events): State<Events>, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return not_allowed(&[Method::GET, Method::HEAD]);
    }
    let (parts, _) = request.into_parts();
    open(events, &parts).await.unwrap_or_else(IntoResponse::into_response)
}

async fn open(Events { feed, context }: Events, parts: &Parts) -> Result<Response, RpcError> {
    if !context.handle.has_loop() {
        // The controller that leads answers: what servers hold is known to it alone.
        return Err(fault::refused(&Refusal::Stopped { cause: "it follows another one" }));
    }
    let (extensions, headers) = (&parts.extensions, &parts.headers);
    // Who may not call learns nothing about what it asks for.
    context.guard.admit(Rpc::WatchJobs, extensions, headers).await?;
    let asked = asked(parts.uri.query().unwrap_or_default(), headers)?;
    let mut admitted = vec![Rpc::WatchJobs];
    for rpc in asked.kinds.iter().map(|kind| kind.rpc()) {
        if !admitted.contains(&rpc) {
            context.guard.admit(rpc, extensions, headers).await?;
            admitted.push(rpc);
        }
    }
    // One stream is one place among its tenant's, whatever it carries.
    let since = SystemTime::now();
    let (caller, (seat, place)) = context.guard.let_in(Rpc::WatchJobs, extensions, headers).await?;
    drop(seat);
    let reader = Reader::of(&caller)?;
    let asked = Asked { since: caller.since(), ..asked };
    let peer = extensions.get::<PeerInfo>();
    let span = span_of(&context.handle, since, caller.until);
    let over = access::over(&context.handle, caller.identity.clone(), peer, span);
    let (out, chunks) = tokio::sync::mpsc::channel::<Bytes>(CHUNKS);
    tokio::spawn(async move {
        let _place = place;
        follow(feed, reader, asked, out, over).await;
    });
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<_, Infallible>));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        // A proxy that would gather it holds back what is new.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// What is asked for: `kinds`, of these `fresh`, and behind which event it goes on.
fn asked(query: &str, headers: &HeaderMap) -> Result<Asked, RpcError> {
    if query.len() > QUERY {
        return Err(fault::field("query", format!("has more than {QUERY} bytes")));
    }
    let (mut kinds, mut fresh) = (Kinds::default(), Kinds::default());
    for (name, value) in params::query(query)? {
        let read = |field| Kinds::read(&value).map_err(|text| fault::field(field, text));
        match name.as_str() {
            "kinds" => kinds = read("kinds")?,
            "fresh" => fresh = read("fresh")?,
            other => {
                let shown: String = other.chars().take(32).collect();
                return Err(fault::field(&shown, "is no parameter; there are kinds and fresh"));
            }
        }
    }
    if kinds.is_empty() {
        return Err(fault::field("kinds", "is required: what the stream is to be of"));
    }
    if !fresh.without(kinds).is_empty() {
        return Err(fault::field("fresh", "has what kinds has not"));
    }
    let after = headers.get(LAST).map(|value| {
        let text = value.to_str().unwrap_or_default();
        text.parse::<Position>().map_err(|error| fault::field("Last-Event-ID", error))
    });
    Ok(Asked { kinds, fresh, after: after.transpose()?, since: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_bounded_and_known() {
        let none = HeaderMap::new();
        let good = asked("kinds=jobs,nodes&fresh=nodes", &none).unwrap();
        assert_eq!(
            (good.kinds, good.fresh),
            (Kinds::read("jobs,nodes").unwrap(), Kinds::read("nodes").unwrap())
        );
        let last = |text: &str| HeaderMap::from_iter([(LAST, text.parse().unwrap())]);
        let after = asked("kinds=jobs", &last("12.3")).unwrap().after;
        assert_eq!(after, Some(Position { revision: 12, index: 3 }));
        for (query, headers, field) in [
            ("", &none, "kinds"),
            ("kinds=", &none, "kinds"),
            ("kinds=secrets", &none, "kinds"),
            ("kinds=jobs&fresh=nodes", &none, "fresh"),
            ("kinds=jobs&tenant=nlp", &none, "tenant"),
            ("kinds=jobs", &last("yesterday"), "Last-Event-ID"),
            (&format!("kinds={}", "jobs,".repeat(200)), &none, "query"),
        ] {
            let error = asked(query, headers).unwrap_err();
            assert_eq!(error.violations[0].field, field, "{query}");
        }
    }
}
