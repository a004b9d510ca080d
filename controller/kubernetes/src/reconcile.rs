//! The shell around `decide`: does the steps for one object, and asks again after each answer.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    runtime::{
        controller::{Action as Next, Config, Controller},
        reflector::Store,
        watcher,
    },
};
use proto_rpc::{Jitter, RetryPolicy};
use serde_json::json;
use thiserror::Error;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::{
    decide::{Action, Pace, Step, View, decide},
    documents::{self, Namespace, TENANT_LABEL, TENANTS_ANNOTATION, Wanted},
    kind::{FINALIZER, Kind, MANAGER},
    leader::now,
    metrics::OperatorMetrics,
    object::Object,
    railyard::Railyard,
    status::Status,
};

/// Objects of one kind that are worked on at a time.
const AT_ONCE: u16 = 16;
/// Answers in one pass, at most: ask, apply, and what follows.
const ROUNDS: usize = 8;
/// Objects whose failures and last writes are remembered, of each kind.
const REMEMBERED: usize = 100_000;

/// Why a pass over an object was broken off. It is tried again.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The API server is away, or refuses.
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
}

/// What passes over all kinds share.
pub struct Shared {
    /// The API server.
    pub client: kube::Client,
    /// The controller.
    pub railyard: Arc<Railyard>,
    /// What is counted.
    pub metrics: OperatorMetrics,
}

struct Room {
    shared: Arc<Shared>,
    kind: Kind,
    store: Store<DynamicObject>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Failures in a row, by the object's UID.
    failures: BTreeMap<String, u32>,
    /// Objects as they were written last, by UID: what the watch shows may be older.
    written: BTreeMap<String, Arc<DynamicObject>>,
    jitter: Option<Jitter>,
}

/// Keeps all objects of a kind, until it is told to stop; what is under way is brought to its end.
pub async fn keep(shared: Arc<Shared>, kind: Kind, stop: CancellationToken) {
    let resource = kind.resource();
    let objects = Api::<DynamicObject>::all_with(shared.client.clone(), &resource);
    let controller = Controller::new_with(objects, watcher::Config::default(), resource)
        .with_config(Config::default().concurrency(AT_ONCE))
        .graceful_shutdown_on(stop.cancelled_owned());
    let memory = Mutex::new(Memory { jitter: Some(Jitter::from_os()), ..Memory::default() });
    let room = Arc::new(Room { shared, kind, store: controller.store(), memory });
    let mut passes = pin!(controller.run(reconcile, failed, room));
    let mut failures = 0_u32;
    while let Some(done) = passes.next().await {
        match done {
            Ok(_) => failures = 0,
            // Between its listing and its turn an object may go.
            Err(kube::runtime::controller::Error::ObjectNotFound(_)) => {}
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(kind = kind.name(), %error, failures, "an object is not reconciled; trying again");
                }
            }
        }
    }
}

async fn reconcile(seen: Arc<DynamicObject>, room: Arc<Room>) -> Result<Next, ReconcileError> {
    let pass = room.pass(room.newest(seen)).await;
    let outcome = if pass.is_ok() { "done" } else { "failed" };
    room.shared.metrics.reconciles.inc([room.kind.name(), outcome]);
    pass
}

fn failed(object: Arc<DynamicObject>, _: &ReconcileError, room: Arc<Room>) -> Next {
    Next::requeue(room.pause(Pace::Backoff, object.metadata.uid.as_deref().unwrap_or_default()))
}

impl Room {
    /// The object as it was written last, where that is newer than what was seen.
    fn newest(&self, seen: Arc<DynamicObject>) -> Arc<DynamicObject> {
        let version = |object: &DynamicObject| {
            object.metadata.resource_version.as_ref().and_then(|text| text.parse::<u64>().ok())
        };
        let uid = seen.metadata.uid.clone().unwrap_or_default();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match memory.written.get(&uid) {
            Some(written) if version(written) > version(&seen) => Arc::clone(written),
            _ => {
                memory.written.remove(&uid);
                seen
            }
        }
    }

    fn remember(&self, written: DynamicObject) -> Arc<DynamicObject> {
        let written = Arc::new(written);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.written.len() >= REMEMBERED {
            memory.written.clear();
        }
        memory.written.insert(written.metadata.uid.clone().unwrap_or_default(), Arc::clone(&written));
        written
    }

    fn pause(&self, pace: Pace, uid: &str) -> Duration {
        let policy = RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            ..RetryPolicy::default()
        };
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let ceiling = match pace {
            Pace::Backoff => {
                if memory.failures.len() >= REMEMBERED {
                    memory.failures.clear();
                }
                let failures = memory.failures.entry(uid.to_owned()).or_default();
                *failures = failures.saturating_add(1);
                policy.backoff_ceiling(*failures)
            }
            Pace::Soon => Duration::from_secs(10),
            Pace::Later => Duration::from_secs(60),
            Pace::Rarely => Duration::from_secs(600),
        };
        if pace != Pace::Backoff {
            memory.failures.remove(uid);
        }
        let jitter = memory.jitter.get_or_insert_with(Jitter::from_os);
        ceiling / 2 + jitter.up_to(ceiling / 2)
    }

    fn rival(&self, object: &Object) -> Option<String> {
        if !self.kind.is_single() {
            return None;
        }
        let all: Vec<Object> = self.store.state().iter().map(|one| Object::of(self.kind, one)).collect();
        let counting = Object::counting(all.iter().chain([object]))?;
        (counting.uid != object.uid).then(|| counting.name.clone())
    }

    async fn pass(&self, mut seen: Arc<DynamicObject>) -> Result<Next, ReconcileError> {
        let mut view = View::Unknown;
        let mut wanted = None;
        for _ in 0..ROUNDS {
            let object = Object::of(self.kind, &seen);
            let steps = decide(&object, &view, self.rival(&object).as_deref());
            let mut next = None;
            let mut goes_on = false;
            for Step { action, why } in steps {
                tracing::debug!(
                    kind = self.kind.name(),
                    name = object.name,
                    namespace = object.namespace,
                    ?action,
                    why,
                    "step"
                );
                match action {
                    Action::Wait(pace) => next = Some(Next::requeue(self.pause(pace, &object.uid))),
                    Action::AddFinalizer | Action::RemoveFinalizer => {
                        let adds = action == Action::AddFinalizer;
                        let Some(written) = self.set_finalizer(&seen, &object, adds).await? else {
                            return Ok(Next::await_change());
                        };
                        seen = self.remember(written);
                        goes_on = adds || !object.is_deleted;
                    }
                    Action::Write(status) => {
                        let Some(written) = self.write_status(&object, &status).await? else {
                            return Ok(Next::await_change());
                        };
                        seen = self.remember(written);
                    }
                    Action::Ask | Action::Apply | Action::Delete => {
                        view = self.call(&action, &object, &mut wanted).await?;
                        goes_on = true;
                    }
                }
            }
            if let Some(next) = next {
                return Ok(next);
            }
            if !goes_on {
                return Ok(Next::await_change());
            }
        }
        // A change of the object comes between the steps again and again: it is looked at anew.
        Ok(Next::requeue(self.pause(Pace::Soon, seen.metadata.uid.as_deref().unwrap_or_default())))
    }

    async fn call(
        &self,
        action: &Action,
        object: &Object,
        known: &mut Option<Wanted>,
    ) -> Result<View, ReconcileError> {
        let name = match action {
            Action::Apply => "apply",
            Action::Delete => "delete",
            _ => "ask",
        };
        if known.is_none() {
            let namespace = self.namespace(object).await?;
            match (documents::wanted(object, &namespace), action) {
                (Ok(wanted), _) => *known = Some(wanted),
                (Err(_), Action::Delete) => {}
                (Err(refusal), _) => return Ok(View::Refused(refusal)),
            }
        }
        self.shared.metrics.calls.inc([self.kind.name(), name]);
        let railyard = &self.shared.railyard;
        Ok(match (action, &*known) {
            (Action::Delete, wanted) => {
                let job = object.status.as_ref().and_then(|status| status.job.as_ref());
                let asked = match wanted {
                    Some(Wanted::Job { tenant, .. }) => Some(tenant.as_str()),
                    _ => None,
                };
                let tenant = job.map(|job| job.tenant.as_str()).filter(|tenant| !tenant.is_empty()).or(asked);
                railyard.delete(object, tenant).await
            }
            (Action::Apply, Some(wanted)) => railyard.apply(wanted, &object.uid).await,
            (_, Some(wanted)) => railyard.view(wanted).await,
            (_, None) => View::Unknown,
        })
    }

    /// What the object's namespace says of tenants.
    async fn namespace(&self, object: &Object) -> Result<Namespace, ReconcileError> {
        if !self.kind.is_namespaced() {
            return Ok(Namespace::default());
        }
        let namespaces = Api::<NamespaceObject>::all(self.shared.client.clone());
        let found = namespaces.get_opt(&object.namespace).await?.unwrap_or_default().metadata;
        let (labels, annotations) = (found.labels.unwrap_or_default(), found.annotations.unwrap_or_default());
        let label = labels.get(TENANT_LABEL).map(String::as_str);
        Ok(Namespace::of(label, annotations.get(TENANTS_ANNOTATION).map(String::as_str)))
    }

    fn objects(&self, object: &Object) -> Api<DynamicObject> {
        let (client, resource) = (self.shared.client.clone(), self.kind.resource());
        if object.namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, &object.namespace, &resource)
        }
    }

    /// The list of finalizers is of all that have one on the object: it is written only if nobody else has changed it meanwhile.
    async fn set_finalizer(
        &self,
        seen: &DynamicObject,
        object: &Object,
        adds: bool,
    ) -> Result<Option<DynamicObject>, ReconcileError> {
        let mut finalizers = seen.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|one| one != FINALIZER);
        if adds {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "uid": object.uid,
            "resourceVersion": seen.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.shared.metrics.writes.inc([self.kind.name(), "finalizer"]);
        found(self.objects(object).patch(&object.name, &parameters, &Patch::Merge(patch)).await)
    }

    async fn write_status(
        &self,
        object: &Object,
        status: &Status,
    ) -> Result<Option<DynamicObject>, ReconcileError> {
        let resource = self.kind.resource();
        let patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": object.name, "uid": object.uid},
            "status": status.to_json(&object.status_json, &now()),
        });
        self.shared.metrics.writes.inc([self.kind.name(), "status"]);
        let parameters = PatchParams::apply(MANAGER).force();
        found(
            self.objects(object)
                .patch_subresource("status", &object.name, &parameters, &Patch::Apply(patch))
                .await,
        )
    }
}

/// An object that is gone meanwhile is no failure.
fn found(written: Result<DynamicObject, kube::Error>) -> Result<Option<DynamicObject>, ReconcileError> {
    match written {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
