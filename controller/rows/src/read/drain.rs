//! What engines see of their rails. Reports are views, never decided from blindly: what is too long is cut, and a state
//! that this release does not know counts as not known.

use proto_model::Drain;

use super::time_from_row;
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

impl TryFrom<v1::RailDrain> for Drain {
    type Error = FieldErrors;

    fn try_from(row: v1::RailDrain) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let target = fields.take("target", row.target.parse());
        let since = fields.present("since", row.since);
        let since = since.and_then(|since| fields.nest("since", time_from_row(since)));
        fields.finish(target.zip(since).map(|(target, since)| Self {
            target,
            reason: row.reason,
            by: row.by,
            since,
        }))
    }
}
