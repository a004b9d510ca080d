//! Who may: users with rights on one prefix; and what a prefix must not hold.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio_stream::StreamExt;

use crate::real_etcd::RealEtcd;
use crate::{EtcdLogin, EtcdOptions, EtcdStore, Op, Store, StoreError, Txn};

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
