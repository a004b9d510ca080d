//! What a person should know about this server: typed, so that programs can tell one from another.

use proto_model::{Reason, ReasonCode};

/// Something about this server that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// The device or the file that the finding is about.
    pub subject: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// A finding about `subject`.
    pub fn new(kind: FindingKind, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, subject: subject.into(), message: message.into() }
    }

    /// As a controller takes it: one line of a bounded length.
    #[must_use]
    pub fn reason(&self) -> Reason {
        Reason::new(self.kind.code(), line(&self.message)).scope(line(&self.subject))
    }
}

/// Bytes of a line.
const LINE_MAX: usize = 512;

/// A text as one printable line, cut where it is too long.
pub(crate) fn line(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while line.len() > LINE_MAX {
        line.pop();
    }
    line
}

/// Kinds of findings, by what is wrong or unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// The kernel does not answer over netlink.
    NetlinkFailed,
    /// No NIC serves any rail.
    NoRail,
    /// An RDMA port has no network device.
    NoNetdev,
    /// An RDMA port has no GID that its rail could use.
    NoGid,
    /// A rule names a NIC that is not there.
    RailUnknown,
    /// A rule finds two rails for one NIC.
    RailUnclear,
    /// Several NICs serve one rail.
    RailShared,
    /// A device went while it was read.
    Vanished,
    /// A device whose driver or vendor this program does not know.
    UnknownVendor,
    /// An attribute is there, but is not what it should be.
    Unreadable,
    /// More entries than are told.
    TooMany,
    /// A PCIe link runs below what the device and its slot can do.
    PcieDegraded,
    /// A library that would tell more is not there.
    LibraryMissing,
    /// A library is there and does not answer as it should.
    LibraryFailed,
    /// A GPU is there that no job can use as it is set up.
    GpuUnusable,
    /// What switches say of themselves is not known.
    LldpFailed,
}

impl FindingKind {
    /// As programs read it.
    #[must_use]
    pub const fn code(self) -> ReasonCode {
        match self {
            Self::NetlinkFailed => ReasonCode::NetlinkFailed,
            Self::NoRail => ReasonCode::NoRail,
            Self::NoNetdev => ReasonCode::NoNetdev,
            Self::NoGid => ReasonCode::NoGid,
            Self::RailUnknown => ReasonCode::RailUnknown,
            Self::RailUnclear => ReasonCode::RailUnclear,
            Self::RailShared => ReasonCode::RailShared,
            Self::Vanished => ReasonCode::Vanished,
            Self::UnknownVendor => ReasonCode::UnknownVendor,
            Self::Unreadable => ReasonCode::Unreadable,
            Self::TooMany => ReasonCode::TooMany,
            Self::PcieDegraded => ReasonCode::PcieDegraded,
            Self::LibraryMissing => ReasonCode::LibraryMissing,
            Self::LibraryFailed => ReasonCode::LibraryFailed,
            Self::GpuUnusable => ReasonCode::GpuUnusable,
            Self::LldpFailed => ReasonCode::LldpFailed,
        }
    }
}
