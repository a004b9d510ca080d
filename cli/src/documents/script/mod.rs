//! Batch scripts as `sbatch` takes them: `#SBATCH` lines become the job's fields, the script its command (sbatch(1), Slurm 24.05).
//!
//! What has no meaning here is left out with a note; what would have another meaning than its user expects is refused. The script runs
//! once for each rank, as `srun` would run it: on one server that is what `sbatch` does.

mod options;

use std::time::Duration;

use proto_model::{ArraySpec, JobName, StepRequest};
use proto_wire::v1::{self, job_spec::Work};

use self::options::{Meaning, meaning, written};
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

/// Starts any other program with the script as its file, which is gone from the disk before the program begins: the file's text and the
/// program with its arguments are this shell's own.
const AS_A_FILE: &str = "file=$(mktemp) && printf %s \"$1\" >\"$file\" && exec 3<\"$file\" && rm \"$file\" && shift && exec \"$@\" /proc/self/fd/3";

/// Programs that take a script as an argument after `-c`, and understand [`SLURM`].
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// Whether it is a script, and no document; also one whose first line is missing.
#[must_use]
pub fn is_script(text: &[u8]) -> bool {
    text.starts_with(b"#!") || text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"#SBATCH"))
}

/// What was read so far.
#[derive(Default)]
struct Reader {
    name: String,
    gang: v1::Gang,
    ntasks: Option<u32>,
    cpus_per_task: Option<u32>,
    cpus_per_gpu: Option<u32>,
    gpus: Option<u32>,
    gpus_per_task: Option<u32>,
    memory_per_cpu: Option<u64>,
    memory_per_gpu: Option<u64>,
    spec: v1::JobSpec,
    folder: String,
    hold: bool,
    notes: Vec<String>,
}

/// Sizes that are known from elsewhere: they count in place of those that the script says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Nodes at least, and at most.
    pub nodes: Option<(u32, u32)>,
    /// GPUs of each node.
    pub gpus_per_node: Option<u32>,
}

/// Reads a script by its name.
///
/// # Errors
/// All options that cannot be meant so, each with its place.
pub fn read(name: &str, text: &[u8]) -> Result<Script, Error> {
    read_sized(name, text, Sizes::default())
}

/// Reads a script by its name, with sizes that are known better: tasks and GPUs of the whole job are divided by these nodes.
///
/// # Errors
/// All options that cannot be meant so, each with its place.
pub fn read_sized(name: &str, text: &[u8], sizes: Sizes) -> Result<Script, Error> {
    let text =
        std::str::from_utf8(text).map_err(|_| Error::Document(format!("{name}:1:1: is not UTF-8 text")))?;
    if !text.starts_with("#!") {
        let why = "a batch script begins with `#!` and its program, for example #!/bin/bash";
        return Err(Error::Document(format!("{name}:1:1: {why}")));
    }
    let mut reader = Reader::default();
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let Some(rest) = trimmed.strip_prefix("#SBATCH") else {
            // As sbatch has it: directives end where the commands begin.
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            break;
        };
        let mut at = |message: String| wrong.push(format!("{name}:{}:1: {message}", index + 1));
        match written(rest) {
            Ok(all) => {
                for one in all {
                    let taken = one.and_then(|(option, value)| {
                        let failed = |why| format!("--{option}: {why}");
                        reader.option(&option, &value).map_err(failed)
                    });
                    taken.unwrap_or_else(&mut at);
                }
            }
            Err(why) => at(why),
        }
    }
    reader.resize(sizes);
    if wrong.is_empty() { reader.finish(name, text) } else { Err(Error::Document(wrong.join("\n"))) }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("`{text}` is no number from 1 on"))
}

/// `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`.
///
/// # Errors
/// It is none of these.
pub fn time(text: &str) -> Result<Option<Duration>, String> {
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
        match meaning(option)? {
            Meaning::LeftOut(why) => {
                self.notes.push(format!("--{option} is left out: {why}"));
                return Ok(());
            }
            Meaning::Refused(why) => return Err(why.to_owned()),
            Meaning::Read => {}
        }
        match option {
            "job-name" => value.clone_into(&mut self.name),
            "nodes" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                let (least, most) = (number(least)?, number(most)?);
                (self.gang.nodes, self.gang.min_nodes) = (most, if least == most { 0 } else { least });
            }
            "ntasks" => self.ntasks = Some(number(value)?),
            "ntasks-per-node" | "tasks-per-node" => self.gang.ranks_per_node = number(value)?,
            "cpus-per-task" => self.cpus_per_task = Some(number(value)?),
            "gpus-per-node" => self.take_gpus(gpus(value)?),
            "gres" => self.take_gpus(gres(value)?),
            "gpus" => self.gpus = Some(gpus(value)?.1),
            "gpus-per-task" => self.gpus_per_task = Some(gpus(value)?.1),
            "cpus-per-gpu" => self.cpus_per_gpu = Some(number(value)?),
            "mem-per-cpu" => self.memory_per_cpu = Some(memory(value)?),
            "mem-per-gpu" => self.memory_per_gpu = Some(memory(value)?),
            "mem" if value == "0" => self.placement().exclusive = true,
            "mem" => self.gang.memory_per_node = memory(value)?,
            "time" => self.spec.time_limit = time(value)?.map(wire),
            "partition" => self.partition(value)?,
            "reservation" => value.clone_into(&mut self.spec.reservation),
            "signal" => self.signal(value)?,
            "spread-job" => self.placement().arrange = v1::placement_request::Arrange::Spread.into(),
            "qos" => self.spec.service_class = self.named("qos", value, "service class")?,
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
            // All options that are read stand above.
            _ => return Err("is not read here".to_owned()),
        }
        Ok(())
    }

    /// A partition is the queue that an import makes of it.
    fn partition(&mut self, value: &str) -> Result<(), String> {
        if value.contains(',') {
            return Err(format!("`{value}`: a job is in one queue; write one of them"));
        }
        self.spec.queue = self.named("partition", value, "queue")?;
        Ok(())
    }

    /// The name that an import gives to what Slurm calls so.
    fn named(&mut self, slurms: &str, value: &str, ours: &str) -> Result<String, String> {
        let name = job_name(value);
        if name.is_empty() {
            return Err(format!("`{value}` is no name of a {ours}"));
        }
        if name != value {
            self.notes.push(format!(
                "{slurms} {value} is the {ours} {name}: names have small letters, digits and -"
            ));
        }
        Ok(name)
    }

    /// `USR1`, `B:TERM@120`: the signal, and how long before its end a job gets it.
    fn signal(&mut self, value: &str) -> Result<(), String> {
        let rest = value.trim_start_matches(['B', 'R', ':']);
        let (name, before) = rest.split_once('@').unwrap_or((rest, "60"));
        let seconds = before.parse().map_err(|_| format!("`{before}` is no number of seconds"))?;
        let name = name.to_ascii_uppercase();
        let signal = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
        let preemption = self.spec.preemption.get_or_insert_default();
        preemption.grace_period = Some(wire(Duration::from_secs(seconds)));
        preemption.signal = signal;
        self.notes.push(
            "--signal is what ranks get, and so long before they are killed, when the job is stopped for another one; at its time limit they get SIGTERM"
                .to_owned(),
        );
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
            // Said twice it is said.
            let selector = &mut self.placement().selector;
            if !selector.contains(&term) {
                selector.push(term);
            }
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
            let (name, count) = (self.named("license", name, "license")?, number(count)?);
            self.spec.licenses.insert(name, count);
        }
        Ok(())
    }

    /// Sizes that are known better. A range of nodes whose least number they say stays.
    fn resize(&mut self, sizes: Sizes) {
        let gang = &mut self.gang;
        if let Some((least, most)) = sizes.nodes {
            let own = if gang.min_nodes > 0 { gang.min_nodes } else { gang.nodes };
            if least != most || own != least {
                (gang.nodes, gang.min_nodes) = (most, if least == most { 0 } else { least });
            }
        }
        gang.gpus_per_node = sizes.gpus_per_node.unwrap_or(gang.gpus_per_node);
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
        let most = StepRequest::RANKS_PER_NODE;
        if gang.ranks_per_node > most {
            let each = gang.ranks_per_node;
            return wrong(format!(
                "--ntasks: {each} tasks on a server, which has {most} ranks at most; ask for more --nodes"
            ));
        }
        if let Some(gpus) = self.gpus.filter(|_| gang.gpus_per_node == 0) {
            if !gpus.is_multiple_of(gang.nodes) {
                return wrong(format!(
                    "--gpus {gpus} is not the same on each of {} nodes; write --gpus-per-node",
                    gang.nodes
                ));
            }
            gang.gpus_per_node = gpus / gang.nodes;
        }
        if let Some(gpus) = self.gpus_per_task.filter(|_| gang.gpus_per_node == 0) {
            gang.gpus_per_node = gpus.saturating_mul(gang.ranks_per_node);
        }
        let of_gpus = self.cpus_per_gpu.map(|cpus| cpus.saturating_mul(gang.gpus_per_node));
        let of_tasks = self.cpus_per_task.map(|cpus| cpus.saturating_mul(gang.ranks_per_node));
        gang.cpus_per_node = of_tasks.or(of_gpus).unwrap_or_default();
        let cpus = gang.cpus_per_node.max(gang.ranks_per_node);
        let by_cpu = self.memory_per_cpu.map(|bytes| bytes.saturating_mul(cpus.into()));
        let by_gpu = self.memory_per_gpu.map(|bytes| bytes.saturating_mul(gang.gpus_per_node.into()));
        if let Some(bytes) = by_cpu.or(by_gpu) {
            gang.memory_per_node = bytes;
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
                let lower = job_name(given);
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

/// The nearest name that a job may have.
#[must_use]
pub fn job_name(given: &str) -> String {
    const LONGEST: usize = 63;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let plain: String = given.chars().map(plain).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(LONGEST);
    name.trim_end_matches('-').to_owned()
}

/// What runs the script: the program of its first line. Shells are told what scripts for Slurm look for, and so is what they start.
fn command(name: &str, text: &str) -> Result<Vec<String>, Error> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<&str> = first.trim_start_matches("#!").split_whitespace().collect();
    let program = match words.as_slice() {
        [env, program, ..] if env.ends_with("/env") => *program,
        [program, ..] => *program,
        [] => return Err(Error::Document(format!("{name}:1:3: names no program"))),
    };
    let bare = program.rsplit('/').next().unwrap_or(program);
    let words = words.iter().map(|word| (*word).to_owned());
    if SHELLS.contains(&bare) {
        return Ok(words.chain(["-c".to_owned(), format!("{SLURM}\n{rest}"), name.to_owned()]).collect());
    }
    if bare.starts_with("python") {
        return Ok(words.chain(["-c".to_owned(), format!("{first}\n{rest}")]).collect());
    }
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), format!("{SLURM}\n{AS_A_FILE}")];
    Ok(shell.into_iter().chain([name.to_owned(), text.to_owned()]).chain(words).collect())
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
    fn a_partition_is_the_queue_that_an_import_makes_of_it() {
        let read = script("#SBATCH -p gpu_P13");
        assert_eq!(read.job.spec.unwrap().queue, "gpu-p13");
        assert!(read.notes.iter().any(|note| note.contains("gpu_P13") && note.contains("gpu-p13")));
        assert_eq!(script("#SBATCH -q qos_gpu-t4").job.spec.unwrap().service_class, "qos-gpu-t4");
        assert!(script("#SBATCH -p night").notes.iter().all(|note| !note.contains("night")));
        assert!(wrong("#SBATCH -p a,b").contains("one of them") && wrong("#SBATCH -p _").contains("no name"));
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
    fn all_that_is_wrong_is_told_at_once_and_hints_are_left_out() {
        let said = wrong("#SBATCH --hint=nomultithread --clusters=a -Z 1\n#SBATCH --wrap=x --nodes=0");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 5, "{said}");
        assert!(lines[0].starts_with("job.sh:2:1: --clusters: a cluster is chosen by"), "{said}");
        assert!(lines[3].starts_with("job.sh:3:1: --wrap: write `railctl submit --wrap`"), "{said}");
        assert!(lines[4].contains("--nodes: `0` is no number"), "{said}");
        let read = script("#SBATCH --hint=nomultithread --reservation=night --job-name=tr11-176B.ml+%x");
        assert!(read.notes.iter().any(|note| note.starts_with("--hint is left out")), "{:?}", read.notes);
        assert_eq!(read.job.spec.unwrap().reservation, "night");
        assert_eq!(read.job.metadata.unwrap().name, "tr11-176b-ml-x");
        let without = super::read("job.sh", b"#SBATCH -N 2\n").unwrap_err().to_string();
        assert!(without.contains("a batch script begins with `#!`"), "{without}");
    }

    #[test]
    fn what_is_asked_of_each_task_cpu_or_gpu_is_that_of_its_server() {
        let gang = |lines| script(lines).job.spec.unwrap().gang.unwrap();
        let each =
            gang("#SBATCH -N 2 --tasks-per-node=4 --gpus-per-task=2 --cpus-per-gpu=3 --mem-per-gpu=8G");
        assert_eq!((each.ranks_per_node, each.gpus_per_node, each.cpus_per_node), (4, 8, 24));
        assert_eq!(each.memory_per_node, 64 << 30);
        let cpus = gang("#SBATCH -n 6 -c 2 --mem-per-cpu=1024");
        assert_eq!((cpus.ranks_per_node, cpus.cpus_per_node, cpus.memory_per_node), (6, 12, 12 << 30));
        let spec = script("#SBATCH --signal=B:USR1@120 --spread-job").job.spec.unwrap();
        let stopped = proto_model::JobSpec::try_from(spec).unwrap().preemption;
        assert_eq!((stopped.signal, stopped.grace), (10, Some(Duration::from_secs(120))));
    }

    #[test]
    fn sizes_that_are_known_better_are_what_the_whole_is_divided_by() {
        let gang = |lines: &str, nodes, gpus_per_node| {
            let text = format!("#!/bin/sh\n{lines}\ntrue\n");
            let read = read_sized("job.sh", text.as_bytes(), Sizes { nodes, gpus_per_node }).unwrap();
            let gang = read.job.spec.unwrap().gang.unwrap();
            (gang.nodes, gang.min_nodes, gang.ranks_per_node, gang.gpus_per_node)
        };
        assert_eq!(gang("#SBATCH -n 8 -G 8", Some((4, 4)), None), (4, 0, 2, 2));
        assert_eq!(gang("#SBATCH -N 8 --gpus-per-node=1", Some((2, 2)), Some(4)), (2, 0, 1, 4));
        assert_eq!(gang("#SBATCH -N 2-4", Some((2, 2)), None), (4, 2, 1, 0), "the range stays");
        assert_eq!(gang("#SBATCH -N 2-4", Some((3, 3)), None), (3, 0, 1, 0));
        assert_eq!(gang("", Some((2, 6)), None), (6, 2, 1, 0));
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
                .contains("job.sh:3:1: --ndoes: is no option of sbatch; did you mean --nodes?")
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
        let python = read("x.py", b"#!/usr/bin/env python3\nprint(1)\n").unwrap();
        let Some(Work::Command(command)) = python.job.spec.unwrap().work else { panic!() };
        assert_eq!(command.argv[..3], ["/usr/bin/env", "python3", "-c"]);
        assert!(is_script(b"#!/bin/sh") && !is_script(b"# yaml"));
    }
    /// What the script's command does here.
    fn ran(text: &[u8]) -> std::process::Output {
        let Some(Work::Command(command)) = read("job", text).unwrap().job.spec.unwrap().work else {
            panic!()
        };
        let mut here = std::process::Command::new(&command.argv[0]);
        here.args(&command.argv[1..]).env("RAIL_JOB", "lab/night").env("WORLD_SIZE", "1").output().unwrap()
    }

    #[test]
    fn any_other_program_gets_the_script_as_a_file() {
        let said = ran(b"#!/bin/cat -e\n#SBATCH -N1\nhello\n");
        assert_eq!(said.stdout, b"#!/bin/cat -e$\n#SBATCH -N1$\nhello$\n");
        let outcome = ran(b"#!/usr/bin/env -S sh -eu\necho \"$SLURM_NTASKS of $SLURM_JOB_NAME\"; exit 7\n");
        assert_eq!((outcome.status.code(), outcome.stdout.as_slice()), (Some(7), &b"1 of night\n"[..]));
    }

    #[test]
    fn licenses_and_constraints_are_as_an_import_and_the_controller_have_them() {
        let read = script("#SBATCH -L SCRATCH:2,db\n#SBATCH -C gpu\n#SBATCH -C gpu");
        assert!(read.notes.iter().any(|note| note.contains("SCRATCH") && note.contains("scratch")));
        let spec = read.job.spec.unwrap();
        assert_eq!(spec.licenses.get("scratch"), Some(&2));
        assert_eq!((spec.licenses.len(), spec.placement.unwrap().selector.len()), (2, 1));
        assert!(
            wrong("#SBATCH --ntasks=384").contains("--ntasks: 384 tasks on a server, which has 256 ranks")
        );
    }
}
