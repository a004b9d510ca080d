//! Rows of every table: what is stored comes back.

use controller_core::Write;
use controller_leader::codec;
use controller_store::{KeyValue, Op};
use proptest::prelude::*;
use proto_model::ValuesKind;

use crate::sample::{self, Pick};

/// A row as the store has it.
pub fn stored(write: &Write) -> KeyValue {
    let Op::Put { key, value, .. } = codec::op(write) else { panic!("{write:?} is no row") };
    KeyValue { key, value, create_revision: 1, mod_revision: 1, version: 1, lease: None }
}

/// What a row is again once it is read, by the kind of write that it came from.
pub fn read(write: &Write, kv: &KeyValue) -> Result<Write, controller_leader::CorruptError> {
    use Write as W;
    Ok(match write {
        W::PutJob(_) => W::PutJob(codec::job(kv)?.into()),
        W::PutAttempt(_) => W::PutAttempt(codec::attempt(kv)?.into()),
        W::PutNode(_) => W::PutNode(codec::node(kv)?.into()),
        W::PutTenant(_) => W::PutTenant(codec::tenant(kv)?.into()),
        W::PutRestingName(_) => W::PutRestingName(codec::resting_name(kv)?.into()),
        W::PutTombstone(_) => W::PutTombstone(codec::tombstone(kv)?.into()),
        W::PutQueue(_) => W::PutQueue(codec::queue(kv)?.into()),
        W::PutServiceClass(_) => W::PutServiceClass(codec::service_class(kv)?.into()),
        W::PutLicense(_) => W::PutLicense(codec::license(kv)?.into()),
        W::PutSwitch(_) => W::PutSwitch(codec::switch(kv)?.into()),
        W::PutReservation(_) => W::PutReservation(codec::reservation(kv)?.into()),
        W::PutSchedule(_) => W::PutSchedule(codec::schedule(kv)?.into()),
        W::PutValues(values) if values.id.kind == ValuesKind::Secret => {
            W::PutValues(codec::values(ValuesKind::Secret, kv)?.into())
        }
        W::PutValues(_) => W::PutValues(codec::values(ValuesKind::Config, kv)?.into()),
        W::PutWebhook(_) => W::PutWebhook(codec::webhook(kv)?.into()),
        W::PutDelivery(_) => W::PutDelivery(codec::delivery(kv)?.into()),
        W::PutUsage(_) => W::PutUsage(codec::usage(kv)?.into()),
        W::PutFabric(_) => W::PutFabric(codec::fabric(kv)?.into()),
        W::PutDrain(_) => W::PutDrain(codec::drain(kv)?.into()),
        W::PutQos(_) => W::PutQos(codec::qos(kv)?.into()),
        W::PutSwitchRollout(_) => W::PutSwitchRollout(codec::switch_rollout(kv)?.into()),
        W::PutRequest(_) => W::PutRequest(codec::request(kv)?.into()),
        W::PutToken(_) => W::PutToken(codec::join_token(kv)?.into()),
        W::PutDecisions(_) => W::PutDecisions(codec::decisions(kv)?.into()),
        W::PutAudit(_) => W::PutAudit(codec::audit(kv)?.into()),
        other => panic!("{other:?} is no row"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rows_of_every_table_come_back_as_they_were_written(seed: u64) {
        for write in sample::rows(&mut Pick::new(seed)) {
            let kv = stored(&write);
            match read(&write, &kv) {
                Ok(again) => prop_assert_eq!(again, write),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    /// Whatever is stored at a key, nothing panics, and what cannot be read is named by its key.
    #[test]
    fn arbitrary_bytes_are_read_or_refused_by_name(
        seed: u64,
        noise in prop::collection::vec(any::<u8>(), 0..64),
        at: prop::sample::Index,
    ) {
        for write in sample::rows(&mut Pick::new(seed)) {
            let kv = stored(&write);
            let mut harmed = kv.value.to_vec();
            let from = at.index(harmed.len() + 1);
            let to = harmed.len().min(from + noise.len() / 2);
            harmed.splice(from..to, noise.iter().copied());
            for value in [noise.clone(), harmed] {
                let kv = KeyValue { value: value.into(), ..kv.clone() };
                if let Err(error) = read(&write, &kv) {
                    prop_assert_eq!(&error.key, &kv.key.escape_ascii().to_string());
                    prop_assert!(!error.cause.is_empty());
                }
            }
        }
    }
}
