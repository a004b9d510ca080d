//! Control groups of a job's ranks: so that no process of theirs is missed, and so that they cannot take from others.
//!
//! Both versions of the kernel's interface, side by side where a system has both: what is wanted of which hierarchy is a value
//! (`plan.rs`) made from what was found (`hierarchy.rs`) and from what the site allows the job (`limits.rs`, `devices.rs`); this
//! file writes it. Without the right to make a group, processes are found by their parents alone (the supervisor is their
//! subreaper), and nothing is limited.

pub mod cpus;
pub mod devices;
pub mod hierarchy;
pub mod limits;
pub mod plan;
mod usage;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use node_agent_core::Key;
use proto_model::{IsolationFeature, IsolationState};

pub use self::usage::{Excess, cpu_time, excess, memory};
use self::{
    hierarchy::Hierarchy,
    limits::Limits,
    plan::{Group, Write},
};

/// Features that depend on control groups.
const FEATURES: [IsolationFeature; 4] = [
    IsolationFeature::CgroupMemory,
    IsolationFeature::CgroupPids,
    IsolationFeature::CgroupCpuset,
    IsolationFeature::CgroupDevices,
];

/// The groups of one attempt.
#[derive(Debug, Default)]
pub struct Made {
    /// Where they are; the processes of the attempt are those of the first.
    pub groups: Vec<PathBuf>,
    /// The features that are in force for the attempt.
    pub active: Vec<IsolationFeature>,
    /// The features that are not in force, each with the reason.
    pub absent: Vec<(IsolationFeature, String)>,
}

/// Makes the groups for one attempt's ranks.
///
/// # Errors
/// Why no hierarchy let us make any, in one line.
pub fn create(name: &str, limits: &Limits) -> io::Result<Made> {
    create_in(&hierarchy::found(), name, limits)
}

fn create_in(found: &[Hierarchy], name: &str, limits: &Limits) -> io::Result<Made> {
    let mut made = Made::default();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no control groups are mounted");
    let mut rest = found;
    // Where the best hierarchy lets us do nothing, the next one is the first.
    while !rest.is_empty() {
        for (at, group) in plan::plan(rest, name, limits).iter().enumerate() {
            match make(group) {
                Ok(()) => {
                    made.groups.push(group.path());
                    made.active.extend(group.features());
                }
                Err((feature, error)) => {
                    let _ = fs::remove_dir(group.path());
                    last = io::Error::new(error.kind(), format!("{}: {error}", group.path().display()));
                    let about: Vec<IsolationFeature> = feature.into_iter().chain(group.features()).collect();
                    made.absent.extend(about.into_iter().map(|feature| (feature, last.to_string())));
                    if at == 0 {
                        break;
                    }
                }
            }
        }
        if !made.groups.is_empty() {
            break;
        }
        rest = &rest[1..];
    }
    made.active.sort_unstable();
    made.active.dedup();
    made.absent.retain(|(feature, _)| !made.active.contains(feature));
    if made.groups.is_empty() { Err(last) } else { Ok(made) }
}

/// Makes one group; on failure what depended on the step that failed.
fn make(group: &Group) -> Result<(), (Option<IsolationFeature>, io::Error)> {
    let path = group.path();
    for controller in &group.hand_down {
        hand_down(&group.base, controller).map_err(|error| (None, error))?;
    }
    // Once more: somebody may remove the empty group around it at this very moment.
    let made = fs::create_dir_all(&path).or_else(|_| fs::create_dir_all(&path));
    made.map_err(|error| (None, error))?;
    group.around.iter().for_each(|write| drop(put(&group.parent(), write)));
    for controller in &group.hand_down {
        hand_down(&group.parent(), controller).map_err(|error| (None, error))?;
    }
    for write in &group.own {
        if let (Err(error), Some(feature)) = (put(&path, write), write.feature) {
            return Err((Some(feature), io::Error::new(error.kind(), format!("{}: {error}", write.file))));
        }
    }
    probe(&path).map_err(|error| (None, error))
}

/// A value of a file that is there: a group of another kind must not get files that mean nothing.
fn put(group: &Path, write: &Write) -> io::Result<()> {
    use io::Write as _;
    let mut file = fs::OpenOptions::new().write(true).open(group.join(write.file))?;
    file.write_all(write.value.as_bytes())
}

/// Lets the groups below a group use a controller. The kernel refuses it where processes are in the group itself: if those are ours
/// alone, they go to a group of their own.
fn hand_down(group: &Path, controller: &str) -> io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    let has = fs::read_to_string(&file)?.split_whitespace().any(|one| one == controller);
    if has {
        return Ok(());
    }
    let add = format!("+{controller}");
    let refused = match fs::write(&file, &add) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => error,
        other => return other,
    };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if members(group) != [own] {
        return Err(io::Error::new(refused.kind(), "processes of others are in the agent's own group"));
    }
    let aside = group.join(hierarchy::OWN);
    fs::create_dir_all(&aside)?;
    enter(&aside)?;
    fs::write(&file, add)
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

/// Kills everything in a group at once where the kernel can (version 2, Linux 5.14); where it counts processes, no more are made, so that
/// who forks without end can be ended one by one.
pub fn kill(group: &Path) {
    let none = Write { file: "pids.max", value: "0".to_owned(), feature: None };
    let all = Write { file: "cgroup.kill", value: "1".to_owned(), feature: None };
    for write in [none, all] {
        // Which of them there is depends on the hierarchy.
        let _ = put(group, &write);
    }
}

/// Removes an empty group; one that is not empty or gone stays as it is.
pub fn remove(group: &Path) {
    let _ = fs::remove_dir(group);
}

/// The name of the group of one attempt's ranks on a node; `railctl dev down` knows it too.
#[must_use]
pub fn name(node: &str, key: Key) -> String {
    format!("{node}.{key}")
}

/// What control groups give here.
#[derive(Debug)]
pub struct Available {
    /// The groups around those of jobs; empty: none can be made.
    pub parents: Vec<PathBuf>,
    /// Whether each feature is there, as it is reported.
    pub states: Vec<IsolationState>,
}

/// Tries out what jobs may get: with `wanted` as the limits of one.
#[must_use]
pub fn available(wanted: &Limits) -> Available {
    let name = format!("probe-{}", std::process::id());
    let made = create(&name, wanted);
    let states = FEATURES.iter().map(|feature| state(*feature, wanted, made.as_ref())).collect();
    let groups = made.map(|made| made.groups).unwrap_or_default();
    let parents = groups.iter().filter_map(|group| group.parent()).map(Path::to_owned).collect();
    groups.iter().for_each(|group| remove(group));
    Available { parents, states }
}

/// What is said where control groups are not to be used.
#[must_use]
pub fn unwanted() -> Vec<IsolationState> {
    let absent = |feature: &IsolationFeature| {
        IsolationState::absent(*feature, "the agent runs with --no-cgroups", "run it without --no-cgroups")
    };
    FEATURES.iter().map(absent).collect()
}

fn state(feature: IsolationFeature, wanted: &Limits, made: Result<&Made, &io::Error>) -> IsolationState {
    let (asked, flag) = match feature {
        IsolationFeature::CgroupMemory => (wanted.memory.is_some(), "--rank-memory share"),
        IsolationFeature::CgroupPids => (wanted.pids.is_some(), "--rank-pids 32768"),
        IsolationFeature::CgroupCpuset => (wanted.cpus.is_some(), "--rank-cpus near-gpus"),
        _ => (wanted.devices.is_some(), ""),
    };
    if !asked {
        let fix = if flag.is_empty() { String::new() } else { format!("run the agent with {flag}") };
        return IsolationState::absent(feature, "the agent's flags ask for none", fix);
    }
    let root =
        "run rail-node-agent as root, or as a service with Delegate=yes and DelegateSubgroup=railyard-agent";
    match made {
        Err(error) => IsolationState::absent(feature, line(&error.to_string()), root),
        Ok(made) if made.active.contains(&feature) => IsolationState::active(
            feature,
            format!("control groups below {}", made.groups[0].parent().unwrap_or(Path::new("/")).display()),
        ),
        Ok(made) => match made.absent.iter().find(|(other, _)| *other == feature) {
            Some((_, why)) => IsolationState::absent(feature, line(why), root),
            None if feature == IsolationFeature::CgroupDevices => IsolationState::absent(
                feature,
                "only version 1 of control groups has a devices controller that takes rules",
                "a private /dev does the same",
            ),
            None => IsolationState::absent(
                feature,
                "no hierarchy of control groups that we are in has this controller",
                "boot with version 2 of control groups, or mount the controller; as a service: Delegate=yes",
            ),
        },
    }
}

/// One line that an inventory takes.
fn line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::{hierarchy::Version, *};

    /// A tree of files in place of a kernel: what is written must be what was planned, in groups that are made.
    fn tree(root: &Path, files: &[&str]) -> Vec<Hierarchy> {
        let files: Vec<(String, &str)> = files.iter().map(|file| ((*file).to_owned(), "")).collect();
        for group in ["", plan::PARENT, "railyard/t"] {
            fs::create_dir_all(root.join(group)).unwrap();
            for (file, text) in &files {
                fs::write(root.join(group).join(file), text).unwrap();
            }
        }
        let controllers = ["memory", "pids", "cpuset"].map(str::to_owned).to_vec();
        vec![Hierarchy {
            version: Version::Two,
            controllers,
            base: root.to_owned(),
            cpus: String::new(),
            mems: String::new(),
        }]
    }

    fn wanted() -> Limits {
        Limits { memory: Some(1 << 30), pids: Some(64), cpus: Some("0-1".into()), devices: None }
    }

    #[test]
    fn version_two_hands_its_controllers_down_and_writes_every_limit() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            "cgroup.subtree_control",
            "cgroup.procs",
            "memory.max",
            "memory.oom.group",
            "pids.max",
            "cpuset.cpus",
        ];
        let found = tree(root.path(), &files);
        let made = create_in(&found, "t", &wanted()).unwrap();
        let read = |file: &str| fs::read_to_string(root.path().join("railyard/t").join(file)).unwrap();
        assert_eq!(
            [read("memory.max"), read("memory.oom.group"), read("pids.max"), read("cpuset.cpus")],
            ["1073741824", "1", "64", "0-1"]
        );
        assert_eq!(made.active, FEATURES[..3]);
        assert_eq!(made.absent, []);
        assert!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap().contains('+'));
        // Without a file for it a limit is not in force, and it is said which.
        fs::remove_file(root.path().join("railyard/t/pids.max")).unwrap();
        let error = create_in(&found, "t", &wanted()).unwrap_err();
        assert!(error.to_string().contains("pids.max"), "{error}");
    }

    #[test]
    fn what_is_absent_is_said_with_what_mends_it() {
        let made = Made {
            groups: vec!["/cg/railyard/t".into()],
            active: vec![IsolationFeature::CgroupPids],
            absent: vec![(IsolationFeature::CgroupMemory, "denied\nhere".into())],
        };
        let limits = Limits { devices: Some(Vec::new()), ..wanted() };
        let states: Vec<IsolationState> =
            FEATURES.iter().map(|feature| state(*feature, &limits, Ok(&made))).collect();
        let reported: Vec<(bool, bool)> =
            states.iter().map(|state| (state.active, state.fix.is_empty())).collect();
        assert_eq!(reported, [(false, false), (true, true), (false, false), (false, false)]);
        assert_eq!(states[0].reason, "denied here");
        let none = state(IsolationFeature::CgroupMemory, &Limits::default(), Ok(&made));
        assert_eq!(none.fix, "run the agent with --rank-memory share");
        assert!(unwanted().iter().all(|state| !state.active));
    }

    /// With the kernel's own groups, where this process may make some.
    #[test]
    fn real_groups_hold_their_limits() {
        let limits = Limits { cpus: None, ..wanted() };
        let name = format!("test-{}", std::process::id());
        let Ok(made) = create(&name, &limits) else { return };
        let read =
            |file: &str| made.groups.iter().find_map(|group| fs::read_to_string(group.join(file)).ok());
        if made.active.contains(&IsolationFeature::CgroupPids) {
            assert_eq!(read("pids.max").unwrap().trim(), "64");
        }
        if made.active.contains(&IsolationFeature::CgroupMemory) {
            let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes")).unwrap();
            assert_eq!(limit.trim(), "1073741824");
        }
        assert_eq!(excess(&made.groups, &limits), Excess::default());
        made.groups.iter().for_each(|group| remove(group));
        assert!(made.groups.iter().all(|group| !group.exists()));
    }
}
