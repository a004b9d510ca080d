//! Railyard beside Slurm: what Slurm's controller calls before and after each job, and what keeps both of one mind.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, FromArgMatches as _, Subcommand, ValueEnum};

use super::{SlurmImport, parse_duration};

#[derive(Debug, Subcommand)]
pub enum SlurmCommand {
    /// As PrologSlurmctld: hold the servers of a job, with their rails, before Slurm starts it
    ///
    /// The job is what SLURM_JOB_ID, SLURM_JOB_NODELIST and the other variables of Slurm's prologs say. Exit code 0 lets it start; any other one
    /// makes Slurm queue a batch job again, and end one of srun or salloc. Called twice for the same start of a job it holds once.
    Prolog(SlurmProlog),
    /// As EpilogSlurmctld: give back what is held for a job that has ended
    Epilog(SlurmEpilog),
    /// Give back what is held for jobs that Slurm no longer has, drain in Slurm the servers that are unfit here, and resume those that are well again
    ///
    /// Asks squeue and sinfo, and changes nodes by scontrol; only nodes that it has drained itself are resumed.
    Sync(SlurmSync),
    /// As a service beside slurmctld: sync again and again, keep Slurm's topology current, and answer `place`
    Serve(SlurmServe),
    /// As job_submit.lua: ask that service which servers would be the best for a job that is being submitted, in the order of ranks
    ///
    /// Prints `answer=now` and `nodes=n0,n1` where they are free now; `answer=together` and `switches=1` where the job has to wait and could stay
    /// on the leaves that its servers share; `answer=anywhere` where Slurm may choose freely. Nothing is held: the same servers are proposed to no other job for a while.
    Place(SlurmPlace),
    Import(SlurmImport),
}

/// Where the service listens.
pub const SOCKET: &str = "/run/railyard-slurm/place.sock";

/// What jobs of Slurm are called here.
#[derive(Debug, Clone, Args)]
pub struct SlurmNames {
    /// Allocations are called by this and the job's number; one for each Slurm cluster that uses the same tenant
    #[arg(long, value_name = "PREFIX", default_value = "slurm-")]
    pub prefix: String,
}

/// Whether a job starts that Railyard knows nothing of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenAway {
    /// Slurm queues it again, or ends it where it is no batch job.
    Fail,
    /// It starts without what Railyard does for it.
    Allow,
}

#[derive(Debug, Args)]
pub struct SlurmProlog {
    #[command(flatten)]
    pub names: SlurmNames,
    /// Give up after this time; below Slurm's PrologEpilogTimeout
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub timeout: Duration,
    /// What becomes of the job while no controller of Railyard answers
    #[arg(long, value_enum, default_value = "fail")]
    pub when_away: WhenAway,
    /// Nobody else's job on its servers: for partitions whose nodes Slurm does not share
    #[arg(long)]
    pub exclusive: bool,
    /// GPUs that are held on each server
    #[arg(long, value_name = "GPUS", default_value_t = 0)]
    pub gpus_per_node: u32,
    /// Ranks that the engine expects on each server: as many as the tasks of a step that is to use it (`rail-node-agent slurm`)
    #[arg(long, value_name = "RANKS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_per_node: u32,
    /// Slurm's account of the job is the tenant (administrators only)
    #[arg(long)]
    pub account_is_tenant: bool,
    /// Queue of the tenant
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct SlurmEpilog {
    #[command(flatten)]
    pub names: SlurmNames,
    /// Give up after this time; what stays is given back by `railctl slurm sync`
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub struct SlurmSync {
    #[command(flatten)]
    pub names: SlurmNames,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct SlurmServe {
    #[command(flatten)]
    pub names: SlurmNames,
    /// Look once in this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub every: Duration,
    /// Answer `railctl slurm place` here
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub socket: PathBuf,
    /// Slurm's topology.conf or topology.yaml: written when the fabric document says something else, and slurmctld told to read it
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// A job that has not started after this time on the servers that it was given may start wherever Slurm likes
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub pin: Duration,
    /// Jobs have their servers alone, as with `prolog --exclusive`
    #[arg(long)]
    pub exclusive: bool,
    /// GPUs that are held on each server, as with `prolog --gpus-per-node`
    #[arg(long, value_name = "GPUS", default_value_t = 0)]
    pub gpus_per_node: u32,
    /// Slurm's account of a job is the tenant (administrators only)
    #[arg(long)]
    pub account_is_tenant: bool,
    /// Queue of the tenant
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct SlurmPlace {
    /// Servers of the job
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nodes: u32,
    /// Only these, as Slurm lists them: n[0-63]; for example those of its partition
    #[arg(long, value_name = "NODES")]
    pub among: Vec<String>,
    /// None of these
    #[arg(long, value_name = "NODES")]
    pub exclude: Vec<String>,
    /// Account of the job
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Where the service listens
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub socket: PathBuf,
    /// Give up after this time: slurmctld does nothing else meanwhile
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub timeout: Duration,
}

impl SlurmPlace {
    /// The options where a command line, without the program's name, is `slurm place` with options of its own alone. Reading them so does not
    /// make the tree of all commands, which would take longer than the question and its answer; slurmctld waits meanwhile. Where anything else is
    /// there, or wrong, that tree has to say so: None.
    #[must_use]
    pub fn read_alone(words: &[OsString]) -> Option<Self> {
        let [noun, verb, ..] = words else { return None };
        if noun != "slurm" || verb != "place" {
            return None;
        }
        // Help is the tree's, too.
        let command = Self::augment_args(clap::Command::new("place").disable_help_flag(true));
        let matches = command.try_get_matches_from(&words[1..]).ok()?;
        Self::from_arg_matches(&matches).ok()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn options_of_place_read_alone_are_those_of_the_whole_tree() {
        let all = "--nodes 4 --among n[0-3] --among=n7 --exclude n1 --account a --socket /s --timeout 20ms";
        for options in ["--nodes=1", all, "--nodes 1 --timeout=500ms"] {
            let words: Vec<OsString> =
                format!("slurm place {options}").split(' ').map(OsString::from).collect();
            let alone = SlurmPlace::read_alone(&words).unwrap();
            let line = std::iter::once("railctl".into()).chain(words);
            let Command::Slurm(SlurmCommand::Place(whole)) = Cli::try_parse_from(line).unwrap().command
            else {
                panic!("{options}");
            };
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"));
        }
        for line in [
            "",
            "slurm",
            "slurm place",
            "slurm place --help",
            "slurm place --nodes 0",
            "slurm place --nodes 1 --context c",
            "slurm sync",
            "slurm place --nodes 1 more",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(SlurmPlace::read_alone(&words).is_none(), "{line}");
        }
    }
}
