//! The kernel's interfaces for QoS and inventory, vendor-neutral, without a program in between.
//!
//! - [`wire`]: netlink's form, both ways; [`ask`]: a question and its whole answer; [`events`]: what changes.
//! - [`dcb`], [`route`], [`ethtool`], [`rdma`]: what each family says.
//! - [`private`]: what only the ethtool ioctl gives; `sys`: the only unsafe code.
//! - [`sysfs`], [`gid`]: files.
//! - [`kernel`]: what all of it needs of a kernel; [`RealKernel`] is this machine's, [`fake`] one in memory.

pub mod ask;
pub mod dcb;
pub mod error;
pub mod ethtool;
pub mod events;
pub mod fake;
pub mod gid;
pub mod kernel;
pub mod private;
pub mod rdma;
mod real;
pub mod route;
mod sys;
pub mod sysfs;
pub mod wire;

pub use error::{Errno, NetlinkError};
pub use kernel::{Channel, Family, Files, Kernel, Received};
pub use real::RealKernel;
pub use sysfs::Tree;
