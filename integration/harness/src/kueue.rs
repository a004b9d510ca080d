//! A real Kueue beside a real API server: its program as a process, with kubelet's part of its certificates played. Its admission webhooks are not
//! installed, for an API server on loopback does not find its service: whoever makes a Job suspends it, as Kueue's webhook would.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    Kubernetes,
    etcd::{free_port, get, tied},
    kubernetes,
    wait::eventually,
};

/// Longest wait for it to serve.
const PATIENCE: Duration = Duration::from_secs(180);
const NAMESPACE: &str = "kueue-system";
/// Where it keeps the certificates that it makes.
const SECRET: &str = "kueue-webhook-server-cert";

/// A Kueue that runs, and ends when dropped.
#[derive(Debug)]
pub struct Kueue {
    child: Child,
    folder: tempfile::TempDir,
}

/// Where Kueue is: the folder `RAIL_TEST_KUEUE` with its program `kueue` and the folder `crds` with its definitions. `None` where the variable is not set.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("RAIL_TEST_KUEUE").filter(|folder| !folder.is_empty()).map(Into::into)
}

/// Why [`Kueue`] cannot be had here; `None` where it can.
#[must_use]
pub fn missing() -> Option<String> {
    let Some(folder) = folder() else {
        return Some("a real Kueue needs RAIL_TEST_KUEUE, a folder with its program and its crds (cargo xtask lab kube --kueue builds them)".to_owned());
    };
    let missing = ["kueue", "crds"].into_iter().find(|name| !folder.join(name).exists());
    missing
        .map(|name| format!("RAIL_TEST_KUEUE: {} has no {name}", folder.display()))
        .or_else(|| kubernetes::missing(true))
}

impl Kueue {
    /// Installs its definitions, starts it, and waits until it serves.
    ///
    /// # Errors
    /// Something of it is missing, or it does not serve; with the end of its log.
    pub fn start(kubernetes: &Kubernetes) -> Result<Self, String> {
        let from = folder().ok_or("RAIL_TEST_KUEUE is not set")?;
        define(kubernetes, &from.join("crds"))?;
        kubernetes.kubectl(&["create", "namespace", NAMESPACE])?;
        kubernetes.kubectl(&["create", "secret", "generic", SECRET, "--namespace", NAMESPACE])?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.path().display());
        let (webhook, health) = (free_port()?, free_port()?);
        let certificates = folder.path().join("certificates");
        fs::create_dir(&certificates).map_err(wrong)?;
        let config = folder.path().join("config.json");
        fs::write(&config, configuration(webhook, health, &certificates.display().to_string()).to_string())
            .map_err(wrong)?;
        let log = File::create(folder.path().join("log")).map_err(wrong)?;
        let mut command = tied(&from.join("kueue"));
        command.arg("--config").arg(&config).arg("--feature-gates=VisibilityOnDemand=false");
        command.env("KUBECONFIG", kubernetes.kubeconfig()).env("HOME", folder.path());
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start kueue: {error}"))?;
        let kueue = Self { child, folder };
        kueue.serves(kubernetes, health).map_err(|error| format!("{error}\n{}", kueue.log()))?;
        Ok(kueue)
    }

    fn serves(&self, kubernetes: &Kubernetes, health: SocketAddr) -> Result<(), String> {
        let secret = ["secret", SECRET, "--namespace", NAMESPACE];
        let data = eventually("Kueue's certificates", PATIENCE, || {
            let data = kubernetes.get(&secret).ok()?["data"].clone();
            (data["tls.crt"].is_string() && data["tls.key"].is_string()).then_some(data)
        })?;
        for name in ["ca.crt", "tls.key", "tls.crt"] {
            let template = format!("{{{{index .data \"{name}\" | base64decode}}}}");
            let output = format!("--output=go-template={template}");
            let arguments = [&["get"][..], &secret, &[&output]].concat();
            let text = if data[name].is_string() { kubernetes.kubectl(&arguments)? } else { String::new() };
            let path = self.folder.path().join("certificates").join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let ready = || get(health, "/readyz").filter(|answer| answer.contains(" 200 ")).map(drop);
        eventually("Kueue to be ready", PATIENCE, ready)
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Kueue {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(webhook: SocketAddr, health: SocketAddr, certificates: &str) -> Value {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": health.to_string()},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": webhook.ip().to_string(), "port": webhook.port(), "certDir": certificates},
        "leaderElection": {"leaderElect": false},
        "integrations": {"frameworks": ["batch/job"]},
        "clientConnection": {"qps": 300, "burst": 500},
    })
}

/// Its definitions. The old version is not served, for that needs a webhook; where Kueue puts its authority's certificate is an address that nobody calls.
fn define(kubernetes: &Kubernetes, folder: &std::path::Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path().display().to_string();
        let read = ["create", "--dry-run=client", "--output=json", "--filename", &path];
        let text = kubernetes.kubectl(&read)?;
        let mut definition: Value =
            serde_json::from_str(&text).map_err(|error| format!("{path} is not one definition: {error}"))?;
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["served"] = version["storage"].clone();
        }
        definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}});
        kubernetes.create(&definition)?;
    }
    kubernetes.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]).map(drop)
}
