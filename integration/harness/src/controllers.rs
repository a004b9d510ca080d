//! Several real controllers of one cluster on one etcd, killed when dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use serde_json::Value;

use crate::{
    binaries,
    etcd::tied,
    process::{log_to, terminate},
    wait::eventually,
};

/// Longest wait for a controller to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes of the controllers, killed when dropped.
#[derive(Debug)]
pub struct Controllers {
    args: Vec<String>,
    /// Where the program of each lies.
    programs: Vec<PathBuf>,
    running: Vec<Option<Child>>,
    endpoints: Vec<Endpoint>,
    dir: tempfile::TempDir,
}

/// How people reach controllers as their administrator, with whichever `railctl`.
#[derive(Debug, Clone)]
pub struct Users {
    addresses: String,
    files: PathBuf,
}

impl Users {
    /// A `railctl` whose program lies in this folder, not yet started.
    #[must_use]
    pub fn railctl(&self, bin: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(bin.join("railctl"));
        // Before the command: what stands behind `--` is somebody else's.
        command.arg("--controller").arg(&self.addresses);
        for (flag, name) in [("--ca", "ca.pem"), ("--cert", "admin.pem"), ("--key", "admin.key")] {
            command.arg(flag).arg(self.files.join(name));
        }
        command.args(arguments).env("RAIL_CONFIG", self.files.join("config.yaml")).stdin(Stdio::null());
        command
    }
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
        Self::start_from(binaries::directory()?, count, args)
    }

    /// As [`Controllers::start`], with the program in this folder.
    ///
    /// # Errors
    /// They cannot be started, or do not serve.
    pub fn start_from(bin: &Path, count: usize, args: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let running = (0..count).map(|_| None).collect();
        let programs = vec![bin.to_owned(); count];
        let mut all = Self { args, programs, running, endpoints: Vec::new(), dir };
        let mut init = Command::new(bin.join("rail-controller"));
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

    /// Ends one as its service manager does, starts the one in this folder in its place, on the same data and address, and waits until
    /// that serves.
    ///
    /// # Errors
    /// One does not end in time, the other does not serve.
    pub fn replace(&mut self, which: usize, bin: &Path) -> Result<(), String> {
        if let Some(child) = self.running[which].take() {
            terminate(child).map_err(|error| format!("controller {which}: {error}"))?;
        }
        self.programs[which] = bin.to_owned();
        self.restart(which).map(drop)
    }

    /// Starts one, or starts it again at the same address, and waits until it serves.
    ///
    /// # Errors
    /// It does not; at once where it has ended by itself.
    pub fn restart(&mut self, which: usize) -> Result<Endpoint, String> {
        self.kill(which);
        let folder = self.folder(which);
        let log = log_to(&folder.join("log"))?;
        let listen = self.endpoints.get(which).map_or("127.0.0.1:0".to_owned(), Endpoint::authority);
        let mut command = tied(&self.programs[which].join("rail-controller"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAIL_CONTROLLER_")) {
            command.env_remove(name);
        }
        command.args(["run", "--metrics", "127.0.0.1:0", "--listen", &listen, "--data-dir"]).arg(&folder);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start rail-controller: {error}"))?;
        let pid = child.id();
        let child = self.running[which].insert(child);
        let what = format!("controller {which} to serve, {}", folder.join("log").display());
        let ready = eventually(&what, PATIENCE, || match (ready(&folder, pid), child.try_wait()) {
            (Some(endpoint), _) => Some(Ok(endpoint)),
            (None, Ok(Some(status))) => Some(Err(format!("controller {which} ended with {status}"))),
            (None, _) => None,
        });
        ready.and_then(|ended| ended).map_err(|error| format!("{error}\n{}", self.log(which)))
    }

    /// How people reach all of them.
    #[must_use]
    pub fn users(&self) -> Users {
        Users { addresses: self.addresses(), files: self.folder(0) }
    }

    /// Runs `railctl` as their administrator, and gives what it prints.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn railctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.users().railctl(binaries::directory()?, arguments);
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
