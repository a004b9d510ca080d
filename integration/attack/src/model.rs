//! An attempt as data: who tries what, how, and what must come of it.

use serde_json::Value;

use crate::{
    exec::{
        check::Inspection, jobs::JobTrick, lives::Life, names::Name, nodes::Lie, rails::RailTrick,
        recorded::Recorded, wire::Wire,
    },
    table::authz,
};

/// Who makes an attempt: the caller's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum From {
    /// Whoever reaches the port, without certificate or token.
    Anonymous,
    /// A viewer of tenant beta.
    Viewer,
    /// A user of tenant beta.
    User,
    /// An administrator of tenant beta.
    TenantAdmin,
    /// Somebody with credentials of a tenant that has been deleted.
    Deleted,
    /// Whoever holds the certificate of one node.
    Node,
    /// A process of a job of tenant beta, on a server where tenant alpha has one.
    Rank,
    /// Whoever reaches the ports of a job's rails, or sits between two servers.
    OnPath,
    /// An account of the controller's host that is not the controller's.
    Local,
}

impl From {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Anonymous,
        Self::Viewer,
        Self::User,
        Self::TenantAdmin,
        Self::Deleted,
        Self::Node,
        Self::Rank,
        Self::OnPath,
        Self::Local,
    ];

    /// As the command line and the table name them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::TenantAdmin => "tenant-admin",
            Self::Deleted => "deleted-tenant",
            Self::Node => "node",
            Self::Rank => "rank",
            Self::OnPath => "on-path",
            Self::Local => "local-account",
        }
    }
}

/// What an attempt reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A numbered finding of the first attack.
    Number(u8),
    /// One of its findings of low severity.
    Low,
    /// Nothing: it was tried in the first attack, and held.
    Held,
    /// It was not tried then.
    New,
}

impl Finding {
    /// As the table names it.
    pub fn name(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Low => "low".to_owned(),
            Self::Held => "held".to_owned(),
            Self::New => "new".to_owned(),
        }
    }
}

/// What must come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The call is refused with one of these reasons, and the words of the refusal say nothing of tenant alpha.
    Reason(&'static [&'static str]),
    /// The call is refused, whatever the reason, and nothing of tenant alpha is shown.
    Refused,
    /// Answered or refused, nothing of tenant alpha is shown.
    Hidden,
    /// It takes no more than a bounded part of time, memory, connections or records, and others are served.
    Bounded,
    /// Nothing of anybody else changes.
    NoEffect,
    /// It is not there: nothing to read, to reach or to become.
    Absent,
}

impl Expect {
    /// As the table names it.
    pub fn name(self) -> String {
        match self {
            Self::Reason(reasons) => format!("refused: {}", reasons.join(" or ")),
            Self::Refused => "refused".to_owned(),
            Self::Hidden => "nothing of the other tenant told".to_owned(),
            Self::Bounded => "bounded, others are served".to_owned(),
            Self::NoEffect => "no effect on others".to_owned(),
            Self::Absent => "not reachable".to_owned(),
        }
    }
}

/// Where the attempt must be seen afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Nowhere: nothing was refused for want of authority.
    None,
    /// In the audit log, by itself or counted in a record for several; or in the counter of refusals.
    Audited,
}

/// How it is done.
#[derive(Debug, Clone)]
pub enum Step {
    /// One gRPC call with a message in canonical JSON; of a stream what comes at once.
    Call { rpc: &'static str, body: Value },
    /// One gRPC call with these bytes as its frame.
    Frame { rpc: &'static str, bytes: Vec<u8> },
    /// One HTTP/1.1 request, written as it is; `$TOKEN` and such are filled in.
    Rest { head: String, body: Vec<u8> },
    /// Something odd on the controller's port.
    Wire(Wire),
    /// A lie of a node.
    Lie(Lie),
    /// A job with a hostile specification.
    Job(JobTrick),
    /// What a rank tries on its server.
    Probe(String),
    /// Credentials, tenants and nodes that come and go.
    Life(Life),
    /// Something at the ports of a job's rails or at its engine's socket.
    Rails(RailTrick),
    /// Reading along on the rails of a job that asks for encryption.
    Tap,
    /// What is shown of another tenant that is in one's way.
    Name(Name),
    /// A packet of a probe, sent again.
    Recorded(Recorded),
    /// A look at what is stored.
    Inspection(Inspection),
}

/// One attempt: who tries what, and what must come of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Stable, for example `tenants/get-job/viewer`.
    pub id: String,
    /// What is tried, in one sentence for people.
    pub title: String,
    /// The finding of the first attack that it reproduces.
    pub finding: Finding,
    /// Who makes the attempt.
    pub from: From,
    /// What the executor does.
    pub step: Step,
    /// What must come of it.
    pub expect: Expect,
    /// Where it must be seen.
    pub trace: Trace,
}

impl Attempt {
    /// Whether it is a cell of the table of RPCs and callers, which is printed as a table of its own.
    pub fn is_cell(&self) -> bool {
        self.id.starts_with(authz::PREFIX)
    }
}

/// The judgement of an attempt's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt ended as expected: the defence held.
    Held,
    /// Not as expected, and what was seen.
    GaveWay(String),
    /// It could not be tried here, and why.
    NotHere(String),
    /// It should have been tried, and was not: the suite, or what it attacks, does not work.
    NotMade(String),
}

impl Verdict {
    /// As reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::GaveWay(_) => "gave way",
            Self::NotHere(_) => "not possible here",
            Self::NotMade(_) => "not made",
        }
    }

    /// Evidence, or a reason.
    pub fn words(&self) -> &str {
        match self {
            Self::Held => "",
            Self::GaveWay(words) | Self::NotHere(words) | Self::NotMade(words) => words,
        }
    }
}

/// Short for what was seen that must not be.
pub fn gave(words: impl Into<String>) -> Verdict {
    Verdict::GaveWay(words.into())
}

/// Held if the condition is true.
pub fn held_if(condition: bool, words: impl FnOnce() -> String) -> Verdict {
    if condition { Verdict::Held } else { Verdict::GaveWay(words()) }
}
