//! One authority follows another, in the data folder: first both are trusted, then the new one issues, then the old one
//! is trusted no more. Each step is one file that is exchanged whole; whatever breaks off can be done again.
//!
//! | file | holds |
//! |---|---|
//! | `ca.pem` | who is trusted; the first certificate is the one that issues |
//! | `ca.key` | the key of the one that issues |
//! | `ca.next.key` | the key of the one that is to follow |
//! | `ca.old.key` | the key of the one before, until that is retired: to go back |
//! | `ca.cross.pem` | the new one's certificate, signed by the old one, for who knows only that |
//! | `ca.retired.pem` | certificates of those that are trusted no more: their checkpoints in the audit log stay good |

use std::{
    fs, io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use proto_rpc::{
    Ca, CaPin, Standing, certificates,
    files::{self, FileError},
};
use zeroize::Zeroizing;

use crate::{
    Form, Purpose,
    authority::{AuthorityError, CA_CERTIFICATE, CA_KEY, CaFolder},
};

const NEXT_KEY: &str = "ca.next.key";
const OLD_KEY: &str = "ca.old.key";
const CROSS: &str = "ca.cross.pem";
const RETIRED: &str = "ca.retired.pem";

/// How far one authority follows another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is one authority, and no other one follows it.
    Settled,
    /// Both are trusted, the old one issues.
    Prepared,
    /// Both are trusted, the new one issues.
    Active,
}

/// How a folder's authority stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityStatus {
    /// How far the rotation is.
    pub phase: Phase,
    /// The pin of the authority that issues.
    pub issuing: CaPin,
    /// When the certificate of the one that issues ends.
    pub not_after: SystemTime,
    /// The other one that is trusted.
    pub other: Option<CaPin>,
    /// How the key of the one that issues is protected.
    pub key: Form,
}

impl CaFolder {
    /// Who issues and who is trusted, as a controller needs it.
    ///
    /// # Errors
    /// It cannot be read, or its key does not open.
    pub fn standing(&self, cluster: Option<&str>, now: SystemTime) -> Result<Standing, AuthorityError> {
        let (form, standing) = self.read(cluster, now)?;
        self.tell_of_a_clear_key(&form);
        Ok(standing)
    }

    fn read(&self, cluster: Option<&str>, now: SystemTime) -> Result<(Form, Standing), AuthorityError> {
        let bundle = certificates(&files::read_text(&self.file(CA_CERTIFICATE))?)?;
        let Some((first, others)) = bundle.split_first() else { return Err(AuthorityError::NoCertificate) };
        let (issuing, form) = self.with_its_key(first, now)?;
        self.check_cluster(&issuing, cluster)?;
        let cross = self.cross(&issuing)?.filter(|_| !others.is_empty());
        Ok((form, Standing::with_others(issuing, others.to_vec(), cross)))
    }

    /// An authority by its certificate, with whichever key here is its own: a step may have broken off between two renames.
    fn with_its_key(&self, certificate: &str, now: SystemTime) -> Result<(Ca, Form), AuthorityError> {
        let mut first = None;
        for name in [CA_KEY, NEXT_KEY, OLD_KEY] {
            let path = self.file(name);
            let found = match name {
                CA_KEY => self.guards.read(&path, Purpose::CaKey),
                _ if !path.exists() => continue,
                _ => self.guards.read(&path, Purpose::CaKey),
            };
            let loaded = match found {
                Ok((key, form)) => {
                    Ca::load(certificate, &key, now).map(|ca| (ca, form)).map_err(AuthorityError::from)
                }
                Err(error) => Err(error.into()),
            };
            match loaded {
                Ok(found) => return Ok(found),
                // What is wrong with ca.key says more than that the others do not fit.
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(AuthorityError::NoCertificate))
    }

    fn cross(&self, issuing: &Ca) -> Result<Option<String>, AuthorityError> {
        let path = self.file(CROSS);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_text(&path)?;
        Ok((CaPin::of_pem(&text) == Some(issuing.pin())).then_some(text))
    }

    /// How it stands.
    ///
    /// # Errors
    /// As [`standing`](Self::standing).
    pub fn status(&self, now: SystemTime) -> Result<AuthorityStatus, AuthorityError> {
        let (key, standing) = self.read(None, now)?;
        let issuing = standing.issuing();
        let phase = match (standing.others().is_empty(), self.cross(issuing)?) {
            (true, _) => Phase::Settled,
            (false, None) => Phase::Prepared,
            (false, Some(_)) => Phase::Active,
        };
        let other = standing.others().first().and_then(|pem| CaPin::of_pem(pem));
        Ok(AuthorityStatus { phase, issuing: issuing.pin(), not_after: issuing.not_after(), other, key })
    }

    fn in_phase(
        &self,
        wanted: &[Phase],
        step: &'static str,
        now: SystemTime,
    ) -> Result<AuthorityStatus, AuthorityError> {
        let status = self.status(now)?;
        if wanted.contains(&status.phase) {
            return Ok(status);
        }
        let is = match status.phase {
            Phase::Settled => "no other authority is to follow; `ca rotate` begins",
            Phase::Prepared => {
                "another authority is trusted and does not issue yet; `ca activate` or `ca abort`"
            }
            Phase::Active => {
                "the new authority issues and the old one is still trusted; `ca retire` or `ca abort`"
            }
        };
        Err(AuthorityError::Phase { step, is })
    }

    /// Makes another authority and trusts both; the old one issues still.
    ///
    /// # Errors
    /// One is on its way already, or a file cannot be read or written.
    pub fn rotate(&self, lifetime: Duration, now: SystemTime) -> Result<AuthorityStatus, AuthorityError> {
        self.in_phase(&[Phase::Settled], "rotate", now)?;
        let standing = self.standing(None, now)?;
        let path = self.file(NEXT_KEY);
        // One whose key was written before a crash was shown to nobody; its key is as good as a new one.
        let key = match path.exists() {
            true => Some(self.guards.read(&path, Purpose::CaKey)?.0),
            false => None,
        };
        let next = standing.issuing().successor(key.as_deref().map(String::as_str), now, lifetime)?;
        if key.is_none() {
            self.guards.write(&path, Purpose::CaKey, &Zeroizing::new(next.key_pem()))?;
        }
        let bundle = standing.issuing().certificate_pem().to_owned() + next.certificate_pem();
        files::write_public(&self.file(CA_CERTIFICATE), &bundle)?;
        self.status(now)
    }

    /// The new authority issues from now on; both are trusted.
    ///
    /// # Errors
    /// There is none, its key is not here, or a file cannot be read or written.
    pub fn activate(&self, now: SystemTime) -> Result<AuthorityStatus, AuthorityError> {
        self.in_phase(&[Phase::Prepared], "activate", now)?;
        let standing = self.standing(None, now)?;
        let Some(other) = standing.others().first() else { return Err(AuthorityError::NoCertificate) };
        let (next, _) = self.with_its_key(other, now)?;
        let old = standing.issuing();
        files::write_public(&self.file(CROSS), &old.cross_sign(&next, now)?)?;
        let bundle = next.certificate_pem().to_owned() + old.certificate_pem();
        files::write_public(&self.file(CA_CERTIFICATE), &bundle)?;
        self.move_keys(&[(CA_KEY, OLD_KEY), (NEXT_KEY, CA_KEY)])?;
        self.status(now)
    }

    /// The old authority is trusted no more. Its key is gone then, and its certificate is kept for the audit log.
    ///
    /// # Errors
    /// There is none to retire, or a file cannot be read or written.
    pub fn retire(&self, now: SystemTime) -> Result<AuthorityStatus, AuthorityError> {
        self.in_phase(&[Phase::Active], "retire", now)?;
        let standing = self.standing(None, now)?;
        let path = self.file(RETIRED);
        let mut retired = if path.exists() { files::read_text(&path)? } else { String::new() };
        for other in
            standing.others().iter().filter(|other| !retired.contains(other.trim())).collect::<Vec<_>>()
        {
            retired.push_str(other);
        }
        files::write_public(&path, &retired)?;
        // A step before may have broken off; the key is here, or there would be no standing.
        let issuing = standing.issuing().certificate_pem();
        if !self.key().is_ok_and(|(key, _)| Ca::load(issuing, &key, now).is_ok()) {
            self.move_keys(&[(CA_KEY, OLD_KEY), (NEXT_KEY, CA_KEY)])?;
        }
        files::write_public(&self.file(CA_CERTIFICATE), standing.issuing().certificate_pem())?;
        self.remove(&[CROSS, OLD_KEY])?;
        self.status(now)
    }

    /// One step back: what was activated is prepared, what was prepared is gone.
    ///
    /// # Errors
    /// There is nothing to go back from, or a file cannot be read or written.
    pub fn abort(&self, now: SystemTime) -> Result<AuthorityStatus, AuthorityError> {
        let status = self.in_phase(&[Phase::Prepared, Phase::Active], "abort", now)?;
        let standing = self.standing(None, now)?;
        let issuing = standing.issuing().certificate_pem();
        if status.phase == Phase::Prepared {
            files::write_public(&self.file(CA_CERTIFICATE), issuing)?;
            self.remove(&[NEXT_KEY])?;
            return self.status(now);
        }
        let Some(other) = standing.others().first() else { return Err(AuthorityError::NoCertificate) };
        self.with_its_key(other, now)?;
        files::write_public(&self.file(CA_CERTIFICATE), &(other.clone() + issuing))?;
        self.remove(&[CROSS])?;
        if self.file(OLD_KEY).exists() {
            self.move_keys(&[(CA_KEY, NEXT_KEY), (OLD_KEY, CA_KEY)])?;
        }
        self.status(now)
    }

    fn move_keys(&self, moves: &[(&str, &str)]) -> Result<(), FileError> {
        for (from, to) in moves.iter().filter(|(from, _)| self.file(from).exists()) {
            let (from, to) = (self.file(from), self.file(to));
            let failed = |source| FileError::Io { action: "rename", path: from.clone(), source };
            fs::rename(&from, &to).map_err(failed)?;
        }
        self.sync()
    }

    fn remove(&self, names: &[&str]) -> Result<(), FileError> {
        for path in names.iter().map(|name| self.file(name)) {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::Io { action: "remove", path, source });
                }
                _ => {}
            }
        }
        self.sync()
    }

    fn sync(&self) -> Result<(), FileError> {
        let folder: PathBuf = self.file("");
        let synced = fs::File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| FileError::Io { action: "sync", path: folder, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Guards;
    use proto_rpc::ca::CA_LIFETIME;
    use std::path::Path;

    fn folder(path: &Path, guards: &Guards) -> CaFolder {
        CaFolder::new(path, guards.clone())
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_authority_follows_another_and_every_step_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let beside = tempfile::tempdir().unwrap();
        let kek = beside.path().join("kek");
        files::write_secret(&kek, &"0d".repeat(32)).unwrap();
        let provider = std::sync::Arc::new(crate::FileProvider::new(&kek));
        let guards = Guards::default().with_provider(Some(provider));
        let (ca, now) = (folder(dir.path(), &guards), SystemTime::now());
        let old = ca.load_or_create(Some("dev"), CA_LIFETIME, now).unwrap().issuing().pin();
        assert!(matches!(ca.activate(now), Err(AuthorityError::Phase { .. })));
        let prepared = ca.rotate(CA_LIFETIME, now).unwrap();
        let new = prepared.other.unwrap();
        assert_eq!((prepared.phase, prepared.issuing), (Phase::Prepared, old));
        assert!(matches!(ca.rotate(CA_LIFETIME, now), Err(AuthorityError::Phase { .. })));
        assert!(matches!(ca.retire(now), Err(AuthorityError::Phase { .. })));
        assert_eq!(ca.abort(now).unwrap().phase, Phase::Settled);
        assert_eq!(names(dir.path()), ["ca.key", "ca.pem"]);

        let second = ca.rotate(CA_LIFETIME, now).unwrap().other.unwrap();
        assert_ne!(second, new, "what was aborted is gone");
        let active = ca.activate(now).unwrap();
        assert_eq!((active.phase, active.issuing, active.other), (Phase::Active, second, Some(old)));
        let back = ca.abort(now).unwrap();
        assert_eq!((back.phase, back.issuing, back.other), (Phase::Prepared, old, Some(second)));
        ca.activate(now).unwrap();
        let settled = ca.retire(now).unwrap();
        assert_eq!((settled.phase, settled.issuing, settled.other), (Phase::Settled, second, None));
        assert_eq!(names(dir.path()), ["ca.key", "ca.pem", "ca.retired.pem"]);
        assert!(fs::read_to_string(dir.path().join("ca.key")).unwrap().starts_with('{'));
        let retired = fs::read_to_string(dir.path().join(RETIRED)).unwrap();
        assert_eq!(CaPin::of_pem(&retired), Some(old));
        assert_eq!(ca.load_or_create(Some("dev"), CA_LIFETIME, now).unwrap().issuing().pin(), second);
    }

    #[test]
    fn a_step_that_broke_off_between_two_files_leaves_an_authority_that_issues() {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let ca = folder(dir.path(), &Guards::default());
        ca.load_or_create(None, CA_LIFETIME, now).unwrap();
        let new = ca.rotate(CA_LIFETIME, now).unwrap().other.unwrap();
        let before = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let (old_key, next_key) = (before(CA_KEY), before(NEXT_KEY));
        ca.activate(now).unwrap();
        // Neither key was moved.
        files::write_secret(&dir.path().join(CA_KEY), std::str::from_utf8(&old_key).unwrap()).unwrap();
        files::write_secret(&dir.path().join(NEXT_KEY), std::str::from_utf8(&next_key).unwrap()).unwrap();
        fs::remove_file(dir.path().join(OLD_KEY)).unwrap();
        assert_eq!(ca.status(now).unwrap().issuing, new);
        // Only the first was.
        fs::rename(dir.path().join(CA_KEY), dir.path().join(OLD_KEY)).unwrap();
        assert_eq!(ca.status(now).unwrap().issuing, new);
        assert_eq!(ca.retire(now).unwrap().issuing, new);
        assert_eq!(names(dir.path()), ["ca.key", "ca.pem", "ca.retired.pem"]);
    }
}
