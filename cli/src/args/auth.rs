//! What is asked about one's own rights.

use clap::{Args, Subcommand};

use super::{ListArgs, Output};

#[derive(Debug, Subcommand)]
pub enum AuthCommand {
    /// Tell whether you may do something: `can-i submit jobs`, `can-i cordon nodes`. Exit 1 if not
    #[command(name = "can-i")]
    CanI(CanI),
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List tokens of the tenant's users that have not expired, the newest first; `railctl tenant issue-token` issues them, `railctl revoke
    /// user` takes them back
    #[command(visible_alias = "list")]
    Ls(ListArgs),
}

#[derive(Debug, Args)]
pub struct CanI {
    /// What: the word of railctl for it (submit, get, cancel, cordon, apply, delete ...), or a method of the API such as CreateJob
    #[arg(value_name = "VERB", required_unless_present = "list")]
    pub verb: Option<String>,
    /// Of which kind: jobs, nodes, tenants ...
    #[arg(value_name = "KIND")]
    pub kind: Option<String>,
    /// List all that you may call
    #[arg(long, conflicts_with_all = ["verb", "kind"])]
    pub list: bool,
    /// How to print the list
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
