//! Round trips, and every wrong field named.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message as _;
use proto_model::{
    Algorithm, AlgorithmChoice, CollectiveOp, CollectiveSpec, CommandSpec, Drain, DrainTarget, Dtype,
    EngineOptions, EnvSource, JobSpec, JobUid, NodeName, Observation, Observed, Placement, RailReport,
    RailState, ReduceOp, Timestamp, ValuesKind, ValuesName, Work,
    rails::{MAX_CHOICE_REASONS, MAX_CHOICES, MAX_REPORT_TEXT, MAX_REPORTS},
};

use super::{FieldErrors, documents_tests::spec, time_from_wire, time_to_wire};
use crate::v1;

pub(super) fn work() -> impl Strategy<Value = Work> {
    let command = (proptest::collection::vec("[a-z]{1,8}", 1..4), "[A-Z]{1,4}", "[^\0]{0,8}").prop_map(
        |(argv, key, value)| {
            Work::Command(CommandSpec {
                argv,
                env: BTreeMap::from([(key.clone(), value)]),
                env_from: vec![EnvSource {
                    variable: key,
                    kind: ValuesKind::Secret,
                    object: ValuesName::new("s3").unwrap(),
                    key: "tls.crt".to_owned(),
                }],
                working_dir: String::new(),
            })
        },
    );
    let collective = (0usize..7, 0usize..6, 0usize..4, 0u64..1 << 20, any::<bool>()).prop_map(
        |(op, dtype, reduce, n, verify)| {
            Work::Collective(CollectiveSpec {
                op: CollectiveOp::ALL[op],
                bytes: n * 8,
                dtype: Dtype::ALL[dtype],
                reduce: ReduceOp::ALL[reduce],
                iterations: 3,
                warmup: 1,
                verify,
            })
        },
    );
    prop_oneof![command, collective]
}

proptest! {
    #[test]
    fn a_spec_survives_the_wire(spec in spec()) {
        let wire = v1::JobSpec::from(&spec);
        let bytes = wire.encode_to_vec();
        let back = JobSpec::try_from(v1::JobSpec::decode(bytes.as_slice()).unwrap()).unwrap();
        prop_assert_eq!(&spec, &back);
        prop_assert_eq!(v1::JobSpec::from(&back), wire);
    }

    #[test]
    fn any_bytes_are_taken_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(wire) = v1::Assignment::decode(bytes.as_slice()) {
            let _ = proto_model::Assignment::try_from(wire);
        }
        if let Ok(wire) = v1::Observation::decode(bytes.as_slice()) {
            let _ = proto_model::Observation::try_from(wire);
        }
        if let Ok(wire) = v1::Job::decode(bytes.as_slice()) {
            let _ = proto_model::Job::try_from(wire);
        }
        if let Ok(wire) = v1::JobSpec::decode(bytes.as_slice())
            && let Ok(spec) = JobSpec::try_from(wire)
        {
            prop_assert_eq!(spec.check(), Ok(()));
        }
        if let Ok(wire) = v1::Queue::decode(bytes.as_slice()) {
            let _ = proto_model::Queue::try_from(wire);
        }
        if let Ok(wire) = v1::Reservation::decode(bytes.as_slice()) {
            let _ = proto_model::Reservation::try_from(wire);
        }
        if let Ok(wire) = v1::Node::decode(bytes.as_slice()) {
            let _ = proto_model::Node::try_from(wire);
        }
    }

    #[test]
    fn times_survive(millis in 0u64..4_000_000_000_000) {
        prop_assert_eq!(time_from_wire(time_to_wire(Timestamp(millis))), Ok(Timestamp(millis)));
    }
}

fn observation(rails: u32, choices: u64, text: &str) -> Observation {
    let report = |rail: u32| RailReport {
        rail,
        state: RailState::WORDS.get(rail as usize).map(|pair| pair.0),
        since: Timestamp(1234),
        tx_bytes: 1 << 40,
        rx_bytes: 2,
        tx_rate: 3,
        rx_rate: 4,
        flaps: 5,
        cause: text.to_owned(),
        peers: 6,
        peers_up: 7,
    };
    let choice = |at: u64| AlgorithmChoice {
        operation: "all-reduce".into(),
        bytes: at,
        algorithm: text.to_owned(),
        reasons: vec![text.to_owned(); at as usize + 1],
    };
    Observation {
        uid: JobUid::from_random([7; 16]),
        attempt: 2,
        state: Observed::Running,
        endpoints: Vec::new(),
        exits: Vec::new(),
        cause: None,
        result: None,
        rails: Vec::new(),
        reports: (0..rails).map(report).collect(),
        choices: (0..choices).map(choice).collect(),
        measured: None,
    }
}

#[test]
fn reports_of_rails_survive_the_wire() {
    let seen = observation(6, 3, "reset by peer");
    let bytes = v1::Observation::from(&seen).encode_to_vec();
    let back = Observation::try_from(v1::Observation::decode(bytes.as_slice()).unwrap()).unwrap();
    assert_eq!(back, seen);
    assert_eq!(back.reports[5].state, None);
}

#[test]
fn reports_of_rails_are_cut_to_what_is_kept() {
    let wire = v1::Observation::from(&observation(500, 500, &"ö".repeat(1000)));
    let back = Observation::try_from(wire).unwrap();
    assert_eq!((back.reports.len(), back.choices.len()), (MAX_REPORTS, MAX_CHOICES));
    assert!(back.reports.iter().all(|report| report.cause.len() <= MAX_REPORT_TEXT));
    assert!(back.choices.iter().all(|choice| choice.reasons.len() <= MAX_CHOICE_REASONS));
}

#[test]
fn drains_survive_the_wire_and_odd_ones_are_refused() {
    let node = NodeName::new("n1").unwrap();
    for target in [DrainTarget::Rail(3), DrainTarget::Leaf("l".into()), DrainTarget::Port { node, rail: 1 }] {
        let drain = Drain { target, reason: "x".into(), by: "y".into(), since: Timestamp(9) };
        assert_eq!(Drain::try_from(v1::RailDrain::from(&drain)), Ok(drain));
    }
    assert_eq!(errors(Drain::try_from(v1::RailDrain::default())), ["target", "since"]);
}

fn errors<T: std::fmt::Debug>(result: Result<T, FieldErrors>) -> Vec<String> {
    result.unwrap_err().0.into_iter().map(|error| error.field).collect()
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let wire = v1::JobSpec {
        gang: Some(v1::Gang {
            nodes: 0,
            gpus_per_node: 99,
            ranks_per_node: 1,
            cpus_per_node: 65_537,
            memory_per_node: (1 << 52) + 1,
            ..Default::default()
        }),
        priority: 5000,
        time_limit: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
        work: Some(v1::job_spec::Work::Collective(v1::Collective {
            bytes: 6,
            dtype: 1,
            ..Default::default()
        })),
        ..Default::default()
    };
    let found = errors(JobSpec::try_from(wire));
    assert_eq!(
        found,
        [
            "gang.nodes",
            "gang.gpusPerNode",
            "gang.cpusPerNode",
            "gang.memoryPerNode",
            "priority",
            "timeLimit",
            "collective.op"
        ]
    );
}

#[test]
fn memory_that_was_meant_in_another_unit_is_refused() {
    let asked = |memory_per_node| {
        let gang = v1::Gang { nodes: 1, cpus_per_node: 8, memory_per_node, ..Default::default() };
        JobSpec::try_from(v1::JobSpec { gang: Some(gang), ..with_engine(v1::EngineOptions::default()) })
    };
    assert_eq!(errors(asked(64)), ["gang.memoryPerNode"]);
    let gang = asked(64 << 30).unwrap().gang;
    assert_eq!((gang.cpus_per_node, gang.memory_per_node), (8, 64 << 30));
    assert_eq!(asked(0).unwrap().gang.memory_per_node, 0);
}

#[test]
fn a_command_with_nul_is_refused() {
    let wire = v1::JobSpec {
        gang: Some(v1::Gang { nodes: 1, ..Default::default() }),
        work: Some(v1::job_spec::Work::Command(v1::Command {
            argv: vec!["a\0b".into()],
            ..Default::default()
        })),
        ..Default::default()
    };
    assert_eq!(errors(JobSpec::try_from(wire)), ["command.argv[0]"]);
}

fn with_engine(engine: v1::EngineOptions) -> v1::JobSpec {
    v1::JobSpec {
        gang: Some(v1::Gang { nodes: 1, ..Default::default() }),
        engine: Some(engine),
        work: Some(v1::job_spec::Work::Command(v1::Command { argv: vec!["x".into()], ..Default::default() })),
        ..Default::default()
    }
}

#[test]
fn what_is_not_said_of_the_engine_is_the_default_and_stays_unsaid() {
    let spec = JobSpec::try_from(with_engine(v1::EngineOptions::default())).unwrap();
    assert_eq!(spec.engine, EngineOptions::default());
    let (checksum, reproducible, pairs) =
        (spec.engine.checksum, spec.engine.reproducible, spec.engine.queue_pairs);
    assert_eq!((checksum, reproducible, spec.engine.algorithm, pairs), (false, true, None, 1));
    assert_eq!(v1::JobSpec::from(&spec).engine, None);
    let loose = v1::EngineOptions { reproducible: Some(false), ..Default::default() };
    let spec = JobSpec::try_from(with_engine(loose.clone())).unwrap();
    assert!(!spec.engine.reproducible);
    assert_eq!(v1::JobSpec::from(&spec).engine, Some(loose));
}

#[test]
fn protection_is_none_unless_it_is_asked_for() {
    use v1::engine_options::Protection;
    for (given, taken) in [(0, "none"), (1, "none"), (2, "integrity"), (3, "encrypted")] {
        let wire = with_engine(v1::EngineOptions { protection: given, ..Default::default() });
        let spec = JobSpec::try_from(wire).unwrap();
        assert_eq!(spec.engine.protection.as_str(), taken);
        let back = v1::JobSpec::from(&spec).engine.unwrap_or_default().protection();
        let same = Protection::try_from(given).unwrap();
        assert!(back == same || taken == "none");
    }
    let errors = JobSpec::try_from(with_engine(v1::EngineOptions { protection: 9, ..Default::default() }))
        .unwrap_err();
    assert_eq!(errors.0[0].field, "engine.protection");
}

#[test]
fn queue_pairs_are_one_to_eight() {
    for (given, taken) in [(0, 1), (1, 1), (2, 2), (8, 8)] {
        let wire = with_engine(v1::EngineOptions { queue_pairs: given, ..Default::default() });
        let spec = JobSpec::try_from(wire).unwrap();
        assert_eq!(spec.engine.queue_pairs, taken);
        assert_eq!(JobSpec::try_from(v1::JobSpec::from(&spec)).unwrap(), spec);
    }
    let wire = with_engine(v1::EngineOptions { queue_pairs: 9, ..Default::default() });
    assert_eq!(errors(JobSpec::try_from(wire)), ["engine.queuePairs"]);
}

#[test]
fn an_unknown_algorithm_is_refused_and_the_known_ones_are_named() {
    for given in ["rng", "Ring", "RING", " ring", "one_shot", "ring\0"] {
        let wire = with_engine(v1::EngineOptions { algorithm: given.into(), ..Default::default() });
        let error = JobSpec::try_from(wire).unwrap_err();
        let [found] = error.0.as_slice() else { panic!("{given}: {error}") };
        assert_eq!(found.field, "engine.algorithm");
        let text = error.to_string();
        assert!(Algorithm::ALL.iter().all(|known| text.contains(known.as_str())), "{text}");
    }
}

#[test]
fn a_duration_that_could_not_be_written_again_is_refused() {
    let longest = prost_types::Duration { seconds: 315_576_000_000, nanos: 5 };
    assert_eq!(super::duration_to_wire(super::duration_from_wire(longest).unwrap()), longest);
    let longer = prost_types::Duration { seconds: longest.seconds + 1, nanos: 0 };
    assert!(super::duration_from_wire(longer).unwrap_err().to_string().contains("longer than"));
}

#[test]
fn a_time_that_could_not_be_shown_is_refused() {
    let last = prost_types::Timestamp { seconds: 253_402_300_799, nanos: 999_000_000 };
    assert_eq!(time_to_wire(time_from_wire(last).unwrap()), last);
    assert!(time_from_wire(prost_types::Timestamp { seconds: last.seconds + 1, nanos: 0 }).is_err());
}

#[test]
fn ranks_must_be_in_order() {
    let rank = |rank| v1::RankPlace { rank, node: "n0".into(), ..Default::default() };
    let wire = v1::Placement { ranks: vec![rank(0), rank(2)], ..Default::default() };
    assert_eq!(errors(Placement::try_from(wire)), ["ranks"]);
}

#[test]
fn a_fabric_with_everything_survives_the_wire() {
    let names = |text: &str| proto_model::Names::new(text).unwrap();
    let fabric = proto_model::Fabric {
        name: "f".into(),
        rails: vec![proto_model::Rail { index: 0, name: "r".into() }],
        leaves: vec![proto_model::Leaf {
            name: "l".into(),
            pod: "p".into(),
            plane: 1,
            down: true,
            rail: 0,
            more_rails: vec![2, 3],
        }],
        link_groups: vec![proto_model::LinkGroup {
            nodes: names("gpu[001-064,070]"),
            nic: "mlx5_0".into(),
            leaf: "l".into(),
            ports: names("Ethernet1/[1-65]"),
            speed_mbps: 400_000,
            rail: Some(3),
        }],
        spines: vec![proto_model::Spine {
            name: "s".into(),
            rail: 1,
            more_rails: vec![2],
            plane: 1,
            down: true,
        }],
        uplinks: vec![proto_model::Uplink {
            lower: names("l"),
            upper: names("s[1-3]"),
            cables: 4,
            speed_mbps: 1,
            down: 2,
        }],
        ..proto_model::Fabric::default()
    };
    assert_eq!(proto_model::Fabric::try_from(v1::Fabric::from(&fabric)), Ok(fabric));
}

#[test]
fn every_wrong_field_of_a_fabric_is_named() {
    let spec = v1::FabricSpec {
        leaves: vec![v1::Leaf { name: "l".into(), plane: 2, ..Default::default() }],
        link_groups: vec![
            v1::LinkGroup { nodes: "gpu[1-".into(), nic: "n".into(), leaf: "l".into(), ..Default::default() },
            v1::LinkGroup { nodes: "GPU[1-2]".into(), ports: "e1".into(), ..Default::default() },
            v1::LinkGroup {
                nodes: "n[1-9]".into(),
                nic: "n".into(),
                leaves: "l[1-3]".into(),
                nodes_per_leaf: 5,
                ..Default::default()
            },
        ],
        leaf_groups: vec![v1::LeafGroup {
            names: "l[1-3]".into(),
            pods: "p[1-2]".into(),
            ..Default::default()
        }],
        spines: vec![v1::Spine { name: String::new(), plane: 9, ..Default::default() }],
        uplinks: vec![v1::Uplink { lower: "a,,b".into(), down: 2, ..Default::default() }],
        ..Default::default()
    };
    let wire = v1::Fabric {
        api_version: "rail/v1".into(),
        kind: "Fabric".into(),
        spec: Some(spec),
        ..Default::default()
    };
    let errors = proto_model::Fabric::try_from(wire).unwrap_err();
    let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.leaves[0].pod",
            "spec.leaves[0].plane",
            "spec.spines[0].name",
            "spec.spines[0].plane",
            "spec.uplinks[0].lower",
            "spec.uplinks[0].upper",
            "spec.uplinks[0].down",
            "spec.leafGroups[0].pods",
            "spec.linkGroups[0].nodes",
            "spec.linkGroups[1].nic",
            "spec.linkGroups[1].nodes",
            "spec.linkGroups[1].ports",
            "spec.linkGroups[1].leaf",
            "spec.linkGroups[2].nodesPerLeaf",
        ],
        "{errors}"
    );
}

#[test]
fn what_a_server_hears_survives_the_wire() {
    let neighbor =
        |netdev: &str| v1::Neighbor { netdev: netdev.into(), switch: "leaf-1".into(), port: "e1".into() };
    let wire = v1::Inventory { neighbors: vec![neighbor("ens2"), neighbor("ens1")], ..Default::default() };
    let inventory = proto_model::Inventory::try_from(wire).unwrap();
    assert_eq!(inventory.neighbors[0].netdev, "ens1");
    assert_eq!(proto_model::Inventory::try_from(v1::Inventory::from(&inventory)), Ok(inventory));
    let bad = v1::Inventory { neighbors: vec![neighbor("")], ..Default::default() };
    assert_eq!(proto_model::Inventory::try_from(bad).unwrap_err().0[0].field, "neighbors[0].netdev");
}

#[test]
fn what_is_wrong_with_nics_survives_the_wire() {
    let condition = |code: &str, severity| v1::NicCondition {
        code: code.into(),
        severity,
        message: "0.99 of the time".into(),
        since: Some(crate::convert::time_to_wire(proto_model::Timestamp(1_700_000_000_123))),
        probe: severity == 3,
    };
    let nic =
        |device: &str, conditions| v1::NicHealth { device: device.into(), score: 0, conditions, probe: None };
    let probe = Some(v1::NicProbe { id: 7, peer: "n2".into(), outcome: 1, ..Default::default() });
    let health = vec![
        v1::NicHealth { probe, ..nic("mlx5_1", vec![condition("Storm", 3)]) },
        nic("mlx5_0", vec![condition("Lossy", 2)]),
    ];
    let inventory = proto_model::Inventory::try_from(v1::Inventory { health, ..Default::default() }).unwrap();
    assert_eq!(inventory.health[0].device, "mlx5_0");
    assert!(inventory.is_fit("mlx5_0") && !inventory.is_fit("mlx5_1") && inventory.is_fit("mlx5_2"));
    assert_eq!(
        inventory.health.iter().map(proto_model::NicHealth::wants_probe).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(proto_model::Inventory::try_from(v1::Inventory::from(&inventory)), Ok(inventory));
    let bad = vec![
        nic("", vec![]),
        v1::NicHealth { score: 101, ..nic("a", vec![condition("Storm", 0), condition("no code", 1)]) },
        nic("b", vec![v1::NicCondition { message: "two\nlines".into(), ..condition("Storm", 9) }]),
    ];
    let errors =
        proto_model::Inventory::try_from(v1::Inventory { health: bad, ..Default::default() }).unwrap_err();
    let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
    let right = [
        "health[0].device",
        "health[1].score",
        "health[1].conditions[0].severity",
        "health[1].conditions[1].code",
        "health[2].conditions[0].severity",
        "health[2].conditions[0].message",
    ];
    assert_eq!(fields, right, "{errors}");
}

#[test]
fn lists_mean_what_single_things_mean_and_back() {
    let names = |text: &str| proto_model::Names::new(text).unwrap();
    let spec = v1::FabricSpec {
        rails: vec![v1::Rail { index: 0, name: "r".into() }],
        leaf_groups: vec![v1::LeafGroup {
            names: "l[1-3]".into(),
            pods: "p[1-3]".into(),
            ..Default::default()
        }],
        spine_groups: vec![v1::SpineGroup { names: "s[1-2]".into(), ..Default::default() }],
        link_groups: vec![v1::LinkGroup {
            nodes: "n[01-10]".into(),
            nic: "mlx5_0".into(),
            leaves: "l[1-3]".into(),
            nodes_per_leaf: 4,
            ports: "e[1-4]".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let wire = v1::Fabric {
        api_version: "rail/v1".into(),
        kind: "Fabric".into(),
        spec: Some(spec),
        ..Default::default()
    };
    let fabric = proto_model::Fabric::try_from(wire.clone()).unwrap();
    assert_eq!((fabric.leaves.len(), fabric.spines.len(), fabric.link_groups.len()), (3, 2, 3));
    assert_eq!((fabric.leaves[2].name.as_str(), fabric.leaves[2].pod.as_str()), ("l3", "p3"));
    let last = &fabric.link_groups[2];
    assert_eq!((last.leaf.as_str(), &last.nodes, &last.ports), ("l3", &names("n[09-10]"), &names("e[1-2]")));
    assert_eq!(super::compact_fabric(&fabric).spec, wire.spec);
    let mut odd = fabric.clone();
    odd.leaves[1].down = true;
    odd.link_groups.swap(0, 2);
    let again = super::compact_fabric(&odd);
    assert_eq!(proto_model::Fabric::try_from(again), Ok(odd));
    let endless = v1::LinkGroup {
        nodes: "n[1-1000000]".into(),
        nic: "a".into(),
        leaf: "l1".into(),
        ..Default::default()
    };
    let mut huge = wire;
    huge.spec.as_mut().unwrap().link_groups = vec![endless; 1000];
    let errors = proto_model::Fabric::try_from(huge).unwrap_err();
    assert!(errors.0[0].message.contains("more than the 4000000"), "{errors}");
}
