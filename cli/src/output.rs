//! Standard output is data, standard error is talk.

use std::io::{self, Write as _};

use crate::error::Error;

/// Writes data; a reader that has gone ends the command quietly.
pub fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// The same for bytes as a rank wrote them.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => Error::Output(error),
    })
}

/// Seconds since the epoch.
#[must_use]
pub fn now() -> f64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    passed.unwrap_or_default().as_secs_f64()
}
