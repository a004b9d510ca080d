//! Bugs that tests plant into the code that places, to see that the independent checks find them; no other build has them.

use std::cell::Cell;

/// What the code forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// To ask which rails a node has: NICs that are missing, down or held.
    Rails,
    /// That jobs hold NICs.
    HeldRails,
    /// That jobs hold GPUs.
    HeldGpus,
    /// That some nodes take no jobs.
    Closed,
    /// That the leaves of a rail may not all reach one another.
    Islands,
    /// That the CPUs and the memory of a node are limited.
    Host,
    /// That nodes have taints, and jobs terms on labels.
    Filter,
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
