//! Tests of the whole room.

mod campaign;
mod steps;
