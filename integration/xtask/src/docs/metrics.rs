//! The page of metrics: what the programs register, read in their sources.

use std::{collections::BTreeMap, fmt::Write as _};

use super::source::{self, Call, Source};
use crate::process::Result;

/// How metrics are registered (`proto/rpc/src/metrics.rs`, `scrape.rs`), what each way is called, and what its names end with.
const WAYS: [(&str, &str, &str); 9] = [
    (".counter", "counter", "_total"),
    (".counter_by", "counter", "_total"),
    (".counters_by", "counter", "_total"),
    (".gauges_by", "gauge", ""),
    (".gauge", "gauge", ""),
    (".gauge_by", "gauge", ""),
    (".seconds", "histogram", ""),
    (".seconds_by", "histogram", ""),
    (".seconds_within", "histogram", ""),
];

/// One metric.
struct Metric {
    name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

/// The page.
///
/// # Errors
/// A source cannot be read, or one registers a metric in a way that this does not read.
pub fn page() -> Result<String> {
    let mut text = String::from(
        "# Metrics\n\nControllers and agents serve these at `/metrics` of their metrics port: in Prometheus' text format or, to a \
         scraper that asks for it, as OpenMetrics. A histogram has the series `_bucket`, `_sum` and `_count`. `deploy/prometheus` has \
         alert rules for them.\n\nThis page is generated from the sources by `cargo xtask docs`.\n",
    );
    for (title, folders) in [
        ("Controller and agent", &["proto/rpc/src"][..]),
        ("Controller", &["controller"]),
        ("Node agent", &["node-agent/src"]),
    ] {
        let _ = write!(text, "\n## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n");
        for metric in all(&source::read(folders)?)?.values() {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let Metric { name, kind, help, .. } = metric;
            let _ = writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
        }
    }
    Ok(text)
}

fn all(sources: &[Source]) -> Result<BTreeMap<String, Metric>> {
    let mut found = BTreeMap::new();
    for source in sources {
        for (way, kind, suffix) in WAYS {
            for call in source::calls(&source.text, way) {
                // `let x = y.counter()` of something else has no name in quotes.
                let Some(name) = call.args.first().filter(|name| name.starts_with('"')) else { continue };
                if source
                    .text
                    .get(..call.at)
                    .and_then(|before| before.lines().next_back())
                    .is_some_and(is_comment)
                {
                    continue;
                }
                let name = format!("rail_{}{suffix}", name.trim_matches('"'));
                let metric = read(source, &call, &name, kind)?;
                found.insert(name, metric);
            }
        }
        for call in source::calls(&source.text, ".register") {
            if let [name, help, what] = &call.args[..]
                && name.starts_with('"')
                && what.starts_with("Info::new")
            {
                let (name, help) =
                    (format!("rail_{}_info", name.trim_matches('"')), help.trim_matches('"').to_owned());
                let labels = vec!["process".to_owned(), "version".to_owned()];
                found.insert(name.clone(), Metric { name, kind: "gauge", labels, help });
            }
        }
    }
    Ok(found)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn read(source: &Source, call: &Call, name: &str, kind: &'static str) -> Result<Metric> {
    let unread = |what: &str| format!("{}: {what} of {name} cannot be read", source.path);
    let help = call.args.get(1).ok_or_else(|| unread("the help"))?;
    let help = source::said(&source.text, call.at, help).ok_or_else(|| unread("the help"))?;
    let labels = match call.args.get(2) {
        None => Vec::new(),
        Some(labels) => {
            let list = if labels.starts_with('[') {
                labels.as_str()
            } else {
                source::given(&source.text, call.at, labels).ok_or_else(|| unread("labels"))?
            };
            list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
        }
    };
    Ok(Metric { name: name.to_owned(), kind, labels, help })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_registered() {
        let text = "let queue = [\"tenant\", \"queue\"];\nmetrics\n.counter_by(\"job_starts\", \"Starts\", queue)\n.at_most(3);\n\
                    metrics.gauge(\"epoch\", \"The epoch\");\nother.counter();\n";
        let found = all(&[Source { path: "a.rs".into(), text: text.into() }]).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["rail_epoch", "rail_job_starts_total"]);
        assert_eq!(found["rail_job_starts_total"].labels, ["tenant", "queue"]);
        let unread = Source { path: "b.rs".into(), text: "m.gauge(\"x\", help());".into() };
        assert!(all(&[unread]).is_err());
    }
}
