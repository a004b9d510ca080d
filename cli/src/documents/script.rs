//! Batch scripts as `sbatch` takes them: `#SBATCH` lines become the job's fields, the script its command (sbatch(1), Slurm 24.05).
//!
//! What has no meaning here is left out with a note; what would have another meaning than its user expects is refused. The script runs
//! once for each rank, as `srun` would run it: on one server that is what `sbatch` does.

use std::time::Duration;

use proto_model::{ArraySpec, JobName};
use proto_wire::v1::{self, job_spec::Work};

use crate::{args::parse_size, error::Error};

/// What a script is.
#[derive(Debug, PartialEq)]
pub struct Script {
    /// The job that it describes.
    pub job: v1::Job,
    /// The job is to be held back after its submit.
    pub hold: bool,
    /// What was left out, for its user.
    pub notes: Vec<String>,
}

/// What scripts written for Slurm look for, from what ranks find here. On the script's first line, so that the numbers of all
/// others stay as they are.
const SLURM: &str = "export SLURM_JOB_NAME=\"${RAIL_JOB##*/}\" SLURM_JOB_ID=\"$RAIL_JOB_UID\" SLURM_PROCID=\"$RANK\" SLURM_NTASKS=\"$WORLD_SIZE\" \
SLURM_NPROCS=\"$WORLD_SIZE\" SLURM_LOCALID=\"$LOCAL_RANK\" SLURM_NODEID=\"$NODE_RANK\" SLURMD_NODENAME=\"$RAIL_NODE\" \
SLURM_SUBMIT_DIR=\"$PWD\"; [ -z \"${RAIL_ARRAY_INDEX-}\" ] || export SLURM_ARRAY_TASK_ID=\"$RAIL_ARRAY_INDEX\"";

/// Programs that take a script as an argument after `-c`, and understand [`SLURM`].
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// Options that say nothing of the job here, and why.
const LEFT_OUT: [(&str, &str); 12] = [
    ("output", "`railctl logs` prints what ranks write"),
    ("error", "`railctl logs` prints what ranks write"),
    ("open-mode", "`railctl logs` prints what ranks write"),
    ("account", "the job is of the tenant that submits it"),
    ("mail-type", "webhooks tell what becomes of jobs (`railctl get webhooks`)"),
    ("mail-user", "webhooks tell what becomes of jobs (`railctl get webhooks`)"),
    ("export", "the environment here does not go with a job; `railctl submit --env` does"),
    ("get-user-env", "the environment here does not go with a job; `railctl submit --env` does"),
    ("parsable", "`railctl submit -o name` prints the name alone"),
    ("verbose", "it says nothing of the job"),
    ("quiet", "it says nothing of the job"),
    ("gpu-bind", "a rank finds its own GPUs in CUDA_VISIBLE_DEVICES"),
];

/// One-letter options of `sbatch`, with their long names.
const SHORT: [(char, &str); 20] = [
    ('J', "job-name"),
    ('N', "nodes"),
    ('n', "ntasks"),
    ('c', "cpus-per-task"),
    ('t', "time"),
    ('p', "partition"),
    ('a', "array"),
    ('A', "account"),
    ('o', "output"),
    ('e', "error"),
    ('w', "nodelist"),
    ('x', "exclude"),
    ('C', "constraint"),
    ('d', "dependency"),
    ('q', "qos"),
    ('b', "begin"),
    ('D', "chdir"),
    ('G', "gpus"),
    ('H', "hold"),
    ('L', "licenses"),
];

/// Options without a value.
const FLAGS: [&str; 7] = ["hold", "exclusive", "requeue", "no-requeue", "parsable", "verbose", "quiet"];

/// All options that are known, for the nearest one.
const KNOWN: [&str; 28] = [
    "job-name",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "cpus-per-gpu",
    "gpus-per-node",
    "gpus",
    "gres",
    "mem",
    "time",
    "partition",
    "array",
    "nodelist",
    "exclude",
    "constraint",
    "dependency",
    "qos",
    "begin",
    "deadline",
    "chdir",
    "hold",
    "exclusive",
    "requeue",
    "no-requeue",
    "licenses",
    "priority",
    "comment",
];

/// Whether it is a script, and no document.
#[must_use]
pub fn is_script(text: &[u8]) -> bool {
    text.starts_with(b"#!")
}

/// What was read so far.
#[derive(Default)]
struct Reader {
    name: String,
    gang: v1::Gang,
    ntasks: Option<u32>,
    cpus_per_task: Option<u32>,
    gpus: Option<u32>,
    spec: v1::JobSpec,
    folder: String,
    hold: bool,
    notes: Vec<String>,
}

/// Reads a script by its name.
///
/// # Errors
/// A line that cannot be meant so, with its place.
pub fn read(name: &str, text: &[u8]) -> Result<Script, Error> {
    let text =
        std::str::from_utf8(text).map_err(|_| Error::Document(format!("{name}:1:1: is not UTF-8 text")))?;
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let Some(rest) = trimmed.strip_prefix("#SBATCH") else {
            // As sbatch has it: directives end where the commands begin.
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            break;
        };
        let at = |message: String| Error::Document(format!("{name}:{}:1: {message}", index + 1));
        for (option, value) in options(rest).map_err(at)? {
            reader.option(&option, &value).map_err(|message| {
                let dash = if option.len() == 1 { "-" } else { "--" };
                Error::Document(format!("{name}:{}:1: {dash}{option}: {message}", index + 1))
            })?;
        }
    }
    reader.finish(name, text)
}

/// `-N 2 --time=1:00 --hold # of the night` as options and values, with quotes and comments as the shell has them.
fn options(text: &str) -> Result<Vec<(String, String)>, String> {
    let words = shlex::split(text).ok_or("a quote is not closed, or the line ends with a backslash")?;
    let mut words = words.into_iter().peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let (option, value) = if let Some(long) = word.strip_prefix("--") {
            let (option, value) =
                long.split_once('=').map_or((long, None), |(option, value)| (option, Some(value)));
            (option.to_owned(), value.map(str::to_owned))
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let long = SHORT.iter().find(|(letter, _)| *letter == short).map(|(_, long)| (*long).to_owned());
            let rest = word.get(2..).filter(|rest| !rest.is_empty()).map(str::to_owned);
            (long.ok_or_else(|| format!("-{short} is no option of sbatch that is known here"))?, rest)
        } else {
            return Err(format!("`{word}` is no option; write --NAME=VALUE"));
        };
        let value = match value {
            None if FLAGS.contains(&option.as_str()) => String::new(),
            None => {
                let next = words.next_if(|next| !next.starts_with('-'));
                next.ok_or_else(|| format!("--{option} wants a value"))?
            }
            Some(value) => value,
        };
        found.push((option, value));
    }
    Ok(found)
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("`{text}` is no number from 1 on"))
}

/// `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`.
fn time(text: &str) -> Result<Option<Duration>, String> {
    if matches!(text, "UNLIMITED" | "INFINITE" | "0") {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is no time; write for example 30, 1:30:00 or 2-12:00:00");
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<u64> =
        rest.split(':').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let days: u64 = days.map_or(Ok(0), |days| days.parse().map_err(|_| wrong()))?;
    let seconds = match (text.contains('-'), parts.as_slice()) {
        (true, [hours]) => hours.saturating_mul(3600),
        (true, [hours, minutes]) => hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)),
        (false, [minutes]) => minutes.saturating_mul(60),
        (false, [minutes, seconds]) => minutes.saturating_mul(60).saturating_add(*seconds),
        (_, [hours, minutes, seconds]) => {
            hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)).saturating_add(*seconds)
        }
        _ => return Err(wrong()),
    };
    Ok(Some(Duration::from_secs(days.saturating_mul(86_400).saturating_add(seconds))))
}

/// `4G`, `4096` (MiB), `0` (all of it).
fn memory(text: &str) -> Result<u64, String> {
    let unit = match text.trim_end_matches(['B', 'b']).chars().last() {
        Some('K' | 'k') => "Ki",
        Some('G' | 'g') => "Gi",
        Some('T' | 't') => "Ti",
        _ => "Mi",
    };
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    parse_size(&format!("{digits}{unit}")).map_err(|_| format!("`{text}` is no size; write for example 64G"))
}

/// `gpu:2`, `gpu:h100:2`, `gpu`: the model, if one is named, and how many.
fn gres(text: &str) -> Result<(Option<String>, u32), String> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        ["gpu"] => Ok((None, 1)),
        ["gpu", count] if count.parse::<u32>().is_ok() => Ok((None, number(count)?)),
        ["gpu", model] => Ok((Some((*model).to_owned()), 1)),
        ["gpu", model, count] => Ok((Some((*model).to_owned()), number(count)?)),
        _ => Err(format!(
            "`{text}`: only gpu[:MODEL][:COUNT] is known; for other resources see `railctl get licenses`"
        )),
    }
}

/// Reads `2` or `h100:2` as the model, if any, and the number of GPUs.
fn gpus(text: &str) -> Result<(Option<String>, u32), String> {
    gres(&format!("gpu:{text}"))
}

fn wire(time: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), nanos: 0 }
}

impl Reader {
    fn option(&mut self, option: &str, value: &str) -> Result<(), String> {
        if let Some((_, why)) = LEFT_OUT.iter().find(|(name, _)| *name == option) {
            self.notes.push(format!("--{option} is left out: {why}"));
            return Ok(());
        }
        match option {
            "job-name" => value.clone_into(&mut self.name),
            "nodes" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                let (least, most) = (number(least)?, number(most)?);
                (self.gang.nodes, self.gang.min_nodes) = (most, if least == most { 0 } else { least });
            }
            "ntasks" => self.ntasks = Some(number(value)?),
            "ntasks-per-node" => self.gang.ranks_per_node = number(value)?,
            "cpus-per-task" => self.cpus_per_task = Some(number(value)?),
            "gpus-per-node" => self.take_gpus(gpus(value)?),
            "gres" => self.take_gpus(gres(value)?),
            "gpus" => self.gpus = Some(gpus(value)?.1),
            "mem" if value == "0" => self.placement().exclusive = true,
            "mem" => self.gang.memory_per_node = memory(value)?,
            "time" => self.spec.time_limit = time(value)?.map(wire),
            "partition" => value.clone_into(&mut self.spec.queue),
            "qos" => value.clone_into(&mut self.spec.service_class),
            "array" => {
                ArraySpec::new(value).map_err(|error| error.to_string())?;
                value.clone_into(&mut self.spec.array);
            }
            "nodelist" => self.placement().nodes.push(value.to_owned()),
            "exclude" => self.placement().exclude.push(value.to_owned()),
            "exclusive" if value.is_empty() => self.placement().exclusive = true,
            "exclusive" => {
                return Err(format!(
                    "`{value}` is not known here; --exclusive alone keeps servers for the job"
                ));
            }
            "constraint" => self.constraint(value)?,
            "dependency" => self.dependency(value)?,
            "chdir" => value.clone_into(&mut self.folder),
            "hold" => self.hold = true,
            "requeue" => {
                let requeue = v1::failure_policy::Requeue::OnInfrastructure.into();
                self.spec.failure = Some(v1::FailurePolicy { requeue, ..v1::FailurePolicy::default() });
            }
            "no-requeue" => self.spec.failure = None,
            "priority" => {
                self.spec.priority =
                    value.parse().map_err(|_| format!("`{value}` is no priority; -1000 to 1000"))?;
            }
            "licenses" => self.licenses(value)?,
            "comment" => {
                self.notes.push("--comment is left out: `railctl label job/NAME` sets labels".to_owned())
            }
            "begin" | "deadline" => {
                let field = if option == "begin" { "beginTime" } else { "deadline" };
                return Err(format!("is not read in a script; write a job file with spec.{field}"));
            }
            "cpus-per-gpu" => return Err("is not known here; write --cpus-per-task".to_owned()),
            other => {
                let nearest = KNOWN.iter().min_by_key(|name| strsim::damerau_levenshtein(name, other));
                return Err(format!(
                    "is not known here; did you mean --{}?",
                    nearest.copied().unwrap_or("nodes")
                ));
            }
        }
        Ok(())
    }

    fn placement(&mut self) -> &mut v1::PlacementRequest {
        self.spec.placement.get_or_insert_default()
    }

    fn take_gpus(&mut self, (model, count): (Option<String>, u32)) {
        self.gang.gpus_per_node = count;
        if let Some(model) = model {
            self.placement().gpu_model = vec![model];
        }
    }

    /// `a&b` and `a|b` of labels that are there.
    fn constraint(&mut self, value: &str) -> Result<(), String> {
        if value.contains(['(', '[', '*', '!', ',']) {
            return Err(format!(
                "`{value}`: only & and | are read; write a job file with placement.selector"
            ));
        }
        for term in value.split('&') {
            let one =
                |text: &str| v1::SelectorTerm { key: text.trim().to_owned(), ..v1::SelectorTerm::default() };
            let any: Vec<v1::SelectorTerm> = term.split('|').map(one).collect();
            let term = match any.as_slice() {
                [only] => only.clone(),
                _ => v1::SelectorTerm { any_of: any, ..v1::SelectorTerm::default() },
            };
            self.placement().selector.push(term);
        }
        Ok(())
    }

    /// `afterok:a:b,afterany:c`, with names of jobs.
    fn dependency(&mut self, value: &str) -> Result<(), String> {
        use v1::dependency::When;
        for part in value.split(',') {
            let mut words = part.split(':');
            let kind = words.next().unwrap_or_default();
            let when = match kind {
                "after" => When::Started,
                "afterok" => When::Succeeded,
                "afterany" => When::Ended,
                "afternotok" => When::Failed,
                _ => {
                    return Err(format!(
                        "`{kind}` is not known; there are after, afterok, afterany and afternotok"
                    ));
                }
            };
            for job in words {
                JobName::new(job)
                    .map_err(|error| format!("`{job}`: {error}; jobs are named here, not numbered"))?;
                self.spec.after.push(v1::Dependency { job: job.to_owned(), when: when.into() });
            }
        }
        Ok(())
    }

    fn licenses(&mut self, value: &str) -> Result<(), String> {
        for part in value.split(',') {
            let (name, count) = part.split_once(':').unwrap_or((part, "1"));
            self.spec.licenses.insert(name.to_owned(), number(count)?);
        }
        Ok(())
    }

    /// Tasks and GPUs of the whole job as those of each node.
    fn shape(&mut self, name: &str) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::Document(format!("{name}:1:1: {message}")));
        let gang = &mut self.gang;
        gang.nodes = gang.nodes.max(1);
        if let Some(ntasks) = self.ntasks {
            match gang.ranks_per_node {
                0 if ntasks.is_multiple_of(gang.nodes) => gang.ranks_per_node = ntasks / gang.nodes,
                0 => {
                    return wrong(format!(
                        "--ntasks {ntasks} is not the same on each of {} nodes; write --ntasks-per-node",
                        gang.nodes
                    ));
                }
                each if each.checked_mul(gang.nodes) == Some(ntasks) => {}
                each => {
                    return wrong(format!(
                        "--ntasks {ntasks} is not --nodes {} x --ntasks-per-node {each}",
                        gang.nodes
                    ));
                }
            }
        }
        gang.ranks_per_node = gang.ranks_per_node.max(1);
        if let Some(gpus) = self.gpus.filter(|_| gang.gpus_per_node == 0) {
            if !gpus.is_multiple_of(gang.nodes) {
                return wrong(format!(
                    "--gpus {gpus} is not the same on each of {} nodes; write --gpus-per-node",
                    gang.nodes
                ));
            }
            gang.gpus_per_node = gpus / gang.nodes;
        }
        if let Some(cpus) = self.cpus_per_task {
            gang.cpus_per_node = cpus.saturating_mul(gang.ranks_per_node);
        }
        Ok(())
    }

    fn finish(mut self, name: &str, text: &str) -> Result<Script, Error> {
        self.shape(name)?;
        let argv = command(name, text)?;
        let ranks = self.gang.nodes.saturating_mul(self.gang.ranks_per_node);
        if ranks > 1 {
            self.notes.push(format!(
                "the script runs {ranks} times, once for each rank, as `srun` would run it: its own `srun` is not needed"
            ));
        }
        if self.gang.nodes == 1 && self.gang.gpus_per_node == 0 {
            self.spec.rails = Some(v1::RailRequest { none: true, ..v1::RailRequest::default() });
        }
        self.spec.gang = Some(self.gang);
        self.spec.work =
            Some(Work::Command(v1::Command { argv, working_dir: self.folder, ..v1::Command::default() }));
        let metadata = match self.name.as_str() {
            "" => v1::Metadata { generate_name: "batch-".to_owned(), ..v1::Metadata::default() },
            given => {
                let lower = given.to_ascii_lowercase().replace(['_', '.', ' '], "-");
                if lower != given {
                    self.notes
                        .push(format!("the job is called {lower}: names have small letters, digits and -"));
                }
                JobName::new(&lower)
                    .map_err(|error| Error::Document(format!("{name}:1:1: --job-name: {error}")))?;
                v1::Metadata { name: lower, ..v1::Metadata::default() }
            }
        };
        let job = v1::Job {
            api_version: "rail/v1".to_owned(),
            kind: "Job".to_owned(),
            metadata: Some(metadata),
            spec: Some(self.spec),
            ..v1::Job::default()
        };
        Ok(Script { job, hold: self.hold, notes: self.notes })
    }
}

/// The program of the first line, and the script for it.
fn command(name: &str, text: &str) -> Result<Vec<String>, Error> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<&str> = first.trim_start_matches("#!").split_whitespace().collect();
    let program = match words.as_slice() {
        [env, program, ..] if env.ends_with("/env") => *program,
        [program, ..] => *program,
        [] => return Err(Error::Document(format!("{name}:1:3: names no program"))),
    };
    let bare = program.rsplit('/').next().unwrap_or(program);
    let script = if SHELLS.contains(&bare) {
        format!("{SLURM}\n{rest}")
    } else if bare.starts_with("python") {
        format!("{first}\n{rest}")
    } else {
        let text = format!(
            "{name}:1:3: `{program}` is no shell and no python; write a job file with the command to run"
        );
        return Err(Error::Document(text));
    };
    let options = ["-c".to_owned(), script].into_iter();
    let own = SHELLS.contains(&bare).then(|| name.to_owned());
    Ok(words.into_iter().map(str::to_owned).chain(options).chain(own).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(lines: &str) -> Script {
        read("job.sh", format!("#!/bin/bash\n{lines}\necho hi\n#SBATCH --nodes=9\n").as_bytes()).unwrap()
    }

    fn wrong(lines: &str) -> String {
        read("job.sh", format!("#!/bin/bash\n{lines}\n").as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn directives_are_the_jobs_fields() {
        let read = script(
            "#SBATCH --job-name=Train_1\n#SBATCH -N 2 --ntasks-per-node=8 # comment\n#SBATCH --gres=gpu:h100:8\n#SBATCH --time=1-02:00:00\n#SBATCH -p night\n\
             #SBATCH --cpus-per-task 4 --mem=64G\n#SBATCH --array=0-9%2\n#SBATCH --dependency=afterok:prep:fetch,afterany:x\n#SBATCH -w gpu[01-02] --exclude=gpu09\n\
             #SBATCH --constraint='a100|h100&ib' --hold\n#SBATCH --output=%j.out",
        );
        let (spec, metadata) = (read.job.spec.unwrap(), read.job.metadata.unwrap());
        let gang = spec.gang.unwrap();
        assert_eq!((gang.nodes, gang.ranks_per_node, gang.gpus_per_node, gang.cpus_per_node), (2, 8, 8, 32));
        assert_eq!((gang.memory_per_node, spec.time_limit.unwrap().seconds), (64 << 30, 93_600));
        assert_eq!(
            (metadata.name.as_str(), spec.queue.as_str(), spec.array.as_str()),
            ("train-1", "night", "0-9%2")
        );
        assert_eq!((spec.after.len(), spec.after[1].job.as_str(), read.hold), (3, "fetch", true));
        let placement = spec.placement.unwrap();
        assert_eq!(
            (placement.nodes, placement.exclude),
            (vec!["gpu[01-02]".to_owned()], vec!["gpu09".to_owned()])
        );
        assert_eq!((placement.gpu_model, placement.selector.len()), (vec!["h100".to_owned()], 2));
        assert!(read.notes.iter().any(|note| note.contains("16 times")), "{:?}", read.notes);
        assert!(read.notes.iter().any(|note| note.contains("--output")), "{:?}", read.notes);
        let Some(Work::Command(command)) = spec.work else { panic!() };
        assert_eq!(command.argv[0], "/bin/bash");
        assert!(
            command.argv[2].ends_with("echo hi\n#SBATCH --nodes=9\n")
                && command.argv[2].starts_with("export SLURM")
        );
    }

    #[test]
    fn what_is_submitted_is_a_job_that_the_controller_takes() {
        let read = script("#SBATCH --ntasks=4\n#SBATCH --nodes=2\n#SBATCH -G 4\n#SBATCH -t 90");
        let spec = proto_model::JobSpec::try_from(read.job.spec.unwrap()).unwrap();
        assert_eq!((spec.gang.ranks_per_node, spec.gang.gpus_per_node), (2, 2));
        assert_eq!(spec.time_limit, Some(Duration::from_secs(5400)));
        let plain = script("");
        assert!(plain.notes.is_empty());
        assert!(proto_model::JobSpec::try_from(plain.job.spec.unwrap()).is_ok());
    }

    #[test]
    fn quotes_keep_words_together() {
        let read = script(
            "#SBATCH --comment=\"two words\" -J 'My Job' --chdir='/data/a b' # --nodes=3\n#SBATCH --exclusive",
        );
        assert_eq!(read.job.metadata.unwrap().name, "my-job");
        let spec = read.job.spec.unwrap();
        assert!(spec.placement.unwrap().exclusive && spec.gang.unwrap().nodes == 1);
        let Some(Work::Command(command)) = spec.work else { panic!() };
        assert_eq!(command.working_dir, "/data/a b");
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        assert!(
            wrong("#\n#SBATCH --ndoes=2")
                .contains("job.sh:3:1: --ndoes: is not known here; did you mean --nodes?")
        );
        assert!(wrong("#SBATCH --nodes=two").contains("no number"));
        assert!(wrong("#SBATCH --time=soon").contains("no time"));
        assert!(wrong("#SBATCH -Z 1").contains("-Z is no option"));
        assert!(wrong("#SBATCH --dependency=afterok:123_4").contains("named here"));
        assert!(wrong("#SBATCH -n 3 -N 2").contains("--ntasks-per-node"));
        assert!(wrong("#SBATCH --nodes").contains("wants a value"));
        assert!(wrong("#SBATCH --exclusive=user").contains("--exclusive alone"));
        assert!(wrong("#SBATCH --constraint=a,b").contains("only & and |"));
        assert!(wrong("#SBATCH --comment=\"two words").contains("job.sh:2:1: a quote is not closed"));
        assert!(read("x.pl", b"#!/usr/bin/perl\n").unwrap_err().to_string().contains("no shell"));
        let python = read("x.py", b"#!/usr/bin/env python3\nprint(1)\n").unwrap();
        let Some(Work::Command(command)) = python.job.spec.unwrap().work else { panic!() };
        assert_eq!(command.argv[..3], ["/usr/bin/env", "python3", "-c"]);
        assert!(is_script(b"#!/bin/sh") && !is_script(b"# yaml"));
    }
}
