//! Failures as C knows them: a number now, a text on request.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use node_agent_client::{Error, FailureCode};

/// What a function of the C interface returns when it succeeded.
pub(crate) const OK: c_int = 0;
/// A bug in this library; the number lies outside the failure codes.
pub(crate) const PANIC: c_int = -100;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Not complete yet: the one positive status that is not a number asked for.
pub(crate) const PENDING: c_int = 1;

/// The status of a failure: its code, negated.
pub(crate) fn status_of(code: FailureCode) -> c_int {
    -c_int::from(code.number())
}

/// A failure as it is kept for later: its status and its text.
#[derive(Debug, Clone)]
pub(crate) struct StoredError {
    pub(crate) status: c_int,
    pub(crate) text: CString,
}

impl StoredError {
    /// What C gets for an error.
    pub(crate) fn of(error: &Error) -> Self {
        Self { status: status_of(error.code()), text: c_text(&error.to_string()) }
    }

    /// What C gets for a panic.
    pub(crate) fn of_panic(cause: &(dyn Any + Send)) -> Self {
        let text = cause.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self { status: PANIC, text: c_text(&format!("bug in librail: {text}")) }
    }

    /// Makes it this thread's latest failure.
    pub(crate) fn remember(self) -> c_int {
        // During the thread's own end there is nobody left to read it.
        let _ = LAST.try_with(|last| last.replace(self.text));
        self.status
    }
}

/// A NUL would end the text early for C; none of ours has one, but an engine's might.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Runs an entry: a panic becomes a status, a failure is remembered for `rail_last_error`.
pub(crate) fn guard(entry: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(entry)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => StoredError::of(&error).remember(),
        Err(cause) => StoredError::of_panic(&*cause).remember(),
    }
}

/// The text of this thread's latest failed call; "" if none failed. Valid until the thread's next call of this library.
#[unsafe(no_mangle)]
pub extern "C" fn rail_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A short fixed text for a status. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn rail_strerror(status: c_int) -> *const c_char {
    let text: &CStr = match u16::try_from(-i64::from(status)).ok().and_then(FailureCode::from_number) {
        _ if status == PENDING => c"not complete yet",
        _ if status >= OK => c"success",
        _ if status == PANIC => c"bug in librail",
        None => c"unknown status",
        Some(code) => match code {
            FailureCode::InvalidArgument => c"invalid argument",
            FailureCode::Mismatch => c"ranks disagree on the call",
            FailureCode::Denied => c"the engine denied access",
            FailureCode::Exhausted => c"a limit was reached",
            FailureCode::TimedOut => c"timed out",
            FailureCode::RankLost => c"a rank of the job ended",
            FailureCode::PeerLost => c"another node of the job is lost",
            FailureCode::RailLost => c"a rail is lost",
            FailureCode::Stopped => c"the job is being stopped",
            FailureCode::NotReady => c"the engine is not ready",
            FailureCode::Protocol => c"protocol error between rank and engine",
            FailureCode::Internal => c"internal error of the engine",
            FailureCode::EngineLost => c"the engine is gone",
        },
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the pointer is valid until the next call of this thread, which is not in here.
        unsafe { CStr::from_ptr(rail_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(guard(|| panic!("on purpose {}", 7)), PANIC);
        assert_eq!(last(), "bug in librail: on purpose 7");
    }

    #[test]
    fn failures_have_numbers_and_texts() {
        let status = guard(|| Err(Error::Argument("a\0b".into())));
        assert_eq!(status, -1);
        assert_eq!(last(), "invalid argument: a b");
        assert_eq!(guard(|| Ok(3)), 3);
    }

    #[test]
    fn every_status_has_a_text() {
        for status in
            FailureCode::ALL.iter().map(|code| status_of(*code)).chain([0, 5, -77, PANIC, c_int::MIN])
        {
            // SAFETY: the texts are static.
            let text = unsafe { CStr::from_ptr(rail_strerror(status)) }.to_str().unwrap();
            assert_eq!(text == "unknown status", status == -77 || status == c_int::MIN, "{status}");
        }
    }
}
