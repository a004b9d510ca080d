//! Names that Kubernetes, Kueue and Railyard know this by. [pure]

/// `spec.controllerName` of the admission checks that are ours.
pub const CONTROLLER: &str = "railyard.io/placement";
/// Who has written a field, for the API server (field manager).
pub const MANAGER: &str = "railyard-placement";
/// API group of Kueue.
pub const GROUP: &str = "kueue.x-k8s.io";
/// Version of that group; Kueue serves it since 0.15.
pub const VERSION: &str = "v1beta2";

/// Label of a namespace: the tenant whose workloads it has.
pub const TENANT: &str = "railyard.io/tenant";
/// Of pods: the allocation that holds their servers.
pub const HOLD: &str = "railyard.io/hold";
/// Of pods: servers of their pod set, in rank order.
pub const NODES: &str = "railyard.io/nodes";
/// Labels of a node that is held for a workload begin so; its UID follows, and the value is the pod set.
pub const HOLD_LABEL: &str = "hold.railyard.io/";

/// Label of an allocation with the UID of the workload that it is held for.
pub const UID_LABEL: &str = "kueue/uid";
/// Label of an allocation with namespace and name of that workload.
pub const WORKLOAD_LABEL: &str = "kueue/workload";
/// Label of an allocation with the ClusterQueue.
pub const QUEUE_LABEL: &str = "kueue/cluster-queue";

/// Longest prefix of holds' names: with a UID and a time it is a name of a job.
pub const LONGEST_PREFIX: usize = 18;

/// The label that nodes of a workload carry.
#[must_use]
pub fn node_label(uid: &str) -> String {
    format!("{HOLD_LABEL}{uid}")
}

/// The UID in a label's key, if the label is ours.
#[must_use]
pub fn uid_of_label(key: &str) -> Option<&str> {
    key.strip_prefix(HOLD_LABEL).filter(|uid| !uid.is_empty())
}

/// For which reservation of quota of which workload something is held. A workload that is evicted and has quota again has another hold: what
/// held for the first time may not be given back yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldKey {
    /// UID of the workload.
    pub uid: String,
    /// When its quota was reserved, in seconds since 1970.
    pub reserved: u64,
}

impl HoldKey {
    /// Name of the allocation; the same for whoever asks, however often.
    #[must_use]
    pub fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}-{}", self.uid, base36(self.reserved))
    }

    /// The key of an allocation of this name; none where another door, or another cluster, has named it.
    #[must_use]
    pub fn of(prefix: &str, name: &str) -> Option<Self> {
        let (uid, reserved) = name.strip_prefix(prefix)?.rsplit_once('-')?;
        let key = Self { uid: uid.to_owned(), reserved: u64::from_str_radix(reserved, 36).ok()? };
        // `slurm-4-x` of prefix `slurm-`, and numbers with a sign, are none of ours.
        (is_uid(uid) && key.name(prefix) == name).then_some(key)
    }
}

/// Whether this can be the UID of an object: Kubernetes gives UUIDs.
#[must_use]
pub fn is_uid(text: &str) -> bool {
    let is_part = |(part, length): (&str, usize)| {
        part.len() == length
            && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == 5 && parts.into_iter().zip([8, 4, 4, 4, 12]).all(is_part)
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(number % 36).unwrap_or_default();
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

    #[test]
    fn a_hold_is_found_by_its_name_and_others_are_not_ours() {
        let key = HoldKey { uid: UID.into(), reserved: 1_795_000_000 };
        let name = key.name("kueue-");
        assert_eq!(HoldKey::of("kueue-", &name), Some(key.clone()));
        assert!(name.len() <= 63 && key.name(&"p".repeat(LONGEST_PREFIX)).len() <= 63, "{name}");
        assert!(
            HoldKey { reserved: u64::from(u32::MAX) * 2, ..key }.name(&"p".repeat(LONGEST_PREFIX)).len()
                <= 63
        );
        for other in [
            "kueue-x",
            "slurm-4711",
            "kueue-",
            "kueue-b-3f2504e0-4f89-41d3-9a0c-0305e82c3301-a",
            "kueue-4-+a",
        ] {
            assert_eq!(HoldKey::of("kueue-", other), None, "{other}");
        }
        assert_eq!(HoldKey::of("kueue-b-", &name), None);
        assert_eq!(HoldKey::of("kueue-", &format!("kueue-{UID}-0a")), None);
    }

    #[test]
    fn labels_name_their_workload() {
        assert_eq!(uid_of_label(&node_label(UID)), Some(UID));
        assert_eq!(uid_of_label("railyard.io/rails"), None);
        assert_eq!(uid_of_label(HOLD_LABEL), None);
        assert!(is_uid(UID) && !is_uid("4711") && !is_uid(&UID.to_uppercase()));
    }
}
