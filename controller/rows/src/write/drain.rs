//! What engines see of their rails. Reports are views, never decided from blindly: what is too long is cut, and a state
//! that this release does not know counts as not known.

use proto_model::Drain;

use super::time_to_row;
use crate::v1;

impl From<&Drain> for v1::RailDrain {
    fn from(drain: &Drain) -> Self {
        Self {
            target: drain.target.to_string(),
            reason: drain.reason.clone(),
            by: drain.by.clone(),
            since: Some(time_to_row(drain.since)),
        }
    }
}
