//! Kinds of changes that a page follows, and which keys of the store each is about. Pure.

use bytes::Bytes;
use controller_leader::keys;
use proto_model::TenantName;

use crate::authz::Rpc;

/// What a page may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Jobs themselves.
    Jobs,
    /// Servers themselves.
    Nodes,
    /// That rails are others: the fabric, what is drained, what servers say of their ports.
    Rails,
    /// That a rollout has changed, of NICs or of switches.
    Rollouts,
    /// That a tenant has changed, or what it holds.
    Tenants,
    /// That a queue has changed, or what waits.
    Queues,
    /// That a reservation has changed.
    Reservations,
}

impl Kind {
    /// All of them, in the order of the enumeration.
    pub(crate) const ALL: [Self; 7] = [
        Self::Jobs,
        Self::Nodes,
        Self::Rails,
        Self::Rollouts,
        Self::Tenants,
        Self::Queues,
        Self::Reservations,
    ];

    /// As it is asked for, and as its events are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Nodes => "nodes",
            Self::Rails => "rails",
            Self::Rollouts => "rollouts",
            Self::Tenants => "tenants",
            Self::Queues => "queues",
            Self::Reservations => "reservations",
        }
    }

    /// The call that says the same: whoever may make it may follow this kind.
    pub(crate) fn rpc(self) -> Rpc {
        match self {
            Self::Jobs => Rpc::WatchJobs,
            Self::Nodes => Rpc::WatchNodes,
            Self::Rails => Rpc::ListRails,
            Self::Rollouts => Rpc::GetQos,
            Self::Tenants => Rpc::ListTenants,
            Self::Queues => Rpc::ListQueues,
            Self::Reservations => Rpc::ListReservations,
        }
    }

    /// Where the rows of a kind are that is sent whole, as far as somebody of a tenant may see them; none for a kind of which only that
    /// it has changed is said.
    pub(crate) fn rows(self, only: Option<&TenantName>) -> Option<Bytes> {
        match self {
            Self::Jobs => Some(keys::jobs_of(only)),
            Self::Nodes => Some(keys::NODES.into()),
            Self::Rails | Self::Rollouts | Self::Tenants | Self::Queues | Self::Reservations => None,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// Reads names with commas between them.
    ///
    /// # Errors
    /// A name is none of a kind, with what is wrong as text.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut kinds = Self::default();
        for name in text.split(',').filter(|name| !name.is_empty()) {
            let found = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
                let known = Kind::ALL.map(Kind::name).join(", ");
                let shown: String = name.chars().take(32).collect();
                format!("'{shown}' is no kind; there are {known}")
            })?;
            kinds.0 |= found.bit();
        }
        Ok(kinds)
    }

    pub(crate) fn contains(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in this set and not in the other one.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

/// What a change of one key is for pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Concern {
    /// The kind whose row it is, which is sent whole.
    pub row: Option<Kind>,
    /// Kinds that have changed with it.
    pub signals: &'static [Kind],
    /// Whose it is; none where everybody may know that it has changed.
    pub tenant: Option<TenantName>,
}

/// What a change of a key is for pages; nothing for most keys.
pub(crate) fn concern(key: &[u8]) -> Concern {
    const OF_NODES: &[Kind] = &[Kind::Rails, Kind::Rollouts];
    const RULES: [(&str, Option<Kind>, &[Kind], bool); 10] = [
        (keys::JOBS, Some(Kind::Jobs), &[Kind::Tenants, Kind::Queues], true),
        (keys::NODES, Some(Kind::Nodes), OF_NODES, false),
        (keys::FABRIC, None, &[Kind::Rails], false),
        (keys::DRAINS, None, &[Kind::Rails], false),
        (keys::QOS, None, &[Kind::Rollouts], false),
        (keys::SWITCH_ROLLOUT, None, &[Kind::Rollouts], false),
        (keys::SWITCHES, None, &[Kind::Rollouts], false),
        (keys::TENANTS, None, &[Kind::Tenants], true),
        (keys::QUEUES, None, &[Kind::Queues], true),
        (keys::RESERVATIONS, None, &[Kind::Reservations], false),
    ];
    for (prefix, row, signals, owned) in RULES {
        let Some(rest) = key.strip_prefix(prefix.as_bytes()) else { continue };
        if !owned {
            return Concern { row, signals, tenant: None };
        }
        let first = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
        let tenant = std::str::from_utf8(first).ok().and_then(|name| TenantName::new(name).ok());
        // What cannot be said whose it is is nobody's to see.
        return if tenant.is_some() { Concern { row, signals, tenant } } else { Concern::default() };
    }
    Concern::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_called() {
        let all = Kind::ALL.map(Kind::name).join(",");
        assert_eq!(Kinds::read(&all).unwrap().iter().collect::<Vec<_>>(), Kind::ALL);
        let some = Kinds::read("nodes,jobs,nodes").unwrap();
        assert_eq!(some.iter().collect::<Vec<_>>(), [Kind::Jobs, Kind::Nodes]);
        let rest = some.without(Kinds::read("jobs").unwrap());
        assert_eq!(rest.iter().collect::<Vec<_>>(), [Kind::Nodes]);
        assert!(Kinds::read("").unwrap().is_empty());
        let error = Kinds::read("jobs,secrets").unwrap_err();
        assert!(error.contains("'secrets'") && error.contains("reservations"), "{error}");
    }

    #[test]
    fn what_is_secret_concerns_no_page() {
        for key in [keys::SECRETS, keys::CONFIGS, keys::ATTEMPTS, keys::USER_TOKENS, keys::PAGE_KEY] {
            assert_eq!(concern(format!("{key}nlp/a").as_bytes()), Concern::default(), "{key}");
        }
        assert_eq!(concern(keys::LEADER.as_bytes()), Concern::default());
    }

    #[test]
    fn a_tenant_s_things_are_its_own() {
        let nlp = TenantName::new("nlp").unwrap();
        for (key, row) in [
            (format!("{}nlp/train", keys::JOBS), Some(Kind::Jobs)),
            (format!("{}nlp", keys::TENANTS), None),
            (format!("{}nlp/high", keys::QUEUES), None),
        ] {
            let found = concern(key.as_bytes());
            assert_eq!((found.row, found.tenant.as_ref()), (row, Some(&nlp)), "{key}");
        }
        assert_eq!(concern(format!("{}No Name/x", keys::JOBS).as_bytes()), Concern::default());
        let node = concern(format!("{}n0", keys::NODES).as_bytes());
        assert_eq!((node.row, node.tenant, node.signals.len()), (Some(Kind::Nodes), None, 2));
    }
}
