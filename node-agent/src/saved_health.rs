//! The form in which conditions of NICs lie on disk (JSON), so that a restart of the agent ends none of them.

use std::time::Duration;

use node_agent_health::{ActiveCondition, Condition, Evidence, PortKey, condition::Fact};
use proto_model::{Severity, Timestamp};
use serde::{Deserialize, Serialize};

/// The text of a condition whose rule this version does not have.
static KEPT: Fact = Fact {
    id: "Kept",
    what: "seen before the agent was started anew",
    unit: "",
    source: "the rule that found it",
    hint: "see the agent's log of that time",
};

/// One condition of one port.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedCondition {
    pci_address: String,
    guid: String,
    port: u32,
    condition: String,
    severity: String,
    since_ms: u64,
    last_sign_ms: u64,
    rule: String,
    value: f64,
    limit: f64,
    over_ms: u64,
    quiet_ms: u64,
    bytes: u64,
}

/// The conditions as they are written to disk.
pub fn saved(held: Vec<(PortKey, Condition, ActiveCondition)>) -> Vec<SavedCondition> {
    let each = held.into_iter().map(|(key, condition, held)| SavedCondition {
        pci_address: key.pci_address,
        guid: key.guid,
        port: key.port,
        condition: condition.code().to_owned(),
        severity: held.severity.name().to_owned(),
        since_ms: held.since.0,
        last_sign_ms: held.last_sign.0,
        rule: held.evidence.fact.id.to_owned(),
        value: held.evidence.value,
        limit: held.evidence.limit,
        over_ms: u64::try_from(held.evidence.over.as_millis()).unwrap_or(u64::MAX),
        quiet_ms: held.quiet_ms,
        bytes: held.bytes,
    });
    each.collect()
}

/// From the disk. What this version does not know is left out.
pub fn kept(saved: Vec<SavedCondition>) -> Vec<(PortKey, Condition, ActiveCondition)> {
    let each = saved.into_iter().filter_map(|one| {
        let severity = [Severity::Note, Severity::Degraded, Severity::Drain];
        let severity = severity.into_iter().find(|severity| severity.name() == one.severity)?;
        let fact = node_agent_health::facts().find(|fact| fact.id == one.rule).unwrap_or(&KEPT);
        let over = Duration::from_millis(one.over_ms);
        let held = ActiveCondition {
            severity,
            since: Timestamp(one.since_ms),
            last_sign: Timestamp(one.last_sign_ms),
            evidence: Evidence { fact, value: one.value, limit: one.limit, over },
            quiet_ms: one.quiet_ms,
            bytes: one.bytes,
        };
        let key = PortKey { pci_address: one.pci_address, guid: one.guid, port: one.port };
        Some((key, Condition::of_code(&one.condition)?, held))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_survive_the_disk() {
        let fact = node_agent_health::facts().next().unwrap();
        let held = ActiveCondition {
            severity: Severity::Drain,
            since: Timestamp(5),
            last_sign: Timestamp(9),
            evidence: Evidence { fact, value: 0.5, limit: 0.25, over: Duration::from_millis(1500) },
            quiet_ms: 7,
            bytes: 11,
        };
        let key = PortKey { pci_address: "0000:18:00.0".into(), guid: "b83f".into(), port: 1 };
        let all = vec![(key, Condition::Storm, held)];
        let text = serde_json::to_string(&saved(all.clone())).unwrap();
        assert_eq!(kept(serde_json::from_str(&text).unwrap()), all);
        let other = text.replace("\"Storm\"", "\"Unheard\"");
        assert_eq!(kept(serde_json::from_str(&other).unwrap()), []);
        let renamed = text.replace(fact.id, "Renamed");
        assert_eq!(kept(serde_json::from_str(&renamed).unwrap())[0].2.evidence.fact.id, "Kept");
    }
}
