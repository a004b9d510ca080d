//! A call as C asked for it, checked and begun.

use std::ffi::{c_int, c_void};

use node_agent_client::{
    Buffer, Call, Dtype, Error, GpuBuffer, Operands, Operation, ReduceOp, Source, Target,
};

use crate::gpu::remember_way;
use crate::handle::Rail;
use crate::under_way::{Output, UnderWay};

/// The reduction of calls that have none.
pub(crate) const ANY_OP: c_int = ReduceOp::Sum as c_int;

/// The arguments of a call, as C gave them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) op: c_int,
    pub(crate) input: *const c_void,
    pub(crate) output: *mut c_void,
}

impl Asked {
    /// A barrier as a call: it has no operands, no root and no peer.
    pub(crate) const BARRIER: Self = Self {
        operation: Operation::Barrier,
        count: 0,
        dtype: Dtype::F32 as c_int,
        op: ANY_OP,
        input: std::ptr::null(),
        output: std::ptr::null_mut(),
    };

    fn call(&self) -> Result<Call, Error> {
        let unknown =
            |what: &str, code: c_int| Error::Argument(format!("there is no {what} with number {code}"));
        let dtype = u8::try_from(self.dtype).ok().and_then(Dtype::from_code);
        let reduce = u8::try_from(self.op).ok().and_then(ReduceOp::from_code);
        Ok(Call {
            operation: self.operation,
            dtype: dtype.ok_or_else(|| unknown("dtype", self.dtype))?,
            reduce: reduce.ok_or_else(|| unknown("reduction", self.op))?,
            count: self.count as u64,
        })
    }

    /// Looks the call's operands up.
    fn resolve(&self, rail: &Rail) -> Result<Resolved, Error> {
        let call = self.call()?;
        let (input_len, output_len) = rail.client.operand_bytes(&call)?;
        let (input, output) = (self.input.cast::<u8>(), self.output.cast::<u8>());
        for (name, len, null) in
            [("input", input_len, input.is_null()), ("output", output_len, output.is_null())]
        {
            if len > 0 && null {
                return Err(Error::Argument(format!("{call}: the {name} is NULL")));
            }
        }
        let (from, to) = (input.addr(), output.addr());
        let apart = input_len == 0
            || output_len == 0
            || from >= to.saturating_add(output_len)
            || to >= from.saturating_add(input_len);
        let same = from == to && input_len == output_len;
        if !apart && !same && !own_block(&call, rail.client.rank(), (from, input_len), (to, output_len)) {
            return Err(Error::Argument(format!("{call}: input and output overlap")));
        }
        // Where they share a part only, the input is staged: the engine never sees operands that overlap.
        let shared_input =
            (input_len > 0 && (apart || same)).then(|| rail.buffers.find(from, input_len)).flatten();
        let shared_output = (output_len > 0).then(|| rail.buffers.find(to, output_len)).flatten();
        let gpu_input = (input_len > 0).then(|| rail.gpus.find(from, input_len)).flatten();
        let gpu_output = (output_len > 0).then(|| rail.gpus.find(to, output_len)).flatten();
        let gpus = (gpu_input, gpu_output);
        Ok(Resolved {
            call,
            input,
            input_len,
            output,
            output_len,
            apart,
            same,
            shared_input,
            shared_output,
            gpus,
        })
    }

    /// Begins the call: its input is read, or in memory of the door, when this returns.
    ///
    /// # Safety
    /// The pointers have as many elements as the call needs, for the call's use alone: those of ordinary input until this
    /// returns, the others until the call is over.
    pub(crate) unsafe fn begin(&self, rail: &Rail) -> Result<UnderWay, Error> {
        let found = self.resolve(rail)?;
        let source = match (&found.gpus.0, &found.shared_input) {
            (Some((memory, offset)), _) => Source::Gpu(memory.at(*offset)),
            (None, Some((buffer, offset))) => Source::Shared(buffer.at(*offset)),
            // SAFETY: passed on to the caller; it is not memory of a GPU, as far as that was registered.
            (None, None) => Source::Bytes(unsafe { found.input() }),
        };
        let target = match (&found.gpus.1, &found.shared_output) {
            (Some((memory, offset)), _) => Target::Gpu(memory.at(*offset)),
            (None, Some((buffer, offset))) => Target::Shared(buffer.at(*offset)),
            (None, None) => Target::Bytes,
        };
        let begun = rail.client.begin(found.call, source, target)?;
        // The root of a broadcast has the result already.
        let has_it =
            matches!(self.operation, Operation::Broadcast { .. }) && found.input_len > 0 && found.same;
        let len = begun.output_bytes();
        let output = (len > 0 && !has_it).then_some(Output { pointer: found.output, len });
        Ok(UnderWay { begun, output })
    }

    /// Does the call and waits for it.
    ///
    /// # Safety
    /// The pointers have as many elements as the call needs, for the call's use alone until this returns.
    pub(crate) unsafe fn run(&self, rail: &Rail) -> Result<(), Error> {
        let found = self.resolve(rail)?;
        let on_gpu = found.gpus.0.is_some() || found.gpus.1.is_some();
        let shared = on_gpu || found.shared_input.is_some() || found.shared_output.is_some();
        let in_place = matches!(self.operation, Operation::AllReduce | Operation::Broadcast { .. });
        if !shared && (found.apart || found.same && in_place) {
            // SAFETY: passed on to the caller.
            return rail.client.run_bytes(found.call, unsafe { found.operands() });
        }
        // SAFETY: passed on to the caller.
        let mut call = unsafe { self.begin(rail) }?;
        if let Some(way) = call.begun.way() {
            remember_way(way);
        }
        call.begun.wait()?;
        call.deliver()
    }
}

/// The operands of a call, looked up.
#[derive(Debug)]
struct Resolved {
    call: Call,
    input: *const u8,
    input_len: usize,
    output: *mut u8,
    output_len: usize,
    /// They have no byte in common.
    apart: bool,
    /// Input and output are the same bytes: the call is done in place.
    same: bool,
    /// Memory of the door that has all of the input, which does not overlap the output in part.
    shared_input: Option<(Buffer, u64)>,
    shared_output: Option<(Buffer, u64)>,
    /// Registered memory of a GPU that has all of the input, and of the output.
    gpus: (OnGpu, OnGpu),
}

/// Registered memory of a GPU that holds an operand, if one does, and where in it that begins.
type OnGpu = Option<(GpuBuffer, u64)>;

impl Resolved {
    /// # Safety
    /// The input has as many bytes as the call needs, which nobody writes while the slice lives.
    unsafe fn input<'a>(&self) -> &'a [u8] {
        if self.input_len == 0 {
            return &[];
        }
        // SAFETY: not null, as long as the caller vouches, at most `isize::MAX` bytes, and bytes need no alignment.
        unsafe { std::slice::from_raw_parts(self.input, self.input_len) }
    }

    /// Both operands, which are apart or the same.
    ///
    /// # Safety
    /// Both have as many bytes as the call needs, which nobody else uses while the slices live.
    unsafe fn operands<'a>(&self) -> Operands<'a> {
        if self.output_len == 0 {
            return match self.input_len {
                0 => Operands::None,
                // SAFETY: passed on to the caller.
                _ => Operands::Input(unsafe { self.input() }),
            };
        }
        // SAFETY: as in `input`; the other slice, if there is one, has no byte of this one.
        let output = unsafe { std::slice::from_raw_parts_mut(self.output, self.output_len) };
        match self.input_len {
            0 => Operands::Output(output),
            _ if self.same => Operands::InPlace(output),
            // SAFETY: passed on to the caller.
            _ => Operands::Both(unsafe { self.input() }, output),
        }
    }
}

/// Whether the shorter operand is exactly this rank's block of the longer one: the usual way to gather or scatter in place.
fn own_block(call: &Call, rank: u32, input: (usize, usize), output: (usize, usize)) -> bool {
    let block = |len: usize| usize::try_from(rank).ok().and_then(|rank| rank.checked_mul(len));
    let begins = |whole: usize, len: usize| block(len).and_then(|offset| whole.checked_add(offset));
    match call.operation {
        Operation::AllGather => begins(output.0, input.1) == Some(input.0),
        Operation::ReduceScatter => begins(input.0, output.1) == Some(output.0),
        _ => false,
    }
}
