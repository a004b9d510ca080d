//! A program that ends normally without `rail_finalize` still leaves its job cleanly: ranks that crash are told apart from
//! ranks that are merely done.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use node_agent_client::Client;

/// Attached ranks of this process, with the process that attached them: a forked child must not detach its parent.
static LIVE: Mutex<BTreeMap<usize, (u32, Weak<Client>)>> = Mutex::new(BTreeMap::new());
static AT_EXIT: Once = Once::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Detaches `client` when the process ends by `exit` or by returning from `main`.
pub(crate) fn detach_at_exit(client: &Arc<Client>) {
    AT_EXIT.call_once(|| {
        // SAFETY: `detach_all` is a plain function of this library, lives as long as it is loaded (the C library runs it
        // before unloading), and never unwinds. A refusal only means that nobody detaches.
        let _ = unsafe { atexit(detach_all) };
    });
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|_, (_, client)| client.strong_count() > 0);
    live.insert(Arc::as_ptr(client).addr(), (std::process::id(), Arc::downgrade(client)));
}

extern "C" fn detach_all() {
    let _ = std::panic::catch_unwind(|| {
        let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
        for (pid, client) in live.into_values() {
            if let (true, Some(client)) = (pid == std::process::id(), client.upgrade()) {
                client.leave();
            }
        }
    });
}
