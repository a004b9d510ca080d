//! The largest job that is taken can be stored, with everything that it collects on its way.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use controller_core::{Config, Event, Register};
use controller_leader::Refusal;
use controller_store::Limits;
use prost::Message;
use proto_model::{Gpu, Health, Inventory, Job, NodeName, Work};
use proto_wire::{convert::LIMITS, v1};

use crate::{
    store::{Mood, Moody},
    world::{PATIENCE, World, submit, who},
};

/// As long as names are at sites that spell out room, row, rack and slot.
const NODE: usize = 32;
const NICS: u32 = 8;
/// Turns of the loop in which nothing happens.
const TURNS: usize = 200;

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
        remapped: false,
        cpus: 65_536,
        memory_bytes: 1 << 52,
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
    let exit = |rank| v1::RankExit { rank, code: 137, signal: 9, time: time(), ..v1::RankExit::default() };
    v1::JobStatus {
        phase: v1::job_status::Phase::Failed.into(),
        attempt: 1000,
        placement: Some(v1::Placement {
            nodes: (0..nodes).map(place).collect(),
            ranks: (0..ranks).map(rank).collect(),
            rails: (0..NICS).collect(),
            pods: 12,
            ..v1::Placement::default()
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
        ..v1::Command::default()
    };
    let job = v1::Job {
        metadata: Some(v1::Metadata {
            name: "j".repeat(63),
            tenant: "default".into(),
            uid: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
            ..v1::Metadata::default()
        }),
        spec: Some(v1::JobSpec {
            gang: Some(v1::Gang {
                nodes,
                gpus_per_node: 8,
                ranks_per_node: ranks / nodes,
                ..v1::Gang::default()
            }),
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

#[tokio::test]
async fn one_event_that_is_too_large_does_not_take_the_others_along() {
    let store = Moody::limited(Limits { value_bytes: 4000, txn_ops: 4096, ..Limits::default() });
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    store.set(Mood::Held);
    let submits: Vec<_> = (0..10)
        .map(|n| {
            let (handle, mut event) = (world.handle.clone(), submit(&format!("j{n}"), None));
            if let (Event::Submit(submit), 5) = (&mut event, n)
                && let Work::Command(command) = &mut submit.spec.work
            {
                command.argv.push("x".repeat(5000));
            }
            tokio::spawn(async move { handle.apply(&who(), event).await })
        })
        .collect();
    let before = store.txns.load(Ordering::Relaxed);
    world.until("a transaction is held", |_| store.txns.load(Ordering::Relaxed) > before).await;
    store.release();
    for (n, submit) in submits.into_iter().enumerate() {
        let answer = submit.await.unwrap();
        assert_eq!(answer.is_ok(), n != 5, "{n}: {answer:?}");
        assert!(!matches!(&answer, Err(error) if !matches!(error, Refusal::TooLarge { .. })));
    }
    assert_eq!(world.jobs().await, 9);
}

async fn health(world: &World, name: &str) -> Health {
    let name: NodeName = name.parse().unwrap();
    world.handle.query(move |state, _| state.node(&name).unwrap().health).await.unwrap()
}

#[tokio::test]
async fn a_deadline_that_cannot_be_stored_neither_loops_nor_keeps_up_others() {
    let store = Moody::new(4096);
    let world = World::start_with(store.clone(), |options| {
        // Longer than it takes until the store is narrow.
        options.config.heartbeat_limit = Duration::from_secs(5);
    });
    let world = world.await;
    let mut sessions = Vec::new();
    for (name, gpus) in [("n0", 64), ("n1", 0), ("n2", 0)] {
        let node: NodeName = name.parse().unwrap();
        let hash = [name.as_bytes()[1]; 32];
        world
            .handle
            .apply(&who(), Event::CreateToken { node: node.clone(), hash, lifetime: None })
            .await
            .unwrap();
        world.handle.apply(&who(), Event::Join { node: node.clone(), hash, csr: hash }).await.unwrap();
        let gpu = |index| Gpu {
            index,
            uuid: "x".repeat(60),
            model: String::new(),
            pci_address: String::new(),
            numa_node: None,
            memory_bytes: 0,
            facts: None,
        };
        let inventory = Inventory { gpus: (0..gpus).map(gpu).collect(), ..Inventory::default() };
        let register = Register {
            node,
            session: 0,
            agent_version: "test".into(),
            inventory: inventory.into(),
            observations: Vec::new(),
            epoch: 0,
        };
        sessions.push(world.handle.connect(register).await.unwrap());
    }
    store.set(Mood::Narrow(1500));
    // All fall silent. The first one's new health cannot be stored; the others' can.
    let begin = Instant::now();
    while health(&world, "n1").await == Health::Ready || health(&world, "n2").await == Health::Ready {
        assert!(begin.elapsed() < PATIENCE, "the others were kept up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(health(&world, "n0").await, Health::Ready);
    let before = store.txns.load(Ordering::Relaxed);
    // Each question is a turn of the loop. One that tried again in each turn would have made as many transactions.
    for _ in 0..TURNS {
        assert_eq!(health(&world, "n0").await, Health::Ready);
    }
    let made = store.txns.load(Ordering::Relaxed) - before;
    assert!(made < TURNS / 10, "{made} transactions in {TURNS} turns although nothing happened");
    assert!(world.handle.store_health().writable);
}
