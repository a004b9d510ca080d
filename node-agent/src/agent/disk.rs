//! The thread that writes what must survive a power cut. A disk that takes long then holds up whoever waits for that write, and no other
//! task of the agent: its heartbeats, its logs and its connections to supervisors go on.

use std::{fmt, io, thread};

use tokio::sync::{mpsc, oneshot};

/// Writes that wait for the thread; who has one more waits for a place.
const WRITES: usize = 64;

type Write = Box<dyn FnOnce() + Send>;

/// Writes files in the order in which they are given.
#[derive(Clone)]
pub(crate) struct Disk {
    writes: mpsc::Sender<Write>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// Starts the thread; it ends with the last handle.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start() -> io::Result<Self> {
        let (writes, mut given) = mpsc::channel::<Write>(WRITES);
        let run = move || {
            while let Some(write) = given.blocking_recv() {
                write();
            }
        };
        thread::Builder::new().name("disk".to_owned()).spawn(run)?;
        Ok(Self { writes })
    }

    /// Has the thread do it, after all that was given before, and waits for what it gives.
    ///
    /// # Errors
    /// The thread is gone; then nothing is known of the write.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let gone = |()| io::Error::other("the thread that writes files is gone");
        let (done, heard) = oneshot::channel();
        let write = move || {
            // Whoever waited may have been ended meanwhile.
            let _ = done.send(write());
        };
        self.writes.send(Box::new(write)).await.map_err(|_| gone(()))?;
        heard.await.map_err(|_| gone(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc::sync_channel};

    /// One thread runs all tasks here: a write that held it up would never end.
    #[tokio::test(flavor = "current_thread")]
    async fn other_tasks_go_on_while_a_write_takes_long() {
        let disk = Disk::start().unwrap();
        let (go_on, wait) = sync_channel::<()>(0);
        let write = disk.run(move || wait.recv().is_ok());
        let other = async { tokio::task::spawn_blocking(move || go_on.send(()).is_ok()).await.unwrap() };
        let (written, sent) = tokio::join!(write, other);
        assert!(written.unwrap() && sent);
    }

    #[tokio::test]
    async fn writes_keep_their_order_and_give_their_errors() {
        let disk = Disk::start().unwrap();
        let order: Arc<Mutex<Vec<u32>>> = Arc::default();
        let note = |number: u32| {
            let order = Arc::clone(&order);
            disk.run(move || order.lock().unwrap().push(number))
        };
        let (a, b, c) = tokio::join!(note(1), note(2), note(3));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
        let full: io::Result<()> = disk.run(|| Err(io::Error::other("full"))).await.unwrap();
        assert_eq!(full.unwrap_err().to_string(), "full");
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_is_an_error() {
        let disk = Disk::start().unwrap();
        let first: io::Result<()> = disk.run(|| panic!("on purpose")).await;
        assert!(first.is_err());
        assert!(disk.run(|| ()).await.is_err());
    }
}
