//! A network namespace of a test's own.

use std::process::Command;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs `test` in a new network namespace, on a thread of its own. Without the right to make one, which a user other than root may
/// lack, says so and runs nothing.
pub fn within(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: only the network namespace of this thread is replaced, no table of descriptors is.
        if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            eprintln!("skipped: no network namespace of one's own here: {error}");
            return;
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// `ip` with these arguments, in the caller's namespace.
pub fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success());
    assert!(done, "ip {arguments}");
}
