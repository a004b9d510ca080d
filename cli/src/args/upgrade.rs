//! What is said about upgrades.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use super::parse_duration;

/// How it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum UpgradeOutput {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
}

#[derive(Debug, Subcommand)]
pub enum UpgradeCommand {
    /// Tell in which order to upgrade what to the release of this railctl, and what each step does to those who use the cluster
    ///
    /// Nothing is changed. Take the railctl of the release that the cluster is to become of. What keeps the upgrade from being begun is said, with exit
    /// code 1: more than one release between what there is and what is to be, programs of three releases, a rollout under way, a store that
    /// takes no writes, a controller that does not answer, or no backup of late.
    Plan(UpgradePlan),
    /// Show of which release each part of the cluster is
    Status {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: UpgradeOutput,
    },
}

#[derive(Debug, Args)]
pub struct UpgradePlan {
    /// The release to go to. This railctl knows the way to its own
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Where backups are: the folder of --backup-dir as it is seen from here, or one file of it
    #[arg(long, value_name = "PATH", conflicts_with = "without_backup")]
    pub backup: Option<PathBuf>,
    /// The oldest that the newest backup may be
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2h")]
    pub backup_within: Duration,
    /// There is a backup that cannot be seen from here, or it is done without
    #[arg(long)]
    pub without_backup: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: UpgradeOutput,
}
