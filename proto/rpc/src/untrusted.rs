//! Why two peers do not trust each other, and what can be done: each cause has its own words.

use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use time::OffsetDateTime;
use tonic::Status;

use crate::status::{ErrorClass, RpcError};
use crate::tls::CertificateSlot;

/// The reason of an error whose cause is that the caller's certificate or token was revoked.
pub const REVOKED: &str = "CERTIFICATE_REVOKED";
/// What the owner of credentials that are not good any more can do.
pub const REVOKED_ADVICE: &str = "a server joins anew with a new token (`railctl node token NAME`), \
    a person has a new certificate or token issued";

/// Turns a failed handshake into a Status that says whose certificate is wrong, how, and what to do.
pub(crate) fn explain(error: &rustls::Error, place: &str, ours: Option<&CertificateSlot>) -> Status {
    let untrusted = |reason: &str, detail: String| {
        RpcError::new(ErrorClass::Unauthenticated, reason, format!("{place}: {detail}")).into()
    };
    match error {
        rustls::Error::AlertReceived(AlertDescription::CertificateRevoked) => {
            untrusted(REVOKED, format!("our certificate was revoked; {REVOKED_ADVICE}"))
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            untrusted("CERTIFICATE_EXPIRED", out_of_time(ours, SystemTime::now()))
        }
        rustls::Error::AlertReceived(AlertDescription::UnknownCA) => untrusted(
            "CERTIFICATE_REFUSED",
            "the server refused our certificate, which is not from its CA: is it another cluster's controller, or \
             another cluster's certificate?"
                .to_owned(),
        ),
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired),
        ) => untrusted("CERTIFICATE_REFUSED", format!("the server refused our certificate ({alert:?})")),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => untrusted(
            "SERVER_NOT_TRUSTED",
            "its certificate is not from the CA (or of the pin) that we trust: is it another cluster's controller, or \
             another cluster's CA file or pin?"
                .to_owned(),
        ),
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => {
            let detail = format!(
                "its certificate ended at {}, and this machine's clock says {}: set the clock that is wrong, or look \
                 into the controller's log why it does not renew",
                at(*not_after),
                at(*time)
            );
            untrusted("SERVER_CERTIFICATE_EXPIRED", detail)
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { time, not_before }) => {
            let detail = format!(
                "its certificate begins at {}, and this machine's clock says {}: set the clock that is wrong, here or \
                 at the controller",
                at(*not_before),
                at(*time)
            );
            untrusted("SERVER_CERTIFICATE_NOT_YET_VALID", detail)
        }
        rustls::Error::InvalidCertificate(detail) => untrusted("SERVER_NOT_TRUSTED", detail.to_string()),
        other => unavailable(format!("{place}: TLS: {other}")),
    }
}

/// The server finds our certificate out of time, and says no more than that.
fn out_of_time(ours: Option<&CertificateSlot>, now: SystemTime) -> String {
    let clock = shown(now);
    let Some(certificate) = ours.and_then(|slot| slot.certificate().ok()) else {
        return format!(
            "the server says that our certificate has expired; this machine's clock says {clock}"
        );
    };
    let (issued, end) = (shown(certificate.issued), shown(certificate.not_after));
    if now >= certificate.not_after {
        format!("our certificate ended at {end}; {REVOKED_ADVICE}")
    } else if now < certificate.issued {
        format!(
            "our certificate was issued at {issued}, and this machine's clock says {clock}: set the clock"
        )
    } else {
        format!(
            "the server says that our certificate is out of time, which was issued at {issued} and ends at {end}; \
             this machine's clock says {clock}: set the clock that is wrong, here or at the controller"
        )
    }
}

fn shown(time: SystemTime) -> String {
    at(UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)))
}

/// The time in UTC, for example `2026-08-20T10:00:00Z`.
fn at(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else { return format!("second {seconds}") };
    let (hour, minute, second) = time.to_hms();
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", time.date())
}

pub(crate) fn unavailable(message: String) -> Status {
    RpcError::new(ErrorClass::Unavailable, "UNREACHABLE", message).into()
}
