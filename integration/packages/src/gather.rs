//! A description and folders of built things into files: what a package has, in the order of their paths.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::{
    catalog,
    description::{Item, Package, Source},
    error::Error,
};

/// Where things are that packages are made of.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Stripped programs.
    pub programs: PathBuf,
    /// Stripped libraries.
    pub libraries: PathBuf,
    /// Man pages, not compressed.
    pub man: PathBuf,
    /// Completion scripts of railctl, each named as its shell.
    pub completions: PathBuf,
    /// The repository.
    pub repository: PathBuf,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A link to this.
    Link(&'static str),
    /// A folder.
    Folder,
}

/// One file, link or folder of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it goes, with a slash in front.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// What is there.
    pub content: Content,
    /// An administrator may change it.
    pub config: bool,
}

/// All that a package has, in the order of paths, without the folders above: each system has its own.
///
/// # Errors
/// [`Error::Missing`]: something was not built.
pub fn gather(package: &Package, folders: &Folders) -> Result<Vec<File>, Error> {
    all(package.name, package.items.iter().copied(), folders)
}

/// All that the image has over its base, as a package's.
///
/// # Errors
/// [`Error::Missing`]: something was not built.
pub fn gather_image(folders: &Folders) -> Result<Vec<File>, Error> {
    all(catalog::IMAGE_NAME, catalog::image(), folders)
}

fn all(name: &'static str, items: impl Iterator<Item = Item>, folders: &Folders) -> Result<Vec<File>, Error> {
    let mut found = BTreeMap::new();
    for item in items {
        for file in files(name, &item, folders)? {
            found.insert(file.path.clone(), file);
        }
    }
    let licence = copyright(&read(name, &folders.repository.join("LICENSE"))?);
    let path = format!("/usr/share/doc/{name}/copyright");
    found.insert(path.clone(), File { path, mode: 0o644, content: Content::Bytes(licence), config: false });
    Ok(found.into_values().collect())
}

fn files(package: &'static str, item: &Item, folders: &Folders) -> Result<Vec<File>, Error> {
    let at = |path: String, content| File { path, mode: item.mode, content, config: item.config };
    let one = |from: PathBuf| -> Result<Vec<File>, Error> {
        Ok(vec![at(item.to.to_owned(), Content::Bytes(read(package, &from)?))])
    };
    match item.from {
        Source::Program(name) => one(folders.programs.join(name)),
        Source::Library(name) => one(folders.libraries.join(name)),
        Source::Repository(path) => one(folders.repository.join(path)),
        Source::Completion(shell) => one(folders.completions.join(shell)),
        Source::Link(target) => Ok(vec![at(item.to.to_owned(), Content::Link(target))]),
        Source::Folder => Ok(vec![at(item.to.to_owned(), Content::Folder)]),
        Source::RepositoryFolder(path) => {
            let mut files = Vec::new();
            for from in listed(package, &folders.repository.join(path))? {
                files.push(at(format!("{}/{}", item.to, name(&from)), Content::Bytes(read(package, &from)?)));
            }
            Ok(files)
        }
        Source::ManPages(begins) => {
            let mut files = Vec::new();
            let is_of = |page: &&PathBuf| {
                name(page).strip_prefix(begins).is_some_and(|rest| rest.starts_with(['.', '-']))
            };
            for from in listed(package, &folders.man)?.iter().filter(is_of) {
                let name = name(from);
                let section = name.rsplit('.').next().unwrap_or("1");
                let packed = gzip(&read(package, from)?).map_err(|source| Error::Pack { package, source })?;
                files.push(at(format!("{}/man{section}/{name}.gz", item.to), Content::Bytes(packed)));
            }
            if files.is_empty() {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(Error::Missing { package, path: folders.man.join(begins), source });
            }
            Ok(files)
        }
    }
}

/// The files of a folder, without folders, in the order of their names.
fn listed(package: &'static str, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let missing = |source| Error::Missing { package, path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(missing)? {
        let path = entry.map_err(missing)?.path();
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(package: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Missing { package, path: path.to_owned(), source })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Compressed, with neither name nor time in it.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// In Debian's machine-readable form.
fn copyright(licence: &[u8]) -> Vec<u8> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Railyard\n\n\
         Files: *\nCopyright: The authors of Railyard\nLicense: Apache-2.0\n\nLicense: Apache-2.0\n",
    );
    for line in String::from_utf8_lossy(licence).lines() {
        text.push_str(if line.trim().is_empty() { " ." } else { " " });
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.into_bytes()
}
