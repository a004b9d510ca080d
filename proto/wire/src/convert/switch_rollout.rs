//! Rollouts to switches, and what switches' agents say.

use std::{collections::BTreeMap, time::Duration};

use proto_model::{
    BgpState, DesiredSwitch, QosState, SwitchName, SwitchPhase, SwitchProgress,
    fields::{FieldErrors, Fields},
    sonic::LEAST_OF_RELOAD,
};

use super::{common::duration, duration_to_wire};
use crate::{
    v1,
    v1::{desired_switch::Phase, switch_progress::State, switch_session::State as Session},
};

/// Bytes of a reason, and of what an agent says of a failure.
const LINE: usize = 1024;
/// How long a trial may wait: by default, at least, at most.
const CONFIRM: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(10), Duration::from_secs(3600)];
/// How long a trial has to be well by default.
const SOAK: Duration = Duration::from_secs(10);
/// Switches out of use at a time, at most.
const AT_ONCE: u32 = 64;
/// BGP sessions of a switch, at most.
const SESSIONS: usize = 1024;
/// Bytes of the port or the address that one is with.
const NEIGHBOR: usize = 63;

/// What somebody asks for, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchOrder {
    /// Why the rollout is made, in the administrator's words.
    pub reason: String,
    /// The leaf that is to be first, if one is named.
    pub canary: Option<SwitchName>,
    /// How long a trial waits for its confirmation, if that is said: see [`SwitchOrder::confirm_within`].
    pub confirm_within: Option<Duration>,
    /// How long it has to be well before.
    pub soak: Duration,
    /// Switches out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
}

impl SwitchOrder {
    /// How long a trial waits for its confirmation: what was asked for, or 60 seconds; 300 where some switch has to load its whole database.
    #[must_use]
    pub fn confirm_within(&self, reloads: bool) -> Duration {
        self.confirm_within.unwrap_or(if reloads { LEAST_OF_RELOAD } else { CONFIRM[0] })
    }
}

fn line(fields: &mut Fields, field: &str, text: &str) {
    if text.len() > LINE || text.chars().any(char::is_control) {
        fields.fail(field, format!("must be one printable line of at most {LINE} bytes"));
    }
}

impl TryFrom<v1::RollOutSwitchesRequest> for SwitchOrder {
    type Error = FieldErrors;

    fn try_from(wire: v1::RollOutSwitchesRequest) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        line(&mut fields, "reason", &wire.reason);
        let canary = (!wire.canary.is_empty()).then(|| fields.take("canary", SwitchName::new(&wire.canary)));
        let [default, least, most] = CONFIRM;
        let asked = duration(&mut fields, "confirmWithin", wire.confirm_within);
        let confirm_within = asked.unwrap_or(default);
        if !(least..=most).contains(&confirm_within) {
            fields.fail("confirmWithin", "must be from 10s to 1h");
        }
        let soak = duration(&mut fields, "soak", wire.soak).unwrap_or(SOAK.min(confirm_within / 2));
        if soak >= confirm_within {
            fields
                .fail("soak", "must be less than confirmWithin: what nobody confirms in time is taken back");
        }
        if wire.at_once > AT_ONCE {
            fields.fail("atOnce", format!("{} is more than {AT_ONCE}", wire.at_once));
        }
        fields.finish(Some(Self {
            reason: wire.reason,
            canary: canary.flatten(),
            confirm_within: asked,
            soak,
            at_once: wire.at_once.max(1),
            force: wire.force,
        }))
    }
}

/// What an agent says of its desired state; none where it has not had any.
///
/// # Errors
/// [`FieldErrors`] with each wrong field.
pub fn switch_progress(wire: v1::SwitchProgress) -> Result<Option<SwitchProgress>, FieldErrors> {
    let mut fields = Fields::default();
    line(&mut fields, "message", &wire.message);
    let state = match State::try_from(wire.state) {
        Ok(State::Unspecified) => None,
        Ok(State::Held) => Some(QosState::Held),
        Ok(State::Trial) => Some(QosState::Trial),
        Ok(State::Kept) => Some(QosState::Kept),
        Ok(State::Failed) => Some(QosState::Failed),
        Err(_) => {
            fields.fail("state", "must be HELD, TRIAL, KEPT or FAILED");
            None
        }
    };
    let v1::SwitchProgress { generation, message, observed_number, .. } = wire;
    fields.finish(Some(state.map(|state| SwitchProgress { state, generation, message, observed_number })))
}

/// Sessions that a switch has, by the port or the address that they are with: the state of each, and whether it was established before the trial
/// that goes on.
///
/// # Errors
/// [`FieldErrors`] with each wrong field.
pub fn switch_sessions(wire: v1::SwitchSessions) -> Result<BTreeMap<String, (BgpState, bool)>, FieldErrors> {
    let (mut fields, mut all) = (Fields::default(), BTreeMap::new());
    if wire.sessions.len() > SESSIONS {
        fields.fail("sessions", format!("{} are more than {SESSIONS}", wire.sessions.len()));
        return fields.finish(None);
    }
    for (at, session) in wire.sessions.into_iter().enumerate() {
        let state = match Session::try_from(session.state) {
            Ok(Session::Unspecified) => BgpState::Unknown,
            Ok(Session::Idle) => BgpState::Idle,
            Ok(Session::Connect) => BgpState::Connect,
            Ok(Session::Active) => BgpState::Active,
            Ok(Session::OpenSent) => BgpState::OpenSent,
            Ok(Session::OpenConfirm) => BgpState::OpenConfirm,
            Ok(Session::Established) => BgpState::Established,
            Err(_) => {
                fields.fail(&format!("sessions[{at}].state"), "must be a state of BGP");
                BgpState::Unknown
            }
        };
        let field = format!("sessions[{at}].neighbor");
        if !is_neighbor(&session.neighbor) {
            fields.fail(&field, "must be a port or an address");
        } else if all.insert(session.neighbor, (state, session.before_trial)).is_some() {
            fields.fail(&field, "is named twice");
        }
    }
    fields.finish(Some(all))
}

fn is_neighbor(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && text.len() <= NEIGHBOR && text.bytes().all(inner)
}

/// What a switch should do, without its files.
#[must_use]
pub fn desired_switch(desired: &DesiredSwitch) -> v1::DesiredSwitch {
    let phase = match desired.phase {
        SwitchPhase::Hold => Phase::Hold,
        SwitchPhase::Trial => Phase::Trial,
        SwitchPhase::Keep => Phase::Keep,
    };
    v1::DesiredSwitch {
        generation: desired.generation,
        phase: phase.into(),
        files: Vec::new(),
        confirm_within: Some(duration_to_wire(desired.confirm_within)),
        number: desired.number,
        owned_tables: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(change: impl FnOnce(&mut v1::RollOutSwitchesRequest)) -> Result<SwitchOrder, Vec<String>> {
        let mut wire = v1::RollOutSwitchesRequest::default();
        change(&mut wire);
        SwitchOrder::try_from(wire).map_err(|errors| errors.0.into_iter().map(|error| error.field).collect())
    }

    #[test]
    fn an_order_has_defaults_and_every_wrong_field_is_named() {
        let default = order(|_| {}).unwrap();
        assert_eq!((default.confirm_within, default.soak, default.at_once), (None, SOAK, 1));
        assert_eq!(
            [false, true].map(|reloads| default.confirm_within(reloads)),
            [CONFIRM[0], LEAST_OF_RELOAD]
        );
        let seconds = |seconds| Some(duration_to_wire(Duration::from_secs(seconds)));
        let wrong = order(|wire| {
            wire.reason = "a\nb".into();
            wire.canary = "-".into();
            wire.confirm_within = seconds(5);
            wire.soak = seconds(9);
            wire.at_once = 65;
        });
        assert_eq!(wrong.unwrap_err(), ["reason", "canary", "confirmWithin", "soak", "atOnce"]);
        let asked = order(|wire| wire.confirm_within = seconds(12)).unwrap();
        assert_eq!(
            (asked.soak, asked.confirm_within(true)),
            (Duration::from_secs(6), Duration::from_secs(12))
        );
    }

    #[test]
    fn progress_is_read_strictly() {
        let wire = |state: i32, message: &str| v1::SwitchProgress {
            state,
            generation: 3,
            message: message.into(),
            observed_number: 9,
        };
        assert_eq!(switch_progress(wire(0, "")), Ok(None));
        let read = switch_progress(wire(State::Trial.into(), "x")).unwrap().unwrap();
        assert_eq!((read.state, read.generation, read.observed_number), (QosState::Trial, 3, 9));
        assert_eq!(switch_progress(wire(99, "a\u{7}")).unwrap_err().0.len(), 2);
    }

    #[test]
    fn sessions_are_read_strictly() {
        let wire = |all: &[(&str, i32)]| {
            let session = |(neighbor, state): &(&str, i32)| v1::SwitchSession {
                neighbor: (*neighbor).to_owned(),
                state: *state,
                before_trial: *state == 3,
            };
            switch_sessions(v1::SwitchSessions { sessions: all.iter().map(session).collect() })
        };
        let read = wire(&[("Ethernet0", 6), ("10.0.0.1", 3), ("fe80::1", 0)]).unwrap();
        let states = [(BgpState::Active, true), (BgpState::Established, false), (BgpState::Unknown, false)];
        assert_eq!(read.into_values().collect::<Vec<_>>(), states);
        let wrong = wire(&[("", 6), ("a b", 1), ("swp1", 9), ("swp1", 1)]).unwrap_err();
        let fields: Vec<&str> = wrong.0.iter().map(|error| error.field.as_str()).collect();
        let expected =
            ["sessions[0].neighbor", "sessions[1].neighbor", "sessions[2].state", "sessions[3].neighbor"];
        assert_eq!(fields, expected);
        let many: Vec<String> = (0..=SESSIONS).map(|number| format!("swp{number}")).collect();
        let many: Vec<(&str, i32)> = many.iter().map(|name| (name.as_str(), 1)).collect();
        assert!(wire(&many).is_err() && wire(&many[1..]).is_ok());
    }
}
