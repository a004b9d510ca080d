//! Why a job is in its phase, and how its rails are while it runs.

use std::fmt::Write as _;

use proto_model::many;
use proto_wire::v1;

use super::array;
use crate::{
    args::{Explain, job_names},
    client::{Api, JobRef, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// `explain job NAME`: why the job is in its phase.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Usage`] if an array is named without an element.
pub async fn run(args: &Explain, api: &Api) -> Result<(), Error> {
    // clap makes sure that there is one.
    let name = job_names(&args.job).first().map_or("", String::as_str);
    let job = if name.contains('[') { JobRef::of(&array::one(name, api).await?) } else { api.job_ref(name) };
    let at = args.at.map(|at| at.time(now()));
    let request = v1::ExplainJobRequest { name: job.name.clone(), tenant: job.tenant.clone(), at };
    let answer = repeat(format!("explain job `{job}`"), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.explain_job(request).await }
    })
    .await;
    let answer = match answer {
        // An array: which of its elements is meant?
        Err(error) if error.is_not_found() => {
            return Err(array::one(name, api).await.err().unwrap_or(error));
        }
        answer => answer?,
    };
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
    if answer.decisions.is_empty() && answer.phase() == v1::job_status::Phase::Pending {
        let verb = if answer.queue_position == 1 { "is" } else { "are" };
        let _ = write!(out, "; {} {verb} ahead of it", many(answer.queue_position, "job"));
    }
    out.push('\n');
    if answer.infeasible {
        out.push_str("it can never start on this cluster as it is described now\n");
    }
    out.push_str(&expected(answer.eta.as_ref()));
    if answer.nodes_total > 0 {
        let _ = writeln!(
            out,
            "{} of {} could be had now, {} of them as one gang of this kind",
            answer.nodes_free,
            many(answer.nodes_total, "node"),
            answer.nodes_reach
        );
    }
    if answer.isolation() == v1::IsolationPolicy::Required {
        out.push_str("its servers must give all isolation that REQUIRED asks for\n");
    }
    if let (false, Some(_)) = (answer.backfill.is_empty(), &answer.eta) {
        let _ = writeln!(out, "backfill of the queue: {}", answer.backfill);
    }
    out.push_str(&causes(&answer.reasons));
    out.push_str(&holders(&answer.holders, answer.holders_omitted, "waits for"));
    out.push_str(&relaxations(&answer.relaxations));
    out + &decisions(&answer.decisions)
}

/// When a job will probably start.
pub fn expected(eta: Option<&v1::Eta>) -> String {
    let text =
        |time: &Option<prost_types::Timestamp>| time.as_ref().map_or("?".to_owned(), ToString::to_string);
    eta.map_or_else(String::new, |eta| {
        if eta.latest.is_none() {
            return format!("it will probably not start before {}\n", text(&eta.earliest));
        }
        let (start, earliest, latest) = (text(&eta.start), text(&eta.earliest), text(&eta.latest));
        let promised = promised(eta, &text(&eta.planned));
        format!("it will probably start at {start}, between {earliest} and {latest}\n{promised}\n")
    })
}

/// What a job that waits can rely on.
fn promised(eta: &v1::Eta, planned: &str) -> String {
    let delays = match eta.promise() {
        v1::eta::Promise::Unspecified | v1::eta::Promise::Estimate => {
            return "that is an estimate: no place is kept for it in the plan".to_owned();
        }
        v1::eta::Promise::Conservative => "no job behind it delays that (CONSERVATIVE backfill)",
        v1::eta::Promise::Easy => {
            "it is the first that waits, and no job behind it delays that (EASY backfill)"
        }
        v1::eta::Promise::Slack => "no job behind it delays that further (SLACK backfill)",
    };
    format!("its place in the plan begins at {planned}: {delays}")
}

/// Jobs with the nodes that they hold.
pub fn holders(holders: &[v1::Holder], omitted: u32, what: &str) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let mut table = render::Table::new(["JOB", "NODES", "UNTIL"]);
    for holder in holders {
        let job = match (holder.tenant.as_str(), holder.job.as_str()) {
            ("", _) | (_, "") => "of another tenant".to_owned(),
            (tenant, job) => format!("{tenant}/{job}"),
        };
        let nodes = if holder.nodes == 0 { String::new() } else { holder.nodes.to_string() };
        table.row([job, nodes, holder.until.as_ref().map(ToString::to_string).unwrap_or_default()]);
    }
    let more = if omitted > 0 { format!("and {}\n", many(omitted, "more job")) } else { String::new() };
    format!("\nwho holds what it {what}:\n{}{more}", table.render(""))
}

/// What would let a job start now.
pub fn relaxations(relaxations: &[v1::Relaxation]) -> String {
    if relaxations.is_empty() {
        return String::new();
    }
    let mut out = "\nit could start now with one of:\n".to_owned();
    for relaxation in relaxations {
        let changes: Vec<String> = relaxation
            .changes
            .iter()
            .map(|change| format!("{} ({})", change.message, change.field))
            .collect();
        let _ = writeln!(out, "- {}", changes.join(", and "));
    }
    out
}

fn decisions(decisions: &[v1::Decision]) -> String {
    if decisions.is_empty() {
        return String::new();
    }
    let mut table = render::Table::new(["TIME", "PHASE", "ATTEMPT", "NODES", "PLACEMENT", "CAUSES"]);
    for decision in decisions {
        let nodes = if decision.nodes == 0 { String::new() } else { decision.nodes.to_string() };
        table.row([
            decision.time.as_ref().map(ToString::to_string).unwrap_or_default(),
            render::job_phase(decision.phase).to_owned(),
            decision.attempt.to_string(),
            nodes,
            decision.placement_digest.clone(),
            render::reasons(&decision.reasons),
        ]);
    }
    format!("\nwhat was decided until then:\n{}", table.render(""))
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

    #[test]
    fn who_holds_and_what_would_help() {
        let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let change = v1::relaxation::Change {
            field: "spec.gang.nodes".into(),
            message: "6 nodes in place of 8".into(),
            ..Default::default()
        };
        let answer = v1::ExplainJobResponse {
            phase: 1,
            queue_position: 1,
            nodes_total: 10,
            nodes_free: 7,
            nodes_reach: 6,
            eta: Some(v1::Eta {
                start: time(60),
                earliest: time(30),
                latest: time(120),
                promise: v1::eta::Promise::Conservative.into(),
                planned: time(150),
            }),
            backfill: "CONSERVATIVE".into(),
            holders: vec![
                v1::Holder { tenant: "nlp".into(), job: "b".into(), nodes: 3, until: time(60) },
                v1::Holder { nodes: 1, ..Default::default() },
            ],
            holders_omitted: 4,
            relaxations: vec![v1::Relaxation { changes: vec![change], amount: 250 }],
            ..Default::default()
        };
        let expected = "\
job nlp/a is Pending; 1 job is ahead of it
it will probably start at 1970-01-01T00:01:00Z, between 1970-01-01T00:00:30Z and 1970-01-01T00:02:00Z
its place in the plan begins at 1970-01-01T00:02:30Z: no job behind it delays that (CONSERVATIVE backfill)
7 of 10 nodes could be had now, 6 of them as one gang of this kind
backfill of the queue: CONSERVATIVE
no causes are recorded

who holds what it waits for:
JOB                NODES  UNTIL
nlp/b              3      1970-01-01T00:01:00Z
of another tenant  1      -
and 4 more jobs

it could start now with one of:
- 6 nodes in place of 8 (spec.gang.nodes)
";
        assert_eq!(words("nlp/a", &answer), expected);
    }
}
