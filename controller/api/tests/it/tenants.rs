//! Tenants beside each other: what is one's own is neither seen nor changed nor used by the others.

use std::time::{Duration, SystemTime};

use proto_rpc::{Client, ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, queue_service_client::QueueServiceClient,
    reservation_service_client::ReservationServiceClient, tenant_service_client::TenantServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job},
    rest::Rest,
    world::World,
};

fn queue(tenant: &str, name: &str) -> v1::ApplyQueueRequest {
    let metadata =
        v1::Metadata { name: name.to_owned(), tenant: tenant.to_owned(), ..v1::Metadata::default() };
    let queue = v1::Queue {
        api_version: "rail/v1".to_owned(),
        kind: "Queue".to_owned(),
        metadata: Some(metadata),
        spec: Some(v1::QueueSpec::default()),
        ..v1::Queue::default()
    };
    v1::ApplyQueueRequest { queue: Some(queue), ..v1::ApplyQueueRequest::default() }
}

pub fn reservation(name: &str, node: &str, tenants: &[&str]) -> v1::ApplyReservationRequest {
    let spec = v1::ReservationSpec {
        nodes: vec![node.to_owned()],
        start: Some(SystemTime::now().into()),
        duration: Some(Duration::from_secs(3600).try_into().unwrap()),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        maintenance: tenants.is_empty(),
        reason: format!("secret of {name}"),
        ..v1::ReservationSpec::default()
    };
    let reservation = v1::Reservation {
        api_version: "rail/v1".to_owned(),
        kind: "Reservation".to_owned(),
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(spec),
        ..v1::Reservation::default()
    };
    v1::ApplyReservationRequest { reservation: Some(reservation), ..v1::ApplyReservationRequest::default() }
}

/// Tenants `red` and `blue` with a server each, and an administrator of blue.
pub async fn two(world: &World) -> Client {
    let mut tenants = TenantServiceClient::new(world.admin());
    for name in ["red", "blue"] {
        let tenant = v1::Tenant {
            api_version: "rail/v1".to_owned(),
            kind: "Tenant".to_owned(),
            metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
            spec: Some(v1::TenantSpec {
                quota: Some(v1::Quota { gpus: 8, ..v1::Quota::default() }),
                ..v1::TenantSpec::default()
            }),
            ..v1::Tenant::default()
        };
        let request = v1::ApplyTenantRequest { tenant: Some(tenant), ..v1::ApplyTenantRequest::default() };
        tenants.apply_tenant(request).await.unwrap();
    }
    world.client(&Identity::user("blue", "boss", [Role::TenantAdmin]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_its_tenants_alone() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let blue = two(&world).await;
    QueueServiceClient::new(world.admin()).apply_queue(queue("red", "night")).await.unwrap();
    let mut queues = QueueServiceClient::new(blue.clone());
    // Not by naming the other tenant, and not by naming none.
    let get = |tenant: &str| v1::GetQueueRequest { tenant: tenant.to_owned(), name: "night".to_owned() };
    assert_eq!(error(queues.get_queue(get("red")).await).class, ErrorClass::Denied);
    assert_eq!(error(queues.get_queue(get("")).await).class, ErrorClass::NotFound);
    let list = |tenant: &str| v1::ListQueuesRequest {
        tenant: tenant.to_owned(),
        ..v1::ListQueuesRequest::default()
    };
    assert_eq!(error(queues.list_queues(list("red")).await).class, ErrorClass::Denied);
    assert!(queues.list_queues(list("")).await.unwrap().into_inner().queues.is_empty());
    assert_eq!(error(queues.apply_queue(queue("red", "night")).await).class, ErrorClass::Denied);
    let delete =
        |tenant: &str| v1::DeleteQueueRequest { tenant: tenant.to_owned(), name: "night".to_owned() };
    assert_eq!(error(queues.delete_queue(delete("red")).await).class, ErrorClass::Denied);
    assert_eq!(error(queues.delete_queue(delete("")).await).class, ErrorClass::NotFound);
    let mut own = job("own", 1);
    own.spec.get_or_insert_default().queue = "night".to_owned();
    let refused = error(JobServiceClient::new(blue.clone()).create_job(create(own)).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::NotFound, "QUEUE_NOT_FOUND"));
    assert!(!refused.to_string().contains("did you mean"), "{refused}");
    // Its own of the same name is another one; and REST says the same.
    queues.apply_queue(queue("", "night")).await.unwrap();
    let own = queues.get_queue(get("")).await.unwrap().into_inner();
    assert_eq!(own.metadata.unwrap().tenant, "blue");
    let mut rest = Rest::new(blue.clone());
    assert_eq!(rest.head("GET", "/v1/queues/night?tenant=red").await.status, 403);
    let all = rest.head("GET", "/v1/queues").await.json;
    assert!(all["queues"].as_array().is_some_and(|queues| queues.len() == 1), "{all:#}");
    let admins = QueueServiceClient::new(world.admin()).list_queues(list("")).await.unwrap().into_inner();
    assert_eq!(admins.queues.len(), 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_seen_and_used_by_those_that_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let blue = two(&world).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut admin = ReservationServiceClient::new(world.admin());
    admin.apply_reservation(reservation("launch", "n0", &["red"])).await.unwrap();
    let mut reservations = ReservationServiceClient::new(blue.clone());
    let get = v1::GetReservationRequest { name: "launch".to_owned() };
    let absent = v1::GetReservationRequest { name: "lunch".to_owned() };
    for request in [get.clone(), absent] {
        let refused = error(reservations.get_reservation(request).await);
        assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::NotFound, "RESERVATION_NOT_FOUND"));
        assert!(!refused.to_string().contains("did you mean"), "{refused}");
    }
    let list = v1::ListReservationsRequest::default;
    assert!(reservations.list_reservations(list()).await.unwrap().into_inner().reservations.is_empty());
    let denied = error(reservations.apply_reservation(reservation("launch", "n0", &["blue"])).await);
    assert_eq!(denied.class, ErrorClass::Denied);
    let delete = v1::DeleteReservationRequest { name: "launch".to_owned() };
    assert_eq!(error(reservations.delete_reservation(delete).await).class, ErrorClass::Denied);
    // One that is not for it is as if it were not there; a near miss does not tell its name.
    let mut jobs = JobServiceClient::new(blue.clone());
    for name in ["launch", "lunch"] {
        let mut inside = job("inside", 1);
        inside.spec.get_or_insert_default().reservation = name.to_owned();
        let refused = error(jobs.create_job(create(inside)).await);
        assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::NotFound, "RESERVATION_NOT_FOUND"));
        assert!(!refused.to_string().contains("did you mean"), "{refused}");
    }
    // A job that waits for its servers learns no more than that.
    jobs.create_job(create(job("outside", 1))).await.unwrap();
    let request = v1::ExplainJobRequest { name: "outside".to_owned(), ..v1::ExplainJobRequest::default() };
    let reported = jobs.explain_job(request).await.unwrap().into_inner();
    assert!(!format!("{reported:?}").contains("secret of launch"), "{reported:?}");
    // Those that it is for see it, without the names of others that it is for too.
    let mut red = ReservationServiceClient::new(world.user("red"));
    admin.apply_reservation(reservation("launch", "n0", &["red", "blue"])).await.unwrap();
    for reservations in [&mut red, &mut reservations] {
        let seen = reservations.get_reservation(get.clone()).await.unwrap().into_inner();
        assert_eq!(seen.spec.unwrap().tenants.len(), 1);
        let all = reservations.list_reservations(list()).await.unwrap().into_inner();
        assert_eq!(all.reservations.len(), 1);
    }
    world.stop().await;
}
