//! libibverbs, loaded at run time.

use std::ffi::{c_char, c_int};
use std::path::Path;

use crate::ffi;

/// The name under which every distribution has it.
const NAME: &str = "libibverbs.so.1";

/// The library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or cannot be loaded.
    #[error("{name} cannot be loaded: {source} (Debian: apt install libibverbs1 ibverbs-providers)")]
    Load {
        /// What was looked for.
        name: String,
        /// The loader's answer.
        source: libloading::Error,
    },
    /// It lacks a function.
    #[error("{name} has no {symbol}: rdma-core 32 or newer is needed")]
    Symbol {
        /// The library.
        name: String,
        /// The function.
        symbol: &'static str,
    },
}

macro_rules! functions {
    ($($field:ident: $kind:ident = $symbol:literal,)*) => {
        /// The functions that are called by name.
        pub(crate) struct Functions {
            $(pub(crate) $field: ffi::$kind,)*
        }

        impl Functions {
            fn find(library: &libloading::Library, name: &str) -> Result<Self, LoadError> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the symbol is a function of libibverbs with this signature: the types are those of its
                        // header, and its ABI is stable under the major version that the name asks for.
                        let symbol = unsafe { library.get::<ffi::$kind>($symbol.as_bytes()) };
                        *symbol.map_err(|_| LoadError::Symbol { name: name.to_owned(), symbol: $symbol })?
                    },)*
                })
            }
        }
    };
}

functions! {
    get_device_list: GetDeviceList = "ibv_get_device_list",
    free_device_list: FreeDeviceList = "ibv_free_device_list",
    get_device_name: GetDeviceName = "ibv_get_device_name",
    open_device: OpenDevice = "ibv_open_device",
    close_device: CloseDevice = "ibv_close_device",
    query_port: QueryPort = "ibv_query_port",
    query_gid_table: QueryGidTable = "_ibv_query_gid_table",
    alloc_pd: AllocPd = "ibv_alloc_pd",
    dealloc_pd: DeallocPd = "ibv_dealloc_pd",
    reg_mr: RegMr = "ibv_reg_mr",
    dereg_mr: DeregMr = "ibv_dereg_mr",
    create_comp_channel: CreateCompChannel = "ibv_create_comp_channel",
    destroy_comp_channel: DestroyCompChannel = "ibv_destroy_comp_channel",
    create_cq: CreateCq = "ibv_create_cq",
    destroy_cq: DestroyCq = "ibv_destroy_cq",
    get_cq_event: GetCqEvent = "ibv_get_cq_event",
    ack_cq_events: AckCqEvents = "ibv_ack_cq_events",
    create_qp: CreateQp = "ibv_create_qp",
    modify_qp: ModifyQp = "ibv_modify_qp",
    destroy_qp: DestroyQp = "ibv_destroy_qp",
    get_async_event: GetAsyncEvent = "ibv_get_async_event",
    ack_async_event: AckAsyncEvent = "ibv_ack_async_event",
}

/// The loaded library. Cheap to share; it stays loaded as long as anything made by it lives.
pub struct Library {
    pub(crate) functions: Functions,
    /// Last, so that the functions are never there without it.
    _library: libloading::Library,
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
        let name = path.map_or_else(|| NAME.to_owned(), |path| path.display().to_string());
        // SAFETY: what runs while it is loaded is libibverbs' own start, which has no conditions; whoever names another file vouches
        // for it as for any program that he starts.
        let library = unsafe { libloading::Library::new(&name) }
            .map_err(|source| LoadError::Load { name: name.clone(), source })?;
        let functions = Functions::find(&library, &name)?;
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
