//! The ids of the user that ranks run as, and what is done with them.

use std::{
    fmt, fs, io,
    os::{
        fd::AsFd,
        unix::fs::{PermissionsExt, chown},
    },
    path::Path,
    str::FromStr,
};

use rustix::{
    fs::{FileType, fchown, fstat},
    process::{Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use serde::{Deserialize, Serialize};

/// The kernel takes no more (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// The ids that a process needs to run as a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// Id of the user.
    pub uid: u32,
    /// Id of the user's first group.
    pub gid: u32,
    /// All groups, for devices that belong to one.
    pub groups: Vec<u32>,
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        write!(f, "{}:{}:{}", self.uid, self.gid, groups.join(","))
    }
}

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split(':');
            let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let groups = match parts.next() {
                None | Some("") => vec![gid],
                Some(list) => list.split(',').map(|one| one.parse().ok()).collect::<Option<Vec<u32>>>()?,
            };
            // The greatest number means "no change" to the kernel.
            let real = uid != u32::MAX && gid != u32::MAX && !groups.contains(&u32::MAX);
            let whole = parts.next().is_none() && groups.len() <= GROUPS_MAX;
            (real && whole).then_some(Self { uid, gid, groups })
        };
        parse().ok_or_else(|| format!("`{text}` is not UID:GID"))
    }
}

impl Ids {
    /// Becomes this user for good: real, effective and saved. Only this thread does; the program that it becomes next
    /// is then wholly the user's.
    ///
    /// # Errors
    /// What the kernel answered; then nothing may be run.
    pub fn assume(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    }

    /// Gives the user the pipes that its output goes to and its input comes from, so that it can open `/dev/stderr`; and where it has a
    /// terminal of its own, that. Nothing else: what may stand there belongs to others.
    pub fn take_pipes(&self, terminal: bool) {
        let owner = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        let streams = (io::stdin(), io::stdout(), io::stderr());
        for stream in [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd()] {
            let pipe =
                fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
            if pipe || (terminal && rustix::termios::isatty(stream)) {
                let _ = fchown(stream, owner.0, owner.1);
            }
        }
    }

    /// Makes a file or folder the user's own.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }

    /// Lets the user's group read a file of ours.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn let_read(&self, path: &Path) -> io::Result<()> {
        chown(path, None, Some(self.gid))?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o640))
    }

    /// Lets the user's group pass through a folder of ours, to what it knows the name of.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn let_pass(&self, path: &Path) -> io::Result<()> {
        chown(path, None, Some(self.gid))?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o710))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_text() {
        for text in ["7:8:8", "7:8:9,10", "0:0:0"] {
            assert_eq!(text.parse::<Ids>().unwrap().to_string(), text);
        }
        assert_eq!("7:8".parse::<Ids>().unwrap().groups, [8]);
        for bad in ["", "7", "7:", ":8", "7:8:9:10", "-1:8", "7:4294967295", "4294967295:7", "7:8:x"] {
            assert!(bad.parse::<Ids>().is_err(), "{bad}");
        }
    }
}
