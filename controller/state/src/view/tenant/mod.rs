//! Tenants and their documents: what they use, and what they may.

pub mod classes;
pub mod deleted;
pub mod documents;
pub mod figures;
pub mod licenses;
pub mod queues;
pub mod reservations;
pub mod tenants;
pub mod values;
pub mod webhooks;
