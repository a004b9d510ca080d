//! What is counted of pages' streams.

use proto_rpc::{
    Metrics,
    metrics::{CounterBy, GaugeBy},
};

/// What is counted of pages' streams; once per process.
#[derive(Clone)]
pub(crate) struct FeedMetrics {
    /// Streams that are open.
    pub streams: GaugeBy<0>,
    /// Events that were encoded, by kind.
    pub encodings: CounterBy<1>,
    /// Streams that were sent all anew, by cause.
    pub resets: CounterBy<1>,
}

impl FeedMetrics {
    /// Registers `rail_page_streams`, `rail_page_encodings_total{kind}` and `rail_page_resets_total{cause}`.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let encodings =
            "Events of pages' streams that were encoded, each once for all streams that see the same";
        let resets = "Streams of pages that were sent all anew: history gone, or too slow";
        Self {
            streams: metrics.gauge_by("page_streams", "Streams of pages that are open", []),
            encodings: metrics.counter_by("page_encodings", encodings, ["kind"]),
            resets: metrics.counter_by("page_resets", resets, ["cause"]),
        }
    }
}
