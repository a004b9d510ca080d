//! In which data class data is on each rail of this server: as the profile has it that its NIC is kept as, the default profile where nobody
//! keeps it. A NIC on trial takes no job.

use std::collections::{BTreeMap, BTreeSet};

use node_agent_qos::{DataClass, QosProfile, profile::from_json};
use proto_model::DesiredQos;

/// The data classes of all rails.
#[derive(Debug, Clone, Default)]
pub struct DataClasses {
    /// Where there is no desired state.
    own: DataClass,
    desired: DesiredProfiles,
}

#[derive(Debug, Clone, Default)]
struct DesiredProfiles {
    kept: BTreeSet<u32>,
    /// The data class of the rails in `kept`, by the desired profile; `None`: the agent's own.
    profile: Option<DataClass>,
    /// The data class of all other rails, by the profile from before the rollout; `None`: the agent's own.
    before: Option<DataClass>,
}

impl DataClasses {
    /// As the agent's own profile and what the controller has desired say, where there are such.
    #[must_use]
    pub fn new(profile: Option<&QosProfile>, desired: Option<&DesiredQos>) -> Self {
        let mut data_classes =
            Self { own: profile.map(DataClass::from).unwrap_or_default(), ..Self::default() };
        if let Some(desired) = desired {
            data_classes.desired(desired);
        }
        data_classes
    }

    /// The controller has desired something.
    pub fn desired(&mut self, desired: &DesiredQos) {
        // One that is not accepted is not applied either.
        let data_class = |document: &str| from_json(document).ok().map(|profile| DataClass::from(&profile));
        self.desired = DesiredProfiles {
            kept: desired.kept.clone(),
            profile: data_class(&desired.document),
            before: desired.before.as_deref().and_then(data_class),
        };
    }

    /// The data class of the rail with this number.
    #[must_use]
    pub fn of(&self, rail: u32) -> DataClass {
        let DesiredProfiles { kept, profile, before } = &self.desired;
        let desired = if kept.contains(&rail) { profile } else { before };
        desired.unwrap_or(self.own)
    }

    /// The data class of each of these rails, by number.
    #[must_use]
    pub fn each(&self, rails: impl IntoIterator<Item = u32>) -> BTreeMap<u32, DataClass> {
        rails.into_iter().map(|rail| (rail, self.of(rail))).collect()
    }

    /// Rails by their data classes: one set, but while a profile is rolled out.
    #[must_use]
    pub fn split(&self, rails: impl IntoIterator<Item = u32>) -> BTreeMap<DataClass, BTreeSet<u32>> {
        let mut split: BTreeMap<DataClass, BTreeSet<u32>> = BTreeMap::new();
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

    fn desired(document: &str, before: Option<&str>, trial: &[u32], kept: &[u32]) -> DesiredQos {
        DesiredQos {
            generation: 1,
            document: document.into(),
            before: before.map(Into::into),
            confirm_within: Duration::from_secs(60),
            trial: trial.iter().copied().collect(),
            kept: kept.iter().copied().collect(),
            number: 1,
        }
    }

    fn dscps(data_classes: &DataClasses) -> Vec<u8> {
        data_classes.each(0..3).into_values().map(|data_class| data_class.dscp().get()).collect()
    }

    #[test]
    fn a_rail_s_data_class_is_that_of_the_profile_that_is_kept_there() {
        let other = from_json(OTHER).unwrap();
        assert_eq!(dscps(&DataClasses::new(None, None)), [26; 3]);
        let mut data_classes = DataClasses::new(Some(&other), None);
        assert_eq!(dscps(&data_classes), [24; 3]);
        data_classes.desired(&desired("{}", None, &[1], &[0]));
        assert_eq!(dscps(&data_classes), [26, 24, 24], "a trial is not kept yet");
        let split: Vec<Vec<u32>> =
            data_classes.split(0..3).into_values().map(|rails| rails.into_iter().collect()).collect();
        assert_eq!(split, [vec![1, 2], vec![0]]);
        let mut data_classes = DataClasses::new(None, Some(&desired(OTHER, None, &[], &[2])));
        assert_eq!(dscps(&data_classes), [26, 26, 24]);
        data_classes.desired(&desired("{}", Some(OTHER), &[], &[2]));
        assert_eq!(dscps(&data_classes), [24, 24, 26]);
        data_classes.desired(&desired(r#"{"mtu": "big"}"#, None, &[], &[2]));
        assert_eq!(dscps(&data_classes), [26; 3], "what is not accepted is not applied");
    }
}
