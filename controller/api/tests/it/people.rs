//! Credentials: join tokens, certificates, API tokens, and who is who.

use std::time::{Duration, SystemTime};

use proto_rpc::{
    CertificateSlot, Credentials, ErrorClass, Identity, KeyRequest, Role, ca::NODE_LIFETIME, tls::Trust,
};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, enroll_service_client::EnrollServiceClient,
    job_service_client::JobServiceClient, node_service_client::NodeServiceClient,
    tenant_service_client::TenantServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::error,
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_buys_one_certificate_for_one_node() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut nodes = NodeServiceClient::new(world.admin());
    let asked = v1::CreateJoinTokenRequest { node: "n0".into(), lifetime: None };
    let made = nodes.create_join_token(asked).await.unwrap().into_inner();
    // A server that has nothing but the token and the pin.
    let pinned = Credentials::new(Trust::Pin(made.ca_pin.parse().unwrap()));
    let mut enroll = EnrollServiceClient::new(world.client_with(&pinned));
    let key = KeyRequest::generate().unwrap();
    let join = |node: &str, csr: &str| v1::JoinRequest {
        token: made.token.clone(),
        node: node.to_owned(),
        csr_pem: csr.to_owned(),
    };
    assert_eq!(error(enroll.join(join("n1", &key.csr_pem)).await).class, ErrorClass::Denied, "bound to n0");
    assert_eq!(error(enroll.join(join("n0", "garbage")).await).class, ErrorClass::Invalid);
    let joined = enroll.join(join("n0", &key.csr_pem)).await.unwrap().into_inner();
    let other = KeyRequest::generate().unwrap();
    let second = error(enroll.join(join("n0", &other.csr_pem)).await);
    assert_eq!((second.class, second.reason.as_str()), (ErrorClass::Denied, "TOKEN_USED"));
    // The answer of the first may have been lost: the same request may be repeated.
    enroll.join(join("n0", &key.csr_pem)).await.unwrap();
    let slot = CertificateSlot::new(&joined.certificate_pem, &key.key_pem).unwrap();
    let node = world.client_with(&Credentials::new(Trust::Ca(joined.ca_pem)).with_certificate(slot));
    let _agent = FakeAgent::connect(node.clone(), "n0", Behaviour::Linger).await;
    let renewed = v1::RenewCertificateRequest { csr_pem: other.csr_pem.clone() };
    let renewed = AgentServiceClient::new(node).renew_certificate(renewed).await.unwrap().into_inner();
    assert!(CertificateSlot::new(&renewed.certificate_pem, &other.key_pem).is_ok());
    // A controller may be away for weeks, and its nodes can still renew afterwards.
    for expires in [joined.expires, renewed.expires] {
        let left = SystemTime::try_from(expires.unwrap()).unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(left > NODE_LIFETIME - Duration::from_secs(3600) && left <= NODE_LIFETIME, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_neither_renews_nor_connects() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = AgentServiceClient::new(world.node("n0").await.without_timeout());
    let key = KeyRequest::generate().unwrap();
    let renew = v1::RenewCertificateRequest { csr_pem: key.csr_pem.clone() };
    agents.renew_certificate(renew.clone()).await.unwrap();
    let mut nodes = NodeServiceClient::new(world.admin());
    nodes
        .delete_node(v1::DeleteNodeRequest { name: "n0".into(), ..v1::DeleteNodeRequest::default() })
        .await
        .unwrap();
    let refused = error(agents.renew_certificate(renew).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Denied, "NODE_NOT_FOUND"));
    assert!(refused.to_string().contains("this node was deleted"), "{refused}");
    let register = v1::AgentMessage {
        body: Some(v1::agent_message::Body::Register(v1::Register {
            node: "n0".to_owned(),
            inventory: Some(crate::agent::inventory(1, 1)),
            ..v1::Register::default()
        })),
    };
    let refused = error(agents.connect(tokio_stream::iter([register])).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Denied, "NODE_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_tenant_again_removes_the_tokens_that_were_left() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    // What is left when the controller ended between the tenant's removal and that of its tokens.
    let identity = Identity::user("ghost", "eve", [Role::User]).unwrap();
    let expires = world.handle.now().plus(Duration::from_secs(3600));
    let token = world
        .handle
        .issue_token(&crate::world::who(), &identity, crate::world::CLUSTER, expires)
        .await
        .unwrap();
    world.handle.identify(&token, crate::world::CLUSTER).await.unwrap();
    let mut admin = TenantServiceClient::new(world.admin());
    let again = error(
        admin.delete_tenant(v1::DeleteTenantRequest { name: "ghost".into(), ..Default::default() }).await,
    );
    assert_eq!((again.class, again.reason.as_str()), (ErrorClass::NotFound, "TENANT_UNKNOWN"));
    assert!(world.handle.identify(&token, crate::world::CLUSTER).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_speaks_for_itself_only() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = AgentServiceClient::new(world.node("n0").await.without_timeout());
    let register = |node: &str| v1::AgentMessage {
        body: Some(v1::agent_message::Body::Register(v1::Register {
            node: node.to_owned(),
            inventory: Some(crate::agent::inventory(1, 1)),
            ..v1::Register::default()
        })),
    };
    let foreign = error(agents.connect(tokio_stream::iter([register("n1")])).await);
    assert_eq!((foreign.class, foreign.reason.as_str()), (ErrorClass::Denied, "FOREIGN_NODE"));
    let beat = v1::AgentMessage { body: Some(v1::agent_message::Body::Heartbeat(v1::Heartbeat::default())) };
    assert_eq!(error(agents.connect(tokio_stream::iter([beat])).await).class, ErrorClass::Invalid);
    assert_eq!(
        world.metric("rail_refusals_total{rpc=\"Connect\",role=\"node\",reason=\"FOREIGN_NODE\"}"),
        1.0
    );
    // An epoch of the far future cannot depose this controller: the store says who leads.
    let mut liar = register("n0");
    if let Some(v1::agent_message::Body::Register(register)) = liar.body.as_mut() {
        register.epoch = u64::MAX;
    }
    assert!(agents.connect(tokio_stream::iter([liar])).await.is_err());
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    assert!(*agent.epoch.lock().unwrap() > 0);
}

fn issue(tenant: &str, role: v1::Role, csr: &str) -> v1::IssueCertificateRequest {
    v1::IssueCertificateRequest {
        csr_pem: csr.to_owned(),
        tenant: tenant.to_owned(),
        user: "eve".to_owned(),
        role: role.into(),
        lifetime: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_give_away_what_they_have_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let manager = Identity::user("default", "boss", [Role::TenantAdmin]).unwrap();
    let mut manages = TenantServiceClient::new(world.client(&manager));
    let mut admin = TenantServiceClient::new(world.admin());
    let key = KeyRequest::generate().unwrap();
    let issued =
        manages.issue_certificate(issue("", v1::Role::User, &key.csr_pem)).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let eve = world.client_with(&Credentials::new(Trust::Ca(issued.ca_pem)).with_certificate(slot));
    let me = TenantServiceClient::new(eve).who_am_i(v1::WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!((me.tenant.as_str(), me.user.as_str(), me.role()), ("default", "eve", v1::Role::User));
    for (tenant, role, class) in [
        ("", v1::Role::Admin, ErrorClass::Denied),
        ("other", v1::Role::User, ErrorClass::Denied),
        ("", v1::Role::Node, ErrorClass::Invalid),
        ("", v1::Role::Unspecified, ErrorClass::Invalid),
    ] {
        let refused = error(manages.issue_certificate(issue(tenant, role, &key.csr_pem)).await);
        assert_eq!(refused.class, class, "{tenant} {role:?}");
    }
    assert_eq!(
        error(admin.issue_certificate(issue("absent", v1::Role::User, &key.csr_pem)).await).class,
        ErrorClass::NotFound
    );
    admin.issue_certificate(issue("", v1::Role::Admin, &key.csr_pem)).await.unwrap();
    let mut long = issue("default", v1::Role::User, &key.csr_pem);
    long.lifetime = Some(prost_types::Duration { seconds: 31 * 86_400, nanos: 0 });
    assert_eq!(error(admin.issue_certificate(long).await).class, ErrorClass::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_speak_for_a_user_until_they_end_or_the_tenant_goes() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut admin = TenantServiceClient::new(world.admin());
    let tenant = v1::Tenant {
        metadata: Some(v1::Metadata { name: "nlp".into(), ..v1::Metadata::default() }),
        spec: Some(v1::TenantSpec::default()),
        ..v1::Tenant::default()
    };
    let apply = v1::ApplyTenantRequest { tenant: Some(tenant), dry_run: false, reuse_name: false };
    admin.apply_tenant(apply.clone()).await.unwrap();
    let ask = |seconds| v1::IssueTokenRequest {
        tenant: "nlp".into(),
        user: "bot".into(),
        role: v1::Role::Viewer.into(),
        lifetime: Some(prost_types::Duration { seconds, nanos: 0 }),
    };
    let token = admin.issue_token(ask(60)).await.unwrap().into_inner().token;
    let all = world.handle.store().range_all("/rail/v1/tokens/".into()).await.unwrap();
    let secret = token.rsplit('.').next().unwrap();
    for kv in &all.items {
        assert!(!String::from_utf8_lossy(&kv.value).contains(secret), "only a hash is stored");
    }
    let bot = world.bearer(&token);
    let list = v1::ListJobsRequest::default;
    JobServiceClient::new(bot.clone()).list_jobs(list()).await.unwrap();
    let cancel = v1::CancelJobRequest { name: "x".into(), ..v1::CancelJobRequest::default() };
    assert_eq!(error(JobServiceClient::new(bot.clone()).cancel_job(cancel).await).class, ErrorClass::Denied);
    let mut forged = token.clone().into_bytes();
    let last = forged.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let forged = world.bearer(&String::from_utf8(forged).unwrap());
    let refused = error(JobServiceClient::new(forged).list_jobs(list()).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Unauthenticated, "BAD_TOKEN"));
    let short = admin.issue_token(ask(1)).await.unwrap().into_inner();
    let ends = SystemTime::try_from(short.expires.unwrap()).unwrap();
    let mut bearer = JobServiceClient::new(world.bearer(&short.token));
    let expired = loop {
        let asked = SystemTime::now();
        if let Err(status) = bearer.list_jobs(list()).await {
            break error::<()>(Err(status));
        }
        assert!(asked < ends, "it is taken after its end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(expired.reason, "TOKEN_EXPIRED");
    assert!(SystemTime::now() >= ends, "it ended before its time");
    admin.delete_tenant(v1::DeleteTenantRequest { name: "nlp".into(), ..Default::default() }).await.unwrap();
    let rests = error(admin.apply_tenant(apply.clone()).await);
    assert_eq!((rests.class, rests.reason.as_str()), (ErrorClass::Conflict, "TENANT_NAME_RESTS"), "{rests}");
    assert!(rests.message.contains("rests until 2"), "{rests}");
    let reuse = v1::ApplyTenantRequest { reuse_name: true, ..apply };
    admin.apply_tenant(reuse).await.unwrap();
    let gone = error(JobServiceClient::new(bot).list_jobs(list()).await);
    assert_eq!(gone.reason, "BAD_TOKEN", "a later tenant of that name is another tenant");
}
