//! Congestion control as the vendor's files have it.

use std::{collections::BTreeMap, io};

use node_agent_netlink::Files;
use node_agent_qos::{
    Congestion, Device, Item, Reading,
    settings::{CcParam, CcSide},
    vendor::{self, Aspect, Vendor, path::Filling},
    words::{Dscp, Priority, PrioritySet},
};

use super::paths::file;

/// Reads a number from a file; no file is no such thing.
pub(super) fn number<T>(
    files: &dyn Files,
    path: Option<&str>,
    parse: impl FnOnce(u64) -> Option<T>,
) -> Reading<T> {
    let Some(path) = path else { return Reading::Unsupported };
    match files.read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            let value = first_number(&text).and_then(parse);
            value.map_or_else(|| Reading::Unreadable(format!("{path} says '{text}'")), Reading::Known)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reading::Unsupported,
        Err(error) => Reading::Unreadable(format!("{path}: {error}")),
    }
}

/// `48`, `0x30` (bnxt_re's configfs), or a number behind a name.
fn first_number(text: &str) -> Option<u64> {
    let digits = |word: &str| match word.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => word.parse().ok(),
    };
    text.split(|c: char| c.is_whitespace() || c == ':' || c == '=').find_map(digits)
}

/// Reads all settings of congestion control that the device has.
pub(super) fn read(files: &dyn Files, device: &Device, vendor: &Vendor) -> Congestion {
    let path = |aspect| file(vendor, aspect, device, Filling::default());
    let dscp = |aspect| number(files, path(aspect).as_deref(), |n| Dscp::new(u8::try_from(n).ok()?).ok());
    let priority =
        |aspect| number(files, path(aspect).as_deref(), |n| Priority::new(u8::try_from(n).ok()?).ok());
    let (notification, reaction) = if vendor.one_cc_switch {
        let switch =
            number(files, path(Aspect::CcEnable).as_deref(), |n| Some(if n == 0 { 0 } else { 0xff }));
        let all = super::convert::part(&switch, |mask| Some(PrioritySet(*mask)));
        (all.clone(), all)
    } else {
        (
            mask(files, device, vendor, CcSide::NotificationPoint),
            mask(files, device, vendor, CcSide::ReactionPoint),
        )
    };
    let params: BTreeMap<CcParam, Reading<u32>> = CcParam::ALL
        .into_iter()
        .filter_map(|param| {
            let filling = Filling { param: Some(param), ..Filling::default() };
            let path = file(vendor, vendor::aspect(Item::CcParam(param)), device, filling)?;
            Some((param, number(files, Some(&path), |n| u32::try_from(n).ok())))
        })
        .collect();
    Congestion {
        notification,
        reaction,
        cnp_dscp: dscp(Aspect::CnpDscp),
        cnp_priority: priority(Aspect::CnpPriority),
        roce_dscp: dscp(Aspect::RoceDscp),
        roce_priority: priority(Aspect::RocePriority),
        params,
    }
}

/// The priorities on which an end is on: a file for each.
fn mask(files: &dyn Files, device: &Device, vendor: &Vendor, side: CcSide) -> Reading<PrioritySet> {
    let mut mask = PrioritySet::EMPTY;
    for priority in Priority::all() {
        let filling = Filling { priority: Some(priority), side: Some(side), param: None };
        let path = file(vendor, Aspect::CcEnable, device, filling);
        match number(files, path.as_deref(), Some) {
            Reading::Known(0) => {}
            Reading::Known(_) => mask = mask.with(priority),
            Reading::Unsupported => return Reading::Unsupported,
            Reading::Unreadable(why) => return Reading::Unreadable(why),
        }
    }
    Reading::Known(mask)
}
