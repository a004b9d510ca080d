//! Which of this server's files an attempt sees: a pure function of paths and of who may enter which folder.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::ids::Ids;

/// Folders that are empty and the attempt's own.
pub const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What is done to what lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The folder is empty for the attempt.
    Hide,
    /// It is there although what is around it is not.
    Show,
}

/// What is taken away, and what of it is put back at its place: in this order, folders before what is in them. Private folders are empty
/// anyhow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The steps, each with the path that it is about.
    pub steps: Vec<(PathBuf, Step)>,
}

/// Owner, group and mode of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the folder.
    pub gid: u32,
    /// Permission bits of the folder.
    pub mode: u32,
}

impl Access {
    /// What the kernel says of a folder; none if it is not there.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() })
    }

    /// True if somebody without privileges may pass through.
    #[must_use]
    pub fn lets(self, ids: &Ids) -> bool {
        let bit = match () {
            () if self.uid == ids.uid => 0o100,
            () if self.gid == ids.gid || ids.groups.contains(&self.gid) => 0o010,
            () => 0o001,
        };
        self.mode & bit != 0
    }
}

/// The view of an attempt. `data` is the agent's folder, which is hidden; `needed` is what a rank must reach, wherever it is; `access`
/// says of folders. A folder that is closed to the ranks' user is hidden as a whole, so that what is shown below it can be reached.
#[must_use]
pub fn view(
    data: &Path,
    needed: &[PathBuf],
    ids: Option<&Ids>,
    access: impl Fn(&Path) -> Option<Access>,
) -> View {
    let closed = |path: &Path| {
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|one| one.parent().is_some()).collect();
        above.reverse();
        let ids = ids?;
        above.into_iter().find(|one| access(one).is_some_and(|one| !one.lets(ids))).map(Path::to_owned)
    };
    let shown = needed.iter().map(|path| (path.clone(), Step::Show));
    let hidden = needed.iter().filter_map(|path| closed(path)).chain(closed(data)).chain([data.to_owned()]);
    let mut wanted: Vec<(PathBuf, Step)> = shown.chain(hidden.map(|path| (path, Step::Hide))).collect();
    wanted.sort();
    wanted.dedup();
    let mut steps: Vec<(PathBuf, Step)> = Vec::new();
    for (path, step) in wanted {
        let is_private = PRIVATE.iter().any(|private| path.starts_with(private));
        // Paths come in order, so the last one around it is the nearest.
        let nearest = steps.iter().rev().find(|(around, _)| path.starts_with(around)).map(|(_, step)| *step);
        let is_seen = nearest.map_or(!is_private, |nearest| nearest == Step::Show);
        if is_seen == (step == Step::Hide) {
            steps.push((path, step));
        }
    }
    View { steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(uid: u32) -> Ids {
        Ids { uid, gid: uid, groups: vec![uid, 44] }
    }

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn steps(view: View) -> Vec<String> {
        let text = |(path, step): (PathBuf, Step)| format!("{step:?} {}", path.display());
        view.steps.into_iter().map(text).collect()
    }

    #[test]
    fn the_agents_folder_is_hidden_but_for_what_the_attempt_needs() {
        let open = |_: &Path| Some(Access { uid: 0, gid: 0, mode: 0o755 });
        let needed = paths(&["/var/lib/rail/jobs/u.1/work", "/usr/bin/rail-engine", "/tmp/shared/data"]);
        let seen = view(Path::new("/var/lib/rail"), &needed, Some(&ids(2000)), open);
        let job = "Show /var/lib/rail/jobs/u.1/work";
        assert_eq!(steps(seen), ["Show /tmp/shared/data", "Hide /var/lib/rail", job]);
        let seen = view(Path::new("/tmp/x/data"), &needed, None, open);
        assert_eq!(steps(seen), ["Show /tmp/shared/data"]);
        // Also where the operator shows what is around it.
        let needed = paths(&["/tmp/x", "/tmp/x/data/jobs/u.1/work", "/tmp/x/data/jobs/u.1/work"]);
        let seen = view(Path::new("/tmp/x/data"), &needed, None, open);
        assert_eq!(steps(seen), ["Show /tmp/x", "Hide /tmp/x/data", "Show /tmp/x/data/jobs/u.1/work"]);
    }

    #[test]
    fn a_closed_folder_is_hidden_as_a_whole_so_that_what_is_below_it_can_be_reached() {
        let root_is_closed = |path: &Path| {
            let mode = if path == Path::new("/root") { 0o700 } else { 0o755 };
            Some(Access { uid: 0, gid: 0, mode })
        };
        let needed = paths(&["/root/c/n0/jobs/u.1/work", "/root/bin/rail-engine", "/opt/lib.so"]);
        let data = Path::new("/root/c/n0");
        let seen = view(data, &needed, Some(&ids(2000)), root_is_closed);
        let job = "Show /root/c/n0/jobs/u.1/work";
        assert_eq!(steps(seen), ["Hide /root", "Show /root/bin/rail-engine", job]);
        // Root itself enters it, so only the agent's folder goes.
        for ids in [Some(&ids(0)), None] {
            assert_eq!(steps(view(data, &needed, ids, root_is_closed)), ["Hide /root/c/n0", job]);
        }
    }

    #[test]
    fn who_may_pass_follows_from_owner_group_and_mode() {
        let access = |uid, gid, mode| Access { uid, gid, mode };
        for (access, lets) in [
            (access(0, 0, 0o711), true),
            (access(0, 0, 0o710), false),
            (access(0, 44, 0o710), true),
            (access(0, 44, 0o701), false),
            (access(2000, 0, 0o100), true),
            (access(2000, 0, 0o011), false),
        ] {
            assert_eq!(access.lets(&ids(2000)), lets, "{access:?}");
        }
    }
}
