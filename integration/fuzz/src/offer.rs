//! What a peer offers as its end of a lane over verbs: what is taken can be, and is written back as the same bytes.

use node_agent_engine_verbs::offer::{MOST_PAIRS, Offer};

/// The bytes as an offer.
pub fn run(data: &[u8]) {
    let Ok(offer) = Offer::decode(data) else { return };
    assert_eq!(offer.encode(), data, "the same offer is the same bytes");
    assert!((1..=MOST_PAIRS).contains(&offer.pairs.len()));
    let ring = u64::from(offer.slots) * u64::from(offer.slot_bytes);
    assert!(offer.address.checked_add(ring).is_some(), "a ring lies in memory");
}
