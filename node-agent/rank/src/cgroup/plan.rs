//! Which groups a job's ranks get in which hierarchies, and what is written there: a value, made from what was found and what is wanted.

use std::path::PathBuf;

use proto_model::IsolationFeature;

use super::{
    hierarchy::{Hierarchy, Version},
    limits::Limits,
};

/// Below the agent's own group.
pub(super) const PARENT: &str = "railyard";

/// One value for one file of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Name of the file in the group's directory.
    pub file: &'static str,
    /// The text that is written to the file.
    pub value: String,
    /// What depends on it; `None`: it may fail, where the kernel does not have it.
    pub feature: Option<IsolationFeature>,
}

/// One group to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group that is ours to divide; it exists.
    pub base: PathBuf,
    /// For [`Self::base`]: controllers that are handed down.
    pub hand_down: Vec<String>,
    /// For the group around all groups of ranks.
    pub around: Vec<Write>,
    /// Name of the group's own directory.
    pub name: String,
    /// For itself, in this order.
    pub own: Vec<Write>,
}

impl Group {
    /// Path of the group around all groups of ranks.
    #[must_use]
    pub fn parent(&self) -> PathBuf {
        self.base.join(PARENT)
    }

    /// Path of the group's own directory.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.parent().join(&self.name)
    }

    /// Features that it gives if all of it can be done.
    pub fn features(&self) -> impl Iterator<Item = IsolationFeature> {
        self.own.iter().filter_map(|write| write.feature)
    }
}

fn write(file: &'static str, value: impl ToString, feature: IsolationFeature) -> Write {
    Write { file, value: value.to_string(), feature: Some(feature) }
}

fn optional(file: &'static str, value: impl ToString) -> Write {
    Write { file, value: value.to_string(), feature: None }
}

/// The groups of one attempt. Each controller is used in the one hierarchy that has it; a hierarchy without any that is wanted is used
/// only where it is the first, so that no process of the attempt is missed.
#[must_use]
pub fn plan(found: &[Hierarchy], name: &str, limits: &Limits) -> Vec<Group> {
    let group = |(at, hierarchy): (usize, &Hierarchy)| {
        let (mut around, mut own) = (Vec::new(), Vec::new());
        let mut hand_down = Vec::new();
        let mut has = |controller: &str, wanted: bool| {
            let has = wanted && hierarchy.has(controller);
            if has && hierarchy.version == Version::Two {
                hand_down.push(controller.to_owned());
            }
            has
        };
        if let Some(bytes) = limits.memory.filter(|_| has("memory", limits.memory.is_some())) {
            memory(hierarchy.version, bytes, &mut own);
        }
        if let Some(pids) = limits.pids.filter(|_| has("pids", limits.pids.is_some())) {
            own.push(write("pids.max", pids, IsolationFeature::CgroupPids));
        }
        if let Some(cpus) = limits.cpus.as_ref().filter(|_| has("cpuset", limits.cpus.is_some())) {
            if hierarchy.version == Version::One {
                // A new group of this version has neither, and nobody can enter it then.
                around.push(optional("cpuset.cpus", &hierarchy.cpus));
                around.push(optional("cpuset.mems", &hierarchy.mems));
                own.push(write("cpuset.mems", &hierarchy.mems, IsolationFeature::CgroupCpuset));
            }
            own.push(write("cpuset.cpus", cpus, IsolationFeature::CgroupCpuset));
        }
        if let Some(devices) = limits.devices.as_ref().filter(|_| hierarchy.has("devices"))
            && hierarchy.version == Version::One
        {
            own.push(write("devices.deny", "a", IsolationFeature::CgroupDevices));
            own.extend(
                devices.iter().map(|rule| write("devices.allow", rule, IsolationFeature::CgroupDevices)),
            );
        }
        let wanted = at == 0 || !own.is_empty();
        wanted.then(|| Group { base: hierarchy.base.clone(), hand_down, around, name: name.to_owned(), own })
    };
    found.iter().enumerate().filter_map(group).collect()
}

fn memory(version: Version, bytes: u64, own: &mut Vec<Write>) {
    match version {
        Version::Two => {
            own.push(write("memory.max", bytes, IsolationFeature::CgroupMemory));
            own.push(optional("memory.swap.max", 0));
            // A gang without one of its ranks is of no use: all of them go, and none is left waiting for it.
            own.push(optional("memory.oom.group", 1));
        }
        Version::One => {
            own.push(write("memory.limit_in_bytes", bytes, IsolationFeature::CgroupMemory));
            // Memory and swap together: no swap beyond it.
            own.push(optional("memory.memsw.limit_in_bytes", bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(version: Version, controllers: &[&str], base: &str) -> Hierarchy {
        Hierarchy {
            version,
            controllers: controllers.iter().map(|one| (*one).to_owned()).collect(),
            base: base.into(),
            cpus: "0-7".into(),
            mems: "0-1".into(),
        }
    }

    fn limits() -> Limits {
        Limits {
            memory: Some(1 << 30),
            pids: Some(100),
            cpus: Some("0-3".into()),
            devices: Some(vec!["c 1:3 rwm".into()]),
        }
    }

    fn text(groups: &[Group]) -> Vec<String> {
        let group = |group: &Group| {
            let own = group.own.iter().map(|write| format!("{}={}", write.file, write.value));
            format!("{} {}", group.path().display(), own.collect::<Vec<_>>().join(" "))
        };
        groups.iter().map(group).collect()
    }

    #[test]
    fn the_unified_hierarchy_does_it_all_but_devices() {
        let found = [hierarchy(Version::Two, &["cpuset", "memory", "pids"], "/cg/a")];
        let groups = plan(&found, "n0.try", &limits());
        assert_eq!(
            text(&groups),
            [
                "/cg/a/railyard/n0.try memory.max=1073741824 memory.swap.max=0 memory.oom.group=1 pids.max=100 \
              cpuset.cpus=0-3"
            ]
        );
        assert_eq!(groups[0].hand_down, ["memory", "pids", "cpuset"]);
        assert!(groups[0].features().all(|feature| feature != IsolationFeature::CgroupDevices));
    }

    #[test]
    fn the_older_hierarchies_have_a_group_each() {
        let found = [
            hierarchy(Version::Two, &[], "/cg/unified"),
            hierarchy(Version::One, &["memory"], "/cg/memory/a"),
            hierarchy(Version::One, &["pids"], "/cg/pids"),
            hierarchy(Version::One, &["cpu", "cpuacct"], "/cg/cpu"),
            hierarchy(Version::One, &["cpuset"], "/cg/cpuset"),
            hierarchy(Version::One, &["devices"], "/cg/devices"),
        ];
        let groups = plan(&found, "t", &limits());
        assert_eq!(
            text(&groups),
            [
                "/cg/unified/railyard/t ",
                "/cg/memory/a/railyard/t memory.limit_in_bytes=1073741824 memory.memsw.limit_in_bytes=1073741824",
                "/cg/pids/railyard/t pids.max=100",
                "/cg/cpuset/railyard/t cpuset.mems=0-1 cpuset.cpus=0-3",
                "/cg/devices/railyard/t devices.deny=a devices.allow=c 1:3 rwm",
            ]
        );
        assert!(groups.iter().all(|group| group.hand_down.is_empty()));
        let around: Vec<&str> = groups[3].around.iter().map(|write| write.file).collect();
        assert_eq!(around, ["cpuset.cpus", "cpuset.mems"]);
    }

    #[test]
    fn without_limits_there_is_one_group_so_that_no_process_is_missed() {
        let found = [hierarchy(Version::One, &["pids"], "/p"), hierarchy(Version::One, &["memory"], "/m")];
        assert_eq!(text(&plan(&found, "t", &Limits::default())), ["/p/railyard/t "]);
        assert_eq!(plan(&[], "t", &limits()), []);
    }
}
