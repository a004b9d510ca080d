//! Refusals and records as text.

use node_agent_qos::PlanRefusal;

use crate::Record;

/// Why there is no plan.
pub(super) fn refusal(netdev: &str, refusal: &PlanRefusal) -> String {
    format!("{netdev}: no plan: {refusal}\n")
}

/// The last apply of a NIC.
pub(super) fn record(record: &Record) -> String {
    let state = record.state();
    let state = if record.in_service() { state } else { format!("OUT OF SERVICE: {state}") };
    let (netdev, profile, apply) = (record.netdev(), &record.profile, &record.apply);
    format!(
        "{netdev}: profile {profile}, {} edit(s), asked by {}: {state}\n",
        apply.edits.len(),
        apply.asked_by
    )
}
