//! gNMI to switches: what they can do, their settings read and changed, their counters followed.
//!
//! Contracts:
//! 1. Nothing waits without a limit, and no answer takes more memory than [`Limits::message_bytes`].
//! 2. A change that got no answer may have been made: [`Error::may_have_happened`] says so, and the caller reads back what is there.
//! 3. What a switch sends is never trusted: a path or a value that cannot be is an error that names it.

mod client;
mod convert;
mod error;
mod path;
pub mod sonic;
mod subscribe;
mod value;

/// The messages, as generated from `proto/gnmi/gnmi.proto`; public for whoever plays a switch.
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod wire {
    tonic::include_proto!("gnmi");
}

pub use client::{Capabilities, Change, DataType, Gnmi, Limits, Login, Target};
pub use convert::notification;
pub use error::Error;
pub use path::{BadPath, Elem, Path};
pub use subscribe::{Event, Mode, Subscription, Updates};
pub use value::{Update, Value};
