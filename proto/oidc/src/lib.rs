//! OpenID Connect, as far as it is spoken here: a provider's signed tokens ([`verify`]), its keys ([`jose`]), what claims become of an
//! identity ([`grants`]), how long keys count ([`keeper`]), and the documents and endpoints of a provider ([`provider`]).
//!
//! All but [`provider`] is pure: a token, keys, a policy and the time are arguments. Signatures are checked by the same aws-lc-rs that TLS
//! has; what a token may be signed with is a closed list of four, and each is bound to one kind of key.

pub mod claims;
pub mod code;
pub mod document;
pub mod grants;
pub mod jose;
pub mod keeper;
pub mod provider;
pub mod refused;
pub mod verify;

#[cfg(test)]
mod tests;

pub use claims::Claims;
pub use document::{Document, DocumentError};
pub use grants::{Grant, GrantError, Policy};
pub use jose::{Alg, Keys, KeysError};
pub use keeper::Keeper;
pub use provider::{Provider, ProviderError};
pub use refused::Refused;
pub use verify::verify;
