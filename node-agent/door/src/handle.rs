//! The handle: one attached rank.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use node_agent_client::{Client, Error};

use crate::error::{OK, guard};
use crate::exit::detach_at_exit;

/// Version of the C ABI; `rail.h` has the same number.
const ABI_VERSION: u32 = 1;

/// An attached rank, opaque to C (`rail_t`).
#[derive(Debug)]
pub struct Rail {
    pub(crate) client: Arc<Client>,
}

/// The client behind a handle.
///
/// # Safety
/// `rail` is null or came from `rail_init_from_env` and was not finalized; it stays so while the result is used.
pub(crate) unsafe fn client<'a>(rail: *const Rail) -> Result<&'a Client, Error> {
    // SAFETY: the caller vouches for it; null gives `None`.
    match unsafe { rail.as_ref() } {
        Some(rail) => Ok(&rail.client),
        None => Err(Error::Argument("the handle is NULL".into())),
    }
}

/// The version of the ABI that this library speaks.
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
        *place = Box::into_raw(Box::new(Rail { client }));
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
        match Arc::into_inner(rail.client) {
            Some(client) => client.detach().map(|()| OK),
            // The end of the process holds it at this moment, and detaches.
            None => Ok(OK),
        }
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
