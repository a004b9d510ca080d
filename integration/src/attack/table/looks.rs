//! What another account of the controller's host, or who gets hold of a disk, can read.

use crate::{
    exec::look::Look,
    model::{Attempt, Expect, Finding, From, Step, Trace},
};

fn look(id: &str, title: &str, finding: Finding, look: Look) -> Attempt {
    Attempt {
        id: format!("stored/{id}"),
        title: title.to_owned(),
        finding,
        from: From::Local,
        step: Step::Look(look),
        expect: Expect::Absent,
        trace: Trace::None,
    }
}

/// All of them.
pub fn all() -> Vec<Attempt> {
    let (held, low) = (Finding::Held, Finding::Low);
    vec![
        look("ca-key", "read the authority's key", held, Look::CaKeyMode),
        look("admin-key", "read the administrator's key", held, Look::AdminKeyMode),
        look("node-key", "read a node's key", held, Look::NodeKeyMode),
        look("folder", "enter the controller's folder", held, Look::DataFolderMode),
        look("store", "read the controller's store", held, Look::StoreMode),
        look("store-keys", "read the key that secrets are sealed with", low, Look::StoreKeysMode),
        look("secret", "find a job's secret in the store's bytes", low, Look::StoreHasNoSecret),
        look("token", "find a token in the store's bytes", held, Look::StoreHasNoToken),
        look("logs", "find a job's secret in logs", held, Look::LogsHaveNoSecret),
        look(
            "command-lines",
            "find a job's secret in arguments of processes",
            held,
            Look::CommandLinesHaveNoSecret,
        ),
        look("socket", "connect to the controller's socket", held, Look::ControllerSocketMode),
        look(
            "ca-key-passphrase",
            "use the authority's key that was made under a passphrase",
            low,
            Look::CaKeyUnderPassphrase,
        ),
        look("agent-files", "read an agent's files", held, Look::AgentFilesMode),
    ]
}
