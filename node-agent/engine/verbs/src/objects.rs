//! Owners of what libibverbs gives: each ends what it owns, and keeps alive what that needs. A context outlives its protection
//! domains, channels and queues; a protection domain its memory regions and queue pairs; a queue pair's memory outlives it.
//!
//! libibverbs may be called from any thread (rdma-core, Documentation/libibverbs.md: it is "fully thread safe").

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use node_agent_ipc::Region;

use crate::ffi;
use crate::library::{Library, checked, last_error};

mod pair;

pub(crate) use pair::{Depths, MOST_PARTS, Part, Qp, Write};

/// Names of failed steps, for errors.
pub(crate) fn step<T>(what: &'static str, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

fn given<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(last_error)
}

/// Has reads of a file say that there is nothing, in place of waiting.
fn nonblocking(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// An open RDMA device (`ibv_open_device`), closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) raw: NonNull<ffi::Context>,
    pub(crate) library: Arc<Library>,
}

// SAFETY: the context belongs to the process, and the library synchronises its calls.
unsafe impl Send for Context {}
// SAFETY: as above; what is read here directly (`ops`, file descriptors) does not change after it was opened.
unsafe impl Sync for Context {}

impl Context {
    /// Takes an open device over; its events will be read without waiting.
    ///
    /// # Safety
    /// `raw` was given by this library's `ibv_open_device`, and nobody else will close it.
    pub(crate) unsafe fn own(raw: NonNull<ffi::Context>, library: Arc<Library>) -> io::Result<Self> {
        let context = Context { raw, library };
        nonblocking(context.events())?;
        Ok(context)
    }

    fn get(&self) -> &ffi::Context {
        // SAFETY: the library made it with at least this layout; it lives until `self` is dropped, and its owner does not write
        // these fields again.
        unsafe { self.raw.as_ref() }
    }

    /// Becomes readable when something happens to the device.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context is.
        unsafe { BorrowedFd::borrow_raw(self.get().async_fd) }
    }

    /// The next thing that happened, if something did: its kind, and the port, where the kind is about a port.
    pub(crate) fn event(&self) -> Option<(c_uint, u8)> {
        let functions = &self.library.functions;
        let mut event = ffi::AsyncEvent { element: 0, event_type: 0 };
        // SAFETY: the context is open and the event is ours to fill.
        if unsafe { (functions.get_async_event)(self.raw.as_ptr(), &mut event) } != 0 {
            return None;
        }
        let (kind, port) = (event.event_type, event.element as u8);
        // SAFETY: the event was just given by the library and is acknowledged once; of objects that were destroyed it gives none.
        unsafe { (functions.ack_async_event)(&mut event) };
        Some((kind, port))
    }

    /// Asks the device for a port's attributes (`ibv_query_port`); ports are counted from 1.
    pub(crate) fn port(&self, port: u8) -> io::Result<ffi::PortAttr> {
        let mut attributes = ffi::PortAttr::default();
        // SAFETY: the context is open; the function writes at most the layout that this type has.
        let code = unsafe { (self.library.functions.query_port)(self.raw.as_ptr(), port, &mut attributes) };
        checked(code).map(|()| attributes)
    }

    /// All GIDs of all ports.
    pub(crate) fn gids(&self) -> io::Result<Vec<ffi::GidEntry>> {
        const MOST: usize = 1024;
        let mut table = vec![ffi::GidEntry::default(); MOST];
        let size = size_of::<ffi::GidEntry>();
        // SAFETY: the context is open; the table has room for `MOST` entries of `size` bytes.
        let count = unsafe {
            (self.library.functions.query_gid_table)(self.raw.as_ptr(), table.as_mut_ptr(), MOST, 0, size)
        };
        // It gives the error's number, negative.
        let count = usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(-count as i32))?;
        table.truncate(count);
        Ok(table)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: everything made of it holds it, so nothing of it is left. What it answers changes nothing any more.
        let _ = unsafe { (self.library.functions.close_device)(self.raw.as_ptr()) };
    }
}

/// A protection domain: what belongs to one job on one device.
#[derive(Debug)]
pub(crate) struct Pd {
    raw: NonNull<ffi::Pd>,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Pd {}
// SAFETY: as for `Context`; nothing of it is read here.
unsafe impl Sync for Pd {}

impl Pd {
    pub(crate) fn new(context: &Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let raw = given(unsafe { (context.library.functions.alloc_pd)(context.raw.as_ptr()) })?;
        Ok(Pd { raw, context: Arc::clone(context) })
    }
}

impl Pd {
    /// Whether the device's driver registers dma-bufs: it is asked for one of a descriptor that is none, and answers whether the question
    /// or the descriptor was wrong.
    pub(crate) fn takes_dma_bufs(&self) -> io::Result<()> {
        let functions = &self.context.library.functions;
        let register = functions.reg_dmabuf_mr.ok_or_else(no_dma_buf)?;
        // SAFETY: the protection domain is there, and nothing else is named.
        let raw = unsafe { register(self.raw.as_ptr(), 0, 0, 0, -1, 0) };
        let error = last_error();
        if let Some(raw) = NonNull::new(raw) {
            // SAFETY: it was just given, and nothing uses it.
            let _ = unsafe { (functions.dereg_mr)(raw.as_ptr()) };
            return Ok(());
        }
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the NIC's driver cannot register dma-bufs: load one that can (mlx5_ib since Linux 5.12), or the peer-memory module",
            )),
            _ => Ok(()),
        }
    }
}

fn no_dma_buf() -> io::Error {
    let text = "libibverbs has no ibv_reg_dmabuf_mr: rdma-core 34 or newer is needed";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: memory regions and queue pairs of it hold it, so none is left.
        let _ = unsafe { (self.context.library.functions.dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// What a memory is registered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The memory is only sent from.
    Send,
    /// For everybody to write who has its key and a queue pair of the same protection domain.
    Written,
    /// For those to write whose queue pair has a window of it.
    Windows,
}

/// Memory that the device may use: of this process, or of a GPU by its dma-buf. It is reached as memory that another process may write at
/// any moment: only copied.
#[derive(Debug)]
pub(crate) struct Mr {
    raw: NonNull<ffi::Mr>,
    pd: Arc<Pd>,
    /// Held until after the registration.
    pub(crate) memory: Arc<Region>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Mr {}
// SAFETY: as for `Context`; its keys do not change.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers all of a memory for what is asked. Nobody may read it from afar, and what is only sent from not even the device may
    /// write. Where the memory is on a GPU, it is that which is registered.
    pub(crate) fn new(pd: &Arc<Pd>, memory: Arc<Region>, access: Access) -> io::Result<Self> {
        let access = match access {
            Access::Send => 0,
            Access::Written => ffi::ACCESS_LOCAL_WRITE | ffi::ACCESS_REMOTE_WRITE,
            Access::Windows => ffi::ACCESS_LOCAL_WRITE | ffi::ACCESS_MW_BIND,
        };
        let functions = &pd.context.library.functions;
        if let Some(device) = memory.device() {
            let register = functions.reg_dmabuf_mr.ok_or_else(no_dma_buf)?;
            // Work requests name its bytes by their offset in the file: the kernel asks for addresses that are as far into their page as
            // the offset is (uverbs_std_types_mr.c).
            let (offset, file) = (device.offset(), device.file().as_raw_fd());
            // SAFETY: the descriptor is open during the call; the kernel checks the range against the dma-buf, and the registration
            // holds the dma-buf by itself. No address of this process is given.
            let raw =
                unsafe { register(pd.raw.as_ptr(), offset, memory.len(), offset, file, access as c_int) };
            return Ok(Mr { raw: given(raw)?, pd: Arc::clone(pd), memory });
        }
        // SAFETY: the range is the region's whole mapping, which lives until after the registration is undone, because `self` holds
        // it. The device writing into it is like another process doing so, which a region allows for.
        let raw = unsafe {
            (functions.reg_mr)(pd.raw.as_ptr(), memory.as_ptr().cast(), memory.len(), access as c_int)
        };
        Ok(Mr { raw: given(raw)?, pd: Arc::clone(pd), memory })
    }

    /// The local and the remote key.
    pub(crate) fn keys(&self) -> (u32, u32) {
        // SAFETY: the library made it with this layout; it lives until `self` is dropped.
        let raw = unsafe { self.raw.as_ref() };
        (raw.lkey, raw.rkey)
    }

    /// Where the memory begins, as work requests name it.
    pub(crate) fn address(&self) -> u64 {
        self.memory.device().map_or(self.memory.as_ptr() as u64, |device| device.offset())
    }

    /// Whether the processor can read it where work requests say that it is.
    fn is_of_host(&self) -> bool {
        self.memory.device().is_none()
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: queue pairs that may use it hold it, so none is left; the memory is not unmapped before this.
        let code = unsafe { (self.pd.context.library.functions.dereg_mr)(self.raw.as_ptr()) };
        if code != 0 {
            tracing::warn!(code, "a memory region could not be given back");
        }
    }
}

/// A memory window of type 2: once it is bound, the memory behind it can be written with its key by the peer of one queue pair, and by
/// nobody else. (InfiniBand Architecture Specification, 10.6.7.2; on Linux `uverbs_std_types_mr.c` and the drivers.)
#[derive(Debug)]
pub(crate) struct Mw {
    raw: NonNull<ffi::Mw>,
    pd: Arc<Pd>,
    /// The key that it has once it is bound: the one it was made with, with the next tag.
    pub(crate) rkey: u32,
    /// What it is bound to; nothing before.
    bound: Option<Arc<Mr>>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Mw {}
// SAFETY: as for `Context`; nothing of it is read here.
unsafe impl Sync for Mw {}

impl Mw {
    /// Makes one that is not bound.
    ///
    /// # Errors
    /// The device has none, among others.
    pub(crate) fn new(pd: &Arc<Pd>) -> io::Result<Self> {
        let alloc = pd.context.get().ops.alloc_mw;
        let alloc = alloc.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        // SAFETY: the protection domain is there.
        let raw = given(unsafe { alloc(pd.raw.as_ptr(), ffi::MW_TYPE_2) })?;
        // SAFETY: the library has just made it with this layout.
        let key = unsafe { raw.as_ref() }.rkey;
        let rkey = key & !0xff | key.wrapping_add(1) & 0xff;
        Ok(Mw { raw, pd: Arc::clone(pd), rkey, bound: None })
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        let Some(dealloc) = self.pd.context.get().ops.dealloc_mw else { return };
        // SAFETY: it is given back once, before the memory that it is bound to.
        let code = unsafe { dealloc(self.raw.as_ptr()) };
        if code != 0 {
            tracing::warn!(code, "a memory window could not be given back");
        }
    }
}

/// Becomes readable when an armed completion queue gets something.
#[derive(Debug)]
pub(crate) struct CompletionChannel {
    raw: NonNull<ffi::CompChannel>,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for CompletionChannel {}
// SAFETY: as for `Context`; its descriptor does not change.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    pub(crate) fn new(context: &Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let raw = given(unsafe { (context.library.functions.create_comp_channel)(context.raw.as_ptr()) })?;
        let completion_channel = CompletionChannel { raw, context: Arc::clone(context) };
        nonblocking(completion_channel.as_fd())?;
        Ok(completion_channel)
    }

    /// Takes the events that are there; those who armed their queues look into them anyway.
    pub(crate) fn drain(&self) {
        let functions = &self.context.library.functions;
        let (mut queue, mut private) = (null_mut(), null_mut());
        // SAFETY: the channel is open and both places are ours. It does not wait: its file does not.
        while unsafe { (functions.get_cq_event)(self.raw.as_ptr(), &mut queue, &mut private) } == 0 {
            // SAFETY: the library has just named this queue, whose owner holds this channel and waits in its destruction until its
            // events are acknowledged, so it is there.
            unsafe { (functions.ack_cq_events)(queue, 1) };
        }
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the library made it with this layout, and the descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: queues of it hold it, so none is left.
        let _ = unsafe { (self.context.library.functions.destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

/// A completion queue (`ibv_create_cq`), destroyed when it is dropped.
#[derive(Debug)]
pub(crate) struct Cq {
    raw: NonNull<ffi::Cq>,
    completion_channel: Arc<CompletionChannel>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Cq {}
// SAFETY: as for `Context`; nothing of it is read here.
unsafe impl Sync for Cq {}

impl Cq {
    pub(crate) fn new(completion_channel: &Arc<CompletionChannel>, entries: u32) -> io::Result<Self> {
        let context = &completion_channel.context;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: context and channel are open and belong together.
        let raw = unsafe {
            let create = context.library.functions.create_cq;
            create(context.raw.as_ptr(), entries, null_mut(), completion_channel.raw.as_ptr(), 0)
        };
        Ok(Cq { raw: given(raw)?, completion_channel: Arc::clone(completion_channel) })
    }

    /// Takes completions; gives how many. An error means that the queue is broken.
    pub(crate) fn poll(&self, into: &mut [ffi::Wc]) -> io::Result<usize> {
        let poll = self.completion_channel.context.get().ops.poll_cq;
        let poll = poll.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let most = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is there, and `into` has room for `most` completions.
        let count = unsafe { poll(self.raw.as_ptr(), most, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::other("the completion queue is broken"))
    }

    /// Has the next completion make the channel readable; with `only_errors` the next that failed, where the device can tell.
    pub(crate) fn arm(&self, only_errors: bool) -> io::Result<()> {
        let notify = self.completion_channel.context.get().ops.req_notify_cq;
        let notify = notify.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        // SAFETY: the queue is there.
        checked(unsafe { notify(self.raw.as_ptr(), only_errors.into()) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // Its destruction waits for events that nobody has acknowledged.
        self.completion_channel.drain();
        // SAFETY: queue pairs of it hold it, so none is left.
        let _ = unsafe { (self.completion_channel.context.library.functions.destroy_cq)(self.raw.as_ptr()) };
    }
}
