//! Tests of the room as a whole, without a cluster.

mod api;
mod cluster;
mod decisions;
mod model;
mod pages;
mod rail;
mod running;
mod running_gangs;
