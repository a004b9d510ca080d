//! What the guest is made of: Debian's packages, downloaded and unpacked, and the emulator.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Trouble;
use crate::{debian, process};

/// The newest kernel of this Debian; the package itself only names it.
const KERNEL: &str = "linux-image-amd64";

/// What the guest's programs come from, with the libraries that a small installation of Debian lacks. `xz-utils` is for
/// unpacking the kernel; `libibverbs-dev` for the test that compares our layouts with the real headers.
const PACKAGES: [&str; 25] = [
    "busybox-static",
    "dash",
    "ethtool",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "libbpf1",
    "libbsd0",
    "libcap2",
    "libelf1",
    "libibumad3",
    "libibverbs-dev",
    "libibverbs1",
    "libmd0",
    "libmnl0",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "librdmacm1",
    "libudev1",
    "libxtables12",
    "perftest",
    "rdmacm-utils",
    "xz-utils",
    "zlib1g",
];

/// Changes whenever the image would: the packages' names, without versions, since each version has its own name in a cache.
pub fn recipe() -> String {
    format!("{KERNEL} {}", PACKAGES.join(" "))
}

/// Downloads what the guest is made of into a new folder and unpacks it there.
///
/// # Errors
/// This system cannot have the guest, or the packages cannot be downloaded or unpacked.
pub fn unpack(folder: &Path) -> Result<(), Trouble> {
    if !(cfg!(target_arch = "x86_64") && cfg!(target_os = "linux")) {
        return Err(Trouble::Absent("the guest is an x86-64 Linux".into()));
    }
    let kernel = kernel().or_else(|_| debian::update().map_err(absent).and_then(|()| kernel()))?;
    let mut names = vec![kernel.as_str()];
    names.extend(PACKAGES);
    fetch(&names, folder)
}

/// Downloads what a module for the kernel of this release is built with, and unpacks it.
///
/// # Errors
/// The packages cannot be downloaded or unpacked, or there are none for this release.
pub fn unpack_headers(release: &str, folder: &Path) -> Result<(), Trouble> {
    let headers = format!("linux-headers-{release}");
    let parts = || -> Result<Vec<String>, Trouble> {
        let depends = debian::depends(&headers).map_err(absent)?;
        let parts = debian::named(&depends, &["linux-headers-", "linux-kbuild-"]);
        if parts.is_empty() {
            Err(Trouble::Absent(format!("Debian has no package {headers} now")))
        } else {
            Ok(parts)
        }
    };
    let parts = parts().or_else(|_| debian::update().map_err(absent).and_then(|()| parts()))?;
    let mut names = vec![headers.as_str()];
    names.extend(parts.iter().map(String::as_str));
    // What a tool of the kernel's own build links.
    names.extend(["libelf1", "zlib1g"]);
    fetch(&names, folder)
}

/// Downloads packages and unpacks them into a folder.
fn fetch(names: &[&str], folder: &Path) -> Result<(), Trouble> {
    let debs = folder.join("packages");
    std::fs::create_dir_all(&debs).map_err(Trouble::failed)?;
    debian::download(names, &debs).map_err(absent)?;
    let entries = std::fs::read_dir(&debs).map_err(Trouble::failed)?;
    for deb in entries.flatten().map(|entry| entry.path()) {
        process::run_quiet(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(folder))
            .map_err(|error| Trouble::Failed(format!("{}: {error}", deb.display())))?;
    }
    std::fs::remove_dir_all(&debs).map_err(Trouble::failed)
}

fn absent(error: Box<dyn std::error::Error>) -> Trouble {
    Trouble::Absent(error.to_string())
}

/// The name of the kernel's own package.
fn kernel() -> Result<String, Trouble> {
    let found =
        debian::named(&debian::depends(KERNEL).map_err(absent)?, &["linux-image-"]).into_iter().next();
    found.ok_or_else(|| {
        Trouble::Absent(format!("apt-cache does not know {KERNEL} (not Debian, or no package lists)"))
    })
}

/// The emulator: from the PATH, or installed.
///
/// # Errors
/// It is not there and cannot be installed.
pub fn emulator() -> Result<PathBuf, Trouble> {
    const NAME: &str = "qemu-system-x86_64";
    let answers = || {
        let mut ask = Command::new(NAME);
        ask.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    if answers() {
        return Ok(NAME.into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::Absent(format!("there is no {NAME} (Debian: apt install qemu-system-x86)")));
    }
    eprintln!("    installing the emulator (qemu-system-x86)");
    let mut install = Command::new("apt-get");
    install.args(["-q", "-y", "-o", "Acquire::http::Timeout=20", "install", "--no-install-recommends"]);
    install.arg("qemu-system-x86").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    process::run_quiet(&mut install)
        .map_err(|error| Trouble::Absent(format!("{NAME} cannot be had: {error}")))?;
    if answers() { Ok(NAME.into()) } else { Err(Trouble::Absent(format!("{NAME} does not run"))) }
}
