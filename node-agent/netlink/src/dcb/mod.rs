//! DCB (data centre bridging) of a network device by route netlink: transmission selection, flow control, the map from DSCP to
//! priority, buffers, and who is in charge. Vendor-neutral; iproute2's `dcb` speaks the same.

pub mod layout;
pub mod table;
#[cfg(test)]
mod tests;

use crate::{
    ask::{Part, Session},
    error::{Errno, NetlinkError},
    kernel::{Family, Kernel},
};

pub use layout::{App, Buffer, Ets, MaxRate, Pfc, selector, tsa};
pub use table::{Change, Table, dcbx};

/// Reads and changes DCB state.
#[derive(Debug)]
pub struct Dcb {
    session: Session,
}

impl Dcb {
    /// Opens a socket.
    ///
    /// # Errors
    /// The kernel has no route netlink.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        Ok(Self { session: Session::open(kernel, Family::Route)? })
    }

    /// The state of a device.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where its driver has no DCB, `ENODEV` where there is no such device.
    pub fn read(&mut self, device: &str) -> Result<Table, NetlinkError> {
        let what = format!("read the DCB state of {device}");
        let parts = self.session.ask(&what, table::get(device))?;
        let part = parts.iter().find(|part| part.kind == table::GET);
        let part = part.ok_or_else(|| NetlinkError::Lacks { what: what.clone(), missing: "the state" })?;
        Table::decode(part.message()).map_err(|source| NetlinkError::Unreadable { what, source })
    }

    /// Changes one thing. That the driver took it does not say that it is so: some kernels answer "done" to what they do not know
    /// (the APP trust table before 6.2), and drivers round. Read it back.
    ///
    /// # Errors
    /// The kernel's refusal, or the driver's status.
    pub fn change(&mut self, device: &str, change: &Change) -> Result<(), NetlinkError> {
        let what = format!("{} of {device}", change.name());
        let parts = self.session.ask(&what, change.request(device))?;
        match status(&parts, change.status_attribute()) {
            Some(0) => Ok(()),
            Some(code) => Err(NetlinkError::Status { what, errno: driver_errno(code) }),
            None => Err(NetlinkError::Lacks { what, missing: "the driver's status" }),
        }
    }
}

/// The status in an answer to a change.
fn status(parts: &[Part], kind: u16) -> Option<u8> {
    let part = parts.iter().find(|part| part.kind == table::SET)?;
    let found = part.message().attributes(table::FIXED).map_while(Result::ok).find(|a| a.kind == kind)?;
    found.u8("status").ok()
}

/// The kernel puts minus an errno into a byte (`dcbnl_ieee_set`); `setdcbx` only says 1. Errnos above 128 do not survive that.
fn driver_errno(code: u8) -> Errno {
    match i32::from(code.cast_signed()) {
        negative if negative < 0 => Errno(-negative),
        _ => Errno::INVAL,
    }
}
