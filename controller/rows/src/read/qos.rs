//! Class of service: rollouts, desired state, and how NICs stand to it.

use std::{sync::Arc, time::Duration};

use proto_model::{NodeName, QosPort, QosRollout, Reason, qos::MAX_DOCUMENT};

use super::{common::duration, time_from_row};
use crate::{v1, v1::qos_port::State, words::QOS_STATES};
use proto_model::fields::{FieldErrors, Fields, known};

/// Bytes of what an agent says of a NIC.
const MAX_MESSAGE: usize = 1024;

/// How long a trial may wait: by default, at least, at most.
const CONFIRM: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(10), Duration::from_secs(3600)];

/// How long a trial has to be well by default.
const SOAK: Duration = Duration::from_secs(10);

impl TryFrom<v1::QosPort> for QosPort {
    type Error = FieldErrors;

    fn try_from(row: v1::QosPort) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.device.is_empty() || row.device.len() > 64 || row.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if row.message.len() > MAX_MESSAGE || row.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MAX_MESSAGE} bytes"));
        }
        let state = known::<State>(row.state);
        let state = state.and_then(|state| QOS_STATES.iter().find(|pair| pair.1 == state).map(|pair| pair.0));
        if state.is_none() {
            fields.fail("state", "must be HELD, TRIAL, KEPT, DIFFERS or FAILED");
        }
        let v1::QosPort { device, generation, message, observed_generation, .. } = row;
        fields.finish(state.map(|state| Self { device, generation, state, message, observed_generation }))
    }
}

/// A profile's document: what it says is the agents' and railctl's to check.
pub(super) fn document(fields: &mut Fields, field: &str, text: String, required: bool) -> Option<Arc<str>> {
    if text.len() > MAX_DOCUMENT {
        fields.fail(field, format!("is longer than {MAX_DOCUMENT} bytes"));
    } else if text.is_empty() {
        if required {
            fields.fail(field, "is required: a profile of class of service, as JSON");
        }
    } else if !text.trim_start().starts_with('{') {
        fields.fail(field, "must be a JSON object");
    }
    (!text.is_empty()).then(|| text.into())
}

impl TryFrom<v1::QosRollout> for QosRollout {
    type Error = FieldErrors;

    fn try_from(row: v1::QosRollout) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let document = document(&mut fields, "document", row.document, true);
        let before = self::document(&mut fields, "before", row.before, false);
        let since = fields.nest("since", time_from_row(row.since.unwrap_or_default()));
        let canary = fields.take("canary", NodeName::new(&row.canary));
        let confirm_within = duration(&mut fields, "confirmWithin", row.confirm_within).unwrap_or(CONFIRM[0]);
        let soak = duration(&mut fields, "soak", row.soak).unwrap_or(SOAK);
        let paused = row.paused.and_then(|paused| fields.nest("paused", Reason::try_from(paused)));
        let whole = document.zip(since).zip(canary);
        fields.finish(whole.map(|((document, since), canary)| Self {
            generation: row.generation,
            document,
            before,
            reason: row.reason,
            by: row.by,
            since,
            canary,
            confirm_within,
            soak,
            at_once: row.at_once.max(1),
            force: row.force,
            paused,
            mixed: row.mixed,
        }))
    }
}
