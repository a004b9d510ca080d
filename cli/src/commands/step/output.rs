//! What a step's processes write, as they wrote it, or line by line with the names of their servers.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use crate::{error::Error, output::print_bytes};

/// A line is shown in parts beyond this.
const MAX_LINE: usize = 64 << 10;

/// Puts names before lines.
#[derive(Debug, Default)]
struct Labels {
    on: bool,
    /// Servers have several processes: the name alone would not tell which.
    several: bool,
    /// The beginning of lines.
    held: BTreeMap<(u32, bool), (String, Vec<u8>)>,
}

impl Labels {
    fn take(&mut self, node: &str, rank: u32, error: bool, data: &[u8]) -> Vec<u8> {
        if !self.on {
            return data.to_vec();
        }
        let several = self.several;
        let label = || if several { format!("{node}[{rank}]: ") } else { format!("{node}: ") };
        let (label, held) = self.held.entry((rank, error)).or_insert_with(|| (label(), Vec::new()));
        let mut shown = Vec::new();
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            held.extend_from_slice(part);
            if part.ends_with(b"\n") || held.len() >= MAX_LINE {
                shown.extend_from_slice(label.as_bytes());
                shown.append(held);
                if !shown.ends_with(b"\n") {
                    shown.push(b'\n');
                }
            }
        }
        shown
    }

    /// Lines that have no end: for standard output, and for standard error.
    fn rest(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut rest = (Vec::new(), Vec::new());
        for ((_, error), (label, held)) in std::mem::take(&mut self.held) {
            let to = if error { &mut rest.1 } else { &mut rest.0 };
            if !held.is_empty() {
                to.extend_from_slice(label.as_bytes());
                to.extend(held);
                to.push(b'\n');
            }
        }
        rest
    }
}

/// Writes output as it comes; with labels line by line, each with its server.
#[derive(Debug)]
pub struct Writer(Labels);

impl Writer {
    pub fn new(label: bool, several: bool) -> Self {
        Self(Labels { on: label, several, held: BTreeMap::new() })
    }

    /// Writes bytes that a process wrote to standard output.
    ///
    /// # Errors
    /// [`Error::Output`] if standard output cannot be written to.
    pub fn out(&mut self, node: &str, rank: u32, data: &[u8]) -> Result<(), Error> {
        print_bytes(&self.0.take(node, rank, false, data))
    }

    /// Writes bytes that a process wrote to standard error.
    ///
    /// # Errors
    /// None today: a failed write to standard error is ignored.
    pub fn err(&mut self, node: &str, rank: u32, data: &[u8]) -> Result<(), Error> {
        write_error(&self.0.take(node, rank, true, data));
        Ok(())
    }

    /// What has no end of its line.
    ///
    /// # Errors
    /// [`Error::Output`] if standard output cannot be written to.
    pub fn rest(&mut self) -> Result<(), Error> {
        let (out, err) = self.0.rest();
        write_error(&err);
        print_bytes(&out)
    }
}

pub fn write_error(data: &[u8]) {
    // Whoever does not read our errors misses them.
    let _ = io::stderr().lock().write_all(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_labelled_whole() {
        let mut labels = Labels { on: true, ..Labels::default() };
        assert_eq!(labels.take("n0", 0, false, b"a\nb"), b"n0: a\n");
        assert_eq!(labels.take("n1", 1, false, b"x\n"), b"n1: x\n");
        assert_eq!(labels.take("n0", 0, true, b"e"), b"");
        assert_eq!(labels.take("n0", 0, false, b"c\n\nd"), b"n0: bc\nn0: \n");
        assert_eq!(labels.rest(), (b"n0: d\n".to_vec(), b"n0: e\n".to_vec()));
        let long = labels.take("n0", 0, false, &vec![b'x'; MAX_LINE]);
        assert_eq!(long.len(), 4 + MAX_LINE + 1);
        let mut several = Labels { on: true, several: true, ..Labels::default() };
        assert_eq!(several.take("n0", 3, false, b"a\n"), b"n0[3]: a\n");
        assert_eq!(Labels::default().take("n0", 0, false, b"a"), b"a");
    }
}
