//! Secret values at rest: a ring of keys, and a store that seals what lies under some prefixes.

mod ring;
mod store;
#[cfg(test)]
mod tests;

pub use ring::{KeyId, KeyRing, KeyRingError};
pub use store::SealedStore;
