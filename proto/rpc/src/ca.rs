//! The controller's own certificate authority: it makes, loads and uses the cluster's CA key.
//!
//! ECDSA P-256. A leaf's names come from the identity that was authorised, never from the CSR; of the CSR only
//! the public key is used, and its signature proves that the asker holds the private key.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use time::OffsetDateTime;

use crate::files;
use crate::files::FileError;
use crate::hex::to_hex;
use crate::identity::{Identity, IdentityError, cluster_of, cluster_uri};
use crate::pin::CaPin;

/// The DNS name that every controller's certificate carries, whatever its host is called. Clients check it
/// where the address has no name of its own: unix sockets.
pub const CONTROLLER_NAME: &str = "controller.rail.internal";
/// How far a certificate's validity begins in the past, for peers whose clocks are behind.
pub const CLOCK_SKEW: Duration = Duration::from_secs(300);
/// How long a CA lives where nothing else is asked for: ten years.
pub const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long a leaf lives where nothing else is asked for: one hour; renew at half of it.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(3600);
/// How long a node's certificate lives: 30 days; it too is renewed at half of it. A node can renew only while a
/// controller answers and its certificate is still valid, so this bounds how long a controller may be away before every
/// node must join anew by hand: 15 days at the least. A certificate that must end before is revoked.
pub const NODE_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
const MAX_CSR_BYTES: usize = 16 * 1024;
const CA_CERT_FILE: &str = "ca.pem";
const CA_KEY_FILE: &str = "ca.key";

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A name or identity is not allowed.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The CA's certificate cannot be used.
    #[error("CA certificate: {detail}")]
    BadCa {
        /// What is wrong with it.
        detail: String,
    },
    /// The CA on disk is of another cluster.
    #[error("the CA is of cluster `{found}`, this is cluster `{expected}`: wrong data folder?")]
    ForeignCa {
        /// The cluster that was asked for.
        expected: String,
        /// The cluster that the CA names.
        found: String,
    },
    /// The key does not belong to the CA's certificate.
    #[error("the CA's key does not belong to its certificate")]
    KeyMismatch,
    /// The CA is past its end or not yet valid.
    #[error("the CA certificate is not valid now")]
    CaExpired,
    /// The CSR cannot be used.
    #[error("certificate signing request: {detail}")]
    BadRequest {
        /// What is wrong with it.
        detail: String,
    },
    /// Neither a DNS name nor an IP address.
    #[error("`{name}` is neither a DNS name nor an IP address")]
    BadServerName {
        /// The name that was given.
        name: String,
    },
    /// The library refused; with sound arguments this does not happen.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A time that no certificate can hold.
    #[error("time is outside of what a certificate can hold")]
    BadTime,
    /// The system's random source failed.
    #[error("the system gave no random bytes")]
    NoRandom,
}

/// A certificate that was just issued, without its key.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The leaf followed by the CA's certificate, so that a peer with only the pin can verify the chain.
    pub chain_pem: String,
    /// Serial number in lower-case hex.
    pub serial: String,
    /// First instant at which it is no longer valid.
    pub not_after: SystemTime,
}

/// A private key (PEM, PKCS#8) with a certificate signing request for it. The key never leaves its maker.
pub struct KeyRequest {
    /// The private key; a secret.
    pub key_pem: String,
    /// The request to send to the controller.
    pub csr_pem: String,
}

impl KeyRequest {
    /// Makes a new P-256 key and its request. The request asks for no names: the CA would ignore them.
    ///
    /// # Errors
    /// [`CaError`] if the library cannot make the key or the request.
    pub fn generate() -> Result<Self, CaError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let csr_pem = params.serialize_request(&key)?.pem()?;
        Ok(KeyRequest { key_pem: key.serialize_pem(), csr_pem })
    }
}

impl fmt::Debug for KeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRequest").field("csr_pem", &self.csr_pem).finish_non_exhaustive()
    }
}

/// A certificate with its private key.
pub struct Leaf {
    /// The certificate with its chain.
    pub issued: Issued,
    /// Its private key; a secret.
    pub key_pem: String,
}

/// The cluster's certificate authority.
pub struct Ca {
    cluster: String,
    name: DistinguishedName,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
    not_after: OffsetDateTime,
    pin: CaPin,
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ca({}, {})", self.cluster, self.pin)
    }
}

impl Ca {
    /// Makes a new CA for `cluster`.
    ///
    /// # Errors
    /// [`CaError`] if the cluster's name is not valid, a time does not fit into a certificate, or the library fails.
    pub fn create(cluster: &str, now: SystemTime, lifetime: Duration) -> Result<Self, CaError> {
        Ca::create_with(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?, cluster, now, lifetime)
    }

    /// Makes the certificate of a CA whose key (PEM, PKCS#8) is there already.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn create_for(
        key_pem: &str,
        cluster: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        Ca::create_with(Ca::read_key(key_pem)?, cluster, now, lifetime)
    }

    fn create_with(
        key: KeyPair,
        cluster: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        Ca::create_named(key, cluster, &format!("Railyard CA {cluster}"), now, lifetime)
    }

    pub(crate) fn read_key(pem: &str) -> Result<KeyPair, CaError> {
        let detail = "its key cannot be read as PEM (PKCS#8)".to_owned();
        KeyPair::from_pem(pem).map_err(|_| CaError::BadCa { detail })
    }

    pub(crate) fn create_named(
        key: KeyPair,
        cluster: &str,
        name: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        let mut params = authority_params(cluster, common_name(name))?;
        (params.not_before, params.not_after) = validity(now, lifetime, None)?;
        let certificate_pem = params.self_signed(&key)?.pem();
        Ca::load(&certificate_pem, &key.serialize_pem(), now)
    }

    /// Reads a CA from PEM and checks that it is one, that it is valid now, and that the key is its own.
    ///
    /// # Errors
    /// [`CaError::BadCa`] if the text is not the certificate of a CA with its key, [`CaError::CaExpired`] if it is not valid at `now`, or
    /// another [`CaError`] for a key or a time that cannot be read.
    pub fn load(certificate_pem: &str, key_pem: &str, now: SystemTime) -> Result<Self, CaError> {
        let bad = |detail: &str| CaError::BadCa { detail: detail.to_owned() };
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| bad("no certificate in PEM form was found"))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&der).map_err(|_| bad("cannot be read as X.509"))?;
        if !parsed.is_ca() {
            return Err(bad("is not the certificate of a CA"));
        }
        let now = utc(now)?.unix_timestamp();
        if parsed.validity().not_before.timestamp() > now || parsed.validity().not_after.timestamp() < now {
            return Err(CaError::CaExpired);
        }
        let not_after = OffsetDateTime::from_unix_timestamp(parsed.validity().not_after.timestamp())
            .map_err(|_| CaError::BadTime)?;
        let cluster = only_uri(&parsed).ok_or_else(|| bad("names no cluster"))?;
        let cluster = cluster_of(&cluster)?;
        let key = Ca::read_key(key_pem)?;
        if rcgen::PublicKeyData::subject_public_key_info(&key) != parsed.public_key().raw {
            return Err(CaError::KeyMismatch);
        }
        let pin = CaPin::of_certificate(&der).ok_or_else(|| bad("cannot be read as X.509"))?;
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let name = common_name(name.unwrap_or_default());
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        Ok(Ca { cluster, name, certificate_pem: certificate_pem.to_owned(), issuer, not_after, pin })
    }

    /// Loads `ca.pem` and `ca.key` from `folder`, or makes both where neither is there. A key whose certificate
    /// is missing (a crash between the two writes) gets a new certificate and keeps its pin; a certificate
    /// without its key is an error, because a new CA would lock out every node that trusts the old one.
    ///
    /// # Errors
    /// [`CaError`] if a file cannot be read or written, if what is in it cannot be used, if the key of a certificate is missing, or if it
    /// is the CA of another cluster.
    pub fn load_or_create(folder: &Path, cluster: &str, now: SystemTime) -> Result<Self, CaError> {
        let (certificate, key) = (folder.join(CA_CERT_FILE), folder.join(CA_KEY_FILE));
        if !certificate.exists() {
            let ca = if key.exists() {
                let key = KeyPair::from_pem(&files::read_text(&key)?)?;
                Ca::create_with(key, cluster, now, CA_LIFETIME)?
            } else {
                let ca = Ca::create(cluster, now, CA_LIFETIME)?;
                files::write_secret(&key, &ca.key_pem())?;
                ca
            };
            files::write_public(&certificate, &ca.certificate_pem)?;
            return Ok(ca);
        }
        let ca = Ca::load(&files::read_text(&certificate)?, &files::read_text(&key)?, now)?;
        if ca.cluster != cluster {
            return Err(CaError::ForeignCa { expected: cluster.to_owned(), found: ca.cluster });
        }
        Ok(ca)
    }

    /// The cluster whose CA this is.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The CA's certificate, for everybody.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The CA's private key, for its file only.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// When the authority's certificate ends.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after.into()
    }

    pub(crate) fn name(&self) -> DistinguishedName {
        self.name.clone()
    }

    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// The pin of the CA's certificate, which a joining node compares.
    #[must_use]
    pub fn pin(&self) -> CaPin {
        self.pin
    }

    /// Issues a client certificate for an identity that the caller has authorised, for the key of `csr_pem`.
    /// It ends after `lifetime`, or with the CA if that is earlier.
    ///
    /// # Errors
    /// [`CaError`] if the CSR cannot be read or its signature does not fit, if the identity cannot be written into a certificate, or if
    /// the CA itself has ended.
    pub fn issue(
        &self,
        csr_pem: &str,
        identity: &Identity,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Issued, CaError> {
        let public_key = checked_request(csr_pem)?;
        let names = vec![uri_name(identity.to_uri(&self.cluster)?)?];
        self.sign(&public_key, identity, names, vec![ExtendedKeyUsagePurpose::ClientAuth], lifetime, now)
    }

    /// Makes a key and a certificate for a controller that is reached under `names` (DNS names and IP
    /// addresses; [`CONTROLLER_NAME`] is added). It serves and also speaks for the controller as a client.
    ///
    /// # Errors
    /// [`CaError::BadServerName`] for a name that is neither a DNS name nor an IP address; another [`CaError`] if the CA has ended or the
    /// library fails.
    pub fn issue_server(
        &self,
        names: &[String],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Leaf, CaError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut sans = vec![
            uri_name(Identity::Controller.to_uri(&self.cluster)?)?,
            SanType::DnsName(CONTROLLER_NAME.try_into()?),
        ];
        for name in names {
            sans.push(server_name(name)?);
        }
        let uses = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let issued = self.sign(&key, &Identity::Controller, sans, uses, lifetime, now)?;
        Ok(Leaf { issued, key_pem: key.serialize_pem() })
    }

    /// Signs a message of ours, which must not be what a certificate's content could be: ECDSA P-256 with SHA-256, ASN.1.
    /// Whoever has the CA's certificate checks it with [`crate::seal::CaKey`].
    ///
    /// # Errors
    /// [`CaError`] if the library cannot sign with the key.
    pub fn sign_message(&self, message: &[u8]) -> Result<Vec<u8>, CaError> {
        Ok(rcgen::SigningKey::sign(self.issuer.key(), message)?)
    }

    fn sign(
        &self,
        key: &impl rcgen::PublicKeyData,
        identity: &Identity,
        names: Vec<SanType>,
        uses: Vec<ExtendedKeyUsagePurpose>,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Issued, CaError> {
        let serial = serial()?;
        let mut params = CertificateParams::default();
        let (not_before, not_after) = validity(now, lifetime, Some(self.not_after))?;
        (params.not_before, params.not_after) = (not_before, not_after);
        params.serial_number = Some(serial.clone());
        params.distinguished_name = common_name(&identity.to_string());
        params.subject_alt_names = names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = uses;
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(key, &self.issuer)?.pem();
        Ok(Issued {
            chain_pem: format!("{leaf}{}", self.certificate_pem),
            serial: to_hex(&serial.to_bytes()),
            not_after: not_after.into(),
        })
    }
}

/// The one URI among a certificate's alternative names; none if there are none or several.
pub(crate) fn only_uri(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()??;
    let mut uris = names.value.general_names.iter().filter_map(|name| match name {
        x509_parser::extensions::GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => Some(uri.to_owned()),
        _ => None,
    }
}

fn checked_request(csr_pem: &str) -> Result<rcgen::PublicKey, CaError> {
    let bad = |detail: &str| CaError::BadRequest { detail: detail.to_owned() };
    if csr_pem.len() > MAX_CSR_BYTES {
        return Err(bad("larger than 16 KiB"));
    }
    let der = CertificateSigningRequestDer::from_pem_slice(csr_pem.as_bytes())
        .map_err(|_| bad("no certificate request in PEM form was found"))?;
    let request = CertificateSigningRequestParams::from_der(&der).map_err(|error| match error {
        rcgen::Error::InvalidCertificationRequestSignature => {
            bad("its signature is not of its own key: possession of the key is not proved")
        }
        other => bad(&other.to_string()),
    })?;
    let algorithm = rcgen::PublicKeyData::algorithm(&request.public_key);
    let allowed = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519];
    if !allowed.contains(&algorithm) {
        return Err(bad("its key is not ECDSA P-256, ECDSA P-384 or Ed25519"));
    }
    Ok(request.public_key)
}

/// What every certificate of an authority says of its cluster. One authority may stand below it: the next one, whose
/// certificate it signs.
pub(crate) fn authority_params(cluster: &str, name: DistinguishedName) -> Result<CertificateParams, CaError> {
    let mut params = CertificateParams::default();
    params.serial_number = Some(serial()?);
    params.distinguished_name = name;
    params.subject_alt_names = vec![uri_name(cluster_uri(cluster)?)?];
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

pub(crate) fn validity(
    now: SystemTime,
    lifetime: Duration,
    end: Option<OffsetDateTime>,
) -> Result<(OffsetDateTime, OffsetDateTime), CaError> {
    let now = utc(now)?;
    let lifetime = time::Duration::try_from(lifetime).map_err(|_| CaError::BadTime)?;
    let skew = time::Duration::try_from(CLOCK_SKEW).map_err(|_| CaError::BadTime)?;
    let not_before = now.checked_sub(skew).ok_or(CaError::BadTime)?;
    let desired = now.checked_add(lifetime).ok_or(CaError::BadTime)?;
    let not_after = end.map_or(desired, |end| end.min(desired));
    // X.509 counts whole seconds; what is reported must be what the certificate says.
    let not_after = not_after.replace_nanosecond(0).map_err(|_| CaError::BadTime)?;
    if not_after.year() > 9999 { Err(CaError::BadTime) } else { Ok((not_before, not_after)) }
}

pub(crate) fn utc(instant: SystemTime) -> Result<OffsetDateTime, CaError> {
    let since = instant.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| CaError::BadTime)?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| CaError::BadTime)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CaError::BadTime)
}

pub(crate) fn serial() -> Result<SerialNumber, CaError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| CaError::NoRandom)?;
    // The first bit stays 0: a serial number is a positive integer of at most 20 bytes (RFC 5280, 4.1.2.2).
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    // RFC 5280 bounds a common name at 64 characters; the identity itself is in the alternative name.
    subject.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    subject
}

fn uri_name(uri: String) -> Result<SanType, CaError> {
    Ok(SanType::URI(uri.try_into()?))
}

fn server_name(name: &str) -> Result<SanType, CaError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let bad = || CaError::BadServerName { name: name.chars().take(255).collect() };
    rustls_pki_types::DnsName::try_from(name).map_err(|_| bad())?;
    Ok(SanType::DnsName(name.try_into().map_err(|_| bad())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::PeerCertificate;
    use crate::certificate::peer_identity;
    use crate::tls::CertificateSlot;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn ca() -> Ca {
        Ca::create("dev", now(), CA_LIFETIME).unwrap()
    }

    fn leaf(chain_pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(chain_pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_leaf_says_what_was_authorised_and_nothing_that_was_asked_for() {
        let ca = ca();
        let key = KeyPair::generate().unwrap();
        let mut greedy = CertificateParams::new(vec!["controller.rail.internal".to_owned()]).unwrap();
        greedy.subject_alt_names.push(uri_name("spiffe://rail/dev/controller".to_owned()).unwrap());
        greedy.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        greedy.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        greedy.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let csr = greedy.serialize_request(&key).unwrap().pem().unwrap();
        let node = Identity::node("n0").unwrap();
        let issued = ca.issue(&csr, &node, LEAF_LIFETIME, now()).unwrap();
        let der = leaf(&issued.chain_pem);
        assert_eq!(peer_identity(&der, "dev").unwrap(), node);
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert_eq!(certificate.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 1);
        assert!(!certificate.is_ca());
        let uses = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(uses.client_auth && !uses.server_auth && !uses.any);
        let read = PeerCertificate::read(&der).unwrap();
        assert_eq!((read.serial, read.not_after), (issued.serial, issued.not_after));
        assert_eq!(issued.not_after, now() + LEAF_LIFETIME);
    }

    #[test]
    fn a_request_must_prove_possession_and_be_of_an_allowed_kind() {
        let ca = ca();
        let node = Identity::node("n0").unwrap();
        let issue = |csr: &str| ca.issue(csr, &node, LEAF_LIFETIME, now());
        let good = KeyRequest::generate().unwrap();
        issue(&good.csr_pem).unwrap();
        let mut der = CertificateSigningRequestDer::from_pem_slice(good.csr_pem.as_bytes()).unwrap().to_vec();
        let last = der.len() - 1;
        der[last] ^= 1;
        let forged = pem_of("CERTIFICATE REQUEST", &der);
        assert!(matches!(issue(&forged), Err(CaError::BadRequest { .. })));
        let certificate = ca.certificate_pem().to_owned();
        for bad in ["", "-----BEGIN", &certificate, &"x".repeat(MAX_CSR_BYTES + 1)] {
            assert!(matches!(issue(bad), Err(CaError::BadRequest { .. })));
        }
        assert!(ca.issue(&good.csr_pem, &Identity::Anonymous, LEAF_LIFETIME, now()).is_err());
    }

    fn pem_of(label: &str, der: &[u8]) -> String {
        // No base64 encoder is among our dependencies, and a damaged request is needed only here.
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in der.chunks(3) {
            let bits = chunk.iter().fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte))
                << (8 * (3 - chunk.len()));
            for index in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * index) & 63) as usize] as char;
                text.push(if index <= chunk.len() { digit } else { '=' });
            }
        }
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    }

    #[test]
    fn a_leaf_never_outlives_its_ca_and_server_names_are_checked() {
        let ca = Ca::create("dev", now(), Duration::from_secs(60)).unwrap();
        let server =
            ca.issue_server(&["ctl.example".to_owned(), "10.0.0.1".to_owned()], LEAF_LIFETIME, now());
        let server = server.unwrap();
        assert_eq!(server.issued.not_after, now() + Duration::from_secs(60));
        CertificateSlot::new(&server.issued.chain_pem, &server.key_pem).unwrap();
        assert_eq!(peer_identity(&leaf(&server.issued.chain_pem), "dev").unwrap(), Identity::Controller);
        for bad in ["", "a b", "spiffe://rail/dev/admin/x", "*", "a/b"] {
            let made = ca.issue_server(&[bad.to_owned()], LEAF_LIFETIME, now());
            assert!(matches!(made, Err(CaError::BadServerName { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_ca_on_disk_is_kept_and_what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let load = |cluster: &str, at| Ca::load_or_create(folder.path(), cluster, at);
        let made = load("dev", now()).unwrap();
        assert_eq!(load("dev", now()).unwrap().pin(), made.pin());
        assert!(matches!(load("prod", now()), Err(CaError::ForeignCa { .. })));
        assert!(matches!(load("dev", now() + CA_LIFETIME * 2), Err(CaError::CaExpired)));
        assert!(matches!(load("dev", now() - Duration::from_secs(3600)), Err(CaError::CaExpired)));

        std::fs::remove_file(folder.path().join(CA_CERT_FILE)).unwrap();
        assert_eq!(load("dev", now()).unwrap().pin(), made.pin(), "the pin is of the key");

        let other = KeyPair::generate().unwrap().serialize_pem();
        files::write_secret(&folder.path().join(CA_KEY_FILE), &other).unwrap();
        assert!(matches!(load("dev", now()), Err(CaError::KeyMismatch)));
        std::fs::remove_file(folder.path().join(CA_KEY_FILE)).unwrap();
        assert!(matches!(load("dev", now()), Err(CaError::File(_))));
        std::fs::write(folder.path().join(CA_CERT_FILE), "rubbish").unwrap();
        files::write_secret(&folder.path().join(CA_KEY_FILE), &other).unwrap();
        assert!(matches!(load("dev", now()), Err(CaError::BadCa { .. })));
    }

    #[test]
    fn secrets_are_not_shown() {
        let request = KeyRequest::generate().unwrap();
        assert!(!format!("{request:?}{:?}", ca()).contains("PRIVATE"));
    }
}
