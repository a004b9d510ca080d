//! The queue of events: by time, and in the order of their coming. What is sorted is small; the events themselves stay put.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Time, order of coming, place of the event.
type EventKey = Reverse<(u64, u32, u32)>;

/// The events that are still to come.
#[derive(Debug)]
pub struct Queue<E> {
    turns: BinaryHeap<EventKey>,
    order: u32,
    events: Vec<Option<E>>,
    free: Vec<u32>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { turns: BinaryHeap::new(), order: 0, events: Vec::new(), free: Vec::new() }
    }
}

impl<E> Queue<E> {
    /// An event comes at a time.
    pub fn push(&mut self, time: u64, event: E) {
        self.order += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            u32::try_from(self.events.len() - 1).unwrap_or(u32::MAX)
        });
        self.events[place as usize] = Some(event);
        self.turns.push(Reverse((time, self.order, place)));
    }

    /// The next event, if it comes by then, with its time.
    pub fn pop(&mut self, until: u64) -> Option<(u64, E)> {
        self.turns.peek().filter(|Reverse((time, ..))| *time <= until)?;
        let Reverse((time, _, place)) = self.turns.pop()?;
        self.free.push(place);
        Some((time, self.events[place as usize].take()?))
    }
}
