//! What this process has of the plugin: one attached rank, however many communicators NCCL has, since a rank attaches once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::abi::Logger;
use crate::attached::Attached;
use crate::error::{Code, NetError};

/// The plugin's state in this process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) attached: Option<Attached>,
    /// Contexts that NCCL has made and not finalized.
    pub(crate) contexts: u64,
    /// NCCL's interface has finalize: without contexts nothing is needed any more.
    pub(crate) finalizes: bool,
    pub(crate) logger: Option<Logger>,
    /// Registrations of memory that NCCL has made.
    pub(crate) registrations: u64,
    /// The thread that ends what was closed.
    pub(crate) drainer: bool,
}

static PROCESS: Mutex<Process> = Mutex::new(Process {
    attached: None,
    contexts: 0,
    finalizes: false,
    logger: None,
    registrations: 0,
    drainer: false,
});
/// Something was closed.
pub(crate) static CLOSED: Condvar = Condvar::new();

/// The state, for this thread alone. Nothing that holds it waits for another rank.
pub(crate) fn lock() -> MutexGuard<'static, Process> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state, if no other thread has it.
pub(crate) fn try_lock() -> Option<MutexGuard<'static, Process>> {
    match PROCESS.try_lock() {
        Ok(process) => Some(process),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

impl Process {
    /// A communicator is gone. With the last one the rank leaves its engine, as soon as nothing is under way.
    pub(crate) fn finalize(&mut self) {
        self.contexts = self.contexts.saturating_sub(1);
        self.leave_if_done();
        CLOSED.notify_all();
    }

    /// Leaves the engine where NCCL needs it no more.
    pub(crate) fn leave_if_done(&mut self) {
        let done = self.finalizes && self.contexts == 0;
        if done && self.attached.as_ref().is_some_and(Attached::is_idle) {
            // Others may hold the attached rank for a moment longer.
            if let Some(mut attached) = self.attached.take() {
                attached.leave();
            }
        }
    }

    /// The attached rank.
    pub(crate) fn attached(&mut self) -> Result<&mut Attached, NetError> {
        let error = || NetError::new(Code::Internal, "the plugin was not initialised, or was finalized");
        self.attached.as_mut().ok_or_else(error)
    }
}
