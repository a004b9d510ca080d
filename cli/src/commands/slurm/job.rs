//! A job as Slurm's prologs and epilogs tell it (prolog_epilog.html of Slurm's documentation, "SLURM_JOB_ID" and others).

use proto_manifest::RailOptions;
use proto_wire::v1::{self, job_spec::Work};

use crate::{args::SlurmProlog, error::Error};

/// The label of an allocation with the number of the job that it is held for.
pub const JOB: &str = "slurm/job";
/// Labels that say more of that job.
const USER: &str = "slurm/user";
const PARTITION: &str = "slurm/partition";
const ACCOUNT: &str = "slurm/account";

/// One start of a job of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmJob {
    /// Its number; elements of arrays and parts of heterogeneous jobs have one each.
    pub id: u64,
    /// Name of the allocation that is held for this start.
    pub name: String,
    /// Its servers, as Slurm lists them: n[0-3].
    pub nodes: String,
    /// How many they are.
    pub count: u32,
    /// Account, where it has one.
    pub account: Option<String>,
    user: Option<String>,
    partition: Option<String>,
}

/// The job that the variables say.
///
/// # Errors
/// [`Error::Usage`] names the variable that is missing or no number.
pub fn of(prefix: &str, variable: impl Fn(&str) -> Option<String>) -> Result<SlurmJob, Error> {
    // What Slurm does not know is written so.
    let known = |name: &str| variable(name).filter(|value| !value.is_empty() && value != "(null)");
    let needed = |name: &str| {
        known(name).ok_or_else(|| {
            Error::Usage(format!("{name} is not set: this is what slurmctld calls (PrologSlurmctld, EpilogSlurmctld in slurm.conf)"))
        })
    };
    let number = |name: &str, text: String| {
        text.parse::<u64>().map_err(|_| Error::Usage(format!("{name} is {text:?}, which is no number")))
    };
    let id = number("SLURM_JOB_ID", needed("SLURM_JOB_ID")?)?;
    let restart =
        known("SLURM_JOB_RESTART_COUNT").map_or(Ok(0), |text| number("SLURM_JOB_RESTART_COUNT", text))?;
    let count = number("SLURM_JOB_NUM_NODES", needed("SLURM_JOB_NUM_NODES")?)?;
    Ok(SlurmJob {
        id,
        name: if restart == 0 { format!("{prefix}{id}") } else { format!("{prefix}{id}-r{restart}") },
        nodes: needed("SLURM_JOB_NODELIST")?,
        count: u32::try_from(count)
            .map_err(|_| Error::Usage(format!("SLURM_JOB_NUM_NODES is {count}: too many")))?,
        account: known("SLURM_JOB_ACCOUNT"),
        user: known("SLURM_JOB_USER"),
        partition: known("SLURM_JOB_PARTITION"),
    })
}

/// Whether an allocation for job `id` is called so by this prefix: nothing but the number, and the number of the start, may follow it, so that
/// `slurm-b-42` is none of `slurm-`.
#[must_use]
pub fn is_name(name: &str, prefix: &str, id: u64) -> bool {
    let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(&id.to_string())) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty() || rest.strip_prefix("-r").is_some_and(is_number)
}

impl SlurmJob {
    /// The allocation that holds its servers, and these only, as the site and the job's own options say.
    #[must_use]
    pub fn allocation(&self, args: &SlurmProlog, options: &RailOptions) -> v1::Job {
        let labels = [
            (JOB, Some(self.id.to_string())),
            (USER, self.user.clone()),
            (PARTITION, self.partition.clone()),
            (ACCOUNT, self.account.clone()),
        ];
        let mut spec = v1::JobSpec {
            work: Some(Work::Allocation(v1::Allocation::default())),
            gang: Some(v1::Gang {
                nodes: self.count,
                gpus_per_node: args.gpus_per_node,
                // What holds their places does nothing; Slurm's tasks may take them.
                ranks_per_node: options.ranks.unwrap_or(args.ranks_per_node),
                ..v1::Gang::default()
            }),
            placement: Some(v1::PlacementRequest {
                nodes: vec![self.nodes.clone()],
                exclusive: args.exclusive,
                ..v1::PlacementRequest::default()
            }),
            queue: args.queue.clone().unwrap_or_default(),
            ..v1::JobSpec::default()
        };
        options.apply(&mut spec);
        let labels = labels.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        v1::Job {
            metadata: Some(v1::Metadata {
                name: self.name.clone(),
                labels: labels.collect(),
                ..v1::Metadata::default()
            }),
            spec: Some(spec),
            ..v1::Job::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command, SlurmCommand};

    fn said(pairs: &[(&str, &str)]) -> Result<SlurmJob, Error> {
        of("slurm-", |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    const ALL: [(&str, &str); 7] = [
        ("SLURM_JOB_ID", "42"),
        ("SLURM_JOB_NODELIST", "n[0-3]"),
        ("SLURM_JOB_NUM_NODES", "4"),
        ("SLURM_JOB_RESTART_COUNT", "0"),
        ("SLURM_JOB_ACCOUNT", "(null)"),
        ("SLURM_JOB_USER", "ada"),
        ("SLURM_JOB_PARTITION", "rail"),
    ];

    #[test]
    fn what_slurm_says_becomes_an_allocation_of_these_servers() {
        let job = said(&ALL).unwrap();
        assert_eq!((job.id, job.name.as_str(), job.count, &job.account), (42, "slurm-42", 4, &None));
        let words = ["railctl", "slurm", "prolog", "--exclusive", "--gpus-per-node", "8", "--queue", "q"];
        let cli = Cli::try_parse_from(words).unwrap();
        let Command::Slurm(SlurmCommand::Prolog(args)) = cli.command else { panic!("another command") };
        let made = job.allocation(&args, &RailOptions::default());
        let (metadata, spec) = (made.metadata.unwrap(), made.spec.unwrap());
        assert_eq!((metadata.name.as_str(), metadata.labels[JOB].as_str()), ("slurm-42", "42"));
        assert!(!metadata.labels.contains_key(ACCOUNT) && metadata.labels[USER] == "ada");
        let (gang, place) = (spec.gang.unwrap(), spec.placement.unwrap());
        assert_eq!((gang.nodes, gang.gpus_per_node, gang.ranks_per_node), (4, 8, 1));
        assert_eq!(
            (place.nodes, place.exclusive, spec.queue.as_str()),
            (vec!["n[0-3]".to_owned()], true, "q")
        );
    }

    #[test]
    fn a_job_that_is_started_again_has_another_allocation() {
        let mut again = ALL;
        again[3].1 = "2";
        assert_eq!(said(&again).unwrap().name, "slurm-42-r2");
    }

    #[test]
    fn an_allocation_of_another_clusters_prefix_is_not_ours() {
        let all = [("slurm-42", true), ("slurm-42-r3", true), ("slurm-b-42", false), ("slurm-423", false)];
        let odd = [("slurm-42-r", false), ("slurm-42-rx", false), ("slurm-42-x", false), ("my-42", false)];
        for (name, is) in all.into_iter().chain(odd) {
            assert_eq!(is_name(name, "slurm-", 42), is, "{name}");
        }
    }

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        for at in 0..3 {
            let mut part = ALL.to_vec();
            let (name, _) = part.remove(at);
            assert!(said(&part).unwrap_err().to_string().contains(name));
        }
        let mut wrong = ALL;
        wrong[0].1 = "4x";
        assert!(said(&wrong).unwrap_err().to_string().contains("\"4x\""));
        wrong = ALL;
        wrong[2].1 = "5000000000";
        assert!(said(&wrong).unwrap_err().to_string().contains("too many"));
    }
}
