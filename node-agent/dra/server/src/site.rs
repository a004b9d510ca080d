//! A server with the driver on it, as a process, before an API server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use node_agent_dra::{key::DRIVER, slice, sockets::KubeletFolders};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    api::ApiServer,
    kubelet::{Interface, Kubelet},
};

/// Name of the server.
pub const NODE: &str = "n0";
/// Nothing of these takes longer.
const LONGEST: Duration = Duration::from_secs(20);

/// The folders of a server, its API server and the driver.
#[derive(Debug)]
pub struct Site {
    /// The API server.
    pub api: ApiServer,
    folder: TempDir,
    program: PathBuf,
    process: Mutex<Option<Child>>,
}

impl Site {
    /// A server with so many rails, NICs `mlx5_0` and so on at PCI addresses `0000:00:00.0`, `0000:01:00.0` and so on. `program` is rail-dra-driver,
    /// which is not started yet.
    pub async fn new(program: &Path, rails: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let api = ApiServer::start().await;
        api.write_credentials(folder.path());
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "uid-of-the-node"}});
        api.objects().put(&format!("/api/v1/nodes/{NODE}"), node);
        let site = Self { api, folder, program: program.to_owned(), process: Mutex::default() };
        for k in 0..rails {
            let listed = site.path("root/sys/class/infiniband_verbs").join(format!("uverbs{k}"));
            fs::create_dir_all(&listed).unwrap();
            fs::write(listed.join("ibdev"), format!("mlx5_{k}\n")).unwrap();
        }
        fs::create_dir_all(site.path("root/sys/class/misc/rdma_cm")).unwrap();
        site.write_inventory(rails, |_| true);
        site
    }

    /// What the server has from now on: its NICs, and which of them are up.
    pub fn write_inventory(&self, rails: usize, up: impl Fn(usize) -> bool) {
        let nic = |k: usize| {
            json!({
                "device": format!("mlx5_{k}"), "netdev": format!("rail{k}"), "pciAddress": format!("0000:{k:02x}:00.0"),
                "numaNode": 0, "rail": k, "address": format!("10.{k}.0.1"), "mtu": 9000, "speedMbps": 400_000, "up": up(k),
                "gidIndex": 3,
            })
        };
        let nics: Vec<Value> = (0..rails).map(nic).collect();
        let inventory = json!({"nics": nics, "numaNodes": 1, "cpus": 8, "memoryBytes": 1024});
        // In one step: the driver reads it at any time.
        fs::write(self.path("inventory.new"), inventory.to_string()).unwrap();
        fs::rename(self.path("inventory.new"), self.path("inventory.json")).unwrap();
    }

    /// A path in the server's folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Kubelet's folders.
    #[must_use]
    pub fn folders(&self) -> KubeletFolders {
        KubeletFolders { plugins: self.path("plugins"), registry: self.path("registry") }
    }

    /// The driver's command line.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().args(["run", "--kubernetes-node", NODE, "--every", "1", "--log", "warn"]);
        command.arg("--api-server").arg(self.api.endpoint.to_string());
        let files = [
            ("--inventory", "inventory.json"),
            ("--state", "state"),
            ("--cdi", "cdi"),
            ("--plugins", "plugins"),
            ("--registry", "registry"),
            ("--kubelet-state", "dra_manager_state"),
            ("--api-ca", "ca.crt"),
            ("--api-token", "token"),
            ("--root", "root"),
        ];
        files.iter().for_each(|(option, name)| _ = command.arg(option).arg(self.path(name)));
        command
    }

    /// Starts the driver, and waits until kubelet could register it.
    pub async fn start(&self) {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let process = self.command().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        *self.process() = Some(process);
        let registration = Kubelet::at(&self.folders().registration(), Interface::V1);
        within(self, "kubelet registers the driver", async || registration.register().await.is_ok()).await;
    }

    /// Ends the driver as a power cut would, but for the disk.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks the driver to end, and says how it did.
    pub fn end(&self) -> Option<ExitStatus> {
        let mut process = self.process().take()?;
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().ok()
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap()
    }

    /// Kubelet's connection for claims.
    #[must_use]
    pub fn kubelet(&self, interface: Interface) -> Kubelet {
        Kubelet::at(&self.folders().plugin(), interface)
    }

    /// Allocates devices to a claim: what the scheduler writes.
    pub fn allocate(&self, uid: &str, name: &str, rails: &[usize]) {
        self.api.objects().put(&claim_path(name), claim(uid, name, rails));
    }

    /// Writes kubelet's list of claims that it has prepared.
    pub fn write_kubelet_state(&self, uids: &[&str]) {
        let entry = |uid: &&str| json!({"ClaimUID": uid, "ClaimName": "c", "Namespace": "ml", "PodUIDs": {}});
        let entries: Vec<Value> = uids.iter().map(entry).collect();
        let data = json!({
            "kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", "Entries": entries,
        });
        let text = json!({"Data": data.to_string(), "Checksum": 0}).to_string();
        fs::write(self.path("dra_manager_state"), text).unwrap();
    }

    /// Deletes a claim.
    pub fn delete_claim(&self, name: &str) {
        self.api.objects().remove(&claim_path(name));
    }

    /// The ResourceSlice, as it is stored.
    #[must_use]
    pub fn slice(&self) -> Option<Value> {
        self.api.objects().get(&format!("/apis/resource.k8s.io/v1/resourceslices/{}", slice::name(NODE)))
    }

    /// UIDs of what is on disk: records of claims, and what container runtimes read.
    #[must_use]
    pub fn on_disk(&self) -> (Vec<String>, Vec<String>) {
        let names = |folder: &str, prefix: &str| {
            let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut uids: Vec<String> = names
                .filter_map(|name| Some(name.strip_prefix(prefix)?.trim_end_matches(".json").to_owned()))
                .collect();
            uids.sort();
            uids
        };
        (names("state/claims", ""), names("cdi", &format!("{DRIVER}-")))
    }

    /// The specification that container runtimes read for a claim.
    #[must_use]
    pub fn specification(&self, uid: &str) -> Option<Value> {
        let text = fs::read(self.path("cdi").join(format!("{DRIVER}-{uid}.json"))).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// What the driver has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}

fn claim_path(name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/{name}")
}

/// A claim of the namespace `ml` that was given these rails, as Kubernetes stores it.
#[must_use]
pub fn claim(uid: &str, name: &str, rails: &[usize]) -> Value {
    let result = |k: &usize| json!({"request": "rails", "driver": DRIVER, "pool": NODE, "device": format!("nic-0000-{k:02x}-00-0")});
    let results: Vec<Value> = rails.iter().map(result).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": "ml", "uid": uid, "resourceVersion": "7",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "rails", "exactly": {
            "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": rails.len(),
        }}]}},
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [NODE]},
                ]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "trainer", "uid": "uid-of-the-pod"}],
        },
    })
}

/// Waits until it is so, and says what was waited for where it never is.
pub async fn within(site: &Site, what: &str, is_so: impl AsyncFn() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < LONGEST, "{what}: not within {LONGEST:?}\n{}", site.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
