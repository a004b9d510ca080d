//! Webhooks: receivers of a tenant that are told what becomes of its jobs. `select` finds what a step is to tell and to whom,
//! `apply` makes, changes and removes webhooks and takes in what became of deliveries, `retry` decides what follows from an attempt,
//! and `dispatcher` which delivery is tried when. All of it is a function of its arguments; the shell only sends.
//!
//! A delivery is a row of the store, written in the transaction of what it tells, and removed in that which counts its end.
//! How often it was tried is not stored: a controller that comes later attempts what waits at once, with the same id and for the
//! rest of the same 24 hours. A job that no webhook is for costs nothing.

mod apply;
pub mod dispatcher;
mod limits;
pub mod retry;
mod select;

pub use crate::event::{DeliveryReport, DeliveryResult};
pub use controller_state::rows::webhooks::{Delivery, DeliveryKey, WebhookKey};
pub use limits::{MAX_OF_TENANT, MAX_WEBHOOKS, QUEUE, STEP};
