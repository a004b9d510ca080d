//! The API: gRPC services and their REST mapping as thin handlers.
//!
//! A handler goes into the domain, makes one call on the loop or one read of the store, and goes back to the wire.
//! It must never decide anything that the core should decide, nor take a tenant from a body.

mod access;
mod accounting;
mod agent;
mod audit;
pub mod authz;
mod changes;
mod context;
mod credential;
mod deleted;
mod documents;
mod enroll;
mod explain;
mod fabric;
pub mod fair;
mod fault;
mod feed;
mod guard;
pub mod handshake;
mod health;
mod job;
mod license;
mod logs;
mod map;
mod node;
mod page;
mod qos;
mod queue;
mod rail;
mod reader;
mod reservation;
pub mod rest;
mod revocation;
mod schedule;
mod sealed;
mod server;
mod service_class;
mod sign_on;
mod step;
mod stream;
mod switch;
mod tenant;
mod usage;
mod values;
mod views;
mod watch;
mod webhook;

pub use context::Context;
pub use guard::{ApiMetrics, Caller, Guard};
pub use server::{Api, MadeRoutes, ReflectionError, guard, routes};
pub use sign_on::{PagesOptions, SignOn, SignOnOptions};
