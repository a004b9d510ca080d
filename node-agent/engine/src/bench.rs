//! The built-in benchmark rank: does one collective again and again, times it, and checks every element of every result.
//!
//! Sizes and bandwidths are counted as nccl-tests does: `bytes` is the larger side of the operation, the algorithm bandwidth
//! is bytes over time, and the bus bandwidth is that times the share that must cross a rank's link.

mod error;
mod options;
mod pattern;
mod rank;
mod report;
mod serve;

use std::time::Instant;

use node_agent_client::{Attach, Client, Error, RailBytes, ReduceOp};

pub use error::BenchError;
pub use options::Options;
use rank::Bench;
pub use report::{RailReport, Report, Times};

/// Runs one rank of the benchmark as options and environment say, prints what it found, and on rank 0 stores the report in
/// $RAIL_RESULT_FILE where that is set.
///
/// # Errors
/// A call of this rank failed, the environment does not describe a rank, or the report cannot be written.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    let client = Client::attach(&Attach::from_env()?)?;
    let report = measure(&client, options)?;
    if client.rank() == 0 {
        print!("{}", report.table());
        if let Some(path) = std::env::var_os("RAIL_RESULT_FILE") {
            let store = |source| BenchError::Result { path: path.to_string_lossy().into_owned(), source };
            let text = serde_json::to_string(&report).map_err(|error| store(error.into()))?;
            std::fs::write(&path, text + "\n").map_err(store)?;
        }
    } else {
        println!("rank {}: {} x {}, done", client.rank(), options.iterations, report.op);
    }
    client.detach()?;
    Ok(report)
}

/// Runs one rank that does what standard input says, line by line, until it ends.
///
/// # Errors
/// Attaching or a call failed, or a line of standard input makes no sense.
pub fn serve() -> Result<(), BenchError> {
    serve::serve()
}

/// The measurement itself, on an attached rank. All ranks must call it with equal options, and get equal reports.
///
/// # Errors
/// A call failed, or the options ask for what cannot be measured.
pub fn measure(client: &Client, options: &Options) -> Result<Report, Error> {
    let bench = Bench::new(client, options)?;
    for round in 0..options.warmup {
        bench.prepare(round)?;
        bench.once()?;
    }
    let mut nanoseconds = Vec::with_capacity(options.iterations as usize);
    let mut mismatches = 0;
    client.barrier()?;
    let (before, _) = client.counters()?;
    for round in 0..options.iterations {
        bench.prepare(options.warmup + round)?;
        client.barrier()?;
        let start = Instant::now();
        bench.once()?;
        nanoseconds.push(i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX));
        if options.verify {
            mismatches += bench.check(options.warmup + round)?;
        }
    }
    client.barrier()?;
    let (after, _) = client.counters()?;
    let rails = sum_over_nodes(client, &before, &after)?;
    // The slowest rank's time is the operation's time.
    client.all_reduce(&mut nanoseconds, ReduceOp::Max)?;
    let mut total = [mismatches];
    client.all_reduce(&mut total, ReduceOp::Sum)?;
    Ok(Report::new(options, &bench.plan, &nanoseconds, total[0].unsigned_abs(), rails))
}

/// What went over each rail between two readings, on all nodes of the job together.
fn sum_over_nodes(
    client: &Client,
    before: &[RailBytes],
    after: &[RailBytes],
) -> Result<Vec<RailReport>, Error> {
    let pairs = before.iter().zip(after);
    let moved = pairs
        .flat_map(|(b, a)| [a.tx_bytes.saturating_sub(b.tx_bytes), a.rx_bytes.saturating_sub(b.rx_bytes)]);
    // All ranks of a node read the same counters, so one of them gives them for all.
    let speaks = client.local_rank() == 0;
    let mut bytes: Vec<i64> =
        moved.map(|n| if speaks { i64::try_from(n).unwrap_or(i64::MAX) } else { 0 }).collect();
    client.all_reduce(&mut bytes, ReduceOp::Sum)?;
    let sums = after.iter().zip(bytes.chunks_exact(2));
    let report = |(rail, sums): (&RailBytes, &[i64])| RailReport {
        rail: rail.rail,
        tx_bytes: sums[0].unsigned_abs(),
        rx_bytes: sums[1].unsigned_abs(),
    };
    Ok(sums.map(report).collect())
}
