//! Layouts of NCCL's interface for network plugins. A test has a C compiler measure each of them.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// NCCL's log: level, subsystems, file, line, format, arguments.
pub type LogFunction = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);
/// NCCL's profiler; never called.
pub type ProfilerFunction =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> c_int;

/// A text that C reads, for ever.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

// SAFETY: it points to a static text, which nobody writes.
unsafe impl Sync for Text {}
// SAFETY: as above.
unsafe impl Send for Text {}

impl Text {
    pub(super) const fn new(text: &'static std::ffi::CStr) -> Self {
        Self(text.as_ptr())
    }

    /// The text's address.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_char {
        self.0
    }
}

/// Physical devices of a virtual one (v9 to v11).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct VirtualDevice4 {
    /// How many there are.
    pub count: c_int,
    /// Their numbers.
    pub devices: [c_int; 4],
}

/// Physical devices of a virtual one (v12).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct VirtualDevice8 {
    /// How many there are.
    pub count: c_int,
    /// Their numbers.
    pub devices: [c_int; 8],
}

/// Settings of a communicator (v10 on).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CommConfig {
    /// The traffic class that the program asked for; -1 for none.
    pub traffic_class: c_int,
}

/// What a device does in the GPU's own code: nothing here.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DeviceHandle {
    /// Kind of the offload.
    pub kind: c_int,
    /// Its version.
    pub version: c_int,
    /// The offload's own.
    pub handle: *mut c_void,
    /// Bytes of that.
    pub size: usize,
    /// Whether the proxy has to drive it.
    pub needs_progress: c_int,
}

/// How many peers and flows are expected (v11 on).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CommAttributes {
    /// Most peers at a time, and fewest.
    pub peers: [i32; 2],
    /// Most flows for each, and fewest.
    pub flows: [i32; 2],
}

/// What a communicator does next (v11 on).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetAttributes {
    /// Of connections that send.
    pub send: CommAttributes,
    /// Of connections that receive.
    pub receive: CommAttributes,
    /// The operation.
    pub operation: u32,
    /// The algorithm.
    pub algorithm: u32,
    /// The protocol.
    pub protocol: u32,
}

macro_rules! properties {
    ($(#[$doc:meta])* $name:ident { $($early:ident)? } { $($field:ident: $type:ty = $fdoc:literal),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// The device's name, for logs.
            pub name: *const c_char,
            /// Its PCI folder in sysfs; NULL for one that is on no bus.
            pub pci_path: *const c_char,
            /// Tells chips apart.
            pub guid: u64,
            /// Kinds of memory that it takes.
            pub pointer_support: c_int,
            /// A registration is good for all connections.
            pub registration_is_global: c_int,
            $(
                /// Receives are always to be flushed.
                pub $early: c_int,
            )?
            /// Mbit/s.
            pub speed: c_int,
            /// Number of the port.
            pub port: c_int,
            /// Microseconds; 0 where it is not known.
            pub latency: f32,
            /// Most connections.
            pub max_comms: c_int,
            /// Most messages of one receive.
            pub max_receives: c_int,
            /// Kind of the offload; 0 for none.
            pub device_kind: c_int,
            /// Its version.
            pub device_version: c_int,
            $(#[doc = $fdoc] pub $field: $type,)*
        }
    };
}

properties! {
    /// Properties of a device (v8).
    PropertiesV8 {} {}
}
properties! {
    /// Properties of a device (v9 and v10).
    PropertiesV9 { force_flush } {
        virtual_device: VirtualDevice4 = "What it is made of.",
        max_p2p_bytes: usize = "Most bytes of one message between two ranks.",
        max_coll_bytes: usize = "Most bytes of one message of a collective."
    }
}
properties! {
    /// Properties of a device (v11).
    PropertiesV11 { force_flush } {
        virtual_device: VirtualDevice4 = "What it is made of.",
        max_p2p_bytes: usize = "Most bytes of one message between two ranks.",
        max_coll_bytes: usize = "Most bytes of one message of a collective.",
        max_multi_request: c_int = "Most requests in one."
    }
}
properties! {
    /// Properties of a device (v12).
    PropertiesV12 { force_flush } {
        virtual_device: VirtualDevice8 = "What it is made of.",
        max_p2p_bytes: usize = "Most bytes of one message between two ranks.",
        max_coll_bytes: usize = "Most bytes of one message of a collective.",
        max_multi_request: c_int = "Most requests in one.",
        rail: i16 = "Number of its rail; -1 where it has none.",
        plane: i16 = "Number of its plane; -1 where it has none."
    }
}

/// Addresses as NCCL hands them on.
pub type Out = *mut *mut c_void;
/// Where an offload would be returned.
pub type OffloadOut = *mut *mut DeviceHandle;

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($field:ident: fn($($argument:ty),*)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(C)]
        pub struct $name {
            /// The network's name, for logs and for `NCCL_NET`.
            pub name: Text,
            $(
                /// The entry of this name in NCCL's interface.
                pub $field: Option<unsafe extern "C" fn($($argument),*) -> c_int>,
            )*
        }
    };
}

table! {
    /// The plugin's table, v8.
    NetV8 {
        init: fn(Option<LogFunction>),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV8),
        listen: fn(c_int, *mut c_void, Out),
        connect: fn(c_int, *mut c_void, Out, OffloadOut),
        accept: fn(*mut c_void, Out, OffloadOut),
        reg_mr: fn(*mut c_void, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(*mut c_void, *mut c_void),
        isend: fn(*mut c_void, *mut c_void, c_int, c_int, *mut c_void, Out),
        irecv: fn(*mut c_void, c_int, Out, *mut c_int, *mut c_int, Out, Out),
        iflush: fn(*mut c_void, c_int, Out, *mut c_int, Out, Out),
        test: fn(*mut c_void, *mut c_int, *mut c_int),
        close_send: fn(*mut c_void),
        close_recv: fn(*mut c_void),
        close_listen: fn(*mut c_void),
        get_device_mr: fn(*mut c_void, *mut c_void, Out),
        irecv_consumed: fn(*mut c_void, c_int, *mut c_void),
    }
}
table! {
    /// The plugin's table, v9.
    NetV9 {
        init: fn(Option<LogFunction>),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV9),
        listen: fn(c_int, *mut c_void, Out),
        connect: fn(c_int, *mut c_void, Out, OffloadOut),
        accept: fn(*mut c_void, Out, OffloadOut),
        reg_mr: fn(*mut c_void, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(*mut c_void, *mut c_void),
        isend: fn(*mut c_void, *mut c_void, usize, c_int, *mut c_void, Out),
        irecv: fn(*mut c_void, c_int, Out, *mut usize, *mut c_int, Out, Out),
        iflush: fn(*mut c_void, c_int, Out, *mut c_int, Out, Out),
        test: fn(*mut c_void, *mut c_int, *mut c_int),
        close_send: fn(*mut c_void),
        close_recv: fn(*mut c_void),
        close_listen: fn(*mut c_void),
        get_device_mr: fn(*mut c_void, *mut c_void, Out),
        irecv_consumed: fn(*mut c_void, c_int, *mut c_void),
        make_virtual_device: fn(*mut c_int, *mut VirtualDevice4),
    }
}
table! {
    /// The plugin's table, v10.
    NetV10 {
        init: fn(Option<LogFunction>, Option<ProfilerFunction>),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV9),
        listen: fn(c_int, *mut c_void, Out),
        connect: fn(c_int, *mut CommConfig, *mut c_void, Out, OffloadOut),
        accept: fn(*mut c_void, Out, OffloadOut),
        reg_mr: fn(*mut c_void, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(*mut c_void, *mut c_void),
        isend: fn(*mut c_void, *mut c_void, usize, c_int, *mut c_void, *mut c_void, Out),
        irecv: fn(*mut c_void, c_int, Out, *mut usize, *mut c_int, Out, Out, Out),
        iflush: fn(*mut c_void, c_int, Out, *mut c_int, Out, Out),
        test: fn(*mut c_void, *mut c_int, *mut c_int),
        close_send: fn(*mut c_void),
        close_recv: fn(*mut c_void),
        close_listen: fn(*mut c_void),
        get_device_mr: fn(*mut c_void, *mut c_void, Out),
        irecv_consumed: fn(*mut c_void, c_int, *mut c_void),
        make_virtual_device: fn(*mut c_int, *mut VirtualDevice4),
    }
}

macro_rules! table_with_contexts {
    ($(#[$doc:meta])* $name:ident, $properties:ty, $device:ty) => {
        table! {
            $(#[$doc])*
            $name {
                init: fn(Out, u64, *mut CommConfig, Option<LogFunction>, Option<ProfilerFunction>),
                devices: fn(*mut c_int),
                get_properties: fn(c_int, *mut $properties),
                listen: fn(*mut c_void, c_int, *mut c_void, Out),
                connect: fn(*mut c_void, c_int, *mut c_void, Out, OffloadOut),
                accept: fn(*mut c_void, Out, OffloadOut),
                reg_mr: fn(*mut c_void, *mut c_void, usize, c_int, Out),
                reg_mr_dma_buf: fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, Out),
                dereg_mr: fn(*mut c_void, *mut c_void),
                isend: fn(*mut c_void, *mut c_void, usize, c_int, *mut c_void, *mut c_void, Out),
                irecv: fn(*mut c_void, c_int, Out, *mut usize, *mut c_int, Out, Out, Out),
                iflush: fn(*mut c_void, c_int, Out, *mut c_int, Out, Out),
                test: fn(*mut c_void, *mut c_int, *mut c_int),
                close_send: fn(*mut c_void),
                close_recv: fn(*mut c_void),
                close_listen: fn(*mut c_void),
                get_device_mr: fn(*mut c_void, *mut c_void, Out),
                irecv_consumed: fn(*mut c_void, c_int, *mut c_void),
                make_virtual_device: fn(*mut c_int, *mut $device),
                finalize: fn(*mut c_void),
                set_net_attr: fn(*mut c_void, *mut NetAttributes),
            }
        }
    };
}

table_with_contexts!(
    /// The plugin's table, v11.
    NetV11, PropertiesV11, VirtualDevice4
);
table_with_contexts!(
    /// The plugin's table, v12.
    NetV12, PropertiesV12, VirtualDevice8
);
