//! Tokens of an OpenID provider: who is let in by them, as whom, for how long, and what becomes of it while the provider is away.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};
use controller_api::SignOnOptions;
use data_encoding::BASE64URL_NOPAD as B64;
use proto_oidc::{Policy, Provider};
use proto_rpc::{
    Ca, CertificateSlot, Client, ErrorClass, Listen, Metrics, Revocations, TrustSlot,
    server::{Limits, Server, ServerMetrics, ServerTls},
};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{actor, all},
    http::ask,
    jobs::error,
    world::World,
};

/// Longest wait for what has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a provider answers with; none while it is away.
struct Answers {
    key: Ed25519KeyPair,
    kid: String,
    here: bool,
    /// How often its keys were asked for.
    asked: u64,
}

/// A provider on a loopback port.
struct Idp {
    issuer: String,
    answers: Arc<Mutex<Answers>>,
    stop: CancellationToken,
    options: SignOnOptions,
}

impl Drop for Idp {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Idp {
    async fn start(dir: &Path) -> Self {
        let ca = Ca::create("idp", SystemTime::now(), Duration::from_secs(86_400)).unwrap();
        let leaf =
            ca.issue_server(&["127.0.0.1".into()], Duration::from_secs(3600), SystemTime::now()).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(ca.certificate_pem()).unwrap(),
            cluster: "idp".to_owned(),
            slot: CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap(),
            revocations: Revocations::default(),
        };
        let metrics = ServerMetrics::new(&Metrics::new("idp", "0", SystemTime::now()));
        let listen: Vec<Listen> = vec!["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&listen, &tls, Limits::default(), metrics).await.unwrap();
        let issuer = format!("https://{}", server.addresses().unwrap()[0]);
        let key = Ed25519KeyPair::generate().unwrap();
        let answers = Answers { key, kid: "one".to_owned(), here: true, asked: 0 };
        let answers = Arc::new(Mutex::new(answers));
        let stop = CancellationToken::new();
        let router = router(&issuer, &answers);
        tokio::spawn(server.serve(router, stop.clone()));
        let bundle = dir.join("idp.pem");
        std::fs::write(&bundle, ca.certificate_pem()).unwrap();
        let grants = ["admins=admin", "nlp=user@nlp", "leads=tenant-admin@nlp", "none=user@none"];
        let policy = Policy {
            issuer: issuer.clone(),
            client: "rail".to_owned(),
            audiences: vec!["rail".to_owned()],
            name_claim: "name".to_owned(),
            name_suffix: String::new(),
            groups_claim: "groups".to_owned(),
            grants: grants.map(|text| text.parse().unwrap()).to_vec(),
            skew: Duration::from_secs(1),
        };
        let provider = Provider::new(&issuer, Some(&bundle)).unwrap();
        let options = SignOnOptions { policy, provider, keys_for: Duration::from_secs(3600), pages: None };
        Self { issuer, answers, stop, options }
    }

    /// A token of somebody in these groups, for so many seconds, with claims of the test's own over all others.
    fn token(&self, user: &str, groups: &[&str], seconds: u64, more: &Value) -> String {
        let answers = self.answers.lock().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.issuer, "aud": "rail", "sub": format!("sub-of-{user}"), "name": user,
            "groups": groups, "iat": now, "exp": now + seconds,
        });
        let over = more.as_object().cloned().unwrap_or_default();
        over.into_iter().for_each(|(name, value)| claims[name] = value);
        let head = json!({"alg": "EdDSA", "kid": answers.kid});
        let part = |value: &Value| B64.encode(value.to_string().as_bytes());
        let message = format!("{}.{}", part(&head), part(&claims));
        let signature = answers.key.sign(message.as_bytes());
        format!("{message}.{}", B64.encode(signature.as_ref()))
    }

    fn ann(&self) -> String {
        self.token("ann", &["nlp"], 600, &Value::Null)
    }

    fn asked(&self) -> u64 {
        self.answers.lock().unwrap().asked
    }

    /// Signs with another key from now on, and publishes that alone.
    fn rotate(&self, kid: &str) {
        let mut answers = self.answers.lock().unwrap();
        (answers.key, answers.kid) = (Ed25519KeyPair::generate().unwrap(), kid.to_owned());
    }
}

fn router(issuer: &str, answers: &Arc<Mutex<Answers>>) -> Router {
    let document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
    });
    let answers = Arc::clone(answers);
    let keys = move || {
        let mut answers = answers.lock().unwrap();
        answers.asked += 1;
        let x = B64.encode(answers.key.public_key().as_ref());
        let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": answers.kid, "x": x}]});
        let answer = if answers.here {
            set.to_string().into_response()
        } else {
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        };
        std::future::ready(answer)
    };
    let document = move || std::future::ready(document.to_string());
    Router::new().route("/.well-known/openid-configuration", get(document)).route("/keys", get(keys))
}

async fn who(client: Client) -> Result<v1::WhoAmIResponse, tonic::Status> {
    TenantServiceClient::new(client).who_am_i(v1::WhoAmIRequest {}).await.map(tonic::Response::into_inner)
}

async fn begin(dir: &Path) -> (Idp, World) {
    let idp = Idp::start(dir).await;
    let world = World::start_signing_on(dir, idp.options.clone()).await;
    world.tenant("nlp", 8).await;
    (idp, world)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_vouches_for_people_on_grpc_and_rest_and_records_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let (idp, world) = begin(dir.path()).await;
    let me = who(world.signed(&idp.ann())).await.unwrap();
    assert_eq!((&*me.tenant, &*me.user, me.role), ("nlp", "ann", v1::Role::User.into()));
    let bound = format!("spiffe://rail/test/tenant/nlp/uid/{}/user/ann/roles/user", uid(&world));
    assert_eq!(me.identity, bound);
    let root = idp.token("root", &["x", "admins"], 600, &Value::Null);
    let mut client = world.signed(&root);
    let found = ask(&mut client, "GET", "/v1/whoami", &[], "").await;
    assert_eq!((found.status, found.json()["role"].as_str()), (200, Some("ADMIN")), "{}", found.json());
    // What they change is recorded as theirs, by the name that only the provider gives.
    let tenant = v1::Tenant {
        metadata: Some(v1::Metadata { name: "cv".into(), ..v1::Metadata::default() }),
        spec: Some(v1::TenantSpec::default()),
        ..v1::Tenant::default()
    };
    let apply = v1::ApplyTenantRequest { tenant: Some(tenant), ..v1::ApplyTenantRequest::default() };
    TenantServiceClient::new(client).apply_tenant(apply).await.unwrap();
    let refused = v1::DeleteTenantRequest { name: "cv".into(), ..v1::DeleteTenantRequest::default() };
    let refused = error(TenantServiceClient::new(world.signed(&idp.ann())).delete_tenant(refused).await);
    assert_eq!(refused.reason, "ROLE_NOT_ALLOWED");
    let of = |rpc: &str, records: &[v1::AuditRecord]| {
        let found =
            records.iter().map(actor).find(|actor| actor.rpc == rpc && !actor.oidc_subject.is_empty());
        found.map(|actor| (actor.who, actor.oidc_subject))
    };
    let records = all(&world).await;
    let admin = ("spiffe://rail/test/admin/root".to_owned(), format!("{} sub-of-root", idp.issuer));
    assert_eq!(of("ApplyTenant", &records), Some(admin));
    assert_eq!(of("DeleteTenant", &records), Some((bound, format!("{} sub-of-ann", idp.issuer))));
    // Whoever shows a certificate is whom that names, and nobody else's word is in its records.
    let admin = who(world.admin()).await.unwrap();
    assert_eq!(admin.role, i32::from(v1::Role::Admin));
    world.stop().await;
}

fn uid(world: &World) -> String {
    world.handle.tenancies().get("nlp").unwrap().uid.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_granted_nothing_or_shows_what_is_not_good_is_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (idp, world) = begin(dir.path()).await;
    for (token, reason) in [
        (idp.token("eve", &["others"], 600, &Value::Null), "NO_GRANT"),
        (idp.token("eve", &["none"], 600, &Value::Null), "NO_GRANT"),
        (idp.token("eve/../ann", &["nlp"], 600, &Value::Null), "NO_GRANT"),
        (idp.token("eve", &["nlp"], 600, &json!({"aud": "other"})), "BAD_ID_TOKEN"),
        (idp.token("eve", &["nlp"], 600, &json!({"iss": "https://other.example"})), "BAD_ID_TOKEN"),
        (
            idp.token("eve", &["nlp"], 600, &json!({"exp": 1_000_000_000, "iat": 999_999_999})),
            "TOKEN_EXPIRED",
        ),
        (format!("{}x", idp.ann()), "BAD_ID_TOKEN"),
    ] {
        let refused = error(who(world.signed(&token)).await);
        assert_eq!((refused.class, &*refused.reason), (ErrorClass::Unauthenticated, reason), "{refused}");
        let mut client = world.signed(&token);
        assert_eq!(ask(&mut client, "GET", "/v1/jobs", &[], "").await.status, 401);
    }
    // Somebody else's own tokens are no worse for it, and what is neither is refused as ever.
    let mut anonymous = world.client(&proto_rpc::Identity::Anonymous);
    let bad = ask(&mut anonymous, "GET", "/v1/jobs", &[("authorization", "Bearer x")], "").await;
    assert_eq!(bad.status, 401);
    // Pages have a provider only where the site has said where browsers reach it.
    let offered = ask(&mut anonymous, "GET", "/ui/login", &[], "").await;
    assert_eq!((offered.status, offered.json()), (200, json!({})));
    assert_eq!(offered.header("cache-control"), "no-store");
    for (method, path) in
        [("GET", "/ui/login/start"), ("GET", "/ui/login/callback?code=x"), ("POST", "/ui/login/token")]
    {
        assert_eq!(ask(&mut anonymous, method, path, &[], "").await.status, 404, "{path}");
    }
    // Nothing there looks like a token that was found good.
    for (method, path) in [("GET", "/ui/login"), ("POST", "/ui/login/token")] {
        let shown = ask(&mut anonymous, method, path, &[("authorization", "Bearer x")], "").await;
        assert_eq!(shown.status, 401, "{path}");
    }
    for (method, path) in [("POST", "/ui/login/start"), ("GET", "/ui/login/token")] {
        assert_eq!(ask(&mut anonymous, method, path, &[], "").await.status, 405, "{path}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_known_is_asked_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let (idp, world) = begin(dir.path()).await;
    let old = idp.ann();
    who(world.signed(&old)).await.unwrap();
    assert_eq!(idp.asked(), 1);
    idp.rotate("two");
    who(world.signed(&idp.ann())).await.unwrap();
    assert_eq!(idp.asked(), 2, "the new key was asked for as soon as somebody showed it");
    let refused = error(who(world.signed(&old)).await);
    assert_eq!(refused.reason, "BAD_ID_TOKEN", "the old one is gone with its issuer's word");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_provider_is_away_its_last_keys_count_and_others_are_let_in_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    let idp = Idp::start(dir.path()).await;
    idp.answers.lock().unwrap().here = false;
    let world = World::start_signing_on(dir.path(), idp.options.clone()).await;
    world.tenant("nlp", 8).await;
    let away = error(who(world.signed(&idp.ann())).await);
    assert_eq!((away.class, &*away.reason), (ErrorClass::Unavailable, "ISSUER_AWAY"), "{away}");
    who(world.admin()).await.unwrap();
    who(world.user("nlp")).await.unwrap();
    idp.answers.lock().unwrap().here = true;
    let begun = std::time::Instant::now();
    while who(world.signed(&idp.ann())).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "it is asked again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // From now on it is away for good; nobody notices.
    idp.answers.lock().unwrap().here = false;
    who(world.signed(&idp.ann())).await.unwrap();
    assert!(world.metric("rail_oidc_fetches_total{outcome=\"failed\"}") >= 1.0);
    assert!(world.metric("rail_oidc_fetches_total{outcome=\"fetched\"}") >= 1.0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let dir = tempfile::tempdir().unwrap();
    let (idp, world) = begin(dir.path()).await;
    // One that is over before the stream begins is no use here: the next one is good for longer.
    let mut opened = None;
    for seconds in [2, 4, 8, 16, 32, 64] {
        let client = world.signed(&idp.token("ann", &["nlp"], seconds, &Value::Null));
        let mut jobs = JobServiceClient::new(client.without_timeout());
        if let Ok(watch) = jobs.watch_jobs(v1::WatchJobsRequest::default()).await {
            opened = Some(watch.into_inner());
            break;
        }
    }
    let mut stream = opened.expect("one of them was in time");
    let ended = async {
        loop {
            if let Err(status) = stream.message().await {
                break proto_rpc::RpcError::from_status(&status);
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE * 2, ended).await.expect("it ends with its token");
    assert_eq!((ended.class, &*ended.reason), (ErrorClass::Unauthenticated, "TOKEN_EXPIRED"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_issued_before_a_revocation_is_refused_and_what_comes_after_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (idp, world) = begin(dir.path()).await;
    let before = idp.ann();
    who(world.signed(&before)).await.unwrap();
    let subject = "tenant/nlp/user/ann".to_owned();
    let revoke = v1::RevokeRequest { subject, reason: String::new() };
    TenantServiceClient::new(world.admin()).revoke(revoke).await.unwrap();
    let refused = error(who(world.signed(&before)).await);
    assert_eq!((refused.class, &*refused.reason), (ErrorClass::Unauthenticated, "CERTIFICATE_REVOKED"));
    // Clocks may be apart by a second: what the next one but one has issued is good.
    let begun = std::time::Instant::now();
    let after = loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let after = idp.token("ann", &["nlp"], 600, &json!({"iat": now + 1}));
        if who(world.signed(&after)).await.is_ok() {
            break after;
        }
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // A tenant that is gone takes its people with it.
    let delete = v1::DeleteTenantRequest { name: "nlp".into(), ..v1::DeleteTenantRequest::default() };
    TenantServiceClient::new(world.admin()).delete_tenant(delete).await.unwrap();
    let gone = error(who(world.signed(&after)).await);
    assert_eq!((gone.class, &*gone.reason), (ErrorClass::Unauthenticated, "NO_GRANT"), "{gone}");
    world.stop().await;
}
