//! A tar archive in which everything is root's.

use std::io::{self, Write};

/// The longest name that a header has room for.
const LONGEST: usize = 100;

/// An archive under way.
pub(crate) struct Archive<W: Write> {
    inner: tar::Builder<W>,
}

/// What is the same of every kind of entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// As it stands in the archive: what begins with `./` keeps that.
    pub path: &'a str,
    pub mode: u32,
    /// Seconds since 1970.
    pub modified: u32,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(path: &'a str, mode: u32, modified: u32) -> Self {
        Self { path, mode, modified }
    }
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { inner: tar::Builder::new(to) }
    }

    /// `path` ends with a slash.
    pub(crate) fn folder(&mut self, entry: Entry<'_>) -> io::Result<()> {
        self.add(entry, tar::EntryType::Directory, None, &[])
    }

    pub(crate) fn file(&mut self, entry: Entry<'_>, bytes: &[u8]) -> io::Result<()> {
        self.add(entry, tar::EntryType::Regular, None, bytes)
    }

    /// Its permissions are those of all links.
    pub(crate) fn link(&mut self, entry: Entry<'_>, target: &str) -> io::Result<()> {
        self.add(Entry { mode: 0o777, ..entry }, tar::EntryType::Symlink, Some(target), &[])
    }

    /// Ends the archive; gives back what it was written to.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.inner.into_inner()
    }

    fn add(
        &mut self,
        entry: Entry<'_>,
        kind: tar::EntryType,
        link: Option<&str>,
        bytes: &[u8],
    ) -> io::Result<()> {
        if entry.path.len() > LONGEST {
            self.long(tar::EntryType::GNULongName, entry.path)?;
        }
        if let Some(target) = link.filter(|target| target.len() > LONGEST) {
            self.long(tar::EntryType::GNULongLink, target)?;
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(entry.mode);
        header.set_mtime(u64::from(entry.modified));
        self.append(header, entry.path, link.unwrap_or_default(), bytes)
    }

    /// The whole name of the entry that follows, of which its own header has the beginning alone.
    fn long(&mut self, kind: tar::EntryType, name: &str) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_mtime(0);
        let whole = [name.as_bytes(), b"\0"].concat();
        self.append(header, "././@LongLink", "", &whole)
    }

    fn append(&mut self, mut header: tar::Header, path: &str, link: &str, bytes: &[u8]) -> io::Result<()> {
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        header.set_size(u64::try_from(bytes.len()).map_err(io::Error::other)?);
        // Not by what sets a path, which takes the `./` in front away that Debian's archives have.
        let gnu = header.as_gnu_mut().ok_or_else(|| io::Error::other("no GNU header"))?;
        fill(&mut gnu.name, path);
        fill(&mut gnu.linkname, link);
        header.set_cksum();
        self.inner.append(&header, bytes)
    }
}

/// As much of a text as there is room for.
fn fill(room: &mut [u8; LONGEST], text: &str) {
    let length = text.len().min(LONGEST);
    room[..length].copy_from_slice(&text.as_bytes()[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_links_are_whole() {
        let (path, target) = ("a/".repeat(60) + "file", "../".repeat(50) + "there");
        let mut archive = Archive::new(Vec::new());
        archive.folder(Entry::new("./", 0o755, 7)).unwrap();
        archive.file(Entry::new(&path, 0o644, 7), b"text").unwrap();
        archive.link(Entry::new("link", 0o777, 7), &target).unwrap();
        let bytes = archive.finish().unwrap();
        let mut read = tar::Archive::new(&bytes[..]);
        let mut found = Vec::new();
        for entry in read.entries().unwrap() {
            let entry = entry.unwrap();
            let link = entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default();
            found.push((String::from_utf8(entry.path_bytes().into_owned()).unwrap(), link));
        }
        let want =
            [("./".to_owned(), Vec::new()), (path, Vec::new()), ("link".to_owned(), target.into_bytes())];
        assert_eq!(found, want);
    }
}
