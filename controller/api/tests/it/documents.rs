//! Documents judged together: as if each were applied, with nothing stored; who may not apply one is refused all.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, document::Document, document_service_client::DocumentServiceClient, planned_document::Outcome,
    tenant_service_client::TenantServiceClient,
};
use serde_json::json;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{error, job},
    rest::Rest,
    world::World,
};

fn named(tenant: &str, name: &str) -> Option<v1::Metadata> {
    Some(v1::Metadata { name: name.to_owned(), tenant: tenant.to_owned(), ..Default::default() })
}

fn tenant(name: &str) -> Document {
    let quota = Some(v1::Quota { gpus: 8, ..Default::default() });
    let spec = Some(v1::TenantSpec { quota, ..Default::default() });
    Document::Tenant(v1::Tenant { metadata: named("", name), spec, ..Default::default() })
}

fn queue(tenant: &str, name: &str) -> Document {
    let spec = Some(v1::QueueSpec::default());
    Document::Queue(v1::Queue { metadata: named(tenant, name), spec, ..Default::default() })
}

fn in_queue(name: &str, queue: &str) -> Document {
    let mut job = job(name, 1);
    job.spec.as_mut().unwrap().queue = queue.to_owned();
    Document::Job(job)
}

fn plan(tenant: &str, documents: Vec<Document>) -> v1::PlanDocumentsRequest {
    let documents = documents.into_iter().map(|one| v1::Document { document: Some(one) }).collect();
    v1::PlanDocumentsRequest { documents, on_behalf_of: tenant.to_owned(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_see_those_before_them_and_nothing_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut admins = DocumentServiceClient::new(world.admin());
    let all = vec![tenant("nlp"), queue("nlp", "q"), in_queue("a", "q"), in_queue("b", "p")];
    let reported = admins.plan_documents(plan("nlp", all)).await.unwrap().into_inner().documents;
    let outcomes: Vec<Outcome> = reported.iter().map(v1::PlannedDocument::outcome).collect();
    assert_eq!(outcomes, [Outcome::Created, Outcome::Created, Outcome::Created, Outcome::Refused]);
    let Some(Document::Queue(made)) = reported[1].document.clone().unwrap().document else { panic!() };
    assert_eq!(made.metadata.unwrap().tenant, "nlp");
    let refusal = reported[3].refusal.clone().unwrap();
    assert_eq!((refusal.class.as_str(), refusal.reason.as_str()), ("not-found", "QUEUE_NOT_FOUND"));
    let asked = v1::GetTenantRequest { name: "nlp".into() };
    let mut tenants = TenantServiceClient::new(world.admin());
    assert_eq!(error(tenants.get_tenant(asked).await).class, ErrorClass::NotFound);
    // Wrong fields are told for each document, of none and of too many at once.
    let wrong = tenant("No Name");
    let reported = admins.plan_documents(plan("", vec![wrong, tenant("ok")])).await.unwrap().into_inner();
    let refusal = reported.documents[0].refusal.clone().unwrap();
    assert_eq!(
        (refusal.reason.as_str(), refusal.violations[0].field.as_str()),
        ("INVALID_FIELD", "metadata.name")
    );
    assert_eq!(reported.documents[1].outcome(), Outcome::Created);
    let several = |count: u32| (0..count).map(|n| tenant(&format!("t{n}"))).collect::<Vec<_>>();
    let array = |name: &str| {
        let mut job = job(name, 1);
        job.spec.as_mut().unwrap().array = "0-5999".to_owned();
        Document::Job(job)
    };
    let spec = || Some(v1::FabricSpec::default());
    let fabric =
        || Document::Fabric(v1::Fabric { metadata: named("", "f"), spec: spec(), ..Default::default() });
    for (many, class) in [
        (several(0), ErrorClass::Invalid),
        (several(257), ErrorClass::TooLarge),
        (vec![array("a"), array("b")], ErrorClass::TooLarge),
        (vec![fabric(), fabric()], ErrorClass::TooLarge),
    ] {
        let refused = error(admins.plan_documents(plan("", many)).await);
        assert_eq!((refused.class, refused.violations[0].field.as_str()), (class, "documents"));
    }
    drop((agent, admins, tenants));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_apply_one_is_refused_all_and_rest_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let ann = Identity::user("default", "ann", [Role::TenantAdmin]).unwrap();
    let mut own = DocumentServiceClient::new(world.client(&ann));
    let right = plan("", vec![queue("", "q"), in_queue("a", "q")]);
    assert_eq!(own.plan_documents(right.clone()).await.unwrap().into_inner().documents.len(), 2);
    for wrong in [tenant("nlp"), queue("red", "q")] {
        let refused = error(own.plan_documents(plan("", vec![queue("", "q"), wrong])).await);
        assert_eq!(refused.class, ErrorClass::Denied);
        assert_eq!(refused.violations[0].field, "documents[1]");
    }
    let mut users = DocumentServiceClient::new(world.user("default"));
    let refused = error(users.plan_documents(right).await);
    assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Denied, "documents[0]"));
    let mut rest = Rest::new(world.admin());
    let body = json!({"documents": [
        {"license": {"metadata": {"name": "matlab"}, "spec": {"total": 2}}},
        {"license": {"metadata": {"name": "matlab"}, "spec": {"total": 3}}},
    ]});
    let answer = rest.call("POST", "/v1/documents:plan", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let documents = answer.json["documents"].as_array().unwrap();
    let outcomes: Vec<&str> = documents.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["CREATED", "CHANGED"]);
    drop((agent, own, users));
    world.stop().await;
}
