//! Who a peer is: the identity in its certificate, as a SPIFFE-style URI.
//!
//! ```text
//! spiffe://rail/<cluster>/controller
//! spiffe://rail/<cluster>/node/<name>
//! spiffe://rail/<cluster>/switch/<name>
//! spiffe://rail/<cluster>/tenant/<tenant>/uid/<uid>/user/<user>/roles/<role>[.<role>...]
//! spiffe://rail/<cluster>/admin/<user>
//! ```
//! Roles are a path segment because SPIFFE forbids queries; no role's name holds a dot. The uid is the tenant's: a later
//! tenant of the same name has another one, so that no credential outlives the tenant that it was issued for. A user's
//! URI without it is read (older releases wrote it), and whoever lets callers in refuses it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The trust domain with its scheme; every URI of ours begins with it.
const TRUST_DOMAIN: &str = "spiffe://rail/";
/// Longest name of a cluster, node, tenant or user, in bytes.
const MAX_NAME: usize = 128;

/// What a caller may be allowed to do; the API's table maps RPCs to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs the cluster: fabric, nodes, tenants.
    Admin,
    /// Runs one tenant: its users' jobs, its tokens.
    TenantAdmin,
    /// Submits and cancels jobs of its tenant.
    User,
    /// Reads what its tenant has.
    Viewer,
    /// A node agent: its own desired state and its own reports.
    Node,
    /// A switch's agent: its own desired state and its own reports.
    Switch,
}

impl Role {
    /// All roles, for tables and tests.
    pub const ALL: [Role; 6] =
        [Role::Admin, Role::TenantAdmin, Role::User, Role::Viewer, Role::Node, Role::Switch];

    /// The name in certificates, tokens, tables and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::TenantAdmin => "tenant-admin",
            Role::User => "user",
            Role::Viewer => "viewer",
            Role::Node => "node",
            Role::Switch => "switch",
        }
    }

    /// Whether a tenant's user can have it; `admin`, `node` and `switch` are identities of their own.
    #[must_use]
    pub fn is_tenant_role(self) -> bool {
        matches!(self, Role::TenantAdmin | Role::User | Role::Viewer)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| IdentityError::UnknownRole { role: shorten(text) })
    }
}

/// Who is at the other end of a connection, or behind a bearer token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// Nobody proved anything: no certificate and no token.
    Anonymous,
    /// A controller of this cluster.
    Controller,
    /// The agent of one server.
    Node {
        /// The node's name, as the controller knows it.
        name: String,
    },
    /// The agent of one switch.
    Switch {
        /// The switch's name, as the fabric document has it.
        name: String,
    },
    /// A person or program that acts inside one tenant.
    User {
        /// The tenant that everything the caller does belongs to.
        tenant: String,
        /// The tenant's uid; none in what an older release issued, which is good for nothing.
        uid: Option<String>,
        /// The user's name inside the tenant.
        user: String,
        /// At least one of tenant-admin, user, viewer.
        roles: BTreeSet<Role>,
    },
    /// A person or program that runs the cluster.
    Admin {
        /// The administrator's name, unique in the cluster.
        user: String,
    },
}

/// Why a text is no identity of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The URI is not in our trust domain.
    #[error("`{uri}` is not an identity of Railyard: it must begin with {TRUST_DOMAIN}")]
    ForeignDomain {
        /// What was found, shortened.
        uri: String,
    },
    /// The identity belongs to another cluster.
    #[error("identity is of cluster `{found}`, this is cluster `{expected}`")]
    ForeignCluster {
        /// The cluster whose certificates are accepted here.
        expected: String,
        /// The cluster in the URI.
        found: String,
    },
    /// In our trust domain, but of no kind that is known here.
    #[error("`{uri}` names no kind of identity that is known here")]
    UnknownKind {
        /// What was found, shortened.
        uri: String,
    },
    /// A name is empty, too long, or has a character that is not allowed.
    #[error("`{name}` is not a name: 1 to {MAX_NAME} of a-z A-Z 0-9 . _ -, beginning with a letter or digit")]
    BadName {
        /// What was found, shortened.
        name: String,
    },
    /// There is no such role.
    #[error("`{role}` is not a role")]
    UnknownRole {
        /// What was found, shortened.
        role: String,
    },
    /// The role exists but a tenant's user cannot have it.
    #[error("role `{role}` cannot be given to a user of a tenant")]
    ForbiddenRole {
        /// The role that was given.
        role: Role,
    },
    /// A user without any role.
    #[error("user `{user}` has no role")]
    NoRole {
        /// The name of the user without a role.
        user: String,
    },
    /// Anonymous is the lack of an identity; no certificate can say it.
    #[error("an anonymous identity cannot be written into a certificate")]
    Anonymous,
}

impl Identity {
    /// Makes a node identity with a checked name.
    ///
    /// # Errors
    /// [`IdentityError`] if the name is empty, too long, or has a character that a URI's segment must not have.
    pub fn node(name: &str) -> Result<Self, IdentityError> {
        Ok(Identity::Node { name: checked(name)? })
    }

    /// Makes a switch's identity with a checked name.
    ///
    /// # Errors
    /// [`IdentityError`] if the name is empty, too long, or has a character that a URI's segment must not have.
    pub fn switch(name: &str) -> Result<Self, IdentityError> {
        Ok(Identity::Switch { name: checked(name)? })
    }

    /// Makes an administrator identity with a checked name.
    ///
    /// # Errors
    /// [`IdentityError`] if the name is empty, too long, or has a character that a URI's segment must not have.
    pub fn admin(user: &str) -> Result<Self, IdentityError> {
        Ok(Identity::Admin { user: checked(user)? })
    }

    /// Makes a tenant user with checked names and roles, which is not bound to a tenant's uid yet: see [`Self::of_tenant`].
    ///
    /// # Errors
    /// [`IdentityError`] if a name is not valid, if there is no role, or if a role is none that a tenant's user can have.
    pub fn user(
        tenant: &str,
        user: &str,
        roles: impl IntoIterator<Item = Role>,
    ) -> Result<Self, IdentityError> {
        let roles: BTreeSet<Role> = roles.into_iter().collect();
        if let Some(role) = roles.iter().find(|role| !role.is_tenant_role()) {
            return Err(IdentityError::ForbiddenRole { role: *role });
        }
        if roles.is_empty() {
            return Err(IdentityError::NoRole { user: shorten(user) });
        }
        Ok(Identity::User { tenant: checked(tenant)?, uid: None, user: checked(user)?, roles })
    }

    /// Binds a user to the tenant with this uid; other identities stay as they are.
    ///
    /// # Errors
    /// [`IdentityError`] if the uid is not valid as a segment of the URI.
    pub fn of_tenant(self, tenant_uid: &str) -> Result<Self, IdentityError> {
        match self {
            Identity::User { tenant, user, roles, .. } => {
                Ok(Identity::User { tenant, uid: Some(checked(tenant_uid)?), user, roles })
            }
            other => Ok(other),
        }
    }

    /// The URI that goes into a certificate of `cluster`.
    ///
    /// # Errors
    /// [`IdentityError`] for an anonymous caller, and for a name or a role that cannot be written.
    pub fn to_uri(&self, cluster: &str) -> Result<String, IdentityError> {
        let base = cluster_uri(cluster)?;
        match self {
            Identity::Anonymous => Err(IdentityError::Anonymous),
            Identity::Controller => Ok(format!("{base}/controller")),
            Identity::Node { name } => Ok(format!("{base}/node/{}", checked(name)?)),
            Identity::Switch { name } => Ok(format!("{base}/switch/{}", checked(name)?)),
            Identity::Admin { user } => Ok(format!("{base}/admin/{}", checked(user)?)),
            Identity::User { tenant, uid, user, roles } => {
                // Checks names and roles.
                Identity::user(tenant, user, roles.iter().copied())?;
                let uid = match uid {
                    Some(uid) => format!("/uid/{}", checked(uid)?),
                    None => String::new(),
                };
                let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
                Ok(format!("{base}/tenant/{tenant}{uid}/user/{user}/roles/{}", roles.join(".")))
            }
        }
    }

    /// Reads the URI of a certificate; anything that is not exactly of the forms above is refused.
    ///
    /// # Errors
    /// [`IdentityError`] if the URI is of another cluster or of none of the forms, or if a name or a role in it is not valid.
    pub fn from_uri(uri: &str, cluster: &str) -> Result<Self, IdentityError> {
        let (found, path) = split_uri(uri)?;
        if found != cluster {
            return Err(IdentityError::ForeignCluster {
                expected: cluster.to_owned(),
                found: shorten(found),
            });
        }
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["controller"] => Ok(Identity::Controller),
            ["node", name] => Identity::node(name),
            ["switch", name] => Identity::switch(name),
            ["admin", user] => Identity::admin(user),
            ["tenant", tenant, "uid", uid, "user", user, "roles", roles] => {
                Identity::user(tenant, user, read_roles(roles)?)?.of_tenant(uid)
            }
            ["tenant", tenant, "user", user, "roles", roles] => {
                Identity::user(tenant, user, read_roles(roles)?)
            }
            _ => Err(IdentityError::UnknownKind { uri: shorten(uri) }),
        }
    }

    /// The tenant that the caller acts in; none for all but users.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Identity::User { tenant, .. } => Some(tenant),
            _ => None,
        }
    }

    /// The uid of that tenant, where the credential names it.
    #[must_use]
    pub fn tenant_uid(&self) -> Option<&str> {
        match self {
            Identity::User { uid, .. } => uid.as_deref(),
            _ => None,
        }
    }

    /// The roles of this identity. A controller and an anonymous peer have none.
    #[must_use]
    pub fn roles(&self) -> BTreeSet<Role> {
        match self {
            Identity::Anonymous | Identity::Controller => BTreeSet::new(),
            Identity::Node { .. } => BTreeSet::from([Role::Node]),
            Identity::Switch { .. } => BTreeSet::from([Role::Switch]),
            Identity::Admin { .. } => BTreeSet::from([Role::Admin]),
            Identity::User { roles, .. } => roles.clone(),
        }
    }
}

/// Short form for logs and audit: `tenant/t/user/u`, without cluster and roles.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Anonymous => f.write_str("anonymous"),
            Identity::Controller => f.write_str("controller"),
            Identity::Node { name } => write!(f, "node/{name}"),
            Identity::Switch { name } => write!(f, "switch/{name}"),
            Identity::User { tenant, user, .. } => write!(f, "tenant/{tenant}/user/{user}"),
            Identity::Admin { user } => write!(f, "admin/{user}"),
        }
    }
}

/// The URI of a cluster as such: what its CA certificate carries.
///
/// # Errors
/// [`IdentityError`] if the cluster's name is not valid as a segment of the URI.
pub fn cluster_uri(cluster: &str) -> Result<String, IdentityError> {
    Ok(format!("{TRUST_DOMAIN}{}", checked(cluster)?))
}

/// The cluster named by a CA's URI.
///
/// # Errors
/// [`IdentityError`] if the URI is of another trust domain, or the name in it is not valid.
pub fn cluster_of(uri: &str) -> Result<String, IdentityError> {
    let cluster =
        uri.strip_prefix(TRUST_DOMAIN).ok_or_else(|| IdentityError::ForeignDomain { uri: shorten(uri) })?;
    checked(cluster)
}

fn split_uri(uri: &str) -> Result<(&str, &str), IdentityError> {
    let rest =
        uri.strip_prefix(TRUST_DOMAIN).ok_or_else(|| IdentityError::ForeignDomain { uri: shorten(uri) })?;
    rest.split_once('/').ok_or_else(|| IdentityError::UnknownKind { uri: shorten(uri) })
}

fn read_roles(text: &str) -> Result<Vec<Role>, IdentityError> {
    text.split('.').map(Role::from_str).collect()
}

fn checked(name: &str) -> Result<String, IdentityError> {
    let good = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if good { Ok(name.to_owned()) } else { Err(IdentityError::BadName { name: shorten(name) }) }
}

/// Foreign text in an error: bounded and printable, so that a hostile name cannot flood or forge a log.
fn shorten(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identity_survives_its_uri() {
        let all = [
            Identity::Controller,
            Identity::node("n-0.rack_1").unwrap(),
            Identity::admin("root").unwrap(),
            Identity::user("research", "ann", [Role::User]).unwrap(),
            Identity::user("research", "bob", [Role::Viewer, Role::TenantAdmin, Role::User]).unwrap(),
            Identity::user("research", "ann", [Role::User]).unwrap().of_tenant("0190-ab").unwrap(),
        ];
        for identity in all {
            let uri = identity.to_uri("dev").unwrap();
            assert_eq!(Identity::from_uri(&uri, "dev").unwrap(), identity, "{uri}");
            assert!(matches!(Identity::from_uri(&uri, "prod"), Err(IdentityError::ForeignCluster { .. })));
        }
    }

    #[test]
    fn whatever_is_not_of_the_known_forms_is_refused() {
        let long = format!("spiffe://rail/dev/node/{}", "x".repeat(129));
        for uri in [
            "",
            "https://rail/dev/controller",
            "spiffe://rail/dev",
            "spiffe://rail/dev/",
            "spiffe://rail/dev/controller/",
            "spiffe://rail/dev/Controller",
            "spiffe://rail/dev/node/",
            "spiffe://rail/dev/node/..",
            "spiffe://rail/dev/node/a/b",
            "spiffe://rail/dev/node/a b",
            "spiffe://rail/dev/node/a%2fb",
            "spiffe://rail/dev/node/n\0",
            "spiffe://rail/dev/tenant/t/user/u",
            "spiffe://rail/dev/tenant/t/user/u/roles/",
            "spiffe://rail/dev/tenant/t/user/u/roles/admin",
            "spiffe://rail/dev/tenant/t/user/u/roles/user.node",
            "spiffe://rail/dev/tenant/t/user/u/roles/owner",
            "spiffe://rail/dev/tenant//user/u/roles/user",
            "spiffe://rail/dev/tenant/t/uid//user/u/roles/user",
            "spiffe://rail/dev/tenant/t/uid/u/roles/user",
            "spiffe://rail/dev/tenant/t/uid/a b/user/u/roles/user",
            "spiffe://rail/dev/tenant/t/user/u/uid/a/roles/user",
            "spiffe://rail/dev/admin/",
            long.as_str(),
        ] {
            assert!(Identity::from_uri(uri, "dev").is_err(), "{uri:?} was accepted");
        }
    }

    #[test]
    fn names_cannot_smuggle_a_path() {
        let sly = Identity::Node { name: "a/../../controller".to_owned() };
        assert!(sly.to_uri("dev").is_err());
        assert!(Identity::Controller.to_uri("dev/node/x").is_err());
        let with = |uid: Option<&str>, roles| Identity::User {
            tenant: "t".into(),
            uid: uid.map(str::to_owned),
            user: "u".into(),
            roles,
        };
        let none = with(None, BTreeSet::new());
        assert!(matches!(none.to_uri("dev"), Err(IdentityError::NoRole { .. })));
        let too_much = with(None, BTreeSet::from([Role::Admin]));
        assert!(matches!(too_much.to_uri("dev"), Err(IdentityError::ForbiddenRole { .. })));
        let sly = with(Some("x/user/root"), BTreeSet::from([Role::User]));
        assert!(matches!(sly.to_uri("dev"), Err(IdentityError::BadName { .. })));
    }

    #[test]
    fn a_later_tenant_of_the_same_name_has_other_people() {
        let ann = Identity::user("t", "ann", [Role::User]).unwrap();
        let (old, new) = (ann.clone().of_tenant("u1").unwrap(), ann.clone().of_tenant("u2").unwrap());
        assert!(ann != old && old != new && ann.tenant_uid().is_none());
        assert_eq!((old.tenant_uid(), new.tenant_uid()), (Some("u1"), Some("u2")));
        assert!(ann.of_tenant("u/1").is_err());
        assert_eq!(Identity::Controller.of_tenant("u1").unwrap(), Identity::Controller);
    }

    #[test]
    fn cluster_uri_round_trips() {
        assert_eq!(cluster_of(&cluster_uri("dev").unwrap()).unwrap(), "dev");
        assert!(cluster_of("spiffe://rail/dev/controller").is_err());
    }

    #[test]
    fn roles_follow_the_kind() {
        assert!(Identity::Anonymous.roles().is_empty());
        assert_eq!(Identity::node("n").unwrap().roles(), BTreeSet::from([Role::Node]));
        assert_eq!(Identity::admin("a").unwrap().tenant(), None);
        assert_eq!(Identity::user("t", "u", [Role::User]).unwrap().tenant(), Some("t"));
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().unwrap(), role);
        }
    }
}
