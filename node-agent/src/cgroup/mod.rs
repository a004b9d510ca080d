//! Control groups of a job's ranks: so that no process of theirs is missed, and so that limits can be set later.
//!
//! Version 2 where it is mounted and writable, else the `pids` or `memory` hierarchy of version 1. Without the right
//! to make one, processes are found by their parents alone (the supervisor is their subreaper).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use node_agent_core::Key;

/// Below the agent's own group.
const PARENT: &str = "railyard";

/// Where this process's own groups are, best first: (mount point and own path) of version 2, then version 1.
fn own_groups() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path_in = |wanted: &str| {
        let line = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|one| one == wanted).then_some(path)
        })?;
        Some(line.trim_start_matches('/').to_owned())
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = Vec::new();
    for kind in ["cgroup2", "pids", "memory"] {
        let mount = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let (at, fstype, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
            let fits = match kind {
                "cgroup2" => *fstype == "cgroup2",
                controller => *fstype == "cgroup" && options.split(',').any(|option| option == controller),
            };
            fits.then(|| PathBuf::from(at))
        });
        let path = path_in(if kind == "cgroup2" { "" } else { kind });
        if let (Some(mount), Some(path)) = (mount, path) {
            found.push(mount.join(path));
        }
    }
    found
}

/// Makes a group for one try's ranks.
///
/// # Errors
/// Why no hierarchy let us, in one line.
pub fn create(name: &str) -> io::Result<PathBuf> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no control groups are mounted");
    for own in own_groups() {
        // A supervisor's own group may already be below ours, after an agent that ran in such a group started it.
        let group = own.join(PARENT).join(name);
        // Once more: somebody may remove the empty group around it at this very moment.
        let made = fs::create_dir_all(&group).or_else(|_| fs::create_dir_all(&group));
        match made.and_then(|()| probe(&group)) {
            Ok(()) => return Ok(group),
            Err(error) => {
                let _ = fs::remove_dir(&group);
                last = io::Error::new(error.kind(), format!("{}: {error}", group.display()));
            }
        }
    }
    Err(last)
}

/// True if a process of ours could be put there: opening for writing is what the kernel checks first.
fn probe(group: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(group.join("cgroup.procs")).map(drop)
}

/// Puts this process into a group; what it starts from now on is in it too.
///
/// # Errors
/// What the kernel answered.
pub fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// The processes of a group; empty if it is gone.
#[must_use]
pub fn members(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Kills everything in a group at once where the kernel can (version 2, Linux 5.14).
pub fn kill(group: &Path) {
    let _ = fs::write(group.join("cgroup.kill"), "1");
}

/// Removes an empty group; one that is not empty or gone stays as it is.
pub fn remove(group: &Path) {
    let _ = fs::remove_dir(group);
}

/// The name of the group of one try's ranks on a node; `railctl dev down` knows it too.
#[must_use]
pub fn name(node: &str, key: Key) -> String {
    format!("{node}.{key}")
}

/// Says whether groups can be made here: `Err` holds the one line that says what is absent.
///
/// # Errors
/// What is absent, and what that means.
pub fn available() -> Result<PathBuf, String> {
    let name = format!("probe-{}", std::process::id());
    match create(&name) {
        Ok(group) => {
            remove(&group);
            Ok(group.parent().map(Path::to_owned).unwrap_or_default())
        }
        Err(error) => Err(format!(
            "no control groups for jobs ({error}); ranks are found and ended by process group and parent instead"
        )),
    }
}
