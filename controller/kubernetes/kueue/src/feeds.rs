//! What Kubernetes and Railyard tell, as it comes: lists and changes become the world, and name the workloads that are to be looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Resource,
    api::DynamicObject,
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use proto_rpc::{Jitter, RetryPolicy};
use proto_wire::v1::job_event;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;

use crate::{
    hold::Hold,
    kubernetes::{is_active, is_ours, ours},
    names::{HoldKey, TENANT},
    nodes::KubeNode,
    railyard::{RailError, Railyard},
    work::Work,
    worker::{Shared, now},
    workload::Workload,
};

/// Objects of one kind, as they come.
pub(crate) trait Feed<K>: Send {
    /// All of them come anew.
    fn begin(&mut self);

    /// One of them, of the list that has begun.
    fn listed(&mut self, object: K);

    /// The list is complete.
    fn complete(&mut self, shared: &Shared, work: &Work);

    /// One has changed, or is new.
    fn changed(&mut self, object: K, shared: &Shared, work: &Work);

    /// One is gone.
    fn gone(&mut self, object: K, shared: &Shared, work: &Work);
}

/// Takes in what the API server tells, for ever; a watch that breaks begins anew after a pause that grows.
pub(crate) async fn keep<K>(mut feed: impl Feed<K>, api: Api<K>, shared: Shared, work: Work)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = api.resource_url().to_owned();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    tokio::pin!(events);
    let mut failures = 0_u32;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                failures = 0;
                match event {
                    Event::Init => feed.begin(),
                    Event::InitApply(object) => feed.listed(object),
                    Event::InitDone => feed.complete(&shared, &work),
                    Event::Apply(object) => feed.changed(object, &shared, &work),
                    Event::Delete(object) => feed.gone(object, &shared, &work),
                }
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(kind, %error, failures, "objects of Kubernetes cannot be watched; trying again");
                }
            }
        }
    }
}

/// Workloads.
#[derive(Default)]
pub(crate) struct Workloads {
    listed: BTreeMap<String, Arc<Workload>>,
}

/// The object as a Workload; none where it is none, which is said.
fn workload(object: DynamicObject) -> Option<Arc<Workload>> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let read = serde_json::to_value(object).and_then(Workload::read);
    read.inspect_err(|error| tracing::warn!(name, %error, "a Workload cannot be read")).ok().map(Arc::new)
}

impl Feed<DynamicObject> for Workloads {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self, object: DynamicObject) {
        if let Some(workload) = workload(object) {
            self.listed.insert(workload.metadata.uid.clone(), workload);
        }
    }

    fn complete(&mut self, shared: &Shared, work: &Work) {
        let all = {
            let mut world = shared.world();
            let before = world.all();
            world.replace_workloads(std::mem::take(&mut self.listed));
            before.into_iter().chain(world.all()).collect::<BTreeSet<_>>()
        };
        work.add(all);
    }

    fn changed(&mut self, object: DynamicObject, shared: &Shared, work: &Work) {
        if let Some(workload) = workload(object) {
            let uid = workload.metadata.uid.clone();
            shared.world().put_workload(workload);
            work.add([uid]);
        }
    }

    fn gone(&mut self, object: DynamicObject, shared: &Shared, work: &Work) {
        let uid = object.metadata.uid.unwrap_or_default();
        shared.world().remove_workload(&uid);
        work.add([uid]);
    }
}

/// AdmissionChecks.
pub(crate) struct Checks {
    all: BTreeMap<String, DynamicObject>,
    /// Those that are ours, and do not say yet that somebody looks after them.
    inactive: watch::Sender<Vec<DynamicObject>>,
}

impl Checks {
    /// None yet. What is to be said of them goes to [`activate`].
    pub(crate) fn new(inactive: watch::Sender<Vec<DynamicObject>>) -> Self {
        Self { all: BTreeMap::new(), inactive }
    }

    fn put(&mut self, object: DynamicObject) {
        self.all.insert(object.metadata.name.clone().unwrap_or_default(), object);
    }

    fn apply(&self, shared: &Shared, work: &Work) {
        let all = {
            let mut world = shared.world();
            if world.set_checks(ours(self.all.values())) { world.all() } else { BTreeSet::new() }
        };
        work.add(all);
        let inactive =
            self.all.values().filter(|check| is_ours(check) && !is_active(check)).cloned().collect();
        self.inactive.send_replace(inactive);
    }
}

/// Says of admission checks that somebody looks after them, until that is written; for ever.
pub(crate) async fn activate(
    shared: Shared,
    mut inactive: watch::Receiver<Vec<DynamicObject>>,
    policy: RetryPolicy,
) {
    let (mut jitter, mut failures) = (Jitter::from_os(), 0_u32);
    loop {
        let checks = inactive.borrow_and_update().clone();
        let mut failed = None;
        for check in &checks {
            if let Err(error) = shared.kubernetes.activate(check, &crate::check::time(now())).await {
                failed = Some(error);
            }
        }
        if let Some(error) = failed {
            failures = failures.saturating_add(1);
            if failures.is_power_of_two() {
                tracing::warn!(%error, failures, "an admission check is not active, so that its queues admit nothing; trying again");
            }
            let ceiling = policy.backoff_ceiling(failures);
            tokio::time::sleep(ceiling / 2 + jitter.up_to(ceiling / 2)).await;
        } else {
            failures = 0;
            if inactive.changed().await.is_err() {
                // The program is ending.
                return;
            }
        }
    }
}

impl Feed<DynamicObject> for Checks {
    fn begin(&mut self) {
        self.all.clear();
    }

    fn listed(&mut self, object: DynamicObject) {
        self.put(object);
    }

    fn complete(&mut self, shared: &Shared, work: &Work) {
        self.apply(shared, work);
    }

    fn changed(&mut self, object: DynamicObject, shared: &Shared, work: &Work) {
        self.put(object);
        self.apply(shared, work);
    }

    fn gone(&mut self, object: DynamicObject, shared: &Shared, work: &Work) {
        self.all.remove(&object.metadata.name.unwrap_or_default());
        self.apply(shared, work);
    }
}

/// Tenants that namespaces name.
#[derive(Default)]
pub(crate) struct Namespaces {
    listed: BTreeMap<String, Option<String>>,
}

/// Name of a namespace, and the tenant that it names.
fn namespace(object: Namespace) -> (String, Option<String>) {
    let tenant = object.metadata.labels.unwrap_or_default().remove(TENANT);
    (object.metadata.name.unwrap_or_default(), tenant)
}

impl Feed<Namespace> for Namespaces {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self, object: Namespace) {
        let (name, tenant) = namespace(object);
        self.listed.insert(name, tenant);
    }

    fn complete(&mut self, shared: &Shared, work: &Work) {
        let all = {
            let mut world = shared.world();
            world.replace_namespaces(std::mem::take(&mut self.listed));
            world.all()
        };
        work.add(all);
    }

    fn changed(&mut self, object: Namespace, shared: &Shared, work: &Work) {
        // Its workloads may have come before it. What pods run on stays its first tenant's, who is named by the hold.
        let (name, tenant) = namespace(object);
        let of = shared.world().put_namespace(&name, tenant);
        work.add(of);
    }

    fn gone(&mut self, object: Namespace, shared: &Shared, _work: &Work) {
        shared.world().remove_namespace(&object.metadata.name.unwrap_or_default());
    }
}

/// Nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    listed: Vec<Node>,
}

impl Feed<Node> for Nodes {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self, object: Node) {
        self.listed.push(object);
    }

    fn complete(&mut self, shared: &Shared, work: &Work) {
        let label = &shared.settings.flavor_label;
        let nodes = self.listed.drain(..).filter_map(|node| KubeNode::of(&node, label)).collect();
        let all = {
            let mut world = shared.world();
            let before = world.all();
            world.replace_nodes(nodes);
            before.into_iter().chain(world.all()).collect::<BTreeSet<_>>()
        };
        work.add(all);
    }

    fn changed(&mut self, object: Node, shared: &Shared, work: &Work) {
        if let Some(node) = KubeNode::of(&object, &shared.settings.flavor_label) {
            let changed = shared.world().put_node(node);
            work.add(changed);
        }
    }

    fn gone(&mut self, object: Node, shared: &Shared, _work: &Work) {
        shared.world().remove_node(&object.metadata.name.unwrap_or_default());
    }
}

/// Takes in what Railyard tells of holds, for ever.
pub(crate) async fn holds(shared: Shared, work: Work, policy: RetryPolicy) {
    let (mut jitter, mut failures) = (Jitter::from_os(), 0_u32);
    loop {
        let ended = follow(&shared, &work, &mut failures).await;
        failures = failures.saturating_add(1);
        let (is_new, all) = {
            let mut world = shared.world();
            (world.away(now()), world.all())
        };
        if is_new {
            // What follows from that is decided for each, and again once it has lasted.
            work.add(all);
        }
        if let Err(error) = ended
            && failures.is_power_of_two()
        {
            tracing::warn!(%error, failures, "what Railyard holds cannot be watched; trying again");
        }
        let ceiling = policy.backoff_ceiling(failures);
        tokio::time::sleep(ceiling / 2 + jitter.up_to(ceiling / 2)).await;
    }
}

async fn follow(shared: &Shared, work: &Work, failures: &mut u32) -> Result<(), RailError> {
    let prefix = &shared.settings.policy.prefix;
    // Of all tenants that the credentials see: namespaces name theirs.
    let mut stream = shared.railyard.watch("").await?;
    let mut listed = Some(Vec::new());
    while let Some(event) = Railyard::next(&mut stream).await? {
        let kind = event.r#type();
        if kind == job_event::Type::Synced {
            let Some(holds) = listed.take() else { continue };
            *failures = 0;
            let all = {
                let mut world = shared.world();
                let before = world.all();
                world.replace_holds(holds, event.revision);
                if world.answers() {
                    tracing::info!("Railyard says again what it holds");
                }
                before.into_iter().chain(world.all()).collect::<BTreeSet<_>>()
            };
            work.add(all);
            continue;
        }
        let Some(job) = event.job else { continue };
        if kind == job_event::Type::Delete {
            let metadata = job.metadata.unwrap_or_default();
            let Some(key) = HoldKey::of(prefix, &metadata.name) else { continue };
            if let Some(listed) = &mut listed {
                listed.retain(|hold: &Hold| hold.key != key || hold.tenant != metadata.tenant);
            }
            shared.world().remove_hold(&key, &metadata.tenant);
            work.add([key.uid]);
            continue;
        }
        let Some(hold) = Hold::of(prefix, &job, now()) else { continue };
        if let Some(listed) = &mut listed {
            listed.push(hold);
            continue;
        }
        let uid = hold.key.uid.clone();
        shared.world().put_hold(hold);
        work.add([uid]);
    }
    Ok(())
}
