//! The data class of RDMA data: what senders write into their packets, and the priorities in which NICs then count them; and how much of
//! it is known. What the driver can set and nobody can read is no deviation, for missing is no default; but a port of which that is so is
//! not known to be as its profile says either.

use serde::{Deserialize, Serialize};

use crate::{
    diff::Finding,
    item::Item,
    profile::{ProfileSpec, QosProfile},
    vendor::{self, How, Vendor},
    words::{Dscp, Priority},
};

/// What whoever sends RDMA data has to know of a profile, and whoever judges where the data went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataClass {
    /// The ToS byte (IPv6: traffic class) of data: the DSCP in its upper six bits, and two of ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// The priority of data.
    pub lossless: Priority,
    /// The priority of congestion notification packets.
    pub cnp: Priority,
}

impl DataClass {
    /// The DSCP of data.
    #[must_use]
    pub const fn dscp(self) -> Dscp {
        Dscp::of(self.traffic_class >> 2)
    }

    /// The data class of one who sends over several NICs and can choose only one: that of most of them; of as many, that of the first.
    #[must_use]
    pub fn of_most(nics: impl IntoIterator<Item = Self>) -> Option<Self> {
        let nics: Vec<Self> = nics.into_iter().collect();
        let same = |data_class: &&Self| nics.iter().filter(|other| other == data_class).count();
        nics.iter().rev().max_by_key(same).copied()
    }
}

impl From<&QosProfile> for DataClass {
    fn from(profile: &QosProfile) -> Self {
        // The upper six bits of a profile's ToS are its data's DSCP.
        let ProfileSpec { default_tos, lossless_priority, cnp_priority, .. } = *profile.spec();
        Self { traffic_class: default_tos, lossless: lossless_priority, cnp: cnp_priority }
    }
}

impl Default for DataClass {
    /// That of the default profile.
    fn default() -> Self {
        Self::from(&QosProfile::default())
    }
}

/// Whether an item is part of the data class: trust, the priorities of DSCPs, traffic classes, flow control.
#[must_use]
pub const fn is_data_class(item: Item) -> bool {
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

/// What of the data class is not known although the driver can set it: it could not be read, or the kernel left it out of its answer
/// (which it also does where the driver failed to say). `findings` are those of a verdict or a plan.
pub fn unverified<'a>(findings: &'a [Finding], vendor: &'a Vendor) -> impl Iterator<Item = &'a Finding> {
    let can = |item: Item| matches!(vendor.row(vendor::aspect(item)).how, How::Set { .. });
    findings.iter().filter(move |finding| finding.item.is_some_and(|item| is_data_class(item) && can(item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_data_classes_most_nics_decide() {
        let data_class = |dscp: u8| DataClass { traffic_class: dscp << 2 | 2, ..DataClass::default() };
        let most = |dscps: &[u8]| DataClass::of_most(dscps.iter().map(|dscp| data_class(*dscp)));
        assert_eq!(most(&[]), None);
        assert_eq!(most(&[26, 24, 24]), Some(data_class(24)));
        assert_eq!(most(&[26, 24]), Some(data_class(26)));
        assert_eq!(most(&[26, 24, 30, 24, 26]), Some(data_class(26)));
    }

    #[test]
    fn a_data_class_is_as_its_profile_says() {
        let data_class = DataClass::default();
        assert_eq!(
            (
                data_class.traffic_class,
                data_class.dscp().get(),
                data_class.lossless.get(),
                data_class.cnp.get()
            ),
            (106, 26, 3, 6)
        );
        let document = r#"{"dataDscp": 24, "defaultTos": 97, "losslessPriority": 2, "cnpPriority": 7, "pfc": [2],
            "prioTc": [0, 0, 2, 0, 0, 0, 0, 7], "bandwidth": [50, 0, 50, 0, 0, 0, 0, 0],
            "tsa": ["ets", "ets", "ets", "ets", "ets", "ets", "ets", "strict"],
            "dcqcn": {"notification": [2], "reaction": [2]}}"#;
        let data_class = DataClass::from(&crate::profile::from_json(document).unwrap());
        // Also that ECN-capable is said by ECT(1).
        assert_eq!(
            (
                data_class.traffic_class,
                data_class.dscp().get(),
                data_class.lossless.get(),
                data_class.cnp.get()
            ),
            (97, 24, 2, 7)
        );
    }
}
