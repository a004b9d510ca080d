//! Jobs of one command, and errors as text: what all benches with real controllers need.

use proto_wire::v1;

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A job of one command.
pub fn command_job(name: &str, nodes: u32, argv: &[&str]) -> v1::Job {
    v1::Job {
        metadata: Some(v1::Metadata { name: name.to_owned(), ..Default::default() }),
        spec: Some(v1::JobSpec {
            gang: Some(v1::Gang { nodes, gpus_per_node: 1, ranks_per_node: 1, ..v1::Gang::default() }),
            work: Some(v1::job_spec::Work::Command(v1::Command {
                argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                ..Default::default()
            })),
            ..Default::default()
        }),
        ..Default::default()
    }
}
