//! What a job does, in one line.

use proto_wire::v1::{self, job_spec::Work};

use super::words;

pub(crate) fn work(spec: &v1::JobSpec) -> String {
    match &spec.work {
        None => String::new(),
        Some(Work::Command(command)) => command.argv.join(" "),
        Some(Work::Allocation(_)) => "an allocation: servers held for `railctl run`".to_owned(),
        Some(Work::Collective(collective)) => {
            let name = |text: &str| text.to_lowercase().replace('_', "-");
            let verify = if collective.verify { ", verified" } else { "" };
            format!(
                "{} of {} {} {}, {} iterations{verify}",
                name(collective.op().as_str_name()),
                words::bytes(collective.bytes),
                name(collective.dtype().as_str_name()),
                name(collective.reduce().as_str_name()),
                collective.iterations,
            )
        }
    }
}
