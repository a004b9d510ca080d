//! Stored rows: decoding, the checked conversion into the domain, the way back, and the migration of older ones.

use controller_rows::{FieldErrors, migrate, packed, v1};
use controller_state::rows::{
    audit::AuditRow,
    decisions::DecisionRow,
    deleted::DeletedKey,
    records::{Attempt, RequestRecord, TokenRecord},
    usage::UsageRecord,
    webhooks::Delivery,
};
use prost::Message;
use proto_model::{
    Drain, Job, JobSchedule, License, Node, QosRollout, Queue, Reservation, ServiceClass, SwitchConfig,
    Tenant, ValuesKind, Webhook,
};

/// Keys of version 1 of the rows, one for each kind.
const KEYS: [&str; 4] =
    ["/rail/v1/jobs/t/a", "/rail/v1/fabric", "/rail/v1/tombstones/tenant/t", "/rail/v1/secrets/t/a"];

/// The first byte chooses the kind of the rest.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind % 21 {
        0 => survives::<v1::Job, Job>(bytes),
        1 => survives::<v1::Node, Node>(bytes),
        2 => survives::<v1::Tenant, Tenant>(bytes),
        3 => survives::<v1::Queue, Queue>(bytes),
        4 => survives::<v1::ServiceClass, ServiceClass>(bytes),
        5 => survives::<v1::License, License>(bytes),
        6 => survives::<v1::Reservation, Reservation>(bytes),
        7 => survives::<v1::Schedule, JobSchedule>(bytes),
        8 => survives::<v1::Webhook, Webhook>(bytes),
        9 => survives::<v1::RailDrain, Drain>(bytes),
        10 => survives::<v1::QosRollout, QosRollout>(bytes),
        11 => survives::<v1::Attempt, Attempt>(bytes),
        12 => survives::<v1::Request, RequestRecord>(bytes),
        13 => survives::<v1::JoinToken, TokenRecord>(bytes),
        14 => survives::<v1::Delivery, Delivery>(bytes),
        15 => survives::<v1::Decisions, DecisionRow>(bytes),
        16 => survives::<v1::Audit, AuditRow>(bytes),
        17 => by_key(bytes),
        19 => survives::<v1::Switch, SwitchConfig>(bytes),
        20 => survives::<v1::Usage, UsageRecord>(bytes),
        _ => migrated(bytes),
    }
}

fn refused(errors: &FieldErrors) {
    assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
}

/// What the domain took, it takes again when it has been written, and it is written the same.
fn survives<R, D>(bytes: &[u8])
where
    R: Message + Default + for<'a> From<&'a D>,
    D: TryFrom<R, Error = FieldErrors>,
{
    let Ok(row) = R::decode(bytes) else { return };
    let domain = match D::try_from(row) {
        Ok(domain) => domain,
        Err(errors) => return refused(&errors),
    };
    let written = R::from(&domain).encode_to_vec();
    match R::decode(written.as_slice()).map(D::try_from) {
        // By their bytes: not-a-number is not equal to itself.
        Ok(Ok(back)) => assert_eq!(R::from(&back).encode_to_vec(), written),
        Ok(Err(errors)) => panic!("written but not read: {errors}"),
        Err(error) => panic!("written but not decoded: {error}"),
    }
}

/// Rows whose keys say what they are.
fn by_key(bytes: &[u8]) {
    if let Err(errors) = packed::decode(bytes.to_vec().into()) {
        refused(&errors);
    }
    if let Ok(row) = v1::Values::decode(bytes)
        && let Err(errors) = controller_rows::values(ValuesKind::Secret, row)
    {
        refused(&errors);
    }
    if let Ok(row) = v1::Tombstone::decode(bytes)
        && let Err(errors) = controller_rows::tombstone(DeletedKey::Fabric("f".to_owned()), row)
    {
        refused(&errors);
    }
}

/// What was brought to the next version stays as it is when that is done again.
fn migrated(bytes: &[u8]) {
    for key in KEYS {
        match migrate::step(1, key.as_bytes(), &bytes.to_vec().into()) {
            Ok(row) => assert_eq!(migrate::step(1, key.as_bytes(), &row), Ok(row)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
