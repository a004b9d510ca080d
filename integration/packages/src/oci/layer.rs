//! A layer: an archive of a tree, compressed, with the two digests by which it is known.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use sha2::{Digest as _, Sha256};

use super::tree::{Tree, What};
use crate::archive::{Archive, Entry};

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The compressed archive.
    pub blob: Vec<u8>,
    /// SHA-256 of the archive before it was compressed, in hexadecimal digits.
    pub diff_id: String,
    /// How the layer came to be, in a few words.
    pub made: String,
}

impl Layer {
    /// Packs a tree.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn of(tree: &Tree, made: impl Into<String>) -> io::Result<Self> {
        let packed = GzBuilder::new().write(Vec::new(), Compression::best());
        let mut archive = Archive::new(Hashed { hash: Sha256::new(), inner: packed });
        for (path, node) in tree.iter() {
            let entry = Entry { path, mode: node.mode, modified: node.modified };
            match &node.what {
                What::File(bytes) => archive.file(entry, bytes)?,
                What::Link(target) => archive.link(entry, target)?,
                What::Folder => archive.folder(Entry { path: &format!("{path}/"), ..entry })?,
            }
        }
        let Hashed { hash, inner } = archive.finish()?;
        Ok(Self { blob: inner.finish()?, diff_id: hex(&hash.finalize()), made: made.into() })
    }
}

/// Takes the digest of what passes.
struct Hashed {
    hash: Sha256,
    inner: GzEncoder<Vec<u8>>,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(bytes)?;
        self.hash.update(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// SHA-256 of bytes, in hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
