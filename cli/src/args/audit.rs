//! What is said about the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Moment, Output, parse_moment};

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List records of both logs, changes and denials, the newest first; of one tenant with --tenant only
    #[command(visible_alias = "list")]
    Ls(AuditList),
    /// Check the hash chains and their signatures: of the cluster, or of an export without a cluster
    #[command(
        after_help = "Examples:\n  railctl audit verify\n  railctl audit verify audit.jsonl --ca ca.pem"
    )]
    Verify {
        /// An export; `-` reads standard input. Without it the cluster is asked
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Write all records that are kept as JSON lines: changes, then denials, each up to a signed checkpoint
    Export {
        /// The file, which must not be there; without it to standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// `audit ls`.
#[derive(Debug, Args)]
pub struct AuditList {
    /// Only what this identity did: its URI, or the end of it, such as `admin/root`
    #[arg(long, value_name = "IDENTITY")]
    pub who: Option<String>,
    /// Only this call, such as CreateJob
    #[arg(long, value_name = "NAME")]
    pub rpc: Option<String>,
    /// Only what was allowed, or denied
    #[arg(long, value_enum)]
    pub decision: Option<Decision>,
    /// Not before: 2026-08-20T10:00:00Z, or 90m for so long ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Moment>,
    /// Not after
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub until: Option<Moment>,
    /// So many records at most; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Decision {
    /// Changes
    Allowed,
    /// Calls that were refused for want of authority
    Denied,
}
