//! How far servers keep jobs apart, feature by feature.

use proto_wire::v1::{self, isolation_feature::Kind};

use super::Table;

/// Features that isolation REQUIRED asks for, in the order of the schema.
const REQUIRED: [Kind; 11] = [
    Kind::UidPerAttempt,
    Kind::PidNamespace,
    Kind::MountNamespace,
    Kind::IpcNamespace,
    Kind::PrivateTmp,
    Kind::HiddenProc,
    Kind::PrivateDev,
    Kind::NoNewPrivileges,
    Kind::Seccomp,
    Kind::CgroupMemory,
    Kind::CgroupPids,
];

/// `CGROUP_MEMORY` as people write it: `cgroup-memory`.
fn word(kind: Kind) -> String {
    kind.as_str_name().to_lowercase().replace('_', "-")
}

fn features(inventory: &v1::Inventory) -> &[v1::IsolationFeature] {
    inventory.isolation.as_ref().map_or(&[], |isolation| &isolation.features)
}

fn has(inventory: &v1::Inventory, kind: Kind) -> bool {
    features(inventory).iter().any(|feature| feature.kind() == kind && feature.active)
}

/// One word for a list of servers: what a tenant may rely on there.
#[must_use]
pub fn cell(inventory: &v1::Inventory) -> String {
    let given = REQUIRED.iter().filter(|kind| has(inventory, **kind)).count();
    if given == REQUIRED.len() {
        "full".to_owned()
    } else if has(inventory, Kind::UidPerAttempt) {
        format!("{given}/{}", REQUIRED.len())
    } else if given > 0 {
        format!("{given}/{},1 tenant", REQUIRED.len())
    } else {
        "none,1 tenant".to_owned()
    }
}

/// All features of one server, with how or why not, and what mends it.
#[must_use]
pub fn table(inventory: &v1::Inventory) -> String {
    if features(inventory).is_empty() {
        return "Isolation: its agent says nothing of it, which counts as none: two tenants never share this server; upgrade the agent\n"
            .to_owned();
    }
    let mut table = Table::new(["ISOLATION", "ACTIVE", "REQUIRED", "HOW OR WHY NOT", "WHAT MENDS IT"]);
    for feature in features(inventory) {
        let required = if REQUIRED.contains(&feature.kind()) { "yes" } else { "" };
        let active = if feature.active { "yes" } else { "NO" };
        table.row([
            word(feature.kind()),
            active.to_owned(),
            required.to_owned(),
            feature.reason.clone(),
            feature.fix.clone(),
        ]);
    }
    let shared = if has(inventory, Kind::UidPerAttempt) {
        ""
    } else {
        "  Without uid-per-attempt two tenants never share this server.\n"
    };
    table.render("  ") + shared
}

/// What a server gives less of than it could: the message and what mends it.
pub fn lacks(inventory: &v1::Inventory) -> impl Iterator<Item = (String, &str)> {
    let silent = features(inventory).is_empty().then(|| {
        (
            "its agent says nothing of isolation: two tenants never share it".to_owned(),
            "upgrade rail-node-agent",
        )
    });
    let mendable = features(inventory).iter().filter(|feature| !feature.active && !feature.fix.is_empty());
    let reported = mendable.map(|feature| {
        let alone = if feature.kind() == Kind::UidPerAttempt { "; two tenants never share it" } else { "" };
        (format!("jobs get no {}: {}{alone}", word(feature.kind()), feature.reason), feature.fix.as_str())
    });
    silent.into_iter().chain(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(features: &[(Kind, bool)]) -> v1::Inventory {
        let features = features.iter().map(|(kind, active)| v1::IsolationFeature {
            kind: (*kind).into(),
            active: *active,
            reason: if *active { "done" } else { "not root" }.to_owned(),
            fix: if *active { "" } else { "run it as root" }.to_owned(),
        });
        v1::Inventory {
            isolation: Some(v1::Isolation { features: features.collect() }),
            ..Default::default()
        }
    }

    #[test]
    fn the_list_here_is_that_of_the_schema() {
        let required: Vec<String> = REQUIRED.iter().map(|kind| word(*kind)).collect();
        assert_eq!(required.join(", "), proto_model::IsolationSet::REQUIRED.to_string());
    }

    #[test]
    fn a_server_is_one_word_in_a_list() {
        let all: Vec<(Kind, bool)> = REQUIRED.iter().map(|kind| (*kind, true)).collect();
        assert_eq!(cell(&inventory(&all)), "full");
        assert_eq!(cell(&inventory(&all[..3])), "3/11");
        assert_eq!(cell(&inventory(&all[1..])), "10/11,1 tenant");
        assert_eq!(cell(&v1::Inventory::default()), "none,1 tenant");
    }

    #[test]
    fn every_feature_has_a_line_and_what_is_missing_a_remedy() {
        let server = inventory(&[(Kind::UidPerAttempt, false), (Kind::CgroupPids, true)]);
        let text = table(&server);
        assert!(text.contains("uid-per-attempt") && text.contains("run it as root"), "{text}");
        assert!(text.contains("two tenants never share this server"), "{text}");
        let lacks: Vec<(String, &str)> = lacks(&server).collect();
        assert_eq!(
            lacks,
            [(
                "jobs get no uid-per-attempt: not root; two tenants never share it".to_owned(),
                "run it as root"
            )]
        );
        assert!(table(&v1::Inventory::default()).contains("upgrade the agent"));
        assert_eq!(super::lacks(&v1::Inventory::default()).count(), 1);
        assert_eq!(super::lacks(&inventory(&[(Kind::CgroupPids, true)])).count(), 0);
    }
}
