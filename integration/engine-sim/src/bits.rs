//! Row B9: eight runs of each problem, on one to four rails, healthy and in a storm, each with its own chunks, windows, plan
//! and algorithm. All must give the bits of the naive reference, so all give the same.

use node_agent_collective::units::Time;
use node_agent_collective::{Memory, Region};
use proto_random::Random;

use crate::caught;
use crate::problem::{Problem, way};
use crate::sim::Net;
use crate::storm::Storm;

/// Runs of one problem.
pub const VARIANTS: u64 = 8;

/// Runs one seed. Gives the number of faults.
///
/// # Errors
/// What differs, or what went wrong.
pub fn run(seed: u64) -> Result<usize, String> {
    caught(|| unguarded(seed))
}

fn unguarded(seed: u64) -> Result<usize, String> {
    let problem = Problem::new(seed / VARIANTS);
    let variant = (seed % VARIANTS) as usize;
    let mut rng = Random::new(seed ^ 0x0b17_0003);
    let (world, plan) = way(&mut rng, &problem.map, variant % 4 + 1, Time::from_secs(3600));
    let mut storm = (variant >= 4).then(|| Storm::new(seed));
    let mut net = Net::new(&world, rng.word());
    net.hosts.iter_mut().for_each(|host| host.machine.set_plan(plan.clone()));
    let (ranks, calls) = (problem.map.len(), problem.calls.len());
    let buffers: Vec<Vec<(Region, Region)>> =
        (0..calls).map(|at| (0..ranks).map(|rank| problem.buffers(&mut net, at, rank)).collect()).collect();
    let mut weather = |net: &mut Net| {
        if let Some(storm) = &mut storm {
            storm.blow(net, &world);
        }
    };
    // Ranks post in any order, but each its own calls in turn; the network runs meanwhile.
    let mut next = vec![0; ranks];
    for _ in 0..ranks * calls {
        let open: Vec<usize> = (0..ranks).filter(|&r| next[r] < calls).collect();
        let rank = open[net.rng.index(open.len())];
        let (input, output) = buffers[next[rank]][rank];
        net.post(&problem.map, rank, problem.calls[next[rank]], input, output);
        next[rank] += 1;
        for _ in 0..net.rng.index(30) {
            weather(&mut net);
            net.step();
        }
    }
    net.run_with(ranks * calls, weather);
    for (node, host) in net.hosts.iter().enumerate() {
        if let Some(failure) = host.machine.failure() {
            return Err(format!("node {node} failed: {failure}"));
        }
    }
    let wanted = problem.outputs();
    for (at, call) in problem.calls.iter().enumerate() {
        for rank in 0..ranks {
            let memory = &net.hosts[usize::from(problem.map[rank])].memory;
            let got = memory.bytes(buffers[at][rank].1).unwrap_or(&[]);
            if let Some(byte) =
                (0..wanted[at][rank].len()).find(|&b| got.get(b) != Some(&wanted[at][rank][b]))
            {
                return Err(format!("call {at} ({call}), rank {rank}: byte {byte} differs"));
            }
        }
    }
    Ok(storm.map_or(0, |s| s.faults))
}
