//! The library as NCCL loads it: by dlopen, through the table of one version of its interface.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Mutex;

use rail_nccl_net::abi::{
    LogFunction, NetV8, NetV9, NetV10, NetV11, NetV12, PropertiesV8, PropertiesV9, PropertiesV11,
    PropertiesV12,
};

/// What the plugin has written to NCCL's log in this process.
static LOG: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

/// NCCL's log is variadic. The plugin gives one text, as its format says; to take that, a function with one argument more than the fixed
/// ones is called alike on the machines that NCCL runs on.
unsafe extern "C" fn log(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin gives texts that end with a NUL.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    assert_eq!(format, c"%s");
    LOG.lock().unwrap().push((level, text.to_str().unwrap().to_owned()));
}

pub fn logger() -> Option<LogFunction> {
    type Fixed = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    let fixed: Fixed = log;
    // SAFETY: see `log`: both are functions of C, and are called with these six arguments.
    Some(unsafe { std::mem::transmute::<Fixed, LogFunction>(fixed) })
}

/// What the plugin has logged, with NCCL's level (2: a warning).
pub fn logged() -> Vec<(c_int, String)> {
    LOG.lock().unwrap().clone()
}

enum Table {
    V8(&'static NetV8),
    V9(&'static NetV9),
    V10(&'static NetV10),
    V11(&'static NetV11),
    V12(&'static NetV12),
}

/// Calls an entry that has the same form in all versions.
macro_rules! same {
    ($plugin:expr, $entry:ident ( $($argument:expr),* )) => {{
        let entry = match &$plugin.table {
            Table::V8(table) => table.$entry,
            Table::V9(table) => table.$entry,
            Table::V10(table) => table.$entry,
            Table::V11(table) => table.$entry,
            Table::V12(table) => table.$entry,
        };
        // SAFETY: every caller gives what the entry needs: places on the stack, and memory that outlives the request.
        unsafe { entry.unwrap()($($argument),*) }
    }};
}

/// What all versions say of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    pub pointers: c_int,
    pub speed: c_int,
    pub max_comms: c_int,
    pub max_receives: c_int,
    pub max_bytes: Option<usize>,
    /// Rail and plane, of v12.
    pub place: Option<(i16, i16)>,
}

/// The plugin, loaded. The library is never closed, as NCCL may not either.
pub struct Plugin {
    table: Table,
    context: *mut c_void,
}

pub type Handle = [u8; 128];
/// A code of NCCL's that is not success.
pub type Failed = c_int;

fn code(code: c_int) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Plugin {
    /// Loads the table of a version.
    pub fn load(path: &Path, version: u32) -> Self {
        // SAFETY: the library was built with this test; nothing runs when it is loaded.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
        let name = format!("ncclNetPlugin_v{version}");
        macro_rules! table {
            ($type:ty) => {{
                // SAFETY: the symbol of this name is a static of this type, and the library is never closed.
                unsafe { &**library.get::<*const $type>(name.as_bytes()).unwrap() }
            }};
        }
        let table = match version {
            8 => Table::V8(table!(NetV8)),
            9 => Table::V9(table!(NetV9)),
            10 => Table::V10(table!(NetV10)),
            11 => Table::V11(table!(NetV11)),
            _ => Table::V12(table!(NetV12)),
        };
        Self { table, context: null_mut() }
    }

    pub fn name(&self) -> &'static CStr {
        let name = match &self.table {
            Table::V8(table) => table.name,
            Table::V9(table) => table.name,
            Table::V10(table) => table.name,
            Table::V11(table) => table.name,
            Table::V12(table) => table.name,
        };
        // SAFETY: a static text that ends with a NUL.
        unsafe { CStr::from_ptr(name.as_ptr()) }
    }

    pub fn init(&mut self) -> Result<(), Failed> {
        let context = &raw mut self.context;
        // SAFETY: the log function is good for ever, and the place for the context lives while the call lasts.
        code(unsafe {
            match &self.table {
                Table::V8(table) => table.init.unwrap()(logger()),
                Table::V9(table) => table.init.unwrap()(logger()),
                Table::V10(table) => table.init.unwrap()(logger(), None),
                Table::V11(table) => table.init.unwrap()(context, 1, null_mut(), logger(), None),
                Table::V12(table) => table.init.unwrap()(context, 1, null_mut(), logger(), None),
            }
        })
    }

    pub fn finalize(&mut self) -> Result<(), Failed> {
        // SAFETY: the context is the one that init gave.
        code(unsafe {
            match &self.table {
                Table::V11(table) => table.finalize.unwrap()(self.context),
                Table::V12(table) => table.finalize.unwrap()(self.context),
                _ => 0,
            }
        })
    }

    pub fn devices(&self) -> Result<c_int, Failed> {
        let mut count = -1;
        code(same!(self, devices(&raw mut count))).map(|()| count)
    }

    pub fn device(&self, number: c_int) -> Result<Device, Failed> {
        macro_rules! ask {
            ($table:expr, $type:ty, $max:expr, $place:expr) => {{
                let mut found = std::mem::MaybeUninit::<$type>::zeroed();
                // SAFETY: there is room for the properties; all zeros are properties, too.
                let found = unsafe {
                    code($table.get_properties.unwrap()(number, found.as_mut_ptr()))?;
                    found.assume_init()
                };
                assert!(!found.name.is_null() && found.pci_path.is_null() && found.device_kind == 0);
                let (max, place): (fn(&$type) -> Option<usize>, fn(&$type) -> Option<(i16, i16)>) =
                    ($max, $place);
                Ok(Device {
                    pointers: found.pointer_support,
                    speed: found.speed,
                    max_comms: found.max_comms,
                    max_receives: found.max_receives,
                    max_bytes: max(&found),
                    place: place(&found),
                })
            }};
        }
        match &self.table {
            Table::V8(table) => ask!(table, PropertiesV8, |_| None, |_| None),
            Table::V9(table) => ask!(table, PropertiesV9, |found| Some(found.max_p2p_bytes), |_| None),
            Table::V10(table) => ask!(table, PropertiesV9, |found| Some(found.max_p2p_bytes), |_| None),
            Table::V11(table) => ask!(table, PropertiesV11, |found| Some(found.max_p2p_bytes), |_| None),
            Table::V12(table) => ask!(table, PropertiesV12, |found| Some(found.max_p2p_bytes), |found| {
                assert_eq!(found.virtual_device.count, 1);
                Some((found.rail, found.plane))
            }),
        }
    }

    pub fn listen(&self) -> Result<(*mut c_void, Handle), Failed> {
        let (mut listener, mut handle) = (null_mut(), [0xff; 128]);
        let (place, listening) = (handle.as_mut_ptr().cast(), &raw mut listener);
        // SAFETY: there is room for both results.
        code(unsafe {
            match &self.table {
                Table::V8(table) => table.listen.unwrap()(0, place, listening),
                Table::V9(table) => table.listen.unwrap()(0, place, listening),
                Table::V10(table) => table.listen.unwrap()(0, place, listening),
                Table::V11(table) => table.listen.unwrap()(self.context, 0, place, listening),
                Table::V12(table) => table.listen.unwrap()(self.context, 0, place, listening),
            }
        })?;
        assert!(!listener.is_null());
        Ok((listener, handle))
    }

    /// NULL where it is to be tried again.
    pub fn connect(&self, handle: &mut Handle) -> Result<*mut c_void, Failed> {
        let mut sender = null_mut();
        let (place, sending) = (handle.as_mut_ptr().cast(), &raw mut sender);
        // SAFETY: there is room for the result, and the handle is a handle's size.
        code(unsafe {
            match &self.table {
                Table::V8(table) => table.connect.unwrap()(0, place, sending, null_mut()),
                Table::V9(table) => table.connect.unwrap()(0, place, sending, null_mut()),
                Table::V10(table) => table.connect.unwrap()(0, null_mut(), place, sending, null_mut()),
                Table::V11(table) => table.connect.unwrap()(self.context, 0, place, sending, null_mut()),
                Table::V12(table) => table.connect.unwrap()(self.context, 0, place, sending, null_mut()),
            }
        })?;
        Ok(sender)
    }

    /// NULL where it is to be tried again.
    pub fn accept(&self, listener: *mut c_void) -> Result<*mut c_void, Failed> {
        let mut receiver = null_mut();
        code(same!(self, accept(listener, &raw mut receiver, null_mut())))?;
        Ok(receiver)
    }

    pub fn register(&self, comm: *mut c_void, kind: c_int) -> Result<*mut c_void, Failed> {
        let mut registration = null_mut();
        code(same!(self, reg_mr(comm, null_mut(), 0, kind, &raw mut registration)))?;
        code(same!(self, dereg_mr(comm, registration))).map(|()| registration)
    }

    /// Registers host memory, which must outlive the registration.
    pub fn register_memory(&self, comm: *mut c_void, memory: &[u8]) -> Result<*mut c_void, Failed> {
        let mut registration = null_mut();
        let (data, size) = (memory.as_ptr().cast_mut().cast(), memory.len());
        code(same!(self, reg_mr(comm, data, size, 1, &raw mut registration)))?;
        Ok(registration)
    }

    pub fn deregister(&self, comm: *mut c_void, registration: *mut c_void) -> Result<(), Failed> {
        code(same!(self, dereg_mr(comm, registration)))
    }

    /// NULL where it is to be tried again. The memory must outlive the request.
    pub fn isend(&self, sender: *mut c_void, data: &[u8], tag: c_int) -> Result<*mut c_void, Failed> {
        self.isend_from(sender, data, tag, null_mut())
    }

    /// As `isend`, from memory that must outlive its registration alone.
    pub fn isend_from(
        &self,
        sender: *mut c_void,
        data: &[u8],
        tag: c_int,
        registration: *mut c_void,
    ) -> Result<*mut c_void, Failed> {
        let mut request = null_mut();
        let (data, size) = (data.as_ptr().cast_mut().cast(), data.len());
        let small = c_int::try_from(size).unwrap();
        let out = &raw mut request;
        // SAFETY: there is room for the result; callers keep the memory as it is until the request is complete, its registration is no more or
        // its connection closed.
        code(unsafe {
            match &self.table {
                Table::V8(table) => table.isend.unwrap()(sender, data, small, tag, registration, out),
                Table::V9(table) => table.isend.unwrap()(sender, data, size, tag, registration, out),
                Table::V10(table) => {
                    table.isend.unwrap()(sender, data, size, tag, registration, null_mut(), out)
                }
                Table::V11(table) => {
                    table.isend.unwrap()(sender, data, size, tag, registration, null_mut(), out)
                }
                Table::V12(table) => {
                    table.isend.unwrap()(sender, data, size, tag, registration, null_mut(), out)
                }
            }
        })?;
        Ok(request)
    }

    /// NULL where it is to be tried again. The memory must outlive the request, and nobody else may use it.
    pub fn irecv(
        &self,
        receiver: *mut c_void,
        messages: &mut [(&mut [u8], c_int)],
    ) -> Result<*mut c_void, Failed> {
        self.irecv_into(receiver, messages, null_mut())
    }

    /// As `irecv`, into memory that must outlive its registration alone.
    pub fn irecv_into(
        &self,
        receiver: *mut c_void,
        messages: &mut [(&mut [u8], c_int)],
        registration: *mut c_void,
    ) -> Result<*mut c_void, Failed> {
        let mut request = null_mut();
        let mut registrations = vec![registration; messages.len()];
        let count = c_int::try_from(messages.len()).unwrap();
        let mut tags: Vec<c_int> = messages.iter().map(|(_, tag)| *tag).collect();
        let mut sizes: Vec<usize> = messages.iter().map(|(room, _)| room.len()).collect();
        let mut small: Vec<c_int> = sizes.iter().map(|size| c_int::try_from(*size).unwrap()).collect();
        let mut data: Vec<*mut c_void> =
            messages.iter_mut().map(|(room, _)| room.as_mut_ptr().cast()).collect();
        let (data, tags, out) = (data.as_mut_ptr(), tags.as_mut_ptr(), &raw mut request);
        let (sizes, small, none) = (sizes.as_mut_ptr(), small.as_mut_ptr(), null_mut());
        let lent = registrations.as_mut_ptr();
        // SAFETY: the arrays have as many values as there are messages; for the memory as in `isend`.
        code(unsafe {
            match &self.table {
                Table::V8(table) => table.irecv.unwrap()(receiver, count, data, small, tags, lent, out),
                Table::V9(table) => table.irecv.unwrap()(receiver, count, data, sizes, tags, lent, out),
                Table::V10(table) => {
                    table.irecv.unwrap()(receiver, count, data, sizes, tags, lent, none, out)
                }
                Table::V11(table) => {
                    table.irecv.unwrap()(receiver, count, data, sizes, tags, lent, none, out)
                }
                Table::V12(table) => {
                    table.irecv.unwrap()(receiver, count, data, sizes, tags, lent, none, out)
                }
            }
        })?;
        Ok(request)
    }

    /// Sizes of a request that is complete, for `messages` of them.
    pub fn test(&self, request: *mut c_void, messages: usize) -> Result<Option<Vec<c_int>>, Failed> {
        let (mut done, mut sizes) = (-1, vec![-1; messages]);
        code(same!(self, test(request, &raw mut done, sizes.as_mut_ptr())))?;
        Ok((done == 1).then_some(sizes))
    }

    /// What nobody wants to know the sizes of.
    pub fn test_blind(&self, request: *mut c_void) -> Result<bool, Failed> {
        let mut done = -1;
        code(same!(self, test(request, &raw mut done, null_mut())))?;
        Ok(done == 1)
    }

    pub fn iflush(&self, receiver: *mut c_void) -> Result<*mut c_void, Failed> {
        let mut request = null_mut::<c_void>().with_addr(1);
        code(same!(self, iflush(receiver, 1, null_mut(), null_mut(), null_mut(), &raw mut request)))?;
        Ok(request)
    }

    pub fn close_send(&self, sender: *mut c_void) -> Result<(), Failed> {
        code(same!(self, close_send(sender)))
    }

    pub fn close_recv(&self, receiver: *mut c_void) -> Result<(), Failed> {
        code(same!(self, close_recv(receiver)))
    }

    pub fn close_listen(&self, listener: *mut c_void) -> Result<(), Failed> {
        code(same!(self, close_listen(listener)))
    }

    /// Entries given NULL wherever they take an address: each is an error, and none ends the process.
    pub fn misuse(&self) -> Vec<c_int> {
        let none = null_mut();
        let null_count: *mut c_int = null_mut();
        vec![
            same!(self, devices(null_count)),
            same!(self, accept(none, null_mut(), null_mut())),
            same!(self, reg_mr(none, none, 0, 1, null_mut())),
            same!(self, iflush(none, 1, null_mut(), null_mut(), null_mut(), null_mut())),
            same!(self, test(none, null_mut(), null_mut())),
            same!(self, close_send(none)),
            same!(self, close_recv(none)),
            same!(self, close_listen(none)),
        ]
    }
}
