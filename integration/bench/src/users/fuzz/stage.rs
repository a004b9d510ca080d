//! The cluster that is fuzzed, and who calls it.

use std::{fs, path::Path};

use integration_harness::{Access, Cluster};
use serde_json::Value;

use super::{
    calls::Caller,
    tally::{Fault, Tally},
};

/// The cluster and what is in it.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) access: Access,
    controller: Option<i64>,
}

impl<'a> Stage<'a> {
    /// A tenant with its administrator; nothing starts on the only server, whatever chance submits.
    pub(super) fn furnish(cluster: &'a Cluster) -> Result<Self, String> {
        let people = cluster.home().join("people").display().to_string();
        for words in [
            &["tenant", "create", "fuzz", "--gpus", "8", "--jobs", "2000"][..],
            &["tenant", "issue-cert", "tara", "--role", "tenant-admin", "--tenant", "fuzz", "--out", &people],
            &["node", "cordon", "n0"],
        ] {
            let answer = cluster.railctl(words);
            if answer.code != 0 {
                return Err(format!("{words:?}: {}", answer.stderr));
            }
        }
        cluster.submit(
            "train",
            "gang: {nodes: 1, gpusPerNode: 1}\nrails: {none: true}\ncommand: {argv: [/bin/true]}",
        )?;
        let access = Access::of(cluster)?;
        Ok(Self { cluster, access, controller: controller(cluster) })
    }

    /// The cluster's administrator first, then the tenant's.
    pub(super) async fn callers(&self) -> Result<[Caller; 3], String> {
        let people = self.cluster.home().join("people");
        let tara = Access {
            certificate: people.join("tara.pem"),
            key: people.join("tara.key"),
            ..self.access.clone()
        };
        let admin = Caller::new(self.access.client()?, true).await?;
        let (one, other) =
            (Caller::new(tara.client()?, false).await?, Caller::new(tara.client()?, false).await?);
        Ok([admin, one, other])
    }

    /// Panics that are in logs, and a controller that is another process than before.
    pub(super) fn crashes(&self, tally: &mut Tally) {
        for line in panics(&self.cluster.dir()) {
            tally.fault(Fault::Crash, || line);
        }
        let now = controller(self.cluster);
        if now.is_none() || now != self.controller {
            tally.fault(Fault::Crash, || {
                format!("the controller was process {:?} and is {now:?}", self.controller)
            });
        }
    }
}

fn controller(cluster: &Cluster) -> Option<i64> {
    let dir = cluster.dir().display().to_string();
    let status: Value = cluster.json(&["dev", "status", "--name", cluster.name(), "--dir", &dir]).ok()?;
    let processes = status["processes"].as_array()?;
    processes.iter().find(|one| one["role"] == "controller")?["pid"].as_i64()
}

fn panics(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(panics(&path));
        } else if path.extension().is_some_and(|end| end == "log") {
            let log = fs::read(&path).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            found.extend(log.lines().filter(|line| line.contains("panicked at")).map(str::to_owned));
        }
    }
    found
}
