//! One tenant's names in the answers to another: whatever is asked, and however busy the cluster is, there are none.

use http_body_util::BodyExt;
use prost::Message;
use proto_rpc::{Client, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, queue_service_client::QueueServiceClient,
    rail_service_client::RailServiceClient, reservation_service_client::ReservationServiceClient,
    tenant_service_client::TenantServiceClient,
};
use tonic::body::Body;
use tower::Service;

use controller_api::authz::{Access, Rpc};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job, until_it},
    tenants::reservation,
    world::World,
};

/// All bytes of an answer: of a stream what comes within a moment.
async fn answer(client: &Client, rpc: Rpc, message: &[u8]) -> Vec<u8> {
    let mut client = client.with_timeout(std::time::Duration::from_secs(10));
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let request = axum::http::Request::post(rpc.path())
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(http_body_util::Full::from(body)))
        .unwrap();
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let Ok(response) = client.call(request).await else { return Vec::new() };
    let mut all = format!("{:?}", response.headers()).into_bytes();
    let mut body = response.into_body();
    let moment = std::time::Duration::from_millis(150);
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(moment, body.frame()).await {
        match frame.into_data() {
            Ok(data) => all.extend(data),
            Err(frame) => all.extend(format!("{:?}", frame.trailers_ref()).into_bytes()),
        }
    }
    all
}

/// What somebody of a tenant may ask, so that it says something: of its own job, of a node, of what it may not see.
fn questions(own: &str, foreign: &[String]) -> Vec<(Rpc, Vec<u8>)> {
    let name = || own.to_owned();
    let mut all: Vec<(Rpc, Vec<u8>)> = vec![
        (Rpc::GetNode, v1::GetNodeRequest { name: "n0".into() }.encode_to_vec()),
        (Rpc::GetJob, v1::GetJobRequest { name: name(), ..Default::default() }.encode_to_vec()),
        (Rpc::ExplainJob, v1::ExplainJobRequest { name: name(), ..Default::default() }.encode_to_vec()),
        (Rpc::StreamLogs, v1::StreamLogsRequest { name: name(), ..Default::default() }.encode_to_vec()),
        (Rpc::ListJobs, v1::ListJobsRequest { page_size: 1, ..Default::default() }.encode_to_vec()),
        (Rpc::ListNodes, v1::ListNodesRequest { page_size: 1, ..Default::default() }.encode_to_vec()),
        (
            Rpc::ListReservations,
            v1::ListReservationsRequest { page_size: 1, ..Default::default() }.encode_to_vec(),
        ),
        (Rpc::ListQueues, v1::ListQueuesRequest { page_size: 1, ..Default::default() }.encode_to_vec()),
        (
            Rpc::ListAuditRecords,
            v1::ListAuditRecordsRequest { page_size: 1, ..Default::default() }.encode_to_vec(),
        ),
        (Rpc::WatchJobs, v1::WatchJobsRequest { after_revision: 1, ..Default::default() }.encode_to_vec()),
        (Rpc::WatchNodes, v1::WatchNodesRequest { after_revision: 1 }.encode_to_vec()),
    ];
    let at = std::time::SystemTime::now().into();
    let past = v1::ExplainJobRequest { name: name(), at: Some(at), ..Default::default() };
    all.push((Rpc::ExplainJob, past.encode_to_vec()));
    let mut planned = job("planned", 1);
    planned.spec.get_or_insert_default().priority = 0;
    let plan = v1::PlanJobRequest { job: Some(planned), ..Default::default() };
    all.push((Rpc::PlanJob, plan.encode_to_vec()));
    // The caller's own words may come back; a near miss must not be put right.
    for word in foreign {
        let near = word[..word.len() - 1].to_owned();
        all.push((Rpc::GetReservation, v1::GetReservationRequest { name: near.clone() }.encode_to_vec()));
        all.push((Rpc::GetTenant, v1::GetTenantRequest { name: near.clone() }.encode_to_vec()));
        all.push((Rpc::GetQueue, v1::GetQueueRequest { name: near, ..Default::default() }.encode_to_vec()));
    }
    all
}

/// Every call that people of a tenant may make, of which every answer is looked through.
async fn check(client: &Client, own: &str, foreign: &[String]) {
    let open = |rpc: &&Rpc| match rpc.access() {
        Access::Roles(roles) => roles.contains(&Role::TenantAdmin) && rpc.path() != "/v1/openapi.json",
        Access::Anybody => true,
        Access::Controllers => false,
    };
    let empty = Rpc::ALL.iter().filter(open).map(|rpc| (*rpc, Vec::new()));
    for (rpc, message) in empty.chain(questions(own, foreign)) {
        let all = answer(client, rpc, &message).await;
        for word in foreign {
            let leaks = all.windows(word.len()).any(|bytes| bytes == word.as_bytes());
            assert!(!leaks, "{rpc} tells '{word}': {}", String::from_utf8_lossy(&all));
        }
    }
}

fn spec(job: &mut v1::Job, change: impl FnOnce(&mut v1::JobSpec)) {
    change(job.spec.get_or_insert_default());
}

/// A tenant with names that nobody would guess, and things of all kinds.
async fn furnish(world: &World, seed: u64) -> (String, Vec<String>) {
    let words: Vec<String> = ["t", "q", "r", "u"]
        .iter()
        .map(|kind| format!("z{kind}{:x}k", seed.wrapping_mul(0x9e37_79b9) % 0xffff_ffff))
        .collect();
    let [tenant, queue, reserved, user] = &words[..] else { panic!() };
    world.tenant(tenant, 64).await;
    let metadata = Some(v1::Metadata { name: queue.clone(), tenant: tenant.clone(), ..Default::default() });
    let made = v1::Queue { metadata, spec: Some(v1::QueueSpec::default()), ..Default::default() };
    let apply = v1::ApplyQueueRequest { queue: Some(made), dry_run: false };
    QueueServiceClient::new(world.admin()).apply_queue(apply).await.unwrap();
    let mut made = reservation(reserved, "n1", &[tenant]);
    made.reservation.get_or_insert_default().spec.get_or_insert_default().start =
        Some((std::time::SystemTime::now() + std::time::Duration::from_secs(600)).into());
    ReservationServiceClient::new(world.admin()).apply_reservation(made).await.unwrap();
    let ask = v1::IssueTokenRequest {
        tenant: tenant.clone(),
        user: user.clone(),
        role: v1::Role::User.into(),
        lifetime: None,
    };
    TenantServiceClient::new(world.admin()).issue_token(ask).await.unwrap();
    let subject = format!("tenant/{tenant}/user/{user}");
    let revoke = v1::RevokeRequest { subject, reason: "lost".into() };
    TenantServiceClient::new(world.admin()).revoke(revoke).await.unwrap();
    (tenant.clone(), words)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_to_one_tenant_holds_a_name_of_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for node in ["n0", "n1"] {
        agents.push(FakeAgent::connect(world.node(node).await, node, Behaviour::Linger).await);
    }
    world.tenant("red", 64).await;
    let red = world.client(&Identity::user("red", "ann", [Role::TenantAdmin]).unwrap());
    for seed in 1..=4_u64 {
        let (tenant, mut words) = furnish(&world, seed).await;
        let theirs = world.client(&Identity::user(&tenant, "bob", [Role::User]).unwrap());
        let (own, foreign) = (format!("sun-{seed}"), format!("zj{seed}moon"));
        words.push(foreign.clone());
        // Red's job runs and would give way; theirs comes, and takes its place.
        let mut low = job(&own, 1 + (seed % 2) as u32);
        spec(&mut low, |spec| {
            spec.priority = -10;
            spec.expected_duration = Some(prost_types::Duration { seconds: 7200, nanos: 0 });
        });
        JobServiceClient::new(red.clone()).create_job(create(low)).await.unwrap();
        check(&red, &own, &words).await;
        let mut high = job(&foreign, 2);
        spec(&mut high, |spec| {
            spec.priority = 0;
            // Over before the reservation begins.
            spec.expected_duration = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        });
        JobServiceClient::new(theirs.clone()).create_job(create(high)).await.unwrap();
        // It gives way, or would run into what is reserved for them.
        let reported = |job: &v1::Job| {
            let reasons = &job.status.as_ref().unwrap().reasons;
            reasons.iter().any(|reason| reason.message.contains("another tenant's"))
        };
        until_it(&red, &own, reported).await;
        check(&red, &own, &words).await;
        let target = if seed % 2 == 0 { "n1:3" } else { "n0:1" };
        let drain = v1::DrainRailRequest { target: target.into(), reason: "cable".into(), force: true };
        RailServiceClient::new(world.admin()).drain_rail(drain).await.unwrap();
        check(&red, &own, &words).await;
        // Who may know is told.
        let at = Some((std::time::SystemTime::now() + std::time::Duration::from_secs(1)).into());
        let ask = v1::ExplainJobRequest { name: own.clone(), tenant: "red".into(), at };
        let known = JobServiceClient::new(world.admin()).explain_job(ask).await.unwrap().into_inner();
        let (theirs_by_name, kept) =
            (format!("job '{tenant}/{foreign}'"), format!("reservation '{}'", words[2]));
        let known = format!("{known:?}");
        assert!(known.contains(&theirs_by_name) || known.contains(&kept), "{known}");
        let undrain = v1::UndrainRailRequest { target: target.into() };
        RailServiceClient::new(world.admin()).undrain_rail(undrain).await.unwrap();
        for (client, name) in [(&theirs, &foreign), (&red, &own)] {
            let cancel = v1::CancelJobRequest { name: name.clone(), ..Default::default() };
            JobServiceClient::new(client.clone()).cancel_job(cancel).await.unwrap();
        }
        let over = |job: &v1::Job| job.status.as_ref().unwrap().phase() == Phase::Cancelled;
        until_it(&theirs, &foreign, over).await;
        until_it(&red, &own, over).await;
        check(&red, &own, &words).await;
        // The next tenant reserves the same server.
        let gone = v1::DeleteReservationRequest { name: words[2].clone() };
        ReservationServiceClient::new(world.admin()).delete_reservation(gone).await.unwrap();
    }
}
