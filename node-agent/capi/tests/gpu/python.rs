//! The C ABI and the Python package on memory of GPUs.

use std::path::PathBuf;
use std::process::Command;

use crate::fake::Fake;
use crate::world::{World, here, said};

#[test]
fn python_takes_arrays_on_gpus() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 does not run here");
        return;
    }
    let _fake = Fake::new();
    let world = World::new(&[0, 1], 2);
    let outputs = world.all(|rank| {
        let mut command = world.rank(rank, &PathBuf::from("python3"));
        command.args(["-B", "-W", "error"]).arg(here("python/tests/gpu_ranks.py"));
        command.env("PYTHONPATH", here("python")).env("RAIL_CUDA_LIBRARY", Fake::cuda());
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        let right = output.status.success() && said(output).contains("all calls right");
        assert!(right, "rank {rank}: {}", said(output));
    }
}
