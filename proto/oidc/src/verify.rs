//! Whether a token is good, and what it says: a function of its text, the provider's keys, the site's policy and the time.
//!
//! OpenID Connect Core 1.0, 3.1.3.7, and what RFC 8725 and RFC 9068 add to it for tokens that are shown to an API.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::claims::Claims;
use crate::grants::Policy;
use crate::jose::{Keys, Signed};
use crate::refused::{LONGEST, Refused};

/// The longest that clocks may be apart.
pub const MAX_SKEW: Duration = Duration::from_secs(300);
/// Bytes of a subject at most (OpenID Connect Core, 2).
const MAX_SUBJECT: usize = 255;
/// Audiences of a token at most.
const MAX_AUDIENCES: usize = 32;
/// The latest time that a claim can name, in seconds since 1970.
const LAST_SECOND: f64 = 1e11;

/// What a token says, if it is good now. `nonce` is that of the sign-on that the token answers, where it answers one.
///
/// # Errors
/// [`Refused`] with the first thing that is wrong; nothing of a token is looked at before its signature was checked.
pub fn verify(
    token: &str,
    keys: &Keys,
    policy: &Policy,
    nonce: Option<&str>,
    now: SystemTime,
) -> Result<Claims, Refused> {
    judge(Signed::read(token)?.verified(keys)?, policy, nonce, now)
}

/// What the content of a token says whose signature was checked before: the second half of [`verify`].
///
/// # Errors
/// [`Refused`] with the first thing that is wrong.
pub fn judge(all: Value, policy: &Policy, nonce: Option<&str>, now: SystemTime) -> Result<Claims, Refused> {
    if text(&all, "iss")? != policy.issuer {
        return Err(Refused::Issuer);
    }
    check_audience(&all, policy)?;
    let (issued, expires) = check_times(&all, policy.skew.min(MAX_SKEW), now)?;
    // An event of somebody's (RFC 8417), their logout among them, is not their word.
    if all.get("events").is_some() {
        return Err(Refused::Type);
    }
    if all.get("cnf").is_some() {
        return Err(Refused::Bound);
    }
    if let Some(nonce) = nonce
        && text(&all, "nonce").ok() != Some(nonce)
    {
        return Err(Refused::Nonce);
    }
    let subject = text(&all, "sub")?;
    if subject.is_empty() || subject.len() > MAX_SUBJECT || subject.chars().any(char::is_control) {
        return Err(Refused::Claim("sub"));
    }
    Ok(Claims { issuer: policy.issuer.clone(), subject: subject.to_owned(), issued, expires, all })
}

fn text<'a>(claims: &'a Value, name: &'static str) -> Result<&'a str, Refused> {
    claims.get(name).and_then(Value::as_str).ok_or(Refused::Claim(name))
}

/// A time of a claim, in seconds since 1970; a fraction is cut off.
fn time(claims: &Value, name: &'static str) -> Result<Option<SystemTime>, Refused> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..LAST_SECOND).contains(seconds));
    let seconds = seconds.ok_or(Refused::Claim(name))?;
    Ok(Some(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.floor())))
}

/// For this cluster, and given to a client of it: the audience is named, and who of several was given it is said.
fn check_audience(claims: &Value, policy: &Policy) -> Result<(), Refused> {
    let named: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) if several.len() <= MAX_AUDIENCES => {
            let texts: Option<Vec<&str>> = several.iter().map(Value::as_str).collect();
            texts.ok_or(Refused::Claim("aud"))?
        }
        _ => return Err(Refused::Claim("aud")),
    };
    if !named.iter().any(|name| policy.audiences.iter().any(|ours| ours == name)) {
        return Err(Refused::Audience);
    }
    // RFC 9068 calls it `client_id`, and some providers `cid`.
    let party = ["azp", "client_id", "cid"].into_iter().find_map(|name| Some((name, claims.get(name)?)));
    let party = match party {
        None => None,
        Some((name, party)) => Some(party.as_str().ok_or(Refused::Claim(name))?),
    };
    match party {
        Some(party) if policy.is_client(party) => Ok(()),
        None if named.len() == 1 => Ok(()),
        _ => Err(Refused::Party),
    }
}

fn check_times(claims: &Value, skew: Duration, now: SystemTime) -> Result<(SystemTime, SystemTime), Refused> {
    let expires = time(claims, "exp")?.ok_or(Refused::Claim("exp"))?;
    let issued = time(claims, "iat")?.ok_or(Refused::Claim("iat"))?;
    if now >= expires + skew {
        return Err(Refused::Expired);
    }
    if time(claims, "nbf")?.is_some_and(|begins| begins > now + skew) {
        return Err(Refused::Early);
    }
    if issued > now + skew {
        return Err(Refused::Future);
    }
    match expires.duration_since(issued) {
        Ok(life) if life <= LONGEST + skew => Ok((issued, expires)),
        _ => Err(Refused::LongLived),
    }
}
