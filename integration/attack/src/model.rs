//! An attempt as data: who tries what, how, and what must come of it.

use serde_json::Value;

use crate::{
    caller::From,
    exec::{
        check::Inspection, jobs::JobTrick, lives::Life, names::Name, nodes::Lie, rails::RailTrick,
        recorded::Recorded, wire::Wire,
    },
    roles,
};

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
        self.id.starts_with(roles::PREFIX)
    }
}
