//! Who may: TLS with certificates of a CA, users with rights on one prefix; and what a prefix must not hold.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proto_rpc::{Ca, Identity, KeyRequest};
use tokio_stream::StreamExt;

use crate::real_etcd::RealEtcd;
use crate::{EtcdLogin, EtcdOptions, EtcdStore, EtcdTls, Op, Store, StoreError, Txn};

const HOUR: Duration = Duration::from_secs(3600);

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_checked_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    for name in ["ca", "other"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let ca = Ca::load_or_create(&folder.path().join("ca"), "lab", now).unwrap();
    let other = Ca::load_or_create(&folder.path().join("other"), "elsewhere", now).unwrap();
    let server = ca.issue_server(&["127.0.0.1".to_owned()], HOUR, now).unwrap();
    let cert = file(folder.path(), "server.pem", &server.issued.chain_pem);
    let key = file(folder.path(), "server.key", &server.key_pem);
    let trusted = file(folder.path(), "ca.pem", ca.certificate_pem());
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let args = [
        format!("--cert-file={}", text(&cert)),
        format!("--key-file={}", text(&key)),
        format!("--trusted-ca-file={}", text(&trusted)),
        "--client-cert-auth".to_owned(),
    ];
    let Some(etcd) = RealEtcd::start(&args.each_ref().map(String::as_str)) else { return };
    let client = |ca: &Ca, name: &str| {
        let request = KeyRequest::generate().unwrap();
        let issued = ca.issue(&request.csr_pem, &Identity::admin("rail").unwrap(), HOUR, now).unwrap();
        let certificate = file(folder.path(), &format!("{name}.pem"), &issued.chain_pem);
        (Some(certificate), Some(file(folder.path(), &format!("{name}.key"), &request.key_pem)))
    };
    let with = |ca: Option<PathBuf>, (certificate, key): (Option<PathBuf>, Option<PathBuf>)| {
        let mut options = etcd.options();
        options.tls = EtcdTls { ca, certificate, key };
        options.patience = Duration::from_secs(1);
        options
    };
    let good = client(&ca, "good");
    let store = EtcdStore::open(with(Some(trusted.clone()), good.clone())).await.unwrap();
    let mut watch = store.watch("k".into(), 0).await.unwrap();
    let revision = store.put("k".into(), "v".into()).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().revision, revision);
    let wrong_ca = file(folder.path(), "other.pem", other.certificate_pem());
    for (options, named) in [
        (with(Some(wrong_ca), good.clone()), "not from the CA"),
        (with(Some(trusted.clone()), (None, None)), "certificate"),
        (with(Some(trusted), client(&other, "bad")), "certificate"),
        (with(None, good), "the CA that signed"),
    ] {
        let error = EtcdStore::open(options).await.unwrap_err();
        assert!(matches!(&error, StoreError::Denied { cause } if cause.contains(named)), "{named}: {error}");
    }
    assert_eq!(
        store.get("k".into()).await.unwrap().unwrap().mod_revision,
        revision,
        "nothing was overwritten"
    );
}

/// etcd's own REST, for what the store never asks.
fn post(etcd: &RealEtcd, path: &str, body: &str) {
    let mut stream = TcpStream::connect(etcd.endpoint().at.authority()).unwrap();
    let head = format!("POST /v3/{path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunk = |chunk: &[u8]| {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        (0..4)
            .map(
                |n| if n <= chunk.len() { DIGITS[(bits >> (18 - 6 * n)) as usize & 63] as char } else { '=' },
            )
            .collect::<String>()
    };
    bytes.chunks(3).map(chunk).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_rights_on_the_prefix_alone_is_enough() {
    let Some(mut etcd) = RealEtcd::start(&[]) else { return };
    let perm = format!(
        r#"{{"permType":"READWRITE","key":"{}","range_end":"{}"}}"#,
        base64(b"/railyard/"),
        base64(b"/railyard0")
    );
    for (path, body) in [
        ("auth/user/add", r#"{"name":"root","password":"top"}"#),
        ("auth/user/add", r#"{"name":"rail","password":"hush"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/role/add", r#"{"name":"rail"}"#),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/user/grant", r#"{"user":"rail","role":"rail"}"#),
        ("auth/role/grant", &format!(r#"{{"name":"rail","perm":{perm}}}"#)),
        ("auth/enable", "{}"),
    ] {
        post(&etcd, path, body);
    }
    let login = |password: &str| Some(EtcdLogin { user: "rail".into(), password: password.into() });
    let with = |etcd: &RealEtcd, password| EtcdOptions { login: login(password), ..etcd.options() };
    let store = EtcdStore::open(with(&etcd, "hush")).await.unwrap();
    let mut watch = store.watch("k".into(), 0).await.unwrap();
    let lease = store.lease_grant(Duration::from_secs(60)).await.unwrap();
    let txn = Txn::new().then(Op::put_leased("k", "v", lease.id)).then(Op::delete_prefix("old/"));
    let revision = store.txn(txn).await.unwrap().revision;
    assert_eq!(watch.next().await.unwrap().unwrap().revision, revision);
    store.compact(revision).await.unwrap();
    store.status().await.unwrap();
    let denied = |result: Result<EtcdStore, StoreError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::Denied { .. }), "{error}");
    };
    denied(EtcdStore::open(with(&etcd, "wrong")).await);
    denied(EtcdStore::open(etcd.options()).await);
    denied(EtcdStore::open(EtcdOptions { prefix: "/other".into(), ..with(&etcd, "hush") }).await);
    // A restarted etcd knows no token of before.
    etcd.restart();
    assert_eq!(store.get("k".into()).await.unwrap().unwrap().mod_revision, revision);
    store.put("k2".into(), "v".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_is_named_and_left_alone() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let put = |key: &str, value: &str| {
        let body =
            format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value.as_bytes()));
        post(&etcd, "kv/put", &body);
    };
    let under = |prefix: &str| EtcdOptions { prefix: prefix.into(), ..etcd.options() };
    put("/a/stranger", "x");
    let error = EtcdStore::open(under("/a")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Foreign { found, .. } if found.contains("/a/stranger")), "{error}");
    put("/b/meta/format", "railyard-store\nformat 9\nsomething new\n");
    let error = EtcdStore::open(under("/b")).await.unwrap_err();
    assert!(matches!(&error, StoreError::NewerFormat { found: 9, .. }), "{error}");
    put("/c/meta/format", "bytes of nobody");
    let error = EtcdStore::open(under("/c")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { key, .. } if key == "/c/meta/format"), "{error}");
    let store = EtcdStore::open(under("/d")).await.unwrap();
    store.put("k".into(), "v".into()).await.unwrap();
    put("/d/other", "x");
    let error = EtcdStore::open(under("/d")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Foreign { found, .. } if found.contains("/d/other")), "{error}");
    put("/e/meta/format", "railyard-store\nformat 1\nbase 7\nstate filling\n");
    assert!(matches!(EtcdStore::open(under("/e")).await, Err(StoreError::HalfFilled { .. })));
    let missing = EtcdStore::open(EtcdOptions { create: false, ..under("/f") }).await;
    assert!(matches!(missing, Err(StoreError::Missing { .. })));
    assert_eq!(&store.get("k".into()).await.unwrap().unwrap().value[..], b"v");
    // Two clusters in one etcd do not see each other.
    let beside = EtcdStore::open(under("/d2")).await.unwrap();
    assert_eq!(beside.range_all("".into()).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filled_store_counts_on_from_where_its_source_ended() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let base = 7_000_000_000;
    let mut filling = crate::Filling::etcd(etcd.options(), base, false).await.unwrap();
    for n in 0..3000 {
        filling.put(format!("k/{n:04}").into(), vec![1; 700].into()).await.unwrap();
    }
    assert!(matches!(EtcdStore::open(etcd.options()).await, Err(StoreError::HalfFilled { .. })), "not yet");
    assert!(matches!(crate::Filling::etcd(etcd.options(), 1, false).await, Err(StoreError::Exists { .. })));
    filling.finish().await.unwrap();
    let store = EtcdStore::open(etcd.options()).await.unwrap();
    let all = store.range_all("k/".into()).await.unwrap();
    assert_eq!(all.items.len(), 3000);
    assert!(all.items.iter().all(|kv| kv.create_revision > base && kv.mod_revision <= all.revision));
    let kv = &all.items[0];
    let swap = Txn::new()
        .when(crate::Compare::mod_revision("k/0000", kv.mod_revision))
        .then(Op::put("k/0000", "new"));
    let outcome = store.txn(swap).await.unwrap();
    assert!(outcome.succeeded && outcome.revision > all.revision);
    let mut watch = store.watch("k/".into(), all.revision + 1).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().revision, outcome.revision);
    let ancient = crate::RangeRequest { revision: Some(5), ..crate::RangeRequest::prefix("k/") };
    assert!(matches!(store.range(ancient).await, Err(StoreError::Compacted { .. })));
    assert!(matches!(store.watch("k/".into(), 5).await, Err(StoreError::Compacted { .. })));
    // Again, over it: what was there is gone at once, and revisions go on upwards.
    let again = crate::Filling::etcd(etcd.options(), 1, true).await.unwrap();
    again.finish().await.unwrap();
    let emptied = EtcdStore::open(etcd.options()).await.unwrap();
    let now = emptied.range_all("".into()).await.unwrap();
    assert!(now.items.is_empty() && now.revision > all.revision);
}
