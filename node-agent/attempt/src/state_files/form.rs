//! What all saved files have in common: a version first, and what can be wrong with one.

use std::{net::SocketAddr, time::Duration};

use prost::Message;
use proto_model::RailEndpoint;

use super::schema;
use crate::places::{Flaw, VERSION};

/// The message in the bytes of a file, once its version is known to be one that can be read.
///
/// # Errors
/// The version is a later one, or there is none, or the bytes are no such message.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Flaw> {
    let broken = |error: prost::DecodeError| Flaw::Broken(error.to_string());
    // Only the version at first: what a later one means is not known.
    match schema::Header::decode(bytes).map_err(broken)?.version {
        0 => Err(Flaw::Broken("it says no version of its format".to_owned())),
        1..=VERSION => M::decode(bytes).map_err(broken),
        later => Err(Flaw::Newer(later)),
    }
}

pub(super) fn needed<T>(name: &str, value: Option<T>) -> Result<T, Flaw> {
    value.ok_or_else(|| Flaw::field(name, "missing"))
}

/// Nanoseconds; what is longer than 584 years is 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn save_endpoints(endpoints: &[RailEndpoint]) -> Vec<schema::Endpoint> {
    let save = |e: &RailEndpoint| schema::Endpoint { rail: e.rail, address: e.address.to_string() };
    endpoints.iter().map(save).collect()
}

pub(super) fn load_endpoints(saved: Vec<schema::Endpoint>) -> Result<Vec<RailEndpoint>, Flaw> {
    let load = |e: schema::Endpoint| {
        let address: Result<SocketAddr, _> = e.address.parse();
        let address =
            address.map_err(|_| Flaw::field("an endpoint's address", format!("{:?}", e.address)))?;
        Ok(RailEndpoint { rail: e.rail, address })
    };
    saved.into_iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_looked_at_first() {
        let state = |version| schema::SupervisorState { version, ..Default::default() };
        assert_eq!(decode(&state(1).encode_to_vec()), Ok(state(1)));
        let refused = |bytes: &[u8]| decode::<schema::SupervisorState>(bytes).unwrap_err();
        assert_eq!(refused(&state(2).encode_to_vec()), Flaw::Newer(2));
        // Field 2 of a later version may be something else.
        assert_eq!(refused(&[0x08, 0x02, 0x10, 0x01]), Flaw::Newer(2));
        assert!(matches!(refused(&[0x08, 0x01, 0x10, 0x01]), Flaw::Broken(_)));
        assert!(matches!(refused(&[]), Flaw::Broken(_)));
        assert!(matches!(refused(b"{}"), Flaw::Broken(_)));
    }
}
