//! The supervisor's end of the engine's life: the job key comes as the first line, the end of input means stop.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use node_agent_engine::{JobKey, Stopper};

/// How long the supervisor has to give the key.
const KEY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of the first line: the key and some white space.
const MAX_KEY_LINE: u64 = 256;

/// A thread that reads standard input for as long as the engine lives.
pub(crate) struct Input {
    first_line: Receiver<Option<String>>,
    stopper: Arc<OnceLock<Stopper>>,
    ended: Arc<OnceLock<()>>,
}

impl Input {
    /// Starts a thread that reads standard input: the job key first, then until it ends.
    pub(crate) fn watch() -> std::io::Result<Self> {
        let (sender, first_line) = sync_channel(1);
        let input = Self { first_line, stopper: Arc::default(), ended: Arc::default() };
        let (stopper, ended) = (input.stopper.clone(), input.ended.clone());
        std::thread::Builder::new().name("input".into()).spawn(move || {
            read_to_end(&sender);
            let _ = ended.set(());
            if let Some(stopper) = stopper.get() {
                stopper.stop(REASON);
            }
        })?;
        Ok(input)
    }

    /// Waits for the job key, which is the first line of standard input.
    pub(crate) fn key(&self) -> Result<JobKey, String> {
        match self.first_line.recv_timeout(KEY_TIMEOUT) {
            Ok(Some(line)) => JobKey::from_hex(&line).ok_or_else(|| {
                "the first line of standard input is no job key: 64 hexadecimal digits".to_owned()
            }),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                Err("standard input ended before a job key came".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no job key came on standard input within {} s", KEY_TIMEOUT.as_secs()))
            }
        }
    }

    /// Stops the engine when the input ends, or at once if it has.
    pub(crate) fn stop_at_end(&self, stopper: Stopper) {
        let _ = self.stopper.set(stopper.clone());
        if self.ended.get().is_some() {
            stopper.stop(REASON);
        }
    }
}

const REASON: &str = "the supervisor is gone (the engine's standard input was closed)";

fn read_to_end(first_line: &SyncSender<Option<String>>) {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    let read = input.by_ref().take(MAX_KEY_LINE).read_line(&mut line);
    let _ = first_line.try_send(matches!(read, Ok(n) if n > 0).then_some(line));
    // Nothing more is expected; whatever comes is thrown away until the end.
    let _ = std::io::copy(&mut input, &mut std::io::sink());
}
