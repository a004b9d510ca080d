//! Why a job is in its phase, and how its rails are while it runs.

use std::fmt::Write as _;

use proto_wire::v1;

use crate::{
    args::Explain,
    client::{Api, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// `explain job NAME`.
pub async fn run(args: &Explain, api: &Api) -> Result<(), Error> {
    let job = api.job_ref(&args.name);
    let request = v1::ExplainJobRequest { name: job.name.clone(), tenant: job.tenant.clone() };
    let answer = repeat(format!("explain job `{job}`"), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.explain_job(request).await }
    })
    .await?;
    let names = || answer.reasons.iter().map(|reason| format!("reason/{}", reason.code)).collect();
    let table = |_| {
        let rails = render::node_rails(&answer.rails, answer.rails_omitted, now());
        words(&job.to_string(), &answer) + &rails + &render::choices(&answer.choices)
    };
    print(&render::render(args.output, &answer, "rail.v1.ExplainJobResponse", names, table)?)
}

fn words(job: &str, answer: &v1::ExplainJobResponse) -> String {
    let phase = render::job_phase(answer.phase);
    let mut out = format!("job {job} is {phase}");
    if answer.phase() == v1::job_status::Phase::Pending {
        let _ = write!(out, "; {} jobs are ahead of it", answer.queue_position);
    }
    out.push('\n');
    if answer.infeasible {
        out.push_str("it can never start on this cluster as it is described now\n");
    }
    out.push_str(&causes(&answer.reasons));
    out
}

/// Every cause with its scope and count.
pub fn causes(reasons: &[v1::Reason]) -> String {
    if reasons.is_empty() {
        return "no causes are recorded\n".to_owned();
    }
    let mut table = render::Table::new(["CAUSE", "COUNT", "SCOPE", "WHAT"]);
    for reason in reasons {
        let count = if reason.count == 0 { String::new() } else { reason.count.to_string() };
        table.row([reason.code.clone(), count, reason.scope.clone(), reason.message.clone()]);
    }
    table.render("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_causes_are_told() {
        let reason = v1::Reason {
            code: "GpuCapacity".into(),
            count: 3,
            message: "3 of 4 nodes are full".into(),
            ..Default::default()
        };
        let answer = v1::ExplainJobResponse {
            phase: 1,
            reasons: vec![reason],
            queue_position: 2,
            infeasible: true,
            ..Default::default()
        };
        let expected = "\
job nlp/a is Pending; 2 jobs are ahead of it
it can never start on this cluster as it is described now
CAUSE        COUNT  SCOPE  WHAT
GpuCapacity  3      -      3 of 4 nodes are full
";
        assert_eq!(words("nlp/a", &answer), expected);
    }
}
