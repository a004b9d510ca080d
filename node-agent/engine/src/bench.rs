//! The built-in benchmark rank: does one collective again and again, times it, and checks every element of every result.
//!
//! Sizes and bandwidths are counted as nccl-tests does: `bytes` is the larger side of the operation, the algorithm bandwidth
//! is bytes over time, and the bus bandwidth is that times the share that must cross a rank's link.

mod pattern;
mod report;
mod serve;

use std::cell::RefCell;
use std::time::Instant;

use node_agent_client::{
    Attach, Buffer, Call, Client, Dtype, Error, OpKind, Operands, Operation, RailBytes, ReduceOp, Source,
    Target, UnknownName, Work,
};

use pattern::{Cycle, Pattern};
pub use report::{RailReport, Report, Times};

/// Most repetitions that a benchmark may be given.
const MAX_REPETITIONS: i64 = 1_000_000;
/// A benchmark's name for sending to the next rank while receiving from the one before.
const SEND_RECV: &str = "send-recv";

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Operation: all-reduce, all-gather, reduce-scatter, broadcast, all-to-all, barrier, or send-recv (to the next rank,
    /// while receiving from the one before).
    #[arg(long, default_value = "all-reduce", value_parser = parse_op)]
    pub op: OpKind,
    /// Bytes of the larger side of the operation on each rank, rounded down to whole elements and blocks.
    #[arg(long, default_value_t = 1 << 20)]
    pub bytes: u64,
    /// Element type: f32, f64, i32, i64, f16, bf16.
    #[arg(long, default_value = "f32")]
    pub dtype: Dtype,
    /// Reduction: sum, min, max, prod.
    #[arg(long, default_value = "sum")]
    pub reduce: ReduceOp,
    /// Timed repetitions, at least one.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=MAX_REPETITIONS))]
    pub iterations: u32,
    /// Repetitions before those.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=MAX_REPETITIONS))]
    pub warmup: u32,
    /// Fill inputs with a known pattern and check every element of every timed result.
    #[arg(long)]
    pub verify: bool,
    /// The output replaces the input (all-reduce and broadcast).
    #[arg(long)]
    pub in_place: bool,
    /// Operands lie in the rank's own memory, not in shared buffers.
    #[arg(long)]
    pub ordinary: bool,
}

fn parse_op(text: &str) -> Result<OpKind, String> {
    if text == SEND_RECV {
        Ok(OpKind::Send)
    } else {
        text.parse().map_err(|unknown: UnknownName| unknown.to_string())
    }
}

/// Why a benchmark could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A call of this rank failed; see [`Error`].
    #[error(transparent)]
    Rank(#[from] Error),
    /// The result could not be stored.
    #[error("cannot write the result to {path}: {source}")]
    Result {
        /// The file, as RAIL_RESULT_FILE names it.
        path: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
}

impl BenchError {
    /// Whether the process was started wrongly.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Rank(Error::Environment { .. }))
    }
}

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

/// What each rank does in one repetition.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rank: u32,
    size: u32,
    /// Elements of one block.
    count: usize,
    /// Blocks of input and output.
    input_blocks: usize,
    output_blocks: usize,
}

impl Plan {
    fn new(options: &Options, rank: u32, size: u32) -> Self {
        let world = size as usize;
        let (input_blocks, output_blocks) = match options.op {
            OpKind::AllReduce | OpKind::Broadcast | OpKind::Send | OpKind::Recv => (1, 1),
            OpKind::AllGather => (1, world),
            OpKind::ReduceScatter => (world, 1),
            OpKind::AllToAll => (world, world),
            OpKind::Barrier => (0, 0),
        };
        let block = options.dtype.size() * input_blocks.max(output_blocks);
        let count = usize::try_from(options.bytes).unwrap_or(usize::MAX).checked_div(block).unwrap_or(0);
        Self { rank, size, count, input_blocks, output_blocks }
    }

    /// Bytes of the larger side.
    fn bytes(&self, dtype: Dtype) -> u64 {
        (self.count * self.input_blocks.max(self.output_blocks) * dtype.size()) as u64
    }
}

/// One rank's buffers and expectations.
struct Bench<'a> {
    client: &'a Client,
    options: &'a Options,
    plan: Plan,
    pattern: Pattern,
    input: Buffer,
    output: Buffer,
    /// Input and output in ordinary memory, where that is measured.
    own: Option<RefCell<[Vec<u8>; 2]>>,
}

impl<'a> Bench<'a> {
    fn new(client: &'a Client, options: &'a Options) -> Result<Self, Error> {
        let plan = Plan::new(options, client.rank(), client.size());
        if matches!(options.op, OpKind::Send | OpKind::Recv) && plan.size < 2 {
            return Err(Error::Argument("send-recv needs at least two ranks".into()));
        }
        if options.in_place && !matches!(options.op, OpKind::AllReduce | OpKind::Broadcast) {
            return Err(Error::Argument(format!("{} cannot be done in place", options.op)));
        }
        let bytes = |blocks: usize| blocks * plan.count * options.dtype.size();
        let (input_len, output_len) = (bytes(plan.input_blocks), bytes(plan.output_blocks));
        let input = client.alloc(input_len as u64)?;
        let output = if options.in_place { input.clone() } else { client.alloc(output_len as u64)? };
        let own = options.ordinary.then(|| RefCell::new([vec![0; input_len], vec![0; output_len]]));
        let pattern =
            Pattern { op: options.op, dtype: options.dtype, reduce: options.reduce, size: plan.size };
        Ok(Self { client, options, plan, pattern, input, output, own })
    }

    /// Puts this round's input in place and something wrong where the output goes.
    fn prepare(&self, round: u32) -> Result<(), Error> {
        if !self.options.verify && round > 0 {
            return Ok(());
        }
        let input = self.pattern.input(self.plan.rank, round);
        if !self.options.in_place {
            let poison = self.pattern.poison();
            poison.fill(&self.output, 0, self.plan.output_blocks * self.plan.count, 0)?;
        }
        input.fill(&self.input, 0, self.plan.input_blocks * self.plan.count, 0)?;
        if let Some(own) = &self.own {
            let [input, output] = &mut *own.borrow_mut();
            self.input.read_bytes(0, input)?;
            self.output.read_bytes(0, output)?;
        }
        Ok(())
    }

    /// Once in ordinary memory.
    fn once_ordinary(&self, own: &mut [Vec<u8>; 2]) -> Result<(), Error> {
        let (rank, size) = (self.plan.rank, self.plan.size);
        let [input, output] = own;
        let call = |operation| self.call(operation);
        match self.options.op {
            OpKind::Barrier => self.client.barrier(),
            OpKind::Send | OpKind::Recv => {
                let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
                let receive = call(Operation::Recv { from: previous, tag: 0 });
                let mut receive = self.client.begin(receive, Source::Bytes(&[]), Target::Bytes)?;
                let send = call(Operation::Send { to: next, tag: 0 });
                self.client.run_bytes(send, Operands::Input(input))?;
                receive.wait()?;
                receive.fetch(output)
            }
            OpKind::Broadcast => {
                let call = call(Operation::Broadcast { root: ROOT });
                if !self.options.in_place && rank == ROOT {
                    output.copy_from_slice(input);
                }
                self.client.run_bytes(call, Operands::InPlace(output))
            }
            OpKind::AllReduce if self.options.in_place => {
                self.client.run_bytes(call(Operation::AllReduce), Operands::InPlace(output))
            }
            OpKind::AllReduce => {
                self.client.run_bytes(call(Operation::AllReduce), Operands::Both(input, output))
            }
            OpKind::AllGather => {
                self.client.run_bytes(call(Operation::AllGather), Operands::Both(input, output))
            }
            OpKind::ReduceScatter => {
                self.client.run_bytes(call(Operation::ReduceScatter), Operands::Both(input, output))
            }
            OpKind::AllToAll => {
                self.client.run_bytes(call(Operation::AllToAll), Operands::Both(input, output))
            }
        }
    }

    fn once(&self) -> Result<(), Error> {
        if let Some(own) = &self.own {
            return self.once_ordinary(&mut own.borrow_mut());
        }
        let (rank, size) = (self.plan.rank, self.plan.size);
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        match self.options.op {
            OpKind::Barrier => self.client.barrier(),
            OpKind::Send | OpKind::Recv => {
                let receive = self.post(Operation::Recv { from: previous, tag: 0 })?;
                self.post(Operation::Send { to: next, tag: 0 })?.wait()?;
                receive.wait()
            }
            OpKind::AllReduce => self.post(Operation::AllReduce)?.wait(),
            OpKind::AllGather => self.post(Operation::AllGather)?.wait(),
            OpKind::ReduceScatter => self.post(Operation::ReduceScatter)?.wait(),
            OpKind::AllToAll => self.post(Operation::AllToAll)?.wait(),
            OpKind::Broadcast => self.post(Operation::Broadcast { root: ROOT })?.wait(),
        }
    }

    fn post(&self, operation: Operation) -> Result<node_agent_client::Pending, Error> {
        let call = self.call(operation);
        self.client.post(Work { call, input: Some(self.input.start()), output: Some(self.output.start()) })
    }

    fn call(&self, operation: Operation) -> Call {
        let Options { dtype, reduce, .. } = *self.options;
        Call { operation, dtype, reduce, count: self.plan.count as u64 }
    }

    /// Elements of the output that are wrong.
    fn check(&self, round: u32) -> Result<i64, Error> {
        if let Some(own) = &self.own {
            self.output.write_bytes(0, &own.borrow()[1])?;
        }
        let Plan { rank, count, .. } = self.plan;
        let mut wrong = 0;
        for block in 0..self.plan.output_blocks {
            let (expected, first): (Cycle, usize) = match self.options.op {
                OpKind::AllReduce => (self.pattern.reduced(round), 0),
                OpKind::ReduceScatter => (self.pattern.reduced(round), rank as usize * count),
                OpKind::AllGather => (self.pattern.input(block_rank(block), round), 0),
                OpKind::AllToAll => (self.pattern.input(block_rank(block), round), rank as usize * count),
                OpKind::Broadcast => (self.pattern.input(ROOT, round), 0),
                OpKind::Send | OpKind::Recv => {
                    (self.pattern.input((rank + self.plan.size - 1) % self.plan.size, round), 0)
                }
                OpKind::Barrier => return Ok(0),
            };
            wrong += expected.mismatches(&self.output, block * count, count, first)?;
        }
        Ok(wrong)
    }
}

/// The rank whose input a broadcast spreads.
const ROOT: u32 = 0;

fn block_rank(block: usize) -> u32 {
    u32::try_from(block).unwrap_or(u32::MAX)
}
