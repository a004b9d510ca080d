//! Packages of RPM: a lead, two headers and a compressed `cpio` archive (RPM's file format, version 4).

mod header;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::{
    Release,
    description::Package,
    error::Error,
    gather::{Content, File, gzip},
    linked::Linked,
    scripts,
};
use header::{Header, Region, Value, tag};

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };

/// Kinds of files in a mode.
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Flags of a file: a configuration file that is not replaced.
const CONFIG: u32 = 1 | 1 << 4;
/// Flags of a dependency.
const EQUAL: u32 = 1 << 3;
const LESS_OR_EQUAL: u32 = 1 << 1 | 1 << 3;
const OF_RPM_ITSELF: u32 = 1 << 24;
/// What RPM has to understand of this package.
const FEATURES: [(&str, &str); 3] = [
    ("rpmlib(CompressedFileNames)", "3.0.4-1"),
    ("rpmlib(FileDigests)", "4.6.0-1"),
    ("rpmlib(PayloadFilesHavePrefix)", "4.0-1"),
];
/// SHA-256, as RPM counts algorithms.
const SHA256: u32 = 8;

/// The name of the file that a package is.
#[must_use]
pub fn file_name(package: &Package, release: &Release) -> String {
    format!("{}-{}-{}.{}.rpm", package.name, release.version, release.revision, architecture(package))
}

/// The whole package.
///
/// # Errors
/// [`Error::TooLarge`], or an archive that cannot be written.
pub fn write(
    package: &Package,
    files: &[File],
    linked: &Linked,
    release: &Release,
) -> Result<Vec<u8>, Error> {
    let files = &with_folders(files);
    let archive = cpio(files, release.date)?;
    let payload = gzip(&archive).map_err(|source| Error::Pack { package: package.name, source })?;
    let main = main_header(package, files, linked, release, &payload)?.bytes(Region::Main)?;
    let mut signature = Header::default();
    signature.set(tag::SIGNATURE_SHA256, Value::Text(hex(&Sha256::digest(&main))));
    signature
        .set(tag::SIGNATURE_SIZE, Value::Numbers(vec![fits("the package", main.len() + payload.len())?]));
    signature.set(tag::SIGNATURE_PAYLOAD_SIZE, Value::Numbers(vec![fits("the archive", archive.len())?]));
    let mut bytes = lead(package, release);
    bytes.extend(signature.bytes(Region::Signature)?);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(main);
    bytes.extend(payload);
    Ok(bytes)
}

/// The same with the folders that are ours alone: RPM takes away only folders that it was told of.
fn with_folders(files: &[File]) -> Vec<File> {
    let mut all: BTreeMap<String, File> = BTreeMap::new();
    for file in files {
        for (at, _) in file.path.match_indices('/').skip(1) {
            let path = file.path[..at].to_owned();
            if path.contains("/railyard") {
                let folder =
                    File { path: path.clone(), mode: 0o755, content: Content::Folder, config: false };
                all.entry(path).or_insert(folder);
            }
        }
        all.insert(file.path.clone(), file.clone());
    }
    all.into_values().collect()
}

fn architecture(package: &Package) -> &'static str {
    if package.is_for_all() { "noarch" } else { ARCHITECTURE }
}

/// What RPM itself no longer reads, but `file` and others do: a name and a kind.
fn lead(package: &Package, release: &Release) -> Vec<u8> {
    let mut bytes = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1];
    let name = format!("{}-{}-{}", package.name, release.version, release.revision);
    bytes.extend(name.bytes().take(65));
    bytes.resize(76, 0);
    // Linux, and a signature header.
    bytes.extend([0, 1, 0, 5]);
    bytes.resize(96, 0);
    bytes
}

fn main_header(
    package: &Package,
    files: &[File],
    linked: &Linked,
    release: &Release,
    payload: &[u8],
) -> Result<Header, Error> {
    let mut header = Header::default();
    let text = |text: &str| Value::Text(text.to_owned());
    header.set(tag::LANGUAGES, Value::Texts(vec!["C".to_owned()]));
    for (name, value) in [
        (tag::NAME, package.name),
        (tag::VERSION, &release.version),
        (tag::LICENSE, "Apache-2.0"),
        (tag::OS, "linux"),
        (tag::ARCHITECTURE, architecture(package)),
        (tag::PAYLOAD_FORMAT, "cpio"),
        (tag::PAYLOAD_COMPRESSOR, "gzip"),
        (tag::PAYLOAD_FLAGS, "9"),
        (tag::ENCODING, "utf-8"),
        (tag::RPM_VERSION, "4.18.0"),
        (tag::BUILD_HOST, "localhost"),
    ] {
        header.set(name, text(value));
    }
    header.set(tag::RELEASE, Value::Text(release.revision.to_string()));
    header
        .set(tag::SOURCE, Value::Text(format!("railyard-{}-{}.src.rpm", release.version, release.revision)));
    header.set(tag::SUMMARY, Value::Translated(package.summary.to_owned()));
    header.set(tag::DESCRIPTION, Value::Translated(package.about.to_owned()));
    header.set(tag::GROUP, Value::Translated("Unspecified".to_owned()));
    header.set(tag::BUILD_TIME, Value::Numbers(vec![release.date]));
    header.set(tag::PAYLOAD_DIGEST, Value::Texts(vec![hex(&Sha256::digest(payload))]));
    header.set(tag::PAYLOAD_DIGEST_ALGORITHM, Value::Numbers(vec![SHA256]));
    describe(&mut header, files, release.date)?;
    relate(&mut header, package, linked, release);
    Ok(header)
}

/// What is in it: one list for each property of files.
fn describe(header: &mut Header, files: &[File], date: u32) -> Result<(), Error> {
    let mut folders: Vec<String> = files.iter().map(|file| split(&file.path).0.to_owned()).collect();
    folders.sort();
    folders.dedup();
    let texts = |of: &dyn Fn(&File) -> String| Value::Texts(files.iter().map(of).collect());
    let numbers = |of: &dyn Fn(&File) -> u32| Value::Numbers(files.iter().map(of).collect());
    let shorts = |of: &dyn Fn(&File) -> u32| {
        Value::Shorts(files.iter().map(|file| u16::try_from(of(file)).unwrap_or(u16::MAX)).collect())
    };
    let index = |file: &File| folders.binary_search_by(|folder| folder.as_str().cmp(split(&file.path).0));
    let sizes = files.iter().map(|file| fits(&file.path, length(file))).collect::<Result<Vec<_>, _>>()?;
    let total: usize = files.iter().map(length).sum();
    header.set(tag::SIZE, Value::Numbers(vec![fits("what is installed", total)?]));
    header.set(tag::FILE_SIZES, Value::Numbers(sizes));
    header.set(tag::FILE_MODES, shorts(&mode));
    header.set(tag::FILE_DEVICE_NUMBERS, shorts(&|_| 0));
    header.set(tag::FILE_TIMES, numbers(&|_| date));
    header.set(tag::FILE_DIGESTS, texts(&digest));
    header.set(tag::FILE_DIGEST_ALGORITHM, Value::Numbers(vec![SHA256]));
    header.set(
        tag::FILE_LINKS,
        texts(&|file| match file.content {
            Content::Link(target) => target.to_owned(),
            _ => String::new(),
        }),
    );
    header.set(tag::FILE_FLAGS, numbers(&|file| if file.config { CONFIG } else { 0 }));
    header.set(tag::FILE_USERS, texts(&|_| "root".to_owned()));
    header.set(tag::FILE_GROUPS, texts(&|_| "root".to_owned()));
    header.set(tag::FILE_VERIFY_FLAGS, numbers(&|_| u32::MAX));
    header.set(tag::FILE_DEVICES, numbers(&|_| 1));
    let inodes = (1..).take(files.len()).collect();
    header.set(tag::FILE_INODES, Value::Numbers(inodes));
    header.set(tag::FILE_LANGUAGES, texts(&|_| String::new()));
    header.set(
        tag::FOLDER_INDEXES,
        numbers(&|file| index(file).ok().and_then(|at| u32::try_from(at).ok()).unwrap_or(0)),
    );
    header.set(tag::BASE_NAMES, texts(&|file| split(&file.path).1.to_owned()));
    header.set(tag::FOLDER_NAMES, Value::Texts(folders.clone()));
    Ok(())
}

/// What it needs and gives, and what runs when it comes and goes.
fn relate(header: &mut Header, package: &Package, linked: &Linked, release: &Release) {
    let mut needs: Vec<(String, u32, String)> = Vec::new();
    let mut need =
        |name: &str, flags: u32, version: &str| needs.push((name.to_owned(), flags, version.to_owned()));
    if let Some(scripts) = scripts::rpm(package) {
        need("/bin/sh", 0, "");
        for (script, program, text) in [
            (tag::AFTER_INSTALL, tag::AFTER_INSTALL_PROGRAM, scripts.after_install),
            (tag::BEFORE_REMOVAL, tag::BEFORE_REMOVAL_PROGRAM, scripts.before_removal),
            (tag::AFTER_REMOVAL, tag::AFTER_REMOVAL_PROGRAM, scripts.after_removal),
        ] {
            header.set(script, Value::Text(text));
            header.set(program, Value::Text("/bin/sh".to_owned()));
        }
    }
    linked.rpm().iter().for_each(|name| need(name, 0, ""));
    package.needs.iter().for_each(|other| need(other.rpm, 0, ""));
    FEATURES.iter().for_each(|(name, version)| need(name, OF_RPM_ITSELF | LESS_OR_EQUAL, version));
    needs.sort();
    header.set(tag::NEED_NAMES, Value::Texts(needs.iter().map(|need| need.0.clone()).collect()));
    header.set(tag::NEED_FLAGS, Value::Numbers(needs.iter().map(|need| need.1).collect()));
    header.set(tag::NEED_VERSIONS, Value::Texts(needs.iter().map(|need| need.2.clone()).collect()));
    let others = package.recommends;
    header
        .set(tag::RECOMMENDED_NAMES, Value::Texts(others.iter().map(|other| other.rpm.to_owned()).collect()));
    header.set(tag::RECOMMENDED_VERSIONS, Value::Texts(vec![String::new(); others.len()]));
    header.set(tag::RECOMMENDED_FLAGS, Value::Numbers(vec![0; others.len()]));
    header.set(tag::GIVEN_NAMES, Value::Texts(vec![package.name.to_owned()]));
    header.set(tag::GIVEN_FLAGS, Value::Numbers(vec![EQUAL]));
    header.set(tag::GIVEN_VERSIONS, Value::Texts(vec![format!("{}-{}", release.version, release.revision)]));
}

/// A path as its folder, with the slash behind it, and its name.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

fn mode(file: &File) -> u32 {
    match file.content {
        Content::Bytes(_) => FILE | file.mode,
        Content::Link(_) => LINK | file.mode,
        Content::Folder => FOLDER | file.mode,
    }
}

fn bytes(file: &File) -> &[u8] {
    match &file.content {
        Content::Bytes(bytes) => bytes,
        Content::Link(target) => target.as_bytes(),
        Content::Folder => &[],
    }
}

fn length(file: &File) -> usize {
    bytes(file).len()
}

fn digest(file: &File) -> String {
    match &file.content {
        Content::Bytes(bytes) => hex(&Sha256::digest(bytes)),
        Content::Link(_) | Content::Folder => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fits(what: &str, bytes: usize) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| Error::TooLarge { what: what.to_owned(), bytes })
}

/// The files one behind the other, in the form "newc".
fn cpio(files: &[File], date: u32) -> Result<Vec<u8>, Error> {
    let mut archive = Vec::new();
    let mut add =
        |name: &str, inode: usize, mode: u32, links: u32, date: u32, content: &[u8]| -> Result<(), Error> {
            let numbers = [
                fits("the number of files", inode)?,
                mode,
                0,
                0,
                links,
                date,
                fits(name, content.len())?,
                0,
                0,
                0,
                0,
                fits(name, name.len() + 1)?,
                0,
            ];
            archive.extend(b"070701");
            archive.extend(numbers.iter().flat_map(|number| format!("{number:08x}").into_bytes()));
            archive.extend(name.as_bytes());
            archive.push(0);
            archive.resize(archive.len().next_multiple_of(4), 0);
            archive.extend(content);
            archive.resize(archive.len().next_multiple_of(4), 0);
            Ok(())
        };
    for (index, file) in files.iter().enumerate() {
        let links = if file.content == Content::Folder { 2 } else { 1 };
        add(&format!(".{}", file.path), index + 1, mode(file), links, date, bytes(file))?;
    }
    add("TRAILER!!!", 0, 0, 1, 0, &[])?;
    Ok(archive)
}
