//! Every option of `sbatch` (sbatch(1), Slurm 24.05): how it is written, and whether it is read here, left out with a note, or refused.

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Always.
    Value,
    /// Never.
    Nothing,
    /// After `=` only.
    Perhaps,
}

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It is a field of the job.
    Read,
    /// It says nothing of the job here, and why.
    LeftOut(&'static str),
    /// It would mean something else than its user expects; what to do in its place.
    Refused(&'static str),
}

/// An option of `sbatch`.
struct Known {
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    meaning: Meaning,
}

const fn known(long: &'static str, short: Option<char>, takes: Takes, meaning: Meaning) -> Known {
    Known { long, short, takes, meaning }
}

const LOGS: &str = "`railctl logs` prints what ranks write";
const ENVIRONMENT: &str = "the environment here does not go with a job; `railctl submit --env` does";
const WEBHOOKS: &str = "webhooks tell what becomes of jobs (`railctl get webhooks`)";
const NOTHING: &str = "it says nothing of the job";
const CORES: &str = "a job's CPUs are whole cores, near its GPUs where they can be";
const WHOLE: &str =
    "servers of the job are used for its ranks alone as far as it asks for CPUs, GPUs and memory";
const CLOCKS: &str = "clocks and power of servers are the administrator's";
const OTHERS: &str = "a cluster is chosen by `railctl config use-context`, and no job moves between them";
const CONTAINERS: &str = "start the container in the script, for example with apptainer or podman";
const BUFFERS: &str = "nothing is staged in or out here; do it in the script, or in a job before it";

use Meaning::{LeftOut, Read, Refused};
use Takes::{Nothing, Perhaps, Value};

/// All of them, in the order of the manual page.
const OPTIONS: [Known; 112] = [
    known("account", Some('A'), Value, LeftOut("the job is of the tenant that submits it")),
    known("acctg-freq", None, Value, LeftOut("use is sampled by the agents as the administrator says")),
    known("array", Some('a'), Value, Read),
    known("batch", None, Value, LeftOut(CORES)),
    known("bb", None, Value, Refused(BUFFERS)),
    known("bbf", None, Value, Refused(BUFFERS)),
    known(
        "begin",
        Some('b'),
        Value,
        Refused("is not read in a script; write a job file with spec.beginTime"),
    ),
    known("chdir", Some('D'), Value, Read),
    known("cluster-constraint", None, Value, Refused(OTHERS)),
    known("clusters", Some('M'), Value, Refused(OTHERS)),
    known("comment", None, Value, LeftOut("`railctl label job/NAME` sets labels")),
    known("constraint", Some('C'), Value, Read),
    known("container", None, Value, Refused(CONTAINERS)),
    known("container-id", None, Value, Refused(CONTAINERS)),
    known("contiguous", None, Nothing, LeftOut("servers are chosen by their leaves, not by their numbers")),
    known("core-spec", Some('S'), Value, LeftOut(CORES)),
    known("cores-per-socket", None, Value, LeftOut(CORES)),
    known("cpu-bind", None, Value, LeftOut(CORES)),
    known("cpu-freq", None, Value, LeftOut(CLOCKS)),
    known("cpus-per-gpu", None, Value, Read),
    known("cpus-per-task", Some('c'), Value, Read),
    known("deadline", None, Value, Refused("is not read in a script; write a job file with spec.deadline")),
    known("delay-boot", None, Value, LeftOut("servers are not booted for jobs")),
    known("dependency", Some('d'), Value, Read),
    known(
        "distribution",
        Some('m'),
        Value,
        LeftOut("ranks are counted server by server, in the order of the fabric"),
    ),
    known("error", Some('e'), Value, LeftOut(LOGS)),
    known("exclude", Some('x'), Value, Read),
    known("exclusive", None, Perhaps, Read),
    known("export", None, Value, LeftOut(ENVIRONMENT)),
    known("export-file", None, Perhaps, LeftOut(ENVIRONMENT)),
    known("extra", None, Value, LeftOut(NOTHING)),
    known("extra-node-info", Some('B'), Value, LeftOut(CORES)),
    known("get-user-env", None, Perhaps, LeftOut(ENVIRONMENT)),
    known(
        "gid",
        None,
        Value,
        Refused("a job runs as the user that the administrator has set for its tenant"),
    ),
    known("gpu-bind", None, Value, LeftOut("a rank finds its own GPUs in CUDA_VISIBLE_DEVICES")),
    known("gpu-freq", None, Value, LeftOut(CLOCKS)),
    known("gpus", Some('G'), Value, Read),
    known("gpus-per-node", None, Value, Read),
    known("gpus-per-socket", None, Value, Refused("write --gpus-per-node")),
    known("gpus-per-task", None, Value, Read),
    known("gres", None, Value, Read),
    known("gres-flags", None, Value, LeftOut(CORES)),
    known("help", Some('h'), Nothing, LeftOut(NOTHING)),
    known("hint", None, Value, LeftOut(CORES)),
    known("hold", Some('H'), Nothing, Read),
    known("ignore-pbs", None, Nothing, LeftOut("no line but those of #SBATCH is read")),
    known("immediate", Some('I'), Perhaps, LeftOut("`railctl plan` says whether it would start at once")),
    known("input", Some('i'), Value, LeftOut("ranks have no input; read the file in the script")),
    known("job-name", Some('J'), Value, Read),
    known(
        "kill-on-invalid-dep",
        None,
        Value,
        LeftOut("a job whose dependency can no longer come true ends, with the reason"),
    ),
    known("licenses", Some('L'), Value, Read),
    known("mail-type", None, Value, LeftOut(WEBHOOKS)),
    known("mail-user", None, Value, LeftOut(WEBHOOKS)),
    known("mcs-label", None, Value, LeftOut("tenants are kept apart in any case")),
    known("mem", None, Value, Read),
    known("mem-bind", None, Value, LeftOut(CORES)),
    known("mem-per-cpu", None, Value, Read),
    known("mem-per-gpu", None, Value, Read),
    known("mincpus", None, Value, Refused("write --cpus-per-task")),
    known("network", None, Value, LeftOut("rails are chosen by Railyard")),
    known("nice", None, Perhaps, LeftOut("`railctl update job/NAME --priority` changes its priority")),
    known(
        "no-kill",
        Some('k'),
        Perhaps,
        LeftOut("what becomes of a job that loses a server is spec.failure of a job file"),
    ),
    known("no-requeue", None, Nothing, Read),
    known("nodefile", Some('F'), Value, Refused("write --nodelist")),
    known("nodelist", Some('w'), Value, Read),
    known("nodes", Some('N'), Value, Read),
    known("ntasks", Some('n'), Value, Read),
    known("ntasks-per-core", None, Value, LeftOut(CORES)),
    known("ntasks-per-gpu", None, Value, Refused("write --ntasks-per-node")),
    known("ntasks-per-node", None, Value, Read),
    known("ntasks-per-socket", None, Value, LeftOut(CORES)),
    known("open-mode", None, Value, LeftOut(LOGS)),
    known("output", Some('o'), Value, LeftOut(LOGS)),
    known("overcommit", Some('O'), Nothing, LeftOut(WHOLE)),
    known(
        "oversubscribe",
        Some('s'),
        Nothing,
        LeftOut("servers are shared unless a job asks for --exclusive"),
    ),
    known("parsable", None, Nothing, LeftOut("`railctl submit -o name` prints the name alone")),
    known("partition", Some('p'), Value, Read),
    known("power", None, Value, LeftOut(CLOCKS)),
    known("prefer", None, Value, LeftOut("a preference; what has to hold is --constraint")),
    known("priority", None, Value, Read),
    known("profile", None, Value, LeftOut("`railctl top jobs` and the metrics say what a job uses")),
    known("propagate", None, Perhaps, LeftOut("limits of ranks are the administrator's")),
    known("qos", Some('q'), Value, Read),
    known("quiet", Some('Q'), Nothing, LeftOut(NOTHING)),
    known("reboot", None, Nothing, Refused("servers are not booted for jobs")),
    known("requeue", None, Nothing, Read),
    known("reservation", None, Value, Read),
    known("segment", None, Value, Refused("write a job file with placement.groups")),
    known("signal", None, Value, Read),
    known("sockets-per-node", None, Value, LeftOut(CORES)),
    known("spread-job", None, Nothing, Read),
    known("stepmgr", None, Nothing, LeftOut("steps are started by the agents of the job's servers")),
    known(
        "switches",
        None,
        Value,
        LeftOut(
            "servers are chosen to be close together in any case; placement.within of a job file requires it",
        ),
    ),
    known("tasks-per-node", None, Value, Read),
    known("test-only", None, Nothing, Refused("write `railctl submit --dry-run`")),
    known("thread-spec", None, Value, LeftOut(CORES)),
    known("threads-per-core", None, Value, LeftOut(CORES)),
    known("time", Some('t'), Value, Read),
    known("time-min", None, Value, LeftOut("it gets the whole --time")),
    known("tmp", None, Value, LeftOut("room on the servers' disks is not counted")),
    known("tres-bind", None, Value, LeftOut("a rank finds its own GPUs in CUDA_VISIBLE_DEVICES")),
    known("tres-per-task", None, Value, Refused("write --gpus-per-task and --cpus-per-task")),
    known(
        "uid",
        None,
        Value,
        Refused("a job runs as the user that the administrator has set for its tenant"),
    ),
    known("usage", None, Nothing, LeftOut(NOTHING)),
    known("use-min-nodes", None, Nothing, Refused("write the number of nodes that it is to have as --nodes")),
    known("verbose", Some('v'), Nothing, LeftOut(NOTHING)),
    known("version", Some('V'), Nothing, LeftOut(NOTHING)),
    known("wait", Some('W'), Nothing, LeftOut("`railctl submit --wait` waits")),
    known("wait-all-nodes", None, Value, LeftOut("ranks start once all servers are prepared, in any case")),
    known("wckey", None, Value, LeftOut("`railctl label job/NAME` sets labels")),
    known("workdir", None, Value, Refused("write --chdir")),
    known("wrap", None, Value, Refused("write `railctl submit --wrap`")),
];

/// The option of that long name, or the only one that begins so (getopt_long(3)).
fn find(long: &str) -> Option<&'static Known> {
    let mut begins = OPTIONS.iter().filter(|one| one.long.starts_with(long));
    let only = begins.next().filter(|_| begins.next().is_none());
    OPTIONS.iter().find(|one| one.long == long).or(only)
}

/// What becomes of an option by its long name; an error names the nearest one that is there.
///
/// # Errors
/// `sbatch` has no such option.
pub fn meaning(long: &str) -> Result<Meaning, String> {
    find(long).map(|one| one.meaning).ok_or_else(|| {
        let nearest = OPTIONS.iter().min_by_key(|one| strsim::damerau_levenshtein(one.long, long));
        format!("is no option of sbatch; did you mean --{}?", nearest.map_or("nodes", |one| one.long))
    })
}

/// One option as it stands in a line, or why it is none.
pub type Written = Result<(String, String), String>;

/// `-N 2 --time=1:00 --hold # of the night` as options and values, with quotes and comments as the shell has them; what is wrong with one
/// of them hides no other.
///
/// # Errors
/// The line cannot be taken apart.
pub fn written(text: &str) -> Result<Vec<Written>, String> {
    let words = shlex::split(text).ok_or("a quote is not closed, or the line ends with a backslash")?;
    let mut words = words.into_iter().peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let (known, option, value) = if let Some(long) = word.strip_prefix("--") {
            let (option, value) =
                long.split_once('=').map_or((long, None), |(option, value)| (option, Some(value)));
            let known = find(option);
            (known, known.map_or(option, |one| one.long).to_owned(), value.map(str::to_owned))
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let known = OPTIONS.iter().find(|one| one.short == Some(short));
            let Some(known) = known else {
                all.push(Err(format!("-{short} is no option of sbatch")));
                continue;
            };
            let rest = word.get(1 + short.len_utf8()..).filter(|rest| !rest.is_empty());
            (Some(known), known.long.to_owned(), rest.map(str::to_owned))
        } else {
            stray(&mut all, &word);
            continue;
        };
        let takes = known.map_or(Perhaps, |one| one.takes);
        let value = match (value, takes) {
            (Some(value), _) => Some(value),
            (None, Nothing | Perhaps) => Some(String::new()),
            (None, Value) => words.next_if(|next| !next.starts_with('-')),
        };
        all.push(match value {
            Some(value) => Ok((option, value)),
            None => Err(format!("--{option} wants a value")),
        });
    }
    Ok(all)
}

/// Notes a word that is no option: most often it is the value of the one before it.
fn stray(all: &mut Vec<Written>, word: &str) {
    let wrong = match all.last() {
        _ if matches!(word, "hetjob" | "packjob") => {
            format!("`{word}`: parts of another shape are jobs of their own here; write a script for each")
        }
        Some(Ok((option, value))) if value.is_empty() => {
            let wrong = format!("--{option}: `{word}` stands apart from it; write --{option}={word}");
            all.pop();
            wrong
        }
        _ => format!("`{word}` is no option; write --NAME=VALUE"),
    };
    all.push(Err(wrong));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_option_is_told_with_the_one_that_it_belongs_to() {
        let wrong = |line: &str| -> Vec<String> {
            written(line).unwrap().into_iter().filter_map(Result::err).collect()
        };
        assert_eq!(
            wrong("--account= lab --nodes=2"),
            ["--account: `lab` stands apart from it; write --account=lab"]
        );
        assert_eq!(
            wrong("hetjob"),
            ["`hetjob`: parts of another shape are jobs of their own here; write a script for each"]
        );
    }

    #[test]
    fn no_option_is_there_twice() {
        let mut names: Vec<&str> = OPTIONS.iter().map(|one| one.long).collect();
        let mut letters: Vec<char> = OPTIONS.iter().filter_map(|one| one.short).collect();
        let (all, lettered) = (names.len(), letters.len());
        assert!(names.is_sorted());
        names.dedup();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!((names.len(), letters.len()), (all, lettered));
    }

    #[test]
    fn one_that_is_wrong_hides_no_other() {
        let all = written("-N2 --hin nomultithread -Z bad --exclusive --nice=-5 --time").unwrap();
        let right: Vec<(&str, &str)> =
            all.iter().flatten().map(|(option, value)| (option.as_str(), value.as_str())).collect();
        assert_eq!(right, [("nodes", "2"), ("hint", "nomultithread"), ("exclusive", ""), ("nice", "-5")]);
        let wrong: Vec<&str> = all.iter().filter_map(|one| one.as_ref().err()).map(String::as_str).collect();
        assert_eq!(
            wrong,
            ["-Z is no option of sbatch", "`bad` is no option; write --NAME=VALUE", "--time wants a value"]
        );
    }
}
