//! Arranges files as an attempt sees them, in a mount namespace of its own. Everything that is to be put back at its place is taken
//! hold of first (`open_tree`), so that it does not matter what covers it meanwhile.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, symlink},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change,
        mount_remount, move_mount, open_tree,
    },
};

use super::{
    Attempted, Isolation, IsolationError,
    devices::PLAIN,
    view::{Step, View},
};

/// What nobody in a job may change or read of the kernel; as container runtimes have it.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
const MASKED_FILES: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/interrupts",
];
const MASKED_FOLDERS: [&str; 4] = ["/proc/acpi", "/proc/asound", "/proc/scsi", "/sys/firmware"];
/// Links that every program expects.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];
/// Files of a private folder at most: each takes memory of the kernel's.
const FILES_MAX: u64 = 1 << 20;

/// Least size of a tmpfs, in bytes: one page.
const TMPFS_MIN: u64 = 4096;

/// A tree of files that was taken hold of.
struct MountTree {
    path: PathBuf,
    tree: OwnedFd,
    folder: bool,
}

/// Arranges all of it; `pid` where `/proc` is to be the PID namespace's own.
///
/// # Errors
/// The step that failed, and what the kernel answered.
pub fn arrange(
    isolation: &Isolation,
    view: &View,
    devices: &[PathBuf],
    pid: bool,
) -> Result<(), IsolationError> {
    // What is mounted outside later is seen (automounters); nothing that is mounted here is seen outside.
    let downstream = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    mount_change("/", downstream).attempted(|| "keep mounts from spreading".to_owned())?;
    let shown = view.steps.iter().filter(|(_, step)| *step == Step::Show).map(|(path, _)| path);
    let mut shown = hold(shown)?.into_iter().peekable();
    let plain: Vec<PathBuf> = PLAIN.iter().map(|name| Path::new("/dev").join(name)).collect();
    let nodes = hold(plain.iter().chain(devices))?;
    for private in ["/tmp", "/var/tmp"] {
        if Path::new(private).is_dir() {
            tmpfs(private, isolation.tmp_bytes, "1777")?;
        }
    }
    own_devices(isolation, &nodes)?;
    for (path, step) in &view.steps {
        match step {
            Step::Hide if path.is_dir() => tmpfs(&path.display().to_string(), 1 << 20, "0711")?,
            Step::Hide => {}
            // Those that are not there were not taken hold of.
            Step::Show => shown.next_if(|held| held.path == *path).as_ref().map_or(Ok(()), put)?,
        }
    }
    for (hidden, _) in view.steps.iter().filter(|(path, step)| *step == Step::Hide && path.is_dir()) {
        read_only(hidden, MountFlags::NOSUID | MountFlags::NODEV)?;
    }
    if pid {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).attempted(|| "mount /proc".to_owned())?;
        guard_proc()?;
    }
    guard_sys()
}

fn hold<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<MountTree>, IsolationError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mut all = Vec::new();
    for path in paths {
        // What is not there is not shown.
        let Ok(meta) = fs::metadata(path) else { continue };
        let recursive = if meta.is_dir() { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
        let tree = open_tree(CWD, path, flags | recursive)
            .attempted(|| format!("take hold of {}", path.display()))?;
        all.push(MountTree { path: path.clone(), tree, folder: meta.is_dir() });
    }
    Ok(all)
}

/// Puts a tree where it was.
fn put(held: &MountTree) -> Result<(), IsolationError> {
    let path = &held.path;
    let make = || -> io::Result<()> {
        if let Some(above) = path.parent() {
            // They can be passed, not listed.
            fs::DirBuilder::new().recursive(true).mode(0o711).create(above)?;
        }
        match held.folder {
            true => fs::create_dir_all(path),
            false => fs::File::create(path).map(drop),
        }
    };
    // Its place may be there already, below another one that was shown.
    if !path.exists() {
        make().attempted(|| format!("make a place for {}", path.display()))?;
    }
    move_mount(&held.tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .attempted(|| format!("show {}", path.display()))
}

fn tmpfs(path: &str, bytes: u64, mode: &str) -> Result<(), IsolationError> {
    // To tmpfs 0 means as much as there is.
    let bytes = bytes.max(TMPFS_MIN);
    let options = format!("size={bytes},nr_inodes={},mode={mode}", FILES_MAX.min(bytes / 1024 + 64));
    let options = CString::new(options).attempted(|| format!("size {path}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))
        .attempted(|| format!("mount a private {path}"))
}

/// `/dev` with what any program needs, and the job's GPUs.
fn own_devices(isolation: &Isolation, nodes: &[MountTree]) -> Result<(), IsolationError> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"size=1048576,nr_inodes=1024,mode=0755";
    mount("tmpfs", "/dev", "tmpfs", flags, Some(options)).attempted(|| "mount a private /dev".to_owned())?;
    for node in nodes {
        put(node)?;
    }
    for (target, link) in LINKS {
        symlink(target, link).attempted(|| format!("link {link}"))?;
    }
    for folder in ["/dev/pts", "/dev/shm"] {
        fs::create_dir(folder).attempted(|| format!("make {folder}"))?;
    }
    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", terminals, Some(c"newinstance,ptmxmode=0666,mode=0620"))
        .attempted(|| "mount private terminals".to_owned())?;
    tmpfs("/dev/shm", isolation.shm_bytes, "1777")?;
    read_only(Path::new("/dev"), flags)
}

/// Makes one mount read-only here; `flags` are what it has beside.
fn read_only(path: &Path, flags: MountFlags) -> Result<(), IsolationError> {
    mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | flags, c"")
        .attempted(|| format!("make {} read-only", path.display()))
}

fn guard_proc() -> Result<(), IsolationError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for path in READ_ONLY.iter().map(Path::new).filter(|path| path.exists()) {
        mount_bind(path, path).attempted(|| format!("guard {}", path.display()))?;
        read_only(path, flags)?;
    }
    for path in MASKED_FILES.iter().map(Path::new).filter(|path| path.exists()) {
        mount_bind("/dev/null", path).attempted(|| format!("mask {}", path.display()))?;
    }
    for path in MASKED_FOLDERS.iter().map(Path::new).filter(|path| path.is_dir()) {
        tmpfs(&path.display().to_string(), 4096, "0555")?;
        read_only(path, MountFlags::NOSUID | MountFlags::NODEV)?;
    }
    Ok(())
}

/// All that is mounted at and below `/sys`, control groups among it.
fn guard_sys() -> Result<(), IsolationError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").attempted(|| "read mounts".to_owned())?;
    for (path, flags) in mounts.lines().filter_map(mounted).filter(|(path, _)| path.starts_with("/sys")) {
        // What another mount hides cannot be reached, neither by us nor by ranks.
        match mount_remount(&path, MountFlags::BIND | MountFlags::RDONLY | flags, c"") {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error).attempted(|| format!("make {} read-only", path.display())),
        }
    }
    Ok(())
}

/// A line of mountinfo (proc(5)): where, and the flags of the mount that must stay.
fn mounted(line: &str) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let path = fields.next()?.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    let mut flags = MountFlags::empty();
    for option in fields.next()?.split(',') {
        flags |= match option {
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some((path.into(), flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_flags() {
        let line = "30 23 0:26 / /sys/fs/a\\040b rw,nosuid,noexec,relatime shared:4 - cgroup2 cgroup2 rw";
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RELATIME;
        assert_eq!(mounted(line), Some(("/sys/fs/a b".into(), flags)));
        assert_eq!(mounted("30 23"), None);
    }
}
