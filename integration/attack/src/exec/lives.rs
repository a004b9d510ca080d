//! Credentials, tenants and nodes that come and go, on controllers of their own.

use std::time::{Duration, Instant};

use integration_harness::Controllers;
use proto_rpc::{Client, KeyRequest};
use serde_json::{Value, json};

use super::{
    call::{self, Answer, must},
    nodes::{Agent, stand_in},
    people::{Person, Target},
};
use crate::{
    verdict::{Verdict, gave, held_if},
    world::{Part, World},
};

/// What comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    OldCertificateReads,
    OldCertificateIssues,
    OldCertificateDuring,
    OldTokenReads,
    OldWatchGoesOn,
    OldAudit,
    HistoryByWatch,
    HistoryByPage,
    HistoryByRequestId,
    OldQueues,
    NameAgainAtOnce,
    JoinTokenSpent,
    JoinTokenOfOther,
    JoinTokenAfterDelete,
    JoinTokenExpired,
    JoinTokenMadeUp,
    JoinByUserToken,
    RevokedCertificate,
    RevokedCertificateAudited,
    RevokedToken,
    RevokedWatch,
    RevokedNode,
    WrongBearerBesideCertificate,
    BearerBesideNode,
    AuditErased,
    AuditErasedByTenant,
    AuditBounded,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What the first owner of a tenant leaves behind.
const OLD: &str = "osprey-of-old";
/// What the second one has.
const NEW: &str = "merlin-of-new";

const ISSUE_TOKEN: &str = "rail.v1.TenantService/IssueToken";
const GET_JOB: &str = "rail.v1.JobService/GetJob";
const LIST_JOBS: &str = "rail.v1.JobService/ListJobs";
const WATCH_JOBS: &str = "rail.v1.JobService/WatchJobs";
const WHO: &str = "rail.v1.TenantService/WhoAmI";

/// A controller with a node that is made up.
pub struct Lone {
    // Killed when dropped.
    _controllers: Controllers,
    place: Target,
    admin: Person,
    // Leaves when dropped.
    _node: Agent,
}

impl Lone {
    /// Starts one with a node that follows its desired state.
    ///
    /// # Errors
    /// The controller does not start, or refuses what the attempts need.
    pub async fn start(args: Vec<&'static str>) -> Result<Self, String> {
        let controllers = tokio::task::spawn_blocking(move || Controllers::start(1, &args));
        let controllers = controllers.await.map_err(text)??;
        let folder = controllers.folder(0);
        let ca = std::fs::read_to_string(folder.join("ca.pem")).map_err(text)?;
        let place = Target { endpoint: controllers.addresses().parse().map_err(text)?, ca };
        let admin = place.of_files(&folder.join("admin"), "admin/admin")?;
        let node = stand_in(&place, &admin.client).await?;
        Ok(Self { _controllers: controllers, place, admin, _node: node })
    }

    fn client(&self) -> &Client {
        &self.admin.client
    }

    async fn tenant(&self, name: &str) -> Result<(), String> {
        let tenant = json!({"metadata": {"name": name}, "spec": {"quota": {"gpus": 4}}});
        self.apply(json!({"tenant": tenant})).await
    }

    /// Makes a tenant; what is left of one of that name that was just deleted is waited for.
    async fn apply(&self, body: Value) -> Result<(), String> {
        for _ in 0..100 {
            let answer = call::call(self.client(), "rail.v1.TenantService/ApplyTenant", &body).await?;
            match answer.reason() {
                "" => return Ok(()),
                "TENANT_BUSY" => tokio::time::sleep(Duration::from_millis(50)).await,
                _ => return Err(answer.words()),
            }
        }
        Err("the tenant of that name is still being deleted after 5 s".to_owned())
    }

    /// Gives the name of a deleted tenant away although it rests, as an administrator may who means it.
    async fn again(&self, name: &str) -> Result<(), String> {
        let tenant = json!({"metadata": {"name": name}, "spec": {"quota": {"gpus": 4}}});
        let body = json!({"tenant": tenant, "reuseName": true});
        self.apply(body).await
    }

    /// Ends a job and waits for it.
    async fn ended(&self, tenant: &str, name: &str) -> Result<(), String> {
        let named = json!({"name": name, "tenant": tenant});
        must(self.client(), "rail.v1.JobService/CancelJob", named.clone()).await?;
        for _ in 0..200 {
            let job = must(self.client(), GET_JOB, named.clone()).await?;
            if job["status"]["phase"] == "CANCELLED" || job["status"]["phase"] == "COMPLETED" {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Err(format!("job {name} does not end"))
    }

    async fn job(&self, tenant: &str, name: &str, secret: &str, request: &str) -> Result<Value, String> {
        let job = json!({
            "metadata": {"name": name},
            "spec": {"gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "rails": {"none": true},
                     "command": {"argv": ["/bin/true"], "env": {"TOKEN": secret}}},
        });
        let body = json!({"job": job, "requestId": request, "onBehalfOf": tenant});
        must(self.client(), "rail.v1.JobService/CreateJob", body).await
    }
}

/// A tenant that was deleted and made again, and those who had credentials of the first one.
pub struct Reborn {
    // Killed when dropped.
    _lone: Lone,
    /// The first one's administrator.
    old: Person,
    /// The first one's token.
    old_token: Person,
    /// The administrator of the second one.
    new: Person,
    new_viewer: Person,
    /// What the first one's watch got after the end of its tenant.
    watched: String,
    /// What its certificate was answered while there was no tenant.
    during: Answer,
    /// The store's revision while the first one lived.
    revision: u64,
    /// Why the name could not be had again at once, where that is so.
    quarantined: Option<String>,
}

impl Reborn {
    /// Lets a tenant live, be deleted, and another one take its name.
    ///
    /// # Errors
    /// The controller does not start, or refuses a step of either life.
    pub async fn start() -> Result<Self, String> {
        let lone = Lone::start(vec!["--log-level", "warn"]).await?;
        let name = "phoenix";
        lone.tenant(name).await?;
        let old = lone.place.user(lone.client(), name, "olga", "TENANT_ADMIN").await?;
        let old_token = lone.place.token(lone.client(), name, "otto", "TENANT_ADMIN").await?;
        let queue = json!({"metadata": {"name": OLD, "tenant": name}, "spec": {"weight": 1}});
        must(lone.client(), "rail.v1.QueueService/ApplyQueue", json!({"queue": queue})).await?;
        lone.job(name, OLD, OLD, "phoenix-1").await?;
        let listed = must(&old.client, LIST_JOBS, json!({})).await?;
        let revision = listed["revision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let watch = tokio::spawn({
            let client = old.client.clone();
            async move { watch_long(&client).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        lone.ended(name, OLD).await?;
        must(lone.client(), "rail.v1.JobService/DeleteJob", json!({"name": OLD, "tenant": name})).await?;
        let _ = call::call(
            lone.client(),
            "rail.v1.QueueService/DeleteQueue",
            &json!({"name": OLD, "tenant": name}),
        )
        .await;
        must(lone.client(), "rail.v1.TenantService/DeleteTenant", json!({"name": name})).await?;
        let during = call::call(&old.client, LIST_JOBS, &json!({})).await?;
        let quarantined = lone.tenant(name).await.err();
        if quarantined.is_some() {
            lone.again(name).await?;
        }
        let new = lone.place.user(lone.client(), name, "nina", "TENANT_ADMIN").await?;
        let new_viewer = lone.place.user(lone.client(), name, "nora", "VIEWER").await?;
        lone.job(name, NEW, NEW, "phoenix-2").await?;
        let owner = must(&new.client, GET_JOB, json!({"name": NEW})).await?;
        if !owner.to_string().contains(NEW) {
            return Err("the new owner does not see its own job".to_owned());
        }
        let watched = watch.await.map_err(text)?;
        Ok(Self { _lone: lone, old, old_token, new, new_viewer, watched, during, revision, quarantined })
    }
}

/// All that a watch delivers for some seconds.
async fn watch_long(client: &Client) -> String {
    let mut reported = String::new();
    let begin = Instant::now();
    let mut jobs = proto_wire::v1::job_service_client::JobServiceClient::new(client.without_timeout());
    let Ok(watch) = jobs.watch_jobs(proto_wire::v1::WatchJobsRequest::default()).await else {
        return reported;
    };
    let mut events = watch.into_inner();
    while begin.elapsed() < Duration::from_secs(6) {
        match tokio::time::timeout(Duration::from_secs(3), events.message()).await {
            Ok(Ok(Some(event))) => reported.push_str(&format!("{event:?}\n")),
            Ok(_) => return reported,
            Err(_) => {}
        }
    }
    reported
}

/// Refused, with nothing of either life in the answer.
fn shut(answer: &Answer) -> Verdict {
    let reported = answer.text();
    held_if(answer.error.is_some() && !reported.contains(NEW) && !reported.contains(OLD), || answer.words())
}

/// Makes one attempt and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, life: Life) -> Result<Verdict, String> {
    match life {
        Life::OldCertificateReads
        | Life::OldCertificateIssues
        | Life::OldCertificateDuring
        | Life::OldTokenReads
        | Life::OldWatchGoesOn
        | Life::OldAudit
        | Life::HistoryByWatch
        | Life::HistoryByPage
        | Life::HistoryByRequestId
        | Life::OldQueues
        | Life::NameAgainAtOnce => {
            let reborn = world.part(Part::Reborn, Reborn::start).await?;
            of_a_deleted_tenant(reborn, life).await
        }
        Life::AuditErased | Life::AuditErasedByTenant | Life::AuditBounded => {
            let start = || Lone::start(vec!["--log-level", "warn", "--audit-records", "200"]);
            let lone = world.part(Part::Audited, start).await?;
            audit(lone, life).await
        }
        _ => {
            let start = || Lone::start(vec!["--log-level", "warn"]);
            let lone = world.part(Part::Lone, start).await?;
            match life {
                Life::JoinTokenSpent
                | Life::JoinTokenOfOther
                | Life::JoinTokenAfterDelete
                | Life::JoinTokenExpired
                | Life::JoinTokenMadeUp
                | Life::JoinByUserToken => joins(lone, life).await,
                _ => revoked(lone, life).await,
            }
        }
    }
}

async fn of_a_deleted_tenant(reborn: &Reborn, life: Life) -> Result<Verdict, String> {
    let named = json!({"name": NEW});
    Ok(match life {
        Life::OldCertificateReads => shut(&call::call(&reborn.old.client, GET_JOB, &named).await?),
        Life::OldCertificateIssues => {
            let body = json!({"tenant": "phoenix", "user": "mallory", "role": "VIEWER"});
            shut(&call::call(&reborn.old.client, ISSUE_TOKEN, &body).await?)
        }
        Life::OldCertificateDuring => held_if(reborn.during.error.is_some(), || reborn.during.words()),
        Life::OldTokenReads => shut(&call::call(&reborn.old_token.client, GET_JOB, &named).await?),
        Life::OldWatchGoesOn => {
            held_if(!reborn.watched.contains(NEW), || "the old watch told the new owner's job".to_owned())
        }
        Life::OldAudit => {
            let answer = call::call(
                &reborn.new.client,
                "rail.v1.AuditService/ListAuditRecords",
                &json!({"pageSize": 1000}),
            )
            .await?;
            held_if(!answer.text().contains(OLD), || {
                "the first owner's job is in the second one's audit records".to_owned()
            })
        }
        Life::HistoryByWatch => {
            let mut reported = String::new();
            for back in 0..8 {
                let after = reborn.revision.saturating_sub(back).max(1).to_string();
                let answer =
                    call::call(&reborn.new_viewer.client, WATCH_JOBS, &json!({"afterRevision": after}))
                        .await?;
                reported.push_str(&answer.text());
            }
            held_if(!reported.contains(OLD), || "a watch from before told the first owner's job".to_owned())
        }
        Life::HistoryByPage => {
            let mut reported = String::new();
            for last in ["0", "", "phoenix/", "a"] {
                for back in 0..4 {
                    let token = format!("{}.{last}", reborn.revision.saturating_sub(back));
                    let answer =
                        call::call(&reborn.new_viewer.client, LIST_JOBS, &json!({"pageToken": token}))
                            .await?;
                    reported.push_str(&answer.text());
                }
            }
            held_if(!reported.contains(OLD), || "a made-up page token told the first owner's job".to_owned())
        }
        Life::HistoryByRequestId => {
            let job = json!({"metadata": {"name": "again"}, "spec": {"gang": {"nodes": 1}, "command": {"argv": ["/bin/true"]}}});
            let body = json!({"job": job, "requestId": "phoenix-1"});
            let answer = call::call(&reborn.new.client, "rail.v1.JobService/CreateJob", &body).await?;
            held_if(!answer.text().contains(OLD), || answer.words())
        }
        Life::OldQueues => {
            let answer =
                call::call(&reborn.new_viewer.client, "rail.v1.QueueService/ListQueues", &json!({})).await?;
            held_if(!answer.text().contains(OLD), || answer.words())
        }
        _ => held_if(reborn.quarantined.is_some(), || {
            "the name of a deleted tenant was given away at once".to_owned()
        }),
    })
}

async fn joins(lone: &Lone, life: Life) -> Result<Verdict, String> {
    let join = |token: String, node: &'static str, key: KeyRequest| async move {
        let nobody = lone.place.nobody()?;
        let body = json!({"token": token, "node": node, "csrPem": key.csr_pem});
        call::call(&nobody.client, "rail.v1.EnrollService/Join", &body).await
    };
    let key = || KeyRequest::generate().map_err(text);
    let refused = |answer: Answer| held_if(answer.error.is_some(), || "joined".to_owned());
    Ok(match life {
        Life::JoinTokenSpent => {
            let token = lone.place.join_token(lone.client(), "m0").await?;
            lone.place.join(&token, "m0", &key()?).await?;
            refused(join(token, "m0", key()?).await?)
        }
        Life::JoinTokenOfOther => {
            let token = lone.place.join_token(lone.client(), "m1").await?;
            refused(join(token, "m2", key()?).await?)
        }
        Life::JoinTokenAfterDelete => {
            let token = lone.place.join_token(lone.client(), "m3").await?;
            let (first, again) = (key()?, key()?);
            let again = KeyRequest { key_pem: again.key_pem, csr_pem: first.csr_pem.clone() };
            lone.place.join(&token, "m3", &first).await?;
            must(lone.client(), "rail.v1.NodeService/DeleteNode", json!({"name": "m3"})).await?;
            refused(join(token, "m3", again).await?)
        }
        Life::JoinTokenExpired => {
            let body = json!({"node": "m4", "lifetime": "1s"});
            let made = must(lone.client(), "rail.v1.NodeService/CreateJoinToken", body).await?;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            refused(join(made["token"].as_str().unwrap_or_default().to_owned(), "m4", key()?).await?)
        }
        Life::JoinTokenMadeUp => {
            let made = proto_rpc::Token::generate(proto_rpc::TokenKind::Join).map_err(text)?;
            refused(join(made.reveal(), "m5", key()?).await?)
        }
        _ => {
            lone.tenant("joiner").await?;
            let user = lone.place.token(lone.client(), "joiner", "jo", "USER").await?;
            refused(join(user.token.unwrap_or_default(), "m6", key()?).await?)
        }
    })
}

async fn revoked(lone: &Lone, life: Life) -> Result<Verdict, String> {
    let revoke = |subject: String| async move {
        let body = json!({"subject": subject, "reason": "test"});
        must(lone.client(), "rail.v1.TenantService/Revoke", body).await
    };
    lone.tenant("rvk").await?;
    Ok(match life {
        Life::RevokedCertificate | Life::RevokedCertificateAudited => {
            let user = if life == Life::RevokedCertificate { "rita" } else { "rosa" };
            let person = lone.place.user(lone.client(), "rvk", user, "USER").await?;
            must(&person.client, WHO, json!({})).await?;
            revoke(person.who.clone()).await?;
            tokio::time::sleep(Duration::from_millis(600)).await;
            let again = lone.place.with(&person.chain, &person.key, &person.who)?;
            let answer = call::call(&again.client, WHO, &json!({})).await?;
            if answer.error.is_none() || life == Life::RevokedCertificate {
                return Ok(held_if(answer.error.is_some(), || answer.words()));
            }
            let mut last = String::new();
            for _ in 0..40 {
                // Nobody has proved to be this user: the record is one of an anonymous caller that showed the certificate.
                let body = json!({"rpc": "Handshake", "decision": "denied"});
                let listed =
                    call::call(lone.client(), "rail.v1.AuditService/ListAuditRecords", &body).await?;
                last = listed.text();
                if last.contains("REVOKED") && last.contains(user) {
                    return Ok(Verdict::Held);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            gave(format!("refused at the handshake, and no record says so: {last:.200}"))
        }
        Life::RevokedToken => {
            let person = lone.place.token(lone.client(), "rvk", "rolf", "USER").await?;
            must(&person.client, WHO, json!({})).await?;
            revoke(person.who.clone()).await?;
            let answer = call::call(&person.client, WHO, &json!({})).await?;
            held_if(answer.error.is_some(), || answer.words())
        }
        Life::RevokedWatch => {
            let person = lone.place.user(lone.client(), "rvk", "ruth", "USER").await?;
            let watch = tokio::spawn({
                let client = person.client.clone();
                async move { watch_long(&client).await }
            });
            tokio::time::sleep(Duration::from_millis(200)).await;
            revoke(person.who.clone()).await?;
            tokio::time::sleep(Duration::from_millis(2_100)).await;
            lone.job("rvk", "after-revocation", "x", &uuid::Uuid::new_v4().to_string()).await?;
            let reported = watch.await.map_err(text)?;
            held_if(!reported.contains("after-revocation"), || "the watch went on".to_owned())
        }
        Life::RevokedNode => {
            let person = lone.place.node(lone.client(), "m9").await?;
            revoke("node/m9".to_owned()).await?;
            tokio::time::sleep(Duration::from_millis(600)).await;
            let key = KeyRequest::generate().map_err(text)?;
            let body = json!({"csrPem": key.csr_pem});
            let answer = call::call(&person.client, "rail.v1.AgentService/RenewCertificate", &body).await?;
            held_if(answer.error.is_some(), || answer.words())
        }
        Life::BearerBesideNode => {
            let node = lone.place.node(lone.client(), "m10").await?;
            let user = lone.place.token(lone.client(), "rvk", "ruud", "USER").await?;
            let both = lone.place.bearer(&user.token.unwrap_or_default(), Some(&node), "both")?;
            let answer = call::call(&both.client, LIST_JOBS, &json!({})).await?;
            held_if(answer.error.is_some(), || answer.words())
        }
        _ => {
            let person = lone.place.user(lone.client(), "rvk", "rene", "USER").await?;
            let made = proto_rpc::Token::generate(proto_rpc::TokenKind::User).map_err(text)?;
            let both = lone.place.bearer(&made.reveal(), Some(&person), "both")?;
            let answer = call::call(&both.client, WHO, &json!({})).await?;
            held_if(answer.error.is_some(), || answer.words())
        }
    })
}

/// Longest that one flood goes on.
const FLOOD: Duration = Duration::from_secs(5);

async fn audit(lone: &Lone, life: Life) -> Result<Verdict, String> {
    let mark = match life {
        Life::AuditErased => "kept-one",
        Life::AuditErasedByTenant => "kept-two",
        _ => "kept-three",
    };
    lone.tenant(mark).await?;
    let denied = denials(lone.client()).await?;
    let people = if life == Life::AuditErasedByTenant {
        let mut people = Vec::new();
        for n in 0..4 {
            people.push(lone.place.user(lone.client(), mark, &format!("v{n}"), "VIEWER").await?);
        }
        people
    } else {
        vec![lone.place.nobody()?, lone.place.nobody()?, lone.place.nobody()?, lone.place.nobody()?]
    };
    let begin = Instant::now();
    let mut floods = tokio::task::JoinSet::new();
    for person in people {
        floods.spawn(async move {
            let mut made = 0_u64;
            while begin.elapsed() < FLOOD {
                // All calls at once, then all of them again.
                let mut calls = tokio::task::JoinSet::new();
                for (rpc, _) in crate::roles::TABLE {
                    let client = person.client.clone();
                    calls.spawn(async move { call::frame(&client, rpc, Vec::new()).await });
                    made += 1;
                }
                calls.join_all().await;
            }
            made
        });
    }
    let made: u64 = floods.join_all().await.into_iter().sum();
    if life == Life::AuditBounded {
        let records = denials(lone.client()).await?.saturating_sub(denied);
        let most = 200 + 40 * FLOOD.as_secs();
        return Ok(held_if(records <= most, || {
            format!("{made} calls of nobody made {records} records in {} s", FLOOD.as_secs())
        }));
    }
    let body = json!({"rpc": "ApplyTenant", "pageSize": 1000});
    let mut token = String::new();
    for _ in 0..200 {
        let mut body = body.clone();
        body["pageToken"] = json!(token);
        let listed = must(lone.client(), "rail.v1.AuditService/ListAuditRecords", body).await?;
        if listed["records"].to_string().contains(mark) {
            return Ok(Verdict::Held);
        }
        token = listed["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    Ok(gave(format!("after {made} calls that were refused the record of a change is gone")))
}

/// Records of denials that are kept or were: by the number of the last record.
async fn denials(admin: &Client) -> Result<u64, String> {
    let listed =
        must(admin, "rail.v1.AuditService/ListAuditRecords", json!({"pageSize": 1, "decision": "denied"}))
            .await?;
    let last = listed["records"][0]["seq"].as_str().and_then(|text| text.parse().ok());
    Ok(last.unwrap_or(0))
}
