//! Asks on a thread of its own, with a limit: a GPU that has fallen off the bus may hold a call for good.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

use node_agent_dylib::LoadError;

use crate::{
    asked::{self, Driver},
    library::{Library, NvmlError},
};

/// Why NVML says nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no library.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It does not initialize, or gives no number of GPUs.
    #[error(transparent)]
    Refused(#[from] NvmlError),
    /// It has not answered for this long, and no second call is made until it does.
    #[error("NVML has not answered for {0:?}; a GPU that hangs does so until it is reset")]
    Silent(Duration),
    /// No thread can be made, or it ended without an answer.
    #[error("NVML cannot be asked: {0}")]
    Thread(String),
}

type Answer = Result<Driver, ReadError>;

/// Asks NVML. At most one thread of it is under way.
#[derive(Debug, Default)]
pub struct Reader {
    path: Option<PathBuf>,
    library: Arc<Mutex<Option<Arc<Library>>>>,
    under_way: Mutex<Option<Receiver<Answer>>>,
}

impl Reader {
    /// Of the system's NVML; nothing is loaded before it is asked.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a library that stands in for it.
    #[must_use]
    pub fn of(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// What NVML answers, if it does so within `limit`. An answer that came later than a former limit is given now.
    ///
    /// # Errors
    /// There is no NVML, it refuses, or it is silent.
    pub fn read(&self, limit: Duration) -> Answer {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = match under_way.take() {
            Some(receiver) => receiver,
            None => self.begin()?,
        };
        match receiver.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                *under_way = Some(receiver);
                Err(ReadError::Silent(limit))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(ReadError::Thread("it ended without an answer".to_owned()))
            }
        }
    }

    fn begin(&self) -> Result<Receiver<Answer>, ReadError> {
        let (send, receive) = sync_channel(1);
        let (path, library) = (self.path.clone(), Arc::clone(&self.library));
        let run = move || {
            // Whoever asked may have gone.
            let _ = send.send(ask(path.as_deref(), &library));
        };
        let started = thread::Builder::new().name("nvml".to_owned()).spawn(run);
        started.map(|_| receive).map_err(|error| ReadError::Thread(error.to_string()))
    }
}

/// The library is loaded once and then kept; while it is not there, it is looked for each time.
fn ask(path: Option<&std::path::Path>, library: &Mutex<Option<Arc<Library>>>) -> Answer {
    let loaded = {
        let mut library = library.lock().unwrap_or_else(PoisonError::into_inner);
        match &*library {
            Some(loaded) => Arc::clone(loaded),
            None => Arc::clone(library.insert(Arc::new(Library::load(path)?))),
        }
    };
    Ok(asked::ask(&loaded)?)
}
