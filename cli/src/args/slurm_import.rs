//! What is said about the import of a Slurm site.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use time::UtcOffset;

/// What Slurm's accounts become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SlurmAccounts {
    /// Each account that has users is a tenant
    #[default]
    Each,
    /// The accounts at the top are tenants, and those within them queues
    Top,
}

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SlurmReport {
    /// For people: settings with the same answer are one line
    #[default]
    Text,
    /// Every setting, the documents and the commands, as JSON
    Json,
}

/// Make documents of what a Slurm site has: tenants, queues, service classes, licenses, reservations and waiting jobs
///
/// Reads files alone, and asks no cluster of Railyard. Without --out the documents go to standard output and the report to standard error. The report
/// has every setting of every file: carried over, carried over with a difference, not carried over, or of no meaning here, with its place and
/// what is nearest to it. Text that cannot be read is exit code 2, with every place.
#[derive(Debug, Args)]
pub struct SlurmImport {
    /// Slurm's slurm.conf; files that it includes are read too
    #[arg(long, value_name = "FILE", required_unless_present = "from_cluster")]
    pub conf: Option<PathBuf>,
    /// What `sacctmgr dump CLUSTER file=FILE` has written; without it all users are of one tenant
    #[arg(long, value_name = "FILE")]
    pub accounts: Option<PathBuf>,
    /// What `sacctmgr show qos -P` prints
    #[arg(long, value_name = "FILE")]
    pub qos: Option<PathBuf>,
    /// What `scontrol show reservation -o` prints
    #[arg(long, value_name = "FILE")]
    pub reservations: Option<PathBuf>,
    /// What `squeue --all --format='%i|%T|%a|%u|%P|%q|%Q|%D|%b|%l|%V|%E|%v|%W|%j'` prints, with its header; any mark may stand in place of each |, best one that nobody knows
    #[arg(long, value_name = "FILE")]
    pub queue: Option<PathBuf>,
    /// Folder with the scripts of waiting jobs: `scontrol write batch_script N slurm-N.sh` for each
    #[arg(long, value_name = "DIR", requires = "out")]
    pub scripts: Option<PathBuf>,
    /// Ask Slurm's own commands on this machine for whatever is not given as a file
    #[arg(long)]
    pub from_cluster: bool,
    /// What accounts become
    #[arg(long, value_enum, default_value = "each")]
    pub accounts_as: SlurmAccounts,
    /// Zone of the times that Slurm has printed, for example +02:00
    #[arg(long, value_name = "OFFSET", default_value = "+00:00", value_parser = parse_offset, allow_hyphen_values = true)]
    pub utc_offset: UtcOffset,
    /// Write documents, the report and the commands that documents cannot say into this folder; files that are there are not replaced
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How the report is printed
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: SlurmReport,
    /// Print settings with the same answer each on a line of its own
    #[arg(long)]
    pub all: bool,
    /// Exit code 1 where a setting is not carried over
    #[arg(long)]
    pub strict: bool,
}

/// Reads `+02:00`, `-05:30` and `Z`.
fn parse_offset(text: &str) -> Result<UtcOffset, String> {
    let wrong = || format!("`{text}` is no offset such as +02:00");
    if text == "Z" {
        return Ok(UtcOffset::UTC);
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1_i8, rest),
        (None, Some(rest)) => (-1, rest),
        (None, None) => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let part = |text: &str, most: i8| {
        text.parse::<i8>().ok().filter(|part| (0..=most).contains(part)).ok_or_else(wrong)
    };
    let (hours, minutes) = (part(hours, 14)?, part(minutes, 59)?);
    UtcOffset::from_hms(sign * hours, sign * minutes, 0).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        assert_eq!(parse_offset("-05:30").unwrap().whole_minutes(), -330);
        assert_eq!(parse_offset("Z").unwrap(), UtcOffset::UTC);
        for wrong in ["", "+2", "+25:00", "02:00", "+-1:00"] {
            assert!(parse_offset(wrong).is_err(), "{wrong}");
        }
    }
}
