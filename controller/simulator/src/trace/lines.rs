//! Lines out of pieces of bytes.

use super::row::Fault;

/// Bytes of a line at most; what is longer is one refused row.
pub(super) const MAX_LINE: usize = 64 << 10;

/// One line without its end.
pub(super) struct Line<'a> {
    /// Number of the line, from 1.
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
    /// It was longer than what is read.
    pub(super) cut: bool,
}

impl<'a> Line<'a> {
    pub(super) fn is_blank(&self) -> bool {
        !self.cut && self.bytes.iter().all(u8::is_ascii_whitespace)
    }

    pub(super) fn text(&self) -> Result<&'a str, Fault> {
        if self.cut {
            return Err(Fault::new("LineTooLong", "the line", format!("it has more than {MAX_LINE} bytes")));
        }
        std::str::from_utf8(self.bytes).map_err(|error| {
            let at = error.valid_up_to() + 1;
            Fault::new("NotText", "the line", format!("byte {at} is not UTF-8 text"))
        })
    }
}

/// Cuts lines; holds at most one.
#[derive(Default)]
pub(super) struct Lines {
    number: u64,
    rest: Vec<u8>,
    cut: bool,
}

impl Lines {
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.rest.is_empty() && !self.cut && line.len() <= MAX_LINE {
                self.number += 1;
                each(Line { number: self.number, bytes: trim(line), cut: false });
            } else {
                self.keep(line);
                self.emit(&mut each);
            }
        }
        self.keep(bytes);
    }

    pub(super) fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if !self.rest.is_empty() || self.cut {
            self.emit(&mut each);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.rest.len();
        self.cut |= bytes.len() > room;
        self.rest.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn emit(&mut self, each: &mut impl FnMut(Line<'_>)) {
        self.number += 1;
        each(Line { number: self.number, bytes: trim(&self.rest), cut: self.cut });
        self.rest.clear();
        self.cut = false;
    }
}

fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
