//! The entries that all versions stand on: checked arguments in, one call of the attached rank, values out.

use std::ffi::{c_int, c_void};

use super::log::Logger;
use super::types::{LogFunction, Out};
use crate::core::handle::HANDLE_BYTES;
use crate::core::{ListenId, MAX_RECEIVES, ReceiveId, RequestId, SendId};
use crate::error::{Code, NetError};
use crate::memory::{Lent, RegistrationId, Room};
use crate::process::{self, enter};
use crate::properties::Properties;
use crate::state::{CLOSED, Process};

/// NCCL's names of kinds of memory: the processor's.
pub(super) const POINTER_HOST: c_int = 1;
/// The only device.
const DEVICE: c_int = 0;

/// What a number that NCCL hands back names: it is in the number's highest byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Context = 0x51,
    Listener = 0x52,
    Sender = 0x53,
    Receiver = 0x54,
    Request = 0x55,
    Registration = 0x56,
    Tuner = 0x57,
    Profiler = 0x58,
    Event = 0x59,
    Group = 0x5a,
}

pub(super) fn name(kind: Kind, number: u64) -> *mut c_void {
    let number = (kind as u64) << 56 | number & (u64::MAX >> 8);
    // Never read or written there: it is a number.
    std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

pub(super) fn number(kind: Kind, name: *mut c_void) -> Option<u64> {
    let number = name.addr() as u64;
    (number >> 56 == kind as u64).then_some(number & (u64::MAX >> 8))
}

fn short(kind: Kind, what: &'static str, name: *mut c_void) -> Result<u32, NetError> {
    let found = number(kind, name).and_then(|number| u32::try_from(number).ok());
    found.ok_or_else(|| misuse(format!("{what} is none of this plugin: {:#x}", name.addr())))
}

fn misuse(text: impl Into<String>) -> NetError {
    NetError::new(Code::Internal, text)
}

fn check_device(device: c_int) -> Result<(), NetError> {
    match device {
        DEVICE => Ok(()),
        other => Err(misuse(format!("there is no device {other}: a job has one, number 0"))),
    }
}

/// Stores a value where NCCL wants it.
///
/// # Safety
/// `place` is NULL (an error) or may be written.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), NetError> {
    if place.is_null() {
        return Err(misuse("there is no place for the result"));
    }
    // SAFETY: not null, and the caller vouches that it may be written; it is aligned as C aligns it.
    unsafe { place.write(value) };
    Ok(())
}

/// # Safety
/// `log` is NULL or NCCL's log function.
pub(super) unsafe fn init(log: Option<LogFunction>, finalizes: bool) -> (c_int, *mut c_void) {
    // SAFETY: passed on to the caller.
    let logger = unsafe { Logger::new(log) };
    let mut context = std::ptr::null_mut();
    let code = enter("init", |process| {
        // A failure of this is to be seen, too.
        process.logger = Some(logger);
        context = name(Kind::Context, process::init(process, logger, finalizes)?);
        Ok(())
    });
    (code, context)
}

pub(super) fn finalize() -> c_int {
    enter("finalize", |process| {
        process.finalize();
        Ok(())
    })
}

/// Gives the device's properties to `fill`.
pub(super) fn properties(device: c_int, fill: impl FnOnce(&Properties) -> Result<(), NetError>) -> c_int {
    enter("getProperties", |process| {
        check_device(device)?;
        fill(process.attached()?.properties())
    })
}

/// # Safety
/// `devices` is NULL (an error) or may be written.
pub(super) unsafe extern "C" fn devices(devices: *mut c_int) -> c_int {
    enter("devices", |process| {
        process.attached()?;
        // SAFETY: passed on to the caller.
        unsafe { put(devices, 1) }
    })
}

/// # Safety
/// `handle` is NULL (an error) or has room for a handle, `listener` NULL (an error) or may be written.
pub(super) unsafe fn listen(device: c_int, handle: *mut c_void, listener: Out) -> c_int {
    enter("listen", |process| {
        check_device(device)?;
        if handle.is_null() || listener.is_null() {
            return Err(misuse("there is no place for the handle, or for the listener"));
        }
        let (id, bytes) = process.attached()?.listen()?;
        // SAFETY: not null, as long as a handle as the caller vouches, and bytes need no alignment.
        unsafe { handle.cast::<[u8; HANDLE_BYTES]>().write(bytes) };
        // SAFETY: passed on to the caller.
        unsafe { put(listener, name(Kind::Listener, id.0.into())) }
    })
}

/// # Safety
/// `handle` is NULL (an error) or a handle that nobody else uses meanwhile, `sender` NULL (an error) or may be written.
pub(super) unsafe fn connect(device: c_int, handle: *mut c_void, sender: Out) -> c_int {
    enter("connect", |process| {
        check_device(device)?;
        // SAFETY: passed on to the caller.
        unsafe { put(sender, std::ptr::null_mut()) }?;
        if handle.is_null() {
            return Err(misuse("there is no handle"));
        }
        let handle = handle.cast::<[u8; HANDLE_BYTES]>();
        // SAFETY: not null, as long as a handle as the caller vouches, and bytes need no alignment.
        let mut bytes = unsafe { handle.read() };
        let connected = process.attached()?.connect(&mut bytes);
        // SAFETY: as above. What was noted in it counts also where this fails.
        unsafe { handle.write(bytes) };
        match connected? {
            // SAFETY: passed on to the caller.
            Some(id) => unsafe { put(sender, name(Kind::Sender, id.0.into())) },
            None => Ok(()),
        }
    })
}

/// # Safety
/// `receiver` is NULL (an error) or may be written.
pub(super) unsafe extern "C" fn accept(
    listener: *mut c_void,
    receiver: Out,
    _offload: super::types::OffloadOut,
) -> c_int {
    enter("accept", |process| {
        // SAFETY: passed on to the caller.
        unsafe { put(receiver, std::ptr::null_mut()) }?;
        let id = ListenId(short(Kind::Listener, "the listener", listener)?);
        match process.attached()?.accept(id)? {
            // SAFETY: passed on to the caller.
            Some(id) => unsafe { put(receiver, name(Kind::Receiver, id.0.into())) },
            None => Ok(()),
        }
    })
}

/// Host memory is copied into memory that the engine shares, so a registration is a number alone. By it deregistering finds who still wants
/// the memory, also where several communicators have registered the same.
///
/// # Safety
/// `registration` is NULL (an error) or may be written.
pub(super) unsafe extern "C" fn reg_mr(
    _comm: *mut c_void,
    _data: *mut c_void,
    _size: usize,
    kind: c_int,
    registration: Out,
) -> c_int {
    enter("regMr", |process| {
        if kind != POINTER_HOST {
            return Err(no_gpu(kind));
        }
        process.registrations += 1;
        // SAFETY: passed on to the caller.
        unsafe { put(registration, name(Kind::Registration, process.registrations)) }
    })
}

fn no_gpu(kind: c_int) -> NetError {
    misuse(format!(
        "memory of kind {kind} cannot be registered: ptrSupport says host memory alone, since no rail receives into a GPU"
    ))
}

/// # Safety
/// `registration` is NULL or may be written.
pub(super) unsafe extern "C" fn reg_mr_dma_buf(
    _comm: *mut c_void,
    _data: *mut c_void,
    _size: usize,
    kind: c_int,
    _offset: u64,
    _file: c_int,
    _registration: Out,
) -> c_int {
    enter("regMrDmaBuf", |_| Err(no_gpu(kind)))
}

/// NCCL frees the memory after this, also with requests under way: where it ends a communicator early, before it closes the connections. That
/// succeeds whatever has become of the job. NCCL also gives back what it could not register.
///
/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn dereg_mr(_comm: *mut c_void, registration: *mut c_void) -> c_int {
    enter("deregMr", |process| {
        if let (Some(id), Some(attached)) = (registered(registration), &mut process.attached) {
            attached.withdraw(id);
        }
        Ok(())
    })
}

/// What memory is registered as; `None` where NCCL does not say.
fn registered(registration: *mut c_void) -> Option<RegistrationId> {
    number(Kind::Registration, registration).map(RegistrationId)
}

/// # Safety
/// `data` has `size` bytes that stay as they are until the request is found complete, `registration` is deregistered or the connection is
/// closed, or `size` is 0; `request` is NULL (an error) or may be written.
pub(super) unsafe fn isend(
    sender: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    registration: *mut c_void,
    request: Out,
) -> c_int {
    enter("isend", |process| {
        // SAFETY: passed on to the caller.
        unsafe { put(request, std::ptr::null_mut()) }?;
        let id = SendId(short(Kind::Sender, "the connection", sender)?);
        check_memory(data, size)?;
        // SAFETY: passed on to the caller; `size` was checked.
        let lent = unsafe { Lent::new(data.cast(), size, registered(registration)) };
        match process.attached()?.send(id, tag, (lent, size as u64))? {
            // SAFETY: passed on to the caller.
            Some(id) => unsafe { put(request, name(Kind::Request, id.0)) },
            None => Ok(()),
        }
    })
}

fn check_memory(data: *mut c_void, size: usize) -> Result<(), NetError> {
    match size {
        0 => Ok(()),
        _ if data.is_null() => Err(misuse(format!("there is no memory for {size} bytes"))),
        size if isize::try_from(size).is_err() => Err(misuse(format!("no memory has {size} bytes"))),
        _ => Ok(()),
    }
}

/// Reads `count` values that NCCL has laid down.
///
/// # Safety
/// `values` is NULL (an error) or has `count` values.
unsafe fn values<'a, T>(values: *const T, count: usize) -> Result<&'a [T], NetError> {
    if values.is_null() {
        return Err(misuse("an array of the receive is missing"));
    }
    // SAFETY: not null, with `count` values as the caller vouches; `count` is at most `MAX_RECEIVES`.
    Ok(unsafe { std::slice::from_raw_parts(values, count) })
}

/// # Safety
/// `data`, `sizes` and `tags` are NULL (an error) or have `count` values, and `registrations` is NULL or has; each of `data` has as many bytes as
/// the one of `sizes` says, for this request's use alone until it is found complete, the one of `registrations` is deregistered or the connection
/// is closed; `request` is NULL (an error) or may be written.
pub(super) unsafe fn irecv<S: Copy + TryInto<usize>>(
    receiver: *mut c_void,
    count: c_int,
    (data, sizes, tags, registrations): (Out, *const S, *const c_int, Out),
    request: Out,
) -> c_int {
    enter("irecv", |process| {
        // SAFETY: passed on to the caller.
        unsafe { put(request, std::ptr::null_mut()) }?;
        let id = ReceiveId(short(Kind::Receiver, "the connection", receiver)?);
        let most = 1..=MAX_RECEIVES;
        let count = usize::try_from(count).ok().filter(|count| most.contains(count));
        let count = count.ok_or_else(|| misuse(format!("a receive has 1 to {MAX_RECEIVES} messages")))?;
        // SAFETY: passed on to the caller.
        let (data, sizes, tags) =
            unsafe { (values(data, count)?, values(sizes, count)?, values(tags, count)?) };
        let registrations: &[*mut c_void] = match registrations.is_null() {
            true => &[],
            // SAFETY: passed on to the caller.
            false => unsafe { values(registrations, count)? },
        };
        let mut messages = Vec::with_capacity(count);
        let mut rooms = Vec::with_capacity(count);
        for (at, ((data, size), tag)) in data.iter().zip(sizes).zip(tags).enumerate() {
            let size: usize = (*size).try_into().map_err(|_| misuse("a size is negative"))?;
            check_memory(*data, size)?;
            messages.push((size as u64, *tag));
            let registration = registrations.get(at).copied().and_then(registered);
            // SAFETY: passed on to the caller; `size` was checked.
            rooms.push(unsafe { Room::new(data.cast(), size, registration) });
        }
        match process.attached()?.receive(id, &messages, rooms)? {
            // SAFETY: passed on to the caller.
            Some(id) => unsafe { put(request, name(Kind::Request, id.0)) },
            None => Ok(()),
        }
    })
}

/// What was received is in host memory, where the GPU finds it: there is nothing to be flushed, which no request says.
///
/// # Safety
/// `request` is NULL (an error) or may be written.
pub(super) unsafe extern "C" fn iflush(
    _receiver: *mut c_void,
    _count: c_int,
    _data: Out,
    _sizes: *mut c_int,
    _registrations: Out,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    enter("iflush", |_| unsafe { put(request, std::ptr::null_mut()) })
}

/// # Safety
/// `done` is NULL (an error) or may be written; `sizes` is NULL or has room for as many numbers as the request has messages.
pub(super) unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> c_int {
    enter("test", |process| {
        // SAFETY: passed on to the caller.
        unsafe { put(done, 0) }?;
        let id = number(Kind::Request, request);
        let id = RequestId(id.ok_or_else(|| misuse(format!("{:#x} is no request", request.addr())))?);
        let Some(found) = process.attached()?.test(id)? else { return Ok(()) };
        for (at, size) in found.iter().enumerate().filter(|_| !sizes.is_null()) {
            let size = c_int::try_from(*size).unwrap_or(c_int::MAX);
            // SAFETY: not null, and the caller vouches for a number for each message.
            unsafe { sizes.add(at).write(size) };
        }
        // SAFETY: passed on to the caller.
        unsafe { put(done, 1) }
    })
}

fn close(what: &str, close: impl FnOnce(&mut Process) -> Result<(), NetError>) -> c_int {
    let code = enter(what, close);
    CLOSED.notify_all();
    code
}

/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn close_send(sender: *mut c_void) -> c_int {
    close("closeSend", |process| {
        let id = SendId(short(Kind::Sender, "the connection", sender)?);
        process.attached()?.close_send(id)
    })
}

/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn close_recv(receiver: *mut c_void) -> c_int {
    close("closeRecv", |process| {
        let id = ReceiveId(short(Kind::Receiver, "the connection", receiver)?);
        process.attached()?.close_receive(id)
    })
}

/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn close_listen(listener: *mut c_void) -> c_int {
    close("closeListen", |process| {
        let id = ListenId(short(Kind::Listener, "the listener", listener)?);
        process.attached()?.close_listen(id)
    })
}
