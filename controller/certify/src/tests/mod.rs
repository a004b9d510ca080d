//! Tests of the room: injected faults are found and named, noise is not.

mod injections;
mod plans;
