//! The controller's API over real sockets: jobs to their end, roles, restarts, a full disk, REST, bad input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on shall say where"
)]

mod agent;
mod anonymous;
mod audit;
mod bad;
mod changes;
mod claims;
mod deleted;
mod disk;
mod documents;
mod events;
mod fair;
mod foreign;
mod http;
mod jobs;
mod licenses;
mod logs;
mod metrics;
mod owners;
mod people;
mod rails;
mod rest;
mod revoked;
mod roles;
mod schedules;
mod sign_on;
mod steps;
mod switch_ports;
mod switch_rollout;
mod switches;
mod tenancy;
mod tenants;
mod usage;
mod values;
mod webhooks;
mod world;
