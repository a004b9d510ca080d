//! NCCL's log.

use std::ffi::{CString, c_int, c_ulong};

use super::types::LogFunction;

/// Levels and the subsystem, as NCCL numbers them.
const WARN: c_int = 2;
const INFO: c_int = 3;
const INIT_AND_NET: c_ulong = 1 | 16;
const ALL: c_ulong = c_ulong::MAX;

/// The function that NCCL gave for its log, if it gave one.
#[derive(Debug, Clone, Copy)]
pub struct Logger(Option<LogFunction>);

impl Logger {
    /// # Safety
    /// `function` is NULL or NCCL's log function, good for as long as the process lives.
    pub(crate) unsafe fn new(function: Option<LogFunction>) -> Self {
        Self(function)
    }

    /// One line that NCCL always shows.
    pub(crate) fn warn(&self, text: &str) {
        self.write(WARN, ALL, text);
    }

    /// One line of those that NCCL shows when asked for (`NCCL_DEBUG=INFO`).
    pub(crate) fn info(&self, text: &str) {
        self.write(INFO, INIT_AND_NET, text);
    }

    fn write(&self, level: c_int, flags: c_ulong, text: &str) {
        let Some(function) = self.0 else { return };
        let line = text.replace(['\0', '\n', '\r'], " ");
        let text = CString::new(format!("NET/Rail: {line}")).unwrap_or_default();
        // SAFETY: NCCL's own function, as the maker of the logger vouched; the strings end with a NUL and live while it runs, and the format
        // takes exactly the one argument that it is given.
        unsafe { function(level, flags, c"librail_nccl_net".as_ptr(), 0, c"%s".as_ptr(), text.as_ptr()) };
    }
}
