//! What a hostile rank knows, and what came of one thing that it tried.

use serde::{Deserialize, Serialize};

/// The outcome of one thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It could not be done.
    Held,
    /// It was done; the words say what was seen.
    Gave(String),
    /// There is nothing to try it on.
    Absent(String),
}

/// What the attacker knows of its server: more than it could.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Targets {
    /// The victim's folder on the server.
    pub victim_dir: String,
    /// The folder of the agent on the server.
    pub agent_dir: String,
    /// The controller's folder, of a local cluster.
    pub controller_dir: String,
    /// The path of the controller's unix socket.
    pub controller_socket: String,
    /// The victim's user on the server.
    pub victim_uid: u32,
    /// Ports of metrics on loopback.
    pub metrics: Vec<String>,
}

/// A function that makes one attempt and gives its outcome.
pub type Try = fn(&Targets) -> Outcome;

/// Held unless something was seen.
pub fn unless(seen: Option<String>) -> Outcome {
    seen.map_or(Outcome::Held, Outcome::Gave)
}
