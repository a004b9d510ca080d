//! What goes wrong between slurmd and its tasks.

use std::path::PathBuf;

use thiserror::Error;

/// Why tasks are given nothing.
#[derive(Debug, Error)]
pub enum SlurmError {
    /// Not called by slurmd, or by another one.
    #[error("{name} {problem}: this is what slurmd calls (Prolog, TaskProlog and Epilog in slurm.conf)")]
    Variable {
        /// Name of the variable.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No agent has its folder there.
    #[error("{} is no folder of rail-node-agent; name its --data-dir", .0.display())]
    NoAgent(PathBuf),
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
}
