//! `cargo xtask lab image`: the image that `cargo xtask dist` makes, read by skopeo where it is, unpacked by the system's own tools, and entered: its
//! programs run, and a controller is started as the chart starts it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde_json::Value;

use super::{dist::of_dist, trouble::Trouble};
use crate::{
    dist::packages::IMAGES,
    process::{self, Result},
};

/// What is run in the image's file tree: as whom, and what of the script.
const VISITS: [(&str, &str); 2] = [("65532:65532", "controller"), ("0:0", "agent")];

/// The first process of namespaces of its own: the tree as a container runtime prepares it, with a network that is its own loopback. Folders that a pod
/// can write to are memory.
const ENTER: &str = r#"set -e
ip link set lo up
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
for folder in tmp var/lib/rail-controller etc/railyard/authority; do
    mount -t tmpfs -o "uid=${2%:*},gid=${2#*:},mode=755" memory "$1/$folder"
done
mount -o remount,bind,ro "$1"
exec chroot --userspec="$2" --groups="${2#*:}" "$1" /bin/sh /trial/image.sh "$3"
"#;

/// Tries all of it.
///
/// # Errors
/// Something that was tried is not as it should be. What cannot be had here is exit code 2 and no error.
pub fn run(dist: Option<&Path>) -> Result<ExitCode> {
    of_dist(dist, all)
}

fn all(dist: &Path) -> std::result::Result<(), Trouble> {
    let image = image(&dist.join(IMAGES))?;
    let folder = process::target_dir().map_err(Trouble::failed)?.join("lab/container");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Trouble::failed)?;
    }
    fs::create_dir_all(&folder).map_err(Trouble::failed)?;
    match skopeo(&image, &folder) {
        Err(Trouble::Absent(why)) => println!("skipped: {why}"),
        tried => tried?,
    }
    if !process::may_make_namespaces() {
        return Err(Trouble::Absent("to enter the image's file tree it needs root, and ip".into()));
    }
    let root = unpack(&image, &folder).map_err(Trouble::failed)?;
    for (user, what) in VISITS {
        visit(&root, user, what)?;
    }
    println!("    {}: unpacked, entered, a controller has answered", image.display());
    fs::remove_dir_all(&folder).map_err(Trouble::failed)
}

/// The one image of a folder.
fn image(folder: &Path) -> std::result::Result<PathBuf, Trouble> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut images = entries.map(|entry| entry.path());
    let has_end = |path: &PathBuf| path.to_string_lossy().ends_with(".oci.tar");
    let found = images.find(has_end);
    found.ok_or_else(|| {
        Trouble::Absent(format!("{} has no image: `cargo xtask dist` makes it", folder.display()))
    })
}

/// Reads and copies the image as each of the two kinds of archive that it is.
fn skopeo(image: &Path, folder: &Path) -> std::result::Result<(), Trouble> {
    if Command::new("skopeo").arg("--version").output().is_err() {
        return Err(Trouble::Absent(
            "there is no skopeo to read the image (Debian: apt install skopeo)".into(),
        ));
    }
    for kind in ["oci-archive", "docker-archive"] {
        let from = format!("{kind}:{}", image.display());
        let mut inspect = Command::new("skopeo");
        inspect.args(["inspect", &from]);
        let said = process::capture(inspect).map_err(Trouble::failed)?.stdout;
        let said: Value = serde_json::from_slice(&said).map_err(Trouble::failed)?;
        if said["Labels"]["org.opencontainers.image.title"] != "railyard" {
            return Err(Trouble::Failed(format!("skopeo reads no title in {from}: {said}")));
        }
        let to = format!("dir:{}", folder.join(kind).display());
        let mut copy = Command::new("skopeo");
        process::run_quiet(copy.args(["--insecure-policy", "copy", "--quiet", &from, &to]))
            .map_err(Trouble::failed)?;
    }
    println!("    skopeo has read and copied it");
    Ok(())
}

/// Unpacks the image's layers one over the other, with the digests checked by sha256sum; gives the file tree.
fn unpack(image: &Path, folder: &Path) -> Result<PathBuf> {
    let (layout, root) = (folder.join("layout"), folder.join("root"));
    for made in [&layout, &root] {
        fs::create_dir_all(made)?;
    }
    process::run_quiet(Command::new("tar").arg("-xf").arg(image).arg("-C").arg(&layout))?;
    let blobs = layout.join("blobs/sha256");
    let mut sums = String::new();
    for entry in fs::read_dir(&blobs)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        sums.push_str(&format!("{name}  {name}\n"));
    }
    fs::write(folder.join("sums"), sums)?;
    let mut check = Command::new("sha256sum");
    process::run_quiet(check.args(["--check", "--quiet"]).arg(folder.join("sums")).current_dir(&blobs))?;
    let read = |path: &Path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let blob = |descriptor: &Value| -> Result<PathBuf> {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        Ok(blobs.join(digest.ok_or("a descriptor without a digest")?))
    };
    let index = read(&layout.join("index.json"))?;
    let manifest = read(&blob(&index["manifests"][0])?)?;
    for layer in manifest["layers"].as_array().ok_or("a manifest without layers")? {
        let mut tar = Command::new("tar");
        tar.args(["--numeric-owner", "-xpzf"]).arg(blob(layer)?).arg("-C").arg(&root);
        process::run_quiet(&mut tar)?;
    }
    for folder in ["trial", "var/lib/rail-controller", "etc/railyard/authority"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(process::root().join("integration/lab/image.sh"), root.join("trial/image.sh"))?;
    Ok(root)
}

/// Runs a part of the script in the file tree.
fn visit(root: &Path, user: &str, what: &str) -> std::result::Result<(), Trouble> {
    let mut enter = Command::new("unshare");
    enter.args([
        "--mount",
        "--net",
        "--pid",
        "--ipc",
        "--uts",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        ENTER,
        "sh",
    ]);
    enter.arg(root).args([user, what]);
    enter
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = enter.spawn().map_err(Trouble::failed)?;
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
        .map_while(|line| line.ok())
    {
        eprintln!("    | {line}");
    }
    let status = child.wait().map_err(Trouble::failed)?;
    if status.success() {
        return Ok(());
    }
    Err(Trouble::Failed(format!(
        "the image as {what}: the trial ended with {status}; its file tree: {}",
        root.display()
    )))
}
