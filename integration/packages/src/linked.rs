//! What programs are linked to, from what `objdump -p` prints of them, as dependencies of packages.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;

/// Shared libraries that a package's programs are linked to, each with the versions of symbols that they take from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Linked {
    libraries: BTreeMap<String, BTreeSet<String>>,
}

/// Which package of Debian has a library.
const DEBIAN: [(&str, &str); 5] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libstdc++.so.6", "libstdc++6"),
    ("ld-linux", "libc6"),
];

impl Linked {
    /// Adds what `objdump -p` has printed of one program: lines `NEEDED`, and versions below `required from`.
    pub fn add(&mut self, printed: &str) {
        let mut from: Option<String> = None;
        for line in printed.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["NEEDED", library] => {
                    self.libraries.entry((*library).to_owned()).or_default();
                }
                ["required", "from", library] => from = Some(library.trim_end_matches(':').to_owned()),
                [hash, _, _, version] if hash.starts_with("0x") => {
                    if let Some(library) = &from {
                        self.libraries.entry(library.clone()).or_default().insert((*version).to_owned());
                    }
                }
                _ => from = None,
            }
        }
    }

    /// As relations of Debian: `libc6 (>= 2.34)`, `libgcc-s1`.
    ///
    /// # Errors
    /// [`Error::UnknownLibrary`]
    pub fn debian(&self, program: &str) -> Result<Vec<String>, Error> {
        let mut least: BTreeMap<&str, Option<Vec<u32>>> = BTreeMap::new();
        for (library, versions) in &self.libraries {
            let known = DEBIAN.iter().find(|(begins, _)| library.starts_with(begins));
            let (_, package) = known.ok_or_else(|| Error::UnknownLibrary {
                program: program.to_owned(),
                library: library.clone(),
            })?;
            let highest = versions.iter().filter_map(|version| number(version.strip_prefix("GLIBC_")?)).max();
            let entry = least.entry(package).or_default();
            *entry = entry.take().max(highest);
        }
        let shown = |(package, version): (&str, Option<Vec<u32>>)| match version {
            Some(version) => {
                let parts: Vec<String> = version.iter().map(u32::to_string).collect();
                format!("{package} (>= {})", parts.join("."))
            }
            None => package.to_owned(),
        };
        Ok(least.into_iter().map(shown).collect())
    }

    /// As names that packages of RPM provide: `libc.so.6(GLIBC_2.34)(64bit)`.
    #[must_use]
    pub fn rpm(&self) -> Vec<String> {
        let of = |(library, versions): (&String, &BTreeSet<String>)| {
            let named = versions.iter().map(|version| format!("{library}({version})(64bit)"));
            std::iter::once(format!("{library}()(64bit)")).chain(named).collect::<Vec<_>>()
        };
        self.libraries.iter().flat_map(of).collect()
    }
}

/// A version in its parts; `None` of a word such as `PRIVATE`.
fn number(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "
Dynamic Section:
  NEEDED               libgcc_s.so.1
  NEEDED               libc.so.6
  NEEDED               ld-linux-x86-64.so.2
  INIT                 0x0000000000052000

Version References:
  required from libgcc_s.so.1:
    0x0b792650 0x00 08 GCC_3.0
  required from libc.so.6:
    0x09691a75 0x00 05 GLIBC_2.2.5
    0x069691b4 0x00 03 GLIBC_2.34
    0x06969190 0x00 02 GLIBC_2.9
";

    #[test]
    fn the_highest_version_of_a_library_decides_by_numbers() {
        let mut linked = Linked::default();
        linked.add(PRINTED);
        assert_eq!(linked.debian("x").unwrap(), ["libc6 (>= 2.34)", "libgcc-s1"]);
        assert!(linked.rpm().contains(&"libc.so.6(GLIBC_2.34)(64bit)".to_owned()), "{:?}", linked.rpm());
        linked.add("  NEEDED               libssl.so.3\n");
        let error = linked.debian("railctl").unwrap_err().to_string();
        assert!(error.contains("railctl is linked to libssl.so.3"), "{error}");
    }
}
