//! Credentials that are taken back before their end: whose, which of them, and who hears of it.

use data_encoding::HEXLOWER_PERMISSIVE;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::certificate::PeerCertificate;
use crate::hex::to_hex;
use crate::identity::{Identity, IdentityError, Role};

/// The longest serial number that a certificate can have, in bytes (RFC 5280).
const MAX_SERIAL: usize = 20;

/// Whose credentials, or which certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A node's, by its name.
    Node(String),
    /// A switch's, by its name.
    Switch(String),
    /// A tenant's user's, whatever its roles.
    User {
        /// Name of the tenant.
        tenant: String,
        /// Name of the user within the tenant.
        user: String,
    },
    /// An administrator's, by its name.
    Admin(String),
    /// One certificate, by its serial number in lower-case hex.
    Serial(String),
}

/// Why a text names nothing that can be revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The text has none of the forms.
    #[error("expected node/NAME, switch/NAME, tenant/TENANT/user/USER, admin/USER or serial/HEX")]
    Malformed,
    /// The text after `serial/` is not a serial number.
    #[error("a serial number is 1 to {MAX_SERIAL} bytes in hex, as `openssl x509 -noout -serial` prints it")]
    Serial,
    /// A name in it is not valid.
    #[error(transparent)]
    Name(#[from] IdentityError),
}

impl Subject {
    /// Whose an identity's credentials are; none for controllers and for nobody.
    #[must_use]
    pub fn of(identity: &Identity) -> Option<Self> {
        match identity {
            Identity::Anonymous | Identity::Controller => None,
            Identity::Node { name } => Some(Self::Node(name.clone())),
            Identity::Switch { name } => Some(Self::Switch(name.clone())),
            Identity::User { tenant, user, .. } => {
                Some(Self::User { tenant: tenant.clone(), user: user.clone() })
            }
            Identity::Admin { user } => Some(Self::Admin(user.clone())),
        }
    }

    /// The tenant whose user is meant.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::User { tenant, .. } => Some(tenant),
            _ => None,
        }
    }
}

/// As identities are shown: `node/n0`, `switch/leaf0`, `tenant/nlp/user/ann`, `admin/root`; and `serial/<hex>`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Switch(name) => write!(f, "switch/{name}"),
            Self::User { tenant, user } => write!(f, "tenant/{tenant}/user/{user}"),
            Self::Admin(user) => write!(f, "admin/{user}"),
            Self::Serial(serial) => write!(f, "serial/{serial}"),
        }
    }
}

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let identity = match text.split('/').collect::<Vec<_>>().as_slice() {
            ["node", name] => Identity::node(name)?,
            ["switch", name] => Identity::switch(name)?,
            ["tenant", tenant, "user", user] => Identity::user(tenant, user, [Role::User])?,
            ["admin", user] => Identity::admin(user)?,
            ["serial", serial] => return Ok(Self::Serial(normal_serial(serial)?)),
            _ => return Err(SubjectError::Malformed),
        };
        Self::of(&identity).ok_or(SubjectError::Malformed)
    }
}

/// Upper and lower case, with and without colons, mean the same number.
fn normal_serial(text: &str) -> Result<String, SubjectError> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    if digits.is_empty() || digits.len() > 2 * MAX_SERIAL || !digits.len().is_multiple_of(2) {
        return Err(SubjectError::Serial);
    }
    let bytes = HEXLOWER_PERMISSIVE.decode(&digits).map_err(|_| SubjectError::Serial)?;
    Ok(to_hex(&bytes))
}

/// What is revoked: of each subject, what was issued up to a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revoked(BTreeMap<Subject, SystemTime>);

impl Revoked {
    /// Takes back all that `subject` was given up to `at`.
    pub fn insert(&mut self, subject: Subject, at: SystemTime) {
        let known = self.0.entry(subject).or_insert(at);
        *known = at.max(*known);
    }

    /// Whether a certificate was taken back.
    #[must_use]
    pub fn refuses(&self, identity: &Identity, certificate: &PeerCertificate) -> bool {
        !self.0.is_empty()
            && (self.refuses_since(identity, certificate.issued)
                || self.0.contains_key(&Subject::Serial(certificate.serial.clone())))
    }

    /// Whether what an identity was given at `since` was taken back.
    #[must_use]
    pub fn refuses_since(&self, identity: &Identity, since: SystemTime) -> bool {
        let at = || self.0.get(&Subject::of(identity)?);
        !self.0.is_empty() && at().is_some_and(|at| since <= *at)
    }

    /// When a certificate that is asked for now is said to be issued. Certificates count in seconds: one of the
    /// second of its identity's revocation belongs to the next one, and is not among those that were taken back.
    #[must_use]
    pub fn issue_time(&self, identity: &Identity, now: SystemTime) -> SystemTime {
        let at = Subject::of(identity).and_then(|subject| self.0.get(&subject));
        at.map_or(now, |at| now.max(next_second(*at)))
    }
}

/// The first whole second behind a time.
#[must_use]
pub fn next_second(at: SystemTime) -> SystemTime {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs().saturating_add(1))
}

/// What is revoked, as a process knows it. Clones share it; servers refuse by it and end connections by it.
#[derive(Debug, Clone)]
pub struct Revocations(Arc<watch::Sender<(u64, Arc<Revoked>)>>);

impl Default for Revocations {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new((0, Arc::default()))))
    }
}

impl Revocations {
    /// Replaces what is known by what is known at a later `version`; whoever is refused now hears of it.
    pub fn set(&self, version: u64, revoked: Revoked) {
        self.0.send_if_modified(|known| {
            let newer = version > known.0;
            let other = newer && *known.1 != revoked;
            if newer {
                *known = (version, Arc::new(revoked));
            }
            other
        });
    }

    /// The revocations that are known now.
    #[must_use]
    pub fn get(&self) -> Arc<Revoked> {
        Arc::clone(&self.0.borrow().1)
    }

    /// Returns once `refused` holds; whoever is not revoked waits for ever.
    pub async fn until(self, mut refused: impl FnMut(&Revoked) -> bool) {
        // Cannot end by the sender's end: it is held here.
        let _ = self.0.subscribe().wait_for(|(_, revoked)| refused(revoked)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    fn certificate(serial: &str, issued: f64) -> PeerCertificate {
        PeerCertificate { serial: serial.to_owned(), issued: at(issued), not_after: at(issued + 60.0) }
    }

    #[test]
    fn subjects_are_written_as_they_are_read() {
        for text in ["node/n0", "tenant/nlp/user/ann", "admin/root", "serial/0aff"] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        assert_eq!("serial/0A:FF".parse::<Subject>().unwrap().to_string(), "serial/0aff");
        for bad in
            ["", "n0", "node/", "node/a b", "node/a/b", "controller", "tenant/nlp", "serial/", "serial/+1"]
        {
            assert!(bad.parse::<Subject>().is_err(), "{bad:?}");
        }
        assert!(format!("serial/{}", "ab".repeat(21)).parse::<Subject>().is_err());
    }

    #[test]
    fn what_was_issued_before_is_refused_and_what_comes_after_is_not() {
        let (node, other) = (Identity::node("n0").unwrap(), Identity::node("n1").unwrap());
        let mut revoked = Revoked::default();
        revoked.insert("node/n0".parse().unwrap(), at(100.5));
        revoked.insert("serial/0a".parse().unwrap(), at(100.5));
        assert!(revoked.refuses(&node, &certificate("01", 100.0)));
        assert!(!revoked.refuses(&node, &certificate("01", 101.0)));
        assert!(!revoked.refuses(&other, &certificate("01", 1.0)));
        assert!(revoked.refuses(&other, &certificate("0a", 200.0)), "a serial number is one certificate");
        assert!(!revoked.refuses_since(&Identity::Controller, at(0.0)));
        // In the very second of the revocation, and with a clock that was set back.
        for now in [100.6, 100.99, 50.0] {
            let issued = revoked.issue_time(&node, at(now));
            assert!(!revoked.refuses_since(&node, issued), "{now}");
        }
        assert_eq!(revoked.issue_time(&other, at(3.5)), at(3.5));
        revoked.insert("node/n0".parse().unwrap(), at(7.0));
        assert!(revoked.refuses(&node, &certificate("01", 100.0)), "an older word takes nothing back");
    }

    #[tokio::test]
    async fn whoever_is_refused_hears_of_it_and_old_news_are_no_news() {
        let revocations = Revocations::default();
        let node = Identity::node("n0").unwrap();
        let revoked = |name: &str| {
            let mut revoked = Revoked::default();
            revoked.insert(Subject::Node(name.to_owned()), at(10.0));
            revoked
        };
        let waits = revocations.clone().until(move |now| now.refuses_since(&node, at(1.0)));
        let mut waits = std::pin::pin!(waits);
        for (version, name, hears) in [(2, "n1", false), (1, "n0", false), (3, "n0", true)] {
            revocations.set(version, revoked(name));
            let heard = tokio::time::timeout(Duration::from_millis(20), waits.as_mut()).await.is_ok();
            assert_eq!(heard, hears, "version {version}");
        }
    }
}
