//! Entries for notifications: a few words from one rank to another, which need no call of the other one.

use std::ffi::c_int;

use node_agent_client::Error;

use crate::error::{OK, PENDING, guard};
use crate::handle::{Rail, handle};

/// The words of one notification; `rail.h` has the same number.
type Words = [u64; 3];

/// From now on this rank is handed what others notify it of.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_subscribe(rail: *const Rail) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        rail.client.subscribe().map(|_| OK)
    })
}

/// Notifies rank `to` of `words`: 0 if it is on its way, 1 if the engine takes nothing at the moment.
///
/// # Safety
/// `rail` is null (an error) or a live handle; `words` is null (an error) or has three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_notify(rail: *const Rail, to: u32, words: *const u64) -> c_int {
    guard(|| {
        // SAFETY: the caller vouches for three numbers, which are aligned as such; null gives `None`.
        let Some(words) = (unsafe { words.cast::<Words>().as_ref() }) else {
            return Err(Error::Argument("there are no words".into()));
        };
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        let (own, size) = (rail.client.rank(), rail.client.size());
        if to == own || to >= size {
            let cause = format!("rank {to} cannot be notified by rank {own} of {size}");
            return Err(Error::Argument(cause));
        }
        Ok(if rail.client.notify(to, *words)? { OK } else { PENDING })
    })
}

/// Stores the oldest notification that nobody has taken: 0 if there was one, 1 if there is none.
///
/// # Safety
/// `rail` is null (an error) or a live handle; `from` and `words` are null (an error) or may be written, three numbers in `words`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_poll_notification(rail: *const Rail, from: *mut u32, words: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the caller vouches that a pointer that is not null may be written.
        let (Some(from), Some(words)) = (unsafe { from.as_mut() }, unsafe { words.cast::<Words>().as_mut() })
        else {
            return Err(Error::Argument("there is no place for the notification".into()));
        };
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        let Some(found) = rail.client.poll_notification()? else { return Ok(PENDING) };
        (*from, *words) = (found.from, found.words);
        Ok(OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_refused() {
        let (mut from, mut words) = (0, [0; 3]);
        // SAFETY: null is allowed everywhere here.
        unsafe {
            assert_eq!(rail_subscribe(std::ptr::null()), -1);
            assert_eq!(rail_notify(std::ptr::null(), 0, std::ptr::null()), -1);
            assert_eq!(rail_notify(std::ptr::null(), 0, words.as_ptr()), -1);
            assert_eq!(rail_poll_notification(std::ptr::null(), &raw mut from, std::ptr::null_mut()), -1);
            assert_eq!(rail_poll_notification(std::ptr::null(), &raw mut from, words.as_mut_ptr()), -1);
        }
    }
}
