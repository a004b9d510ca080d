//! What a provider's users may be here: which claim names them, and what each value of another claim grants.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use proto_rpc::{Identity, Role};
use serde_json::Value;

use crate::claims::Claims;

/// Grants at most.
pub const MAX_GRANTS: usize = 256;
/// Bytes of a value of a claim that a grant names, at most.
const MAX_VALUE: usize = 256;

/// What one value of the claim grants: a role in a tenant, or the cluster's administration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The value of the claim, compared byte by byte.
    pub value: String,
    /// The role.
    pub role: Role,
    /// The tenant; none for the cluster's administrators.
    pub tenant: Option<String>,
}

/// Why a text is no grant, or somebody has none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The text has another form.
    #[error("expected VALUE=admin or VALUE=ROLE@TENANT, where ROLE is tenant-admin, user or viewer")]
    Malformed,
    /// The claim that names users is missing, or not a text.
    #[error("its claim `{0}`, which names users here, is missing or no text")]
    NoName(String),
    /// A mail address that the provider has not verified.
    #[error("its mail address is not verified (`email_verified`), so that it names nobody")]
    Unverified,
    /// The name does not end as names have to.
    #[error("its claim `{claim}` does not end with `{suffix}`")]
    OtherSuffix {
        /// The claim that names users.
        claim: String,
        /// What it has to end with.
        suffix: String,
    },
    /// The name is none that a user can have here.
    #[error(
        "its claim `{0}` is no name here: 1 to 128 of a-z A-Z 0-9 . _ -, beginning with a letter or digit"
    )]
    BadName(String),
    /// No value of the claim grants anything.
    #[error("nothing in its claim `{0}` grants a role here")]
    NoGrant(String),
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        // A value may have an equals sign itself, a role and a tenant have none.
        let (value, granted) = text.rsplit_once('=').ok_or(GrantError::Malformed)?;
        if value.is_empty() || value.len() > MAX_VALUE {
            return Err(GrantError::Malformed);
        }
        let (role, tenant) = match granted.split_once('@') {
            None => (granted, None),
            Some((role, tenant)) => (role, Some(tenant)),
        };
        let role: Role = role.parse().map_err(|_| GrantError::Malformed)?;
        match (role, tenant) {
            (Role::Admin, None) => {}
            (role, Some(tenant)) if Identity::user(tenant, "u", [role]).is_ok() => {}
            _ => return Err(GrantError::Malformed),
        }
        Ok(Self { value: value.to_owned(), role, tenant: tenant.map(str::to_owned) })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.value, self.role)?;
        self.tenant.as_ref().map_or(Ok(()), |tenant| write!(f, "@{tenant}"))
    }
}

/// What is taken of a provider. All of it is the site's word; nothing of it comes from a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The issuer, byte by byte as its tokens name it.
    pub issuer: String,
    /// The client that the web pages are, for the provider.
    pub client: String,
    /// Whom a token may be for.
    pub audiences: Vec<String>,
    /// The claim that names users.
    pub name_claim: String,
    /// What a name has to end with, and is cut off; may be empty.
    pub name_suffix: String,
    /// The claim whose values grant something.
    pub groups_claim: String,
    /// What they grant; the first that holds decides the tenant.
    pub grants: Vec<Grant>,
    /// How far clocks may be apart.
    pub skew: Duration,
}

impl Policy {
    /// Whether tokens that were given to this client are taken.
    #[must_use]
    pub fn is_client(&self, party: &str) -> bool {
        self.client == party || self.audiences.iter().any(|ours| ours == party)
    }

    /// Who the holder of a good token is here. A user is not bound to the tenant's uid yet.
    ///
    /// The first grant that holds decides whether it is an administrator, or of which tenant; others of that tenant add their roles.
    ///
    /// # Errors
    /// [`GrantError`]: it has no name here, or nothing is granted to it.
    pub fn identity(&self, claims: &Claims) -> Result<Identity, GrantError> {
        let user = self.name(&claims.all)?;
        Self::check_mail(&claims.all, &self.groups_claim)?;
        let values = values(at(&claims.all, &self.groups_claim));
        let holds = |grant: &&Grant| values.contains(&grant.value.as_str());
        let first = self.grants.iter().find(holds);
        let first = first.ok_or_else(|| GrantError::NoGrant(self.groups_claim.clone()))?;
        let bad = |_| GrantError::BadName(self.name_claim.clone());
        match &first.tenant {
            None => Identity::admin(user).map_err(bad),
            Some(tenant) => {
                let of_it = self.grants.iter().filter(holds).filter(|grant| grant.tenant == first.tenant);
                Identity::user(tenant, user, of_it.map(|grant| grant.role)).map_err(bad)
            }
        }
    }

    /// Whoever can write an address into a profile must not become who has it (OpenID Connect Core, 5.7).
    fn check_mail(claims: &Value, claim: &str) -> Result<(), GrantError> {
        let mail = claim.trim_start_matches('/') == "email";
        if mail && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(GrantError::Unverified);
        }
        Ok(())
    }

    fn name<'a>(&self, claims: &'a Value) -> Result<&'a str, GrantError> {
        let missing = || GrantError::NoName(self.name_claim.clone());
        let name = at(claims, &self.name_claim).and_then(Value::as_str).ok_or_else(missing)?;
        Self::check_mail(claims, &self.name_claim)?;
        name.strip_suffix(&self.name_suffix).ok_or_else(|| GrantError::OtherSuffix {
            claim: self.name_claim.clone(),
            suffix: self.name_suffix.clone(),
        })
    }
}

/// A claim by its name, or by a JSON pointer (RFC 6901) where it begins with a slash.
fn at<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
}

/// The values of a claim: a text, or the texts of a list.
fn values(claim: Option<&Value>) -> Vec<&str> {
    match claim {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
