//! Holds the lease: asks for it, keeps it, and says whether it is held. What is done meanwhile ends as soon as it is not.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::discovery::ApiResource,
};
use proto_model::Timestamp;
use serde_json::Value as Json;
use tokio::{sync::watch, time::timeout};

use crate::lease::{self, Choice, EVERY, STOPS, Watched};

/// Name of the lease.
const NAME: &str = "rail-operator";
/// How long one call about it may take.
const CALL: Duration = Duration::from_secs(3);

/// One of several operators.
pub struct Candidate {
    leases: Api<DynamicObject>,
    namespace: String,
    me: String,
    watched: Watched,
    /// When it was renewed last, by this process's own clock, taken before the call.
    renewed: Option<Instant>,
}

impl Candidate {
    /// With this name, for the lease in this namespace.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str, me: String) -> Self {
        let resource = ApiResource {
            group: "coordination.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            plural: "leases".to_owned(),
        };
        let leases = Api::namespaced_with(client, namespace, &resource);
        Self { leases, namespace: namespace.to_owned(), me, watched: Watched::default(), renewed: None }
    }

    /// Asks for it and keeps it, for ever; `leads` says whether it is held.
    pub async fn run(&mut self, leads: &watch::Sender<bool>) {
        let mut failures = 0_u32;
        loop {
            let begun = Instant::now();
            match timeout(CALL, self.step(begun)).await {
                Ok(Ok(held)) => {
                    failures = 0;
                    if !held {
                        self.renewed = None;
                    }
                }
                Ok(Err(error)) => {
                    failures = failures.saturating_add(1);
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "the lease cannot be read or written");
                    }
                }
                Err(_) => failures = failures.saturating_add(1),
            }
            let held = self.renewed.is_some_and(|renewed| renewed.elapsed() < STOPS);
            leads.send_if_modified(|before| std::mem::replace(before, held) != held);
            tokio::time::sleep(EVERY.saturating_sub(begun.elapsed()).max(Duration::from_millis(500))).await;
        }
    }

    async fn step(&mut self, now: Instant) -> Result<bool, kube::Error> {
        let there = self.leases.get_opt(NAME).await?;
        let json = there.as_ref().and_then(|lease| serde_json::to_value(lease).ok());
        let choice = self.watched.choose(json.as_ref(), &self.me, now);
        if choice == Choice::Stand {
            return Ok(false);
        }
        match self.write(json.as_ref(), &self.me).await {
            Ok(()) => {
                if choice != Choice::Renew {
                    tracing::info!(me = self.me, "this operator acts now");
                }
                self.renewed = Some(now);
                Ok(true)
            }
            // Another one was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, old: Option<&Json>, me: &str) -> Result<(), kube::Error> {
        let lease = lease::write(old, NAME, &self.namespace, me, &micro_now());
        let lease: DynamicObject = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
        let parameters = PostParams::default();
        match old {
            None => self.leases.create(&parameters, &lease).await.map(|_| ()),
            Some(_) => self.leases.replace(NAME, &parameters, &lease).await.map(|_| ()),
        }
    }

    /// Gives it away, so that another one begins at once; nothing is lost if that fails.
    pub async fn give_away(&self) {
        if self.renewed.is_none() {
            return;
        }
        let given = timeout(CALL, async {
            let there = self.leases.get_opt(NAME).await?;
            let json = there.as_ref().and_then(|lease| serde_json::to_value(lease).ok());
            match json {
                Some(lease) if lease["spec"]["holderIdentity"] == self.me.as_str() => {
                    self.write(Some(&lease), "").await
                }
                _ => Ok(()),
            }
        });
        if let Ok(Err(error)) = given.await {
            tracing::info!(%error, "the lease is not given away; it ends by itself");
        }
    }
}

/// Now, as conditions hold it.
#[must_use]
pub fn now() -> String {
    timestamp().0.utc()
}

fn micro_now() -> String {
    let (time, micros) = timestamp();
    format!("{}.{micros:06}Z", time.utc().trim_end_matches('Z'))
}

fn timestamp() -> (Timestamp, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)), since.subsec_micros())
}
