//! What the guest is made of: Debian's packages, downloaded and unpacked, and the emulator.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Trouble;
use crate::process;

/// The newest kernel of this Debian; the package itself only names it.
const KERNEL: &str = "linux-image-amd64";

/// What the guest's programs come from, with the libraries that a small installation of Debian lacks. `xz-utils` is for
/// unpacking the kernel; `libibverbs-dev` for the test that compares our layouts with the real headers.
const PACKAGES: [&str; 24] = [
    "busybox-static",
    "dash",
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

/// Downloads everything into a new folder and unpacks it there.
pub fn unpack(folder: &Path) -> Result<(), Trouble> {
    if !(cfg!(target_arch = "x86_64") && cfg!(target_os = "linux")) {
        return Err(Trouble::Absent("the guest is an x86-64 Linux".into()));
    }
    let debs = folder.join("packages");
    std::fs::create_dir_all(&debs).map_err(Trouble::failed)?;
    let kernel = kernel().or_else(|_| update().and_then(|()| kernel()))?;
    let download = || {
        let mut download = Command::new("apt-get");
        download.args(["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1", "download"]);
        download.arg(&kernel).args(PACKAGES).current_dir(&debs);
        process::run_quiet(download.stdin(Stdio::null()))
    };
    if download().is_err() {
        update()?;
        download().map_err(|error| Trouble::Absent(format!("Debian's packages cannot be had: {error}")))?;
    }
    let entries = std::fs::read_dir(&debs).map_err(Trouble::failed)?;
    for deb in entries.flatten().map(|entry| entry.path()) {
        process::run_quiet(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(folder))
            .map_err(|error| Trouble::Failed(format!("{}: {error}", deb.display())))?;
    }
    std::fs::remove_dir_all(&debs).map_err(Trouble::failed)
}

/// The name of the kernel's own package.
fn kernel() -> Result<String, Trouble> {
    let mut ask = Command::new("apt-cache");
    let output = process::capture({
        ask.args(["depends", KERNEL]);
        ask
    });
    let absent = |why: String| Trouble::Absent(format!("which kernel {KERNEL} is cannot be asked: {why}"));
    let output = output.map_err(|error| absent(error.to_string()))?;
    named_kernel(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| absent("apt-cache does not know it (not Debian, or no package lists)".into()))
}

/// The kernel that `apt-cache depends` names.
fn named_kernel(text: &str) -> Option<String> {
    let mut depends = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    depends.find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

/// Fetches the lists of packages, where this process may.
fn update() -> Result<(), Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::Absent("there are no lists of packages, and only root may fetch them".into()));
    }
    process::run_quiet(Command::new("apt-get").args(["-q", "update"]).stdin(Stdio::null()))
        .map_err(|error| Trouble::Absent(format!("the lists of packages cannot be had: {error}")))
}

/// The emulator: from the PATH, or installed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_its_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Conflicts: a\n";
        assert_eq!(named_kernel(text).unwrap(), "linux-image-6.1.0-56-amd64");
        assert_eq!(named_kernel("linux-image-amd64\n  Depends: <none>\n"), None);
        assert_eq!(named_kernel(""), None);
    }
}
