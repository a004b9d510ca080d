//! The controller of row D9 and its bad company, as processes.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use integration_harness::{binaries, procfs};
use proto_rpc::{Client, KeyRequest, files};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    load::{Caller, Kind},
    node,
};

/// A controller is ready within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// Jobs that wait in each tenant, for lists and watches to be about something.
const JOBS: usize = 20;
/// Both tenants; the second one is greedy.
const TENANTS: [&str; 2] = ["modest", "greedy"];

/// A controller with two tenants.
pub struct Server {
    child: Child,
    dir: TempDir,
    endpoint: String,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Server {
    /// Starts a controller without further arguments.
    ///
    /// # Errors
    /// As [`Self::start_with`].
    pub async fn start() -> Result<Self, String> {
        Self::start_with(&[]).await
    }

    /// Starts one with further flags.
    ///
    /// # Errors
    /// `init` fails, with its standard error as text; the controller does not come up in time, with its log
    /// as text; or it refuses the tenants, the users or the node.
    pub async fn start_with(flags: &[&str]) -> Result<Self, String> {
        let program = binaries::directory()?.join("rail-controller");
        let dir = TempDir::with_prefix("railyard-overload-").map_err(text)?;
        let data = dir.path();
        let made = Command::new(&program).arg("init").arg("--data-dir").arg(data).output().map_err(text)?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let log = std::fs::File::create(data.join("log")).map_err(text)?;
        let mut command = Command::new(&program);
        command.args(["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-level", "warn"]);
        // All callers come from one address here, and all bad company is of one tenant.
        command.args(["--max-connections", "65536", "--max-connections-per-tenant", "16384"]);
        command.args(["--max-connections-per-address", "20000"]).arg("--data-dir").arg(data);
        command.args(flags);
        let child = command.stdin(Stdio::null()).stderr(log).spawn().map_err(text)?;
        let mut server = Self { child, dir, endpoint: String::new() };
        server.endpoint = server.ready().await?;
        server.furnish().await?;
        Ok(server)
    }

    async fn ready(&self) -> Result<String, String> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let json = std::fs::read_to_string(self.dir.path().join("controller.json")).ok();
            let json = json.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if let Some(json) = json.filter(|json| json["pid"] == self.child.id())
                && let Some(endpoint) = json["endpoints"][0].as_str()
            {
                return Ok(endpoint.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default())
    }

    /// The address at which it listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The path of the certificate of its CA.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn identity(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn caller(&self, name: &str) -> Result<Client, String> {
        Caller::new(&self.endpoint, &self.ca(), &self.identity(name))?.client()
    }

    /// The caller that is measured.
    ///
    /// # Errors
    /// The files of its identity cannot be read.
    pub fn modest(&self) -> Result<Client, String> {
        self.caller(TENANTS[0])
    }

    /// An administrator, on a connection of its own.
    ///
    /// # Errors
    /// The files of its identity cannot be read.
    pub fn administrator(&self) -> Result<Client, String> {
        self.caller("admin")
    }

    /// The agent of the one server.
    ///
    /// # Errors
    /// The files of its identity cannot be read.
    pub fn agent(&self) -> Result<Client, String> {
        self.caller("agent")
    }

    async fn furnish(&self) -> Result<(), String> {
        let admin = self.caller("admin")?;
        let (certificate, key) =
            node::join(&admin, |credentials| Caller::of(&self.endpoint, credentials)).await?;
        files::write_secret(&self.identity("agent").with_extension("key"), &key).map_err(text)?;
        files::write_public(&self.identity("agent").with_extension("pem"), &certificate).map_err(text)?;
        for tenant in TENANTS {
            let mut tenants = TenantServiceClient::new(admin.clone());
            let metadata = v1::Metadata { name: tenant.to_owned(), ..v1::Metadata::default() };
            let quota = Some(v1::Quota { gpus: 8, ..v1::Quota::default() });
            let made = v1::Tenant {
                metadata: Some(metadata),
                spec: Some(v1::TenantSpec { quota, ..v1::TenantSpec::default() }),
                ..v1::Tenant::default()
            };
            let request = v1::ApplyTenantRequest { tenant: Some(made), dry_run: false, reuse_name: false };
            tenants.apply_tenant(request).await.map_err(text)?;
            let key = KeyRequest::generate().map_err(text)?;
            let ask = v1::IssueCertificateRequest {
                csr_pem: key.csr_pem.clone(),
                tenant: tenant.to_owned(),
                user: "caller".to_owned(),
                role: v1::Role::User.into(),
                lifetime: None,
            };
            let issued = tenants.issue_certificate(ask).await.map_err(text)?.into_inner();
            let at = self.identity(tenant);
            files::write_secret(&at.with_extension("key"), &key.key_pem).map_err(text)?;
            files::write_public(&at.with_extension("pem"), &issued.certificate_pem).map_err(text)?;
            let mut jobs = JobServiceClient::new(self.caller(tenant)?);
            for number in 0..JOBS {
                let request = v1::CreateJobRequest {
                    job: Some(crate::command_job::command_job(&format!("waits-{number}"), 1, &["/bin/true"])),
                    request_id: uuid::Uuid::new_v4().to_string(),
                    ..v1::CreateJobRequest::default()
                };
                jobs.create_job(request).await.map_err(text)?;
            }
        }
        Ok(())
    }

    /// Seconds that the controller was at work.
    pub fn cpu_seconds(&self) -> f64 {
        procfs::cpu_seconds(self.child.id())
    }

    /// Memory of the controller now, in KiB.
    pub fn rss_kib(&self) -> u64 {
        procfs::rss_kib(self.child.id())
    }

    /// Memory of the controller now.
    pub fn rss_mib(&self) -> u64 {
        procfs::rss_mib(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load process at work.
pub struct Company(Child);

impl Company {
    /// Starts it, and waits until all of its load is there.
    ///
    /// # Errors
    /// The process cannot be started, or its load is not there.
    pub fn start(server: &Server, kind: Kind, count: usize) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(text)?;
        let name = match kind {
            Kind::Idle => "idle",
            Kind::Slow => "slow",
            Kind::Reset => "reset",
            Kind::Greedy => "greedy",
            Kind::Pages => "pages",
        };
        // Pages are an administrator's, who sees all; bad company is of one tenant.
        let whose = if kind == Kind::Pages { "admin" } else { TENANTS[1] };
        let mut child = Command::new(program)
            .args(["overload-load", name, "--count", &count.to_string(), "--controller", &server.endpoint])
            .arg("--ca")
            .arg(server.ca())
            .arg("--identity")
            .arg(server.identity(whose))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.as_mut() {
            BufReader::new(out).read_line(&mut line).map_err(text)?;
        }
        let company = Self(child);
        if line.trim() == "ready" { Ok(company) } else { Err(format!("the load of {name} did not come up")) }
    }

    /// Ends it; an error if it ended before.
    ///
    /// # Errors
    /// The process ended before, with its exit status as text.
    pub fn end(mut self) -> Result<(), String> {
        match self.0.try_wait().map_err(text)? {
            Some(status) => Err(format!("the load ended too early: {status}")),
            None => Ok(()),
        }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
