//! Sign-on of the web pages at an OpenID provider: the authorization code flow with PKCE, state and nonce, done by the controller. What a page
//! has in the end is a token of this cluster, as one that was pasted; the provider's tokens never reach a browser.
//!
//! Between the steps the browser carries what belongs to its sign-on in a sealed cookie, so that nothing is kept here for whoever only begins:
//! `start` sends it away with state and nonce, `callback` takes the answer of that very browser and checks it, `token` hands the page its token
//! once. All of it is done by the controller that leads.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::any,
};
use controller_ui::{Asked, POLICY, answer};
use proto_audit::{ANONYMOUS, Actor};
use proto_oidc::code::{self, SignOn as Sent};
use proto_rpc::{ErrorClass, Identity, PeerInfo, RpcError};
use serde_json::json;

use super::{allowed::not_allowed, params};
use crate::{
    context::Context,
    fault,
    guard::time_of,
    sign_on::{NotTaken, Pages, SignOn},
};

/// Cookies of this origin alone (`__Host-`), which no script reads.
const BEGUN: &str = "__Host-rail-sign-on";
const DONE: &str = "__Host-rail-signed-on";
/// How long somebody may take at the provider, and a page to fetch its token.
const BEGUN_FOR: Duration = Duration::from_secs(600);
const DONE_FOR: Duration = Duration::from_secs(60);
/// Characters of a page's address, and of what a provider sends back in one field, at most.
const MAX_TO: usize = 1024;
const MAX_CODE: usize = 4096;
/// What stands for the call's name in audit records.
const CALL: &str = "SignOn";
const FIRST_PAGE: &str = "/ui/";

/// The routes below `/ui/login`.
pub(super) fn router<S: Clone + Send + Sync + 'static>(context: Context) -> Router<S> {
    Router::new()
        .route("/ui/login", any(offered))
        .route("/ui/login/start", any(start))
        .route("/ui/login/callback", any(callback))
        .route("/ui/login/token", any(token))
        .with_state(context)
}

/// The provider and the pages' side of it, where the site has both.
fn offer(context: &Context) -> Result<(SignOn, Arc<Pages>), RpcError> {
    let found = context.guard.sign_on().and_then(|sign_on| Some((sign_on.clone(), sign_on.pages()?)));
    let text = "this controller offers no single sign-on to pages";
    found.ok_or_else(|| RpcError::new(ErrorClass::NotFound, "NO_SIGN_ON", text))
}

/// As [`offer`], of the controller that leads: it alone opens what it has sealed.
fn leading(context: &Context) -> Result<(SignOn, Arc<Pages>), RpcError> {
    if !context.handle.has_loop() {
        return Err(fault::refused(&controller_leader::Refusal::Stopped { cause: "it follows another one" }));
    }
    offer(context)
}

/// What every answer here carries: it is nobody's to keep, and nothing of it is for other origins.
fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Sends the browser on, with a cookie to keep or to forget.
fn sent(to: &str, cookies: &[String]) -> Result<Response, RpcError> {
    let bad = |_| RpcError::new(ErrorClass::Internal, "BAD_HEADER", "an answer's header cannot be written");
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(to).map_err(bad)?);
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, HeaderValue::from_str(cookie).map_err(bad)?);
    }
    Ok(response)
}

/// `Lax`: the provider's page sends the browser back here, and the cookie has to come along.
fn cookie(name: &str, value: &str, site: &str, age: Duration) -> String {
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={site}; Max-Age={}", age.as_secs())
}

fn forgotten(name: &str) -> String {
    cookie(name, "", "Lax", Duration::ZERO)
}

fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Nobody shows a token here: an answer would look as if it had been found good, to whoever counts anonymous callers.
fn expect(parts: &Parts, method: &Method) -> Option<Response> {
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Some(foreign("a sign-on takes no token: leave `authorization` out").into_response());
    }
    (parts.method != *method).then(|| not_allowed(std::slice::from_ref(method)))
}

/// Where pages can sign on; an empty object where they cannot, which is no fault of whoever asks.
async fn offered(State(context): State<Context>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(refused) = expect(&parts, &Method::GET) {
        return guarded(refused);
    }
    let found =
        offer(&context).map_or_else(|_| json!({}), |(sign_on, _)| json!({"issuer": sign_on.issuer()}));
    guarded(([(header::CONTENT_TYPE, "application/json")], found.to_string()).into_response())
}

async fn start(State(context): State<Context>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(refused) = expect(&parts, &Method::GET) {
        return guarded(refused);
    }
    guarded(started(&context, &parts).unwrap_or_else(|error| refusal_page(&error)))
}

fn started(context: &Context, parts: &Parts) -> Result<Response, RpcError> {
    let (sign_on, pages) = leading(context)?;
    let document = sign_on.document().ok_or_else(crate::sign_on::away)?;
    let query = params::query(parts.uri.query().unwrap_or_default())?;
    let to = query.iter().find(|(name, _)| name == "to").map_or(FIRST_PAGE, |(_, to)| to.as_str());
    let to = if is_page(to) { to } else { FIRST_PAGE };
    let secret = || code::secret().map_err(|error| internal(&error.to_string()));
    let (state, nonce, verifier) = (secret()?, secret()?, secret()?);
    let kept = json!([state, nonce, verifier, to]).to_string();
    let until = time_of(context.handle.now()) + BEGUN_FOR;
    let sealed = pages.begun.seal(BEGUN, &kept, until).ok_or_else(|| internal("nothing can be sealed"))?;
    let url = code::url(
        &document,
        Sent {
            client: &pages.client.id,
            redirect: &pages.redirect,
            scopes: &pages.scopes,
            state: &state,
            nonce: &nonce,
            verifier: &verifier,
        },
    );
    sent(&url, &[cookie(BEGUN, &sealed, "Lax", BEGUN_FOR)])
}

fn internal(text: &str) -> RpcError {
    RpcError::new(ErrorClass::Internal, "NO_SIGN_ON_STATE", text)
}

/// Whether an address is that of one of the pages, and of nothing else.
fn is_page(to: &str) -> bool {
    let (path, query) = to.split_once('?').unwrap_or((to, ""));
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'"' | b'<' | b'>');
    to.len() <= MAX_TO
        && to.starts_with(FIRST_PAGE)
        && query.bytes().all(plain)
        && answer(Asked { path, ..Asked::default() })
            .headers
            .iter()
            .any(|(name, value)| *name == "content-type" && value.starts_with("text/html"))
}

/// An error for whoever looks at the page of the browser.
fn refusal_page(error: &RpcError) -> Response {
    let status = StatusCode::from_u16(error.class.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = format!("{}\n\nThe pages begin at {FIRST_PAGE}; sign in again there.\n", error.message);
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

async fn callback(State(context): State<Context>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(refused) = expect(&parts, &Method::GET) {
        return guarded(refused);
    }
    guarded(match returned(&context, &parts).await {
        Ok(response) => response,
        Err(NotTaken { subject, error }) => refusal_page(&denied(&context, &parts, subject, error).await),
    })
}

/// Records a sign-on that was refused for want of authority; gives what the browser is told.
async fn denied(context: &Context, parts: &Parts, subject: String, error: RpcError) -> RpcError {
    if !matches!(error.class, ErrorClass::Denied | ErrorClass::Unauthenticated) {
        return error;
    }
    let actor = Actor { who: ANONYMOUS.to_owned(), oidc_subject: subject, ..actor(parts) };
    match context.handle.deny(&Arc::new(actor), &error.reason, &error.message).await {
        Ok(()) => error,
        Err(refusal) => fault::refused(&refusal),
    }
}

fn actor(parts: &Parts) -> Actor {
    let source = parts.extensions.get::<PeerInfo>().map(|peer| peer.address.to_string());
    Actor { source: source.unwrap_or_default(), rpc: CALL.to_owned(), ..Actor::default() }
}

fn foreign(text: &str) -> RpcError {
    RpcError::new(ErrorClass::Unauthenticated, "BAD_SIGN_ON", text)
}

/// The provider has sent the browser back.
async fn returned(context: &Context, parts: &Parts) -> Result<Response, NotTaken> {
    let (sign_on, pages) = leading(context)?;
    let now = time_of(context.handle.now());
    let text = "this browser has no sign-on under way here: it took too long, was done already, or another controller leads now";
    let opened = cookie_of(&parts.headers, BEGUN).and_then(|text| pages.begun.open(BEGUN, text, now));
    let opened = opened.ok_or_else(|| foreign(text))?;
    let begun = serde_json::from_str::<[String; 4]>(&opened.text);
    let [state, nonce, verifier, to] = begun.map_err(|_| foreign(text))?;
    let query = params::query(parts.uri.query().unwrap_or_default())?;
    let code = checked(&query, &state, &sign_on)?;
    // Only an answer to it uses it up: a page of another site that sends the browser here ends nothing.
    pages.begun.spend(opened).ok_or_else(|| foreign(text))?;
    let id_token = pages.exchange(&sign_on, &code, &verifier).await?;
    let now = time_of(context.handle.now());
    let claims = sign_on.answered(&pages, &id_token, &nonce, now).await?;
    let vouched = sign_on.vouched(&claims)?;
    let issued = vouched.issued;
    let (identity, subject, _) = context.guard.bound(vouched).await?;
    let uri = identity.to_uri(context.ca.cluster()).map_err(|error| foreign(&error.to_string()))?;
    let issued = issued.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let kept = json!([uri, subject, issued.to_string()]).to_string();
    let sealed = pages.done.seal(DONE, &kept, now + DONE_FOR);
    let sealed = sealed.ok_or_else(|| internal("the sign-on's names are too long for a cookie"))?;
    Ok(sent(&to, &[cookie(DONE, &sealed, "Strict", DONE_FOR), forgotten(BEGUN)])?)
}

/// The code of an answer to the sign-on with this state.
fn checked(query: &[(String, String)], state: &str, sign_on: &SignOn) -> Result<String, RpcError> {
    let one = |name: &str| {
        let mut found = query.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.next().filter(|_| found.next().is_none())
    };
    if one("state") != Some(state) {
        return Err(foreign("the answer is to another sign-on than the one that this browser has begun"));
    }
    // RFC 9207: an answer of another provider is not taken for this one's.
    match one("iss") {
        Some(found) if found != sign_on.issuer() => return Err(foreign("the answer is of another provider")),
        None if sign_on.document().is_some_and(|document| document.names_issuer) => {
            return Err(foreign("the answer does not name its provider"));
        }
        _ => {}
    }
    if let Some(error) = one("error") {
        let word: String = error.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').take(64).collect();
        return Err(foreign(&format!("the provider has not signed anybody on: {word}")));
    }
    let code = one("code").filter(|code| !code.is_empty() && code.len() <= MAX_CODE);
    Ok(code.ok_or_else(|| foreign("the answer has no code"))?.to_owned())
}

async fn token(State(context): State<Context>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(refused) = expect(&parts, &Method::POST) {
        return guarded(refused);
    }
    let mut response = match handed(&context, &parts).await {
        Ok(response) => response,
        Err(NotTaken { subject, error }) => denied(&context, &parts, subject, error).await.into_response(),
    };
    if let Ok(forget) = HeaderValue::from_str(&forgotten(DONE)) {
        response.headers_mut().append(header::SET_COOKIE, forget);
    }
    guarded(response)
}

/// Makes the token of somebody who has signed on just now, for the page that asks for it first. Without a sign-on there is none: 204.
async fn handed(context: &Context, parts: &Parts) -> Result<Response, NotTaken> {
    let (_, pages) = leading(context)?;
    let (handle, now) = (&context.handle, time_of(context.handle.now()));
    let done = cookie_of(&parts.headers, DONE).and_then(|text| pages.done.open(DONE, text, now));
    let done = done.and_then(|opened| pages.done.spend(opened));
    let Some([uri, subject, issued]) = done.and_then(|text| serde_json::from_str::<[String; 3]>(&text).ok())
    else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let cluster = context.ca.cluster();
    let identity = Identity::from_uri(&uri, cluster).map_err(|error| foreign(&error.to_string()))?;
    let issued = SystemTime::UNIX_EPOCH + Duration::from_secs(issued.parse().unwrap_or(0));
    let taken_back = handle.revoked().get().refuses_since(&identity, issued);
    if taken_back {
        return Err(NotTaken { subject, error: crate::access::refusal(&identity) });
    }
    context.guard.tenancy(&identity).await?;
    let roles: Vec<&str> = identity.roles().iter().map(|role| role.as_str()).collect();
    let tenant = identity.tenant().unwrap_or_default().to_owned();
    let actor = Actor { who: uri, roles: roles.join(","), tenant, oidc_subject: subject, ..actor(parts) };
    let expires = handle.now().plus(pages.session);
    let made = handle.issue_token(&Arc::new(actor), &identity, cluster, expires).await;
    let made = made.map_err(|error| fault::token(&error))?;
    let body = Body::from(json!({"token": made.reveal()}).to_string());
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_sent_to_pages_of_this_origin_alone() {
        for page in ["/ui/", "/ui/jobs", "/ui/jobs/nlp/train", "/ui/jobs?phase=RUNNING&q=tenant:nlp"] {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "",
            "/",
            "//evil.example/ui/",
            "https://evil.example/ui/",
            "/ui//evil.example",
            "/ui/../v1/jobs",
            "/ui\\evil.example",
            "/ui/app.js",
            "/ui/login",
            "/ui/login/start",
            "/ui/jobs?a=\\b",
            "/ui/jobs?a=b c",
            "/ui/jobs#x",
            "javascript:alert(1)",
            &format!("/ui/jobs?{}", "x".repeat(MAX_TO)),
        ] {
            assert!(!is_page(other), "{other}");
        }
    }

    #[test]
    fn a_cookie_is_of_this_origin_and_no_script_reads_it() {
        let set = cookie(BEGUN, "x", "Lax", BEGUN_FOR);
        assert_eq!(set, "__Host-rail-sign-on=x; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; __Host-rail-sign-on=one"));
        headers.append(header::COOKIE, HeaderValue::from_static("__Host-rail-signed-on=two"));
        assert_eq!((cookie_of(&headers, BEGUN), cookie_of(&headers, DONE)), (Some("one"), Some("two")));
        assert_eq!(cookie_of(&HeaderMap::new(), BEGUN), None);
    }
}
