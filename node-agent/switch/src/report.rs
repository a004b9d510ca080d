//! What is said to the controller, and what its answer means.

use std::time::Duration;

use proto_wire::{
    convert::duration_from_wire,
    v1::{self, desired_switch},
};

use crate::{
    decide::{Desired, Phase},
    files::Files,
    keeper::{Heard, Status},
    text,
};

/// Until the controller says otherwise.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// What a controller may ask for.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(60);

/// The report of this status.
#[must_use]
pub fn report(status: &Status, send_files: bool) -> v1::ReportSwitchRequest {
    let causes = [status.found.unreadable.as_str(), status.unsaved.as_str()];
    let unreadable: Vec<&str> = causes.into_iter().filter(|cause| !cause.is_empty()).collect();
    v1::ReportSwitchRequest {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        nos_version: status.version.clone(),
        epoch: status.epoch,
        digest: status.digest.clone(),
        files: if send_files { status.found.files.to_wire() } else { Vec::new() },
        progress: Some(status.progress.clone()),
        ports: status.ports.as_ref().clone(),
        ports_read_ms: status.ports_read_ms,
        unreadable: text::bounded(&unreadable.join("; ")),
        sessions: status
            .sessions
            .as_deref()
            .map(|sessions| v1::SwitchSessions { sessions: sessions.clone() }),
    }
}

/// What the controller has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// For the keeper.
    pub heard: Heard,
    /// Until the next report.
    pub interval: Duration,
    /// That one has the files.
    pub send_files: bool,
}

/// The answer, checked.
///
/// # Errors
/// What in it cannot be understood; then nothing of it counts.
pub fn answer(wire: v1::ReportSwitchResponse) -> Result<Answer, String> {
    let interval = match wire.interval.map(duration_from_wire).transpose() {
        Ok(interval) => interval.filter(|interval| !interval.is_zero()).unwrap_or(INTERVAL),
        Err(error) => return Err(format!("interval: {error}")),
    };
    Ok(Answer {
        heard: Heard { epoch: wire.epoch, desired: wire.desired.map(desired).transpose()? },
        interval: interval.clamp(*INTERVALS.start(), *INTERVALS.end()),
        send_files: wire.send_files,
    })
}

fn desired(wire: v1::DesiredSwitch) -> Result<Desired, String> {
    let phase = wire.phase();
    let files = || Files::of_wire(wire.files.clone()).map_err(|error| format!("files: {error}"));
    let phase = match phase {
        desired_switch::Phase::Hold => Phase::Hold,
        desired_switch::Phase::Trial => {
            let within = wire.confirm_within.map(duration_from_wire).transpose();
            let within = within.map_err(|error| format!("confirm_within: {error}"))?;
            Phase::Trial {
                files: files()?,
                owned: wire.owned_tables.clone(),
                within: within.unwrap_or_default(),
            }
        }
        desired_switch::Phase::Keep => Phase::Keep { files: files()? },
        desired_switch::Phase::Unspecified => {
            return Err(format!("phase {} is not known here: upgrade rail-switch-agent", wire.phase));
        }
    };
    Ok(Desired { generation: wire.generation, phase, number: wire.number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Found;
    use std::sync::Arc;

    fn duration(ms: u64) -> Option<prost_types::Duration> {
        Some(proto_wire::convert::duration_to_wire(Duration::from_millis(ms)))
    }

    #[test]
    fn intervals_have_bounds_and_phases_are_checked() {
        let said = |interval, desired| {
            answer(v1::ReportSwitchResponse { epoch: 3, interval, send_files: true, desired })
        };
        for (given, used) in [
            (None, 1000),
            (duration(0), 1000),
            (duration(1), 200),
            (duration(99_000), 60_000),
            (duration(700), 700),
        ] {
            assert_eq!(said(given, None).unwrap().interval, Duration::from_millis(used));
        }
        let file = |name: &str| v1::SwitchFile { name: name.to_owned(), content: "x".to_owned() };
        let trial = v1::DesiredSwitch {
            generation: 2,
            phase: desired_switch::Phase::Trial.into(),
            files: vec![file("frr.conf")],
            confirm_within: duration(30_000),
            number: 4,
            owned_tables: vec!["QUEUE".to_owned()],
        };
        let heard = said(None, Some(trial.clone())).unwrap().heard;
        let Some(Desired { generation: 2, number: 4, phase: Phase::Trial { files, owned, within } }) =
            heard.desired
        else {
            panic!("{heard:?}")
        };
        assert_eq!(owned, ["QUEUE"]);
        assert_eq!((files.get("frr.conf"), within.as_secs(), heard.epoch), (Some("x"), 30, 3));
        let wrong = |desired| said(None, Some(desired)).unwrap_err();
        assert!(wrong(v1::DesiredSwitch { phase: 9, ..trial.clone() }).contains("phase 9"));
        assert!(wrong(v1::DesiredSwitch { files: vec![file("../x")], ..trial.clone() }).contains("files"));
        let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
        assert!(wrong(v1::DesiredSwitch { confirm_within: negative, ..trial }).contains("confirm_within"));
        assert!(said(negative, None).is_err());
    }

    #[test]
    fn files_are_sent_where_they_are_asked_for() {
        let files = Files::new([("frr.conf".to_owned(), "!".to_owned())]).unwrap();
        let digest = files.digest();
        let found = Found { files, unreadable: "config_db.json: no".into() };
        let status = Status {
            found: Arc::new(found),
            digest: digest.clone(),
            unsaved: "full".into(),
            ..Status::default()
        };
        let (without, with) = (report(&status, false), report(&status, true));
        assert!(without.files.is_empty() && with.files.len() == 1);
        assert_eq!((without.digest, with.digest), (digest.clone(), digest));
        assert_eq!(with.unreadable, "config_db.json: no; full");
    }
}
