//! What a large fabric costs: `cargo run --release -p controller-fabric --example scale [NODES [RAILS]]`.
//!
//! Prints the time to make the document, to check it, to compile it, and to let every server join with the inventory
//! that the document implies; and how much memory the process then has more than before.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock and the process's own memory")]

use std::time::Instant;

use controller_fabric::{Shape, generate};
use controller_topology::{Topology, check};

/// Resident memory in MiB.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0 / (1 << 20) as f64
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let (nodes, rails) = (numbers.next().unwrap_or(125_000), numbers.next().unwrap_or(8));
    let shape = Shape { nodes, rails, radix: 128, ..Shape::default() };
    let reported = |what: &str, from: Instant, before: f64| {
        println!(
            "{what:<10} {:>8.1} ms  {:>+8.1} MiB",
            from.elapsed().as_secs_f64() * 1e3,
            resident() - before
        );
    };
    let (at, before) = (Instant::now(), resident());
    let made = match generate(&shape) {
        Ok(made) => made,
        Err(error) => return println!("{error}"),
    };
    reported("generate", at, before);
    let (at, before) = (Instant::now(), resident());
    let findings = check(&made.fabric);
    reported("check", at, before);
    let (at, before) = (Instant::now(), resident());
    let mut topology = Topology::new(Some(&made.fabric));
    reported("compile", at, before);
    let (at, now) = (Instant::now(), resident());
    topology.furnish(8);
    reported("join", at, now);
    println!("{} servers, {} leaves, {} findings", topology.len(), topology.leaves(), findings.len());
    println!("topology in all {:.1} MiB", resident() - before);
}
