//! Tests of the whole room.

mod campaign;
mod ends;
mod probes;
mod rig;
mod steps;
