//! Where attempts are made: a local cluster of real processes with two tenants, of which one has something to hide.

use std::{any::Any, collections::BTreeMap};

use integration_harness::{Access, Cluster, Shape};
use proto_rpc::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    caller::From,
    exec::{
        call::{Answer, must},
        people::{Person, Target},
    },
};

/// What tenant alpha hides; it must be found nowhere else.
pub const SECRETS: [&str; 6] =
    ["kestrel-9f31", "merger-2027", "ann-of-alpha", "alpha-q-blue", "alpha-keep-77", "alpha-dead-drop"];
/// The value in the environment of alpha's job.
pub const SECRET: &str = SECRETS[0];
/// Alpha's job that runs.
pub const JOB: &str = SECRETS[1];

/// What a job excludes to be on the server where the tenant with the secrets is.
pub const BESIDE_ALPHA: [&str; 3] = ["n1", "n2", "n3"];

/// A job of another user of tenant beta, which waits.
pub const NEIGHBOR: &str = "of-umar";

/// What several attempts share, and what is started with the first of them.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Ranks of both tenants side by side.
    Scene,
    /// A collective with strangers at its ports.
    Rails,
    /// A controller whose nodes are all made up.
    Stage,
    /// What a tenant is shown of another one that is in its way.
    Names,
    /// A controller for what is done to its port.
    Gate,
    /// One with room for few connections.
    SmallGate,
    /// One for credentials that come and go.
    Lone,
    /// One that keeps few audit records.
    Audited,
    /// A tenant that was deleted and made again.
    Reborn,
}

impl Part {
    const ALL: usize = Self::Reborn as usize + 1;
}

/// A part, of the type that its executor knows.
type Shared = Box<dyn Any + Send + Sync>;

/// A running cluster and everybody in it.
pub struct World {
    /// The cluster, whose processes end with it.
    pub cluster: Cluster,
    /// How it is reached.
    pub place: Target,
    /// The administrator of the cluster.
    pub admin: Person,
    /// Alpha's user, to whom the secrets belong.
    pub ann: Person,
    people: BTreeMap<From, Person>,
    vars: BTreeMap<&'static str, String>,
    parts: [OnceCell<Result<Shared, String>>; Part::ALL],
}

impl World {
    /// Starts the cluster and furnishes it.
    ///
    /// # Errors
    /// What could not be done; nothing was tried then.
    pub async fn start() -> Result<Self, String> {
        let shape = Shape { nodes: 4, rails: 4, gpus: 8, safe_ranks: true, ..Shape::default() };
        let cluster = tokio::task::spawn_blocking(move || Cluster::up(&shape)).await;
        let cluster = cluster.map_err(|error| error.to_string())??;
        let access = Access::of(&cluster)?;
        let ca = std::fs::read_to_string(&access.ca).map_err(|error| error.to_string())?;
        let endpoint = access.rest()?.parse().map_err(|error| format!("{error}"))?;
        let place = Target { endpoint, ca };
        let admin = place.of_files(&access.certificate.with_extension(""), "admin/admin")?;
        let ann = furnish(&place, &admin.client).await?;
        let mut people = BTreeMap::from([(From::Anonymous, place.nobody()?)]);
        for (from, user, role) in [
            (From::Viewer, "vera", "VIEWER"),
            (From::User, "ulf", "USER"),
            (From::TenantAdmin, "tara", "TENANT_ADMIN"),
        ] {
            people.insert(from, place.user(&admin.client, "beta", user, role).await?);
        }
        neighbor(&place, &admin.client).await?;
        people.insert(From::Node, place.node(&admin.client, "n9").await?);
        let mut world = Self {
            cluster,
            place,
            admin,
            ann,
            people,
            vars: BTreeMap::new(),
            parts: std::array::from_fn(|_| OnceCell::new()),
        };
        let csr = proto_rpc::KeyRequest::generate().map_err(|error| error.to_string())?.csr_pem;
        world.vars.insert("$CSR", csr.replace('\n', "\\n"));
        world.seed().await?;
        Ok(world)
    }

    /// A part that attempts share; the first of them starts it.
    ///
    /// # Errors
    /// Why it did not start, to each of them.
    pub async fn part<T, F>(&self, part: Part, start: impl FnOnce() -> F) -> Result<&T, String>
    where
        T: Any + Send + Sync,
        F: Future<Output = Result<T, String>>,
    {
        let boxed = || async { start().await.map(|made| Box::new(made) as Shared) };
        let made = self.parts[part as usize].get_or_init(boxed).await.as_ref().map_err(Clone::clone)?;
        made.downcast_ref().ok_or_else(|| format!("{part:?} was started as something else"))
    }

    /// Who an attempt is made by.
    pub fn person(&self, from: From) -> &Person {
        self.people.get(&from).unwrap_or(&self.people[&From::Anonymous])
    }

    /// Replaces every `$NAME` of a variable in a text by its value.
    pub fn filled(&self, text: &str) -> String {
        self.vars.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The same in all strings of a message.
    pub fn body(&self, body: &Value) -> Value {
        serde_json::from_str(&self.filled(&body.to_string())).unwrap_or_default()
    }

    /// What of alpha is in a text that the attempt did not itself say.
    pub fn reported(&self, text: &str, said: &str) -> Option<&'static str> {
        SECRETS.into_iter().find(|secret| text.contains(secret) && !said.contains(secret))
    }

    /// As `reported`, of an answer.
    pub fn leaks(&self, answer: &Answer, said: &str) -> Option<&'static str> {
        self.reported(&answer.text(), said)
    }

    /// What alpha has, and that its owner can read it: else nothing would be proved by others who cannot.
    async fn seed(&mut self) -> Result<(), String> {
        let job = json!({
            "metadata": {"name": JOB},
            "spec": {
                "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "timeLimit": "900s",
                "placement": {"exclude": BESIDE_ALPHA}, "rails": {"none": true},
                "command": {"argv": ["/bin/sh", "-c", "echo log of kestrel-9f31; exec sleep 600"],
                            "env": {"TOKEN_OF_ALPHA": SECRET}},
            },
        });
        let request = json!({"job": job, "requestId": "alpha-dead-drop"});
        let made = must(&self.ann.client, "rail.v1.JobService/CreateJob", request).await?;
        let uid = made["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.vars.insert("$ALPHA_UID", uid);
        for _ in 0..600 {
            let job = must(&self.ann.client, "rail.v1.JobService/GetJob", json!({"name": JOB})).await?;
            if job["status"]["phase"] == "RUNNING" {
                let seen = job.to_string().contains(SECRET);
                return if seen { Ok(()) } else { Err(format!("its owner does not see the secret: {job}")) };
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        Err("alpha's job does not run".to_owned())
    }
}

/// A job of somebody else in the tenant of those who try.
async fn neighbor(place: &Target, admin: &Client) -> Result<(), String> {
    let umar = place.user(admin, "beta", "umar", "USER").await?;
    let job = json!({
        "metadata": {"name": NEIGHBOR},
        "spec": {
            "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "rails": {"none": true},
            "beginTime": time_from_now(86_400),
            "command": {"argv": ["/bin/true"]},
        },
    });
    must(&umar.client, "rail.v1.JobService/CreateJob", json!({"job": job})).await.map(drop)
}

async fn furnish(place: &Target, admin: &Client) -> Result<Person, String> {
    for name in ["alpha", "beta"] {
        let tenant = json!({"metadata": {"name": name}, "spec": {"quota": {"gpus": 8}}});
        must(admin, "rail.v1.TenantService/ApplyTenant", json!({"tenant": tenant})).await?;
    }
    let queue = json!({"metadata": {"name": "alpha-q-blue", "tenant": "alpha"}, "spec": {"weight": 3}});
    must(admin, "rail.v1.QueueService/ApplyQueue", json!({"queue": queue})).await?;
    let secret =
        json!({"metadata": {"name": "alpha-keep-77", "tenant": "alpha"}, "data": {"TOKEN_OF_ALPHA": SECRET}});
    must(admin, "rail.v1.SecretService/ApplySecret", json!({"secret": secret})).await?;
    let schedule = json!({
        "metadata": {"name": "alpha-nightly", "tenant": "alpha"},
        "spec": {"cron": "@yearly", "jobTemplate": {"spec": {
            "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1},
            "command": {"argv": ["/bin/true"], "env": {"TOKEN_OF_ALPHA": SECRET}},
        }}},
    });
    must(admin, "rail.v1.ScheduleService/ApplySchedule", json!({"schedule": schedule})).await?;
    let start = time_from_now(7200);
    let reservation = json!({
        "metadata": {"name": "alpha-keep-77"},
        "spec": {"count": 1, "start": start, "duration": "600s", "tenants": ["alpha"], "reason": "alpha-dead-drop"},
    });
    must(admin, "rail.v1.ReservationService/ApplyReservation", json!({"reservation": reservation})).await?;
    place.user(admin, "alpha", "ann-of-alpha", "TENANT_ADMIN").await
}

/// So many seconds from now, as canonical JSON writes it.
pub fn time_from_now(seconds: u64) -> String {
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(seconds);
    prost_types::Timestamp::from(now).to_string()
}
