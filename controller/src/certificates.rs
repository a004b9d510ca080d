//! The controller's own certificate: short-lived, renewed at half its life, swapped without dropping a call.

use std::{net::IpAddr, sync::Arc, time::SystemTime};

use proto_rpc::{
    Authority, CertificateSlot, Jitter, Listen, Renewal,
    ca::{CaError, LEAF_LIFETIME},
    tls::TlsError,
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The authority could not issue the certificate.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The certificate could not be used by the TLS library.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The names under which the controller is reached.
#[must_use]
pub fn names(listen: &[Listen], further: &[String]) -> Vec<String> {
    let mut names: Vec<String> = further.to_vec();
    for listen in listen {
        let Listen::Tcp(address) = listen else { continue };
        if !address.ip().is_unspecified() {
            names.push(address.ip().to_string());
        }
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            names.extend(["localhost".to_owned(), IpAddr::from([127, 0, 0, 1]).to_string()]);
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Makes the first certificate.
///
/// # Errors
/// A name that cannot stand in a certificate.
pub fn first(ca: &Authority, names: &[String]) -> Result<CertificateSlot, CertificateError> {
    let leaf = ca.issue_server(names, LEAF_LIFETIME, SystemTime::now())?;
    Ok(CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem)?)
}

/// Renews it at half of its life, a little earlier or later, and whenever the authority changes, until `stop`.
pub async fn renew(ca: Arc<Authority>, names: Vec<String>, slot: CertificateSlot, stop: CancellationToken) {
    let (mut jitter, mut changes) = (Jitter::from_os(), ca.changes());
    loop {
        // What was just made can be read.
        let Ok(shown) = slot.certificate() else { return };
        let mut plan = Renewal::of(&shown, &mut jitter);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = plan.until_due() => {}
                // Whoever issues now, or is trusted beside it: the chain that is shown leads there.
                Ok(()) = changes.changed() => {}
            }
            let renewed = ca.issue_server(&names, LEAF_LIFETIME, SystemTime::now());
            let swapped = renewed.map_err(CertificateError::Ca);
            match swapped.and_then(|leaf| Ok(slot.swap(&leaf.issued.chain_pem, &leaf.key_pem)?)) {
                Ok(()) => break,
                Err(error) => {
                    plan.failed(SystemTime::now(), &mut jitter);
                    tracing::error!(%error, "the controller's certificate could not be renewed; trying again");
                }
            }
        }
        tracing::info!("the controller's certificate was renewed");
    }
}
