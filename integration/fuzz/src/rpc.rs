//! What peers send: openings of connections, identities, tokens, pins, trace contexts, timeouts, endpoints.

use std::str::FromStr;

use proto_rpc::{
    CaPin, Endpoint, Identity, Token, TokenHash, TokenKind, deadline,
    identity::{cluster_of, cluster_uri},
    opening::{Protocol, is_whole},
    trace,
};
use tonic::codegen::http::{HeaderMap, HeaderValue};

/// Reads the text as each of them; what was read survives.
pub fn run(data: &[u8]) {
    headers(data);
    openings(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    identity(text);
    secrets(text);
    if let Some(timeout) = deadline::parse(text) {
        let again = deadline::parse(&deadline::format(timeout));
        assert!(again.is_some_and(|again| again <= timeout), "{text}: {timeout:?} became {again:?}");
        assert!(!deadline::Deadline::after(timeout).remaining().is_zero() || timeout.as_millis() < 100);
    }
    if let Ok(endpoint) = Endpoint::from_str(text) {
        assert!(endpoint.server_name().is_ok() && !endpoint.authority().is_empty());
        let shown = endpoint.to_string();
        assert_eq!(shown.parse().as_ref(), Ok(&endpoint), "{text} became {shown}");
    }
}

/// What is whole stays whole with more bytes, and what can be no opening never becomes one.
fn openings(data: &[u8]) {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut before = Ok(false);
        for end in 0..data.len().min(512) {
            let now = is_whole(protocol, &data[..end]);
            assert!(before == Ok(false) || before == now, "{before:?} became {now:?} at {end}");
            before = now;
        }
    }
}

fn headers(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let mut headers = HeaderMap::new();
    for name in ["traceparent", "tracestate", "authorization"] {
        headers.insert(name, value.clone());
    }
    let _ = trace::extract(&headers);
    if let Err(error) = Token::from_authorization(&headers) {
        assert!(!error.to_string().is_empty());
    }
}

fn identity(text: &str) {
    let cluster = cluster_of(text);
    if let Ok(cluster) = &cluster {
        assert_eq!(cluster_uri(cluster).as_deref(), Ok(text));
    }
    // The cluster is one's own, so its name is a good one.
    let cluster = text.strip_prefix("spiffe://rail/").and_then(|rest| rest.split('/').next());
    let cluster = cluster.filter(|name| cluster_uri(name).is_ok());
    for cluster in cluster.into_iter().chain(["c1"]) {
        match Identity::from_uri(text, cluster) {
            Ok(identity) => {
                let uri = identity.to_uri(cluster);
                assert!(uri.is_ok(), "{text}: {uri:?}");
                let again = Identity::from_uri(&uri.unwrap_or_default(), cluster);
                assert_eq!(again.as_ref(), Ok(&identity), "{text}");
                assert!(!identity.to_string().is_empty() && identity.roles().len() <= 5);
            }
            Err(error) => assert!(error.to_string().len() <= 1024, "{error}"),
        }
    }
}

fn secrets(text: &str) {
    for kind in [TokenKind::Join, TokenKind::User] {
        if let Ok(token) = Token::parse(kind, text) {
            assert_eq!(token.reveal(), text.trim());
            let hash = token.hash();
            assert!(hash.verify(&token) && !format!("{token:?}").contains(&token.reveal()));
            assert!(hash.to_string().parse::<TokenHash>().is_ok_and(|hash| hash.verify(&token)));
        }
    }
    let _ = text.parse::<TokenHash>();
    if let Ok(pin) = text.parse::<CaPin>() {
        assert_eq!(pin.to_string(), text.trim());
    }
}
