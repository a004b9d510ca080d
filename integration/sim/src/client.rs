//! Clients: each submits one job, perhaps cancels it, perhaps removes it; with request ids and retries until answered.
//! The last one is the administrator.

mod events;

use std::collections::{BTreeMap, VecDeque};

use controller_core::{CoreError, Event as Core, Naming, Reply, Submit};
use proto_model::{Authority, JobId, JobName, JobSpec, JobUid, RequestId, Role, TenantName};

/// What a client wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// It wants to submit its job.
    Submit(Box<Submit>),
    /// Another job submitted by the same request id; that must be refused.
    Reuse(Box<Submit>),
    /// Its job held, released or changed.
    Change(Box<Core>),
    /// It wants to cancel its job.
    Cancel,
    /// It wants to delete the record of its job.
    Delete,
    /// What the client may not do.
    Denied,
    /// What an administrator asks for.
    Admin(Box<Core>),
}

/// A submit by an administrator; `at` makes its request id and its digest.
fn submit(at: u64, tenant: &TenantName, name: &JobName, spec: JobSpec) -> Submit {
    Submit {
        tenant: tenant.clone(),
        by: Authority { role: Role::Admin, user: "root".to_owned() },
        name: Naming::Name(name.clone()),
        labels: BTreeMap::new(),
        spec: Box::new(spec),
        request: RequestId::new(&format!("request-{at}")),
        digest: [u8::try_from(at % 251).unwrap_or(0); 32],
        trace_parent: String::new(),
        hold: false,
    }
}

impl Want {
    /// What is wanted, in words.
    #[must_use]
    pub fn words(&self, id: &JobId) -> String {
        match self {
            Self::Submit(_) | Self::Reuse(_) => format!("submit of {id}"),
            Self::Change(event) => match **event {
                Core::HoldJob { .. } => format!("hold of {id}"),
                Core::SuspendJob { .. } => format!("suspension of {id}"),
                Core::RequeueJob { .. } => format!("requeue of {id}"),
                Core::ReleaseJob(_) => format!("release of {id}"),
                _ => format!("change of {id}"),
            },
            Self::Cancel => format!("cancel of {id}"),
            Self::Delete => format!("deletion of {id}"),
            Self::Denied => format!("what the client of {id} may not do"),
            Self::Admin(event) => format!("{event:?}"),
        }
    }
}

/// A client with its job and the requests that it still has to make.
#[derive(Debug)]
pub struct Client {
    /// The tenant and name of its job.
    pub id: JobId,
    /// What it wants, in order.
    pub wants: VecDeque<Want>,
    /// The job that was acknowledged.
    pub uid: Option<JobUid>,
    /// The request whose answer it waits for.
    waiting: Option<u64>,
    /// How long it waits between two wants.
    pause: u64,
}

impl Client {
    /// The one that does what administrators do.
    #[must_use]
    pub fn administrator(id: JobId, wants: VecDeque<Want>) -> Self {
        Self { id, wants, uid: None, waiting: None, pause: 1 }
    }
}

/// A request under way.
#[derive(Debug, Clone)]
pub struct Request {
    want: Want,
    event: Core,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The controller could not write; nothing was done.
    Unavailable,
    /// The core's reply to the request.
    Done(Box<Result<Reply, CoreError>>),
}
