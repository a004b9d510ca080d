//! libibverbs, loaded at run time.

use std::ffi::{c_char, c_int};
use std::path::Path;

use node_agent_dylib::{LoadError, Loaded, functions, known};

use crate::ffi;

functions! {
    /// The functions that are called by name.
    pub(crate) struct Functions {
        get_device_list: ffi::GetDeviceList = "ibv_get_device_list",
        free_device_list: ffi::FreeDeviceList = "ibv_free_device_list",
        get_device_name: ffi::GetDeviceName = "ibv_get_device_name",
        open_device: ffi::OpenDevice = "ibv_open_device",
        close_device: ffi::CloseDevice = "ibv_close_device",
        query_port: ffi::QueryPort = "ibv_query_port",
        query_gid_table: ffi::QueryGidTable = "_ibv_query_gid_table",
        alloc_pd: ffi::AllocPd = "ibv_alloc_pd",
        dealloc_pd: ffi::DeallocPd = "ibv_dealloc_pd",
        reg_mr: ffi::RegMr = "ibv_reg_mr",
        dereg_mr: ffi::DeregMr = "ibv_dereg_mr",
        create_comp_channel: ffi::CreateCompChannel = "ibv_create_comp_channel",
        destroy_comp_channel: ffi::DestroyCompChannel = "ibv_destroy_comp_channel",
        create_cq: ffi::CreateCq = "ibv_create_cq",
        destroy_cq: ffi::DestroyCq = "ibv_destroy_cq",
        get_cq_event: ffi::GetCqEvent = "ibv_get_cq_event",
        ack_cq_events: ffi::AckCqEvents = "ibv_ack_cq_events",
        create_qp: ffi::CreateQp = "ibv_create_qp",
        modify_qp: ffi::ModifyQp = "ibv_modify_qp",
        destroy_qp: ffi::DestroyQp = "ibv_destroy_qp",
        get_async_event: ffi::GetAsyncEvent = "ibv_get_async_event",
        ack_async_event: ffi::AckAsyncEvent = "ibv_ack_async_event",
    }
    maybe {
        reg_dmabuf_mr: ffi::RegDmabufMr = "ibv_reg_dmabuf_mr",
    }
}

/// The loaded library. Cheap to share; it stays loaded as long as anything made by it lives.
pub struct Library {
    pub(crate) functions: Functions,
    /// Last, so that the functions are never there without it.
    _library: Loaded,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    /// Loads the system's libibverbs, or another that stands in for it.
    ///
    /// # Errors
    /// It is not there, or too old.
    pub fn load(path: Option<&Path>) -> Result<Self, LoadError> {
        let library = Loaded::open(known::VERBS, path)?;
        // SAFETY: the types are those of libibverbs' header, and its ABI is stable under the major version that the name asks for; the
        // library is kept beside the table.
        let functions = unsafe { Functions::find(&library) }?;
        Ok(Library { functions, _library: library })
    }

    /// Reads a name that the library owns.
    ///
    /// # Safety
    /// `name` is null or a text that ends with a zero and stays as it is during the call.
    pub(crate) unsafe fn text(name: *const c_char) -> String {
        if name.is_null() {
            return String::new();
        }
        // SAFETY: passed on to the caller.
        unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// The system's answer to a call that gave nothing.
pub(crate) fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// The answer of calls that give the error's number, or -1 and leave the number elsewhere.
pub(crate) fn checked(code: c_int) -> std::io::Result<()> {
    match code {
        0 => Ok(()),
        -1 => Err(last_error()),
        code => Err(std::io::Error::from_raw_os_error(code.abs())),
    }
}
