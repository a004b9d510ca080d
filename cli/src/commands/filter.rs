//! Which of the listed jobs and servers are meant, and how a job is written.

use proto_wire::v1;

use crate::args::{Get, PhaseArg};

/// The number of a phase on the wire.
pub fn phase_number(phase: PhaseArg) -> i32 {
    use v1::job_status::Phase;
    let phase = match phase {
        PhaseArg::Pending => Phase::Pending,
        PhaseArg::Reserved => Phase::Reserved,
        PhaseArg::Preparing => Phase::Preparing,
        PhaseArg::Running => Phase::Running,
        PhaseArg::Recovering => Phase::Recovering,
        PhaseArg::Completed => Phase::Completed,
        PhaseArg::Failed => Phase::Failed,
        PhaseArg::Cancelled => Phase::Cancelled,
    };
    phase.into()
}

/// True if the metadata has all labels that were asked for.
pub fn labelled(metadata: Option<&v1::Metadata>, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(key, value)| metadata.is_some_and(|metadata| metadata.labels.get(key) == Some(value)))
}

/// The same of a server: its labels are of its spec, where administrators set them.
pub fn node_labelled(node: &v1::Node, wanted: &[(String, String)]) -> bool {
    let own = node.spec.as_ref().map(|spec| &spec.labels);
    wanted.iter().all(|(key, value)| {
        own.is_some_and(|own| own.get(key) == Some(value))
            || labelled(node.metadata.as_ref(), &[(key.clone(), value.clone())])
    })
}

/// True if a job has all that was asked for, but for its phase.
pub fn wanted(job: &v1::Job, args: &Get) -> bool {
    let user = || job.status.as_ref().and_then(|status| Some(status.submitter.as_ref()?.user.as_str()));
    let queue = || job.spec.as_ref().map(|spec| spec.queue.as_str());
    labelled(job.metadata.as_ref(), &args.labels)
        && args.user.as_deref().is_none_or(|wanted| user() == Some(wanted))
        && args.queue.as_deref().is_none_or(|wanted| queue() == Some(wanted))
}

/// The job as `-o name` writes it: `job/TENANT/NAME`.
pub fn job_name(job: &v1::Job) -> String {
    let metadata = job.metadata.clone().unwrap_or_default();
    format!("job/{}/{}", metadata.tenant, metadata.name)
}
