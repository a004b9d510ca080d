//! BGP sessions of the switch, as FRR has them. Values only: nothing is run here.

use std::collections::BTreeMap;

use proto_wire::v1::{SwitchSession, switch_session::State};
use serde_json::Value;

use crate::decide::Trial;

/// The command of FRR that shows them.
pub const COMMAND: &str = "show bgp summary json";
/// Most that are reported.
const MOST: usize = 1024;
/// Longest name of a neighbour, in bytes.
const NAME_MAX: usize = 63;

/// The sessions in what FRR prints; none where that is no such list. One of several address families is there once, with its best state.
#[must_use]
pub fn read(said: &str) -> Option<Vec<SwitchSession>> {
    // Warnings stand before it.
    let text = said.get(said.find('{')?..)?;
    let Ok(Value::Object(families)) = serde_json::from_str(text) else { return None };
    let mut all: BTreeMap<&str, i32> = BTreeMap::new();
    for peers in families.values().filter_map(|family| family.get("peers")?.as_object()) {
        for (neighbor, peer) in peers.iter().filter(|(neighbor, _)| is_neighbor(neighbor)) {
            let state = state(peer.get("state").and_then(Value::as_str).unwrap_or_default()).into();
            let best = all.entry(neighbor).or_insert(state);
            *best = state.max(*best);
        }
    }
    let session = |(neighbor, state): (&str, i32)| SwitchSession {
        neighbor: neighbor.to_owned(),
        state,
        before_trial: false,
    };
    Some(all.into_iter().take(MOST).map(session).collect())
}

/// FRR's words for states; `Idle` has more beside it, such as `Idle (Admin)`.
fn state(word: &str) -> State {
    match word.split(' ').next().unwrap_or_default() {
        "Idle" => State::Idle,
        "Connect" => State::Connect,
        "Active" => State::Active,
        "OpenSent" => State::OpenSent,
        "OpenConfirm" => State::OpenConfirm,
        "Established" => State::Established,
        _ => State::Unspecified,
    }
}

/// As the schema has it.
fn is_neighbor(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && text.len() <= NAME_MAX && text.bytes().all(inner)
}

/// With whom sessions are established.
#[must_use]
pub fn established(sessions: &[SwitchSession]) -> Vec<String> {
    let up = sessions.iter().filter(|one| one.state() == State::Established);
    up.map(|one| one.neighbor.clone()).collect()
}

/// Sessions with what was before the trial that goes on; one that was there then and is not any more is among them.
#[must_use]
pub fn since(sessions: &[SwitchSession], trial: Option<&Trial>) -> Vec<SwitchSession> {
    let before = trial.map(|trial| trial.established.as_slice()).unwrap_or_default();
    let mut all = sessions.to_vec();
    for one in &mut all {
        one.before_trial = before.contains(&one.neighbor);
    }
    let gone = before.iter().filter(|neighbor| !sessions.iter().any(|one| one.neighbor == **neighbor));
    let state = State::Unspecified.into();
    all.extend(gone.map(|neighbor| SwitchSession { neighbor: neighbor.clone(), state, before_trial: true }));
    all.truncate(MOST);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As FRR 8.4 prints it, shortened.
    const SAID: &str = r#"{"ipv4Unicast": {"routerId": "10.0.0.1", "as": 65001, "peers": {
        "swp1": {"hostname": "spine0", "remoteAs": 64513, "state": "Established", "peerState": "OK"},
        "10.1.0.9": {"remoteAs": 65009, "state": "Idle (Admin)"}, "swp3": {"state": "Clearing"}}, "totalPeers": 3},
        "l2VpnEvpn": {"peers": {"swp1": {"state": "Established"}, "swp2": {"state": "Active"}, "bad name": {"state": "Active"}}}}"#;

    fn states(sessions: &[SwitchSession]) -> Vec<(&str, State, bool)> {
        sessions.iter().map(|one| (one.neighbor.as_str(), one.state(), one.before_trial)).collect()
    }

    #[test]
    fn sessions_of_all_families_are_read_once() {
        let read = read(&format!("% a warning\n{SAID}")).unwrap();
        let expected = [
            ("10.1.0.9", State::Idle, false),
            ("swp1", State::Established, false),
            ("swp2", State::Active, false),
            ("swp3", State::Unspecified, false),
        ];
        assert_eq!(states(&read), expected);
        assert_eq!(established(&read), ["swp1"]);
    }

    #[test]
    fn no_sessions_are_some_and_no_answer_is_none() {
        assert_eq!(read("{}"), Some(Vec::new()));
        assert_eq!(read(r#"{"warning": "no bgp"}"#), Some(Vec::new()));
        for said in ["", "% BGP instance not found", "{\"ipv4Unicast\": "] {
            assert_eq!(read(said), None, "{said}");
        }
    }

    #[test]
    fn what_was_before_a_trial_is_named_beside_what_is() {
        let mut trial = Trial {
            number: 1,
            generation: 1,
            before: crate::files::Files::default(),
            wanted: crate::files::Files::default(),
            owned: Vec::new(),
            method: crate::decide::Method::Change,
            established: vec!["gone".into(), "swp1".into()],
            begun: crate::decide::Moment::default(),
            within: std::time::Duration::ZERO,
            stage: crate::decide::Stage::Begun,
            trouble: String::new(),
        };
        let one = |neighbor: &str| SwitchSession { neighbor: neighbor.into(), state: 3, before_trial: false };
        let now = [one("swp1"), one("swp2")];
        let all = since(&now, Some(&trial));
        let expected = [
            ("swp1", State::Active, true),
            ("swp2", State::Active, false),
            ("gone", State::Unspecified, true),
        ];
        assert_eq!(states(&all), expected);
        assert_eq!(since(&now, None), now);
        trial.established.clear();
        assert_eq!(since(&now, Some(&trial)), now);
    }
}
