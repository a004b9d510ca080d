//! Gives channels back on a thread of its own: a device may take its time over a queue pair whose packets still wait in some queue
//! (Soft-RoCE waits for every one of them), and the rails that live must not wait for it. Nobody reads a ring that was
//! handed over, so what the peer may still write there before the queue pair is gone reaches nobody.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// How long the end waits for all that was handed over. A device that takes longer is left to the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);

/// The thread; it ends, when all is given back, with whoever made it.
#[derive(Debug)]
pub(crate) struct Reaper<T> {
    /// Nothing at the end, or where there can be no thread.
    ended: Option<Sender<T>>,
    /// Says by its end that the thread has ended.
    over: Option<Receiver<()>>,
}

impl<T: Send + 'static> Reaper<T> {
    pub(crate) fn new() -> Self {
        let ((ended, queue), (alive, over)) = (channel(), channel());
        let work = move || {
            queue.into_iter().for_each(drop);
            drop(alive);
        };
        match Builder::new().name("verbs-reaper".into()).spawn(work) {
            Ok(_) => Reaper { ended: Some(ended), over: Some(over) },
            Err(error) => {
                tracing::warn!(%error, "channels are given back where they end");
                Reaper { ended: None, over: None }
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
        if let Some(over) = &self.over
            && over.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            tracing::warn!("a device does not give queue pairs back");
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
