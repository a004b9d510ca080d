//! Metrics that are worked out whenever somebody asks, in place of being kept.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use std::fmt;

/// Something whose metrics are worked out when they are asked for. Whoever implements it bounds them.
pub trait Scrape: fmt::Debug + Send + Sync + 'static {
    /// Writes all that there are now.
    ///
    /// # Errors
    /// [`fmt::Error`], when a writer gives it.
    fn scrape(&self, series: &mut Series<'_>) -> fmt::Result;
}

/// Where they are written to.
pub struct Series<'a>(DescriptorEncoder<'a>);

impl fmt::Debug for Series<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Series")
    }
}

impl Series<'_> {
    /// Numbers that only grow, by label values.
    ///
    /// # Errors
    /// [`fmt::Error`], when the writer gives it.
    pub fn counters_by<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        values: impl IntoIterator<Item = ([&'v str; N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(&mut family, labels, values, |one, value| ConstCounter::new(value).encode(one))
    }

    /// A number that goes up and down.
    ///
    /// # Errors
    /// [`fmt::Error`], when the writer gives it.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        const_gauge(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    /// Numbers that go up and down, by label values.
    ///
    /// # Errors
    /// [`fmt::Error`], when the writer gives it.
    pub fn gauges_by<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        values: impl IntoIterator<Item = ([&'v str; N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        each(&mut family, labels, values, |one, value| const_gauge(value).encode(one))
    }
}

fn const_gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

fn each<'v, const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: [&'static str; N],
    values: impl IntoIterator<Item = ([&'v str; N], u64)>,
    encode: impl Fn(MetricEncoder<'_>, u64) -> fmt::Result,
) -> fmt::Result {
    for (own, value) in values {
        let own: Vec<(&str, &str)> = labels.into_iter().zip(own).collect();
        encode(family.encode_family(&own)?, value)?;
    }
    Ok(())
}

/// What asks for them.
#[derive(Debug)]
pub(crate) struct Scraped<T>(pub(crate) T);

impl<T: Scrape> Collector for Scraped<T> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.scrape(&mut Series(encoder))
    }
}
