//! Licenses: what there is, and what a job asks for.

use proto_model::License;

use super::time_to_row;
use crate::v1;

impl From<&License> for v1::License {
    /// What is used follows from the jobs, and is not stored.
    fn from(license: &License) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: license.name.to_string(),
                uid: license.uid.clone(),
                generation: license.generation,
                create_time: Some(time_to_row(license.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::LicenseSpec {
                total: Some(license.total),
                description: license.description.clone(),
            }),
        }
    }
}
