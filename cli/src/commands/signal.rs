//! `signal`: a signal for the ranks of a running job.

use proto_wire::v1;

use super::step::{self, Step};
use crate::{args::SignalJob, client::Api, error::Error};

/// `signal JOB SIGNAL`: sends a signal to the ranks of a running job.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Exited`] if the signal was not delivered everywhere.
pub async fn run(args: &SignalJob, api: &Api) -> Result<(), Error> {
    let job = api.job_ref(&args.job);
    let start = v1::StepStart {
        job: job.name.clone(),
        tenant: job.tenant.clone(),
        nodes: args.nodes.iter().cloned().collect(),
        ranks_per_node: 1,
        signal: args.signal.number,
        ..v1::StepStart::default()
    };
    match step::run(api, Step { start, label: false, tty: false }).await? {
        0 => {
            let place = args.nodes.as_ref().map(|nodes| format!(" on {nodes}")).unwrap_or_default();
            eprintln!("{} is sent to the ranks of job {job}{place}", args.signal.name);
            Ok(())
        }
        code => Err(Error::Exited(code)),
    }
}
