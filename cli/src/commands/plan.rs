//! What would happen if a job were submitted now.

use proto_wire::v1;

use super::{
    explain::{causes, expected, holders, relaxations},
    source,
};
use crate::{
    args::{Output, Plan},
    client::{Api, repeat},
    documents::Source,
    error::Error,
    output::print,
    render,
};

/// `plan FILE`: what would happen if the job were submitted now.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Plan, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let source::Read { source, mut job, .. } = source::job(&args.source, &args.in_place)?;
    args.asked.put(&mut job);
    show(&source, job, args.output, &api()?).await
}

/// Asks and shows; a job that can never run is exit 6, one that would wait is not.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, with the place in the file where it names a field; [`Error::Infeasible`]
/// if the job can never run.
pub async fn show(source: &Source, job: v1::Job, output: Output, api: &Api) -> Result<(), Error> {
    let request = v1::PlanJobRequest { job: Some(job), on_behalf_of: api.tenant.clone() };
    let planned = repeat(format!("plan {}", source.name), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.plan_job(request).await }
    })
    .await
    .map_err(|error| source.place(0, error))?;
    let names = || {
        planned
            .placement
            .iter()
            .flat_map(|place| &place.nodes)
            .map(|node| format!("node/{}", node.node))
            .collect()
    };
    let table = |_| words(&planned);
    print(&render::render(output, &planned, "rail.v1.PlanJobResponse", names, table)?)?;
    if planned.infeasible {
        let codes = render::reasons(&planned.reasons);
        return Err(Error::Infeasible(format!(
            "{}: the job can never start on this cluster: {codes}",
            source.name
        )));
    }
    Ok(())
}

fn words(planned: &v1::PlanJobResponse) -> String {
    let stopped = holders(&planned.preempts, 0, "would get; these would be stopped for it");
    match &planned.placement {
        Some(place) => format!("it would start at once\n{}{stopped}", render::describe_placement(place)),
        None if planned.infeasible => causes(&planned.reasons),
        None => format!(
            "it would wait\n{}{}{stopped}{}{}",
            expected(planned.eta.as_ref()),
            causes(&planned.reasons),
            holders(&planned.holders, planned.holders_omitted, "would wait for"),
            relaxations(&planned.relaxations)
        ),
    }
}
