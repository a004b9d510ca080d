//! The lab's own kernel module, `integration/lab/labnic`: built from the headers of the guest's kernel, which are downloaded and
//! unpacked for it. Nothing is installed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{Trouble, packages, suite::scripts};
use crate::process;

const SOURCES: [&str; 2] = ["labnic.c", "Kbuild"];

/// The module for the kernel of this guest; made unless it is there and of these sources.
///
/// # Errors
/// The headers of the kernel cannot be had, or the module cannot be built.
pub fn built(folder: &Path) -> Result<PathBuf, Trouble> {
    let release = std::fs::read_to_string(folder.join("release")).map_err(Trouble::failed)?;
    let (module, stamp) = (folder.join("labnic.ko"), folder.join("labnic.stamp"));
    let mut recipe = release.clone();
    for name in SOURCES {
        let path = scripts().join("labnic").join(name);
        let text = std::fs::read_to_string(&path);
        recipe += &text.map_err(|error| Trouble::Failed(format!("{}: {error}", path.display())))?;
    }
    if module.exists() && std::fs::read_to_string(&stamp).is_ok_and(|have| have == recipe) {
        return Ok(module);
    }
    for tool in ["make", "gcc", "ld"] {
        let mut ask = Command::new(tool);
        process::run_quiet(ask.arg("--version").stdin(Stdio::null()))
            .map_err(|_| Trouble::Absent(format!("there is no {tool} to build the module labnic with")))?;
    }
    eprintln!("    building the module labnic for linux {release}");
    let unpacked = folder.join("headers");
    // What an earlier attempt left is of no use.
    let _ = std::fs::remove_dir_all(&unpacked);
    std::fs::create_dir_all(&unpacked).map_err(Trouble::failed)?;
    packages::unpack_headers(&release, &unpacked)?;
    make(&unpacked, &release)?;
    std::fs::copy(unpacked.join("labnic/labnic.ko"), &module).map_err(Trouble::failed)?;
    std::fs::remove_dir_all(&unpacked).map_err(Trouble::failed)?;
    std::fs::write(stamp, recipe).map_err(Trouble::failed)?;
    Ok(module)
}

/// Builds it from unpacked headers, which expect to lie in /usr/src.
fn make(unpacked: &Path, release: &str) -> Result<(), Trouble> {
    let tree = unpacked.join("usr/src").join(format!("linux-headers-{release}"));
    let top = tree.join("Makefile");
    let text = std::fs::read_to_string(&top).map_err(Trouble::failed)?;
    let moved = text.replace("include /usr/src", &format!("include {}/usr/src", unpacked.display()));
    std::fs::write(&top, moved).map_err(Trouble::failed)?;
    let room = unpacked.join("labnic");
    std::fs::create_dir_all(&room).map_err(Trouble::failed)?;
    for name in SOURCES {
        std::fs::copy(scripts().join("labnic").join(name), room.join(name)).map_err(Trouble::failed)?;
    }
    let mut make = Command::new("make");
    make.arg("-C").arg(&tree).arg(format!("M={}", room.display())).args([
        "CC=gcc",
        "KCFLAGS=-Werror",
        "modules",
    ]);
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CARGO_MAKEFLAGS"] {
        make.env_remove(name);
    }
    make.env(
        "LD_LIBRARY_PATH",
        format!("{0}/usr/lib/x86_64-linux-gnu:{0}/lib/x86_64-linux-gnu", unpacked.display()),
    );
    process::run_quiet(make.stdin(Stdio::null())).map_err(|error| Trouble::Failed(format!("labnic: {error}")))
}
