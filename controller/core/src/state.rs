//! The state as others see it: they read all of it, and change it by steps alone.

use std::ops::Deref;

use controller_state::{Config, LoadError, Stored};
use proto_model::Timestamp;

/// Everything the controller decides from. What can be read of it is in [`controller_state`].
#[derive(Debug, Clone)]
pub struct State(pub(crate) controller_state::State);

impl Deref for State {
    type Target = controller_state::State;

    fn deref(&self) -> &controller_state::State {
        &self.0
    }
}

impl State {
    /// The state at the controller's start; see [`controller_state::State::load`].
    ///
    /// # Errors
    /// [`LoadError`] names every inconsistency of the store.
    pub fn load(config: Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<Self, LoadError> {
        controller_state::State::load(config, epoch, now, stored).map(Self)
    }

    /// The writes of all steps since the last commit are durable, at this revision of the store.
    pub fn commit(&mut self, revision: u64) {
        self.0.commit(revision);
    }

    /// They are not: the state is exactly as it was at the last commit.
    pub fn rollback(&mut self) {
        self.0.rollback();
    }

    /// How much one step does from now on, in place of what the configuration says: deadlines of one Tick, placements of
    /// one look at the queue. For a loop whose store does not take the writes of a whole step at once.
    pub fn set_pace(&mut self, due_limit: usize, pass_places: usize) {
        self.0.set_pace(due_limit, pass_places);
    }

    /// The queue shall be looked at again, because the last look was cut short.
    pub fn want_pass(&mut self) {
        self.0.want_pass();
    }

    /// What is due first, if anything is, is looked at again at `until`, so that what cannot be stored does not keep up the rest. Only
    /// between commits: it changes nothing that is stored, and is not undone. True if there was something.
    pub fn postpone_first(&mut self, now: Timestamp, until: Timestamp) -> bool {
        self.0.postpone_first(now, until)
    }
}
