//! What a hostile rank does on its server, and what its victim has there. Both run as real jobs; each thing that is tried is a
//! function that reads, asks or looks, and changes nothing of anybody else's.

mod files;
mod limits;
pub mod neighbour;
mod privileges;
mod processes;
mod sockets;
pub mod syscalls;
pub mod victim;

pub use limits::hog;

use std::{env, process::ExitCode};

use serde::{Deserialize, Serialize};

/// Begins each line of results, among whatever else a job prints.
pub const MARK: &str = "@@probe ";
/// The variable with the targets.
pub const TARGETS: &str = "ATTACK_TARGETS";

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

/// One line of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The name of what was tried.
    pub probe: String,
    /// The outcome of the attempt.
    pub outcome: Outcome,
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

/// All attempts of a hostile rank, by name.
pub fn all() -> Vec<(&'static str, Try)> {
    [processes::ATTEMPTS, files::ATTEMPTS, sockets::ATTEMPTS, privileges::ATTEMPTS, limits::ATTEMPTS].concat()
}

/// Held unless something was seen.
fn unless(seen: Option<String>) -> Outcome {
    seen.map_or(Outcome::Held, Outcome::Gave)
}

/// `rank`: tries everything and prints the outcomes.
pub fn run() -> ExitCode {
    let targets: Targets =
        env::var(TARGETS).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for (probe, attempt) in all() {
        say(probe, attempt(&targets));
    }
    for (probe, outcome) in syscalls::run() {
        say(&probe, outcome);
    }
    println!("{MARK}done");
    ExitCode::SUCCESS
}

fn say(probe: &str, outcome: Outcome) {
    let line = Line { probe: probe.to_owned(), outcome };
    if let Ok(text) = serde_json::to_string(&line) {
        println!("{MARK}{text}");
    }
}
