//! Devices, and which of them is a rail.

use std::net::IpAddr;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::ffi;
use crate::gid;
use crate::library::{Library, last_error};
use crate::objects::Context;

/// A device by its name.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) context: Arc<Context>,
}

/// The port of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RailPort {
    pub(crate) port: u8,
    pub(crate) index: u8,
}

/// Opens all devices but those with a name that is `known`; those that cannot be opened are left out with a warning.
pub(crate) fn open_all(library: &Arc<Library>, known: &[&str]) -> Result<Vec<Device>, String> {
    let functions = &library.functions;
    let mut count = 0;
    // SAFETY: the count is ours to fill.
    let list = unsafe { (functions.get_device_list)(&mut count) };
    if list.is_null() {
        return Err(format!("the kernel has no RDMA devices: {}", last_error()));
    }
    let mut devices = Vec::new();
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` entries, and is there until it is freed below.
        let device = unsafe { *list.add(at) };
        // SAFETY: the device is in the list; the library owns its name for as long.
        let name = unsafe { Library::text((functions.get_device_name)(device)) };
        if known.contains(&name.as_str()) {
            continue;
        }
        // SAFETY: the device is in the list. An open device does not need the list any more.
        let opened = NonNull::new(unsafe { (functions.open_device)(device) });
        let context = match opened {
            // SAFETY: just opened by this library, and given to nobody else.
            Some(raw) => unsafe { Context::own(raw, Arc::clone(library)) },
            None => Err(last_error()),
        };
        match context {
            Ok(context) => devices.push(Device { name, context: Arc::new(context) }),
            Err(error) => tracing::warn!(device = name, %error, "an RDMA device cannot be opened"),
        }
    }
    // SAFETY: given by this library, and freed once.
    unsafe { (functions.free_device_list)(list) };
    Ok(devices)
}

impl Device {
    /// Where on this device a rail's address is, if it is there and RoCE v2.
    pub(crate) fn place(&self, address: IpAddr) -> Option<RailPort> {
        let table = self.context.gids().inspect_err(|error| {
            tracing::warn!(device = self.name, %error, "an RDMA device does not tell its GIDs");
        });
        gid::find(&table.ok()?, address).map(|(port, index)| RailPort { port, index })
    }

    /// The greatest packet of a port, as devices count it, and whether it is up.
    pub(crate) fn port(&self, port: u8) -> Result<(u8, bool), String> {
        let attributes = self.context.port(port).map_err(|error| format!("{}: {error}", self.name))?;
        let mtu = u8::try_from(attributes.active_mtu).unwrap_or(0).clamp(1, 5);
        Ok((mtu, attributes.state == ffi::PORT_ACTIVE))
    }
}
