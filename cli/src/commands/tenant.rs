//! Tenants, their quotas, and their users' credentials.

use std::path::Path;

use proto_model::many;
use proto_rpc::{KeyRequest, files};
use proto_wire::v1;

use super::{cancel::duration, lookup};
use crate::{
    args::{Global, RoleArg, TenantCommand},
    client::{Api, once, repeat},
    config::{ConfigFile, Context, Environment, resolve},
    error::Error,
    output::print,
};

/// `tenant create|set-quota|issue-cert|issue-token`: tenants, their quotas and their users' credentials.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or if the tenant to make is there already; [`Error::Usage`] if no tenant
/// is named; [`Error::File`] if a credential cannot be written.
pub async fn run(command: &TenantCommand, api: &Api, flags: &Global, env: &Environment) -> Result<(), Error> {
    match command {
        TenantCommand::Create { name, gpus, jobs, stored_mib, isolation, description, reuse_name } => {
            refuse_known(name, api).await?;
            let spec = v1::TenantSpec {
                description: description.clone(),
                quota: Some(v1::Quota {
                    gpus: *gpus,
                    jobs: *jobs,
                    stored_bytes: stored_mib << 20,
                    ..v1::Quota::default()
                }),
                isolation: (*isolation).into(),
            };
            apply(name, spec, *reuse_name, api).await?;
            eprintln!("tenant {name} is created with {}", many(gpus, "GPU"));
            Ok(())
        }
        TenantCommand::SetQuota {
            name,
            gpus,
            jobs,
            guaranteed,
            weight,
            stored_mib,
            schedules,
            isolation,
        } => {
            let mut spec = lookup::tenant(name, api).await?.spec.unwrap_or_default();
            let quota = spec.quota.get_or_insert_default();
            quota.gpus = gpus.unwrap_or(quota.gpus);
            quota.jobs = jobs.unwrap_or(quota.jobs);
            quota.guaranteed = guaranteed.or(quota.guaranteed);
            quota.weight = weight.unwrap_or(quota.weight);
            quota.schedules = schedules.unwrap_or(quota.schedules);
            quota.stored_bytes = stored_mib.map_or(quota.stored_bytes, |mib| mib << 20);
            spec.isolation = isolation.map_or(spec.isolation, Into::into);
            let reported = format!("tenant {name} may hold {}", many(quota.gpus, "GPU"));
            apply(name, spec, false, api).await?;
            eprintln!("{reported}");
            Ok(())
        }
        TenantCommand::IssueCert { user, role, lifetime, out, add_context } => {
            let lifetime = lifetime.map(duration).transpose()?;
            let paths = issue_certificate(user, *role, lifetime, out, api).await?;
            match add_context {
                Some(name) => add_context_of(name, &paths, *role, api, flags, env),
                None => Ok(()),
            }
        }
        TenantCommand::IssueToken { user, role, lifetime } => {
            let lifetime = lifetime.map(duration).transpose()?;
            let tenant = tenant_for(*role, api)?;
            let request =
                v1::IssueTokenRequest { tenant, user: user.clone(), role: role_number(*role), lifetime };
            let answer =
                once(format!("issue a token for `{user}`"), api.tenants().issue_token(request)).await?;
            eprintln!("shown once; give it as RAIL_TOKEN or in a file by --token");
            print(&format!("{}\n", answer.token))
        }
    }
}

async fn refuse_known(name: &str, api: &Api) -> Result<(), Error> {
    if !api.list_tenants().await?.tenants.iter().any(|tenant| named(tenant, name)) {
        return Ok(());
    }
    let text = format!("tenant `{name}` exists; `railctl tenant set-quota {name}` changes its quota");
    let error = proto_rpc::RpcError::new(proto_rpc::ErrorClass::AlreadyExists, "NAME_TAKEN", text);
    Err(Error::Rpc { doing: "create tenant".to_owned(), error: Box::new(error) })
}

fn named(tenant: &v1::Tenant, name: &str) -> bool {
    tenant.metadata.as_ref().is_some_and(|metadata| metadata.name == name)
}

async fn apply(name: &str, spec: v1::TenantSpec, reuse_name: bool, api: &Api) -> Result<v1::Tenant, Error> {
    let tenant = v1::Tenant {
        api_version: "rail/v1".to_owned(),
        kind: "Tenant".to_owned(),
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(spec),
        status: None,
    };
    let request = v1::ApplyTenantRequest { tenant: Some(tenant), dry_run: false, reuse_name };
    repeat(format!("apply tenant `{name}`"), |_| {
        let (mut client, request) = (api.tenants(), request.clone());
        async move { client.apply_tenant(request).await }
    })
    .await
}

fn role_number(role: RoleArg) -> i32 {
    let role = match role {
        RoleArg::Admin => v1::Role::Admin,
        RoleArg::TenantAdmin => v1::Role::TenantAdmin,
        RoleArg::User => v1::Role::User,
        RoleArg::Viewer => v1::Role::Viewer,
    };
    role.into()
}

/// The tenant of the credential: an administrator belongs to none.
fn tenant_for(role: RoleArg, api: &Api) -> Result<String, Error> {
    match (role, api.tenant.as_str()) {
        (RoleArg::Admin, _) => Ok(String::new()),
        (_, "") => Err(Error::Usage("say of which tenant the user is: --tenant TENANT".to_owned())),
        (_, tenant) => Ok(tenant.to_owned()),
    }
}

struct Issued {
    cert: std::path::PathBuf,
    key: std::path::PathBuf,
    ca: std::path::PathBuf,
}

/// The key is made here and never leaves this machine.
async fn issue_certificate(
    user: &str,
    role: RoleArg,
    lifetime: Option<prost_types::Duration>,
    out: &Path,
    api: &Api,
) -> Result<Issued, Error> {
    let tenant = tenant_for(role, api)?;
    let request = KeyRequest::generate().map_err(|error| Error::Config(error.to_string()))?;
    let asked = v1::IssueCertificateRequest {
        csr_pem: request.csr_pem.clone(),
        tenant,
        user: user.to_owned(),
        role: role_number(role),
        lifetime,
    };
    let answer =
        once(format!("issue a certificate for `{user}`"), api.tenants().issue_certificate(asked)).await?;
    let out = std::path::absolute(out).map_err(|error| Error::file("find", out, error))?;
    std::fs::create_dir_all(&out).map_err(|error| Error::file("create", &out, error))?;
    let file = |suffix: &str| out.join(format!("{user}{suffix}"));
    let paths = Issued { cert: file(".pem"), key: file(".key"), ca: out.join("ca.pem") };
    let failed = |error: files::FileError| Error::Config(error.to_string());
    files::write_secret(&paths.key, &request.key_pem).map_err(failed)?;
    files::write_public(&paths.cert, &answer.certificate_pem).map_err(failed)?;
    files::write_public(&paths.ca, &answer.ca_pem).map_err(failed)?;
    print(&format!("{}\n{}\n{}\n", paths.cert.display(), paths.key.display(), paths.ca.display()))?;
    Ok(paths)
}

fn add_context_of(
    name: &str,
    paths: &Issued,
    role: RoleArg,
    api: &Api,
    flags: &Global,
    env: &Environment,
) -> Result<(), Error> {
    let Some(config) = env.config_path() else {
        return Err(Error::Config("neither HOME nor RAIL_CONFIG is set: no context is added".to_owned()));
    };
    let settings = resolve(flags, env, &ConfigFile::load(Some(&config))?)?;
    let context = Context {
        controller: settings.controller,
        ca: Some(paths.ca.clone()),
        cert: Some(paths.cert.clone()),
        key: Some(paths.key.clone()),
        token: None,
        tenant: Some(tenant_for(role, api)?).filter(|tenant| !tenant.is_empty()),
        oidc: None,
    };
    ConfigFile::update(&config, |file| drop(file.contexts.insert(name.to_owned(), context)))?;
    eprintln!("context `{name}` is added to {}; use it by --context {name}", config.display());
    Ok(())
}
