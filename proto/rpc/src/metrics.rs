//! What a process counts: a thin registry over prometheus-client, written out as text.

use crate::exposition::{Exposition, to_text};
use crate::negotiate;
use crate::probes::{self, Checks};
use crate::scrape::{Scrape, Scraped};
use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Series that one labelled metric keeps; further label values are counted under `other`.
pub const MAX_SERIES: usize = 512;
const OTHER: &str = "other";
/// Bucket bounds for durations, in seconds: 100 us to 100 s.
const SECONDS: [f64; 13] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 100.0];

type Labels = Vec<(&'static str, String)>;

/// The process's metrics; clones share them. Names get the prefix `rail_`, counters the suffix `_total`.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// A registry with what every process tells: `rail_build_info` and `rail_start_time_seconds`.
    #[must_use]
    pub fn new(process: &str, version: &str, started: SystemTime) -> Self {
        let metrics = Metrics { registry: Arc::new(Mutex::new(Registry::with_prefix("rail"))) };
        let labels = vec![("process", process.to_owned()), ("version", version.to_owned())];
        metrics.register("build", "What is running", Info::new(labels));
        let start = metrics.gauge("start_time_seconds", "When the process started, in Unix time");
        let seconds = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        start.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        metrics
    }

    /// Adds any metric of prometheus-client.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric);
    }

    /// Adds what is worked out whenever somebody asks.
    pub fn scrape(&self, of: impl Scrape) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(Scraped(of)));
    }

    /// Adds a counter, a number that only grows.
    #[must_use]
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        let counter = Counter::default();
        self.register(name, help, counter.clone());
        counter
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        let gauge = Gauge::default();
        self.register(name, help, gauge.clone());
        gauge
    }

    /// A distribution of durations in seconds.
    #[must_use]
    pub fn seconds(&self, name: &str, help: &str) -> Histogram {
        let histogram = Histogram::new(SECONDS);
        self.register(name, help, histogram.clone());
        histogram
    }

    /// A counter per combination of label values, as in
    /// `let denied = metrics.counter_by("denied", "Calls refused", ["rpc", "role"])`.
    #[must_use]
    pub fn counter_by<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> CounterBy<N> {
        let family = Family::default();
        self.register(name, help, family.clone());
        CounterBy { family, series: Series::new(labels) }
    }

    /// A gauge per combination of label values.
    #[must_use]
    pub fn gauge_by<const N: usize>(&self, name: &str, help: &str, labels: [&'static str; N]) -> GaugeBy<N> {
        let family = Family::default();
        self.register(name, help, family.clone());
        GaugeBy { family, series: Series::new(labels) }
    }

    /// A distribution of durations in seconds per combination of label values.
    #[must_use]
    pub fn seconds_by<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> SecondsBy<N> {
        self.seconds_within(name, help, labels, &SECONDS)
    }

    /// The same with bounds of its own, in seconds.
    #[must_use]
    pub fn seconds_within<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        bounds: &'static [f64],
    ) -> SecondsBy<N> {
        let family = Family::new_with_constructor(Bounds(bounds));
        self.register(name, help, family.clone());
        SecondsBy { family, series: Series::new(labels) }
    }

    /// All metrics as text.
    #[must_use]
    pub fn encode(&self, exposition: Exposition) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a String fails only if a metric's own encoder does; what is there is then still useful.
        if let Err(error) = text::encode(&mut text, &registry) {
            tracing::warn!(%error, "a metric could not be written");
        }
        match exposition {
            Exposition::OpenMetrics => text,
            Exposition::Text => to_text(&text),
        }
    }

    /// `/metrics` in the format that is asked for, and beside it whether the process lives and is ready.
    pub fn router(&self, ready: Checks) -> Router {
        let metrics = self.clone();
        let answer = move |headers: HeaderMap| async move { metrics.answer(&headers) };
        Router::new()
            .route("/metrics", axum::routing::get(answer))
            .merge(probes::router(ready))
            .layer(axum::middleware::from_fn(negotiate::pack))
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let exposition = Exposition::asked(headers);
        let kind = [(header::CONTENT_TYPE, exposition.content_type()), (header::VARY, "accept")];
        (kind, self.encode(exposition)).into_response()
    }
}

/// Counters by label values.
#[derive(Clone, Debug)]
pub struct CounterBy<const N: usize> {
    family: Family<Labels, Counter>,
    series: Series<N>,
}

impl<const N: usize> CounterBy<N> {
    /// So many series at most, where [`MAX_SERIES`] are too few and whoever counts bounds them.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.series.most = most;
        self
    }

    /// Adds one under these label values.
    pub fn inc(&self, values: [&str; N]) {
        self.inc_by(values, 1);
    }

    /// Adds `count` under these label values.
    pub fn inc_by(&self, values: [&str; N], count: u64) {
        self.family.get_or_create_owned(&self.series.bounded(values)).inc_by(count);
    }

    /// The count under these label values; 0 where there is none.
    #[must_use]
    pub fn get(&self, values: [&str; N]) -> u64 {
        self.family.get(&self.series.labels(values)).map_or(0, |counter| counter.get())
    }
}

/// Gauges by label values.
#[derive(Clone, Debug)]
pub struct GaugeBy<const N: usize> {
    family: Family<Labels, Gauge>,
    series: Series<N>,
}

impl<const N: usize> GaugeBy<N> {
    /// The most series that it keeps, as [`CounterBy::at_most`].
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.series.most = most;
        self
    }

    /// Sets a full set of values and forgets all others; whoever reads meanwhile misses none that stays.
    pub fn replace<'a>(&self, values: impl IntoIterator<Item = ([&'a str; N], i64)>) {
        let values: Vec<_> = values.into_iter().collect();
        let wanted = values.iter().map(|(values, _)| self.series.labels(*values)).collect();
        let mut gone = self.series.keep(&wanted);
        let mut sums: BTreeMap<Labels, i64> = BTreeMap::new();
        for (values, value) in values {
            let sum = sums.entry(self.series.bounded(values)).or_default();
            *sum = sum.saturating_add(value);
        }
        for (labels, sum) in &sums {
            self.family.get_or_create_owned(labels).set(*sum);
        }
        gone.retain(|labels| !sums.contains_key(labels));
        for labels in gone {
            self.family.remove(&labels);
        }
    }

    /// Sets the value under these label values.
    pub fn set(&self, values: [&str; N], value: i64) {
        self.family.get_or_create_owned(&self.series.bounded(values)).set(value);
    }

    /// The value under these label values; none where it was never set.
    #[must_use]
    pub fn get(&self, values: [&str; N]) -> Option<i64> {
        self.family.get(&self.series.labels(values)).map(|gauge| gauge.get())
    }

    /// Forgets all values, before a new full set is written.
    pub fn clear(&self) {
        self.family.clear();
        self.series.clear();
    }
}

/// Makes a distribution with these bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds(&'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Distributions of durations by label values.
#[derive(Clone, Debug)]
pub struct SecondsBy<const N: usize> {
    family: Family<Labels, Histogram, Bounds>,
    series: Series<N>,
}

impl<const N: usize> SecondsBy<N> {
    /// The most series that it keeps, as [`CounterBy::at_most`].
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.series.most = most;
        self
    }

    /// Adds one duration under these label values.
    pub fn observe(&self, values: [&str; N], duration: std::time::Duration) {
        let labels = self.series.bounded(values);
        self.family.get_or_create_owned(&labels).observe(duration.as_secs_f64());
    }
}

/// The label names of one metric and the values seen so far. A hostile or careless caller must not grow the
/// process by inventing label values.
#[derive(Clone, Debug)]
struct Series<const N: usize> {
    names: [&'static str; N],
    most: usize,
    seen: Arc<Mutex<BTreeSet<Labels>>>,
}

impl<const N: usize> Series<N> {
    fn new(names: [&'static str; N]) -> Self {
        Series { names, most: MAX_SERIES, seen: Arc::default() }
    }

    fn labels(&self, values: [&str; N]) -> Labels {
        self.names.iter().copied().zip(values.into_iter().map(str::to_owned)).collect()
    }

    /// The labels for these values, or those of `other` where there are too many already.
    fn bounded(&self, values: [&str; N]) -> Labels {
        let labels = self.labels(values);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&labels) {
            return labels;
        }
        if seen.len() >= self.most {
            return self.labels([OTHER; N]);
        }
        seen.insert(labels.clone());
        labels
    }

    /// Forgets all but these, and says which, and what all without room are counted under.
    fn keep(&self, now: &BTreeSet<Labels>) -> Vec<Labels> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone: Vec<Labels> = seen.difference(now).cloned().collect();
        seen.retain(|labels| now.contains(labels));
        gone.push(self.labels([OTHER; N]));
        gone
    }

    fn clear(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_all_kinds() {
        let metrics = Metrics::new("test", "1.2.3", SystemTime::UNIX_EPOCH);
        metrics.counter("things", "Things").inc();
        metrics.counter_by("denied", "Denied", ["rpc"]).inc(["Submit"]);
        metrics.gauge_by("nodes", "Nodes", ["state"]).set(["ready"], 4);
        metrics
            .seconds_by("rpc_seconds", "RPCs", ["rpc"])
            .observe(["Get"], std::time::Duration::from_millis(3));
        let text = metrics.encode(Exposition::OpenMetrics);
        for line in [
            "rail_build_info{process=\"test\",version=\"1.2.3\"} 1",
            "rail_start_time_seconds 0",
            "rail_things_total 1",
            "rail_denied_total{rpc=\"Submit\"} 1",
            "rail_nodes{state=\"ready\"} 4",
            "rail_rpc_seconds_count{rpc=\"Get\"} 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        let text = metrics.encode(Exposition::Text);
        assert!(
            text.contains("# TYPE rail_denied_total counter\nrail_denied_total{rpc=\"Submit\"} 1\n"),
            "{text}"
        );
        assert!(!text.contains("# EOF") && !text.contains(" info\n"), "{text}");
    }

    #[test]
    fn a_full_set_replaces_the_one_before() {
        let metrics = Metrics::new("test", "0", SystemTime::UNIX_EPOCH);
        let gauge = metrics.gauge_by("names", "Names", ["name"]).at_most(2);
        gauge.replace([(["a"], 1), (["b"], 2), (["c"], 3), (["d"], 4)]);
        assert_eq!(["a", "b", "c", OTHER].map(|name| gauge.get([name])), [Some(1), Some(2), None, Some(7)]);
        gauge.replace([(["b"], 4), (["d"], 5)]);
        assert_eq!(["a", "b", "d", OTHER].map(|name| gauge.get([name])), [None, Some(4), Some(5), None]);
        let waits = metrics.seconds_within("waits_seconds", "Waits", ["name"], &[1.0, 60.0]);
        waits.observe(["a"], std::time::Duration::from_secs(30));
        let text = metrics.encode(Exposition::Text);
        assert!(text.contains("rail_waits_seconds_bucket{le=\"60.0\",name=\"a\"} 1\n"), "{text}");
        assert!(!text.contains("le=\"100.0\""), "{text}");
    }

    #[test]
    fn series_are_bounded() {
        let metrics = Metrics::new("test", "0", SystemTime::UNIX_EPOCH);
        let counter = metrics.counter_by("names", "Names", ["name"]);
        for i in 0..MAX_SERIES * 2 {
            counter.inc([&i.to_string()]);
        }
        assert_eq!(counter.get(["0"]), 1);
        assert_eq!(counter.get([OTHER]), MAX_SERIES as u64);
        assert!(metrics.encode(Exposition::Text).lines().count() < MAX_SERIES + 20);
    }
}
