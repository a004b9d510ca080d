//! The guest's first and only file system: what every suite needs, made once, and behind it what the project built.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Trouble, bzimage,
    cpio::Archive,
    module, modules, packages,
    suite::{Program, Suite, script, scripts},
};
use crate::process;

/// Counts up when the image is made in another way.
const VERSION: u32 = 2;

/// Programs of the guest, where their packages have them.
const PROGRAMS: [&str; 15] = [
    "bin/ip",
    "sbin/dcb",
    "sbin/ethtool",
    "sbin/tc",
    "usr/bin/rdma",
    "usr/bin/ib_send_lat",
    "usr/bin/ib_write_bw",
    "usr/bin/ib_write_lat",
    "usr/bin/ibv_asyncwatch",
    "usr/bin/ibv_devices",
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/rping",
    "bin/dash",
    "bin/ss",
];

/// Where programs and libraries lie in the guest.
const BIN: &str = "lab/bin";
const LIB: &str = "lib/x86_64-linux-gnu";
/// Where Debian's libibverbs looks for the part that knows Soft-RoCE.
const PROVIDERS: &str = "usr/lib/x86_64-linux-gnu/libibverbs";

/// What every suite boots from.
#[derive(Debug)]
pub struct Base {
    /// Where all of it lies.
    pub folder: PathBuf,
    /// The path of the kernel, unpacked.
    pub kernel: PathBuf,
    /// The first part of the file system.
    archive: PathBuf,
}

/// Makes it, unless it is there.
///
/// # Errors
/// The packages cannot be had, or the image cannot be made of them.
pub fn base() -> Result<Base, Trouble> {
    let folder = process::target_dir().map_err(Trouble::failed)?.join("lab");
    let base =
        Base { kernel: folder.join("vmlinux"), archive: folder.join("base.cpio"), folder: folder.clone() };
    let (stamp, recipe) = (folder.join("stamp"), format!("{VERSION} {}", packages::recipe()));
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == recipe) {
        return Ok(base);
    }
    eprintln!("    making the guest's image from Debian's packages");
    let unpacked = folder.join("unpacked");
    // What an earlier attempt left is of no use.
    let _ = std::fs::remove_dir_all(&unpacked);
    std::fs::create_dir_all(&unpacked).map_err(Trouble::failed)?;
    packages::unpack(&unpacked)?;
    kernel(&unpacked, &base.kernel)?;
    let archive = fill(&unpacked)?;
    std::fs::write(&base.archive, archive).map_err(Trouble::failed)?;
    std::fs::write(folder.join("release"), file_name(&release(&unpacked)?)).map_err(Trouble::failed)?;
    let header = folder.join("include/infiniband");
    std::fs::create_dir_all(&header).map_err(Trouble::failed)?;
    for name in ["verbs.h", "verbs_api.h", "ib_user_ioctl_verbs.h"] {
        let from = unpacked.join("usr/include").join("infiniband").join(name);
        let from = if from.exists() { from } else { unpacked.join("usr/include/rdma").join(name) };
        std::fs::copy(&from, header.join(name))
            .map_err(|error| Trouble::Failed(format!("{}: {error}", from.display())))?;
    }
    std::fs::remove_dir_all(&unpacked).map_err(Trouble::failed)?;
    std::fs::write(stamp, recipe).map_err(Trouble::failed)?;
    Ok(base)
}

/// The compressed kernel that was unpacked from its package, as a file that needs no unpacking.
fn kernel(unpacked: &Path, to: &Path) -> Result<(), Trouble> {
    let boot = std::fs::read_dir(unpacked.join("boot")).map_err(Trouble::failed)?;
    let mut images = boot.flatten().map(|entry| entry.path());
    let image = images.find(|path| path.to_string_lossy().contains("vmlinuz-"));
    let image = image.ok_or_else(|| Trouble::Failed("the kernel's package has no kernel".into()))?;
    let image = std::fs::read(&image).map_err(Trouble::failed)?;
    let payload = bzimage::payload(&image).map_err(Trouble::failed)?;
    let packed = to.with_extension("xz");
    std::fs::write(&packed, payload).map_err(Trouble::failed)?;
    let out = std::fs::File::create(to).map_err(Trouble::failed)?;
    let mut xz = Command::new(unpacked.join("usr/bin/xz"));
    xz.arg("-dc").arg(&packed).stdout(out);
    process::run_quiet(&mut xz).map_err(Trouble::failed)?;
    std::fs::remove_file(packed).map_err(Trouble::failed)
}

/// The first part: tools, libraries, modules.
fn fill(unpacked: &Path) -> Result<Vec<u8>, Trouble> {
    let mut archive = Archive::default();
    for folder in ["proc", "sys", "dev", "tmp", "run", "root", "var", "etc"] {
        archive.folder(folder);
    }
    archive.device("dev/console", (5, 1));
    archive.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\n");
    archive.file("etc/hosts", b"127.0.0.1 localhost\n");
    archive.file("etc/libibverbs.d/rxe.driver", b"driver rxe\n");
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| Trouble::Failed(format!("{}: {error}", path.display())))
    };
    archive.file("bin/busybox", &read(&unpacked.join("bin/busybox"))?);
    archive.link("bin/sh", &format!("/{BIN}/dash"));
    let provider = provider(unpacked)?;
    let mut dynamic = vec![provider.clone()];
    for program in PROGRAMS {
        let path = unpacked.join(program);
        archive.file(&format!("{BIN}/{}", file_name(&path)), &read(&path)?);
        dynamic.push(path);
    }
    archive.file(&format!("{PROVIDERS}/{}", file_name(&provider)), &read(&provider)?);
    for library in libraries(&dynamic, Some(unpacked))? {
        archive.file(&format!("{LIB}/{}", file_name(&library)), &read(&library)?);
    }
    archive.link("lib64/ld-linux-x86-64.so.2", &format!("/{LIB}/ld-linux-x86-64.so.2"));
    let mut order = String::new();
    for (name, path) in modules::closure(&release(unpacked)?).map_err(Trouble::Failed)? {
        archive.file(&format!("lab/modules/{name}.ko"), &read(&path)?);
        order.push_str(&name);
        order.push('\n');
    }
    archive.file("lab/modules/order", order.as_bytes());
    Ok(archive.finish())
}

/// The folder of the kernel's modules; its name is the kernel's release.
fn release(unpacked: &Path) -> Result<PathBuf, Trouble> {
    let kernel = std::fs::read_dir(unpacked.join("lib/modules")).map_err(Trouble::failed)?.flatten().next();
    kernel
        .map(|entry| entry.path())
        .ok_or_else(|| Trouble::Failed("the kernel's package has no modules".into()))
}

fn provider(unpacked: &Path) -> Result<PathBuf, Trouble> {
    let entries = std::fs::read_dir(unpacked.join(PROVIDERS)).map_err(Trouble::failed)?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let rxe = paths.find(|path| file_name(path).starts_with("librxe-"));
    rxe.ok_or_else(|| Trouble::Failed("libibverbs has no part that knows Soft-RoCE".into()))
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The libraries that these programs load, and the loader, under the names by which they are looked for.
fn libraries(programs: &[PathBuf], unpacked: Option<&Path>) -> Result<BTreeSet<PathBuf>, Trouble> {
    let mut found = BTreeSet::new();
    for program in programs {
        let mut ldd = Command::new("ldd");
        ldd.arg(program);
        if let Some(unpacked) = unpacked {
            let path = format!("{0}/usr/{LIB}:{0}/{LIB}", unpacked.display());
            ldd.env("LD_LIBRARY_PATH", path);
        }
        let output = process::capture(ldd).map_err(Trouble::failed)?;
        found.extend(linked(&String::from_utf8_lossy(&output.stdout)).map_err(|library| {
            Trouble::Failed(format!("{} needs {library}, which is not here", program.display()))
        })?);
    }
    Ok(found)
}

/// The paths that `ldd` prints, or the library that it misses.
fn linked(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some((library, "not found")) = line.split_once(" => ") {
            return Err(library.to_owned());
        }
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(path.into());
        }
    }
    Ok(paths)
}

/// The whole file system of one suite.
///
/// # Errors
/// A script or a program of the suite is missing, or the file cannot be written.
pub fn of(base: &Base, suite: &Suite, bin: Option<&Path>) -> Result<PathBuf, Trouble> {
    if !script(suite).exists() {
        return Err(Trouble::Failed(format!("{} is missing", script(suite).display())));
    }
    let mut archive = Archive::default();
    for entry in std::fs::read_dir(scripts()).map_err(Trouble::failed)?.flatten() {
        let (path, name) = (entry.path(), file_name(&entry.path()));
        if name.ends_with(".sh") {
            let to = if name == "init.sh" { "init".to_owned() } else { format!("lab/{name}") };
            archive.file(&to, &std::fs::read(&path).map_err(Trouble::failed)?);
        }
    }
    for program in suite.programs {
        add(&mut archive, &base.folder, *program, bin)?;
    }
    if suite.module {
        archive.file("lab/labnic.ko", &std::fs::read(module::built(&base.folder)?).map_err(Trouble::failed)?);
    }
    let guest = base.folder.join("guest.cpio");
    let mut whole = std::fs::read(&base.archive).map_err(Trouble::failed)?;
    whole.extend(archive.finish());
    std::fs::write(&guest, whole).map_err(Trouble::failed)?;
    Ok(guest)
}

/// Puts a program of the project in, without what only a debugger wants, and the libraries that it links.
fn add(
    archive: &mut Archive,
    folder: &Path,
    Program { package, name }: Program,
    bin: Option<&Path>,
) -> Result<(), Trouble> {
    let built = match bin {
        Some(bin) => bin.join(name),
        None => {
            process::run(process::cargo(["build", "--quiet", "--package", package, "--bin", name]))
                .map_err(Trouble::failed)?;
            process::target_dir().map_err(Trouble::failed)?.join("debug").join(name)
        }
    };
    let stripped = folder.join(name);
    std::fs::copy(&built, &stripped).map_err(|e| Trouble::Failed(format!("{}: {e}", built.display())))?;
    // A linker comes with it. If it does not work the guest only gets larger.
    let _ = process::run_quiet(Command::new("strip").arg("--strip-debug").arg(&stripped));
    let read = |path: &Path| std::fs::read(path).map_err(Trouble::failed);
    archive.file(&format!("{BIN}/{name}"), &read(&stripped)?);
    for library in libraries(std::slice::from_ref(&stripped), None)? {
        archive.file(&format!("{LIB}/{}", file_name(&library)), &read(&library)?);
    }
    std::fs::remove_file(stripped).map_err(Trouble::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ldd_prints_is_paths_or_what_is_missing() {
        let text = "\tlinux-vdso.so.1 (0x7ff)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7e)\n";
        assert_eq!(
            linked(text).unwrap(),
            ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
        assert_eq!(linked("\tstatically linked\n"), Ok(vec![]));
        assert_eq!(linked("\tlibnl-3.so.200 => not found\n"), Err("libnl-3.so.200".to_owned()));
    }
}
