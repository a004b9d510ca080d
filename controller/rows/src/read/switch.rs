//! Switches: what an administrator says of them.

use std::net::Ipv4Addr;

use proto_model::{
    CredentialName, SwitchAsic, SwitchConfig, SwitchManagement, SwitchName, SwitchNos, SwitchPort,
    SwitchSpec,
    fields::{FieldErrors, Fields, known},
};

use super::{metadata, time_from_row};
use crate::v1;

fn nos(row: i32) -> Option<SwitchNos> {
    use v1::switch_spec::Nos as N;
    Some(match known::<N>(row)? {
        N::Sonic => SwitchNos::Sonic,
        N::Cumulus => SwitchNos::Cumulus,
        N::Eos => SwitchNos::Eos,
        N::NxOs => SwitchNos::NxOs,
        N::Linux => SwitchNos::Linux,
        N::Unspecified => return None,
    })
}

/// A text that may be empty, read.
fn said<T, E: std::fmt::Display>(
    fields: &mut Fields,
    field: &str,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    let text = Some(text).filter(|text| !text.is_empty())?;
    fields.take(field, read(text))
}

fn management(fields: &mut Fields, row: v1::SwitchManagement) -> SwitchManagement {
    let credential =
        said(fields, "spec.management.credential", &row.credential, |name| CredentialName::new(name));
    SwitchManagement { endpoint: row.endpoint, credential }
}

fn spec(fields: &mut Fields, row: v1::SwitchSpec) -> Option<SwitchSpec> {
    let nos = fields.present("spec.nos", nos(row.nos));
    let asic = said(fields, "spec.asic", &row.asic, SwitchAsic::from_word);
    let loopback = said(fields, "spec.loopback", &row.loopback, str::parse::<Ipv4Addr>);
    let port =
        |port: v1::SwitchPort| SwitchPort { name: port.name, cable_m: port.cable_m, optics: port.optics };
    let spec = SwitchSpec {
        nos: nos?,
        version: row.version,
        asic,
        loopback,
        asn: row.asn,
        cable_m: row.cable_m,
        ports: row.ports.into_iter().map(port).collect(),
        management: row.management.map(|row| management(fields, row)),
        repair_drift: row.repair_drift,
    };
    if fields.is_empty() {
        spec.check(fields);
    }
    Some(spec)
}

impl TryFrom<v1::Switch> for SwitchConfig {
    type Error = FieldErrors;

    fn try_from(row: v1::Switch) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        metadata::unowned(&mut fields, &metadata);
        let name = fields.take("metadata.name", SwitchName::new(&metadata.name));
        let said = fields.present("spec", row.spec);
        let spec = said.and_then(|said| spec(&mut fields, said));
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let switch = name.zip(spec).zip(created).map(|((name, spec), created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            spec,
        });
        fields.finish(switch)
    }
}
