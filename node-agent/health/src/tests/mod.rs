//! Tests of the whole room.

mod campaign;
mod probes;
mod rig;
mod steps;
