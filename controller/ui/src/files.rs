//! The files, as they were built, with their types and hashes.

use std::{io::Read, sync::OnceLock};

use flate2::read::GzDecoder;

/// What was built, and of what: lines of `KIND HASH PATH`, KIND being `asset` or `source`, HASH the SHA-256 in hexadecimal.
pub(crate) const MANIFEST: &str = include_str!("../assets/manifest.txt");

/// One file of the pages.
#[derive(Debug)]
pub(crate) struct File {
    /// Its name below `/ui/`.
    pub name: &'static str,
    /// For `Content-Type`.
    pub kind: &'static str,
    /// All of it, packed by gzip.
    pub packed: &'static [u8],
    /// Unpacked, once somebody asks who does not take it packed.
    plain: OnceLock<Vec<u8>>,
}

impl File {
    const fn new(name: &'static str, kind: &'static str, packed: &'static [u8]) -> Self {
        Self { name, kind, packed, plain: OnceLock::new() }
    }

    /// All of it, as it was built.
    pub(crate) fn bytes(&'static self) -> &'static [u8] {
        self.plain.get_or_init(|| {
            let mut plain = Vec::new();
            // It was packed when this was built; a test unpacks every file.
            match GzDecoder::new(self.packed).read_to_end(&mut plain) {
                Ok(_) => plain,
                Err(_) => Vec::new(),
            }
        })
    }
}

/// The page that all others are drawn in.
pub(crate) const INDEX: &str = "index.html";

/// A file as `build.rs` packs it.
macro_rules! packed {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"))
    };
}

pub(crate) static FILES: [File; 4] = [
    File::new(INDEX, "text/html; charset=utf-8", packed!("index.html")),
    File::new("app.js", "text/javascript; charset=utf-8", packed!("app.js")),
    File::new("app.css", "text/css; charset=utf-8", packed!("app.css")),
    File::new("icon.svg", "image/svg+xml", packed!("icon.svg")),
];

/// Lines of the manifest of one kind: hash and path.
pub(crate) fn listed(kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    MANIFEST.lines().filter_map(move |line| {
        let mut words = line.split(' ');
        (words.next() == Some(kind)).then(|| Some((words.next()?, words.next()?)))?
    })
}

/// The hash of a file by the manifest; empty if it is not named there, which a test rules out.
pub(crate) fn hash(name: &str) -> &'static str {
    listed("asset").find(|(_, known)| *known == name).map_or("", |(hash, _)| hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    fn hashed(bytes: &[u8]) -> String {
        data_encoding::HEXLOWER.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
    }

    #[test]
    fn files_are_as_the_manifest_says() {
        for file in &FILES {
            assert_eq!(hash(file.name), hashed(file.bytes()), "{}: run `npm run build` in web/", file.name);
        }
        assert_eq!(listed("asset").count(), FILES.len());
    }

    /// Whoever changes a source, or a file of the client that is built in, has to build the pages again.
    #[test]
    fn files_are_built_of_these_sources() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        for (hash, path) in listed("source") {
            let bytes = fs::read(web.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(
                hash,
                hashed(&bytes),
                "{path} has changed: run `npm ci && npm run build` in {}",
                web.display()
            );
        }
    }

    #[test]
    fn every_source_is_in_the_manifest() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let known: BTreeSet<_> = listed("source").map(|(_, path)| path.to_owned()).collect();
        let mut folders = vec![web.join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&web).unwrap().to_str().unwrap().to_owned();
                    assert!(known.contains(&name), "{name} is not in the manifest: build the pages again");
                }
            }
        }
    }

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own() {
        let index = FILES.iter().find(|file| file.name == INDEX).unwrap();
        let text = std::str::from_utf8(index.bytes()).unwrap();
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" on"), "{text}");
        assert_eq!(
            text.matches("<script").count(),
            text.matches("<script type=\"module\" src=\"/ui/").count()
        );
        for outside in ["http:", "https:", "//"] {
            assert!(!text.contains(outside), "{outside} in {text}");
        }
    }
}
