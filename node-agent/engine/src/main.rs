//! rail-engine: one process per job and server; drives collectives over transports for local ranks.

fn main() {}
