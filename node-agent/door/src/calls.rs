//! Collectives on the caller's own memory.

use std::ffi::{c_int, c_void};

use node_agent_client::{Call, Client, Dtype, Error, Operands, Operation, ReduceOp};

use crate::error::{OK, guard};
use crate::handle::{Rail, client};

/// Which memory a call has, as the caller gave it.
struct Pointers {
    input: *const c_void,
    output: *mut c_void,
}

/// Nobody goes on before everybody is here.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_barrier(rail: *const Rail) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        unsafe { client(rail) }?.barrier().map(|()| OK)
    })
}

/// Every rank gets the element-wise reduction of all inputs of `count` elements. `input` may equal `output`.
///
/// # Safety
/// `rail` is null or a live handle; `input` and `output` have `count` elements, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_all_reduce(
    rail: *const Rail,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::AllReduce, count, dtype, op, &Pointers { input, output }) }
}

/// The output is `size` blocks of `count` elements; block r is the input of rank r.
///
/// # Safety
/// `rail` is null or a live handle; `input` has `count` elements, `output` `size` times as many, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_all_gather(
    rail: *const Rail,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::AllGather, count, dtype, ANY_OP, &Pointers { input, output }) }
}

/// The input is `size` blocks of `count` elements; rank r gets the reduction of block r.
///
/// # Safety
/// `rail` is null or a live handle; `output` has `count` elements, `input` `size` times as many, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_reduce_scatter(
    rail: *const Rail,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::ReduceScatter, count, dtype, op, &Pointers { input, output }) }
}

/// `data` of every rank becomes that of rank `root`.
///
/// # Safety
/// `rail` is null or a live handle; `data` has `count` elements, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_broadcast(
    rail: *const Rail,
    data: *mut c_void,
    count: usize,
    dtype: c_int,
    root: u32,
) -> c_int {
    let pointers = Pointers { input: data, output: data };
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::Broadcast { root }, count, dtype, ANY_OP, &pointers) }
}

/// Both are `size` blocks of `count` elements; block r of the output becomes this rank's block of rank r's input.
///
/// # Safety
/// `rail` is null or a live handle; `input` and `output` have `size` times `count` elements, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_all_to_all(
    rail: *const Rail,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::AllToAll, count, dtype, ANY_OP, &Pointers { input, output }) }
}

/// Gives `count` elements to rank `to`, which receives as many with the same tag.
///
/// # Safety
/// `rail` is null or a live handle; `data` has `count` elements that nobody writes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_send(
    rail: *const Rail,
    data: *const c_void,
    count: usize,
    dtype: c_int,
    to: u32,
    tag: u32,
) -> c_int {
    let pointers = Pointers { input: data, output: std::ptr::null_mut() };
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::Send { to, tag }, count, dtype, ANY_OP, &pointers) }
}

/// Gets `count` elements from rank `from`, which sends as many with the same tag.
///
/// # Safety
/// `rail` is null or a live handle; `data` has `count` elements, for this call's use alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_recv(
    rail: *const Rail,
    data: *mut c_void,
    count: usize,
    dtype: c_int,
    from: u32,
    tag: u32,
) -> c_int {
    let pointers = Pointers { input: std::ptr::null(), output: data };
    // SAFETY: passed on to the caller.
    unsafe { run(rail, Operation::Recv { from, tag }, count, dtype, ANY_OP, &pointers) }
}

/// The reduction of calls that have none.
const ANY_OP: c_int = ReduceOp::Sum as c_int;

/// # Safety
/// As the entry that calls it: the handle is null or live, the pointers have as many elements as the operation needs.
unsafe fn run(
    rail: *const Rail,
    operation: Operation,
    count: usize,
    dtype: c_int,
    op: c_int,
    pointers: &Pointers,
) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let client = unsafe { client(rail) }?;
        let unknown =
            |what: &str, code: c_int| Error::Argument(format!("there is no {what} with number {code}"));
        let dtype =
            u8::try_from(dtype).ok().and_then(Dtype::from_code).ok_or_else(|| unknown("dtype", dtype))?;
        let reduce =
            u8::try_from(op).ok().and_then(ReduceOp::from_code).ok_or_else(|| unknown("reduction", op))?;
        let call = Call { operation, dtype, reduce, count: count as u64 };
        // SAFETY: the caller vouches for the pointers.
        let operands = unsafe { operands(client, &call, pointers) }?;
        client.run_bytes(call, operands).map(|()| OK)
    })
}

/// The caller's memory as slices.
///
/// # Safety
/// The pointers have as many elements as the call needs, which nobody else uses while the operands live.
unsafe fn operands<'a>(client: &Client, call: &Call, pointers: &Pointers) -> Result<Operands<'a>, Error> {
    let world = usize::try_from(client.size()).unwrap_or(usize::MAX);
    let fits = |bytes: Option<usize>| {
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        bytes.ok_or_else(|| Error::Argument(format!("{call}: more bytes than memory can have")))
    };
    let (input, output) = (pointers.input.cast::<u8>(), pointers.output.cast::<u8>());
    let (input_len, output_len) = (fits(call.input_bytes(world))?, fits(call.output_bytes(world))?);
    for (name, len, null) in [("input", input_len, input.is_null()), ("output", output_len, output.is_null())]
    {
        if len > 0 && null {
            return Err(Error::Argument(format!("{call}: the {name} is NULL")));
        }
    }
    // SAFETY (all slices below): not null, as long as the caller vouches, at most `isize::MAX` bytes, and bytes need no
    // alignment. The one mutable slice overlaps no other: that is checked, or there is no other.
    Ok(match (input_len, output_len) {
        (0, 0) => Operands::None,
        // SAFETY: see above.
        (_, 0) => Operands::Input(unsafe { std::slice::from_raw_parts(input, input_len) }),
        // SAFETY: see above.
        (0, _) => Operands::Output(unsafe { std::slice::from_raw_parts_mut(output, output_len) }),
        _ if input == output.cast_const() && input_len == output_len => {
            // SAFETY: see above.
            Operands::InPlace(unsafe { std::slice::from_raw_parts_mut(output, output_len) })
        }
        _ => {
            let (a, b) = (input.addr(), output.addr());
            if a < b.saturating_add(output_len) && b < a.saturating_add(input_len) {
                return Err(Error::Argument(format!("{call}: input and output overlap")));
            }
            // SAFETY: see above.
            let input = unsafe { std::slice::from_raw_parts(input, input_len) };
            // SAFETY: see above.
            Operands::Both(input, unsafe { std::slice::from_raw_parts_mut(output, output_len) })
        }
    })
}
