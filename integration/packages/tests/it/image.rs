//! The image: made of pretended packages and programs, read back blob by blob, and by skopeo where it is.

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Read as _},
};

use integration_packages::{
    Error, gather_image,
    oci::{self, About, Layer, Node, Tree, What, base, base::Deb},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::tools::{folders, release, tool};

const DATE: u32 = 1_600_000_000;

/// One entry of a pretended package.
type Entry = (&'static str, tar::EntryType, u32, &'static str);

fn deb(name: &str, architecture: &str, entries: &[Entry]) -> Deb {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, kind, mode, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_mtime(u64::from(DATE));
        // Of somebody who is nobody in the image.
        header.set_uid(1000);
        header.set_gid(50);
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.set_size(0);
            archive.append_link(&mut header, path, text).unwrap();
        } else {
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
    }
    Deb {
        control: format!(
            "Package: {name}\nVersion: 1.0-1\nArchitecture: {architecture}\nDescription: x\n y\n"
        ),
        files: archive.into_inner().unwrap(),
        digest: "ab".repeat(32),
    }
}

const FILE: tar::EntryType = tar::EntryType::Regular;
const FOLDER: tar::EntryType = tar::EntryType::Directory;
const LINK: tar::EntryType = tar::EntryType::Symlink;

/// Packages like Debian's: of a release that has programs in `/bin` still, and one file in the place of the new one.
fn debs() -> Vec<Deb> {
    vec![
        deb(
            "busybox",
            "amd64",
            &[
                ("./bin/", FOLDER, 0o755, ""),
                ("./bin/busybox", FILE, 0o755, "busybox"),
                ("./usr/share/man/man1/busybox.1.gz", FILE, 0o644, "manual"),
                ("./usr/share/doc/busybox/", FOLDER, 0o755, ""),
                ("./usr/share/doc/busybox/copyright", FILE, 0o644, "licence"),
                ("./usr/share/doc/busybox/changelog.gz", FILE, 0o644, "changes"),
            ],
        ),
        deb(
            "base-files",
            "amd64",
            &[
                ("./", FOLDER, 0o755, ""),
                ("./bin", LINK, 0o777, "usr/bin"),
                ("./run/", FOLDER, 0o755, ""),
                ("./var/run/", FOLDER, 0o755, ""),
                ("./tmp/", FOLDER, 0o1777, ""),
                ("./var/local/", FOLDER, 0o2775, ""),
                ("./etc/os-release", LINK, 0o777, "../usr/lib/os-release"),
                (
                    "./usr/lib/os-release",
                    FILE,
                    0o644,
                    "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION_ID=\"13\"\nID=debian\n",
                ),
            ],
        ),
        deb(
            "libc6",
            "amd64",
            &[
                ("./lib/x86_64-linux-gnu/libc.so.6", FILE, 0o755, "library"),
                (
                    "./lib/x86_64-linux-gnu/libc.so",
                    tar::EntryType::Link,
                    0o755,
                    "./lib/x86_64-linux-gnu/libc.so.6",
                ),
                ("./lib64/ld-linux-x86-64.so.2", LINK, 0o777, "/lib/x86_64-linux-gnu/libc.so.6"),
            ],
        ),
        deb(
            "ca-certificates",
            "all",
            &[
                ("./usr/share/ca-certificates/mozilla/Two.crt", FILE, 0o644, "TWO"),
                ("./usr/share/ca-certificates/mozilla/One.crt", FILE, 0o644, "ONE\n"),
                ("./usr/sbin/update-ca-certificates", FILE, 0o755, "script"),
            ],
        ),
    ]
}

fn text(tree: &Tree, path: &str) -> String {
    match &tree.get(path).unwrap_or_else(|| panic!("no {path}")).what {
        What::File(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{path} is {other:?}"),
    }
}

#[test]
fn packages_are_laid_into_one_tree_without_their_scripts() {
    let mut debs = debs();
    let tree = base::tree(&debs, "amd64").unwrap();
    debs.reverse();
    assert_eq!(tree, base::tree(&debs, "amd64").unwrap(), "whatever order they are in");
    assert!(tree.iter().all(|(_, node)| node.modified == DATE));
    for (path, leads) in [
        ("/bin/sh", "usr/bin/busybox"),
        ("/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/etc/os-release", "usr/lib/os-release"),
        ("/var/run", "run"),
    ] {
        assert_eq!(tree.resolve(path).as_deref(), Some(leads), "{path}");
    }
    assert_eq!(tree.dangling().len(), 0, "{:?}", tree.dangling());
    assert_eq!(text(&tree, "usr/lib/x86_64-linux-gnu/libc.so"), "library");
    assert_eq!(text(&tree, "etc/ssl/certs/ca-certificates.crt"), "ONE\nTWO\n");
    assert_eq!(text(&tree, "usr/share/doc/busybox/copyright"), "licence");
    assert!(text(&tree, "etc/passwd").contains("\nrail:x:65532:65532:"));
    assert!(text(&tree, "var/lib/dpkg/status.d/libc6").starts_with("Package: libc6\nVersion: 1.0-1\n"));
    for dropped in
        ["usr/share/man", "usr/share/doc/busybox/changelog.gz", "usr/sbin", "usr/share/ca-certificates"]
    {
        assert_eq!(tree.get(dropped), None, "{dropped}");
    }
    assert_eq!((tree.get("tmp").unwrap().mode, tree.get("var/local").unwrap().mode), (0o1777, 0o775));
    let system = base::system(&tree).unwrap();
    assert_eq!(
        (&*system.id, &*system.version, &*system.title),
        ("debian", "13", "Debian GNU/Linux 13 (trixie)")
    );
}

#[test]
fn a_package_that_an_image_cannot_have_is_named() {
    let said = |deb: Deb| base::tree(&[deb], "amd64").unwrap_err().to_string();
    let other = said(deb("libc6", "arm64", &[]));
    assert_eq!(other, "the image's base: package libc6: it is for arm64, and the programs for amd64");
    let su = said(deb("su", "amd64", &[("./bin/su", FILE, 0o4755, "su")]));
    assert_eq!(su, "the image cannot have usr/bin/su: it would run as its owner, whoever starts it");
    let device = said(deb("dev", "all", &[("./dev/sda", tar::EntryType::Block, 0o600, "")]));
    assert!(device.contains("package dev: dev/sda is neither file nor link nor folder"), "{device}");
    let lost = said(deb("lost", "all", &[("./a", tar::EntryType::Link, 0o644, "b")]));
    assert!(lost.contains("a is another name of b, which is not there"), "{lost}");
    let broken = said(Deb { files: vec![1; 1024], ..deb("broken", "all", &[]) });
    assert!(broken.starts_with("the image's base: package broken: "), "{broken}");
}

/// The image of pretended things, and the trees of its layers.
fn image() -> (Vec<u8>, Vec<Tree>) {
    let room = tempfile::tempdir().unwrap();
    let release = release(1);
    let below = base::tree(&debs(), "amd64").unwrap();
    let ours = oci::tree(&gather_image(&folders(room.path())).unwrap(), release.date).unwrap();
    let above = ours.beyond(&below);
    let layers = [Layer::of(&below, "Debian").unwrap(), Layer::of(&above, "Railyard").unwrap()];
    let about = About {
        release: &release,
        architecture: "amd64",
        commit: Some("c0ffee"),
        base: "Debian GNU/Linux 13",
    };
    let mut bytes = Vec::new();
    oci::write(about, &layers, &mut bytes).unwrap();
    (bytes, vec![below, above])
}

/// Files of an archive by their paths, in its own order.
fn entries(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path}");
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0), "{path}");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        found.push((path, content));
    }
    found
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_blob_is_what_its_digest_says_and_every_reference_finds_its_blob() {
    let (bytes, trees) = image();
    let files: BTreeMap<String, Vec<u8>> = entries(&bytes).into_iter().collect();
    let json = |path: &str| -> Value { serde_json::from_slice(&files[path]).unwrap() };
    for (path, content) in &files {
        if let Some(digest) = path.strip_prefix("blobs/sha256/").filter(|digest| !digest.is_empty()) {
            assert_eq!(digest, sha256(content));
        }
    }
    assert_eq!(json("oci-layout"), serde_json::json!({"imageLayoutVersion": "1.0.0"}));
    let blob = |descriptor: &Value, media: &str| {
        assert_eq!(descriptor["mediaType"], media);
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = files[&format!("blobs/sha256/{digest}")].clone();
        assert_eq!(descriptor["size"], content.len());
        content
    };
    let index = json("index.json");
    let one = &index["manifests"][0];
    assert_eq!(one["platform"], serde_json::json!({"architecture": "amd64", "os": "linux"}));
    assert_eq!(one["annotations"]["org.opencontainers.image.ref.name"], "localhost/railyard:0.1.0");
    let manifest: Value =
        serde_json::from_slice(&blob(one, "application/vnd.oci.image.manifest.v1+json")).unwrap();
    let config: Value =
        serde_json::from_slice(&blob(&manifest["config"], "application/vnd.oci.image.config.v1+json"))
            .unwrap();
    assert_eq!(
        (&config["architecture"], &config["created"]),
        (&"amd64".into(), &"2023-11-14T22:13:20Z".into())
    );
    assert_eq!(config["config"]["User"], "65532:65532");
    let labels = &config["config"]["Labels"];
    for (label, value) in
        [("title", "railyard"), ("version", "0.1.0"), ("revision", "c0ffee"), ("licenses", "Apache-2.0")]
    {
        assert_eq!(labels[format!("org.opencontainers.image.{label}")], value);
    }
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!((layers.len(), config["history"].as_array().unwrap().len()), (2, 2));
    for ((layer, tree), diff_id) in
        layers.iter().zip(&trees).zip(config["rootfs"]["diff_ids"].as_array().unwrap())
    {
        let packed = blob(layer, "application/vnd.oci.image.layer.v1.tar+gzip");
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(Cursor::new(packed)).read_to_end(&mut archive).unwrap();
        assert_eq!(*diff_id, format!("sha256:{}", sha256(&archive)));
        let paths: Vec<String> =
            entries(&archive).into_iter().map(|(path, _)| path.trim_end_matches('/').to_owned()).collect();
        let want: Vec<&str> = tree.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, want);
    }
    let docker = &json("manifest.json")[0];
    assert!(files.contains_key(docker["Config"].as_str().unwrap()));
    assert_eq!(docker["Layers"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_things_give_the_same_image_and_a_new_release_the_same_base() {
    let (one, other) = (image(), image());
    assert!(one.0 == other.0);
    let again = Layer::of(&one.1[0], "Debian").unwrap();
    let digest = oci::digest(&again.blob);
    assert!(entries(&one.0).iter().any(|(path, _)| *path == format!("blobs/sha256/{digest}")));
    let release = release(1);
    let mut bytes = Vec::new();
    let about = About { release: &release, architecture: "arm64", commit: None, base: "x" };
    oci::write(about, &[again], &mut bytes).unwrap();
    let index = entries(&bytes).into_iter().find(|(path, _)| path == "index.json").unwrap().1;
    assert!(String::from_utf8(index).unwrap().contains("\"arm64\""));
}

#[test]
fn our_layer_has_programs_where_packages_have_them_and_links_are_links() {
    let (_, trees) = image();
    let both = trees[0].with(&trees[1]).unwrap();
    assert_eq!(both.dangling().len(), 0, "{:?}", both.dangling());
    for (name, leads) in [
        ("rail-controller", "usr/bin/rail-controller"),
        ("rail-node-agent", "usr/lib/railyard/rail-node-agent"),
        ("rail-engine", "usr/lib/railyard/rail-engine"),
        ("rail-rank", "usr/lib/railyard/rail-rank"),
        ("rail-dra-driver", "usr/bin/rail-dra-driver"),
        ("rail-operator", "usr/bin/rail-operator"),
        ("railctl", "usr/bin/railctl"),
    ] {
        assert_eq!(both.resolve(&format!("/bin/{name}")).as_deref(), Some(leads), "{name}");
        assert_eq!(both.get(leads).unwrap().mode, 0o755);
    }
    assert_eq!(both.get("usr/bin/rail-rank").unwrap().what, What::Link("../lib/railyard/rail-rank".into()));
    assert!(both.get("usr/share/doc/railyard/copyright").is_some());
    assert_eq!(trees[1].get("usr/bin"), None, "the base has it");
}

#[test]
fn of_which_machine_a_program_is_is_read_from_it() {
    let program = |machine: u8| {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend([machine, 0, 1, 0]);
        bytes
    };
    assert_eq!(oci::architecture(&program(62)), Some("amd64"));
    assert_eq!(oci::architecture(&program(183)), Some("arm64"));
    assert_eq!(oci::architecture(&program(3)), None);
    assert_eq!(oci::architecture(b"#!/bin/sh"), None);
}

#[test]
fn an_image_that_is_packed_anew_has_a_tag_of_its_own() {
    let names = |revision| {
        let release = release(revision);
        (oci::file_name(&release), oci::name(&release))
    };
    assert_eq!(names(1), ("railyard-0.1.0.oci.tar".into(), "localhost/railyard:0.1.0".into()));
    assert_eq!(names(3), ("railyard-0.1.0-3.oci.tar".into(), "localhost/railyard:0.1.0-3".into()));
}

#[test]
fn what_was_not_built_is_named() {
    let room = tempfile::tempdir().unwrap();
    let folders = folders(room.path());
    fs::remove_file(folders.programs.join("rail-operator")).unwrap();
    let Err(Error::Missing { package, path, .. }) = gather_image(&folders) else { panic!("it was there") };
    assert!(package == "railyard" && path.ends_with("bin/rail-operator"));
}

#[test]
fn skopeo_reads_the_image_both_ways() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("image.oci.tar");
    fs::write(&path, image().0).unwrap();
    for (transport, out) in [("oci-archive", "one"), ("docker-archive", "two")] {
        let from = format!("{transport}:{}", path.display());
        let Some((read, said)) =
            tool("skopeo", &["--override-os=linux", "--override-arch=amd64", "inspect", &from])
        else {
            return;
        };
        assert!(
            read && said.contains("\"org.opencontainers.image.title\": \"railyard\""),
            "{transport}: {said}"
        );
        let to = room.path().join(out);
        let (copied, said) =
            tool("skopeo", &["--insecure-policy", "copy", &from, &format!("dir:{}", to.display())]).unwrap();
        assert!(copied, "{transport}: {said}");
        assert!(to.join("manifest.json").is_file());
    }
}

#[test]
fn a_layer_is_of_its_tree_alone() {
    let mut tree = Tree::default();
    tree.add("b/file", Node::text("x", 3)).unwrap();
    tree.add("a", Node::link("b/file", 3)).unwrap();
    let layer = Layer::of(&tree, "x").unwrap();
    let mut archive = Vec::new();
    flate2::read::GzDecoder::new(&layer.blob[..]).read_to_end(&mut archive).unwrap();
    let paths: Vec<String> = entries(&archive).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a", "b/", "b/file"]);
}
