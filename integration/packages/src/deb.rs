//! Packages of Debian: an `ar` archive of two compressed `tar` archives (deb(5)).

use std::{collections::BTreeSet, io};

use crate::{
    Release,
    archive::{Archive, Entry},
    description::Package,
    error::Error,
    gather::{Content, File, gzip},
    linked::Linked,
    scripts,
};

/// What Debian calls this machine's kind.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// Who is to be asked about a package.
const MAINTAINER: &str = "The authors of Railyard <railyard@localhost>";

/// The name of the file that a package is.
#[must_use]
pub fn file_name(package: &Package, release: &Release) -> String {
    format!("{}_{}_{}.deb", package.name, version(release), architecture(package))
}

/// The whole package.
///
/// # Errors
/// A library that is not known, or an archive that cannot be written.
pub fn write(
    package: &Package,
    files: &[File],
    linked: &Linked,
    release: &Release,
) -> Result<Vec<u8>, Error> {
    let pack = |source| Error::Pack { package: package.name, source };
    let mut files = files.to_vec();
    files.push(changelog(package, release).map_err(pack)?);
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let control = control(package, &files, linked, release)?;
    let data = data(&files, release.date).map_err(pack)?;
    let members = [("debian-binary", b"2.0\n".to_vec()), ("control.tar.gz", control), ("data.tar.gz", data)];
    ar(&members, release.date).map_err(pack)
}

fn version(release: &Release) -> String {
    format!("{}-{}", release.version, release.revision)
}

fn architecture(package: &Package) -> &'static str {
    if package.is_for_all() { "all" } else { ARCHITECTURE }
}

fn control(package: &Package, files: &[File], linked: &Linked, release: &Release) -> Result<Vec<u8>, Error> {
    let mut depends = linked.debian(package.name)?;
    depends.extend(package.needs.iter().map(|need| need.debian.to_owned()));
    let bytes: usize = files.iter().map(|file| size(&file.content)).sum();
    let mut text = format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {}\n",
        package.name,
        version(release),
        architecture(package),
        bytes.div_ceil(1024)
    );
    if !depends.is_empty() {
        text.push_str(&format!("Depends: {}\n", depends.join(", ")));
    }
    let recommends: Vec<&str> = package.recommends.iter().map(|other| other.debian).collect();
    if !recommends.is_empty() {
        text.push_str(&format!("Recommends: {}\n", recommends.join(", ")));
    }
    text.push_str(&format!(
        "Section: admin\nPriority: optional\nDescription: {}\n {}\n",
        package.summary, package.about
    ));
    let configs: String =
        files.iter().filter(|file| file.config).map(|file| format!("{}\n", file.path)).collect();
    let mut members = vec![("control", text, 0o644)];
    if !configs.is_empty() {
        members.push(("conffiles", configs, 0o644));
    }
    members.extend(scripts::debian(package).into_iter().map(|(name, text)| (name, text, 0o755)));
    members.sort_by_key(|(name, _, _)| *name);
    let mut archive = Archive::new(Vec::new());
    let written = archive.folder(Entry::new("./", 0o755, release.date)).and_then(|()| {
        members.iter().try_for_each(|(name, text, mode)| {
            archive.file(Entry::new(&format!("./{name}"), *mode, release.date), text.as_bytes())
        })
    });
    let finished = written.and_then(|()| packed(archive));
    finished.map_err(|source| Error::Pack { package: package.name, source })
}

fn data(files: &[File], date: u32) -> io::Result<Vec<u8>> {
    let mut archive = Archive::new(Vec::new());
    archive.folder(Entry::new("./", 0o755, date))?;
    let mut folders = BTreeSet::new();
    for file in files {
        for (end, _) in file.path.match_indices('/').skip(1) {
            if folders.insert(&file.path[..end]) {
                archive.folder(Entry::new(&format!(".{}/", &file.path[..end]), 0o755, date))?;
            }
        }
        let path = format!(".{}", file.path);
        match &file.content {
            Content::Bytes(bytes) => archive.file(Entry::new(&path, file.mode, date), bytes)?,
            Content::Link(target) => archive.link(Entry::new(&path, file.mode, date), target)?,
            Content::Folder => {
                folders.insert(&file.path);
                archive.folder(Entry::new(&format!("{path}/"), file.mode, date))?;
            }
        }
    }
    packed(archive)
}

/// Debian wants each package to say what changed; ours say where to read it.
fn changelog(package: &Package, release: &Release) -> io::Result<File> {
    let date =
        time::OffsetDateTime::from_unix_timestamp(i64::from(release.date)).map_err(io::Error::other)?;
    let date = date.format(&time::format_description::well_known::Rfc2822).map_err(io::Error::other)?;
    let text = format!(
        "{} ({}) unstable; urgency=medium\n\n  * Release {}: what is new is told in CHANGELOG.md of the sources.\n\n -- {MAINTAINER}  {date}\n",
        package.name,
        version(release),
        release.version
    );
    Ok(File {
        path: format!("/usr/share/doc/{}/changelog.Debian.gz", package.name),
        mode: 0o644,
        content: Content::Bytes(gzip(text.as_bytes())?),
        config: false,
    })
}

fn size(content: &Content) -> usize {
    match content {
        Content::Bytes(bytes) => bytes.len(),
        Content::Link(_) | Content::Folder => 1024,
    }
}

/// The whole archive, compressed.
fn packed(archive: Archive<Vec<u8>>) -> io::Result<Vec<u8>> {
    gzip(&archive.finish()?)
}

/// An archive of files, in the form that `ar` has for libraries.
fn ar(members: &[(&str, Vec<u8>)], date: u32) -> io::Result<Vec<u8>> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{date:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", content.len());
        if header.len() != 60 {
            return Err(io::Error::other(format!("{name} does not fit into an archive")));
        }
        bytes.extend(header.as_bytes());
        bytes.extend(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    Ok(bytes)
}
