//! Bugs that tests plant into the code itself, to see that the independent check finds them; no other build has them.

use std::cell::Cell;

/// What the code forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The limit of a tenant.
    TenantLimit,
    /// The limits of queues.
    QueueLimit,
    /// How many jobs of a tenant may run at a time.
    JobsLimit,
    /// How many elements of an array may run at a time.
    ArrayLimit,
    /// Which licenses jobs ask for.
    Licenses,
    /// What long small jobs may hold together.
    LongJobs,
    /// That what runs counts against limits.
    Running,
    /// That what starts in the same pass counts against limits.
    Started,
    /// Which nodes are kept for others.
    Reserved,
    /// That who fits beside all that is planned could start.
    Chances,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Whether this thread's code has the bug.
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Runs something with a bug in the code of this thread.
pub(crate) fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
    PLANTED.set(bug);
    let done = run();
    PLANTED.set(None);
    done
}
