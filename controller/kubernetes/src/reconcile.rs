//! The shell around `decide`: does the steps for one object, and asks again after each answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{
    Api,
    api::{Patch, PatchParams},
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
    documents::{self, Namespace, Wanted},
    kind::{FINALIZER, Kind, MANAGER},
    leader::now,
    metrics::OperatorMetrics,
    namespaces::Namespaces,
    object::Object,
    railyard::Railyard,
    seen::Seen,
    status::Status,
};

/// Objects of one kind that are worked on at a time.
const AT_ONCE: u16 = 16;
/// An object that Railyard has not answered for so often in a row says so: some ten seconds, in which a controller is started again.
const SILENT: u32 = 3;
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
    store: Store<Seen>,
    memory: Mutex<Memory>,
    namespaces: Mutex<Namespaces>,
}

#[derive(Default)]
struct Memory {
    /// Failures in a row, by the object's UID.
    failures: BTreeMap<String, u32>,
    /// Objects as they were written last, by UID: what the watch shows may be older.
    written: BTreeMap<String, Arc<Seen>>,
    /// Objects of which a write was not answered, by UID: it may have been done, and what the watch shows may be older.
    unanswered: BTreeSet<String>,
    jitter: Option<Jitter>,
}

/// Keeps all objects of a kind, until it is told to stop; what is under way is brought to its end.
pub async fn keep(shared: Arc<Shared>, kind: Kind, stop: CancellationToken) {
    let resource = kind.resource();
    let objects = Api::<Seen>::all_with(shared.client.clone(), &resource);
    let controller = Controller::new_with(objects, watcher::Config::default(), resource)
        .with_config(Config::default().concurrency(AT_ONCE))
        .graceful_shutdown_on(stop.cancelled_owned());
    let memory = Mutex::new(Memory { jitter: Some(Jitter::from_os()), ..Memory::default() });
    let namespaces = Mutex::default();
    let room = Arc::new(Room { shared, kind, store: controller.store(), memory, namespaces });
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

async fn reconcile(seen: Arc<Seen>, room: Arc<Room>) -> Result<Next, ReconcileError> {
    let pass = match room.current(seen).await {
        Ok(Some(seen)) => room.pass(seen).await,
        Ok(None) => Ok(Next::await_change()),
        Err(error) => Err(error),
    };
    let outcome = if pass.is_ok() { "done" } else { "failed" };
    room.shared.metrics.reconciles.inc([room.kind.name(), outcome]);
    pass
}

fn failed(object: Arc<Seen>, _: &ReconcileError, room: Arc<Room>) -> Next {
    Next::requeue(room.pause(Pace::Backoff, object.metadata.uid.as_deref().unwrap_or_default()))
}

impl Room {
    /// The object as it was written last, where that is newer than what was seen.
    fn newest(&self, seen: Arc<Seen>) -> Arc<Seen> {
        let version = |object: &Seen| {
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

    /// The newest object that is known; read anew after a write that was not answered, for the same again would be another write. None where it is gone.
    async fn current(&self, seen: Arc<Seen>) -> Result<Option<Arc<Seen>>, ReconcileError> {
        let newest = self.newest(seen);
        let uid = newest.metadata.uid.clone().unwrap_or_default();
        let is_answered = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            !memory.unanswered.contains(&uid)
        };
        if is_answered {
            return Ok(Some(newest));
        }
        let object = Object::of(self.kind, &newest);
        let read = self.objects(&object).get_opt(&object.name).await?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.unanswered.remove(&uid);
        drop(memory);
        // Another object of its name is a change that the watch will show.
        let read = read.filter(|read| read.metadata.uid.as_ref() == Some(&uid));
        if read.is_none() {
            self.forget(&uid);
        }
        Ok(read.map(|read| self.remember(read)))
    }

    /// Whether a write was done is not known, or it was refused because what is known of the object is too old.
    fn doubt(&self, uid: &str, error: &ReconcileError) {
        const CONFLICT: u16 = 409;
        let ReconcileError::Api(error) = error;
        if matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != CONFLICT) {
            return;
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.unanswered.len() >= REMEMBERED {
            memory.unanswered.clear();
        }
        memory.unanswered.insert(uid.to_owned());
    }

    fn remember(&self, written: Seen) -> Arc<Seen> {
        let written = Arc::new(written);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.written.len() >= REMEMBERED {
            memory.written.clear();
        }
        memory.written.insert(written.metadata.uid.clone().unwrap_or_default(), Arc::clone(&written));
        written
    }

    /// An object that is gone is nothing to remember.
    fn forget(&self, uid: &str) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.written.remove(uid);
        memory.failures.remove(uid);
        memory.unanswered.remove(uid);
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

    /// Failures in a row.
    fn failures(&self, uid: &str) -> u32 {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.failures.get(uid).copied().unwrap_or_default()
    }

    fn rival(&self, object: &Object) -> Option<String> {
        if !self.kind.is_single() {
            return None;
        }
        let all: Vec<Object> = self.store.state().iter().map(|one| Object::of(self.kind, one)).collect();
        let counting = Object::counting(all.iter().chain([object]))?;
        (counting.uid != object.uid).then(|| counting.name.clone())
    }

    async fn pass(&self, mut seen: Arc<Seen>) -> Result<Next, ReconcileError> {
        let mut view = View::Unknown;
        let mut wanted = None;
        let mut generation = None;
        for _ in 0..ROUNDS {
            let object = Object::of(self.kind, &seen);
            if generation.replace(object.generation).is_some_and(|before| before != object.generation) {
                // Its owner has changed it meanwhile: what was said is of another spec.
                (view, wanted) = (View::Unknown, None);
            }
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
                        let written = self.set_finalizer(&seen, &object, adds).await;
                        let written = written.inspect_err(|error| self.doubt(&object.uid, error))?;
                        let Some(written) = written.filter(|_| adds || !object.is_deleted) else {
                            self.forget(&object.uid);
                            return Ok(Next::await_change());
                        };
                        seen = self.remember(written);
                        goes_on = true;
                    }
                    Action::Write(status) => {
                        let written = self.write_status(&object, &status).await;
                        let Some(written) = written.inspect_err(|error| self.doubt(&object.uid, error))?
                        else {
                            self.forget(&object.uid);
                            return Ok(Next::await_change());
                        };
                        seen = self.remember(written);
                    }
                    Action::Ask | Action::Apply | Action::Delete => {
                        view = self.call(&action, &object, &mut wanted).await?;
                        if matches!(view, View::Away(_)) && self.failures(&object.uid) < SILENT {
                            view = View::Silent;
                        }
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
        self.shared.metrics.calls.inc([self.kind.name(), name]);
        let railyard = &self.shared.railyard;
        if *action == Action::Delete {
            return Ok(railyard.delete(object, &self.tenants(object).await?).await);
        }
        // Whose a job is was said when it was handed over, whatever the namespace says by now.
        let handed = object.handed().filter(|_| self.kind == Kind::Job && *action == Action::Ask);
        if let Some(handed) = handed {
            let view = railyard.view_of_handed(&handed.tenant, object).await;
            if handed.is_taken || !matches!(view, View::Differs(_)) {
                return Ok(view);
            }
        }
        let wanted = match known.take() {
            Some(wanted) => wanted,
            None => match documents::wanted(object, &self.namespace(object).await?) {
                Ok(wanted) => wanted,
                Err(refusal) => return Ok(View::Refused(refusal)),
            },
        };
        let wanted = known.insert(wanted);
        Ok(match action {
            Action::Apply => railyard.apply(wanted, &object.uid).await,
            _ => railyard.view(wanted).await,
        })
    }

    /// Whose a job is that is to be cancelled: what was written when it was handed over; else all that it can be.
    async fn tenants(&self, object: &Object) -> Result<BTreeSet<String>, ReconcileError> {
        let of_job = object.status.as_ref().and_then(|status| status.job.as_ref()).map(|job| &job.tenant);
        let known = object.handed().map(|handed| &handed.tenant).or(of_job).filter(|one| !one.is_empty());
        Ok(match known {
            Some(tenant) => [tenant.clone()].into(),
            None => documents::tenants(object, &self.namespace(object).await?),
        })
    }

    /// What the object's namespace says of tenants.
    async fn namespace(&self, object: &Object) -> Result<Namespace, ReconcileError> {
        if !self.kind.is_namespaced() {
            return Ok(Namespace::default());
        }
        let begun = Instant::now();
        let known = {
            let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
            namespaces.get(&object.namespace, begun)
        };
        if let Some(namespace) = known {
            return Ok(namespace);
        }
        let namespaces = Api::<NamespaceObject>::all(self.shared.client.clone());
        let found = namespaces.get_opt(&object.namespace).await?.unwrap_or_default().metadata;
        let namespace =
            Namespace::of(&found.labels.unwrap_or_default(), &found.annotations.unwrap_or_default());
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(&object.namespace, namespace.clone(), begun);
        Ok(namespace)
    }

    fn objects(&self, object: &Object) -> Api<Seen> {
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
        seen: &Seen,
        object: &Object,
        adds: bool,
    ) -> Result<Option<Seen>, ReconcileError> {
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

    async fn write_status(&self, object: &Object, status: &Status) -> Result<Option<Seen>, ReconcileError> {
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
fn found(written: Result<Seen, kube::Error>) -> Result<Option<Seen>, ReconcileError> {
    match written {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
