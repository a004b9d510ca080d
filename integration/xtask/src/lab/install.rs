//! `cargo xtask lab packages`: the packages that `cargo xtask dist` makes, installed, used, upgraded, removed and purged in a clean root of each Debian
//! that they are for; and those of RPM installed into an empty root and erased. Row P1 of the benchmark is how long it takes from nothing to a job.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde_json::{Value, json};

use super::{dist::of_dist, trouble::Trouble};
use crate::{
    dist::packages,
    process::{self, Result},
    release,
};

/// The releases of Debian that packages are for.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];
/// What a server of Debian has beyond the smallest root: packages stand on it, and it is there before they come.
const INCLUDED: &str = "systemd,systemd-sysv";
/// What is said before the seconds that it took.
const SECONDS: &str = "seconds: ";
/// Row P1's goal, in seconds.
const GOAL: f64 = 60.0;

/// From a root with nothing but the network of its own and the packages: the first process, with the root as its whole file tree.
const ENTER: &str = r#"set -e
ip link set lo up
hostname n0
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
cd "$1"
pivot_root . .
umount -l .
exec /bin/bash /trial/packages.sh
"#;

/// Tries all of it; prints one line of results for each Debian.
///
/// # Errors
/// Something that was tried is not as it should be. What cannot be had here is exit code 2 and no error.
pub fn run(dist: Option<&Path>) -> Result<ExitCode> {
    of_dist(dist, all)
}

fn all(dist: &Path) -> std::result::Result<(), Trouble> {
    if !process::may_make_namespaces() {
        return Err(Trouble::Absent("it needs root, and ip".into()));
    }
    if !dist.join("bin/railctl").is_file() || !dist.join("man").is_dir() {
        return Err(Trouble::Absent(format!("{} is not what `cargo xtask dist` makes", dist.display())));
    }
    let folder = process::target_dir().map_err(Trouble::failed)?.join("lab/packages");
    let pack = |revision: u32| -> Result<PathBuf> {
        let to = folder.join(revision.to_string());
        // Packages of another version would be installed too.
        removed(&to)?;
        fs::create_dir_all(&to)?;
        packages::pack(&packages::folders(dist), &packages::release(revision)?, &to)?;
        Ok(to)
    };
    let revisions = [pack(1).map_err(Trouble::failed)?, pack(2).map_err(Trouble::failed)?];
    for release in RELEASES {
        let base = base(release, &folder)?;
        let seconds = tried(&base, &folder, &revisions)?;
        println!("{}", line(release, seconds));
    }
    match rpm(&folder, &revisions[0]) {
        Err(Trouble::Absent(why)) => println!("skipped: packages of RPM: {why}"),
        tried => tried?,
    }
    Ok(())
}

/// A clean root of a release, made once.
fn base(release: &str, folder: &Path) -> std::result::Result<PathBuf, Trouble> {
    let (root, made) = (folder.join(format!("{release}-root")), folder.join(format!("{release}-new")));
    if root.is_dir() {
        return Ok(root);
    }
    let archive = release::archive().map_err(|error| Trouble::Absent(error.to_string()))?;
    removed(&made).map_err(Trouble::failed)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap
        .args(["--variant=minbase", &format!("--include={INCLUDED}"), release])
        .arg(&made)
        .arg(archive);
    process::run_quiet(&mut debootstrap).map_err(|error| Trouble::Absent(error.to_string()))?;
    fs::rename(&made, &root).map_err(Trouble::failed)?;
    Ok(root)
}

/// Runs the script in a copy of a root; gives how many seconds it took from install to job.
fn tried(base: &Path, folder: &Path, revisions: &[PathBuf; 2]) -> std::result::Result<f64, Trouble> {
    let root = folder.join("trial");
    removed(&root).map_err(Trouble::failed)?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(base).arg(&root);
    process::run_quiet(&mut copy).map_err(Trouble::failed)?;
    let trial = root.join("trial");
    for (name, packages) in ["1", "2"].iter().zip(revisions) {
        debs(packages, &trial.join(name)).map_err(Trouble::failed)?;
    }
    let script = process::root().join("integration/lab/packages.sh");
    fs::copy(script, trial.join("packages.sh")).map_err(Trouble::failed)?;
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
    enter.arg(&root).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    let mut child = enter.stdout(Stdio::piped()).spawn().map_err(Trouble::failed)?;
    let mut seconds = None;
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
        .map_while(|line| line.ok())
    {
        eprintln!("    | {line}");
        seconds = line.strip_prefix(SECONDS).and_then(|text| text.parse().ok()).or(seconds);
    }
    let status = child.wait().map_err(Trouble::failed)?;
    if !status.success() {
        return Err(Trouble::Failed(format!(
            "packages in {}: the trial ended with {status}; its logs: {}",
            base.display(),
            trial.display()
        )));
    }
    removed(&root).map_err(Trouble::failed)?;
    seconds.ok_or_else(|| Trouble::Failed("the trial did not say how long it took".into()))
}

fn debs(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// Packages of RPM into an empty root and out of it; their scripts have no shell there and do not run.
fn rpm(folder: &Path, packages: &Path) -> std::result::Result<(), Trouble> {
    let root = folder.join("rpm-root");
    removed(&root).map_err(Trouble::failed)?;
    fs::create_dir_all(&root).map_err(Trouble::failed)?;
    let all: Vec<PathBuf> =
        fs::read_dir(packages).map_err(Trouble::failed)?.flatten().map(|entry| entry.path()).collect();
    let all = || all.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rpm"));
    let rpm = |arguments: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(arguments);
        command
    };
    if Command::new("rpm").arg("--version").output().is_err() {
        return Err(Trouble::Absent("there is no rpm".into()));
    }
    let mut install = rpm(&["--install", "--nodeps", "--noscripts", "--ignorearch", "--nosignature"]);
    process::run_quiet(install.args(all())).map_err(Trouble::failed)?;
    let names = integration_packages::catalog::ALL.map(|package| package.name);
    let mut verify = rpm(&["--verify", "--nodeps", "--noscripts"]);
    process::run_quiet(verify.args(names)).map_err(Trouble::failed)?;
    if !root.join("usr/lib/railyard/rail-engine").is_file() {
        return Err(Trouble::Failed("packages of RPM: rail-engine is not where it belongs".into()));
    }
    let mut erase = rpm(&["--erase", "--nodeps", "--noscripts"]);
    process::run_quiet(erase.args(names)).map_err(Trouble::failed)?;
    let mut left = Command::new("find");
    left.arg(&root).args(["-name", "*rail*", "-not", "-path", "*/rpm/*"]);
    let left = process::capture(left).map_err(Trouble::failed)?.stdout;
    if !left.is_empty() {
        return Err(Trouble::Failed(format!("packages of RPM leave {}", String::from_utf8_lossy(&left))));
    }
    println!("    packages of RPM: installed, verified, erased");
    removed(&root).map_err(Trouble::failed)
}

fn removed(folder: &Path) -> Result<()> {
    if folder.exists() { Ok(fs::remove_dir_all(folder)?) } else { Ok(()) }
}

/// As the benchmark's programs print a figure.
fn line(release: &str, seconds: f64) -> Value {
    json!({
        "bench": "packages", "row": "P1", "case": format!("install to first verified job, {release}"), "value": seconds, "unit": "s",
        "goal": GOAL, "holds": seconds <= GOAL, "min": seconds, "max": seconds, "runs": 1, "cpu": null, "peers": {},
    })
}
