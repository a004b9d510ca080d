//! The job of a command line: its file, or a command for a shell, with what flags say in its place.

use std::time::Duration;

use proto_wire::v1::{self, job_spec::Work};

use super::cancel::duration;
use crate::{
    args::{InPlace, JobSource},
    documents::{Source, script},
    error::Error,
};

/// Reads the job, and puts what was given in place of what its file says.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Usage`] if file and options contradict each other.
pub fn job(source: &JobSource, in_place: &InPlace) -> Result<Read, Error> {
    let mut read = match &source.wrap {
        Some(command) => {
            Read { source: Source::of("--wrap", Vec::new()), job: wrapped(command, in_place), hold: false }
        }
        None => {
            let source = Source::open(&source.path())?;
            if script::is_script(&source.text) {
                let script = script::read(&source.name, &source.text)?;
                script.notes.iter().for_each(|note| eprintln!("note: {note}"));
                Read { source, job: script.job, hold: script.hold }
            } else {
                let job = source.job()?;
                Read { source, job, hold: false }
            }
        }
    };
    put(in_place, &mut read.job)?;
    Ok(read)
}

/// What is to be submitted.
#[derive(Debug)]
pub struct Read {
    /// The file that the job came from, for places in messages.
    pub source: Source,
    /// The job, with what flags say in place of the file's.
    pub job: v1::Job,
    /// The job is to be held back after its submit.
    pub hold: bool,
}

/// A job that runs a command by a shell.
fn wrapped(command: &str, in_place: &InPlace) -> v1::Job {
    let nodes = in_place.nodes.unwrap_or(1);
    let gpus_per_node = in_place.gpus_per_node.unwrap_or(0);
    let argv = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
    let no_rails = nodes == 1 && gpus_per_node == 0;
    let spec = v1::JobSpec {
        gang: Some(v1::Gang { nodes, gpus_per_node, ranks_per_node: 1, ..v1::Gang::default() }),
        rails: no_rails.then(|| v1::RailRequest { none: true, ..v1::RailRequest::default() }),
        work: Some(Work::Command(v1::Command { argv, ..v1::Command::default() })),
        ..v1::JobSpec::default()
    };
    let metadata = v1::Metadata { generate_name: "wrap-".to_owned(), ..v1::Metadata::default() };
    v1::Job {
        api_version: "rail/v1".to_owned(),
        kind: "Job".to_owned(),
        metadata: Some(metadata),
        spec: Some(spec),
        ..v1::Job::default()
    }
}

fn put(in_place: &InPlace, job: &mut v1::Job) -> Result<(), Error> {
    let spec = job.spec.get_or_insert_default();
    if let Some(nodes) = in_place.nodes {
        let gang = spec.gang.get_or_insert_default();
        (gang.nodes, gang.min_nodes) = (nodes, 0);
    }
    if let Some(gpus) = in_place.gpus_per_node {
        spec.gang.get_or_insert_default().gpus_per_node = gpus;
    }
    if let Some(limit) = in_place.time_limit {
        spec.time_limit = Some(duration(limit.max(Duration::from_millis(1)))?);
    }
    if !in_place.nodelist.is_empty() {
        spec.placement.get_or_insert_default().nodes.clone_from(&in_place.nodelist);
    }
    if let Some(queue) = &in_place.queue {
        spec.queue.clone_from(queue);
    }
    if in_place.variables.is_empty() && in_place.env_from.is_empty() {
        return Ok(());
    }
    match spec.work.as_mut() {
        Some(Work::Command(command)) => {
            command.env.extend(in_place.variables.iter().cloned());
            command.env_from.extend(in_place.env_from.iter().cloned());
            Ok(())
        }
        _ => Err(Error::Usage("`--env` and `--env-from` are for jobs that run a command".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> InPlace {
        InPlace {
            nodes: None,
            gpus_per_node: None,
            time_limit: None,
            queue: None,
            nodelist: Vec::new(),
            variables: Vec::new(),
            env_from: Vec::new(),
        }
    }

    #[test]
    fn a_command_is_a_job_of_one_server_unless_flags_say_otherwise() {
        let source = |text: &str| JobSource { positional: None, flag: None, wrap: Some(text.into()) };
        let job = super::job(&source("hostname"), &nothing()).unwrap().job;
        let spec = job.spec.clone().unwrap();
        assert_eq!((spec.gang.unwrap().nodes, spec.rails.unwrap().none), (1, true));
        assert!(proto_model::JobSpec::try_from(job.spec.unwrap()).is_ok());
        let flags = InPlace {
            nodes: Some(2),
            gpus_per_node: Some(8),
            time_limit: Some(Duration::from_secs(60)),
            queue: Some("night".into()),
            nodelist: Vec::new(),
            variables: vec![("A".into(), "1".into())],
            env_from: vec![crate::args::parse_env_from("secret/s3:KEY").unwrap()],
        };
        let spec = super::job(&source("hostname"), &flags).unwrap().job.spec.unwrap();
        assert_eq!((spec.gang.unwrap().gpus_per_node, spec.rails, spec.queue.as_str()), (8, None, "night"));
        let Some(Work::Command(command)) = spec.work else { panic!() };
        assert_eq!((command.argv[2].as_str(), command.env["A"].as_str()), ("hostname", "1"));
        assert_eq!(command.env_from, flags.env_from);
    }
}
