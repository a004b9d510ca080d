//! What travels between handles and the loop, and what both share.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use controller_core::{DenialRecord, Event, Reply, State, denials::ANONYMOUS_WAITING};
use controller_store::StoreError;
use proto_audit::Actor;
use proto_model::Timestamp;
use tokio::sync::{Semaphore, oneshot};

use crate::error::Refusal;

/// What was done, after it became durable.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The core's answer; for a job, as it is at `version`.
    pub reply: Reply,
    /// The store's revision of the resource's last change; 0 where there is no resource.
    pub version: u64,
}

/// Who waits for an answer: one, or all whose denials one record stands for.
pub(crate) struct Answer(Vec<oneshot::Sender<Result<Applied, Refusal>>>);

impl Answer {
    pub fn all(answers: Vec<Self>) -> Self {
        Self(answers.into_iter().flat_map(|answer| answer.0).collect())
    }

    /// Who has gone away meanwhile gets none.
    pub fn send(self, result: &Result<Applied, Refusal>) {
        for sender in self.0 {
            let _ = sender.send(result.clone());
        }
    }
}

impl From<oneshot::Sender<Result<Applied, Refusal>>> for Answer {
    fn from(sender: oneshot::Sender<Result<Applied, Refusal>>) -> Self {
        Self(vec![sender])
    }
}

/// Places for anonymous callers that wait for the record of their denial.
pub(crate) fn anonymous_places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(ANONYMOUS_WAITING))
}

/// A denial on its way into the audit log.
pub(crate) type Refused = (Arc<Actor>, DenialRecord, Answer);

pub(crate) type Question = Box<dyn FnOnce(&State, Timestamp) + Send>;

/// What travels to the loop.
pub(crate) enum Request {
    /// Something happened; a client waits for the answer, or nobody does.
    Event(Box<Event>, Option<Answer>),
    /// A read of the committed state.
    Query(Question),
    /// Something speaks against it that this controller leads: it shall look.
    CheckLeader,
}

/// What loop and handles share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub epoch: AtomicU64,
    pub revision: AtomicU64,
    pub unwritable: AtomicBool,
    pub cause: Mutex<Option<String>>,
}

impl Shared {
    pub fn set_cause(&self, cause: Option<String>) {
        self.unwritable.store(cause.is_some(), Ordering::Relaxed);
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }
}

/// What a failed transaction means to the caller.
pub(crate) fn refusal(error: &StoreError) -> Refusal {
    let cause = error.to_string();
    match error {
        StoreError::Unknown { .. } => Refusal::Unknown { cause },
        StoreError::Closed => Refusal::Stopped { cause: "the store is closed" },
        StoreError::TooManyOps { .. }
        | StoreError::TxnTooLarge { .. }
        | StoreError::ValueTooLarge { .. }
        | StoreError::KeyLength { .. }
        | StoreError::TooManyDeletes { .. } => Refusal::TooLarge { cause },
        _ => Refusal::Unwritable { cause },
    }
}

pub(crate) fn answer_with(answer: Option<Answer>, refused: &Refusal) {
    if let Some(answer) = answer {
        answer.send(&Err(refused.clone()));
    }
}
