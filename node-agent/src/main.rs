//! rail-node-agent: wiring, the link to the controller, and the supervisor of a job's processes.

fn main() {}
