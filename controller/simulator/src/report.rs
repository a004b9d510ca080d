//! The report of a simulation: rows as CSV, everything as JSON, a summary for people.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    log::ObjectiveLine,
    policy::{Policy, scheduler::Rules},
    run::Outcome,
    site::Site,
    span::span,
    summary::{Summary, Waits, summary},
    trace::{Account, Format},
    workload::Workload,
};

/// The version of the JSON.
pub const SCHEMA: &str = "rail.simulation/v1";

/// Where everything came from, and what was done to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// The rules by which the production scheduler decided.
    pub scheduler: SchedulerTold,
    /// The trace that was read.
    pub trace: TraceTold,
    /// The fabric that the trace was replayed on.
    pub fabric: FabricTold,
    /// How the jobs of the trace became jobs of this cluster.
    pub workload: WorkloadTold,
}

impl Inputs {
    /// For people; `ours`: the controller's scheduler is among those that decided.
    pub(crate) fn text(&self, text: &mut String, ours: bool) {
        let Self { scheduler, trace, fabric, workload } = self;
        if ours {
            scheduler.text(text);
        }
        let kept = if trace.format == Format::Acme.to_string() { "cluster" } else { "job" };
        let _ = writeln!(
            text,
            "Trace     {} ({}): {}, {}, {} repaired, {} refused; {}",
            trace.name,
            trace.format,
            many(trace.rows, "row"),
            many(trace.kept, kept),
            trace.repaired,
            trace.refused,
            many(trace.blank, "blank line")
        );
        for (what, counts) in [("repaired", &trace.repairs), ("refused", &trace.refusals)] {
            for count in counts {
                let first = count.examples.first().map_or("", String::as_str);
                let _ = writeln!(text, "  {what:<9}{:>7}  {:<12} first: {first}", count.rows, count.code);
            }
        }
        let rails =
            if fabric.rails == 1 { "its one rail".to_owned() } else { format!("all {} rails", fabric.rails) };
        let _ = writeln!(
            text,
            "Fabric    {}: {} ({} on {rails}), {}, {}, {}",
            fabric.name,
            many(fabric.nodes as u64, "server"),
            fabric.full_nodes,
            many(fabric.gpus, "GPU"),
            if fabric.leaves == 1 { "1 leaf".to_owned() } else { format!("{} leaves", fabric.leaves) },
            many(fabric.pods.into(), "pod")
        );
        if !fabric.kinds.is_empty() {
            let kinds: Vec<String> =
                fabric.kinds.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
            wrap(text, &format!("its servers: {}", kinds.join("; ")));
        }
        for (what, found) in [("fault in its records: ", &fabric.faults), ("note: ", &fabric.notes)] {
            found.iter().for_each(|found| wrap(text, &format!("{what}{found}")));
        }
        workload_text(workload, text);
    }
}

/// By which rules ours decided, beside those of a controller without options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTold {
    /// All is as the controller does it by default.
    pub as_controller: bool,
    /// Waiting jobs that one look takes in.
    pub depth: usize,
    /// The same number for a controller without options.
    pub controller_depth: usize,
    /// What the controller does by default and was left out.
    pub off: Vec<&'static str>,
    /// What the order is for where no queue says it; `None`: by age, with the head start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveLine>,
    /// What small jobs that may run for long hold together at most, as the controller's option says it; `None`: any number of GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_jobs: Option<String>,
    /// The head start of large jobs for each doubling of their GPUs, in seconds; the controller has none by default.
    pub head_start: u64,
    /// Who may start before jobs that wait ahead; by default CONSERVATIVE.
    pub backfill: String,
}

impl SchedulerTold {
    /// What a report says of these rules.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        Self {
            as_controller: *rules == Rules { easy_head_start: rules.easy_head_start, ..Rules::default() },
            depth: rules.depth,
            controller_depth: Rules::default().depth,
            off: rules.left_out(),
            objective: rules.objective.map(ObjectiveLine::from),
            long_jobs: rules.long_jobs.map(|limit| limit.to_string()),
            head_start: rules.head_start.as_secs(),
            backfill: rules.backfill.to_string(),
        }
    }

    fn text(&self, text: &mut String) {
        let Self { depth, controller_depth, .. } = self;
        if self.as_controller {
            let _ = writeln!(
                text,
                "Ours      as the controller by default: looks {depth} jobs deep; fair share, preemption, reclaim and \
                 growth are on"
            );
            return;
        }
        let mut parts = Vec::new();
        if !self.off.is_empty() {
            parts.push(format!("{} off", self.off.join(", ")));
        }
        if depth != controller_depth {
            parts.push(format!("looks {depth} jobs deep, not {controller_depth}"));
        }
        if let Some(objective) = self.objective {
            parts.push(format!("objective {objective}"));
        }
        if let Some(limit) = &self.long_jobs {
            parts.push(format!("long jobs {limit}"));
        }
        if self.head_start > 0 {
            parts.push(format!("head start {} for each doubling of GPUs", span(self.head_start as f64)));
        }
        if self.backfill != Rules::default().backfill.to_string() {
            parts.push(format!("backfill {}", self.backfill));
        }
        let _ = writeln!(text, "Ours      not as the controller by default: {}", parts.join("; "));
    }
}

/// What was read of a trace, and how its rows were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceTold {
    /// The file as it was named, or what was drawn.
    pub name: String,
    /// Name of the trace's format.
    pub format: String,
    /// Rows beside header, comments and blank lines.
    pub rows: u64,
    /// Jobs that were taken from the rows.
    pub kept: u64,
    /// Rows that were changed.
    pub repaired: u64,
    /// Rows that cannot be used.
    pub refused: u64,
    /// Lines without anything in them.
    pub blank: u64,
    /// Lines that are comments.
    pub comments: u64,
    /// Rows that were changed, by the code of the reason.
    pub repairs: Vec<CountTold>,
    /// Rows that cannot be used, by the code of the reason.
    pub refusals: Vec<CountTold>,
}

/// Rows of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CountTold {
    /// Code of the reason; stable, for programs.
    pub code: String,
    /// Rows that it is the reason for.
    pub rows: u64,
    /// The first of these rows, with line and field.
    pub examples: Vec<String>,
}

impl TraceTold {
    /// What a report says of this account.
    #[must_use]
    pub fn new(name: &str, format: Format, account: &Account) -> Self {
        let reported = |counts: &std::collections::BTreeMap<&'static str, crate::trace::Count>| {
            let reported = counts.iter().map(|(code, count)| CountTold {
                code: (*code).to_owned(),
                rows: count.rows,
                examples: count.examples.clone(),
            });
            reported.collect()
        };
        Self {
            name: name.to_owned(),
            format: format.to_string(),
            rows: account.rows,
            kept: account.kept,
            repaired: account.repaired,
            refused: account.refused,
            blank: account.blank,
            comments: account.comments,
            repairs: reported(&account.repairs),
            refusals: reported(&account.refusals),
        }
    }
}

/// The fabric that the trace was replayed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FabricTold {
    /// Name of the fabric document.
    pub name: String,
    /// Servers of the fabric.
    pub nodes: usize,
    /// Servers with a working NIC on all rails.
    pub full_nodes: u32,
    /// GPUs of all servers.
    pub gpus: u64,
    /// Rails of the fabric.
    pub rails: usize,
    /// Leaves of the fabric.
    pub leaves: usize,
    /// Pods of the fabric.
    pub pods: u32,
    /// What its servers are and how many are so, the most first, where a list says it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<(String, usize)>,
    /// What is wrong in the records that it was made of.
    pub faults: Vec<String>,
    /// What is remarkable in the records of the fabric.
    pub notes: Vec<String>,
}

impl FabricTold {
    /// Of a site, with the findings of the list that it was imported from.
    #[must_use]
    pub fn new(site: &Site, faults: Vec<String>, notes: Vec<String>) -> Self {
        Self {
            name: site.fabric.name.clone(),
            nodes: site.spots.len(),
            full_nodes: site.full_nodes(),
            gpus: site.gpus(),
            rails: site.fabric.rails.len(),
            leaves: site.fabric.leaves.len(),
            pods: site.pods,
            kinds: kinds(site),
            faults,
            notes,
        }
    }
}

fn kinds(site: &Site) -> Vec<(String, usize)> {
    let many = |at: usize| site.spots.iter().filter(|spot| spot.kind == at).count();
    let reported = site.kinds.iter().enumerate().map(|(at, kind)| (kind.to_string(), many(at)));
    let mut reported: Vec<(String, usize)> = reported.filter(|_| site.listed).collect();
    reported.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    reported
}

/// How the jobs of the trace became jobs of this cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTold {
    /// Jobs that are replayed.
    pub jobs: usize,
    /// Tenants that submit them.
    pub tenants: usize,
    /// Jobs of the trace that were not asked for.
    pub outside: usize,
    /// Jobs that the cluster could never hold.
    pub too_large: usize,
    /// Lines of the first of them.
    pub too_large_lines: Vec<u64>,
    /// Jobs on whole servers that leave GPUs idle.
    pub rounded_jobs: usize,
    /// GPUs that idle inside these jobs.
    pub rounded_gpus: u64,
    /// Load of the trace as it is.
    pub natural_load: f64,
    /// Load as it was made.
    pub load: f64,
    /// The part of it that can be served before the last submit; the rest is the ends of jobs that run on after it.
    pub load_inside: f64,
    /// What the times between submits were multiplied with.
    pub stretch: f64,
    /// From the first submit to the last, in seconds.
    pub window: f64,
}

impl WorkloadTold {
    /// What a report says of this workload.
    #[must_use]
    pub fn new(of: &Workload) -> Self {
        Self {
            jobs: of.jobs.len(),
            tenants: of.tenants.len(),
            outside: of.outside,
            too_large: of.too_large_count,
            too_large_lines: of.too_large.clone(),
            rounded_jobs: of.rounded.0,
            rounded_gpus: of.rounded.1,
            natural_load: of.natural_load,
            load: of.load,
            load_inside: of.load_inside,
            stretch: of.stretch,
            window: of.jobs.last().map_or(0.0, |job| job.submit.0 as f64 / 1e3),
        }
    }
}

/// A whole simulation: where it came from, and what each scheduler reached.
pub struct Report {
    /// Trace, fabric and rules of the simulation.
    pub inputs: Inputs,
    /// What each scheduler reached, in the order in which they were run.
    pub summaries: Vec<Summary>,
}

impl Report {
    /// A report of what schedulers did.
    #[must_use]
    pub fn new(site: &Site, workload: &Workload, outcomes: &[Outcome], inputs: Inputs) -> Self {
        Self { inputs, summaries: outcomes.iter().map(|outcome| summary(site, workload, outcome)).collect() }
    }

    /// Everything but the rows, as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({"schema": SCHEMA, "inputs": self.inputs, "policies": self.summaries})
    }

    /// The same with the rows of each scheduler.
    #[must_use]
    pub fn json_with_rows(&self, workload: &Workload, outcomes: &[Outcome]) -> serde_json::Value {
        let mut all = self.json();
        let rows = |outcome: &Outcome| -> Vec<serde_json::Value> {
            let rows = workload.jobs.iter().zip(&outcome.rows).map(|(job, row)| {
                serde_json::json!({
                    "job": job.id.to_string(), "line": job.line, "gpus": job.asked, "submit": seconds(job.submit.0),
                    "start": row.start.map(|at| seconds(at.0)), "end": row.end.map(|at| seconds(at.0)),
                    "wait": row.wait.as_secs_f64(), "nodes": row.nodes, "rails": row.rails, "pods": row.pods,
                    "fewestPods": row.fewest, "fewestPodsThen": row.fewest_then, "cut": row.cut,
                    "restarts": row.restarts,
                })
            });
            rows.collect()
        };
        for (policy, outcome) in all["policies"].as_array_mut().into_iter().flatten().zip(outcomes) {
            policy["jobs"] = rows(outcome).into();
        }
        all
    }

    /// The summary for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let ours = self.summaries.iter().any(|of| of.policy == Policy::Ours.name());
        self.inputs.text(&mut text, ours);
        self.table(&mut text);
        self.waits_table(&mut text);
        text.push_str(DEFINITIONS);
        text
    }

    fn table(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n{:<8}{:>8}{:>8}{:>9}{:>7}{:>9}{:>11}{:>11}{:>12}{:>12}{:>9}{:>11}",
            "POLICY",
            "UTIL",
            "BOUND",
            "OF BOUND",
            "FRAG",
            "STRANDED",
            "FEWEST(0)",
            "FEWEST(T)",
            "WAIT P99",
            ">=64 P99",
            "CUT/JOB",
            "VIOLATIONS"
        );
        for of in &self.summaries {
            let _ = writeln!(
                text,
                "{:<8}{:>7.2}%{:>7.2}%{:>8.2}%{:>6.1}%{:>8.2}%{:>11}{:>11}{:>12}{:>12}{:>9}{:>7}/{}",
                of.policy,
                of.utilisation * 100.0,
                of.bound * 100.0,
                of.of_bound * 100.0,
                of.fragmentation * 100.0,
                of.stranded * 100.0,
                dash(of.pods.map(|pods| format!("{:.2}%", pods.share_when_empty() * 100.0))),
                dash(of.pods.map(|pods| format!("{:.2}%", pods.share_when_started() * 100.0))),
                span(of.waits.p99),
                dash(of.large.map(|large| span(large.p99))),
                dash(of.pods.map(|pods| format!("{:.3}", pods.mean_cut))),
                of.violations,
                of.proved
            );
        }
        for of in self.summaries.iter().filter(|of| of.never_started > 0 || of.restarts > 0) {
            let _ = writeln!(
                text,
                "{}: {} never started, {}",
                of.policy,
                many(of.never_started as u64, "job"),
                many(of.restarts, "restart")
            );
        }
        // All schedulers see the same jobs: what there is none of is said once.
        for absent in self.summaries.first().map_or(&[][..], |of| &of.absent) {
            let columns = if absent.field == "large" { ">=64 P99" } else { "FEWEST, CUT/JOB" };
            let _ = writeln!(text, "-: {columns}: {}", absent.why);
        }
        for (of, reported) in self
            .summaries
            .iter()
            .flat_map(|of| of.violations_reported.iter().map(move |reported| (of, reported)))
        {
            let _ = writeln!(text, "violation, {}: {reported}", of.policy);
        }
    }

    fn waits_table(&self, text: &mut String) {
        let _ = writeln!(text, "\nWaits by GPUs, p50 / p90 / p99");
        let _ = write!(text, "{:<8}{:>8}", "GPUS", "JOBS");
        for of in &self.summaries {
            let _ = write!(text, "{:>26}", of.policy);
        }
        text.push('\n');
        let sizes = self.summaries.first().map_or(&[][..], |of| &of.by_size);
        for (at, size) in sizes.iter().enumerate() {
            let _ = write!(text, "{:<8}{:>8}", size.gpus, size.waits.jobs);
            for of in &self.summaries {
                let _ = write!(
                    text,
                    "{:>26}",
                    of.by_size.get(at).map_or(String::new(), |size| three(&size.waits))
                );
            }
            text.push('\n');
        }
    }
}

fn workload_text(workload: &WorkloadTold, text: &mut String) {
    let _ = writeln!(
        text,
        "Workload  {} of {} in {}; load {:.3} (as in the trace: {:.3}; times between submits x {:.4})",
        many(workload.jobs as u64, "job"),
        many(workload.tenants as u64, "tenant"),
        span(workload.window),
        workload.load,
        workload.natural_load,
        workload.stretch
    );
    if workload.load_inside < workload.load * INSIDE {
        let _ = writeln!(
            text,
            "  only {:.3} of that load can be served before the last submit, over which UTIL is taken: jobs run on after it",
            workload.load_inside
        );
    }
    if workload.outside > 0 {
        let _ = writeln!(text, "  not asked for: {}", many(workload.outside as u64, "job"));
    }
    if workload.too_large > 0 {
        let _ = writeln!(
            text,
            "  larger than the cluster: {}, first at lines {:?}",
            many(workload.too_large as u64, "job"),
            workload.too_large_lines
        );
    }
    if workload.rounded_jobs > 0 {
        let (jobs, gpus) = (many(workload.rounded_jobs as u64, "job"), many(workload.rounded_gpus, "GPU"));
        let _ = writeln!(text, "  on whole servers with GPUs to spare: {jobs}, {gpus}");
    }
}

/// A load of which less than this part can be served before the last submit is shown with that part.
const INSIDE: f64 = 0.9;

const DEFINITIONS: &str = "
UTIL: GPUs held / GPUs, from the first to the last submit. BOUND: what no scheduler could pass, whatever it knows: the
least over s of W(s) + C (T - s), W(s) being the GPU time that jobs could have had up to s on endless GPUs. FRAG: the
part of free GPUs on servers that are broken into; STRANDED: those GPUs, of all. FEWEST: jobs on several servers in the
fewest pods, (0) that would do on the empty cluster, (T) that would do as the cluster was when they started. CUT/JOB:
weighted cut of their rings. VIOLATIONS: found by the independent proof / placements proved.
";

/// `1 row`, `2 rows`.
fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Columns of the summary at most.
const WIDTH: usize = 120;

/// A long line as an item of a list, cut between words.
fn wrap(text: &mut String, item: &str) {
    let mut line = " ".to_owned();
    for word in item.split(' ') {
        if line.trim().is_empty() || line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
        } else {
            text.push_str(&line);
            text.push('\n');
            line = "    ".to_owned();
        }
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

fn dash(reported: Option<String>) -> String {
    reported.unwrap_or_else(|| "-".to_owned())
}

fn three(waits: &Waits) -> String {
    format!("{} / {} / {}", span(waits.p50), span(waits.p90), span(waits.p99))
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// The columns of [`csv`].
pub const COLUMNS: &str =
    "policy,job,line,gpus,submit,start,end,wait,nodes,rails,pods,fewest_pods,fewest_pods_then,cut,restarts\n";

/// The rows of schedulers as CSV; times are seconds since the first submit, empty where there is none.
#[must_use]
pub fn csv(workload: &Workload, outcomes: &[Outcome]) -> String {
    let mut text = String::with_capacity(workload.jobs.len() * outcomes.len() * 80 + 200);
    text.push_str(COLUMNS);
    let time = |at: Option<proto_model::Timestamp>| at.map_or(String::new(), |at| millis(at.0));
    for outcome in outcomes {
        for (job, row) in workload.jobs.iter().zip(&outcome.rows) {
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                outcome.policy,
                job.id,
                job.line,
                job.asked,
                millis(job.submit.0),
                time(row.start),
                time(row.end),
                row.start.map_or(String::new(), |_| millis(row.wait.as_millis() as u64)),
                row.nodes,
                row.rails,
                row.pods,
                row.fewest,
                row.fewest_then,
                row.cut,
                row.restarts
            );
        }
    }
    text
}

fn millis(at: u64) -> String {
    format!("{}.{:03}", at / 1000, at % 1000)
}
