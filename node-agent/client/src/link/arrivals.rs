//! Waiting for whatever comes next: for a thread that completes the calls of others.

use std::time::Instant;

use super::{Answer, Link};
use crate::Error;

impl Link {
    /// How often something has changed for those who wait: an answer came, or the connection broke.
    pub(crate) fn arrivals(&self) -> u64 {
        let state = self.lock();
        state.answered + u64::from(state.broken.is_some())
    }

    /// Sleeps until [`Link::arrivals`] differs from `seen`, at the latest until the deadline.
    pub(crate) fn wait_arrival(&self, seen: u64, deadline: Instant) {
        let mut state = self.lock();
        while state.answered + u64::from(state.broken.is_some()) == seen && Instant::now() < deadline {
            state = self.sleep(state, deadline);
        }
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.broken.is_none() && state.next - 1 > state.answered
    }

    /// Whether fewer than `most` requests have no answer yet.
    pub(crate) fn has_room(&self, most: u32) -> bool {
        let count = |state: &super::State| (state.next - 1).saturating_sub(state.answered);
        let mut state = self.lock();
        if count(&state) >= most.into() && !state.reading {
            self.take_waiting(&mut state);
            self.changed.notify_all();
        }
        count(&state) < most.into() || state.broken.is_some()
    }

    /// The answer to `id` if it has come by the deadline, without giving it up where it has not.
    pub(crate) fn try_wait(&self, id: u64, deadline: Instant) -> Option<Result<Answer, Error>> {
        let mut state = self.lock();
        let mut checked = false;
        loop {
            if let Some(answer) = state.arrived.remove(&id) {
                return Some(Ok(answer));
            }
            if let Some(error) = &state.broken {
                return Some(Err(error.clone()));
            }
            if Instant::now() < deadline {
                state = self.sleep(state, deadline);
            } else if checked || state.reading {
                return None;
            } else {
                checked = true;
                self.take_waiting(&mut state);
                self.changed.notify_all();
            }
        }
    }
}
