//! Several real controllers of one cluster on one etcd, killed when dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use serde_json::Value;

use crate::{binaries, etcd::tied, wait::eventually};

/// Longest wait for a controller to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes of the controllers, killed when dropped.
#[derive(Debug)]
pub struct Controllers {
    args: Vec<String>,
    running: Vec<Option<Child>>,
    endpoints: Vec<Endpoint>,
    dir: tempfile::TempDir,
}

fn said(output: std::io::Result<std::process::Output>) -> Result<(), String> {
    let output = output.map_err(|error| format!("cannot start rail-controller: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

impl Controllers {
    /// Starts so many with further arguments, the first one first; all have the first one's authority.
    ///
    /// # Errors
    /// They cannot be started, or do not serve.
    pub fn start(count: usize, args: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let running = (0..count).map(|_| None).collect();
        let mut all = Self { args, running, endpoints: Vec::new(), dir };
        let mut init = Command::new(binaries::directory()?.join("rail-controller"));
        said(init.arg("init").arg("--data-dir").arg(all.folder(0)).output())?;
        for n in 0..count {
            let folder = all.folder(n);
            let copied = fs::create_dir_all(&folder).and_then(|()| {
                ["ca.pem", "ca.key", "store.keys"]
                    .iter()
                    .filter(|_| n > 0)
                    .try_for_each(|file| fs::copy(all.folder(0).join(file), folder.join(file)).map(drop))
            });
            copied.map_err(|error| format!("{}: {error}", folder.display()))?;
            let endpoint = all.restart(n)?;
            all.endpoints.push(endpoint);
        }
        Ok(all)
    }

    /// The data folder of one.
    #[must_use]
    pub fn folder(&self, which: usize) -> PathBuf {
        self.dir.path().join(format!("c{which}"))
    }

    /// What one has logged.
    #[must_use]
    pub fn log(&self, which: usize) -> String {
        fs::read_to_string(self.folder(which).join("log")).unwrap_or_default()
    }

    /// All their addresses, as options name them.
    #[must_use]
    pub fn addresses(&self) -> String {
        self.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// Which one has this process.
    #[must_use]
    pub fn with_pid(&self, pid: u32) -> Option<usize> {
        self.running.iter().position(|child| child.as_ref().is_some_and(|child| child.id() == pid))
    }

    /// The process of one that runs.
    #[must_use]
    pub fn pid(&self, which: usize) -> Option<u32> {
        self.running[which].as_ref().map(Child::id)
    }

    /// Kills one controller with SIGKILL and waits for its end.
    pub fn kill(&mut self, which: usize) {
        if let Some(mut child) = self.running[which].take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts one, or starts it again at the same address, and waits until it serves.
    ///
    /// # Errors
    /// It does not.
    pub fn restart(&mut self, which: usize) -> Result<Endpoint, String> {
        self.kill(which);
        let folder = self.folder(which);
        let file = fs::File::options().create(true).append(true).open(folder.join("log"));
        let log = file.map_err(|error| format!("{}: {error}", folder.display()))?;
        let listen = self.endpoints.get(which).map_or("127.0.0.1:0".to_owned(), Endpoint::authority);
        let mut command = tied(&binaries::directory()?.join("rail-controller"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAIL_CONTROLLER_")) {
            command.env_remove(name);
        }
        command.args(["run", "--metrics", "127.0.0.1:0", "--listen", &listen, "--data-dir"]).arg(&folder);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start rail-controller: {error}"))?;
        let pid = child.id();
        self.running[which] = Some(child);
        let what = format!("controller {which} to serve, {}", folder.join("log").display());
        let ready = eventually(&what, PATIENCE, || ready(&folder, pid));
        ready.map_err(|error| format!("{error}\n{}", self.log(which)))
    }

    /// Runs `railctl` as their administrator, and gives what it prints.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn railctl(&self, arguments: &[&str]) -> Result<String, String> {
        let file = |name: &str| self.folder(0).join(name);
        let mut command = Command::new(binaries::directory()?.join("railctl"));
        command.args(arguments).arg("--controller").arg(self.addresses());
        command.env("RAIL_CONFIG", file("config.yaml")).stdin(Stdio::null());
        for (flag, name) in [("--ca", "ca.pem"), ("--cert", "admin.pem"), ("--key", "admin.key")] {
            command.arg(flag).arg(file(name));
        }
        let output = command.output().map_err(|error| format!("cannot start railctl: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("railctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// The administrator's client, of these controllers in this order. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn client(&self, of: &[usize], options: &ClientOptions) -> Result<Client, String> {
        let file = |name: &str| Some(self.folder(0).join(name));
        let (ca, certificate, key) = (file("ca.pem"), file("admin.pem"), file("admin.key"));
        let files = CredentialFiles { ca, certificate, key, ..CredentialFiles::default() };
        let credentials = Credentials::load(&files).map_err(|error| error.to_string())?;
        let endpoints: Vec<_> = of.iter().map(|which| self.endpoints[*which].clone()).collect();
        Client::new(&endpoints, &credentials, options).map_err(|error| error.to_string())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|which| self.kill(which));
    }
}

fn ready(folder: &Path, pid: u32) -> Option<Endpoint> {
    let text = fs::read_to_string(folder.join("controller.json")).ok()?;
    let ready: Value = serde_json::from_str(&text).ok()?;
    (ready["pid"] == pid).then_some(())?;
    ready["endpoints"][0].as_str()?.parse().ok()
}
