//! Where the programs are, and their arguments.

use std::{
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{launch::arg, plan::NodePlan, ranks::Ranks, spec::Layout, switch_plan::SwitchPlan};
use crate::{config::Environment, error::Error};

/// The folder of rail-controller, rail-node-agent and rail-engine.
#[derive(Debug, Clone)]
pub struct Programs {
    dir: PathBuf,
}

/// The programs of a cluster; the last one only where it has switches.
pub const ALL: [&str; 4] = ["rail-controller", "rail-node-agent", "rail-engine", "rail-switch-agent"];

impl Programs {
    /// The folder that was named, or railctl's own; all programs must be there, that of switches where there are `switches`.
    ///
    /// # Errors
    /// [`Error::Dev`] if a program is missing in the folder.
    pub fn find(named: Option<&Path>, switches: bool, env: &Environment) -> Result<Self, Error> {
        let beside = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
        let named = named.map(Path::to_owned).or_else(|| env.get("RAIL_BIN_DIR").map(PathBuf::from));
        let dir = named.or_else(beside).unwrap_or_default();
        let dir = std::path::absolute(&dir).map_err(|error| Error::file("find", &dir, error))?;
        let needed = ALL.into_iter().take(if switches { ALL.len() } else { ALL.len() - 1 });
        let missing: Vec<&str> = needed.filter(|program| !dir.join(program).is_file()).collect();
        if missing.is_empty() {
            return Ok(Self { dir });
        }
        Err(Error::Dev(format!(
            "{} not found in {}: build them (`cargo build` in the source tree), or name their folder by --bin-dir or \
             RAIL_BIN_DIR",
            missing.join(", "),
            dir.display()
        )))
    }

    /// The controller's command that makes its data folder, CA and first administrator.
    #[must_use]
    pub fn controller_init(&self, layout: &Layout, cluster: &str) -> Vec<OsString> {
        let mut command = vec![arg(self.dir.join("rail-controller"))];
        command.extend(["init", "--data-dir"].map(arg));
        command.push(arg(layout.controller()));
        command.extend([arg("--cluster"), arg(cluster)]);
        command
    }

    /// The controller itself, on a port of loopback and a unix socket.
    #[must_use]
    pub fn controller_run(&self, layout: &Layout, port: Option<u16>) -> Vec<OsString> {
        let mut command = vec![arg(self.dir.join("rail-controller"))];
        command.extend(["run", "--data-dir"].map(arg));
        command.push(arg(layout.controller()));
        command.extend([arg("--listen"), arg(format!("https://127.0.0.1:{}", port.unwrap_or(0)))]);
        command.extend([arg("--listen"), arg(format!("unix:{}", layout.socket().display()))]);
        command.extend(["--metrics", "127.0.0.1:0"].map(arg));
        command
    }

    /// A node's agent, inside its namespace where it has one.
    #[must_use]
    pub fn agent(&self, layout: &Layout, node: &NodePlan, ca_pin: &str, ranks: &Ranks) -> Vec<OsString> {
        let mut command = Vec::new();
        if let Some(namespace) = &node.namespace {
            command.extend(["ip", "netns", "exec", namespace].map(arg));
        }
        command.push(arg(self.dir.join("rail-node-agent")));
        command.push(arg("run"));
        command.extend([arg("--controller"), arg(format!("unix:{}", layout.socket().display()))]);
        command.extend([arg("--node"), arg(&node.name)]);
        command.extend([arg("--data-dir"), arg(layout.node(&node.name))]);
        command.extend([arg("--ca-pin"), arg(ca_pin)]);
        command.extend([arg("--inventory"), arg(layout.inventory(&node.name))]);
        command.extend(["--metrics", "127.0.0.1:0"].map(arg));
        command.extend(ranks.arguments(node.index).into_iter().map(arg));
        command
    }

    /// The FRR of a switch, inside its namespace.
    ///
    /// # Errors
    /// [`Error::File`] if railctl cannot tell where it is itself.
    pub fn frr(&self, layout: &Layout, switch: &SwitchPlan, frr: &Path) -> Result<Vec<OsString>, Error> {
        let me = std::env::current_exe().map_err(|error| Error::file("find", "/proc/self/exe", error))?;
        let mut command = ["ip", "netns", "exec", &switch.namespace].map(arg).to_vec();
        command.push(arg(me));
        command.extend([arg("dev"), arg("switch"), arg("--dir"), arg(layout.node(&switch.name))]);
        command.extend([arg("--cluster"), arg(&layout.dir), arg("--frr"), arg(frr)]);
        Ok(command)
    }

    /// A switch's agent, beside its FRR.
    ///
    /// # Errors
    /// As [`Programs::frr`].
    pub fn switch_agent(
        &self,
        layout: &Layout,
        switch: &SwitchPlan,
        frr: &Path,
        ca_pin: &str,
    ) -> Result<Vec<OsString>, Error> {
        let mut command = self.frr(layout, switch, frr)?;
        command.extend([arg("--"), arg(self.dir.join("rail-switch-agent")), arg("run")]);
        command.extend([arg("--controller"), arg(format!("unix:{}", layout.socket().display()))]);
        command.extend([arg("--switch"), arg(&switch.name), arg("--ca-pin"), arg(ca_pin)]);
        command.extend([arg("--nos"), arg("linux"), arg("--frr"), arg(frr)]);
        command.extend([arg("--state"), arg(layout.node(&switch.name).join("agent"))]);
        Ok(command)
    }

    /// True if the agent can make namespaces for attempts here.
    #[must_use]
    pub fn has_namespaces(&self) -> bool {
        let trial = r#"{"isolation":{"namespaces":{"pid":true,"mount":true,"ipc":true},"tmp_bytes":65536,"shm_bytes":65536},
            "ids":null,"view":{"steps":[]},"argv":["/bin/true"]}"#;
        let mut command = Command::new(self.dir.join("rail-node-agent"));
        command.arg("rank-trial").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not read says so by its end.
            let _ = stdin.write_all(trial.as_bytes());
        }
        child.wait().is_ok_and(|status| status.success())
    }

    /// The folder that they are in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
