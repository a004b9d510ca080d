//! Calls over ordinary memory: copied through shared staging memory, in pieces that alternate between two halves, so that
//! one piece is copied while the other is on its way.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use node_agent_collective::{Call, Operation, ReduceOp};
use node_agent_local::Element;

use crate::{Buffer, Client, Error, Pending, Work};

/// Bytes of input and output together in one piece, unless a single element per block needs more. All ranks must cut a call
/// the same way, so this is a constant of the protocol and depends on nothing local.
const PIECE: u64 = 4 << 20;
/// Pieces under way at once.
const HALVES: usize = 2;
/// Operands begin at multiples of this many bytes.
const ALIGN: u64 = 64;

/// The staging memory of a client, made when it is first needed and kept. Calls of several threads have one pair each, as
/// they may wait for one another.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    idle: Mutex<Vec<[Buffer; HALVES]>>,
}

/// Pairs that are kept when nobody uses them.
const KEEP: usize = 4;

impl Staging {
    /// A pair of at least `bytes` each that nobody uses.
    fn take(&self, bytes: u64) -> Option<[Buffer; HALVES]> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = idle.iter().position(|halves| halves.iter().all(|half| half.len() as u64 >= bytes));
        fits.map(|at| idle.swap_remove(at))
    }

    /// Keeps a pair for a later call.
    fn put(&self, halves: [Buffer; HALVES]) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= KEEP {
            // The oldest goes, so that those kept are of the sizes in use.
            idle.remove(0);
        }
        idle.push(halves);
    }
}

/// Ordinary memory that a call reads and writes, as bytes in this machine's order.
#[derive(Debug)]
pub enum Operands<'a> {
    /// Nothing is read or written here.
    None,
    /// Input only.
    Input(&'a [u8]),
    /// Output only.
    Output(&'a mut [u8]),
    /// The output replaces the input; both have one block.
    InPlace(&'a mut [u8]),
    /// Input and output apart.
    Both(&'a [u8], &'a mut [u8]),
}

impl Operands<'_> {
    fn input(&self) -> &[u8] {
        match self {
            Self::Input(bytes) | Self::Both(bytes, _) => bytes,
            Self::InPlace(bytes) => bytes,
            Self::None | Self::Output(_) => &[],
        }
    }

    fn output(&mut self) -> &mut [u8] {
        match self {
            Self::Output(bytes) | Self::InPlace(bytes) | Self::Both(_, bytes) => bytes,
            Self::None | Self::Input(_) => &mut [],
        }
    }
}

/// How one call is cut: every piece takes the same range of elements out of each block.
#[derive(Debug, Clone, Copy)]
struct Cut {
    element: usize,
    count: usize,
    input_blocks: usize,
    output_blocks: usize,
    piece: usize,
    /// Where the output begins in a half; the input begins at 0.
    output_at: u64,
    half: u64,
}

impl Cut {
    fn new(call: &Call, rank: u32, size: usize) -> Option<Self> {
        let element = call.dtype.size();
        let count = usize::try_from(call.count).ok()?;
        let blocks = |bytes: usize| bytes.checked_div(call.bytes()?).or(Some(0));
        let (inputs, output_blocks) = (blocks(call.input_bytes(size)?)?, blocks(call.output_bytes(size)?)?);
        let input_blocks = match call.operation {
            Operation::Broadcast { root } if root != rank => 0,
            _ => inputs,
        };
        // Both ends of a message must cut alike, so both count both sides.
        let message = !call.operation.is_collective();
        let [inputs, outputs] = [inputs, output_blocks].map(|n| if message { 1 } else { n as u64 });
        let element_bytes = element as u64;
        let piece = (PIECE / (element_bytes * (inputs + outputs)).max(1)).max(1).min(call.count);
        let output_at = (piece * element_bytes * inputs).next_multiple_of(ALIGN);
        let half = (output_at + piece * element_bytes * outputs).max(PIECE + ALIGN);
        let piece = usize::try_from(piece).ok()?;
        Some(Self { element, count, input_blocks, output_blocks, piece, output_at, half })
    }

    /// For each block: where its elements `first .. first + n` are in ordinary memory, and in a half relative to its operand.
    fn ranges(self, blocks: usize, first: usize, n: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
        let cut = self;
        (0..blocks).map(move |block| {
            let from = (block * cut.count + first) * cut.element;
            (from..from + n * cut.element, block * n * cut.element)
        })
    }
}

impl Client {
    /// Every rank gets the element-wise reduction of all ranks' `values`, in their place.
    pub fn all_reduce<T: Element>(&self, values: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.in_place(Operation::AllReduce, op, values)
    }

    /// `output` is `size` blocks as long as `input`; block r becomes the input of rank r.
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.separate(Operation::AllGather, ReduceOp::Sum, input.len(), input, output)
    }

    /// `input` is `size` blocks as long as `output`, which becomes the reduction of this rank's block.
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.separate(Operation::ReduceScatter, op, output.len(), input, output)
    }

    /// Both are `size` equal blocks; block r of `output` becomes this rank's block of rank r's `input`.
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let size = self.size() as usize;
        if !input.len().is_multiple_of(size) {
            return Err(Error::Argument(format!("{} elements do not make {size} equal blocks", input.len())));
        }
        self.separate(Operation::AllToAll, ReduceOp::Sum, input.len() / size, input, output)
    }

    /// Everybody's `values` become those of rank `root`.
    pub fn broadcast<T: Element>(&self, values: &mut [T], root: u32) -> Result<(), Error> {
        self.in_place(Operation::Broadcast { root }, ReduceOp::Sum, values)
    }

    /// Gives `values` to rank `to`, which receives as many with the same `tag`.
    pub fn send<T: Element>(&self, values: &[T], to: u32, tag: u32) -> Result<(), Error> {
        let bytes = to_bytes(values);
        let call = call_of::<T>(Operation::Send { to, tag }, ReduceOp::Sum, values.len());
        self.run_bytes(call, Operands::Input(&bytes))
    }

    /// Gets `values` from rank `from`, which sends as many with the same `tag`.
    pub fn recv<T: Element>(&self, values: &mut [T], from: u32, tag: u32) -> Result<(), Error> {
        let mut bytes = vec![0; size_of_val(values)];
        let call = call_of::<T>(Operation::Recv { from, tag }, ReduceOp::Sum, values.len());
        self.run_bytes(call, Operands::Output(&mut bytes))?;
        T::load(&bytes, values);
        Ok(())
    }

    fn in_place<T: Element>(
        &self,
        operation: Operation,
        op: ReduceOp,
        values: &mut [T],
    ) -> Result<(), Error> {
        let mut bytes = to_bytes(values);
        self.run_bytes(call_of::<T>(operation, op, values.len()), Operands::InPlace(&mut bytes))?;
        T::load(&bytes, values);
        Ok(())
    }

    fn separate<T: Element>(
        &self,
        operation: Operation,
        op: ReduceOp,
        count: usize,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let bytes = to_bytes(input);
        let mut room = vec![0; size_of_val(output)];
        self.run_bytes(call_of::<T>(operation, op, count), Operands::Both(&bytes, &mut room))?;
        T::load(&room, output);
        Ok(())
    }

    /// Any call on ordinary memory given as bytes, which must have exactly the length that the call needs on this rank.
    /// On failure the output may be partly written.
    pub fn run_bytes(&self, call: Call, mut operands: Operands<'_>) -> Result<(), Error> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let too_large = || Error::Argument(format!("{call}: more bytes than memory can have"));
        let cut = Cut::new(&call, self.rank(), size).ok_or_else(too_large)?;
        check(&call, &cut, &mut operands)?;
        if call.count == 0 {
            return self.run(Work { call, input: None, output: None });
        }
        let halves = match self.staging.take(cut.half) {
            Some(halves) => halves,
            None => [self.alloc(cut.half)?, self.alloc(cut.half)?],
        };
        self.run_pieces(call, cut, &halves, &mut operands)?;
        // Kept only after success: after a failure the engine may still write to them.
        self.staging.put(halves);
        Ok(())
    }

    fn run_pieces(
        &self,
        call: Call,
        cut: Cut,
        halves: &[Buffer; HALVES],
        operands: &mut Operands<'_>,
    ) -> Result<(), Error> {
        let mut under_way: VecDeque<(Pending, &Buffer, usize)> = VecDeque::with_capacity(HALVES);
        for (first, half) in (0..cut.count).step_by(cut.piece).zip(halves.iter().cycle()) {
            if under_way.len() == HALVES {
                finish(cut, under_way.pop_front(), operands)?;
            }
            let elements = cut.piece.min(cut.count - first);
            for (range, at) in cut.ranges(cut.input_blocks, first, elements) {
                half.write_bytes(at, &operands.input()[range])?;
            }
            let input = (cut.input_blocks > 0).then(|| half.start());
            let output = (cut.output_blocks > 0).then(|| half.at(cut.output_at));
            let work = Work { call: Call { count: elements as u64, ..call }, input, output };
            under_way.push_back((self.post(work)?, half, first));
        }
        while let Some(oldest) = under_way.pop_front() {
            finish(cut, Some(oldest), operands)?;
        }
        Ok(())
    }
}

/// Whether the operands are as long as the call needs.
fn check(call: &Call, cut: &Cut, operands: &mut Operands<'_>) -> Result<(), Error> {
    let block = cut.count * cut.element;
    let sides = [
        ("input", cut.input_blocks * block, operands.input().len()),
        ("output", cut.output_blocks * block, operands.output().len()),
    ];
    for (side, wanted, found) in sides {
        // In a broadcast those who are not root may have an input too; it is not looked at.
        let ignored = side == "input" && matches!(call.operation, Operation::Broadcast { .. }) && wanted == 0;
        if wanted != found && !ignored {
            return Err(Error::Argument(format!(
                "{call}: the {side} has {found} bytes, {wanted} are needed"
            )));
        }
    }
    Ok(())
}

/// Waits for a piece and copies its output to where it belongs.
fn finish(
    cut: Cut,
    piece: Option<(Pending, &Buffer, usize)>,
    operands: &mut Operands<'_>,
) -> Result<(), Error> {
    let Some((pending, half, first)) = piece else { return Ok(()) };
    pending.wait()?;
    let elements = cut.piece.min(cut.count - first);
    let output_at = usize::try_from(cut.output_at).unwrap_or(usize::MAX);
    for (range, at) in cut.ranges(cut.output_blocks, first, elements) {
        half.read_bytes(output_at + at, &mut operands.output()[range])?;
    }
    Ok(())
}

fn call_of<T: Element>(operation: Operation, reduce: ReduceOp, count: usize) -> Call {
    Call { operation, dtype: T::DTYPE, reduce, count: count as u64 }
}

fn to_bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(values)];
    T::store(values, &mut bytes);
    bytes
}
