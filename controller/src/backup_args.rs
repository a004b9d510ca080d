//! Backups that a running controller makes by itself.

use std::{path::PathBuf, time::Duration};

use crate::arg_values::interval;

/// Backups on a schedule.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Backups")]
pub struct BackupArgs {
    /// Folder for backups of the store, which the controller that leads writes on a schedule, the embedded store's too. It must be
    /// there: it is not made. Best on another disk than the data folder. Not given: none are made.
    #[arg(long, env = "RAIL_CONTROLLER_BACKUP_DIR", value_name = "DIR")]
    pub backup_dir: Option<PathBuf>,
    /// The time from one backup to the next: 30s, 15m, 6h or 1d.
    #[arg(long, env = "RAIL_CONTROLLER_BACKUP_EVERY", value_name = "TIME", default_value = "1h", value_parser = interval)]
    pub backup_every: Duration,
    /// How many backups of this cluster are kept in the folder; older ones are removed. Other files there are left alone.
    #[arg(long, env = "RAIL_CONTROLLER_BACKUP_KEEP", value_name = "NUMBER", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub backup_keep: u32,
}
