//! An image for containers, in the form of the Open Container Initiative (image-spec 1.1): an archive of blobs, each named by its digest. What `docker
//! load` looks for lies beside that, so that one file is for all who run or move images. The three documents are written as they are: crates that have
//! types for them bring more code than this is.

pub mod base;
mod layer;
mod tree;

use std::io::{self, Write};

use serde_json::{Value, json};

pub use layer::{Layer, digest};
pub use tree::{Node, Tree, What};

use crate::{
    Release,
    archive::{Archive, Entry},
    error::Error,
    gather::{Content, File},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Where programs are looked for.
pub const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What is said of an image.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The release that it is of.
    pub release: &'a Release,
    /// Of which kind of machine its programs are.
    pub architecture: &'a str,
    /// The commit of the sources, where it is known.
    pub commit: Option<&'a str>,
    /// What the lowest layer is made of, in a few words: `Debian GNU/Linux 13 (trixie)`.
    pub base: &'a str,
}

/// The image's tag: the version, and which packaging of it it is unless that is the first.
#[must_use]
pub fn tag(release: &Release) -> String {
    match release {
        Release { version, revision: 0 | 1, .. } => version.clone(),
        Release { version, revision, .. } => format!("{version}-{revision}"),
    }
}

/// The name of the file that an image is.
#[must_use]
pub fn file_name(release: &Release) -> String {
    format!("railyard-{}.oci.tar", tag(release))
}

/// What the image is called where it is loaded, until somebody calls it otherwise.
#[must_use]
pub fn name(release: &Release) -> String {
    format!("localhost/railyard:{}", tag(release))
}

/// What a package has, as the tree of a layer.
///
/// # Errors
/// [`Error::Path`]: a path that an image cannot have.
pub fn tree(files: &[File], date: u32) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    for file in files {
        let what = match &file.content {
            Content::Bytes(bytes) => What::File(bytes.clone()),
            Content::Link(target) => What::Link((*target).to_owned()),
            Content::Folder => What::Folder,
        };
        tree.add(&file.path, Node { what, mode: file.mode, modified: date })?;
    }
    Ok(tree)
}

/// What an image calls the kind of machine that a program is for.
#[must_use]
pub fn architecture(program: &[u8]) -> Option<&'static str> {
    match program {
        [0x7f, b'E', b'L', b'F', 2, 1, rest @ ..] => match rest.get(12..14)? {
            [62, 0] => Some("amd64"),
            [183, 0] => Some("arm64"),
            _ => None,
        },
        _ => None,
    }
}

/// Writes the archive.
///
/// # Errors
/// It cannot be written, or the release's date is none.
pub fn write(about: About<'_>, layers: &[Layer], to: impl Write) -> io::Result<()> {
    let date = time::OffsetDateTime::from_unix_timestamp(i64::from(about.release.date));
    let date = date.map_err(io::Error::other)?.format(&time::format_description::well_known::Rfc3339);
    let date = date.map_err(io::Error::other)?;
    let config = bytes(&config(about, layers, &date));
    let descriptors: Vec<Value> = layers.iter().map(|layer| descriptor(LAYER, &layer.blob)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, &config), "layers": descriptors,
        "annotations": labels(about, &date),
    });
    let manifest = bytes(&manifest);
    let mut archive = Archive::new(to);
    let modified = about.release.date;
    archive.folder(Entry::new("blobs/", 0o755, modified))?;
    archive.folder(Entry::new("blobs/sha256/", 0o755, modified))?;
    let mut blobs: Vec<&[u8]> = vec![&config, &manifest];
    blobs.extend(layers.iter().map(|layer| &layer.blob[..]));
    let mut blobs: Vec<(String, &[u8])> = blobs.into_iter().map(|blob| (blob_path(blob), blob)).collect();
    blobs.sort();
    blobs.dedup();
    for (path, blob) in blobs {
        archive.file(Entry::new(&path, 0o644, modified), blob)?;
    }
    archive.file(Entry::new("index.json", 0o644, modified), &bytes(&index(about, &manifest)))?;
    archive
        .file(Entry::new("manifest.json", 0o644, modified), &bytes(&for_docker(about, &config, layers)))?;
    archive
        .file(Entry::new("oci-layout", 0o644, modified), &bytes(&json!({"imageLayoutVersion": "1.0.0"})))?;
    archive.finish()?.flush()
}

/// The one image that the archive has, under the names that podman, skopeo and containerd read.
fn index(about: About<'_>, manifest: &[u8]) -> Value {
    let mut one = descriptor(MANIFEST, manifest);
    one["platform"] = json!({"architecture": about.architecture, "os": "linux"});
    one["annotations"] = json!({
        "io.containerd.image.name": name(about.release),
        "org.opencontainers.image.ref.name": name(about.release),
    });
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [one]})
}

/// What `docker load` reads.
fn for_docker(about: About<'_>, config: &[u8], layers: &[Layer]) -> Value {
    let layers: Vec<String> = layers.iter().map(|layer| blob_path(&layer.blob)).collect();
    json!([{"Config": blob_path(config), "RepoTags": [name(about.release)], "Layers": layers}])
}

/// Whoever says nothing else runs it without rights; where it needs some, the pod says so.
fn config(about: About<'_>, layers: &[Layer], date: &str) -> Value {
    let history = layers.iter().map(|layer| json!({"created": date, "created_by": layer.made}));
    let digests = layers.iter().map(|layer| format!("sha256:{}", layer.diff_id));
    json!({
        "created": date, "architecture": about.architecture, "os": "linux",
        "config": {
            "User": format!("{0}:{0}", base::USER), "WorkingDir": "/",
            "Env": [format!("PATH={}", PATH.join(":"))],
            "Labels": labels(about, date),
        },
        "rootfs": {"type": "layers", "diff_ids": digests.collect::<Vec<_>>()},
        "history": history.collect::<Vec<_>>(),
    })
}

fn labels(about: About<'_>, date: &str) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.title": "railyard",
        "org.opencontainers.image.description": "All programs of Railyard that run in Kubernetes",
        "org.opencontainers.image.version": about.release.version,
        "org.opencontainers.image.created": date,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.vendor": "The authors of Railyard",
        "io.railyard.image.base": about.base,
    });
    if let Some(commit) = about.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    labels
}

fn descriptor(media: &str, blob: &[u8]) -> Value {
    json!({"mediaType": media, "digest": format!("sha256:{}", digest(blob)), "size": blob.len()})
}

fn blob_path(blob: &[u8]) -> String {
    format!("blobs/sha256/{}", digest(blob))
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}
