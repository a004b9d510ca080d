//! A real Kubernetes on loopback without a cluster: etcd, kube-apiserver, kube-scheduler and, of kube-controller-manager, the few controllers that pods
//! with claims need. Its nodes are objects alone: no kubelet runs and no container starts, and a test plays kubelet's part.
//!
//! Everybody has a token and what RBAC gives them, as in a cluster. `cargo xtask lab kube` builds the programs.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

use proto_rpc::{
    Ca,
    ca::{CA_LIFETIME, NODE_LIFETIME},
};
use serde_json::{Value, json};

use crate::{
    etcd::{Etcd, free_port, tied},
    wait::eventually,
};

/// What has to be in the folder of programs.
pub const PROGRAMS: [&str; 4] = [API_SERVER, "kubectl", "kube-scheduler", "kube-controller-manager"];
/// What of it answers without a scheduler and without controllers.
const ALONE: usize = 2;
const API_SERVER: &str = "kube-apiserver";
/// What is noted of calls: all of service accounts, without what was in them, once they are answered.
const AUDIT: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]}"#;
/// Longest wait for a part to serve, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// Controllers that run, by their names of `--controllers`.
const CONTROLLERS: &str =
    "daemonset-controller,garbage-collector-controller,resourceclaim-controller,serviceaccount-controller";
/// Who has a token, with the group that gives them their rights; kubelets have theirs beside these.
const CALLERS: [(&str, &str, &str); 3] = [
    ("admin", "admin", "system:masters"),
    ("scheduler", "system:kube-scheduler", ""),
    ("controllers", "system:kube-controller-manager", ""),
];
/// Bytes of a log's end that are shown.
const SAID: usize = 4096;

/// A Kubernetes that runs, and ends when dropped.
#[derive(Debug)]
pub struct Kubernetes {
    programs: PathBuf,
    address: SocketAddr,
    processes: Vec<(&'static str, Child)>,
    /// Ends after those that use it.
    etcd: Etcd,
    folder: tempfile::TempDir,
}

/// Where the programs are: the folder `RAIL_TEST_KUBE`. `None` where the variable is not set, or there is no etcd.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let folder = std::env::var_os("RAIL_TEST_KUBE").filter(|folder| !folder.is_empty())?;
    Etcd::program().map(|_| folder.into())
}

/// Why [`Kubernetes`] cannot be had here, with its scheduler and controllers or without; `None` where it can.
#[must_use]
pub fn missing(is_whole: bool) -> Option<String> {
    let Some(folder) = programs() else {
        let text = "a real Kubernetes needs etcd and RAIL_TEST_KUBE, a folder with its programs (cargo xtask lab kube builds them)";
        return Some(text.to_owned());
    };
    let needed = if is_whole { &PROGRAMS } else { &PROGRAMS[..ALONE] };
    let missing = needed.iter().find(|name| !folder.join(name).exists())?;
    Some(format!("RAIL_TEST_KUBE: {} has no {missing}", folder.display()))
}

impl Kubernetes {
    /// Starts one with these nodes, each with 128 CPUs, 1 TiB and eight GPUs, and waits until pods can be made.
    ///
    /// # Errors
    /// A program is missing, or does not serve; with the end of its log.
    pub fn up(nodes: &[&str]) -> Result<Self, String> {
        Self::twice(nodes, CONTROLLERS)
    }

    /// As [`Self::up`], with these controllers of kube-controller-manager in place of those that claims need, separated by commas. Without any it is the
    /// API server alone, and pods cannot be made.
    ///
    /// # Errors
    /// As [`Self::up`].
    pub fn with_controllers(nodes: &[&str], controllers: &str) -> Result<Self, String> {
        Self::twice(nodes, controllers)
    }

    fn twice(nodes: &[&str], controllers: &str) -> Result<Self, String> {
        // Another process may have taken a port between its choice and its use.
        Self::begin(nodes, controllers).or_else(|first| {
            Self::begin(nodes, controllers).map_err(|second| format!("{second}; the first time: {first}"))
        })
    }

    fn begin(nodes: &[&str], controllers: &str) -> Result<Self, String> {
        if let Some(missing) = missing(!controllers.is_empty()) {
            return Err(missing);
        }
        let programs = programs().ok_or("RAIL_TEST_KUBE is not set any more")?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let (etcd, address) = (Etcd::start(1, &[])?, free_port()?);
        let mut kubernetes = Self { programs, address, processes: Vec::new(), etcd, folder };
        kubernetes.write_credentials(nodes)?;
        kubernetes.serve()?;
        let objects: Vec<Value> = nodes.iter().map(|node| node_object(node)).collect();
        if !objects.is_empty() {
            kubernetes.create(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
        }
        if controllers.is_empty() {
            return Ok(kubernetes);
        }
        kubernetes.control(controllers)?;
        let account = || kubernetes.kubectl(&["get", "serviceaccount", "default"]).ok();
        eventually("the service account of pods", PATIENCE, account)
            .map_err(|error| kubernetes.with_logs(&error))?;
        Ok(kubernetes)
    }

    /// The API server's address: `https://127.0.0.1:` and its port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The file with the certificate of the API server's authority, PEM.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The file by which kubectl, and whatever else reads such files, finds the API server; of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("admin.conf")
    }

    /// The token of the kubelet of a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn kubelet_token(&self, node: &str) -> Result<String, String> {
        read(&self.path(&format!("kubelet-{node}.token")))
    }

    /// Runs kubectl as the administrator, and gives what it prints.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(None, arguments, "")
    }

    /// Runs kubectl as the administrator with an input.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        self.run(None, arguments, input)
    }

    /// Runs kubectl with a token and an input.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn kubectl_as(&self, token: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        self.run(Some(token), arguments, input)
    }

    /// `kubectl get`, as JSON.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, String> {
        let answer = self.kubectl(&[&["get", "--output=json"][..], arguments].concat())?;
        serde_json::from_str(&answer).map_err(|error| format!("kubectl get {arguments:?}: {error}"))
    }

    /// Makes an object as the administrator.
    ///
    /// # Errors
    /// What kubectl says where it is refused.
    pub fn create(&self, object: &Value) -> Result<(), String> {
        self.run(None, &["create", "--filename=-"], &object.to_string()).map(drop)
    }

    /// What the API server has noted of service accounts' calls, in order: `user`, `verb`, `objectRef` and `responseStatus` of each, as in its audit log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn audited(&self) -> Result<Vec<Value>, String> {
        let text = read(&self.path("audit.log"))?;
        // The last line may be half written.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// How often each object of a kind was written since it was made, 1 for its making, by what follows this part of its key in etcd: `railyard.io/railjobs/`
    /// gives `default/train`. A write that changes nothing is none.
    ///
    /// # Errors
    /// etcd does not answer.
    pub fn writes(&self, kind: &str) -> Result<BTreeMap<String, u64>, String> {
        let prefix = format!("/registry/{kind}");
        let named = |(key, count): (String, u64)| (key[prefix.len()..].to_owned(), count);
        Ok(self.etcd.writes(&prefix)?.into_iter().map(named).collect())
    }

    /// Kills the API server as a machine that dies does.
    pub fn kill_api_server(&mut self) {
        while let Some(at) = self.processes.iter().position(|(name, _)| *name == API_SERVER) {
            end(&mut self.processes.swap_remove(at).1);
        }
    }

    /// Kills the API server, and starts it again at its address and on its data.
    ///
    /// # Errors
    /// It does not serve; with the end of its log.
    pub fn restart_api_server(&mut self) -> Result<(), String> {
        self.kill_api_server();
        self.serve()
    }

    /// The ends of all logs.
    #[must_use]
    pub fn said(&self) -> String {
        let end = |(name, _): &(&str, Child)| {
            let text = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            let mut from = text.len().saturating_sub(SAID);
            while !text.is_char_boundary(from) {
                from += 1;
            }
            format!("--- {name}\n{}\n", &text[from..])
        };
        self.processes.iter().map(end).collect()
    }

    fn with_logs(&self, error: &str) -> String {
        format!("{error}\n{}", self.said())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts kubectl as the administrator, with its output in a pipe, for what takes as long as it likes.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn_kubectl(&self, arguments: &[&str]) -> Result<Child, String> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("kubectl {arguments:?}: {error}"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.programs.join("kubectl"));
        command.env("HOME", self.folder.path()).env("KUBECONFIG", self.kubeconfig());
        command
    }

    fn run(&self, token: Option<&str>, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.command();
        command.arg("--request-timeout=20s");
        if let Some(token) = token {
            command.args(["--token", token]);
        }
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("kubectl {arguments:?}: {error}");
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut pipe) = child.stdin.take() {
            // Whoever refuses the arguments reads none of it.
            let _ = pipe.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// Certificates, keys and tokens of this one alone.
    fn write_credentials(&self, nodes: &[&str]) -> Result<(), String> {
        let wrong = |error: proto_rpc::ca::CaError| format!("certificates: {error}");
        let now = SystemTime::now();
        let ca = Ca::create("kubernetes", now, CA_LIFETIME).map_err(wrong)?;
        let leaf = ca.issue_server(&["127.0.0.1".to_owned()], NODE_LIFETIME, now).map_err(wrong)?;
        write(&self.ca(), ca.certificate_pem())?;
        write(&self.path("server.crt"), &leaf.issued.chain_pem)?;
        write(&self.path("server.key"), &leaf.key_pem)?;
        write(&self.path("audit.yaml"), AUDIT)?;
        let mut lines = String::new();
        for (name, user, group) in CALLERS {
            let token = random_token()?;
            lines.push_str(&format!("{token},{user},{user},\"{group}\"\n"));
            write(&self.path(&format!("{name}.conf")), &self.config(&token).to_string())?;
        }
        for node in nodes {
            let (token, user) = (random_token()?, format!("system:node:{node}"));
            lines.push_str(&format!("{token},{user},{user},\"system:nodes\"\n"));
            write(&self.path(&format!("kubelet-{node}.token")), &token)?;
        }
        write(&self.path("tokens.csv"), &lines)
    }

    fn config(&self, token: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": self.address(), "certificate-authority": self.ca()}}],
            "users": [{"name": "caller", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "caller"}}],
        })
    }

    fn serve(&mut self) -> Result<(), String> {
        let at = |name: &str| self.path(name).display().to_string();
        let arguments = [
            format!("--etcd-servers={}", self.etcd.endpoints()),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={}", self.address.port()),
            format!("--cert-dir={}", at("")),
            format!("--tls-cert-file={}", at("server.crt")),
            format!("--tls-private-key-file={}", at("server.key")),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            // Tokens of accounts are signed with the server's own key. It reads no public key of such a key, and one of a certificate.
            format!("--service-account-key-file={}", at("server.crt")),
            format!("--service-account-signing-key-file={}", at("server.key")),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", at("audit.yaml")),
            format!("--audit-log-path={}", at("audit.log")),
            // It makes new nodes unready until a controller has heard of their kubelets.
            "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
        ];
        self.start(API_SERVER, &arguments)?;
        let ready = eventually("kube-apiserver to be ready", PATIENCE, || {
            let mut servers = self.processes.iter_mut().filter(|(name, _)| *name == API_SERVER);
            if servers.any(|(_, child)| !matches!(child.try_wait(), Ok(None))) {
                return Some(Err("kube-apiserver has ended".to_owned()));
            }
            self.kubectl(&["get", "--raw", "/readyz"]).ok().map(|_| Ok(()))
        });
        ready.and_then(|ready| ready).map_err(|error| self.with_logs(&error))
    }

    fn control(&mut self, controllers: &str) -> Result<(), String> {
        let config = |name: &str| format!("--kubeconfig={}", self.path(&format!("{name}.conf")).display());
        let (scheduler, manager) = (config("scheduler"), config("controllers"));
        // They serve nobody, and are alone.
        let common =
            |config: String| vec![config, "--leader-elect=false".to_owned(), "--secure-port=0".to_owned()];
        self.start("kube-scheduler", &common(scheduler))?;
        let mut arguments = common(manager);
        arguments.push(format!("--controllers={controllers}"));
        arguments.push("--use-service-account-credentials=true".to_owned());
        self.start("kube-controller-manager", &arguments)
    }

    fn start(&mut self, name: &'static str, arguments: &[String]) -> Result<(), String> {
        let path = self.path(&format!("{name}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = tied(&self.programs.join(name));
        command.args(arguments).env("HOME", self.folder.path()).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        self.processes.push((name, child));
        Ok(())
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.processes.iter_mut().rev().for_each(|(_, child)| end(child));
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// A node as its kubelet would say that it is.
fn node_object(name: &str) -> Value {
    let room = json!({"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn random_token() -> Result<String, String> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
