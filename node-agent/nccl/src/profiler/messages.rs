//! The messages of one of the proxy's operations that are under way. [pure]
//!
//! NCCL numbers the steps of an operation. Up to 2.23 a message may be several steps, which begin, change and end together; later one. A
//! step may begin more than once before anything happens to it, as where a receive is tried again.

/// Most messages of one operation that are under way; NCCL has at most 8.
const MOST: usize = 64;

#[derive(Debug)]
struct Message {
    /// The steps that it is.
    first: i32,
    last: i32,
    event: u64,
    /// Something has happened to it: no further step is part of it.
    whole: bool,
}

/// The messages under way, by what NCCL knows of them.
#[derive(Debug, Default)]
pub(super) struct Messages(Vec<Message>);

impl Messages {
    /// The message that this step is part of, if it has begun; the step is part of it from then on.
    pub(super) fn join(&mut self, step: i32) -> Option<u64> {
        let known = |message: &&mut Message| message.first <= step && step <= message.last;
        if let Some(message) = self.0.iter_mut().find(known) {
            return Some(message.event);
        }
        let next = |message: &&mut Message| !message.whole && message.last.checked_add(1) == Some(step);
        let message = self.0.iter_mut().find(next)?;
        message.last = step;
        Some(message.event)
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < MOST
    }

    /// A message begins with this step.
    pub(super) fn begin(&mut self, step: i32, event: u64) {
        self.0.push(Message { first: step, last: step, event, whole: false });
    }

    /// Something happens to a message.
    pub(super) fn set_whole(&mut self, event: u64) {
        if let Some(message) = self.0.iter_mut().find(|message| message.event == event) {
            message.whole = true;
        }
    }

    /// The message whose last step is the last of so many.
    pub(super) fn ending(&self, steps: i32) -> Option<u64> {
        let ends = |message: &&Message| message.last.checked_add(1) == Some(steps);
        self.0.iter().find(ends).map(|message| message.event)
    }

    /// A message is over.
    pub(super) fn remove(&mut self, event: u64) {
        self.0.retain(|message| message.event != event);
    }

    /// All that are still under way.
    pub(super) fn events(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|message| message.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_begin_together_are_one_message() {
        let mut messages = Messages::default();
        assert_eq!(messages.join(0), None);
        messages.begin(0, 7);
        // Again, and its second step, and both again.
        assert_eq!([0, 1, 0, 1].map(|step| messages.join(step)), [Some(7); 4]);
        assert_eq!((messages.ending(1), messages.ending(2)), (None, Some(7)));
        messages.set_whole(7);
        assert_eq!(messages.join(2), None, "another message");
        messages.begin(2, 8);
        assert_eq!(messages.join(3), Some(8));
        messages.remove(7);
        assert_eq!((messages.join(1), messages.ending(4)), (None, Some(8)));
        assert_eq!(messages.events().collect::<Vec<_>>(), [8]);
        // Whatever numbers there are.
        messages.begin(i32::MAX, 9);
        assert_eq!(messages.ending(i32::MIN), None);
        (0..100).for_each(|step| messages.begin(10 * step, 0));
        assert!(!messages.has_room());
    }
}
