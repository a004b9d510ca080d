//! Queues, service classes, licenses and reservations: the documents beside tenants that say who gets what, and when.

mod classes;
mod licenses;
mod queues;
mod reservations;
