//! cargo xtask: demo, test, bench and the other commands of the project.

fn main() {}
