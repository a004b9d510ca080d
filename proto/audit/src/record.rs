//! Records, and the bytes that their hashes are of.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;

use crate::seal::Checkpoint;

/// A SHA-256, 32 bytes.
pub type Hash = [u8; 32];
/// What the first record of a chain has for the hash of the one before.
pub const START: Hash = [0; 32];

/// Which log a record belongs to. Each has its own numbers, chain, checkpoints and room: what callers without authority
/// can cause never takes the place of a record of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Log {
    /// Authorised changes of the cluster's state.
    #[default]
    Changes,
    /// Calls that were refused for want of authority.
    Denials,
}

impl Log {
    /// Both, in the order of an export.
    pub const ALL: [Self; 2] = [Self::Changes, Self::Denials];

    /// The other one of the two logs.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Changes => Self::Denials,
            Self::Denials => Self::Changes,
        }
    }

    /// What the hash of a record begins with, so that a record of one log is none of the other.
    fn domain(self) -> &'static [u8] {
        match self {
            Self::Changes => b"railyard audit record 1",
            Self::Denials => b"railyard audit record of denials 1",
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changes => "changes",
            Self::Denials => "denials",
        })
    }
}

/// What a caller is called that has shown no identity. No identity's URI is this word.
pub const ANONYMOUS: &str = "anonymous";

/// Who asked, by which way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actor {
    /// The identity's URI; `anonymous` for who has shown none.
    pub who: String,
    /// The identity's roles, separated by commas.
    pub roles: String,
    /// The tenant that the identity belongs to; empty for others.
    pub tenant: String,
    /// The address at the other end of the connection.
    pub source: String,
    /// Name of the call, as the audit log writes it.
    pub rpc: String,
    /// The caller's id for the request, where it gave one.
    pub request: String,
    /// The trace's id, 32 hex digits; empty without one.
    pub trace: String,
    /// For whom an OpenID provider has vouched: its issuer, a space, and the subject there; empty for other credentials.
    pub oidc_subject: String,
}

impl Actor {
    /// Whether the caller has shown no identity.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.who == ANONYMOUS
    }
}

/// The object that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Kind of the object, for example `job`.
    pub kind: String,
    /// Its name within the tenant.
    pub name: String,
    /// Whose it is; empty where it is the cluster's.
    pub tenant: String,
    /// The store's revision of its last change before this one; 0 where there was none, or it is not known.
    pub version: u64,
}

/// A change that the caller was authorised to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Who made the change.
    pub actor: Arc<Actor>,
    /// The object that was changed.
    pub object: Object,
}

/// A call, or several alike, that was refused for want of authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Whose call was refused.
    pub actor: Arc<Actor>,
    /// The stable word for programs.
    pub reason: String,
    /// The cause, in words; of the first call where there are several.
    pub detail: String,
    /// How many calls of this caller, call and reason the record stands for.
    pub count: u64,
}

/// What a record can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A change that the caller was authorised to make.
    Change(Change),
    /// A call, or several alike, that was refused.
    Denial(Denial),
    /// The chain up to here, signed.
    Checkpoint(Checkpoint),
    /// What is stored of the chain was found broken; it goes on here.
    Resumed {
        /// What is wrong with the chain, in words.
        cause: String,
    },
}

impl Content {
    /// The log that it goes into; a checkpoint and what tells of a break are of whichever log they are about.
    #[must_use]
    pub fn log(&self) -> Option<Log> {
        match self {
            Self::Change(_) => Some(Log::Changes),
            Self::Denial(_) => Some(Log::Denials),
            Self::Checkpoint(_) | Self::Resumed { .. } => None,
        }
    }
}

/// One record of the audit log, with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The log that the record is in.
    pub log: Log,
    /// Counts records of its log from 1.
    pub seq: u64,
    /// Milliseconds since 1970, by the leader's clock.
    pub time_ms: u64,
    /// The hash of the record before.
    pub previous: Hash,
    /// The change, the denial or the checkpoint that is recorded.
    pub content: Content,
    /// The hash of all of the above.
    pub hash: Hash,
}

impl Record {
    /// The record that follows the one with the hash `previous`.
    #[must_use]
    pub fn new(log: Log, seq: u64, time_ms: u64, previous: Hash, content: Content) -> Self {
        let mut record = Self { log, seq, time_ms, previous, content, hash: START };
        record.hash = record.computed();
        record
    }

    /// The hash that the record should have.
    #[must_use]
    pub fn computed(&self) -> Hash {
        let mut digest = Digest::new(self.log.domain());
        digest.bytes(&self.previous);
        digest.number(self.seq);
        digest.number(self.time_ms);
        match &self.content {
            Content::Change(change) => {
                // Records of a caller for whom no provider has vouched are as they were before there were any of others.
                digest.number(if change.actor.oidc_subject.is_empty() { 1 } else { 6 });
                digest.actor(&change.actor);
                let Object { kind, name, tenant, version } = &change.object;
                [kind, name, tenant].iter().for_each(|text| digest.bytes(text.as_bytes()));
                digest.number(*version);
            }
            Content::Denial(denial) => {
                digest.number(if denial.actor.oidc_subject.is_empty() { 2 } else { 7 });
                digest.actor(&denial.actor);
                [&denial.reason, &denial.detail].iter().for_each(|text| digest.bytes(text.as_bytes()));
                digest.number(denial.count);
            }
            Content::Checkpoint(checkpoint) => {
                let Checkpoint { epoch, oldest, anchor, beside, signature } = checkpoint;
                digest.number(if beside.is_some() { 5 } else { 3 });
                digest.number(*epoch);
                digest.number(*oldest);
                digest.bytes(anchor);
                if let Some(head) = beside {
                    digest.number(head.seq);
                    digest.bytes(&head.hash);
                }
                digest.bytes(signature);
            }
            Content::Resumed { cause } => {
                digest.number(4);
                digest.bytes(cause.as_bytes());
            }
        }
        digest.finish()
    }

    /// About as many bytes as it takes when it is stored.
    #[must_use]
    pub fn size(&self) -> usize {
        let actor = |actor: &Actor| {
            let Actor { who, roles, tenant, source, rpc, request, trace, oidc_subject } = actor;
            let texts = [who, roles, tenant, source, rpc, request, trace, oidc_subject];
            texts.iter().map(|text| text.len() + 2).sum::<usize>()
        };
        96 + match &self.content {
            Content::Change(Change { actor: by, object }) => {
                actor(by) + object.kind.len() + object.name.len() + object.tenant.len()
            }
            Content::Denial(denial) => actor(&denial.actor) + denial.reason.len() + denial.detail.len(),
            Content::Checkpoint(checkpoint) => 88 + checkpoint.signature.len(),
            Content::Resumed { cause } => cause.len(),
        }
    }

    /// The tenant that it concerns: that of what was changed, else the caller's; empty where it is none's.
    #[must_use]
    pub fn tenant(&self) -> &str {
        match &self.content {
            Content::Change(change) if !change.object.tenant.is_empty() => &change.object.tenant,
            Content::Change(Change { actor, .. }) | Content::Denial(Denial { actor, .. }) => &actor.tenant,
            Content::Checkpoint(_) | Content::Resumed { .. } => "",
        }
    }

    /// Who asked; nobody for the chain's own records.
    #[must_use]
    pub fn actor(&self) -> Option<&Actor> {
        match &self.content {
            Content::Change(Change { actor, .. }) | Content::Denial(Denial { actor, .. }) => Some(actor),
            Content::Checkpoint(_) | Content::Resumed { .. } => None,
        }
    }
}

/// SHA-256 over parts, each with its length.
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    pub(crate) fn new(domain: &[u8]) -> Self {
        // What is digested is short: gathered first, it goes through the hash at once.
        let mut digest = Self(Vec::with_capacity(512));
        digest.bytes(domain);
        digest
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn actor(&mut self, actor: &Actor) {
        let Actor { who, roles, tenant, source, rpc, request, trace, oidc_subject } = actor;
        [who, roles, tenant, source, rpc, request, trace].iter().for_each(|text| self.bytes(text.as_bytes()));
        if !oidc_subject.is_empty() {
            self.bytes(oidc_subject.as_bytes());
        }
    }

    pub(crate) fn finish(self) -> Hash {
        let mut hash = START;
        hash.copy_from_slice(digest::digest(&digest::SHA256, &self.0).as_ref());
        hash
    }
}
