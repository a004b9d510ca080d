//! What one tenant is shown when another tenant's job is in its way: on the stage, where a job of tenant alpha takes the place of one of
//! tenant beta, and another one waits behind it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    call::{self, must},
    nodes::{HONEST, Stage},
    people::Person,
};
use crate::{
    verdict::{Verdict, held_if},
    world::{JOB, Part, World},
};

/// Where the other's name could be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Status,
    Explained,
    History,
    Watched,
    StopReason,
    Waiting,
    WaitingPlan,
    Audit,
}

/// What was shown at each of these places.
pub struct Captured(Vec<(Name, String)>);

impl Captured {
    /// Lets a job of alpha take the place of one of beta, and records what beta can read of it.
    ///
    /// # Errors
    /// The stage cannot be had, or the controller refuses a tenant, a user or a job.
    pub async fn start(world: &World) -> Result<Self, String> {
        let stage: &Stage = world.part(Part::Stage, Stage::start).await?;
        let admin = &stage.admin.client;
        for name in ["alpha", "beta"] {
            let tenant = json!({"metadata": {"name": name}, "spec": {"quota": {"gpus": 8}}});
            must(admin, "rail.v1.TenantService/ApplyTenant", json!({"tenant": tenant})).await?;
        }
        let ann = stage.place.user(admin, "alpha", "ann-of-alpha", "USER").await?;
        let bert = stage.place.user(admin, "beta", "bert", "TENANT_ADMIN").await?;
        submit(stage, &bert, "yields", -10).await?;
        until(&bert, "yields", &["RUNNING"]).await?;
        submit(stage, &ann, JOB, 100).await?;
        until(&ann, JOB, &["RUNNING"]).await?;
        submit(stage, &bert, "waits", 0).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let ask = |rpc: &'static str, body: Value| {
            let client = bert.client.clone();
            async move { call::call(&client, rpc, &body).await.map(|answer| answer.text()) }
        };
        let explain = "rail.v1.JobService/ExplainJob";
        let plan = json!({"job": job(stage, "plan", 0)});
        let now = crate::world::time_from_now(0);
        let reported = vec![
            (Name::Status, ask("rail.v1.JobService/GetJob", json!({"name": "yields"})).await?),
            (Name::Explained, ask(explain, json!({"name": "yields"})).await?),
            (Name::History, ask(explain, json!({"name": "yields", "at": now})).await?),
            (Name::Watched, ask("rail.v1.JobService/WatchJobs", json!({"afterRevision": "0"})).await?),
            (Name::StopReason, stage.stop_reasons()),
            (Name::Waiting, ask(explain, json!({"name": "waits"})).await?),
            (Name::WaitingPlan, ask("rail.v1.JobService/PlanJob", plan).await?),
            (Name::Audit, ask("rail.v1.AuditService/ListAuditRecords", json!({})).await?),
        ];
        for (who, name) in [(&ann, JOB), (&bert, "yields"), (&bert, "waits")] {
            let body = json!({"name": name, "gracePeriod": "0s"});
            let _ = call::call(&who.client, "rail.v1.JobService/CancelJob", &body).await;
        }
        Ok(Self(reported))
    }
}

fn job(stage: &Stage, name: &str, priority: i32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "command": {"argv": ["/bin/true"]},
            "placement": {"exclude": stage.all_but(&[HONEST])}, "priority": priority, "gracePeriod": "1s", "rails": {"none": true},
        },
    })
}

async fn submit(stage: &Stage, by: &Person, name: &str, priority: i32) -> Result<(), String> {
    let body = json!({"job": job(stage, name, priority), "requestId": uuid::Uuid::new_v4().to_string()});
    must(&by.client, "rail.v1.JobService/CreateJob", body).await.map(drop)
}

async fn until(by: &Person, name: &str, phases: &[&str]) -> Result<(), String> {
    super::probes::until(by, name, phases, Duration::from_secs(10)).await.map(drop)
}

/// Whether one place shows the other's name.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, name: Name) -> Result<Verdict, String> {
    let reported: &Captured = world.part(Part::Names, || Captured::start(world)).await?;
    let text = reported
        .0
        .iter()
        .find(|(place, _)| *place == name)
        .map(|(_, text)| text.as_str())
        .unwrap_or_default();
    if text.is_empty() {
        return Err("nothing was told at all".to_owned());
    }
    let secret = [JOB, "ann-of-alpha", "alpha/"].into_iter().find(|secret| text.contains(secret));
    Ok(held_if(secret.is_none(), || {
        let at = secret.and_then(|secret| text.find(secret)).unwrap_or(0);
        let from = (0..=at.saturating_sub(120)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        format!("told {secret:?}: {}", text[from..].chars().take(240).collect::<String>())
    }))
}
