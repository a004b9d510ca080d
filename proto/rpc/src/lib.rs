//! How the processes talk: TLS, identities, deadlines, retries, trace context, errors and Status.
//! The one place for rustls, rcgen and OpenTelemetry; knows nothing of the messages that are exchanged.

mod anonymous;
pub mod authority;
mod builders;
pub mod ca;
mod caps;
mod certificate;
pub mod client;
pub mod connect;
pub mod credentials;
mod cross_site;
pub mod deadline;
pub mod endpoint;
pub mod exposition;
pub mod files;
mod hex;
pub mod identity;
pub mod identity_files;
pub mod listen;
pub mod metrics;
pub mod negotiate;
pub mod opening;
pub mod otlp;
pub mod outbound;
pub mod page_token;
pub mod pin;
mod places;
pub mod probes;
mod refusal;
pub mod renewal;
pub mod retry;
pub mod revocation;
pub mod router;
pub mod scrape;
pub mod seal;
pub mod server;
pub mod status;
mod succession;
pub mod telemetry;
pub mod tls;
pub mod token;
pub mod trace;
mod trust;
mod untrusted;
mod verify;
mod watched;
pub mod whole;

pub use authority::{Authority, Standing};
pub use ca::{Ca, KeyRequest};
pub use client::{Client, ClientOptions};
pub use connect::Dial;
pub use credentials::{CredentialFiles, Credentials};
pub use endpoint::Endpoint;
pub use identity::{Identity, Role};
pub use identity_files::{IdentityFiles, IdentityFilesError};
pub use listen::Listen;
pub use metrics::Metrics;
pub use outbound::{Outbound, PostError};
pub use page_token::{PageKey, Position};
pub use pin::CaPin;
pub use renewal::Renewal;
pub use retry::{Jitter, RetryPolicy, retry};
pub use revocation::{Revocations, Revoked, Subject};
pub use scrape::{Scrape, Series};
pub use server::{AnonymousLimits, Limits, PeerInfo, RefusedPeer, Server, Unproved};
pub use status::{ErrorClass, NOT_RUNNING, RpcError, Violation};
pub use succession::certificates;
pub use tls::CertificateSlot;
pub use token::{SignedToken, Token, TokenHash, TokenKind};
pub use trust::{Holder, TrustSlot};
pub use untrusted::{REVOKED, REVOKED_ADVICE};

/// The largest message that a server or client of ours decodes, in bytes (tonic's default would be 4 MiB).
/// Give it to `max_decoding_message_size` of every generated service and client.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The same of the services of which one call carries the whole fabric: its document in text has at most as many bytes.
/// Whoever calls them shows who it is before the message is read.
pub const MAX_FABRIC_BYTES: usize = 16 * 1024 * 1024;
