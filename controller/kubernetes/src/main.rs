//! `rail-operator`.

fn main() {}
