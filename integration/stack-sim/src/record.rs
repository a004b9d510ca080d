//! What happens in a run: a digest of all of it, a story for people, and the first violation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The record of one run; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<RecordedEvent>>);

/// What one run has recorded so far.
#[derive(Debug, Default)]
pub struct RecordedEvent {
    /// The simulated time in milliseconds since the start.
    pub now_ms: u64,
    /// Of every event with its time.
    pub digest: Digest,
    /// The number of events.
    pub events: u64,
    /// Lines for people, if they are kept.
    pub story: Option<Vec<String>>,
    /// The first thing that must not be.
    pub violation: Option<(u64, String)>,
}

/// FNV-1a, 64 bits: enough to see that two runs differ, and the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes bytes into the digest.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Record {
    /// One that keeps a story, or none.
    #[must_use]
    pub fn new(story: bool) -> Self {
        let record = Self::default();
        record.noted().story = story.then(Vec::new);
        record
    }

    /// Locks what was recorded so far.
    pub fn noted(&self) -> MutexGuard<'_, RecordedEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The simulated time in milliseconds since the start.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.noted().now_ms
    }

    /// An event, in words.
    pub fn report(&self, line: &str) {
        let mut noted = self.noted();
        let now = noted.now_ms;
        noted.events += 1;
        noted.digest.add(&now.to_le_bytes());
        noted.digest.add(line.as_bytes());
        if let Some(story) = &mut noted.story {
            story.push(format!("{now:>6} ms  {line}"));
        }
    }

    /// Bytes that belong to the next event.
    pub fn add(&self, bytes: &[u8]) {
        self.noted().digest.add(bytes);
    }

    /// Something that must not be. The first one counts.
    pub fn fail(&self, what: String) {
        self.report(&format!("VIOLATION {what}"));
        let mut noted = self.noted();
        let now = noted.now_ms;
        noted.violation.get_or_insert((now, what));
    }
}
