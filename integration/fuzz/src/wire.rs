//! Messages of rail.v1: decoding, the checked conversion into the domain, and the way back.

use std::fmt::Debug;

use prost::Message;
use proto_model::{Assignment, Fabric, Inventory, Job, JobSpec, Node, Observation, Placement, Tenant};
use proto_wire::{FieldErrors, v1};

/// The first byte chooses the type of the rest.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind % 9 {
        0 => survives::<v1::Job, Job>("Job", bytes),
        1 => survives::<v1::JobSpec, JobSpec>("JobSpec", bytes),
        2 => survives::<v1::Node, Node>("Node", bytes),
        3 => survives::<v1::Inventory, Inventory>("Inventory", bytes),
        4 => survives::<v1::Fabric, Fabric>("Fabric", bytes),
        5 => survives::<v1::Assignment, Assignment>("Assignment", bytes),
        6 => survives::<v1::Observation, Observation>("Observation", bytes),
        7 => survives::<v1::Tenant, Tenant>("Tenant", bytes),
        _ => survives::<v1::Placement, Placement>("Placement", bytes),
    }
}

/// What the domain took, it takes again when it has been written, and REST and railctl can show it.
fn survives<W, D>(name: &str, bytes: &[u8])
where
    W: Message + Default + for<'a> From<&'a D>,
    D: TryFrom<W, Error = FieldErrors> + PartialEq + Debug,
{
    let Ok(wire) = W::decode(bytes) else { return };
    let domain = match D::try_from(wire) {
        Ok(domain) => domain,
        Err(errors) => {
            assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
            return;
        }
    };
    let wire = W::from(&domain);
    let descriptor = proto_wire::descriptor_pool().get_message_by_name(&format!("rail.v1.{name}"));
    let shown = descriptor.map(|descriptor| proto_manifest::json_of(&descriptor, &wire));
    assert!(matches!(shown, Some(Ok(_))), "taken but not shown: {domain:?}\n{shown:?}");
    let written = wire.encode_to_vec();
    let back = W::decode(written.as_slice()).map(D::try_from);
    match back {
        // By their text too: not-a-number is not equal to itself.
        Ok(Ok(back)) => {
            assert!(back == domain || format!("{back:?}") == format!("{domain:?}"), "{domain:?}\n{back:?}");
        }
        back => panic!("written but not read: {domain:?}\n{back:?}"),
    }
}
