//! In which lane data is on each rail of this server: as the profile has it that its NIC is kept as, the default profile where nobody
//! keeps it. A NIC on trial takes no job.

use std::collections::{BTreeMap, BTreeSet};

use node_agent_qos::{DataLane, QosProfile, profile::from_json};
use proto_model::QosWish;

/// The lanes of all rails.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    /// Where the controller wishes nothing.
    own: DataLane,
    wished: Wished,
}

#[derive(Debug, Clone, Default)]
struct Wished {
    kept: BTreeSet<u32>,
    /// Of rails that are kept.
    profile: Option<DataLane>,
    /// Of the others.
    before: Option<DataLane>,
}

impl Lanes {
    /// As the agent's own profile and what the controller has wished say, where there are such.
    #[must_use]
    pub fn new(profile: Option<&QosProfile>, wish: Option<&QosWish>) -> Self {
        let mut lanes = Self { own: profile.map(DataLane::from).unwrap_or_default(), ..Self::default() };
        if let Some(wish) = wish {
            lanes.wish(wish);
        }
        lanes
    }

    /// The controller has wished something.
    pub fn wish(&mut self, wish: &QosWish) {
        // One that is not accepted is not applied either.
        let lane = |document: &str| from_json(document).ok().map(|profile| DataLane::from(&profile));
        self.wished = Wished {
            kept: wish.kept.clone(),
            profile: lane(&wish.document),
            before: wish.before.as_deref().and_then(lane),
        };
    }

    /// That of one rail.
    #[must_use]
    pub fn of(&self, rail: u32) -> DataLane {
        let Wished { kept, profile, before } = &self.wished;
        let wished = if kept.contains(&rail) { profile } else { before };
        wished.unwrap_or(self.own)
    }

    /// Each rail's.
    #[must_use]
    pub fn each(&self, rails: impl IntoIterator<Item = u32>) -> BTreeMap<u32, DataLane> {
        rails.into_iter().map(|rail| (rail, self.of(rail))).collect()
    }

    /// Rails by their lanes: one set, but while a profile is rolled out.
    #[must_use]
    pub fn split(&self, rails: impl IntoIterator<Item = u32>) -> BTreeMap<DataLane, BTreeSet<u32>> {
        let mut split: BTreeMap<DataLane, BTreeSet<u32>> = BTreeMap::new();
        for rail in rails {
            split.entry(self.of(rail)).or_default().insert(rail);
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Data with DSCP 24 on priority 2.
    const OTHER: &str = r#"{"dataDscp": 24, "defaultTos": 98, "losslessPriority": 2, "pfc": [2],
        "prioTc": [0, 0, 2, 0, 0, 0, 6, 0], "bandwidth": [50, 0, 50, 0, 0, 0, 0, 0],
        "dcqcn": {"notification": [2], "reaction": [2]}}"#;

    fn wish(document: &str, before: Option<&str>, trial: &[u32], kept: &[u32]) -> QosWish {
        QosWish {
            generation: 1,
            document: document.into(),
            before: before.map(Into::into),
            confirm_within: Duration::from_secs(60),
            trial: trial.iter().copied().collect(),
            kept: kept.iter().copied().collect(),
            number: 1,
        }
    }

    fn dscps(lanes: &Lanes) -> Vec<u8> {
        lanes.each(0..3).into_values().map(|lane| lane.dscp().get()).collect()
    }

    #[test]
    fn a_rail_s_lane_is_that_of_the_profile_that_is_kept_there() {
        let other = from_json(OTHER).unwrap();
        assert_eq!(dscps(&Lanes::new(None, None)), [26; 3]);
        let mut lanes = Lanes::new(Some(&other), None);
        assert_eq!(dscps(&lanes), [24; 3]);
        lanes.wish(&wish("{}", None, &[1], &[0]));
        assert_eq!(dscps(&lanes), [26, 24, 24], "a trial is not kept yet");
        let split: Vec<Vec<u32>> =
            lanes.split(0..3).into_values().map(|rails| rails.into_iter().collect()).collect();
        assert_eq!(split, [vec![1, 2], vec![0]]);
        let mut lanes = Lanes::new(None, Some(&wish(OTHER, None, &[], &[2])));
        assert_eq!(dscps(&lanes), [26, 26, 24]);
        lanes.wish(&wish("{}", Some(OTHER), &[], &[2]));
        assert_eq!(dscps(&lanes), [24, 24, 26]);
        lanes.wish(&wish(r#"{"mtu": "big"}"#, None, &[], &[2]));
        assert_eq!(dscps(&lanes), [26; 3], "what is not accepted is not applied");
    }
}
