//! The largest job that is taken can be stored, with everything that it collects on its way.

use std::collections::BTreeMap;

use controller_core::Config;
use controller_store::Limits;
use prost::Message;
use proto_model::Job;
use proto_wire::{convert::LIMITS, v1};

/// As long as names are at sites that spell out room, row, rack and slot.
const NODE: usize = 32;
const NICS: u32 = 8;

fn time() -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: 1_900_000_000, nanos: 999_000_000 })
}

fn named(node: u32) -> String {
    format!("{:-<width$}n{node:05}", "room12-row07", width = NODE - 6)
}

fn place(node: u32) -> v1::NodePlace {
    let nic = |rail| v1::NicPlace {
        device: format!("mlx5_{rail:02}"),
        netdev: format!("enp2{rail:02}s0np0"),
        rail,
        leaf: format!("leaf-pod12-{rail:02}"),
        address: format!("10.100.1{rail:02}.200"),
    };
    v1::NodePlace {
        node: named(node),
        pod: "pod12".into(),
        gpus: (0..8).collect(),
        nics: (0..NICS).map(nic).collect(),
    }
}

fn status(nodes: u32, ranks: u32) -> v1::JobStatus {
    let each = ranks / nodes;
    let rank = |rank| v1::RankPlace {
        rank,
        node: named(rank / each),
        local_rank: rank % each,
        gpus: vec![rank % each],
        nic: format!("mlx5_{:02}", rank % NICS),
        rail: rank % NICS,
        leaf: format!("leaf-pod12-{:02}", rank % NICS),
    };
    let exit = |rank| v1::RankExit { rank, code: 137, signal: 9, time: time() };
    v1::JobStatus {
        phase: v1::job_status::Phase::Failed.into(),
        attempt: 1000,
        placement: Some(v1::Placement {
            nodes: (0..nodes).map(place).collect(),
            ranks: (0..ranks).map(rank).collect(),
            rails: (0..NICS).collect(),
            pods: 12,
            reasons: Vec::new(),
        }),
        submit_time: time(),
        start_time: time(),
        end_time: time(),
        exits: (0..ranks).map(exit).collect(),
        trace_parent: "0".repeat(55),
        ..v1::JobStatus::default()
    }
}

#[test]
fn the_largest_job_fits_into_a_stored_value() {
    let config = Config::default();
    assert_eq!(LIMITS.nodes, config.max_gang_nodes, "the wire and the core have one limit");
    let (nodes, ranks) = (LIMITS.nodes, config.max_ranks);
    let command = v1::Command {
        argv: vec!["x".repeat(LIMITS.command_bytes)],
        env: BTreeMap::new().into_iter().collect(),
        working_dir: "/".repeat(4096),
    };
    let job = v1::Job {
        metadata: Some(v1::Metadata {
            name: "j".repeat(63),
            tenant: "default".into(),
            uid: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
            ..v1::Metadata::default()
        }),
        spec: Some(v1::JobSpec {
            gang: Some(v1::Gang { nodes, gpus_per_node: 8, ranks_per_node: ranks / nodes }),
            work: Some(v1::job_spec::Work::Command(command)),
            ..v1::JobSpec::default()
        }),
        status: Some(status(nodes, ranks)),
        ..v1::Job::default()
    };
    let domain = Job::try_from(job.clone()).unwrap();
    let stored = v1::Job::from(&domain).encoded_len();
    let limit = Limits::default().value_bytes;
    assert!(stored <= limit, "{stored} bytes are stored, {limit} are taken");
    // The limit is not far below what would fit either.
    assert!(stored > limit / 2, "{stored} of {limit}");
}
