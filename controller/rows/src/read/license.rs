//! Licenses: what there is, and what a job asks for.

use std::collections::BTreeMap;

use proto_model::{License, LicenseName};

use super::{metadata, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

/// The licenses that a job asks for; a wrong one is named in the error.
pub(crate) fn asked(fields: &mut Fields, row: BTreeMap<String, u32>) -> BTreeMap<LicenseName, u32> {
    if row.len() > License::PER_JOB {
        let message = format!("has {} licenses; at most {} are allowed", row.len(), License::PER_JOB);
        fields.fail("licenses", message);
        return BTreeMap::new();
    }
    // In one order, so that errors come in the same order each time.
    let mut row: Vec<(String, u32)> = row.into_iter().collect();
    row.sort_unstable();
    let read = |(text, count): (String, u32)| {
        let field = format!("licenses.{text}");
        if !(1..=License::MOST).contains(&count) {
            fields.fail(&field, format!("{count} is not from 1 to {}", License::MOST));
        }
        Some((fields.take(&field, LicenseName::new(&text))?, count))
    };
    row.into_iter().filter_map(read).collect()
}

impl TryFrom<v1::License> for License {
    type Error = FieldErrors;

    fn try_from(row: v1::License) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", row.spec).unwrap_or_default();
        let name = fields.take("metadata.name", LicenseName::new(&metadata.name));
        let total = fields.present("spec.total", spec.total).unwrap_or_default();
        if total > Self::MOST {
            fields.fail("spec.total", format!("{total} is more than {}", Self::MOST));
        }
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let license = name.zip(created).map(|(name, created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            description: spec.description,
            total,
        });
        fields.finish(license)
    }
}
