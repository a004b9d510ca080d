//! The lane of RDMA data as far as it is known. What the driver can set and nobody can read is no deviation, for missing is no
//! default; but a port of which that is so is not known to be as its profile says either.

use crate::{
    diff::Finding,
    item::Item,
    vendor::{self, How, Vendor},
};

/// Whether an item is part of the lane: trust, the priorities of DSCPs, traffic classes, flow control.
#[must_use]
pub const fn is_lane(item: Item) -> bool {
    matches!(
        item,
        Item::Trust
            | Item::Dscp(_)
            | Item::RocePort
            | Item::EtsWilling
            | Item::PrioTc(_)
            | Item::Tsa(_)
            | Item::Bandwidth(_)
            | Item::Pfc
    )
}

/// What of the lane is not known although the driver can set it: it could not be read, or the kernel left it out of its answer
/// (which it also does where the driver failed to tell). `findings` are those of a verdict or a plan.
pub fn unverified<'a>(findings: &'a [Finding], vendor: &'a Vendor) -> impl Iterator<Item = &'a Finding> {
    let can = |item: Item| matches!(vendor.row(vendor::aspect(item)).how, How::Set { .. });
    findings.iter().filter(move |finding| finding.item.is_some_and(|item| is_lane(item) && can(item)))
}
