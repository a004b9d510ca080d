//! A server with the driver on it, as a process: its folders, its rails, and what is left on its disk. Which API server the driver talks to is given.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use node_agent_dra::{key::DRIVER, sockets::KubeletFolders};
use proto_rpc::Endpoint;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubelet::{Interface, Kubelet};

/// Nothing of these takes longer.
const LONGEST: Duration = Duration::from_secs(20);

/// The folders of a server, and the driver.
#[derive(Debug)]
pub struct Server {
    node: String,
    api: Endpoint,
    folder: TempDir,
    program: PathBuf,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// A server with so many rails, NICs `mlx5_0` and so on at PCI addresses `0000:00:00.0`, `0000:01:00.0` and so on. `program` is rail-dra-driver,
    /// which is not started yet; it finds its API server by the address, and by the files `ca.crt` and `token` in the server's folder ([`Self::path`]).
    #[must_use]
    pub fn new(program: &Path, node: &str, rails: usize, api: Endpoint) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (node, program, process) = (node.to_owned(), program.to_owned(), Mutex::default());
        let server = Self { node, api, folder, program, process };
        for k in 0..rails {
            let listed = server.path("root/sys/class/infiniband_verbs").join(format!("uverbs{k}"));
            fs::create_dir_all(&listed).unwrap();
            fs::write(listed.join("ibdev"), format!("mlx5_{k}\n")).unwrap();
        }
        fs::create_dir_all(server.path("root/sys/class/misc/rdma_cm")).unwrap();
        server.write_inventory(rails, |_| true);
        server
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
        command.env_clear().args(["run", "--kubernetes-node", &self.node, "--every", "1", "--log", "warn"]);
        command.arg("--api-server").arg(self.api.to_string());
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

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until it is so, and says what was waited for where it never is.
pub async fn within(server: &Server, what: &str, is_so: impl AsyncFn() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < LONGEST, "{what}: not within {LONGEST:?}\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
