//! What another account of the controller's host, or who gets hold of a disk, can read.

use crate::{
    caller::From,
    exec::check::Inspection,
    model::{Attempt, Expect, Finding, Step, Trace},
};

fn check(id: &str, title: &str, finding: Finding, check: Inspection) -> Attempt {
    Attempt {
        id: format!("stored/{id}"),
        title: title.to_owned(),
        finding,
        from: From::Local,
        step: Step::Inspection(check),
        expect: Expect::Absent,
        trace: Trace::None,
    }
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let (held, low) = (Finding::Held, Finding::Low);
    vec![
        check("ca-key", "read the authority's key", held, Inspection::CaKeyMode),
        check("admin-key", "read the administrator's key", held, Inspection::AdminKeyMode),
        check("node-key", "read a node's key", held, Inspection::NodeKeyMode),
        check("folder", "enter the controller's folder", held, Inspection::DataFolderMode),
        check("store", "read the controller's store", held, Inspection::StoreMode),
        check("store-keys", "read the key that secrets are sealed with", low, Inspection::StoreKeysMode),
        check("secret", "find a job's secret in the store's bytes", low, Inspection::StoreHasNoSecret),
        check("token", "find a token in the store's bytes", held, Inspection::StoreHasNoToken),
        check("logs", "find a job's secret in logs", held, Inspection::LogsHaveNoSecret),
        check(
            "command-lines",
            "find a job's secret in arguments of processes",
            held,
            Inspection::CommandLinesHaveNoSecret,
        ),
        check("socket", "connect to the controller's socket", held, Inspection::ControllerSocketMode),
        check(
            "ca-key-passphrase",
            "use the authority's key that was made under a passphrase",
            low,
            Inspection::CaKeyUnderPassphrase,
        ),
        check("agent-files", "read an agent's files", held, Inspection::AgentFilesMode),
    ]
}
