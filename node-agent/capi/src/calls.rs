//! Collectives and messages, waited for and not.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use node_agent_client::Operation;

use crate::asked::{ANY_OP, Asked};
use crate::error::{OK, guard};
use crate::handle::{Rail, handle};
use crate::request::{Request, start};

/// Does a call and waits for it.
///
/// # Safety
/// As for the entry that calls it: the handle is null or live, the pointers have as many elements as the operation needs.
unsafe fn run(rail: *const Rail, asked: &Asked) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        // SAFETY: passed on to the caller.
        unsafe { asked.run(rail) }.map(|()| OK)
    })
}

/// An entry that waits and its sibling that does not: the same arguments, and a place for the request.
macro_rules! calls {
    ($(
        $(#[doc = $doc:literal])*
        $wait:ident, $start:ident ($($name:ident: $type:ty),*) = $asked:expr;
    )*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// `rail` is null (an error) or a live handle; memory is as long as `rail.h` says, for this call's use alone.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wait(rail: *const Rail $(, $name: $type)*) -> c_int {
            // SAFETY: passed on to the caller.
            unsafe { run(rail, &$asked) }
        }

        $(#[doc = $doc])*
        ///
        /// Does not wait: stores in `*request` what to wait for.
        ///
        /// # Safety
        /// `rail` is null (an error) or a live handle; memory is as long as `rail.h` says, for this call's use alone until
        /// it is complete; `request` is null (an error) or may be written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            rail: *const Rail,
            $($name: $type,)*
            request: *mut *mut Request,
        ) -> c_int {
            // SAFETY: passed on to the caller.
            unsafe { start(rail, &$asked, request) }
        }
    )*};
}

calls! {
    /// Nobody goes on before everybody is here.
    rail_barrier, rail_ibarrier() = Asked::BARRIER;

    /// Every rank gets the element-wise reduction of all inputs of `count` elements. `input` may equal `output`.
    rail_all_reduce, rail_iall_reduce(
        input: *const c_void, output: *mut c_void, count: usize, dtype: c_int, op: c_int
    ) = Asked { operation: Operation::AllReduce, count, dtype, op, input, output };

    /// The output is `size` blocks of `count` elements; block r is the input of rank r.
    rail_all_gather, rail_iall_gather(
        input: *const c_void, output: *mut c_void, count: usize, dtype: c_int
    ) = Asked { operation: Operation::AllGather, count, dtype, op: ANY_OP, input, output };

    /// The input is `size` blocks of `count` elements; rank r gets the reduction of block r.
    rail_reduce_scatter, rail_ireduce_scatter(
        input: *const c_void, output: *mut c_void, count: usize, dtype: c_int, op: c_int
    ) = Asked { operation: Operation::ReduceScatter, count, dtype, op, input, output };

    /// `data` of every rank becomes that of rank `root`.
    rail_broadcast, rail_ibroadcast(data: *mut c_void, count: usize, dtype: c_int, root: u32)
        = Asked { operation: Operation::Broadcast { root }, count, dtype, op: ANY_OP, input: data, output: data };

    /// Both are `size` blocks of `count` elements; block r of the output becomes this rank's block of rank r's input.
    rail_all_to_all, rail_iall_to_all(
        input: *const c_void, output: *mut c_void, count: usize, dtype: c_int
    ) = Asked { operation: Operation::AllToAll, count, dtype, op: ANY_OP, input, output };

    /// Gives `count` elements to rank `to`, which receives as many with the same tag.
    rail_send, rail_isend(data: *const c_void, count: usize, dtype: c_int, to: u32, tag: u32)
        = Asked { operation: Operation::Send { to, tag }, count, dtype, op: ANY_OP, input: data, output: null_mut() };

    /// Gets `count` elements from rank `from`, which sends as many with the same tag.
    rail_recv, rail_irecv(data: *mut c_void, count: usize, dtype: c_int, from: u32, tag: u32)
        = Asked { operation: Operation::Recv { from, tag }, count, dtype, op: ANY_OP, input: null(), output: data };
}
