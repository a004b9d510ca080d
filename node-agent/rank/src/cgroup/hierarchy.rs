//! Which hierarchies of control groups there are, and where we are in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The group of the agent itself in a subtree that is ours: version 2 lets no group have both processes and groups with limits. systemd
/// makes it (`DelegateSubgroup=`), else the agent does.
pub(super) const OWN: &str = "railyard-agent";

/// Controllers that are of use here.
const USED: [&str; 4] = ["memory", "pids", "cpuset", "devices"];

/// How a hierarchy works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    One,
    /// The unified hierarchy (cgroup v2), which has all controllers.
    Two,
}

/// One hierarchy of control groups that is mounted on this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Version of the interface by which it is controlled.
    pub version: Version,
    /// What can be limited in it.
    pub controllers: Vec<String>,
    /// The group that is ours to divide.
    pub base: PathBuf,
    /// CPUs that we may use ourselves, where it knows.
    pub cpus: String,
    /// Memory nodes that we may use ourselves, where it knows.
    pub mems: String,
}

impl Hierarchy {
    /// Whether something can be limited in it.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|one| one == controller)
    }
}

/// Those of this process, the unified one first, then the older ones in the order of their use.
#[must_use]
pub fn found() -> Vec<Hierarchy> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = parse(&mounts, &own, Path::new("/"));
    for hierarchy in &mut found {
        let read =
            |file: &str| fs::read_to_string(hierarchy.base.join(file)).unwrap_or_default().trim().to_owned();
        if hierarchy.version == Version::Two {
            hierarchy.controllers = read("cgroup.controllers")
                .split(' ')
                .filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect();
        }
        (hierarchy.cpus, hierarchy.mems) = match hierarchy.version {
            Version::One => (read("cpuset.cpus"), read("cpuset.mems")),
            Version::Two => (read("cpuset.cpus.effective"), read("cpuset.mems.effective")),
        };
    }
    found
}

/// The same from the texts of mounts and of our own groups; `root` is where mount points are looked for.
#[must_use]
pub fn parse(mounts: &str, own: &str, root: &Path) -> Vec<Hierarchy> {
    let path_in = |wanted: &str| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|one| one == wanted).then_some(path)
        })
    };
    let mut unified = Vec::new();
    let mut older: Vec<(usize, Hierarchy)> = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, at, kind, options, ..] = fields[..] else { continue };
        let at = root.join(unescaped(at).trim_start_matches('/'));
        let hierarchy = |version, controllers: Vec<String>, path: &str| Hierarchy {
            version,
            controllers,
            base: base(&at, path),
            cpus: String::new(),
            mems: String::new(),
        };
        match kind {
            "cgroup2" if unified.is_empty() => {
                unified.extend(path_in("").map(|path| hierarchy(Version::Two, Vec::new(), path)));
            }
            "cgroup" => {
                let used = |one: &&str| USED.contains(one);
                let controllers: Vec<&str> = options.split(',').filter(used).collect();
                let Some(first) = controllers.first() else { continue };
                let order = USED.iter().position(|one| one == first).unwrap_or(USED.len());
                let names = controllers.iter().map(|one| (*one).to_owned()).collect();
                if let Some(path) = path_in(first).filter(|_| older.iter().all(|(other, _)| *other != order))
                {
                    older.push((order, hierarchy(Version::One, names, path)));
                }
            }
            _ => {}
        }
    }
    older.sort_by_key(|(order, _)| *order);
    unified.into_iter().chain(older.into_iter().map(|(_, hierarchy)| hierarchy)).collect()
}

/// The group that is ours to divide, of the one that we are in. A supervisor may be in a group below that, after an agent that ran there.
fn base(mount: &Path, own: &str) -> PathBuf {
    let own = own.trim_start_matches('/');
    let ours = |part: &str| part == OWN || part == super::plan::PARENT;
    let parts: Vec<&str> = own.split('/').take_while(|part| !ours(part)).collect();
    if own.is_empty() { mount.to_owned() } else { mount.join(parts.join("/")) }
}

/// Spaces and backslashes in mount points, as the kernel writes them.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
        cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    #[test]
    fn a_hybrid_system_has_the_unified_one_and_some_older_ones() {
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/service/x\n3:cpuset:/\n1:cpu:/\n0::/\n";
        let found = parse(HYBRID, own, Path::new("/"));
        let bases: Vec<String> = found.iter().map(|one| one.base.display().to_string()).collect();
        assert_eq!(
            bases,
            [
                "/sys/fs/cgroup/unified",
                "/sys/fs/cgroup/memory/service/x",
                "/sys/fs/cgroup/pids",
                "/sys/fs/cgroup/cpuset"
            ]
        );
        assert!(found[1].has("memory") && found[3].has("cpuset") && !found[0].has("memory"));
    }

    #[test]
    fn groups_of_ours_are_not_part_of_what_we_divide() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        for own in [
            "0::/system.slice/rail.service",
            "0::/system.slice/rail.service/railyard-agent",
            "0::/system.slice/rail.service/railyard/n0.try",
        ] {
            let found = parse(mounts, own, Path::new("/"));
            assert_eq!(found[0].base, Path::new("/sys/fs/cgroup/system.slice/rail.service"), "{own}");
        }
        assert_eq!(parse("", "0::/", Path::new("/")), []);
    }
}
