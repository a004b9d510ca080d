//! The handle: one attached rank.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use node_agent_client::{Client, Error};

use crate::error::{OK, guard};
use crate::exit::detach_at_exit;
use crate::gpu::GpuRanges;
use crate::memory::Buffers;
use crate::progress::Progress;

/// Version of the C ABI; `rail.h` has the same number. Programs made for an earlier one run with this library.
const ABI_VERSION: u32 = 4;

/// An attached rank, opaque to C (`rail_t`).
#[derive(Debug)]
pub struct Rail {
    pub(crate) client: Arc<Client>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) buffers: Buffers,
    pub(crate) gpus: GpuRanges,
}

/// The rank behind a handle.
///
/// # Safety
/// `rail` is null or came from `rail_init_from_env` and was not finalized; it stays so while the result is used.
pub(crate) unsafe fn handle<'a>(rail: *const Rail) -> Result<&'a Rail, Error> {
    // SAFETY: the caller vouches for it; null gives `None`.
    unsafe { rail.as_ref() }.ok_or_else(|| Error::Argument("the handle is NULL".into()))
}

/// The client behind a handle.
///
/// # Safety
/// As for [`handle`].
unsafe fn client<'a>(rail: *const Rail) -> Result<&'a Client, Error> {
    // SAFETY: passed on to the caller.
    unsafe { handle(rail) }.map(|rail| &*rail.client)
}

/// The version of the ABI that this library has.
#[unsafe(no_mangle)]
pub extern "C" fn rail_abi_version() -> u32 {
    ABI_VERSION
}

/// Attaches to the engine that the environment names and stores a handle in `*rail`.
///
/// # Safety
/// `rail` is null (an error) or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_init_from_env(rail: *mut *mut Rail) -> c_int {
    guard(|| {
        // SAFETY: the caller vouches that a pointer that is not null may be written.
        let Some(place) = (unsafe { rail.as_mut() }) else {
            return Err(Error::Argument("there is no place for the handle".into()));
        };
        *place = std::ptr::null_mut();
        let client = Arc::new(Client::from_env()?);
        detach_at_exit(&client);
        let progress = Arc::new(Progress::new(client.clone()));
        let (buffers, gpus) = Default::default();
        *place = Box::into_raw(Box::new(Rail { client, progress, buffers, gpus }));
        Ok(OK)
    })
}

/// Leaves the job cleanly and frees the handle, also where leaving fails. Null is allowed and does nothing.
///
/// # Safety
/// `rail` is null or a handle that no thread uses now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_finalize(rail: *mut Rail) -> c_int {
    guard(|| {
        if rail.is_null() {
            return Ok(OK);
        }
        // SAFETY: the handle came from `Box::into_raw`, and the caller gives it up.
        let rail = unsafe { Box::from_raw(rail) };
        // Leaving makes the engine answer, which wakes the thread that waits for answers.
        let left = rail.client.leave_and_wait();
        rail.progress.end();
        left.map(|()| OK)
    })
}

/// Limits each of the calls that follow, on all threads; 0 returns to the engine's own limit.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_set_timeout_ms(rail: *const Rail, milliseconds: u32) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let client = unsafe { client(rail) }?;
        client.set_timeout((milliseconds > 0).then(|| Duration::from_millis(milliseconds.into())));
        Ok(OK)
    })
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])* $name:ident = $value:expr;)*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// `rail` is null (an error) or a live handle.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(rail: *const Rail) -> c_int {
            guard(|| {
                // SAFETY: passed on to the caller.
                let client = unsafe { client(rail) }?;
                let value: fn(&Client) -> u32 = $value;
                Ok(c_int::try_from(value(client)).unwrap_or(c_int::MAX))
            })
        }
    )*};
}

/// Panics inside an entry, or with `thread` not 0 in the thread that completes calls: for the tests that nothing unwinds out
/// of this library. Only test builds have it, and `rail.h` does not name it.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[cfg(debug_assertions)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_debug_panic(rail: *const Rail, thread: c_int) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        assert!(thread != 0, "on purpose");
        rail.progress.panic_next.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(OK)
    })
}

numbers! {
    /// This rank's place in the job.
    rail_rank = |client| client.rank();
    /// Ranks of the job.
    rail_size = |client| client.size();
    /// This rank's place among the ranks of its node.
    rail_local_rank = |client| client.local_rank();
    /// Ranks on this rank's node.
    rail_local_size = |client| client.world().local_size;
    /// This node's place in the job.
    rail_node = |client| client.world().node;
    /// Nodes of the job.
    rail_nodes = |client| client.world().nodes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_refused() {
        // SAFETY: null is allowed everywhere here.
        unsafe {
            assert_eq!(rail_init_from_env(std::ptr::null_mut()), -1);
            assert_eq!(rail_rank(std::ptr::null()), -1);
            assert_eq!(rail_set_timeout_ms(std::ptr::null(), 5), -1);
            assert_eq!(rail_finalize(std::ptr::null_mut()), 0);
        }
    }
}
