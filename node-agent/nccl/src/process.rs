//! The entries' common way in and out, and how the process begins to be a rank.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::Logger;
use crate::attached::Attached;
use crate::error::{Code, NetError};
use crate::state::{Process, lock, try_lock};
use crate::{drainer, exit};

/// Does an entry: a failure and a panic become a code, and one line in NCCL's log.
pub(crate) fn enter(what: &str, entry: impl FnOnce(&mut Process) -> Result<(), NetError>) -> i32 {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut process = lock();
        let outcome = entry(&mut process);
        (outcome, process.logger)
    }));
    match done {
        Ok((Ok(()), _)) => Code::Success as i32,
        Ok((Err(error), logger)) => report(what, &error, logger),
        Err(cause) => report(what, &of_panic(&*cause), known_logger()),
    }
}

/// Does an entry that needs no state of the process, as [`enter`] does one that does.
pub(crate) fn attempt(
    what: &str,
    logger: Option<Logger>,
    entry: impl FnOnce() -> Result<(), NetError>,
) -> i32 {
    match catch_unwind(AssertUnwindSafe(entry)) {
        Ok(Ok(())) => Code::Success as i32,
        Ok(Err(error)) => report(what, &error, logger.or_else(known_logger)),
        Err(cause) => report(what, &of_panic(&*cause), logger.or_else(known_logger)),
    }
}

/// One line in NCCL's log.
pub(crate) fn inform(text: &str) {
    if let Some(logger) = known_logger() {
        logger.info(text);
    }
}

fn known_logger() -> Option<Logger> {
    try_lock().and_then(|process| process.logger)
}

fn report(what: &str, error: &NetError, logger: Option<Logger>) -> i32 {
    // A logger that panics is not ours, and nobody is left to be told.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(logger) = logger {
            logger.warn(&format!("{what}: {}", error.text));
        }
    }));
    error.code as i32
}

fn of_panic(cause: &(dyn Any + Send)) -> NetError {
    let text = cause.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
    NetError::new(Code::Internal, format!("bug in librail_nccl_net: {text}"))
}

/// NCCL begins to use the plugin, or makes one more communicator; `finalizes` where its interface ends what this begins.
pub(crate) fn init(process: &mut Process, logger: Logger, finalizes: bool) -> Result<u64, NetError> {
    process.logger = Some(logger);
    if process.attached.is_none() {
        let attached = Attached::from_env()?;
        logger.info(&attached.describe());
        logger.info(
            "host memory only: NCCL stages memory of GPUs itself, since no rail receives into a GPU; railId and planeId are not set, since the device stands for all rails",
        );
        process.attached = Some(attached);
        exit::leave_at_exit();
    }
    drainer::start(process)?;
    process.finalizes |= finalizes;
    process.contexts += u64::from(finalizes);
    Ok(process.contexts)
}
