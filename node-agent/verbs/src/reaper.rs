//! Gives lanes back on a thread of its own: a device may take its time over a queue pair whose packets still wait in some queue
//! (Soft-RoCE waits for every one of them), and the rails that live must not wait for it. Nobody reads a ring that was
//! handed over, so what the peer may still write there before the queue pair is gone reaches nobody.

use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// The thread; it ends, when all is given back, with whoever made it.
#[derive(Debug)]
pub(crate) struct Reaper<T> {
    /// Nothing at the end, or where there can be no thread.
    ended: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Reaper<T> {
    pub(crate) fn new() -> Self {
        let (ended, queue) = channel();
        let thread =
            Builder::new().name("verbs-reaper".into()).spawn(move || queue.into_iter().for_each(drop));
        match thread {
            Ok(thread) => Reaper { ended: Some(ended), thread: Some(thread) },
            Err(error) => {
                tracing::warn!(%error, "lanes are given back where they end");
                Reaper { ended: None, thread: None }
            }
        }
    }

    /// Gives something back, now or soon.
    pub(crate) fn take(&self, ended: T) {
        if let Some(sender) = &self.ended {
            // Comes back, and is dropped here, if the thread is gone.
            let _ = sender.send(ended);
        }
    }
}

impl<T> Drop for Reaper<T> {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(thread) = self.thread.take() {
            // It holds nothing that a panic could leave behind.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn all_is_given_back_when_it_ends() {
        let (one, reaper) = (Arc::new(()), Reaper::new());
        (0..100).for_each(|_| reaper.take(Arc::clone(&one)));
        drop(reaper);
        assert_eq!(Arc::strong_count(&one), 1);
    }
}
