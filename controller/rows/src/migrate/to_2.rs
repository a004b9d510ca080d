//! Version 1 of the rows to version 2. Version 1 were the public messages: each resource said its API version and its kind, and had room
//! for what only answers hold. Version 2 has a schema of its own without that; what is left has its numbers, so that reading a row as it
//! is now and writing it again is all there is to do. Keys are as they were.

use bytes::Bytes;
use prost::Message;

use super::tables;
use crate::{packed, v1};

type Again = fn(&Bytes) -> Result<Bytes, String>;

/// All tables of version 1.
const TABLES: [(&str, Again); 29] = [
    ("/rail/v1/jobs/", again::<v1::Job>),
    ("/rail/v1/nodes/", again::<v1::Node>),
    ("/rail/v1/tenants/", again::<v1::Tenant>),
    ("/rail/v1/queues/", again::<v1::Queue>),
    ("/rail/v1/service-classes/", again::<v1::ServiceClass>),
    ("/rail/v1/licenses/", again::<v1::License>),
    ("/rail/v1/reservations/", again::<v1::Reservation>),
    ("/rail/v1/schedules/", again::<v1::Schedule>),
    ("/rail/v1/secrets/", again::<v1::Values>),
    ("/rail/v1/configs/", again::<v1::Values>),
    ("/rail/v1/webhooks/", again::<v1::Webhook>),
    ("/rail/v1/fabric", fabric),
    ("/rail/v1/tombstones/", tombstone),
    // These never were public messages, or have lost nothing. An audit row keeps its revision, which is that of the change.
    ("/rail/v1/attempts/", same),
    ("/rail/v1/audit/", same),
    ("/rail/v1/bootstrap", same),
    ("/rail/v1/decisions/", same),
    ("/rail/v1/deliveries/", same),
    ("/rail/v1/denials/", same),
    ("/rail/v1/drains/", same),
    ("/rail/v1/page-key", same),
    ("/rail/v1/qos", same),
    ("/rail/v1/requests/", same),
    ("/rail/v1/resting-names/", same),
    ("/rail/v1/revocations/", same),
    ("/rail/v1/tokens/", same),
    // Of a process, of the store's keys, and of the version itself.
    ("/rail/v1/leader", same),
    ("/rail/v1/probe", same),
    ("/rail/v1/seal", same),
];

/// The row as version 2 has it; `None` if its key is none of version 1.
pub(super) fn row(key: &[u8], value: &Bytes) -> Option<Result<Bytes, String>> {
    TABLES.iter().find(|(table, _)| tables::is_of(&[table], key)).map(|(_, again)| again(value))
}

fn same(value: &Bytes) -> Result<Bytes, String> {
    Ok(value.clone())
}

fn again<M: Message + Default>(value: &Bytes) -> Result<Bytes, String> {
    let row = M::decode(value.clone()).map_err(|error| error.to_string())?;
    Ok(row.encode_to_vec().into())
}

fn fabric(value: &Bytes) -> Result<Bytes, String> {
    let plain = packed::unpack(value.clone()).map_err(|error| error.to_string())?;
    Ok(packed::pack(again::<v1::Fabric>(&plain)?.into()).into())
}

fn tombstone(value: &Bytes) -> Result<Bytes, String> {
    let mut row = v1::Tombstone::decode(value.clone()).map_err(|error| error.to_string())?;
    if !row.fabric.is_empty() {
        row.fabric = fabric(&std::mem::take(&mut row.fabric).into())?.into();
    }
    Ok(row.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a version 1 row that holds text.
    fn text(number: u8, text: &str) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(text.len()).unwrap()];
        field.extend_from_slice(text.as_bytes());
        field
    }

    #[test]
    fn what_only_answers_hold_goes_and_the_rest_stays() {
        let metadata =
            v1::Metadata { name: "a".into(), uid: "u".into(), generation: 3, ..Default::default() };
        let kept =
            v1::Tenant { metadata: Some(metadata), spec: Some(v1::TenantSpec::default()) }.encode_to_vec();
        let old = [text(1, "rail/v1"), text(2, "Tenant"), kept.clone(), text(5, "")].concat();
        let new = row(b"/rail/v1/tenants/a", &old.clone().into()).unwrap();
        assert_eq!(new, Ok(Bytes::from(kept.clone())));
        // Whatever it is done to twice is the same.
        assert_eq!(row(b"/rail/v1/tenants/a", &new.clone().unwrap()).unwrap(), new);
        let deleted = [vec![4 << 3 | 2, u8::try_from(old.len()).unwrap()], old].concat();
        let new = row(b"/rail/v1/tombstones/tenant/a", &deleted.into()).unwrap().unwrap();
        let tenant = v1::Tombstone::decode(new).unwrap().tenant.unwrap();
        assert_eq!(tenant.encode_to_vec(), kept);
    }

    #[test]
    fn a_key_or_a_value_that_is_none_is_told() {
        for key in ["/rail/v1/odd", "/rail/v1/fabrics", "/rail/v1/job", "/other"] {
            assert!(row(key.as_bytes(), &Bytes::new()).is_none(), "{key}");
        }
        for key in ["/rail/v1/jobs/t/a", "/rail/v1/fabric", "/rail/v1/tombstones/fabric/f"] {
            assert!(row(key.as_bytes(), &Bytes::from_static(&[0xff])).unwrap().is_err(), "{key}");
        }
    }
}
