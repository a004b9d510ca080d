//! One batch: what the steps answered, and their writes merged, so that one transaction carries them all.

use std::collections::BTreeMap;

use controller_core::{Certified, CoreError, Event, Key, Output, Push, Reply, Transition, Write};

use crate::request::Answer;

/// One event that was stepped, kept until its writes are durable.
pub(crate) struct Stepped {
    /// Kept for a repetition.
    pub event: Event,
    /// Where the caller waits for the answer; `None` if nobody does.
    pub answer: Option<Answer>,
    /// What the core answered.
    pub reply: Option<Result<Reply, CoreError>>,
}

/// Steps since the last commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub stepped: Vec<Stepped>,
    pub writes: BTreeMap<Key, Write>,
    pub pushes: Vec<Push>,
    pub transitions: Vec<Transition>,
    pub certified: Vec<Certified>,
    pub usage_dropped: u64,
}

impl Batch {
    /// Takes over what one step brought about; of two writes of one key the later wins.
    pub fn add(&mut self, event: Event, answer: Option<Answer>, output: Output) {
        for write in output.writes {
            self.writes.insert(write.key(), write);
        }
        self.pushes.extend(output.pushes);
        self.transitions.extend(output.transitions);
        self.certified.extend(output.certified);
        self.usage_dropped += output.usage_dropped;
        self.stepped.push(Stepped { event, answer, reply: output.reply });
    }

    pub fn is_empty(&self) -> bool {
        self.stepped.is_empty()
    }
}

/// Whether an agent said it, so that it must not be lost when the store takes no writes for a while.
pub(crate) fn is_agents(event: &Event) -> bool {
    matches!(
        event,
        Event::AgentInventory { .. } | Event::AgentObserved { .. } | Event::AgentDisconnected { .. }
    )
}
