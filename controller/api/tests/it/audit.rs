//! The audit log as the API makes it: one record for every change and every denial, none for reads; who sees what.

use std::collections::BTreeMap;

use controller_api::authz::Rpc;
use proto_audit::{Record, verify};
use proto_rpc::{Client, ErrorClass, Identity, KeyRequest, Role, seal::CaKey};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, audit_record::Content,
    audit_service_client::AuditServiceClient, config_service_client::ConfigServiceClient,
    enroll_service_client::EnrollServiceClient, job_service_client::JobServiceClient, job_status::Phase,
    license_service_client::LicenseServiceClient, node_service_client::NodeServiceClient,
    queue_service_client::QueueServiceClient, rail_service_client::RailServiceClient,
    reservation_service_client::ReservationServiceClient, schedule_service_client::ScheduleServiceClient,
    secret_service_client::SecretServiceClient, service_class_service_client::ServiceClassServiceClient,
    switch_service_client::SwitchServiceClient, tenant_service_client::TenantServiceClient,
    webhook_service_client::WebhookServiceClient, webhook_spec::Event,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job, until},
    roles,
    schedules::yearly,
    tenants::reservation,
    values::{config, secret},
    webhooks::webhook,
    world::World,
};

/// What a call that is let in leaves in the log.
#[derive(Debug, PartialEq, Eq)]
enum Leaves {
    /// One record where it changes something.
    Record,
    /// Nothing: it reads, or tells what an agent sees.
    Nothing,
}

/// The table of what is audited.
fn leaves(rpc: Rpc) -> Leaves {
    match rpc {
        Rpc::ApplyFabric
        | Rpc::DeleteFabric
        | Rpc::UpdateNode
        | Rpc::DeleteNode
        | Rpc::ReturnNode
        | Rpc::CreateJoinToken
        | Rpc::DrainRail
        | Rpc::UndrainRail
        | Rpc::ApplyQos
        | Rpc::ControlRollout
        | Rpc::ApplyQueue
        | Rpc::DeleteQueue
        | Rpc::ApplyReservation
        | Rpc::DeleteReservation
        | Rpc::ApplySchedule
        | Rpc::DeleteSchedule
        | Rpc::ApplyServiceClass
        | Rpc::DeleteServiceClass
        | Rpc::ApplyLicense
        | Rpc::DeleteLicense
        | Rpc::ApplySwitch
        | Rpc::DeleteSwitch
        | Rpc::CreateSwitchToken
        | Rpc::RollOutSwitches
        | Rpc::ControlSwitchRollout
        | Rpc::JoinSwitch
        | Rpc::RenewSwitchCertificate
        | Rpc::ApplyWebhook
        | Rpc::DeleteWebhook
        | Rpc::TestWebhook
        | Rpc::ApplySecret
        | Rpc::DeleteSecret
        | Rpc::ApplyConfig
        | Rpc::DeleteConfig
        | Rpc::ApplyTenant
        | Rpc::DeleteTenant
        | Rpc::Undelete
        | Rpc::IssueCertificate
        | Rpc::IssueToken
        | Rpc::Revoke
        | Rpc::CreateJob
        | Rpc::CancelJob
        | Rpc::DeleteJob
        | Rpc::HoldJob
        | Rpc::ReleaseJob
        | Rpc::SuspendJob
        | Rpc::ResumeJob
        | Rpc::RequeueJob
        | Rpc::UpdateJob
        | Rpc::RunStep
        | Rpc::Join
        | Rpc::RenewCertificate => Leaves::Record,
        _ if reads(rpc) => Leaves::Nothing,
        _ => panic!("{rpc:?} is neither audited nor known to change nothing"),
    }
}

/// What reads, or tells what an agent sees.
fn reads(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::GetFabric
        | Rpc::GetTopology
        | Rpc::GetNode
        | Rpc::ListNodes
        | Rpc::WatchNodes
        | Rpc::GetQos
        | Rpc::PlanQos
        | Rpc::ListRails
        | Rpc::GetQueue
        | Rpc::ListQueues
        | Rpc::GetQueueOrder
        | Rpc::ListShares
        | Rpc::ListNodeUsage
        | Rpc::ListJobUsage
        | Rpc::ListTokens
        | Rpc::GetReservation
        | Rpc::ListReservations
        | Rpc::GetSchedule
        | Rpc::ListSchedules
        | Rpc::GetServiceClass
        | Rpc::ListServiceClasses
        | Rpc::GetWebhook
        | Rpc::ListWebhooks
        | Rpc::GetSecret
        | Rpc::ListSecrets
        | Rpc::GetConfig
        | Rpc::ListConfigs
        | Rpc::GetLicense
        | Rpc::ListLicenses
        | Rpc::ListUsageRecords
        | Rpc::SumUsage
        | Rpc::GetSwitch
        | Rpc::ListSwitches
        | Rpc::RenderSwitch
        | Rpc::GetSwitchRollout
        | Rpc::PlanSwitches
        | Rpc::ReportSwitch
        | Rpc::GetTenant
        | Rpc::ListTenants
        | Rpc::WhoAmI
        | Rpc::GetJob
        | Rpc::ListJobs
        | Rpc::WatchJobs
        | Rpc::PlanJob
        | Rpc::PlanDocuments
        | Rpc::ListDeleted
        | Rpc::ExplainJob
        | Rpc::StreamLogs
        | Rpc::ListRevocations
        // Of controllers among themselves, before this door.
        | Rpc::Follow
        | Rpc::ListAuditRecords
        | Rpc::ExportAuditRecords
        | Rpc::GetHealth
        | Rpc::Connect
        | Rpc::UploadLogs
        | Rpc::AttachStep
        | Rpc::HealthCheck
        | Rpc::HealthWatch
        | Rpc::Reflection
        | Rpc::ReflectionAlpha
        | Rpc::OpenApi
    )
}

async fn list(client: Client, request: v1::ListAuditRecordsRequest) -> Vec<v1::AuditRecord> {
    let (mut audit, mut request) = (AuditServiceClient::new(client), request);
    let mut records = Vec::new();
    loop {
        let page = audit.list_audit_records(request.clone()).await.unwrap().into_inner();
        records.extend(page.records);
        if page.next_page_token.is_empty() {
            return records;
        }
        request.page_token = page.next_page_token;
    }
}

pub async fn all(world: &World) -> Vec<v1::AuditRecord> {
    list(world.admin(), v1::ListAuditRecordsRequest { page_size: 7, ..Default::default() }).await
}

async fn export(world: &World) -> Vec<Record> {
    let mut audit = AuditServiceClient::new(world.admin());
    let mut stream = audit.export_audit_records(v1::ExportAuditRecordsRequest {}).await.unwrap().into_inner();
    let mut records = Vec::new();
    while let Some(record) = stream.message().await.unwrap() {
        assert_eq!(record.revision, 0);
        records.push(Record::try_from(record).unwrap());
    }
    records
}

pub fn actor(record: &v1::AuditRecord) -> v1::AuditActor {
    match record.content.clone() {
        Some(Content::Change(change)) => change.actor.unwrap(),
        Some(Content::Denial(denial)) => denial.actor.unwrap(),
        _ => v1::AuditActor::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_denial_of_every_call_is_in_exactly_one_record() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut expected: BTreeMap<(String, String), u64> = BTreeMap::new();
    for identity in roles::callers() {
        let who =
            world.bound(&identity).to_uri(crate::world::CLUSTER).unwrap_or_else(|_| "anonymous".to_owned());
        let mut client = world.client(&identity).with_timeout(std::time::Duration::from_secs(10));
        for rpc in Rpc::ALL.iter().filter(|rpc| rpc.path() != controller_api::rest::routes::OPENAPI) {
            // One that is let in by the table may be denied by what it asks for.
            let outcome = roles::bare(&mut client, rpc.path(), vec![0, 0, 0, 0, 0]).await;
            let denied = outcome
                .is_err_and(|error| matches!(error.class, ErrorClass::Denied | ErrorClass::Unauthenticated));
            if denied {
                let rpc = if identity == Identity::Anonymous { "" } else { rpc.name() };
                *expected.entry((who.clone(), rpc.to_owned())).or_default() += 1;
            }
        }
    }
    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    for record in all(&world).await {
        if let Some(Content::Denial(denial)) = &record.content {
            let actor = denial.actor.clone().unwrap();
            assert!(!actor.source.is_empty() && !denial.reason.is_empty() && !denial.detail.is_empty());
            assert_eq!(record.log, i32::from(v1::AuditLog::Denials));
            // Who has no identity shares one budget with all others of that kind: calls are counted together.
            let rpc = if actor.who == proto_audit::ANONYMOUS { String::new() } else { actor.rpc };
            *found.entry((actor.who, rpc)).or_default() += denial.count;
        }
    }
    assert!(expected.len() > 100, "{}", expected.len());
    assert_eq!(found, expected);
}

/// Calls that change something; by administrators unless it says otherwise.
async fn change_everything(world: &World) -> Vec<Rpc> {
    let mut calls = change_tenants(world).await.to_vec();
    calls.extend(change_nodes(world).await);
    calls.extend(change_jobs(world).await);
    let mut tenants = TenantServiceClient::new(world.admin());
    for subject in ["tenant/red/user/bob", "node/n7"] {
        let revoke = v1::RevokeRequest { subject: subject.into(), reason: "lost".into() };
        tenants.revoke(revoke).await.unwrap();
        calls.push(Rpc::Revoke);
    }
    let mut nodes = NodeServiceClient::new(world.admin());
    nodes.delete_node(v1::DeleteNodeRequest { name: "n7".into(), ..Default::default() }).await.unwrap();
    calls.push(Rpc::DeleteNode);
    calls
}

async fn change_tenants(world: &World) -> [Rpc; 18] {
    let mut tenants = TenantServiceClient::new(world.admin());
    let mut queues = QueueServiceClient::new(world.admin());
    let named = |name: &str| Some(v1::Metadata { name: name.to_owned(), ..Default::default() });
    let quota = Some(v1::Quota { gpus: 8, ..Default::default() });
    let spec = Some(v1::TenantSpec { quota, ..Default::default() });
    let tenant = v1::Tenant { metadata: named("red"), spec, ..Default::default() };
    tenants
        .apply_tenant(v1::ApplyTenantRequest { tenant: Some(tenant), ..Default::default() })
        .await
        .unwrap();
    let queue =
        v1::Queue { metadata: named("q"), spec: Some(v1::QueueSpec::default()), ..Default::default() };
    queues.apply_queue(v1::ApplyQueueRequest { queue: Some(queue), dry_run: false }).await.unwrap();
    queues.delete_queue(v1::DeleteQueueRequest { name: "q".into(), ..Default::default() }).await.unwrap();
    let mut classes = ServiceClassServiceClient::new(world.admin());
    let spec = Some(v1::ServiceClassSpec::default());
    let class = v1::ServiceClass { metadata: named("short"), spec, ..Default::default() };
    let class = v1::ApplyServiceClassRequest { service_class: Some(class), dry_run: false };
    classes.apply_service_class(class).await.unwrap();
    classes.delete_service_class(v1::DeleteServiceClassRequest { name: "short".into() }).await.unwrap();
    let mut licenses = LicenseServiceClient::new(world.admin());
    let spec = Some(v1::LicenseSpec { total: Some(4), ..Default::default() });
    let license = v1::License { metadata: named("matlab"), spec, ..Default::default() };
    let license = v1::ApplyLicenseRequest { license: Some(license), dry_run: false };
    licenses.apply_license(license).await.unwrap();
    licenses.delete_license(v1::DeleteLicenseRequest { name: "matlab".into() }).await.unwrap();
    change_switches(world).await;
    let mut webhooks = WebhookServiceClient::new(world.admin());
    let name = || "chat".to_owned();
    webhooks.apply_webhook(webhook("chat", "https://127.0.0.1:9/", &[Event::Ended])).await.unwrap();
    webhooks.test_webhook(v1::TestWebhookRequest { name: name(), ..Default::default() }).await.unwrap();
    webhooks.delete_webhook(v1::DeleteWebhookRequest { name: name(), ..Default::default() }).await.unwrap();
    change_values(world).await;
    let (tenant, user, role) = ("red".to_owned(), "ann".to_owned(), v1::Role::User.into());
    let csr_pem = KeyRequest::generate().unwrap().csr_pem;
    let certificate = v1::IssueCertificateRequest {
        csr_pem,
        tenant: tenant.clone(),
        user: user.clone(),
        role,
        lifetime: None,
    };
    tenants.issue_certificate(certificate).await.unwrap();
    tenants.issue_token(v1::IssueTokenRequest { tenant, user, role, lifetime: None }).await.unwrap();
    [
        Rpc::ApplyTenant,
        Rpc::ApplyQueue,
        Rpc::DeleteQueue,
        Rpc::ApplyServiceClass,
        Rpc::DeleteServiceClass,
        Rpc::ApplyLicense,
        Rpc::DeleteLicense,
        Rpc::ApplySwitch,
        Rpc::DeleteSwitch,
        Rpc::ApplyWebhook,
        Rpc::TestWebhook,
        Rpc::DeleteWebhook,
        Rpc::ApplySecret,
        Rpc::DeleteSecret,
        Rpc::ApplyConfig,
        Rpc::DeleteConfig,
        Rpc::IssueCertificate,
        Rpc::IssueToken,
    ]
}

async fn change_switches(world: &World) {
    let mut switches = SwitchServiceClient::new(world.admin());
    let metadata = Some(v1::Metadata { name: "leaf0".to_owned(), ..Default::default() });
    let spec = Some(v1::SwitchSpec { nos: v1::switch_spec::Nos::Linux.into(), ..Default::default() });
    let switch = v1::Switch { metadata, spec, ..Default::default() };
    // Repeated, it changes nothing and leaves nothing.
    for _ in 0..2 {
        let apply = v1::ApplySwitchRequest { switch: Some(switch.clone()), dry_run: false };
        switches.apply_switch(apply).await.unwrap();
    }
    switches.delete_switch(v1::DeleteSwitchRequest { name: "leaf0".into() }).await.unwrap();
}

async fn change_values(world: &World) {
    let (mut secrets, mut configs) =
        (SecretServiceClient::new(world.admin()), ConfigServiceClient::new(world.admin()));
    let metadata = || Some(v1::Metadata { name: "s3".to_owned(), ..Default::default() });
    let secret = Some(v1::Secret { metadata: metadata(), ..secret("s3", &[("TOKEN", "hunter2")]) });
    secrets.apply_secret(v1::ApplySecretRequest { secret, dry_run: false }).await.unwrap();
    let name = || "s3".to_owned();
    secrets.delete_secret(v1::DeleteSecretRequest { name: name(), ..Default::default() }).await.unwrap();
    let config = Some(v1::Config { metadata: metadata(), ..config("s3", &[("MODE", "x")]) });
    configs.apply_config(v1::ApplyConfigRequest { config, dry_run: false }).await.unwrap();
    configs.delete_config(v1::DeleteConfigRequest { name: name(), ..Default::default() }).await.unwrap();
}

async fn change_nodes(world: &World) -> [Rpc; 5] {
    let mut nodes = NodeServiceClient::new(world.admin());
    let mut reservations = ReservationServiceClient::new(world.admin());
    let key = KeyRequest::generate().unwrap();
    let asked = v1::CreateJoinTokenRequest { node: "n7".into(), lifetime: None };
    let token = nodes.create_join_token(asked).await.unwrap().into_inner().token;
    let join = v1::JoinRequest { token, node: "n7".into(), csr_pem: key.csr_pem.clone() };
    EnrollServiceClient::new(world.client(&Identity::Anonymous)).join(join).await.unwrap();
    let mut agent = AgentServiceClient::new(world.client(&Identity::node("n7").unwrap()));
    agent.renew_certificate(v1::RenewCertificateRequest { csr_pem: key.csr_pem }).await.unwrap();
    reservations.apply_reservation(reservation("launch", "n7", &["red"])).await.unwrap();
    let launch = v1::DeleteReservationRequest { name: "launch".into() };
    reservations.delete_reservation(launch).await.unwrap();
    [Rpc::CreateJoinToken, Rpc::Join, Rpc::RenewCertificate, Rpc::ApplyReservation, Rpc::DeleteReservation]
}

async fn change_jobs(world: &World) -> [Rpc; 17] {
    let (mut jobs, mut nodes) = (JobServiceClient::new(world.admin()), NodeServiceClient::new(world.admin()));
    let mut rails = RailServiceClient::new(world.admin());
    let agent =
        FakeAgent::connect(world.client(&Identity::node("n7").unwrap()), "n7", Behaviour::Linger).await;
    let cordon = |unschedulable| {
        let spec = Some(v1::NodeSpec { unschedulable, ..Default::default() });
        v1::UpdateNodeRequest { name: "n7".into(), spec, ..Default::default() }
    };
    nodes.update_node(cordon(true)).await.unwrap();
    let target = || "node/n7:0".to_owned();
    rails.drain_rail(v1::DrainRailRequest { target: target(), ..Default::default() }).await.unwrap();
    rails.undrain_rail(v1::UndrainRailRequest { target: target() }).await.unwrap();
    jobs.create_job(create(job("w", 1))).await.unwrap();
    let mut schedules = ScheduleServiceClient::new(world.admin());
    schedules.apply_schedule(yearly("", "turn")).await.unwrap();
    let turn = v1::DeleteScheduleRequest { name: "turn".into(), ..Default::default() };
    schedules.delete_schedule(turn).await.unwrap();
    let name = || "w".to_owned();
    jobs.hold_job(v1::HoldJobRequest { name: name(), ..Default::default() }).await.unwrap();
    let priority = Some(3);
    jobs.update_job(v1::UpdateJobRequest { name: name(), priority, ..Default::default() }).await.unwrap();
    jobs.release_job(v1::ReleaseJobRequest { name: name(), ..Default::default() }).await.unwrap();
    jobs.cancel_job(v1::CancelJobRequest { name: name(), ..Default::default() }).await.unwrap();
    nodes.update_node(cordon(false)).await.unwrap();
    jobs.create_job(create(job("j", 1))).await.unwrap();
    until(&world.admin(), "j", Phase::Running).await;
    let name = || "j".to_owned();
    // Repeated, they change nothing and leave nothing.
    for _ in 0..2 {
        let request_id = "suspend".to_owned();
        jobs.suspend_job(v1::SuspendJobRequest { name: name(), request_id, ..Default::default() })
            .await
            .unwrap();
    }
    until(&world.admin(), "j", Phase::Pending).await;
    for _ in 0..2 {
        jobs.resume_job(v1::ResumeJobRequest { name: name(), ..Default::default() }).await.unwrap();
    }
    until(&world.admin(), "j", Phase::Running).await;
    for _ in 0..2 {
        let request_id = "again".to_owned();
        jobs.requeue_job(v1::RequeueJobRequest { name: name(), request_id, ..Default::default() })
            .await
            .unwrap();
    }
    jobs.cancel_job(v1::CancelJobRequest { name: "j".into(), ..Default::default() }).await.unwrap();
    until(&world.admin(), "j", Phase::Cancelled).await;
    jobs.delete_job(v1::DeleteJobRequest { name: "j".into(), ..Default::default() }).await.unwrap();
    drop(agent);
    [
        Rpc::UpdateNode,
        Rpc::DrainRail,
        Rpc::UndrainRail,
        Rpc::CreateJob,
        Rpc::ApplySchedule,
        Rpc::DeleteSchedule,
        Rpc::HoldJob,
        Rpc::UpdateJob,
        Rpc::ReleaseJob,
        Rpc::CancelJob,
        Rpc::UpdateNode,
        Rpc::CreateJob,
        Rpc::SuspendJob,
        Rpc::ResumeJob,
        Rpc::RequeueJob,
        Rpc::CancelJob,
        Rpc::DeleteJob,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_in_one_record_and_the_whole_is_proved_by_the_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let begun = all(&world).await.len();
    let calls = change_everything(&world).await;
    assert!(calls.iter().all(|rpc| leaves(*rpc) == Leaves::Record));
    let mut records = all(&world).await;
    records.reverse();
    // A checkpoint may stand between them.
    let reported: Vec<String> =
        records[begun..].iter().map(|record| actor(record).rpc).filter(|rpc| !rpc.is_empty()).collect();
    let expected: Vec<&str> = calls.iter().map(|rpc| rpc.name()).collect();
    assert_eq!(reported, expected);
    let submit = records.iter().find(|record| actor(record).rpc == "CreateJob").unwrap();
    let job = world.handle.store().get("/rail/v1/audit/0000000000000001".into()).await.unwrap();
    assert!(job.is_some() && submit.revision > 0);
    let by = actor(submit);
    assert_eq!((by.who.as_str(), by.roles.as_str()), ("spiffe://rail/test/admin/root", "admin"));
    assert!(by.source.contains("127.0.0.1"), "{}", by.source);
    // Reads leave nothing.
    let count = all(&world).await.len();
    NodeServiceClient::new(world.admin()).list_nodes(v1::ListNodesRequest::default()).await.unwrap();
    assert_eq!(all(&world).await.len(), count);
    let exported = export(&world).await;
    let key = CaKey::of_pem(&world.ca.certificate_pem()).unwrap();
    let sum = verify(&exported, |message, signature| key.has_signed(message, signature)).unwrap();
    assert_eq!((sum.changes.first, sum.records(), sum.changes.unsigned), (1, exported.len() as u64, 0));
    assert_eq!(export(&world).await, exported, "what is signed is not signed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_listed_is_what_was_asked_for_and_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    change_everything(&world).await;
    let manager = world.client(&Identity::user("red", "boss", [Role::TenantAdmin]).unwrap());
    let denied = JobServiceClient::new(manager.clone())
        .get_job(v1::GetJobRequest { tenant: "blue".into(), name: "x".into() })
        .await
        .unwrap_err();
    assert_eq!(denied.code(), tonic::Code::PermissionDenied);
    let ask = v1::ListAuditRecordsRequest::default;
    let own = list(manager.clone(), ask()).await;
    let calls: Vec<String> = own.iter().map(|record| actor(record).rpc).collect();
    assert_eq!(calls, ["GetJob", "Revoke", "IssueToken", "IssueCertificate", "ApplyTenant"]);
    let foreign = v1::ListAuditRecordsRequest { tenant: "default".into(), ..ask() };
    let refused = AuditServiceClient::new(manager).list_audit_records(foreign).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    let count = |request| {
        let admin = world.admin();
        async move { list(admin, request).await.len() }
    };
    assert_eq!(count(v1::ListAuditRecordsRequest { decision: "denied".into(), ..ask() }).await, 2);
    assert_eq!(count(v1::ListAuditRecordsRequest { rpc: "Join".into(), ..ask() }).await, 1);
    assert_eq!(
        count(v1::ListAuditRecordsRequest { who: "boss/roles/tenant-admin".into(), ..ask() }).await,
        2
    );
    assert_eq!(count(v1::ListAuditRecordsRequest { who: "anonymous".into(), ..ask() }).await, 1);
    let early = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    assert_eq!(count(v1::ListAuditRecordsRequest { until: early, ..ask() }).await, 0);
    assert!(count(v1::ListAuditRecordsRequest { since: early, ..ask() }).await > 10);
    let mut audit = AuditServiceClient::new(world.admin());
    for bad in [
        v1::ListAuditRecordsRequest { decision: "maybe".into(), ..ask() },
        v1::ListAuditRecordsRequest { page_token: "x".into(), ..ask() },
    ] {
        assert_eq!(audit.list_audit_records(bad).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut tenants = TenantServiceClient::new(world.admin());
    world.store.full.store(true, std::sync::atomic::Ordering::Relaxed);
    let key = KeyRequest::generate().unwrap();
    let certificate = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem,
        tenant: String::new(),
        user: "eve".into(),
        role: v1::Role::Admin.into(),
        lifetime: None,
    };
    let refused = tenants.issue_certificate(certificate).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "no certificate leaves without a record");
    let mut nobody = JobServiceClient::new(world.client(&Identity::Anonymous));
    let refused = nobody.list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "nor a denial");
}
