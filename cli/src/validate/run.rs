//! Has the tests run, one step after the other, and tells how far it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use proto_model::Names;
use proto_wire::v1::{self, collective::Op};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    clean::{self, LABEL},
    html,
    judge::{Limits, bytes, judge},
    measure::{Baseline, Measured, Outcome, Run},
    plan::{Phase, Settings, Test, plan},
    rails::Rails,
    report::{self, Report},
};
use crate::{
    args::{Output, Validate},
    client::{Api, JobRef, repeat},
    commands::{
        due::Pace,
        progress::{Progress, ended},
    },
    error::Error,
    output::{now, print},
    render,
};

/// Between two looks at jobs that run, and at a rail that is emptied.
const PAUSE: Duration = Duration::from_millis(50);
/// So long an all-reduce runs under which a rail is lost.
const LOAD: f64 = 6e6;
/// The least and the most repetitions of that all-reduce.
const REPETITIONS: (u32, u32) = (20, 100_000);
/// It has run so long when the rail goes, and the rail is gone so long.
const UNDER_LOAD: Duration = Duration::from_millis(500);

/// `validate`. What falls short is exit code 1; an interrupt leaves nothing behind.
///
/// # Errors
/// [`Error::Differs`] if something falls short; [`Error::Infeasible`] if the servers cannot be tested; [`Error::Interrupted`] for Ctrl-C
/// and SIGTERM; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Validate, api: &Api) -> Result<(), Error> {
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| Error::Config(format!("signals cannot be heard: {error}")))?;
    let (settings, rails) = settings(args, api).await?;
    let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
    let progress = Progress::new();
    for one in &rails.unfit {
        progress.say(&format!("{}: {}", one.place, one.message));
    }
    let mut validation = Validation { api, args, id: &id, rails: &rails, runs: Vec::new(), jobs: 0 };
    let done = tokio::select! {
        done = validation.all(&settings, &progress) => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
        _ = terminate.recv() => Err(Error::Interrupted),
    };
    if done.is_err() {
        progress.say("ending its jobs, bringing back its rails");
    }
    let cleaned = clean::clean(api, &id).await;
    drop(progress);
    done?;
    cleaned?;
    reported(args, &settings, &rails, validation.runs, baseline)
}

/// Judges, writes what was asked for, and prints.
fn reported(
    args: &Validate,
    settings: &Settings,
    rails: &Rails,
    runs: Vec<Run>,
    baseline: Option<Baseline>,
) -> Result<(), Error> {
    let limits = Limits { below_baseline: args.tolerance, below_median: args.outlier };
    let mut verdict = judge(&runs, baseline.as_ref(), limits);
    verdict.findings.splice(0..0, rails.unfit.iter().cloned());
    let time = render::time((now() * 1000.0) as u64);
    let (nodes, rails) = (settings.nodes.clone(), settings.rails.clone());
    let report = Report { time, nodes, rails, baseline: baseline.map(|one| one.time), limits, runs, verdict };
    if let Some(path) = &args.html {
        write(path, &html::page(&report))?;
    }
    if let Some(path) = &args.json {
        write(path, &format!("{:#}\n", report::as_json(&report)))?;
    }
    if let Some(path) = &args.save_baseline {
        let kept = serde_json::to_value(Baseline::of(&report.runs, report.time.clone()));
        let kept = kept.map_err(|error| Error::Config(format!("the baseline cannot be written: {error}")))?;
        write(path, &format!("{kept:#}\n"))?;
    }
    print(&match args.output {
        Output::Json => format!("{:#}\n", report::as_json(&report)),
        Output::Yaml => proto_manifest::yaml_of(&report::as_json(&report)),
        Output::Name => report.verdict.findings.iter().map(|one| format!("{}\n", one.place)).collect(),
        Output::Table | Output::Wide => report::text(&report),
    })?;
    match report.verdict.short() {
        0 => Ok(()),
        _ => Err(Error::Differs(report::sentence(&report))),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::file("write", path, source))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

fn read_baseline(path: &Path) -> Result<Baseline, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::file("read", path, source))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::Document(format!("{} is not a baseline: {error}", path.display())))
}

/// Servers that were named, or all that may be used; rails that all of them can use.
async fn settings(args: &Validate, api: &Api) -> Result<(Settings, Rails), Error> {
    let known = api.list_nodes().await?.nodes;
    let name = |node: &v1::Node| node.metadata.as_ref().map(|of| of.name.clone()).unwrap_or_default();
    let usable = |node: &v1::Node| {
        let ready = node.status.as_ref().is_some_and(|of| of.phase() == v1::node_status::Phase::Ready);
        ready && !node.spec.as_ref().is_some_and(|spec| spec.unschedulable)
    };
    let nodes: Vec<String> = match &args.nodes {
        None => known.iter().filter(|node| usable(node)).map(name).collect(),
        Some(text) => {
            let wrong = |error| Error::Usage(format!("--nodes: {error}"));
            let names: BTreeSet<String> = Names::new(text).map_err(wrong)?.iter().collect();
            if let Some(unknown) = names.iter().find(|one| known.iter().all(|node| name(node) != **one)) {
                return Err(Error::NotFound(format!(
                    "there is no node `{unknown}`; see `railctl get nodes`"
                )));
            }
            names.into_iter().collect()
        }
    };
    if nodes.len() < 2 {
        let text = "a fabric is validated with two servers at least that are ready and take jobs";
        return Err(Error::Infeasible(text.to_owned()));
    }
    let rails = Rails::of(&known, &nodes);
    let shared = rails.shared(&nodes);
    if shared.is_empty() {
        let text = "there is no rail that all of these servers can use; see `railctl health`";
        return Err(Error::Infeasible(text.to_owned()));
    }
    let phases = if args.phase.is_empty() { Phase::ALL.to_vec() } else { args.phases() };
    let settings = Settings {
        nodes,
        rails: shared,
        phases: phases.into_iter().collect(),
        bytes: args.bytes,
        iterations: args.iterations,
        rounds: args.rounds,
    };
    Ok((settings, rails))
}

struct Validation<'a> {
    api: &'a Api,
    args: &'a Validate,
    id: &'a str,
    rails: &'a Rails,
    runs: Vec<Run>,
    jobs: usize,
}

/// A job under way.
struct UnderWay {
    test: Test,
    job: JobRef,
    /// When it must have ended.
    until: Instant,
}

impl Validation<'_> {
    async fn all(&mut self, settings: &Settings, progress: &Progress) -> Result<(), Error> {
        let steps = plan(settings);
        let (count, mut pace) = (steps.len(), Pace::default());
        for (at, step) in steps.into_iter().enumerate() {
            progress.expect(pace.due(at, count, now()));
            if let Some(first) = step.first() {
                let (phase, name, size) = (first.phase.as_str(), first.name, bytes(first.bytes));
                let places: Vec<String> = step
                    .iter()
                    .take(4)
                    .map(|test| Run::of(test, Outcome::Failed(String::new())).place())
                    .collect();
                let more = if step.len() > 4 { ", ..." } else { "" };
                progress.say(&format!(
                    "{}/{count} {phase} {name} of {size}: {}{more}",
                    at + 1,
                    places.join(", ")
                ));
            }
            let runs = self.step(step).await?;
            self.runs.extend(runs);
        }
        Ok(())
    }

    /// Has the tests of a step run at once; gives their results in order.
    async fn step(&mut self, tests: Vec<Test>) -> Result<Vec<Run>, Error> {
        let mut under_way: Vec<UnderWay> = Vec::new();
        for mut test in tests {
            if test.loses.is_some() {
                test.iterations = self.long_enough();
            }
            under_way.push(self.begin(test).await?);
        }
        let mut runs = Vec::new();
        for one in under_way {
            let drained = match &one.test.loses {
                Some((node, rail)) => self.lose(&one, node, *rail).await,
                None => Ok(None),
            };
            let run = match drained {
                Ok(drained) => self.end(one, drained).await?,
                Err(error) => {
                    // Who may not drain still learns all the rest.
                    clean::cancel(self.api, &one.job).await?;
                    Run::failed(&one.test, error.to_string())
                }
            };
            runs.push(run);
        }
        Ok(runs)
    }

    /// Repetitions of an all-reduce that take a while, by what it took with all rails.
    fn long_enough(&self) -> u32 {
        let reference = self.runs.iter().rev().find(|run| run.test == "all-rails").and_then(Run::measured);
        let median = reference.map_or(LOAD, |done| done.median_us).max(1.0);
        ((LOAD / median) as u32).clamp(REPETITIONS.0, REPETITIONS.1)
    }

    async fn begin(&mut self, test: Test) -> Result<UnderWay, Error> {
        self.jobs += 1;
        let name = format!("validate-{}-{}", self.id, self.jobs);
        let known = self.api.list_nodes().await?.nodes;
        let job = self.job(name, &test, &known);
        let request = v1::CreateJobRequest {
            job: Some(job),
            request_id: uuid::Uuid::new_v4().to_string(),
            on_behalf_of: self.api.tenant.clone(),
            ..v1::CreateJobRequest::default()
        };
        let made = repeat(format!("submit {} on {}", test.name, test.nodes.join(",")), |_| {
            let (mut client, request) = (self.api.jobs(), request.clone());
            async move { client.create_job(request).await }
        })
        .await?;
        let until = Instant::now() + self.args.limit;
        Ok(UnderWay { test, job: JobRef::of(&made), until })
    }

    /// The job of a test: on its servers and no others, with no GPU, over all rails that they share.
    fn job(&self, name: String, test: &Test, known: &[v1::Node]) -> v1::Job {
        let own: BTreeSet<&str> = test.nodes.iter().map(String::as_str).collect();
        let others = known
            .iter()
            .filter_map(|node| node.metadata.as_ref())
            .filter(|of| !own.contains(of.name.as_str()));
        let exclude = Names::of(others.map(|of| of.name.as_str())).to_string();
        let exclude = if exclude.is_empty() { Vec::new() } else { vec![exclude] };
        let labels = BTreeMap::from([(LABEL.to_owned(), self.id.to_owned())]);
        let collective = v1::Collective {
            op: test.op.into(),
            bytes: test.bytes,
            iterations: test.iterations,
            warmup: 1,
            verify: test.op != Op::Unspecified,
            ..v1::Collective::default()
        };
        let nodes = u32::try_from(test.nodes.len()).unwrap_or(u32::MAX);
        let limit = self.args.limit.as_secs().max(1);
        v1::Job {
            metadata: Some(v1::Metadata {
                name,
                labels: labels.into_iter().collect(),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::JobSpec {
                gang: Some(v1::Gang { nodes, ranks_per_node: 1, ..v1::Gang::default() }),
                rails: Some(self.rails.request(&test.nodes)),
                // Whatever becomes of this railctl, its jobs end.
                time_limit: Some(prost_types::Duration {
                    seconds: i64::try_from(limit).unwrap_or(i64::MAX),
                    nanos: 0,
                }),
                engine: Some(v1::EngineOptions {
                    algorithm: test.algorithm.to_owned(),
                    ..v1::EngineOptions::default()
                }),
                placement: Some(v1::PlacementRequest { exclude, ..v1::PlacementRequest::default() }),
                work: Some(v1::job_spec::Work::Collective(collective)),
                ..v1::JobSpec::default()
            }),
            ..v1::Job::default()
        }
    }

    /// Waits for a test's end; the job is removed.
    async fn end(&self, one: UnderWay, drained_s: Option<f64>) -> Result<Run, Error> {
        loop {
            let job = self.api.get_job(&one.job).await?;
            let status = job.status.clone().unwrap_or_default();
            if ended(&job) {
                clean::delete(self.api, &one.job).await?;
                let restarts = status.attempt.saturating_sub(1);
                return Ok(
                    match status.result.clone().filter(|_| status.phase() == v1::job_status::Phase::Completed)
                    {
                        Some(result) => {
                            let done = Measured { drained_s, ..Measured::of(&result, restarts) };
                            Run::of(&one.test, Outcome::Measured(done))
                        }
                        None => Run::failed(&one.test, why(&status)),
                    },
                );
            }
            if Instant::now() >= one.until {
                let text = format!("not done within {} s: {}", self.args.limit.as_secs(), why(&status));
                clean::cancel(self.api, &one.job).await?;
                return Ok(Run::failed(&one.test, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes a port out while the job runs, and brings it back; gives how long until nothing was on it any more.
    async fn lose(&self, one: &UnderWay, node: &str, rail: u32) -> Result<Option<f64>, Error> {
        loop {
            let job = self.api.get_job(&one.job).await?;
            match job.status.as_ref().map(v1::JobStatus::phase) {
                Some(v1::job_status::Phase::Running) => break,
                _ if ended(&job) || Instant::now() >= one.until => return Ok(None),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        tokio::time::sleep(UNDER_LOAD).await;
        let request = v1::DrainRailRequest {
            target: format!("node/{node}:{rail}"),
            reason: clean::reason(self.id),
            force: false,
        };
        let begun = Instant::now();
        let drained = repeat(format!("drain {node}:{rail}"), |_| {
            let (mut client, request) = (self.api.rails(), request.clone());
            async move { client.drain_rail(request).await }
        })
        .await?;
        let mut pending = drained.pending_total;
        while pending > 0 && Instant::now() < one.until && !ended(&self.api.get_job(&one.job).await?) {
            tokio::time::sleep(PAUSE).await;
            let of = v1::ListRailsRequest { target: request.target.clone() };
            let seen = repeat("list rails", |_| {
                let (mut client, request) = (self.api.rails(), of.clone());
                async move { client.list_rails(request).await }
            })
            .await?;
            pending = seen.pending_total;
        }
        let took = begun.elapsed().as_secs_f64();
        tokio::time::sleep(UNDER_LOAD).await;
        clean::undrain(self.api, self.id).await?;
        Ok((pending == 0).then_some(took))
    }
}

/// Phase and reasons of a job in one line.
fn why(status: &v1::JobStatus) -> String {
    let reasons: Vec<String> =
        status.reasons.iter().map(|one| format!("{}: {}", one.code, one.message)).collect();
    let phase = render::job_phase(status.phase);
    if reasons.is_empty() { phase.to_owned() } else { format!("{phase}: {}", reasons.join("; ")) }
}
