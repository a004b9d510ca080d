//! The controller's own keys: secret files on disk, who wraps them, and the folder of the cluster's authority.
//!
//! A secret file (keys of the store, the key of the authority) is in the clear, encrypted with a passphrase (PKCS#8), or
//! an envelope: sealed with a data key that a [`KeyProvider`] has wrapped. Reading knows by the content which it is.

mod authority;
mod cipher;
mod envelope;
mod error;
mod file;
mod passphrase;
mod pkcs8;
mod private;
mod program;
mod provider;
mod rotation;
mod secret;
mod spec;

pub use authority::{AuthorityError, CA_CERTIFICATE, CA_KEY, CaFolder};
pub use envelope::Envelope;
pub use error::KeyError;
pub use file::FileProvider;
pub use passphrase::{PassphraseProvider, read_passphrase};
pub use private::check_mode;
pub use program::{ProgramProvider, TIME_LIMIT};
pub use provider::{DataKey, KeyProvider, Purpose};
pub use rotation::{AuthorityStatus, Phase};
pub use secret::{Form, Guards};
pub use spec::ProviderSpec;
