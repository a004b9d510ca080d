//! The lowest layer of the image: a few packages of Debian, unpacked without their scripts, and what those scripts would have made. It is a function
//! of the packages alone, so that two releases on the same ones share it.
//!
//! Programs need the C library, and agents the libraries of RDMA, which are loaded while they run. What people and pods run beside them is busybox: one
//! program that needs nothing but the C library, in place of a shell and coreutils with five libraries.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
};

use super::tree::{Node, Tree, What};
use crate::error::Error;

/// The packages, without the one that has the licence of libgcc, whose name has a number in it.
pub const PACKAGES: [&str; 10] = [
    "base-files",
    "busybox",
    "ca-certificates",
    "ibverbs-providers",
    "libc-bin",
    "libc6",
    "libgcc-s1",
    "libibverbs1",
    "libnl-3-200",
    "libnl-route-3-200",
];

/// The user and the group as whom programs run that need no rights, as pods of the chart say.
pub const USER: u32 = 65532;

/// Names by which busybox is called: what the chart's pods and notes run, and what somebody needs who looks into a container.
pub const APPLETS: [&str; 61] = [
    "awk",
    "basename",
    "cat",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "free",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "hostname",
    "id",
    "ip",
    "kill",
    "less",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "more",
    "mv",
    "nproc",
    "nslookup",
    "od",
    "ping",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
];

/// Programs of the packages that agents start, where they look for them.
pub const CALLED: [&str; 3] = ["/usr/bin/getent", "/usr/bin/id", "/bin/sh"];

/// What is not taken, with all that is below it: nobody reads manuals in a container, and no shell completes words there. The last two would be links.
const DROPPED: [&str; 16] = [
    "etc/ca-certificates",
    "etc/init.d",
    "etc/update-motd.d",
    "usr/games",
    "usr/include",
    "usr/sbin/update-ca-certificates",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/info",
    "usr/share/initramfs-tools",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/src",
    "var/lock",
    "var/run",
];
/// Of these folders licences alone are taken.
const DOCUMENTS: &str = "usr/share/doc/";
/// Where the certificates of authorities are, one a file; programs read them all from one file, which a script would make.
const AUTHORITIES: &str = "usr/share/ca-certificates/";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// Folders that are in `usr`, with links in their old places.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// A package, as `dpkg-deb` shows it.
#[derive(Debug, Clone, Default)]
pub struct Deb {
    /// Its control file.
    pub control: String,
    /// The archive of its files, not compressed.
    pub files: Vec<u8>,
    /// SHA-256 of the package, in hexadecimal digits.
    pub digest: String,
}

impl Deb {
    /// A field of the control file; empty where there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        let lines = self.control.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(field, _)| *field == name).map(|(_, value)| value.trim()).next().unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.field("Package")
    }

    fn error(&self, what: impl Into<String>) -> Error {
        Error::Base { package: self.name().to_owned(), what: what.into() }
    }
}

/// Of which system packages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// `debian`
    pub id: String,
    /// `13`
    pub version: String,
    /// `Debian GNU/Linux 13 (trixie)`
    pub title: String,
}

/// The layer's tree, of packages for one kind of machine.
///
/// # Errors
/// [`Error::Base`]: a package is not for this kind of machine, cannot be read, or has what an image does not (a device); [`Error::Path`].
pub fn tree(debs: &[Deb], architecture: &str) -> Result<Tree, Error> {
    let mut debs: Vec<&Deb> = debs.iter().collect();
    debs.sort_by_key(|deb| deb.name());
    let (mut tree, mut authorities) = (Tree::default(), BTreeMap::new());
    for deb in &debs {
        if ![architecture, "all"].contains(&deb.field("Architecture")) {
            let own = deb.field("Architecture");
            return Err(deb.error(format!("it is for {own}, and the programs for {architecture}")));
        }
        unpack(deb, &mut tree, &mut authorities)?;
    }
    let date = tree.newest();
    for (path, node) in made(&tree, &debs, &authorities, date) {
        // A link that a package has made for itself means the same.
        let is_there = matches!(node.what, What::Link(_)) && tree.get(&path).is_some();
        if !is_there {
            tree.add(&path, node)?;
        }
    }
    Ok(tree)
}

/// The system that the packages are of, as they say it themselves.
#[must_use]
pub fn system(tree: &Tree) -> Option<System> {
    let What::File(text) = &tree.get("usr/lib/os-release")?.what else { return None };
    let text = String::from_utf8_lossy(text).into_owned();
    let value = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut found = lines.filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| value.trim_matches('"').to_owned())
    };
    Some(System {
        id: value("ID")?,
        version: value("VERSION_ID").unwrap_or_default(),
        title: value("PRETTY_NAME")?,
    })
}

/// Adds the files of a package; certificates of authorities go beside them.
fn unpack(deb: &Deb, tree: &mut Tree, authorities: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    let unreadable = |error: io::Error| deb.error(error.to_string());
    let mut archive = tar::Archive::new(&deb.files[..]);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let listed = text(deb, &entry.path_bytes())?;
        let path = merged(listed.strip_prefix("./").unwrap_or(&listed).trim_end_matches('/'));
        let what = what(deb, tree, &path, &mut entry)?;
        if let (Some(_), What::File(bytes)) = (path.strip_prefix(AUTHORITIES), &what) {
            authorities.insert(path, bytes.clone());
            continue;
        }
        if is_dropped(&path, &what) {
            continue;
        }
        let mode = entry.header().mode().map_err(unreadable)?;
        let modified = entry.header().mtime().map_err(unreadable)?;
        let modified = u32::try_from(modified).map_err(|_| deb.error(format!("{path} has no date")))?;
        tree.add(&path, Node { what, mode, modified })?;
    }
    Ok(())
}

/// What an entry of a package's archive is.
fn what(deb: &Deb, tree: &Tree, path: &str, entry: &mut tar::Entry<'_, &[u8]>) -> Result<What, Error> {
    let target = entry.link_name_bytes().map(|name| text(deb, &name)).transpose()?.unwrap_or_default();
    match entry.header().entry_type() {
        tar::EntryType::Directory => Ok(What::Folder),
        tar::EntryType::Symlink => Ok(What::Link(target)),
        tar::EntryType::Regular => {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|error| deb.error(error.to_string()))?;
            Ok(What::File(bytes))
        }
        // Another name of a file that came before.
        tar::EntryType::Link => match tree.get(&merged(target.trim_start_matches("./"))) {
            Some(Node { what: What::File(bytes), .. }) => Ok(What::File(bytes.clone())),
            _ => Err(deb.error(format!("{path} is another name of {target}, which is not there"))),
        },
        _ => Err(deb.error(format!("{path} is neither file nor link nor folder"))),
    }
}

fn text(deb: &Deb, bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| deb.error("a path is not UTF-8"))
}

/// Where a file is in a system whose programs and libraries are all in `usr`.
fn merged(path: &str) -> String {
    let first = path.split('/').next().unwrap_or_default();
    if MERGED.contains(&first) { format!("usr/{path}") } else { path.to_owned() }
}

fn is_dropped(path: &str, what: &What) -> bool {
    let is_in =
        |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if DROPPED.into_iter().any(is_in) || is_in(AUTHORITIES.trim_end_matches('/')) {
        return true;
    }
    // A package that has made such links for itself means the same.
    if MERGED.iter().any(|folder| path == format!("usr/{folder}")) && matches!(what, What::Link(_)) {
        return true;
    }
    match path.strip_prefix(DOCUMENTS) {
        Some(document) if document.contains('/') => !document.ends_with("/copyright"),
        Some(_) => *what == What::Folder,
        None => false,
    }
}

/// What the packages' scripts would have made.
fn made(
    tree: &Tree,
    debs: &[&Deb],
    authorities: &BTreeMap<String, Vec<u8>>,
    date: u32,
) -> Vec<(String, Node)> {
    let file = |path: &str, text: String| (path.to_owned(), Node::text(text, date));
    let link = |path: String, target: String| (path, Node::link(target, date));
    let mut made = vec![
        file(
            "etc/passwd",
            format!(
                "root:x:0:0:root:/root:/bin/sh\nrail:x:{USER}:{USER}:Railyard:/:/bin/false\n\
                 nobody:x:65534:65534:nobody:/:/bin/false\n"
            ),
        ),
        file("etc/group", format!("root:x:0:\nrail:x:{USER}:\nnogroup:x:65534:\n")),
        file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        link("var/run".to_owned(), "/run".to_owned()),
    ];
    for folder in MERGED.iter().filter(|folder| tree.get(&format!("usr/{folder}")).is_some()) {
        made.push(link((*folder).to_owned(), format!("usr/{folder}")));
    }
    for name in APPLETS {
        made.push(link(format!("usr/bin/{name}"), "busybox".to_owned()));
    }
    let mut bundle = Vec::new();
    for certificate in authorities.values() {
        bundle.extend_from_slice(certificate.trim_ascii_end());
        bundle.push(b'\n');
    }
    made.push((BUNDLE.to_owned(), Node::text(bundle, date)));
    // Where those who look for known weaknesses find which packages an image has that has no dpkg.
    for deb in debs {
        made.push(file(
            &format!("var/lib/dpkg/status.d/{}", deb.name()),
            format!("{}\n", deb.control.trim_end()),
        ));
    }
    made
}
