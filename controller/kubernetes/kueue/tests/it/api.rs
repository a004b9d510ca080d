//! An API server of Kubernetes in this process: lists, watches, merge patches, and server-side apply as far as it is used here.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::codegen::http::{Method, Request, Response, StatusCode};

type Events = mpsc::UnboundedSender<Bytes>;

#[derive(Default)]
struct Store {
    version: u64,
    /// By collection (`workloads`) and name (`ml/a`).
    objects: BTreeMap<(String, String), Value>,
    watches: Vec<(String, Events)>,
    conflicts: u64,
    /// Of a collection, writes that are still refused.
    refusals: BTreeMap<String, u32>,
}

/// The API server.
#[derive(Clone, Default)]
pub struct Api(Arc<Mutex<Store>>);

impl Api {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Puts an object there.
    pub fn put(&self, collection: &str, name: &str, object: Value) {
        self.store().put(collection, name, object);
    }

    /// Takes it away.
    pub fn remove(&self, collection: &str, name: &str) {
        self.store().remove(collection, name);
    }

    /// The object.
    pub fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.store().objects.get(&(collection.to_owned(), name.to_owned())).cloned()
    }

    /// Changes an object.
    pub fn change(&self, collection: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut store = self.store();
        let key = (collection.to_owned(), name.to_owned());
        let mut object = store.objects.get(&key).cloned().unwrap();
        change(&mut object);
        store.put(collection, name, object);
    }

    /// The next so many writes of a collection come to nothing.
    pub fn refuse(&self, collection: &str, times: u32) {
        self.store().refusals.insert(collection.to_owned(), times);
    }

    /// The version of an object: another one after each write that changed it.
    pub fn version(&self, collection: &str, name: &str) -> Value {
        self.get(collection, name).unwrap()["metadata"]["resourceVersion"].clone()
    }

    /// Names of nodes with a label of this key.
    pub fn nodes_with(&self, label: &str) -> Vec<String> {
        let store = self.store();
        let nodes = store.objects.iter().filter(|((collection, _), _)| collection == "nodes");
        nodes
            .filter(|(_, node)| !node["metadata"]["labels"][label].is_null())
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    async fn answer(&self, request: Request<Body>) -> Response<BoxBody<Bytes, Infallible>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let parts: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
        let rest = if parts[0] == "api" { &parts[2..] } else { &parts[3..] };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let query = head.uri.query().unwrap_or_default();
        let mut store = self.store();
        if let [collection] = rest {
            return if query.contains("watch=true") {
                store.watch(collection)
            } else {
                full(StatusCode::OK, &store.list(collection))
            };
        }
        let (collection, name) =
            (rest[0], namespace.map_or(rest[1].to_owned(), |namespace| format!("{namespace}/{}", rest[1])));
        let found = store.objects.get(&(collection.to_owned(), name.clone())).cloned();
        if head.method == Method::GET {
            return found.map_or_else(
                || refused(StatusCode::NOT_FOUND, "NotFound"),
                |found| full(StatusCode::OK, &found),
            );
        }
        assert_eq!(head.method, Method::PATCH);
        if let Some(left) = store.refusals.get_mut(collection).filter(|left| **left > 0) {
            *left -= 1;
            return refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        let patch: Value = serde_json::from_slice(&body).unwrap();
        let is_apply = head.headers["content-type"].to_str().unwrap().starts_with("application/apply-patch");
        if is_apply {
            assert!(
                query.contains("fieldManager=railyard-placement") && query.contains("force=true"),
                "{query}"
            );
        }
        let Some(mut object) = found.or_else(|| (is_apply && rest.len() == 2).then(|| patch.clone())) else {
            return refused(StatusCode::NOT_FOUND, "NotFound");
        };
        let is_other = |field: &str| {
            !patch["metadata"][field].is_null() && patch["metadata"][field] != object["metadata"][field]
        };
        if ["uid", "resourceVersion"].into_iter().any(is_other) {
            store.conflicts += 1;
            return refused(StatusCode::CONFLICT, "Conflict");
        }
        let before = object.clone();
        merge(&mut object, &patch);
        if object != before || !store.objects.contains_key(&(collection.to_owned(), name.clone())) {
            object = store.put(collection, &name, object);
        }
        full(StatusCode::OK, &object)
    }
}

impl Store {
    fn put(&mut self, collection: &str, name: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_new = self.objects.insert((collection.to_owned(), name.to_owned()), object.clone()).is_none();
        self.notify(collection, if is_new { "ADDED" } else { "MODIFIED" }, &object);
        object
    }

    fn remove(&mut self, collection: &str, name: &str) {
        self.version += 1;
        if let Some(object) = self.objects.remove(&(collection.to_owned(), name.to_owned())) {
            self.notify(collection, "DELETED", &object);
        }
    }

    fn notify(&mut self, collection: &str, kind: &str, object: &Value) {
        let line = Bytes::from(format!("{}\n", json!({"type": kind, "object": object})));
        self.watches.retain(|(of, events)| of != collection || events.send(line.clone()).is_ok());
    }

    fn list(&self, collection: &str) -> Value {
        let items: Vec<&Value> =
            self.objects.iter().filter(|((of, _), _)| of == collection).map(|(_, object)| object).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": self.version.to_string()}, "items": items})
    }

    fn watch(&mut self, collection: &str) -> Response<BoxBody<Bytes, Infallible>> {
        let (events, stream) = mpsc::unbounded_channel();
        // A change between the list and the watch would be missed: whoever watches is told all, and takes it for changes.
        for ((of, _), object) in &self.objects {
            if of == collection {
                let _ =
                    events.send(Bytes::from(format!("{}\n", json!({"type": "MODIFIED", "object": object}))));
            }
        }
        self.watches.push((collection.to_owned(), events));
        let frames = UnboundedReceiverStream::new(stream).map(|bytes| Ok(Frame::data(bytes)));
        Response::new(StreamBody::new(frames).boxed())
    }
}

fn full(status: StatusCode, object: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let body = http_body_util::Full::new(Bytes::from(object.to_string()));
    Response::builder().status(status).header("content-type", "application/json").body(body.boxed()).unwrap()
}

fn refused(status: StatusCode, reason: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let code = status.as_u16();
    full(
        status,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason}),
    )
}

/// Objects key by key, checks of a workload entry by entry, all else as a whole. What is left out stays: Kueue has applied it too.
fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                match (key.as_str(), value) {
                    ("resourceVersion", _) => {}
                    (_, Value::Null) => drop(object.remove(key)),
                    _ => merge(object.entry(key.clone()).or_insert(Value::Null), value),
                }
            }
        }
        (Value::Array(object), Value::Array(patch))
            if !patch.is_empty()
                && patch.iter().all(|entry| entry["name"].is_string() && entry["state"].is_string()) =>
        {
            for entry in patch {
                match object.iter_mut().find(|one| one["name"] == entry["name"]) {
                    Some(one) => merge(one, entry),
                    None => object.push(entry.clone()),
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}
