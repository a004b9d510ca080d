//! Waiting for a condition, never for a time.

use std::{
    thread,
    time::{Duration, Instant},
};

/// When to give up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// Whether the time has come.
    #[must_use]
    pub fn passed(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Looks again and again until `probe` gives a value.
///
/// # Errors
/// The time is up; the text says what was waited for.
pub fn eventually<T>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    let deadline = Deadline::after(within);
    loop {
        if let Some(value) = probe() {
            return Ok(value);
        }
        if deadline.passed() {
            return Err(format!("waited {within:?} for: {what}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}
