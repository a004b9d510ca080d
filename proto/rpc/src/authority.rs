//! The cluster's authority as it is now: who issues certificates, and who is trusted beside it while one follows another.
//!
//! An authority is followed by another in three steps: both are trusted and the old one issues; both are trusted and the new
//! one issues; only the new one is trusted. In the second step servers also show the new one's certificate as the old one has
//! signed it, so that who knows only the old one trusts them still.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::ca::{Ca, CaError, Issued, Leaf};
use crate::certificate::TlsError;
use crate::identity::Identity;
use crate::pin::CaPin;
use crate::trust::TrustSlot;

/// 100,000 nodes are then some 330 renewals a second.
pub const RENEW_WITHIN: Duration = Duration::from_secs(300);

/// Who issues, and who is trusted.
#[derive(Debug)]
pub struct Standing {
    issuing: Ca,
    /// Certificates of others that are trusted, PEM.
    others: Vec<String>,
    /// The issuing one's certificate as one of the others has signed it, PEM.
    cross: Option<String>,
}

impl Standing {
    /// One authority, and nobody else.
    #[must_use]
    pub fn alone(issuing: Ca) -> Self {
        Self { issuing, others: Vec::new(), cross: None }
    }

    /// One that issues, others that are trusted, and the first one's certificate as one of these has signed it.
    #[must_use]
    pub fn with_others(issuing: Ca, others: Vec<String>, cross: Option<String>) -> Self {
        Self { issuing, others, cross }
    }

    /// The authority that issues.
    #[must_use]
    pub fn issuing(&self) -> &Ca {
        &self.issuing
    }

    /// The pins of all that are trusted, that of the one that issues first.
    #[must_use]
    pub fn pins(&self) -> Vec<CaPin> {
        let others = self.others.iter().filter_map(|pem| CaPin::of_pem(pem));
        std::iter::once(self.issuing.pin()).chain(others).collect()
    }

    /// Certificates of the others that are trusted.
    #[must_use]
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Certificates of all that are trusted, the one that issues first.
    #[must_use]
    pub fn bundle_pem(&self) -> String {
        self.issuing.certificate_pem().to_owned() + &self.others.concat()
    }

    /// What else a server shows: so that everybody who knows one of those that are trusted, or its pin, finds a way.
    fn shown(&self) -> String {
        self.cross.iter().chain(&self.others).map(String::as_str).collect()
    }
}

/// The cluster's authority. What it is can be exchanged while it is in use.
pub struct Authority {
    cluster: String,
    trust: TrustSlot,
    renew_within: Duration,
    now: watch::Sender<Arc<Standing>>,
}

impl Authority {
    /// An authority as it stands.
    ///
    /// # Errors
    /// One of those that are to be trusted cannot be.
    pub fn new(standing: Standing) -> Result<Self, TlsError> {
        let trust = TrustSlot::new(&standing.bundle_pem())?;
        let cluster = standing.issuing.cluster().to_owned();
        let renew_within = RENEW_WITHIN;
        Ok(Self { cluster, trust, renew_within, now: watch::Sender::new(Arc::new(standing)) })
    }

    /// With another time within which nodes renew when the authority that issues changes.
    #[must_use]
    pub fn with_renewals_within(mut self, time: Duration) -> Self {
        self.renew_within = time;
        self
    }

    /// The time within which nodes renew when the authority that issues changes.
    #[must_use]
    pub fn renew_within(&self) -> Duration {
        self.renew_within
    }

    /// Stands so from now on: new certificates are the issuing one's, and what nobody vouches for any more ends.
    ///
    /// # Errors
    /// One of those that are to be trusted cannot be; all is as before then.
    pub fn swap(&self, standing: Standing) -> Result<(), TlsError> {
        self.trust.swap(&standing.bundle_pem())?;
        self.now.send_replace(Arc::new(standing));
        Ok(())
    }

    /// The authority as it is now: who issues and who is trusted.
    #[must_use]
    pub fn standing(&self) -> Arc<Standing> {
        Arc::clone(&self.now.borrow())
    }

    /// A receiver that sees every exchange of the authorities.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Arc<Standing>> {
        self.now.subscribe()
    }

    /// The cluster whose authority this is.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The authorities that are trusted now; follows every change.
    #[must_use]
    pub fn trust(&self) -> &TrustSlot {
        &self.trust
    }

    /// Certificates of all that are trusted, for everybody; the one that issues first.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.standing().bundle_pem()
    }

    /// The pin of the one that issues: what a joining node compares.
    #[must_use]
    pub fn pin(&self) -> CaPin {
        self.standing().issuing.pin()
    }

    /// Signs a certificate with the authority that issues now, as [`Ca::issue`].
    ///
    /// # Errors
    /// As [`Ca::issue`].
    pub fn issue(
        &self,
        csr_pem: &str,
        identity: &Identity,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Issued, CaError> {
        self.standing().issuing.issue(csr_pem, identity, lifetime, now)
    }

    /// As [`Ca::issue_server`]; the chain leads to each of those that are trusted.
    ///
    /// # Errors
    /// As [`Ca::issue_server`].
    pub fn issue_server(
        &self,
        names: &[String],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Leaf, CaError> {
        let standing = self.standing();
        let mut leaf = standing.issuing.issue_server(names, lifetime, now)?;
        leaf.issued.chain_pem.push_str(&standing.shown());
        Ok(leaf)
    }

    /// Signs a message with the authority that issues now, as [`Ca::sign_message`].
    ///
    /// # Errors
    /// As [`Ca::sign_message`].
    pub fn sign_message(&self, message: &[u8]) -> Result<Vec<u8>, CaError> {
        self.standing().issuing.sign_message(message)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, {:?})", self.cluster, self.trust)
    }
}
