//! What to measure, and what each rank does for it.

use node_agent_client::{Dtype, OpKind, ReduceOp, UnknownName};

/// Most repetitions that a benchmark may be given.
pub(super) const MAX_REPETITIONS: i64 = 1_000_000;
/// A benchmark's name for sending to the next rank while receiving from the one before.
pub(super) const SEND_RECV: &str = "send-recv";

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

/// What each rank does in one repetition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Elements of one block.
    pub(super) count: usize,
    /// Blocks of input and output.
    pub(super) input_blocks: usize,
    pub(super) output_blocks: usize,
}

impl Plan {
    pub(super) fn new(options: &Options, rank: u32, size: u32) -> Self {
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
    pub(super) fn bytes(&self, dtype: Dtype) -> u64 {
        (self.count * self.input_blocks.max(self.output_blocks) * dtype.size()) as u64
    }
}
