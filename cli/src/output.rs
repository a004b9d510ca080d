//! Standard output is data, standard error is talk.

use std::{
    ffi::OsString,
    io::{self, Write as _},
};

use crate::error::Error;

/// Writes data; a reader that has gone ends the command quietly.
///
/// # Errors
/// [`Error::OutputClosed`] if the reader has gone; [`Error::Output`] if standard output cannot be written to.
pub fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// The same for bytes as a rank wrote them.
///
/// # Errors
/// As [`print`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => Error::Output(error),
    })
}

/// Whether a command line asks for JSON: then errors are JSON too, also those of the command line itself.
pub fn wants_json(words: impl IntoIterator<Item = OsString>) -> bool {
    let mut words = words.into_iter();
    let mut json = false;
    while let Some(word) = words.next() {
        json = match word.to_str() {
            // What follows is another program's.
            Some("--") => return json,
            Some("-o" | "--output") => words.next().is_some_and(|word| word.eq_ignore_ascii_case("json")),
            Some(text) => match text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o")) {
                Some(format) => format.trim_start_matches('=').eq_ignore_ascii_case("json"),
                None => json,
            },
            None => json,
        };
    }
    json
}

/// Seconds since the epoch.
#[must_use]
pub fn now() -> f64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    passed.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_in_many_ways() {
        for (line, json) in [
            ("get jobs -o json", true),
            ("get jobs -ojson", true),
            ("get jobs -o=JSON x", true),
            ("get jobs --output json", true),
            ("get jobs --output=json", true),
            ("get jobs -o yaml", false),
            ("get jobs", false),
            ("get jobs -o", false),
            ("run --job a -- tool -o json", false),
        ] {
            assert_eq!(wants_json(line.split(' ').map(OsString::from)), json, "{line}");
        }
    }
}
