//! Secrets and configs: who may do what, who sees what, and what of it is anywhere else.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, config_service_client::ConfigServiceClient, job_service_client::JobServiceClient,
    secret_service_client::SecretServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{error, job},
    world::World,
};

fn metadata(name: &str) -> Option<v1::Metadata> {
    Some(v1::Metadata { name: name.to_owned(), tenant: "red".to_owned(), ..Default::default() })
}

fn data(pairs: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn secret(name: &str, pairs: &[(&str, &str)]) -> v1::Secret {
    v1::Secret { metadata: metadata(name), data: data(pairs), ..Default::default() }
}

pub fn config(name: &str, pairs: &[(&str, &str)]) -> v1::Config {
    v1::Config { metadata: metadata(name), data: data(pairs), ..Default::default() }
}

fn person(tenant: &str, role: Role) -> Identity {
    Identity::user(tenant, "ann", [role]).unwrap()
}

fn keys(secret: &v1::Secret) -> Vec<(String, u32, u64)> {
    let keys = secret.status.clone().unwrap_or_default().keys;
    keys.into_iter().map(|key| (key.name, key.size, key.revision)).collect()
}

fn named(name: &str) -> v1::GetSecretRequest {
    v1::GetSecretRequest { name: name.to_owned(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_a_secret_back_and_everybody_of_the_tenant_a_config() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    world.tenant("blue", 8).await;
    let boss = world.client(&person("red", Role::TenantAdmin));
    let mut secrets = SecretServiceClient::new(boss.clone());
    let apply =
        |pairs: &[(&str, &str)]| v1::ApplySecretRequest { secret: Some(secret("s3", pairs)), dry_run: false };
    let made = secrets.apply_secret(apply(&[("A", "hunter2"), ("B", "x")])).await.unwrap().into_inner();
    assert_eq!((made.data.len(), keys(&made)), (0, vec![("A".into(), 7, 1), ("B".into(), 1, 1)]));
    let made = secrets.apply_secret(apply(&[("A", "hunter3"), ("B", "x")])).await.unwrap().into_inner();
    assert_eq!(keys(&made), [("A".into(), 7, 2), ("B".into(), 1, 1)]);
    let status = made.status.clone().unwrap();
    assert!(status.updated_by == "ann" && status.update_time.is_some());
    // A document as it is read back changes nothing.
    let again = v1::ApplySecretRequest { secret: Some(made.clone()), dry_run: false };
    assert_eq!(secrets.apply_secret(again).await.unwrap().into_inner(), made);
    let refused = error(
        secrets
            .apply_secret(v1::ApplySecretRequest { secret: Some(secret("new", &[])), dry_run: false })
            .await,
    );
    assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Invalid, "data"));

    let mut configs = ConfigServiceClient::new(boss);
    let wanted = Some(config("train", &[("MODE", "fast")]));
    configs.apply_config(v1::ApplyConfigRequest { config: wanted, dry_run: false }).await.unwrap();

    for (role, sees_keys) in [(Role::TenantAdmin, true), (Role::User, true), (Role::Viewer, false)] {
        let client = world.client(&person("red", role));
        let mut secrets = SecretServiceClient::new(client.clone());
        let one = secrets.get_secret(named("s3")).await.unwrap().into_inner();
        let list = secrets.list_secrets(v1::ListSecretsRequest::default()).await.unwrap().into_inner();
        assert_eq!(list.secrets, std::slice::from_ref(&one));
        assert!(one.data.is_empty() && keys(&one).is_empty() != sees_keys, "{role:?}: {one:?}");
        let mut configs = ConfigServiceClient::new(client);
        let list = configs.list_configs(v1::ListConfigsRequest::default());
        assert_eq!(list.await.unwrap().into_inner().configs[0].data["MODE"], "fast");
        if role != Role::TenantAdmin {
            let denied = error(secrets.apply_secret(apply(&[("A", "y")])).await);
            assert_eq!(denied.class, ErrorClass::Denied);
        }
    }
    refused_to_others(&world).await;
    world.stop().await;
}

/// Another tenant has none of it, whatever it asks for; and jobs that refer to what is not there are told so.
async fn refused_to_others(world: &World) {
    let blue = world.client(&person("blue", Role::TenantAdmin));
    let mut foreign = SecretServiceClient::new(blue.clone());
    let list = foreign.list_secrets(v1::ListSecretsRequest::default()).await.unwrap().into_inner();
    assert!(list.secrets.is_empty());
    let denied = foreign.get_secret(v1::GetSecretRequest { name: "s3".into(), tenant: "red".into() });
    assert_eq!(error(denied.await).reason, "FOREIGN_TENANT");
    assert_eq!(error(foreign.get_secret(named("s3")).await).reason, "SECRET_NOT_FOUND");
    let mut jobs = JobServiceClient::new(blue);
    let submit = |key: &str| {
        let mut job = job("uses", 1);
        let reference = v1::DataRef { name: "s3".into(), key: key.into() };
        let source = Some(v1::env_source::Source::SecretRef(reference));
        if let Some(v1::job_spec::Work::Command(command)) = job.spec.as_mut().unwrap().work.as_mut() {
            command.env_from = vec![v1::EnvSource { name: String::new(), source }];
        }
        v1::CreateJobRequest { job: Some(job), ..Default::default() }
    };
    let refused = error(jobs.create_job(submit("A")).await);
    assert_eq!(refused.violations[0].field, "spec.command.envFrom[0].secretRef.name");
    let mut jobs = JobServiceClient::new(world.user("red"));
    let refused = error(jobs.create_job(submit("C")).await);
    let violation = &refused.violations[0];
    assert_eq!(violation.field, "spec.command.envFrom[0].secretRef.key");
    assert!(violation.message.contains("did you mean 'A'?"), "{violation:?}");
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    let made = jobs.create_job(submit("A")).await.unwrap().into_inner();
    assert!(!format!("{made:?}").contains("hunter"), "{made:?}");
}
