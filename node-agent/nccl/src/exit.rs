//! A process that ends without NCCL's finalize still leaves its job cleanly: ranks that crash are told apart from ranks that are done.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::state::try_lock;

static AT_EXIT: Once = Once::new();
/// The process that attached: a forked child must not detach its parent.
static ATTACHED_BY: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Has the rank leave when the process ends by `exit` or by returning from `main`.
pub(crate) fn leave_at_exit() {
    ATTACHED_BY.store(std::process::id(), Ordering::Relaxed);
    AT_EXIT.call_once(|| {
        // SAFETY: `leave` is a plain function of this library, which is never unloaded (build.rs), and never unwinds. A refusal only means
        // that nobody leaves.
        let _ = unsafe { atexit(leave) };
    });
}

extern "C" fn leave() {
    let _ = std::panic::catch_unwind(|| {
        if ATTACHED_BY.load(Ordering::Relaxed) != std::process::id() {
            return;
        }
        // Another thread that is in here holds it for a moment; one that never comes out must not keep the process.
        for _ in 0..1000 {
            if let Some(mut process) = try_lock() {
                if let Some(attached) = &mut process.attached {
                    attached.leave();
                }
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}
