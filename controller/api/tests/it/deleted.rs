//! Deleted tenants and fabrics over gRPC and REST: they come back, on record, and let in nobody who was let in before.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, audit_record::Content, audit_service_client::AuditServiceClient,
    deleted_service_client::DeletedServiceClient, job_service_client::JobServiceClient,
    queue_service_client::QueueServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::json;

use crate::{jobs::error, rest::Rest, world::World};

fn undelete(kind: &str, name: &str, dry_run: bool) -> v1::UndeleteRequest {
    v1::UndeleteRequest { kind: kind.to_owned(), name: name.to_owned(), dry_run }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_comes_back_on_record_and_its_old_credentials_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let ann = Identity::user("red", "ann", [Role::User]).unwrap();
    let old = world.credentials_of(&ann);
    let metadata = Some(v1::Metadata { name: "q".into(), tenant: "red".into(), ..Default::default() });
    let queue = v1::Queue { metadata, spec: Some(v1::QueueSpec::default()), ..Default::default() };
    let mut queues = QueueServiceClient::new(world.admin());
    queues.apply_queue(v1::ApplyQueueRequest { queue: Some(queue), dry_run: false }).await.unwrap();
    let mut tenants = TenantServiceClient::new(world.admin());
    let issue = v1::IssueTokenRequest {
        tenant: "red".into(),
        user: "ann".into(),
        role: v1::Role::User.into(),
        lifetime: None,
    };
    let token = tenants.issue_token(issue).await.unwrap().into_inner().token;
    tenants
        .delete_tenant(v1::DeleteTenantRequest { name: "red".into(), ..Default::default() })
        .await
        .unwrap();
    drop((queues, tenants));
    // The next life of the controller knows of it.
    world.stop().await;
    world = World::start(dir.path()).await;
    let mut deleted = DeletedServiceClient::new(world.admin());
    let list = deleted.list_deleted(v1::ListDeletedRequest {}).await.unwrap().into_inner().deleted;
    assert_eq!(
        (list.len(), list[0].kind.as_str(), list[0].name.as_str(), list[0].queues),
        (1, "tenant", "red", 1)
    );
    assert!(list[0].deleted_by.ends_with("admin/root") && list[0].expire_time.is_some());
    for (kind, name, field) in [("job", "a", "kind"), ("tenant", "No Name", "name"), ("fabric", "", "name")] {
        let refused = error(deleted.undelete(undelete(kind, name, false)).await);
        assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Invalid, field));
    }
    let unknown = error(deleted.undelete(undelete("fabric", "f", false)).await);
    assert_eq!((unknown.class, unknown.reason.as_str()), (ErrorClass::NotFound, "NOT_DELETED"));
    deleted.undelete(undelete("tenant", "red", true)).await.unwrap();
    let restored = deleted.undelete(undelete("tenant", "red", false)).await.unwrap().into_inner();
    assert_eq!((restored.restored.unwrap().queues, restored.notes.len()), (1, 0));
    let mut queues = QueueServiceClient::new(world.admin());
    let asked = v1::GetQueueRequest { name: "q".into(), tenant: "red".into() };
    assert_eq!(queues.get_queue(asked).await.unwrap().into_inner().metadata.unwrap().tenant, "red");
    // Whoever was let in before is not; whoever gets new credentials is.
    let list = v1::ListJobsRequest::default;
    for client in [world.client_with(&old), world.bearer(&token)] {
        let refused = error(JobServiceClient::new(client).list_jobs(list()).await);
        assert_eq!(refused.class, ErrorClass::Unauthenticated, "{refused}");
    }
    JobServiceClient::new(world.client(&ann)).list_jobs(list()).await.unwrap();
    let ask = v1::ListAuditRecordsRequest { rpc: "Undelete".into(), ..Default::default() };
    let records = AuditServiceClient::new(world.admin()).list_audit_records(ask).await.unwrap().into_inner();
    let [record] = &records.records[..] else { panic!("{records:?}") };
    let Some(Content::Change(change)) = record.content.clone() else { panic!() };
    assert_eq!((change.kind.as_str(), change.name.as_str()), ("tenant", "red"));
    drop((deleted, queues));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_says_the_same_and_a_name_that_is_taken_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let mut rest = Rest::new(world.admin());
    assert_eq!(rest.call("DELETE", "/v1/tenants/red", "").await.status, 200);
    let all = rest.call("GET", "/v1/deleted", "").await.json;
    assert_eq!((&all["deleted"][0]["kind"], &all["deleted"][0]["name"]), (&json!("tenant"), &json!("red")));
    let ask = json!({"kind": "tenant", "name": "red"}).to_string();
    let tenant = json!({"metadata": {"name": "red"}, "spec": {"quota": {"gpus": 1}}}).to_string();
    assert_eq!(rest.call("POST", "/v1/tenants?reuseName=true", &tenant).await.status, 200);
    let taken = rest.call("POST", "/v1/deleted:undelete", &ask).await;
    assert_eq!(
        (taken.status, &taken.json["error"]["reason"]),
        (409, &json!("TAKEN_SINCE")),
        "{}",
        taken.text
    );
    world.stop().await;
}
