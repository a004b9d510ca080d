//! A switch's configuration as files: names, contents, and the digest that both ends compute alike.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use proto_wire::v1::SwitchFile;
use thiserror::Error;

/// Largest file, in bytes.
pub const FILE_MAX: usize = 4 << 20;
/// Most files.
pub const FILES_MAX: usize = 16;
/// Most bytes of all files together: what was before a trial and what is tried are saved in one file of at most 16 MiB.
pub const TOTAL_MAX: usize = 7 << 20;
/// Longest name, in bytes.
const NAME_MAX: usize = 63;

/// Why files are none that a switch can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FilesError {
    /// The name is not one of a file.
    #[error("a file of a switch cannot be called {0:?}")]
    Name(String),
    /// Two have the same name.
    #[error("there are two files {0}")]
    Twice(String),
    /// One is too large.
    #[error("{0} is larger than {FILE_MAX} bytes")]
    TooLarge(String),
    /// There are too many.
    #[error("there are more than {FILES_MAX} files")]
    TooMany,
    /// All together are too large.
    #[error("the files together are larger than {TOTAL_MAX} bytes")]
    Total,
}

/// Files by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Files(BTreeMap<String, String>);

impl Files {
    /// These files.
    ///
    /// # Errors
    /// [`FilesError`] if a name, a size or their number is beyond what is allowed.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, FilesError> {
        let (mut all, mut total) = (BTreeMap::new(), 0_usize);
        for (name, content) in files {
            if !is_name(&name) {
                return Err(FilesError::Name(name.chars().take(NAME_MAX).collect()));
            }
            if content.len() > FILE_MAX {
                return Err(FilesError::TooLarge(name));
            }
            total = total.saturating_add(content.len());
            if all.contains_key(&name) {
                return Err(FilesError::Twice(name));
            }
            all.insert(name, content);
            if all.len() > FILES_MAX {
                return Err(FilesError::TooMany);
            }
        }
        if total > TOTAL_MAX { Err(FilesError::Total) } else { Ok(Self(all)) }
    }

    /// Those of a message.
    ///
    /// # Errors
    /// As [`Files::new`].
    pub fn of_wire(files: Vec<SwitchFile>) -> Result<Self, FilesError> {
        Self::new(files.into_iter().map(|file| (file.name, file.content)))
    }

    /// As a message has them.
    #[must_use]
    pub fn to_wire(&self) -> Vec<SwitchFile> {
        let file =
            |(name, content): (&String, &String)| SwitchFile { name: name.clone(), content: content.clone() };
        self.0.iter().map(file).collect()
    }

    /// The content of one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// SHA-256 over NAME, a zero byte, CONTENT, a zero byte of each, by name; in hexadecimal. Empty where there are no files.
    #[must_use]
    pub fn digest(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut context = Context::new(&SHA256);
        for (name, content) in &self.0 {
            for part in [name.as_bytes(), &[0], content.as_bytes(), &[0]] {
                context.update(part);
            }
        }
        HEXLOWER.encode(context.finish().as_ref())
    }
}

/// The schema's pattern of names of files.
fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= NAME_MAX && name.as_bytes().first().is_some_and(first) && name.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Result<Files, FilesError> {
        Files::new(all.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())))
    }

    #[test]
    fn the_digest_is_the_schemas() {
        let both = files(&[("frr.conf", "b\n"), ("config_db.json", "{}")]).unwrap();
        // printf 'config_db.json\0{}\0frr.conf\0b\n\0' | sha256sum
        assert_eq!(both.digest(), "c614cab177dafff2613c4a7b9bd7c5c044ba926aba5b24063d201a7d1d70b509");
        assert_eq!(both, files(&[("config_db.json", "{}"), ("frr.conf", "b\n")]).unwrap());
        assert_ne!(both.digest(), files(&[("config_db.json", "{}")]).unwrap().digest());
        assert_eq!(Files::default().digest(), "");
        assert_eq!(Files::of_wire(both.to_wire()), Ok(both));
    }

    #[test]
    fn what_no_switch_can_have_is_refused() {
        for bad in ["", "/etc/passwd", "../x", ".hidden", "Frr.conf", "a b", &"x".repeat(64)] {
            assert!(matches!(files(&[(bad, "")]), Err(FilesError::Name(_))), "{bad:?}");
        }
        assert!(matches!(files(&[("a", ""), ("a", "")]), Err(FilesError::Twice(_))));
        let large = "x".repeat(FILE_MAX + 1);
        assert!(matches!(files(&[("a", &large)]), Err(FilesError::TooLarge(_))));
        assert_eq!(files(&[("a", &large[1..]), ("b", &large[1..])]), Err(FilesError::Total));
        let many: Vec<String> = (0..=FILES_MAX).map(|number| format!("f{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(files(&many), Err(FilesError::TooMany));
        assert!(files(&many[1..]).is_ok());
    }
}
