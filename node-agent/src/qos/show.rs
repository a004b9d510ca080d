//! Plans, verdicts and records as text.

use std::fmt::Write;

use node_agent_host::qos::Record;
use node_agent_qos::{Finding, Observed, Plan, PlanRefusal, Verdict};

fn head(netdev: &str, rdma: Option<&str>, rest: &str) -> String {
    format!("{netdev}{}: {rest}\n", rdma.map(|rdma| format!(" ({rdma})")).unwrap_or_default())
}

/// What a plan would do, with what each edit does to traffic.
pub(super) fn plan(plan: &Plan) -> String {
    let counts = match (plan.edits.len(), plan.withheld.len()) {
        (0, 0) => "as the profile says, nothing to do".to_owned(),
        (edits, 0) => format!("{edits} edit(s), worst effect: {}", plan.blast()),
        (edits, withheld) => format!("{edits} edit(s), worst effect: {}; {withheld} withheld", plan.blast()),
    };
    let profile = format!("profile {}, driver {}: {counts}", plan.profile, plan.vendor);
    let mut text = head(&plan.netdev, plan.rdma.as_deref(), &profile);
    for (number, edit) in plan.edits.iter().enumerate() {
        _ = writeln!(text, "  {:>2}. [{}] {}", number + 1, edit.blast, edit.commands.join(" && "));
        _ = writeln!(text, "      {}", edit.why);
    }
    for withheld in &plan.withheld {
        _ = writeln!(text, "   -  withheld: {}", withheld.edit.commands.join(" && "));
        _ = writeln!(text, "      {}", withheld.reason);
    }
    text + &findings(&plan.findings)
}

fn findings(list: &[Finding]) -> String {
    list.iter().filter(|finding| finding.matters).map(|finding| format!("   !  {}\n", finding.text)).collect()
}

/// Why there is no plan.
pub(super) fn refusal(netdev: &str, refusal: &PlanRefusal) -> String {
    head(netdev, None, &format!("no plan: {refusal}"))
}

/// What differs, and what that does to RDMA traffic.
pub(super) fn verdict(seen: &Observed, verdict: &Verdict) -> String {
    let count = match verdict.deviations.len() {
        0 => "as the profile says".to_owned(),
        count => format!("{count} deviation(s)"),
    };
    let mut text = head(&seen.device.netdev, seen.device.rdma.as_deref(), &count);
    for deviation in &verdict.deviations {
        let (item, wanted, found) = (&deviation.item, &deviation.wanted, &deviation.found);
        _ = writeln!(text, "  {item}: is {found}, should be {wanted}");
        _ = writeln!(text, "      {}", deviation.meaning);
    }
    text + &findings(&verdict.findings)
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
