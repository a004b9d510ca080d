//! `timeline`: the life of a job as a picture.

use std::io::IsTerminal as _;

use prost_types::Timestamp;
use proto_rpc::ErrorClass;
use proto_wire::v1::{self, job_status::Phase};

use super::{array, history};
use crate::{
    args::{Timeline, TimelineOutput, job_names},
    client::{Api, JobRef, repeat},
    error::Error,
    output::{now, print},
    render::Paint,
    timeline::{self, Facts},
};

/// Pages of the decision log that are read for one job at most.
const PAGES: usize = 32;
/// Characters of a bar where the width of the terminal is not known, and those of the columns beside it.
const BAR: usize = 40;
const BESIDE: usize = 74;

/// `timeline JOB`: what it did from when to when.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Usage`] if an array is named without an element;
/// [`Error::File`] if the picture cannot be written.
pub async fn run(args: &Timeline, api: &Api) -> Result<(), Error> {
    // clap makes sure that there is one.
    let name = job_names(&args.job).first().map_or("", String::as_str);
    let facts = facts(name, api).await?;
    let made = timeline::timeline(&facts, (now() * 1e6) as i64);
    let terminal = args.out.is_none() && std::io::stdout().is_terminal();
    let text = match args.output {
        TimelineOutput::Text => timeline::text(&made, bar(terminal), Paint::of(args.color, terminal)),
        TimelineOutput::Svg => timeline::svg(&made),
        TimelineOutput::Perfetto => timeline::perfetto(&made),
        TimelineOutput::Json => timeline::json(&made),
    };
    let Some(path) = &args.out else { return print(&text) };
    std::fs::write(path, text).map_err(|error| Error::file("write", path, error))?;
    eprintln!("drawn into {}", path.display());
    Ok(())
}

/// Characters of a bar.
fn bar(terminal: bool) -> usize {
    let size = if terminal { rustix::termios::tcgetwinsize(std::io::stdout()).ok() } else { None };
    size.map_or(BAR, |size| usize::from(size.ws_col).saturating_sub(BESIDE).clamp(BAR / 2, BAR * 3))
}

/// All that is told of a job.
async fn facts(name: &str, api: &Api) -> Result<Facts, Error> {
    let job = array::one(name, api).await?;
    let of = JobRef::of(&job);
    let mut facts = Facts { decisions: decisions(&of, api).await?, ..Facts::default() };
    match history::changes(&job, api).await {
        Ok(changes) => facts.changes = changes,
        // Users do not read the audit log.
        Err(error) if error.is_denied() => {}
        Err(error) => return Err(error),
    }
    let phase = job.status.as_ref().map_or(Phase::Unspecified, v1::JobStatus::phase);
    if !matches!(phase, Phase::Completed | Phase::Failed | Phase::Cancelled) {
        let answer = explain(&of, None, api).await?;
        (facts.rails, facts.eta) = (answer.rails, answer.eta);
        facts.drains = drains(api).await?;
    }
    facts.job = job;
    Ok(facts)
}

async fn explain(of: &JobRef, at: Option<Timestamp>, api: &Api) -> Result<v1::ExplainJobResponse, Error> {
    let request = v1::ExplainJobRequest { name: of.name.clone(), tenant: of.tenant.clone(), at };
    repeat(format!("explain job `{of}`"), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.explain_job(request).await }
    })
    .await
}

/// All decisions that are kept, the oldest first: the log answers with the last ones before a time.
async fn decisions(of: &JobRef, api: &Api) -> Result<Vec<v1::Decision>, Error> {
    // The controller's clock may be ahead of ours.
    let mut at = Timestamp { seconds: now() as i64 + 86_400, nanos: 0 };
    let mut all: Vec<v1::Decision> = Vec::new();
    for _ in 0..PAGES {
        let mut page = match explain(of, Some(at), api).await {
            Ok(answer) => answer.decisions,
            // Nothing is kept of then.
            Err(Error::Rpc { error, .. })
                if matches!(error.class, ErrorClass::Invalid | ErrorClass::NotFound) =>
            {
                break;
            }
            Err(error) => return Err(error),
        };
        page.retain(|one| !all.contains(one));
        let Some(first) = page.first().and_then(|one| one.time) else { break };
        at = first;
        page.append(&mut all);
        all = page;
    }
    Ok(all)
}

/// What is drained now; nothing where the caller may not know.
async fn drains(api: &Api) -> Result<Vec<v1::RailDrain>, Error> {
    let answer = repeat("list rails", |_| {
        let mut client = api.rails();
        async move { client.list_rails(v1::ListRailsRequest::default()).await }
    })
    .await;
    match answer {
        Ok(answer) => Ok(answer.drains),
        Err(error) if error.is_denied() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
