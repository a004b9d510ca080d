//! Memory of GPUs that ranks register with the engine: rails send from it where they can.

use std::os::fd::OwnedFd;

use node_agent_ipc::{Failure as RankFailure, FailureCode};

use crate::failure::plain;

/// How the kernel names a dma-buf (`drivers/dma-buf/dma-buf.c`), and a memory file, which stands in for one in tests and which no NIC
/// registers.
pub(crate) const KINDS: [&[u8]; 2] = [b"/dmabuf:", b"/memfd:"];

/// What came with a request beside its bytes.
#[derive(Debug)]
pub(crate) enum Came {
    Nothing,
    File(OwnedFd),
    /// A descriptor, which this process could not take.
    Lost,
}

/// Where memory that a rank has registered is.
pub(crate) struct Offer<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) gpu: &'a str,
}

/// The file is one that can be measured without waiting for anybody: not one of a file system that a rank serves.
pub(crate) fn check_kind(file: &OwnedFd) -> Result<(), RankFailure> {
    let number = std::os::fd::AsRawFd::as_raw_fd(file);
    let name = std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap_or_default();
    let name = std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str());
    if KINDS.iter().any(|kind| name.starts_with(kind)) {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(plain(FailureCode::InvalidArgument, format!("what came for memory of a GPU is no dma-buf: {name}")))
}
