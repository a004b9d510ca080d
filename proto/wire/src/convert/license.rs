//! Licenses: what there is, and what a job asks for.

use std::collections::{BTreeMap, HashMap};

use proto_model::{License, LicenseName};

use super::{API_VERSION, FieldErrors, Fields, metadata, time_from_wire, time_to_wire};
use crate::v1;

/// The licenses that a job asks for; a wrong one is named in the error.
pub(super) fn asked(fields: &mut Fields, wire: HashMap<String, u32>) -> BTreeMap<LicenseName, u32> {
    if wire.len() > License::PER_JOB {
        let message = format!("has {} licenses; at most {} are allowed", wire.len(), License::PER_JOB);
        fields.fail("licenses", message);
        return BTreeMap::new();
    }
    // In one order, so that errors come in the same order each time.
    let mut wire: Vec<(String, u32)> = wire.into_iter().collect();
    wire.sort_unstable();
    let read = |(text, count): (String, u32)| {
        let field = format!("licenses.{text}");
        if !(1..=License::MOST).contains(&count) {
            fields.fail(&field, format!("{count} is not from 1 to {}", License::MOST));
        }
        Some((fields.take(&field, LicenseName::new(&text))?, count))
    };
    wire.into_iter().filter_map(read).collect()
}

impl TryFrom<v1::License> for License {
    type Error = FieldErrors;

    fn try_from(wire: v1::License) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "License");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let name = fields.take("metadata.name", LicenseName::new(&metadata.name));
        let total = fields.present("spec.total", spec.total).unwrap_or_default();
        if total > Self::MOST {
            fields.fail("spec.total", format!("{total} is more than {}", Self::MOST));
        }
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
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

impl From<&License> for v1::License {
    /// The status (what is used) is added by whoever knows the jobs.
    fn from(license: &License) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "License".to_owned(),
            metadata: Some(v1::Metadata {
                name: license.name.to_string(),
                uid: license.uid.clone(),
                generation: license.generation,
                create_time: Some(time_to_wire(license.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::LicenseSpec {
                total: Some(license.total),
                description: license.description.clone(),
            }),
            status: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto_model::{JobSpec, Timestamp};

    use super::*;

    fn fields<T: std::fmt::Debug>(result: Result<T, FieldErrors>) -> Vec<String> {
        result.unwrap_err().0.into_iter().map(|error| error.field).collect()
    }

    fn job(licenses: &[(&str, u32)]) -> Result<JobSpec, FieldErrors> {
        let command = v1::Command { argv: vec!["x".into()], ..Default::default() };
        JobSpec::try_from(v1::JobSpec {
            gang: Some(v1::Gang { nodes: 1, ..Default::default() }),
            work: Some(v1::job_spec::Work::Command(command)),
            licenses: licenses.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..Default::default()
        })
    }

    #[test]
    fn licenses_survive_the_wire() {
        for total in [0, 1, License::MOST] {
            let license = License {
                name: LicenseName::new("matlab").unwrap(),
                uid: "l1".into(),
                generation: 3,
                created: Timestamp(7000),
                description: "seats".into(),
                total,
            };
            let bytes = v1::License::from(&license).encode_to_vec();
            assert_eq!(License::try_from(v1::License::decode(bytes.as_slice()).unwrap()), Ok(license));
        }
        let spec = job(&[("matlab", 2), ("scratch-gbps", 40)]).unwrap();
        assert_eq!(spec.licenses.values().copied().collect::<Vec<_>>(), [2, 40]);
        assert_eq!(JobSpec::try_from(v1::JobSpec::from(&spec)), Ok(spec));
    }

    #[test]
    fn every_wrong_field_of_a_license_is_named() {
        let wire = |total, description: &str| v1::License {
            kind: "Licence".into(),
            metadata: Some(v1::Metadata { name: "Mat_lab".into(), ..Default::default() }),
            spec: Some(v1::LicenseSpec { total, description: description.into() }),
            ..Default::default()
        };
        let long = "x".repeat(1025);
        let expected = ["kind", "metadata.name", "spec.total", "spec.description"];
        assert_eq!(fields(License::try_from(wire(Some(License::MOST + 1), &long))), expected);
        assert_eq!(fields(License::try_from(wire(None, ""))), &expected[..3]);
        assert_eq!(fields(License::try_from(v1::License::default()))[..2], ["metadata", "spec"]);
    }

    #[test]
    fn every_wrong_license_of_a_job_is_named() {
        let asked = [("b", 0), ("a", License::MOST + 1), ("ok", 1), ("No", 1)];
        assert_eq!(fields(job(&asked)), ["licenses.No", "licenses.a", "licenses.b"]);
        let names: Vec<String> = (0..17).map(|number| format!("l{number}")).collect();
        let many: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(fields(job(&many)), ["licenses"]);
        assert!(job(&many[..16]).is_ok());
    }
}
