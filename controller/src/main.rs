//! rail-controller: wiring only.

fn main() {}
