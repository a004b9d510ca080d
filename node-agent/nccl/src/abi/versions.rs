//! What each version of NCCL's interface gives and takes in another form than the next one.

use std::ffi::{c_char, c_int, c_void};

use super::entry;
use super::types::{
    CommConfig, LogFunction, NetAttributes, OffloadOut, Out, ProfilerFunction, PropertiesV8, PropertiesV9,
    PropertiesV11, PropertiesV12, Text, VirtualDevice4, VirtualDevice8,
};
use crate::error::Code;
use crate::properties::Properties;

/// The name of the device, and of the network.
pub(super) const NAME: Text = Text::new(c"Rail");
const NO_PATH: *const c_char = std::ptr::null();

/// # Safety
/// As for [`entry::init`].
pub(super) unsafe extern "C" fn init_v8(log: Option<LogFunction>) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::init(log, false) }.0
}

/// # Safety
/// As for [`entry::init`].
pub(super) unsafe extern "C" fn init_v10(
    log: Option<LogFunction>,
    _profiler: Option<ProfilerFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::init(log, false) }.0
}

/// # Safety
/// As for [`entry::init`]; `context` is NULL or may be written.
pub(super) unsafe extern "C" fn init_v11(
    context: Out,
    _communicator: u64,
    _config: *mut CommConfig,
    log: Option<LogFunction>,
    _profiler: Option<ProfilerFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    let (code, made) = unsafe { entry::init(log, true) };
    if !context.is_null() {
        // SAFETY: not null, and the caller vouches that it may be written.
        unsafe { context.write(made) };
    }
    code
}

/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn finalize(_context: *mut c_void) -> c_int {
    entry::finalize()
}

/// Hints, which the engine does not need: it measures its rails.
///
/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn set_net_attr(
    _context: *mut c_void,
    _attributes: *mut NetAttributes,
) -> c_int {
    Code::Success as c_int
}

/// # Safety
/// As for [`entry::listen`].
pub(super) unsafe extern "C" fn listen_v8(device: c_int, handle: *mut c_void, listener: Out) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::listen(device, handle, listener) }
}

/// # Safety
/// As for [`entry::listen`].
pub(super) unsafe extern "C" fn listen_v11(
    _context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    listener: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::listen(device, handle, listener) }
}

/// # Safety
/// As for [`entry::connect`].
pub(super) unsafe extern "C" fn connect_v8(
    device: c_int,
    handle: *mut c_void,
    sender: Out,
    _offload: OffloadOut,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::connect(device, handle, sender) }
}

/// # Safety
/// As for [`entry::connect`].
pub(super) unsafe extern "C" fn connect_v10(
    device: c_int,
    _config: *mut CommConfig,
    handle: *mut c_void,
    sender: Out,
    _offload: OffloadOut,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::connect(device, handle, sender) }
}

/// # Safety
/// As for [`entry::connect`].
pub(super) unsafe extern "C" fn connect_v11(
    _context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    sender: Out,
    _offload: OffloadOut,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::connect(device, handle, sender) }
}

/// # Safety
/// As for [`entry::isend`].
pub(super) unsafe extern "C" fn isend_v8(
    sender: *mut c_void,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    registration: *mut c_void,
    request: Out,
) -> c_int {
    // A negative size is one that no memory has.
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    // SAFETY: passed on to the caller.
    unsafe { entry::isend(sender, data, size, tag, registration, request) }
}

/// # Safety
/// As for [`entry::isend`].
pub(super) unsafe extern "C" fn isend_v9(
    sender: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    registration: *mut c_void,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::isend(sender, data, size, tag, registration, request) }
}

/// # Safety
/// As for [`entry::isend`].
pub(super) unsafe extern "C" fn isend_v10(
    sender: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    registration: *mut c_void,
    _profiled: *mut c_void,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::isend(sender, data, size, tag, registration, request) }
}

/// # Safety
/// As for [`entry::irecv`].
pub(super) unsafe extern "C" fn irecv_v8(
    receiver: *mut c_void,
    count: c_int,
    data: Out,
    sizes: *mut c_int,
    tags: *mut c_int,
    registrations: Out,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        entry::irecv(receiver, count, (data, sizes.cast_const(), tags.cast_const(), registrations), request)
    }
}

/// # Safety
/// As for [`entry::irecv`].
pub(super) unsafe extern "C" fn irecv_v9(
    receiver: *mut c_void,
    count: c_int,
    data: Out,
    sizes: *mut usize,
    tags: *mut c_int,
    registrations: Out,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        entry::irecv(receiver, count, (data, sizes.cast_const(), tags.cast_const(), registrations), request)
    }
}

/// # Safety
/// As for [`entry::irecv`].
pub(super) unsafe extern "C" fn irecv_v10(
    receiver: *mut c_void,
    count: c_int,
    data: Out,
    sizes: *mut usize,
    tags: *mut c_int,
    registrations: Out,
    _profiled: Out,
    request: Out,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        entry::irecv(receiver, count, (data, sizes.cast_const(), tags.cast_const(), registrations), request)
    }
}

/// Properties in the layout of one version.
macro_rules! get_properties {
    ($name:ident, $type:ident { $($field:ident: $value:expr),* }) => {
        /// # Safety
        /// `properties` is NULL (an error) or may be written.
        pub(super) unsafe extern "C" fn $name(device: c_int, properties: *mut $type) -> c_int {
            entry::properties(device, |own| {
                let made = $type {
                    name: NAME.as_ptr(),
                    pci_path: NO_PATH,
                    guid: own.guid,
                    pointer_support: entry::POINTER_HOST,
                    registration_is_global: 0,
                    speed: own.speed,
                    port: 1,
                    latency: 0.0,
                    max_comms: own.max_connections,
                    max_receives: own.max_receives,
                    device_kind: 0,
                    device_version: 0,
                    $($field: $value(own)),*
                };
                // SAFETY: passed on to the caller.
                unsafe { entry::put(properties, made) }
            })
        }
    };
}

fn max_bytes(own: &Properties) -> usize {
    usize::try_from(own.max_bytes).unwrap_or(usize::MAX)
}

const ALONE4: fn(&Properties) -> VirtualDevice4 = |_| VirtualDevice4 { count: 1, devices: [0; 4] };
const ALONE8: fn(&Properties) -> VirtualDevice8 = |_| VirtualDevice8 { count: 1, devices: [0; 8] };
const NO_FLUSH: fn(&Properties) -> c_int = |_| 0;
const SINGLE: fn(&Properties) -> c_int = |_| 1;
/// The device stands for all rails of the job.
const NO_RAIL: fn(&Properties) -> i16 = |_| -1;

get_properties!(get_properties_v8, PropertiesV8 {});
get_properties!(
    get_properties_v9,
    PropertiesV9 {
        force_flush: NO_FLUSH,
        virtual_device: ALONE4,
        max_p2p_bytes: max_bytes,
        max_coll_bytes: max_bytes
    }
);
get_properties!(
    get_properties_v11,
    PropertiesV11 {
        force_flush: NO_FLUSH,
        virtual_device: ALONE4,
        max_p2p_bytes: max_bytes,
        max_coll_bytes: max_bytes,
        max_multi_request: SINGLE
    }
);
get_properties!(
    get_properties_v12,
    PropertiesV12 {
        force_flush: NO_FLUSH,
        virtual_device: ALONE8,
        max_p2p_bytes: max_bytes,
        max_coll_bytes: max_bytes,
        max_multi_request: SINGLE,
        rail: NO_RAIL,
        plane: NO_RAIL
    }
);
