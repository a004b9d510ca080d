//! The operator as a process, as the pod of `deploy/kubernetes/operator.yaml` would run it: with its service account's token, between a real API server
//! and a real controller.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use crate::{
    Controllers, Kubernetes, binaries,
    etcd::{free_port, get, tied},
    wait::eventually,
};

/// Longest wait for it to act.
const PATIENCE: Duration = Duration::from_secs(120);
/// Its namespace, and its service account there.
const NAMESPACE: &str = "railyard";
const ACCOUNT: &str = "rail-operator";

/// An operator, killed when dropped.
#[derive(Debug)]
pub struct Operator {
    arguments: Vec<String>,
    metrics: SocketAddr,
    child: Option<Child>,
    folder: tempfile::TempDir,
}

/// Who asks the controller, and where that is.
#[derive(Debug, Clone)]
pub struct Railyard {
    /// The controller's address; several by commas.
    pub controller: String,
    /// The certificate of its authority.
    pub ca: PathBuf,
    /// An administrator's token.
    pub token: PathBuf,
}

impl Railyard {
    /// These controllers, and a token that their administrator has issued into the first one's folder.
    ///
    /// # Errors
    /// What railctl says where it fails.
    pub fn of(controllers: &Controllers) -> Result<Self, String> {
        let file = |name: &str| controllers.folder(0).join(name);
        let said =
            controllers.railctl(&["tenant", "issue-token", "kubernetes-operator", "--role", "admin"])?;
        let token = file("operator.token");
        fs::write(&token, said).map_err(|error| format!("{}: {error}", token.display()))?;
        Ok(Self { controller: controllers.addresses(), ca: file("ca.pem"), token })
    }
}

impl Operator {
    /// What somebody does first who sets it up: the definitions, the namespace, and the operator's rights. The Deployment is applied and starts nothing.
    ///
    /// # Errors
    /// What kubectl says where the API server refuses something.
    pub fn install(kubernetes: &Kubernetes) -> Result<(), String> {
        let file = |name: &str| binaries::root().join("deploy/kubernetes").join(name).display().to_string();
        kubernetes.kubectl(&["create", "namespace", NAMESPACE])?;
        kubernetes.kubectl(&["apply", "--server-side", "--filename", &file("crds.yaml")])?;
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
        kubernetes.kubectl(&established)?;
        kubernetes.kubectl(&["apply", "--filename", &file("operator.yaml")]).map(drop)
    }

    /// Starts one with further arguments, and waits until it acts.
    ///
    /// # Errors
    /// It has no token, or does not act; with its log.
    pub fn start(kubernetes: &Kubernetes, railyard: &Railyard, more: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let token =
            kubernetes.kubectl(&["create", "token", ACCOUNT, "--namespace", NAMESPACE, "--duration=8h"])?;
        let path = folder.path().join("token");
        fs::write(&path, token.trim()).map_err(|error| format!("{}: {error}", path.display()))?;
        let metrics = free_port()?;
        let shown = |path: &PathBuf| path.display().to_string();
        let options = [
            ("--controller", railyard.controller.clone()),
            ("--ca", shown(&railyard.ca)),
            ("--token-file", shown(&railyard.token)),
            ("--api-server", kubernetes.address()),
            ("--api-ca", shown(&kubernetes.ca())),
            ("--api-token", shown(&path)),
            ("--metrics", metrics.to_string()),
            ("--name", "operator".to_owned()),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        let arguments = options.chain(more.iter().map(|one| (*one).to_owned())).collect();
        let mut operator = Self { arguments, metrics, child: None, folder };
        operator.restart()?;
        Ok(operator)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills it, starts it again, and waits until it acts. The lease is still its own.
    ///
    /// # Errors
    /// It does not; with its log.
    pub fn restart(&mut self) -> Result<(), String> {
        self.kill();
        let path = self.folder.path().join("log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = tied(&binaries::directory()?.join("rail-operator"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAIL_")) {
            command.env_remove(name);
        }
        command.arg("run").args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start rail-operator: {error}"))?;
        self.child = Some(child);
        let acts = || (self.counted("rail_operator_leads") > 0).then_some(());
        eventually("the operator to act", PATIENCE, acts).map_err(|error| format!("{error}\n{}", self.log()))
    }

    /// The sum of its series whose lines begin so, such as `rail_operator_reconciles_total{kind="RailJob"`; 0 while it does not answer.
    #[must_use]
    pub fn counted(&self, series: &str) -> u64 {
        let text = get(self.metrics, "/metrics").unwrap_or_default();
        let values = text.lines().filter(|line| line.starts_with(series));
        values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}
