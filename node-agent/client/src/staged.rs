//! Calls over ordinary memory: copied into shared staging memory when they begin, and out of it when they are complete.
//!
//! A call is one call of the engine, however large: so the result and the pairing of calls among ranks do not depend on
//! which memory a rank uses.

use std::sync::Arc;
use std::time::Instant;

use node_agent_collective::{Call, Operation, ReduceOp};
use node_agent_ipc::{Element, Span};

use crate::gpu::HeldPlace;
use crate::staging::{Staging, rounded};
use crate::{Buffer, BufferOffset, Client, Error, GpuPlace, Operands, Pending, TransferPath, Work};

/// Operands begin at multiples of this many bytes.
const ALIGN: u64 = 64;
/// Where the input of a call that begins is.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// In ordinary memory, which is copied at once.
    Bytes(&'a [u8]),
    /// In a shared buffer, which must stay as it is until the call is complete.
    Shared(BufferOffset<'a>),
    /// On a GPU, and must stay as it is there until the call is complete.
    Gpu(GpuPlace<'a>),
}

/// Where the output of a call that begins is to be.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// In ordinary memory, by [`Begun::fetch`].
    Bytes,
    /// The output goes to a place in a shared buffer.
    Shared(BufferOffset<'a>),
    /// On a GPU, by [`Begun::store`].
    Gpu(GpuPlace<'a>),
}

/// A call under way over any memory. Dropping it does not undo the call.
#[must_use = "the call is complete only after wait_until() gave an outcome"]
#[derive(Debug)]
pub struct Begun {
    pending: Pending,
    /// The staging buffer, and where in it the output will be.
    staging: Option<(Buffer, u64)>,
    output_bytes: usize,
    /// Bytes of the output that [`Begun::store`] copies.
    stored_bytes: usize,
    /// Memory of GPUs in the call.
    gpu: Option<OnGpu>,
    /// The call has succeeded, so the engine will not write to the staging buffer any more.
    done: bool,
    pool: Arc<Staging>,
}

/// What a call has to do with memory of GPUs.
#[derive(Debug)]
struct OnGpu {
    way: TransferPath,
    /// Held until the call is over.
    _input: Option<HeldPlace>,
    /// Where the result goes; none where the GPU has it already.
    output: Option<HeldPlace>,
    /// The rank's own part of the result, which it copies on the GPU: from where, and first byte in both and how many.
    own: Option<(HeldPlace, [usize; 3])>,
}

/// Bytes that a call needs on this rank.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    input: usize,
    output: usize,
}

impl Client {
    /// Bytes of input and output that `call` needs on this rank. A broadcast has an input on its root only.
    ///
    /// # Errors
    /// [`Error::Argument`] where the call has more bytes than memory can have.
    pub fn operand_bytes(&self, call: &Call) -> Result<(usize, usize), Error> {
        let sizes = self.sizes(call)?;
        Ok((sizes.input, sizes.output))
    }

    fn sizes(&self, call: &Call) -> Result<Sizes, Error> {
        let world = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let fits = |bytes: Option<usize>| {
            let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
            bytes.ok_or_else(|| Error::Argument(format!("{call}: more bytes than memory can have")))
        };
        let (input, output) = (fits(call.input_bytes(world))?, fits(call.output_bytes(world))?);
        let reads = !matches!(call.operation, Operation::Broadcast { root } if root != self.rank());
        Ok(Sizes { input: if reads { input } else { 0 }, output })
    }

    /// Begins a call over any memory. What has no bytes on this rank is not looked at. Input in ordinary memory has exactly
    /// the length that the call needs on this rank; the engine checks that shared places are long enough. Fails at once where
    /// as many calls are under way as the engine takes.
    ///
    /// # Errors
    /// [`Error::Argument`] where the input has the wrong length or the call has more bytes than memory can have; else as of
    /// [`Client::alloc`] and [`Client::post`], and [`Error::Gpu`] where input cannot be copied from the GPU.
    pub fn begin(&self, call: Call, source: Source<'_>, target: Target<'_>) -> Result<Begun, Error> {
        let sizes = self.sizes(&call)?;
        if let Source::Bytes(bytes) = source
            && bytes.len() != sizes.input
        {
            return Err(wrong_length(&call, "input", bytes.len(), sizes.input));
        }
        let (way, direct) = self.way_of(&call, &source, &target);
        let staged_input = if matches!(source, Source::Shared(_)) || direct { 0 } else { sizes.input as u64 };
        let has_it = direct && matches!(call.operation, Operation::Broadcast { .. });
        let staged_output =
            if matches!(target, Target::Shared(_)) || has_it { 0 } else { sizes.output as u64 };
        // The result may take the place of an input that nobody else sees.
        let in_place = matches!(call.operation, Operation::AllReduce | Operation::Broadcast { .. });
        let output_at = if in_place { 0 } else { staged_input.next_multiple_of(ALIGN) };
        let needed = (output_at + staged_output).max(staged_input);
        let staging = if needed > 0 { Some(self.staging(needed)?) } else { None };
        match (&source, &staging) {
            (Source::Bytes(bytes), Some(staging)) => staging.write_bytes(0, bytes)?,
            (Source::Gpu(place), Some(staging)) if staged_input > 0 => {
                place.fetch(staging, 0, sizes.input)?
            }
            _ => {}
        }
        let input = match source {
            _ if sizes.input == 0 || direct => None,
            Source::Shared(place) => Some(place),
            Source::Bytes(_) | Source::Gpu(_) => staging.as_ref().map(Buffer::start),
        };
        let output = match target {
            _ if sizes.output == 0 || has_it => None,
            Target::Shared(place) => Some(place),
            Target::Bytes | Target::Gpu(_) => staging.as_ref().map(|staging| staging.at(output_at)),
        };
        if self.local_for(&call).is_none() {
            self.expect_room(call.operation.kind().name())?;
        }
        let work = Work { call, input, output };
        let pending = match source {
            Source::Gpu(place) if direct => {
                let output = if has_it { place.span() } else { output.map_or(Span::default(), |o| o.span()) };
                self.post_spans(&work, place.span(), output)?
            }
            _ => self.post(work)?,
        };
        let gpu = way.map(|way| self.on_gpu(way, &call, (&source, &target), &sizes));
        let staging = staging.map(|staging| (staging, output_at));
        let (output_bytes, stored_bytes) = match target {
            Target::Bytes => (sizes.output, 0),
            Target::Gpu(_) => (0, sizes.output),
            Target::Shared(_) => (0, 0),
        };
        let pool = self.staging.clone();
        Ok(Begun { pending, staging, output_bytes, stored_bytes, gpu, done: false, pool })
    }

    /// Which way the bytes take, where some are on a GPU, and whether the input goes from there to the wire.
    fn way_of(&self, call: &Call, source: &Source<'_>, target: &Target<'_>) -> (Option<TransferPath>, bool) {
        let output = match target {
            Target::Gpu(place) => Some(place),
            _ => None,
        };
        let way = match (source, output) {
            (Source::Gpu(place), _) => place.way(call, self.rank(), output),
            (_, Some(output)) => {
                let why = "what comes in lands in host memory first".to_owned();
                let known = output.buffer.way();
                TransferPath { direct: false, why: if known.direct { why } else { known.why } }
            }
            _ => return (None, false),
        };
        let direct = way.direct;
        (Some(way), direct)
    }

    /// What is to be done on GPUs when the call is complete.
    fn on_gpu(
        &self,
        way: TransferPath,
        call: &Call,
        (source, target): (&Source<'_>, &Target<'_>),
        sizes: &Sizes,
    ) -> OnGpu {
        let input = match source {
            Source::Gpu(place) => Some(place.held()),
            _ => None,
        };
        let root = matches!(call.operation, Operation::Broadcast { root } if root == self.rank());
        let output = match target {
            Target::Gpu(place) if sizes.output > 0 && !(root && way.direct) => Some(place.held()),
            _ => None,
        };
        let rank = usize::try_from(self.rank()).unwrap_or(usize::MAX);
        let own = input.clone().filter(|_| way.direct).and_then(|input| match call.operation {
            Operation::AllGather => Some((input, [0, rank.saturating_mul(sizes.input), sizes.input])),
            Operation::AllToAll => {
                let block = sizes.input / usize::try_from(self.size()).unwrap_or(usize::MAX).max(1);
                Some((input, [rank.saturating_mul(block), rank.saturating_mul(block), block]))
            }
            _ => None,
        });
        OnGpu { way, _input: input, output, own }
    }

    fn staging(&self, bytes: u64) -> Result<Buffer, Error> {
        if let Some(idle) = self.staging.take(bytes) {
            return Ok(idle);
        }
        self.alloc(rounded(bytes)).or_else(|_| {
            // Idle buffers of other sizes count against the engine's limits.
            self.staging.clear();
            self.alloc(bytes)
        })
    }

    /// Every rank gets the element-wise reduction of all ranks' `values`, in their place.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`].
    pub fn all_reduce<T: Element>(&self, values: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.in_place(Operation::AllReduce, op, values)
    }

    /// `output` is `size` blocks as long as `input`; block r becomes the input of rank r.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`]; [`Error::Argument`] where the lengths do not fit.
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.separate(Operation::AllGather, ReduceOp::Sum, input.len(), input, output)
    }

    /// `input` is `size` blocks as long as `output`, which becomes the reduction of this rank's block.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`]; [`Error::Argument`] where the lengths do not fit.
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.separate(Operation::ReduceScatter, op, output.len(), input, output)
    }

    /// Both are `size` equal blocks; block r of `output` becomes this rank's block of rank r's `input`.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`]; [`Error::Argument`] where the lengths do not fit.
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let size = self.size() as usize;
        if !input.len().is_multiple_of(size) {
            return Err(Error::Argument(format!("{} elements do not make {size} equal blocks", input.len())));
        }
        self.separate(Operation::AllToAll, ReduceOp::Sum, input.len() / size, input, output)
    }

    /// Everybody's `values` become those of rank `root`.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`].
    pub fn broadcast<T: Element>(&self, values: &mut [T], root: u32) -> Result<(), Error> {
        self.in_place(Operation::Broadcast { root }, ReduceOp::Sum, values)
    }

    /// Gives `values` to rank `to`, which receives as many with the same `tag`.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`].
    pub fn send<T: Element>(&self, values: &[T], to: u32, tag: u32) -> Result<(), Error> {
        let call = call_of::<T>(Operation::Send { to, tag }, ReduceOp::Sum, values.len());
        self.run_bytes(call, Operands::Input(T::bytes(values)))
    }

    /// Gets `values` from rank `from`, which sends as many with the same `tag`.
    ///
    /// # Errors
    /// As of [`Client::run_bytes`].
    pub fn recv<T: Element>(&self, values: &mut [T], from: u32, tag: u32) -> Result<(), Error> {
        let call = call_of::<T>(Operation::Recv { from, tag }, ReduceOp::Sum, values.len());
        self.run_bytes(call, Operands::Output(T::bytes_mut(values)))
    }

    fn in_place<T: Element>(
        &self,
        operation: Operation,
        op: ReduceOp,
        values: &mut [T],
    ) -> Result<(), Error> {
        let call = call_of::<T>(operation, op, values.len());
        self.run_bytes(call, Operands::InPlace(T::bytes_mut(values)))
    }

    fn separate<T: Element>(
        &self,
        operation: Operation,
        op: ReduceOp,
        count: usize,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let operands = Operands::Both(T::bytes(input), T::bytes_mut(output));
        self.run_bytes(call_of::<T>(operation, op, count), operands)
    }

    /// Any call on ordinary memory given as bytes, which must have exactly the length that the call needs on this rank; only
    /// the input of a broadcast on those who are not its root is not looked at.
    /// On failure the output may be partly written.
    ///
    /// # Errors
    /// [`Error::Argument`] where an operand has the wrong length; else as of [`Client::begin`] and [`Begun::wait`].
    pub fn run_bytes(&self, call: Call, mut operands: Operands<'_>) -> Result<(), Error> {
        let sizes = self.sizes(&call)?;
        let found = operands.output().len();
        if found != sizes.output {
            return Err(wrong_length(&call, "output", found, sizes.output));
        }
        let received = matches!(call.operation, Operation::Broadcast { .. }) && sizes.input == 0;
        let input = if received { &[] } else { operands.input() };
        if let Some(local) = self.local_for(&call) {
            if input.len() != sizes.input {
                return Err(wrong_length(&call, "input", input.len(), sizes.input));
            }
            return local.run(call, &mut operands, self.limit());
        }
        let mut begun = self.begin(call, Source::Bytes(input), Target::Bytes)?;
        begun.wait()?;
        begun.fetch(operands.output())
    }
}

impl Begun {
    /// Waits until the call is complete or has failed.
    ///
    /// # Errors
    /// The call failed, or there was no outcome by its [`Begun::deadline`].
    pub fn wait(&mut self) -> Result<(), Error> {
        let until = self.pending.deadline();
        let outcome = self.wait_until(until);
        outcome.unwrap_or_else(|| Err(Error::Argument("the call is still under way".into())))
    }

    /// Waits until `until` at most and says what [`Pending::wait_until`] says: `None` while the call is under way.
    pub fn wait_until(&mut self, until: Instant) -> Option<Result<(), Error>> {
        let outcome = self.pending.wait_until(until)?;
        self.done = outcome.is_ok();
        Some(outcome)
    }

    /// By when the call will have an outcome.
    pub fn deadline(&self) -> Instant {
        self.pending.deadline()
    }

    /// Bytes of the output that [`Begun::fetch`] gives; 0 where the output is in a shared buffer or there is none.
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Which way the bytes of operands on GPUs took; none where there are no such operands.
    pub fn way(&self) -> Option<&TransferPath> {
        self.gpu.as_ref().map(|gpu| &gpu.way)
    }

    /// Copies the output of a call that has succeeded to the GPU, where it belongs there; else it does nothing.
    ///
    /// # Errors
    /// [`Error::Argument`] where the call has not succeeded yet; [`Error::Gpu`] where the copy fails.
    pub fn store(&self) -> Result<(), Error> {
        let Some(OnGpu { output: Some(output), own, .. }) = &self.gpu else { return Ok(()) };
        let Some((staging, at)) = self.staging.as_ref().filter(|_| self.done) else {
            return Err(Error::Argument("there is no result to be copied to a GPU".into()));
        };
        let at = usize::try_from(*at).unwrap_or(usize::MAX);
        let Some((input, [from, to, bytes])) = own else {
            return output.store(0, staging, at, self.stored_bytes);
        };
        // The rank's own part never was in host memory.
        output.store(0, staging, at, *to)?;
        output.take(*to, input, *from, *bytes)?;
        let end = to.saturating_add(*bytes);
        let rest = self.stored_bytes.saturating_sub(end);
        output.store(end, staging, at.saturating_add(end), rest)
    }

    /// Copies the output of a call that has succeeded to where it belongs: exactly [`Begun::output_bytes`].
    ///
    /// # Errors
    /// [`Error::Argument`] where the call has not succeeded yet or `to` has another length.
    pub fn fetch(&self, to: &mut [u8]) -> Result<(), Error> {
        if !self.done || to.len() != self.output_bytes {
            let problem = format!("a result of {} bytes cannot be had in {}", self.output_bytes, to.len());
            return Err(Error::Argument(problem));
        }
        match &self.staging {
            Some((staging, at)) => staging.read_bytes(usize::try_from(*at).unwrap_or(usize::MAX), to),
            None => Ok(()),
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // Kept only after success: else the engine may still write to it.
        if let (true, Some((staging, _))) = (self.done, self.staging.take()) {
            self.pool.put(staging);
        }
    }
}

fn wrong_length(call: &Call, side: &str, found: usize, wanted: usize) -> Error {
    Error::Argument(format!("{call}: the {side} has {found} bytes, {wanted} are needed"))
}

fn call_of<T: Element>(operation: Operation, reduce: ReduceOp, count: usize) -> Call {
    Call { operation, dtype: T::DTYPE, reduce, count: count as u64 }
}
