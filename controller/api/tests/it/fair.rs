//! Fairness between tenants: one that asks too much waits or is told when to come back, others notice nothing.

use std::{sync::Arc, time::Duration};

use controller_api::fair::FairLimits;
use controller_store::MemoryStore;
use proto_rpc::{ErrorClass, Identity, Jitter, RetryPolicy, Role, retry};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
    tenant_service_client::TenantServiceClient,
};
use tokio::task::JoinSet;

use crate::{jobs::error, world::World};

async fn world(limits: FairLimits) -> (tempfile::TempDir, World) {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start_with(dir.path(), Arc::new(MemoryStore::default()), limits).await;
    (dir, world)
}

fn user(world: &World, tenant: &str) -> TenantServiceClient<proto_rpc::Client> {
    TenantServiceClient::new(world.client(&Identity::user(tenant, "ann", [Role::User]).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_one_tenant_is_told_when_to_come_back_and_no_other_notices() {
    let limits = FairLimits { rate: 10, burst: 5, flow_queue: 5, ..FairLimits::default() };
    let (_dir, world) = world(limits).await;
    world.tenant("greedy", 8).await;
    world.tenant("modest", 8).await;
    let (greedy, mut modest) = (user(&world, "greedy"), user(&world, "modest"));
    let mut storm = JoinSet::new();
    for _ in 0..40 {
        let mut greedy = greedy.clone();
        storm.spawn(async move { greedy.who_am_i(v1::WhoAmIRequest {}).await });
    }
    // Nobody else is held up: neither the other tenant, nor an agent, nor who asks for the health.
    modest.who_am_i(v1::WhoAmIRequest {}).await.unwrap();
    let mut health =
        HealthServiceClient::new(world.client(&Identity::user("greedy", "ann", [Role::User]).unwrap()));
    health.get_health(v1::GetHealthRequest {}).await.unwrap();
    let outcomes = storm.join_all().await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(refused.len() >= 25, "{} of 40 were refused", refused.len());
    for status in refused {
        let error = proto_rpc::RpcError::from_status(&status);
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Overloaded, "TENANT_LIMIT"));
        assert!(error.retry_after.is_some_and(|after| after >= Duration::from_millis(100)), "{error:?}");
    }
    assert!(
        world.metric("rail_calls_limited_total") >= 25.0 && world.metric("rail_calls_queued_total") >= 1.0
    );
    assert_eq!(world.metric("rail_calls_waiting"), 0.0);
    // A client that heeds what it is told comes in.
    let policy = RetryPolicy::default();
    retry(&policy, &mut Jitter::seeded(7), |_| {
        let mut greedy = greedy.clone();
        async move { greedy.who_am_i(v1::WhoAmIRequest {}).await }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_of_a_tenant_are_bounded_and_given_back() {
    let (_dir, world) = world(FairLimits { flow_streams: 2, ..FairLimits::default() }).await;
    world.tenant("other", 8).await;
    let open = |tenant: &str| {
        let mut jobs = JobServiceClient::new(world.user(tenant).without_timeout());
        async move { jobs.watch_jobs(v1::WatchJobsRequest::default()).await }
    };
    let first = open("default").await.unwrap();
    let _second = open("default").await.unwrap();
    let refused = error(open("default").await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Overloaded, "TENANT_LIMIT"));
    assert!(open("other").await.is_ok());
    drop(first);
    let again = tokio::time::timeout(Duration::from_secs(5), async {
        while open("default").await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    again.await.expect("the place is given back");
}
