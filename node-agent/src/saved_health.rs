//! The form in which conditions of NICs lie on disk, so that a restart of the agent ends none of them: protobuf
//! (`rail.agent_state.v1.NicConditions`), and the JSON of release 0.1.0, which is read and never written.

use std::{io, time::Duration};

use node_agent_attempt::{
    places::{Flaw, Places, StateFileError, VERSION},
    state_files::{decode, schema},
};
use node_agent_health::{ActiveCondition, Condition, Evidence, PortKey, condition::Fact};
use node_agent_os::files::Durability;
use prost::Message as _;
use proto_model::{Severity, Timestamp};
use serde::Deserialize;

/// The text of a condition whose rule this version does not have.
static KEPT: Fact = Fact {
    id: "Kept",
    what: "seen before the agent was started anew",
    unit: "",
    source: "the rule that found it",
    hint: "see the agent's log of that time",
};

/// What helps where the file is broken.
const REMEDY: &str =
    "remove it if you know that the NICs are well: what was wrong with them is not known any more";

const SEVERITIES: [(Severity, schema::Severity); 3] = [
    (Severity::Note, schema::Severity::Note),
    (Severity::Degraded, schema::Severity::Degraded),
    (Severity::Drain, schema::Severity::Drain),
];

/// One condition of one port, with the port that it is of.
pub type SavedCondition = (PortKey, Condition, ActiveCondition);

/// What is saved; `None` if nothing is. What this version does not know is left out.
///
/// # Errors
/// The file is unreadable, of a later release, or broken.
pub fn read(places: &Places) -> Result<Option<Vec<SavedCondition>>, StateFileError> {
    places.read(loaded, old, REMEDY)
}

/// Replaces what is saved.
///
/// # Errors
/// What the kernel answered.
pub fn write(places: &Places, held: Vec<SavedCondition>) -> io::Result<()> {
    places.write(&saved(held), Durability::Process)
}

fn saved(held: Vec<SavedCondition>) -> Vec<u8> {
    let severity = |severity| {
        let saved = SEVERITIES.iter().find(|(one, _)| *one == severity).map(|(_, saved)| *saved);
        saved.unwrap_or_default().into()
    };
    let each = held.into_iter().map(|(key, condition, held)| schema::NicCondition {
        pci_address: key.pci_address,
        guid: key.guid,
        port: key.port,
        condition: condition.code().to_owned(),
        severity: severity(held.severity),
        since_ms: held.since.0,
        last_sign_ms: held.last_sign.0,
        rule: held.evidence.fact.id.to_owned(),
        value: held.evidence.value,
        limit: held.evidence.limit,
        over_ns: u64::try_from(held.evidence.over.as_nanos()).unwrap_or(u64::MAX),
        quiet_ms: held.quiet_ms,
        bytes: held.bytes,
    });
    schema::NicConditions { version: VERSION, conditions: each.collect() }.encode_to_vec()
}

fn loaded(bytes: &[u8]) -> Result<Vec<SavedCondition>, Flaw> {
    let saved: schema::NicConditions = decode(bytes)?;
    let each = saved.conditions.into_iter().filter_map(|one| {
        let severity = SEVERITIES.iter().find(|(_, saved)| i32::from(*saved) == one.severity)?.0;
        let over = Duration::from_nanos(one.over_ns);
        let held = ActiveCondition {
            severity,
            since: Timestamp(one.since_ms),
            last_sign: Timestamp(one.last_sign_ms),
            evidence: Evidence { fact: fact(&one.rule), value: one.value, limit: one.limit, over },
            quiet_ms: one.quiet_ms,
            bytes: one.bytes,
        };
        let key = PortKey { pci_address: one.pci_address, guid: one.guid, port: one.port };
        Some((key, Condition::of_code(&one.condition)?, held))
    });
    Ok(each.collect())
}

fn fact(rule: &str) -> &'static Fact {
    node_agent_health::facts().find(|fact| fact.id == rule).unwrap_or(&KEPT)
}

/// One condition of one port, as release 0.1.0 wrote it.
#[derive(Debug, Deserialize)]
struct OldCondition {
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

fn old(text: &[u8]) -> Result<Vec<SavedCondition>, Flaw> {
    let saved: Vec<OldCondition> =
        serde_json::from_slice(text).map_err(|error| Flaw::Broken(error.to_string()))?;
    let each = saved.into_iter().filter_map(|one| {
        let severity = SEVERITIES.iter().find(|(severity, _)| severity.name() == one.severity)?.0;
        let over = Duration::from_millis(one.over_ms);
        let held = ActiveCondition {
            severity,
            since: Timestamp(one.since_ms),
            last_sign: Timestamp(one.last_sign_ms),
            evidence: Evidence { fact: fact(&one.rule), value: one.value, limit: one.limit, over },
            quiet_ms: one.quiet_ms,
            bytes: one.bytes,
        };
        let key = PortKey { pci_address: one.pci_address, guid: one.guid, port: one.port };
        Some((key, Condition::of_code(&one.condition)?, held))
    });
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn all() -> (&'static Fact, Vec<SavedCondition>) {
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
        (fact, vec![(key, Condition::Storm, held)])
    }

    #[test]
    fn conditions_survive_the_disk() {
        let (_, all) = all();
        let mut wire: schema::NicConditions = decode(&saved(all.clone())).unwrap();
        let again = |wire: &schema::NicConditions| loaded(&wire.encode_to_vec());
        assert_eq!(again(&wire), Ok(all));
        wire.conditions[0].rule = "Renamed".into();
        assert_eq!(again(&wire).unwrap()[0].2.evidence.fact.id, "Kept");
        wire.conditions[0].condition = "Unheard".into();
        assert_eq!(again(&wire), Ok(Vec::new()));
        wire.version = VERSION + 1;
        assert_eq!(again(&wire), Err(Flaw::Newer(VERSION + 1)));
    }

    #[test]
    fn what_release_0_1_0_wrote_is_read_and_replaced() {
        let (fact, all) = all();
        let text = format!(
            r#"[{{"pci_address": "0000:18:00.0", "guid": "b83f", "port": 1, "condition": "Storm", "severity": "Drain",
                "since_ms": 5, "last_sign_ms": 9, "rule": "{}", "value": 0.5, "limit": 0.25, "over_ms": 1500,
                "quiet_ms": 7, "bytes": 11}}]"#,
            fact.id
        );
        let folder = tempfile::tempdir().unwrap();
        let places = Places { now: folder.path().join("health.pb"), old: folder.path().join("health.json") };
        assert!(read(&places).unwrap().is_none());
        fs::write(&places.old, text.replace("Drain", Severity::Drain.name())).unwrap();
        assert_eq!(read(&places).unwrap(), Some(all.clone()));
        write(&places, all.clone()).unwrap();
        assert!(!places.old.exists());
        assert_eq!(read(&places).unwrap(), Some(all));
        fs::write(&places.now, "[]").unwrap();
        let error = read(&places).unwrap_err().to_string();
        assert!(error.contains("health.pb") && error.contains(REMEDY), "{error}");
    }
}
