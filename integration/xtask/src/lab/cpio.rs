//! Archives as the kernel takes them for its first file system (format "newc": Documentation/driver-api/early-userspace/buffer-format.rst
//! of the kernel). Several, one behind the other, are one.

/// An archive that grows.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: std::collections::BTreeSet<String>,
}

const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

impl Archive {
    /// Adds a file that everybody may run, and the folders it lies in; `path` has no slash in front.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.above(path);
        self.entry(path, FILE | 0o755, content, (0, 0));
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.above(path);
        self.entry(path, LINK | 0o777, target.as_bytes(), (0, 0));
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str) {
        self.above(&format!("{path}/"));
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, number: (u32, u32)) {
        self.above(path);
        self.entry(path, CHARACTER | 0o600, &[], number);
    }

    /// The whole, padded so that another may follow.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }

    fn above(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            if self.folders.insert(path[..at].to_owned()) {
                self.entry(&path[..at], FOLDER | 0o755, &[], (0, 0));
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], (major, minor): (u32, u32)) {
        self.entries += 1;
        let links = if mode & 0o170_000 == FOLDER { 2 } else { 1 };
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend(b"070701");
        for field in [self.entries, mode, 0, 0, links, 0, size, 0, 0, major, minor, length, 0] {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back: names, modes and contents.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |n: usize| {
                let digits = std::str::from_utf8(&bytes[6 + 8 * n..14 + 8 * n]).unwrap();
                u32::from_str_radix(digits, 16).unwrap() as usize
            };
            let (mode, size, length) = (field(1) as u32, field(6), field(11));
            let name = std::str::from_utf8(&bytes[110..110 + length - 1]).unwrap().to_owned();
            let content = (110 + length).next_multiple_of(4);
            if name == "TRAILER!!!" {
                return entries;
            }
            entries.push((name, mode, bytes[content..content + size].to_vec()));
            bytes = &bytes[(content + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn files_lie_in_folders_that_come_first_and_once() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"hello");
        archive.file("a/b/d", b"");
        archive.link("a/e", "b/c");
        archive.device("dev/console", (5, 1));
        archive.folder("proc");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let names: Vec<_> = read(&bytes).into_iter().map(|(name, mode, _)| (name, mode)).collect();
        let want = [
            ("a", 0o040_755),
            ("a/b", 0o040_755),
            ("a/b/c", 0o100_755),
            ("a/b/d", 0o100_755),
            ("a/e", 0o120_777),
            ("dev", 0o040_755),
            ("dev/console", 0o020_600),
            ("proc", 0o040_755),
        ];
        assert_eq!(names, want.map(|(name, mode)| (name.to_owned(), mode)));
        assert_eq!(read(&bytes)[2].2, b"hello");
    }
}
