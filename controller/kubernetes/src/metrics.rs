//! What the operator counts.

use proto_rpc::{
    Metrics,
    metrics::{CounterBy, GaugeBy},
};

/// The operator's series.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    /// `rail_operator_reconciles_total{kind,outcome}`: passes over an object.
    pub reconciles: CounterBy<2>,
    /// `rail_operator_writes_total{kind,what}`: writes to the API server.
    pub writes: CounterBy<2>,
    /// `rail_operator_calls_total{kind,call}`: questions and changes to the controller.
    pub calls: CounterBy<2>,
    /// `rail_operator_leads`: 1 while this operator acts.
    pub leads: GaugeBy<0>,
}

impl OperatorMetrics {
    /// Registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            reconciles: metrics.counter_by(
                "operator_reconciles",
                "Passes over a custom resource, by kind and outcome",
                ["kind", "outcome"],
            ),
            writes: metrics.counter_by(
                "operator_writes",
                "Writes to Kubernetes, by kind of the object and what was written",
                ["kind", "what"],
            ),
            calls: metrics.counter_by(
                "operator_calls",
                "Calls to the controller, by kind of the object and call",
                ["kind", "call"],
            ),
            leads: metrics.gauge_by(
                "operator_leads",
                "1 while this operator acts, 0 while another one does",
                [],
            ),
        }
    }
}
