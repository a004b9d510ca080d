//! Memory that NCCL lends to a request: from the call that makes the request until it is found complete, its registration is withdrawn, or its
//! connection is closed.

/// A registration of memory: a number that this process never uses again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegistrationId(pub(crate) u64);

/// Bytes to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent {
    pointer: *const u8,
    len: usize,
    /// What the memory is registered as, where NCCL says so.
    registration: Option<RegistrationId>,
}

/// Room for bytes that come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pointer: *mut u8,
    len: usize,
    registration: Option<RegistrationId>,
}

// SAFETY: whoever made it has lent the memory to the request, on whichever thread that is served.
unsafe impl Send for Lent {}
// SAFETY: as for `Lent`.
unsafe impl Send for Room {}

impl Lent {
    /// # Safety
    /// `pointer` has `len` bytes that nobody writes until the last use of the value, or `len` is 0.
    pub(crate) unsafe fn new(pointer: *const u8, len: usize, registration: Option<RegistrationId>) -> Self {
        Self { pointer, len, registration }
    }

    /// Whether it lies in memory that is registered so.
    pub(crate) fn is_of(&self, registration: RegistrationId) -> bool {
        self.registration == Some(registration)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len == 0 || self.pointer.is_null() {
            return &[];
        }
        // SAFETY: not null, `len` bytes that nobody writes meanwhile, as the maker vouched; `len` was checked by it to be at most
        // `isize::MAX`, and bytes need no alignment.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl Room {
    /// # Safety
    /// `pointer` has `len` bytes that nobody else uses until the last use of the value, or `len` is 0.
    pub(crate) unsafe fn new(pointer: *mut u8, len: usize, registration: Option<RegistrationId>) -> Self {
        Self { pointer, len, registration }
    }

    /// Whether it lies in memory that is registered so.
    pub(crate) fn is_of(&self, registration: RegistrationId) -> bool {
        self.registration == Some(registration)
    }

    /// The first `len` bytes of it, or as many as there are.
    pub(crate) fn first(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(self.len);
        if len == 0 || self.pointer.is_null() {
            return &mut [];
        }
        // SAFETY: not null, at least `len` bytes that nobody else uses meanwhile, as the maker vouched; `&mut self` keeps two slices of it
        // from living at once; `len` is at most `isize::MAX`, and bytes need no alignment.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, len) }
    }
}
