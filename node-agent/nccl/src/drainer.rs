//! The thread that ends what NCCL has closed: a closed receiver still takes what its sender had sent, and the last words of a connection still
//! go out, though NCCL may never call again. It sleeps while there is nothing of that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Duration;

use crate::error::{Code, NetError};
use crate::state::{CLOSED, Process, lock};

/// Pauses between looks: the first, doubled up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// Starts the thread, once for the process.
pub(crate) fn start(process: &mut Process) -> Result<(), NetError> {
    if process.drainer {
        return Ok(());
    }
    let spawned = std::thread::Builder::new().name("rail-nccl".into()).spawn(run);
    let refused = |error| NetError::new(Code::System, format!("cannot start a thread: {error}"));
    // It lives as long as the process, and the library is never unloaded.
    drop(spawned.map_err(refused)?);
    process.drainer = true;
    Ok(())
}

fn run() {
    // A panic is a bug; what it hits is reported by the entries that find the state afterwards.
    while catch_unwind(AssertUnwindSafe(rounds)).is_err() {}
}

fn rounds() {
    let mut pause = PAUSES.0;
    let mut process = lock();
    loop {
        let draining = process.attached.as_ref().is_some_and(crate::attached::Attached::is_draining);
        if !draining {
            process.leave_if_done();
            pause = PAUSES.0;
            process = CLOSED.wait(process).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        if let Some(attached) = &mut process.attached {
            // A failure of the job is reported by whatever NCCL asks next.
            let _ = attached.progress();
        }
        process = CLOSED.wait_timeout(process, pause).unwrap_or_else(PoisonError::into_inner).0;
        pause = (pause * 2).min(PAUSES.1);
    }
}
