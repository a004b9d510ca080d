//! Packages of the machine's own Debian, fetched by its apt and not installed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// Downloads packages into a folder; where they are not found, once more with new lists of packages.
///
/// # Errors
/// There is no apt, it cannot have them, or the lists are absent and only root may fetch them.
pub fn download(names: &[&str], folder: &Path) -> Result<()> {
    let download = || {
        let mut download = Command::new("apt-get");
        download.args(["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1", "download"]);
        download.args(names).current_dir(folder);
        process::run_quiet(download.stdin(Stdio::null()))
    };
    if download().is_ok() {
        return Ok(());
    }
    update()?;
    // Of packages that came with the old lists there may be other versions now.
    without_packages(folder)?;
    download().map_err(|error| format!("Debian's packages cannot be had: {error}").into())
}

/// Removes packages from a folder, and nothing else.
fn without_packages(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Fetches the lists of packages, where this process may.
///
/// # Errors
/// This process is not root's, or the lists cannot be had.
pub fn update() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err("there are no lists of packages, and only root may fetch them (apt-get update)".into());
    }
    process::run_quiet(Command::new("apt-get").args(["-q", "update"]).stdin(Stdio::null()))
        .map_err(|error| format!("the lists of packages cannot be had: {error}").into())
}

/// What a package depends on, as apt-cache prints it.
///
/// # Errors
/// There is no apt-cache, or it does not know the package.
pub fn depends(package: &str) -> Result<String> {
    let mut ask = Command::new("apt-cache");
    ask.args(["depends", package]);
    let output = process::capture(ask)
        .map_err(|error| format!("what {package} depends on cannot be asked: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages that `apt-cache depends` names and that begin with one of these.
pub fn named(text: &str, prefixes: &[&str]) -> Vec<String> {
    let depends = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let wanted = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    depends.filter(wanted).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_by_what_depends_on_them() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Conflicts: a\n";
        assert_eq!(named(text, &["linux-image-"]), ["linux-image-6.1.0-56-amd64"]);
        assert!(named("linux-image-amd64\n  Depends: <none>\n", &["linux-image-"]).is_empty());
        let text = "linux-headers-6.1\n  Depends: linux-headers-6.1-common\n  Depends: linux-kbuild-6.1\n  Depends: gcc\n";
        assert_eq!(
            named(text, &["linux-headers-", "linux-kbuild-"]),
            ["linux-headers-6.1-common", "linux-kbuild-6.1"]
        );
    }
}
