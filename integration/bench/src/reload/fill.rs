//! The state of row D10, written with the controller's own codec: what a large cluster holds after some weeks of work.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use controller_core::{Attempt, Write};
use controller_leader::{codec, format::Format, keys, records};
use controller_store::{EmbeddedOptions, EtcdEndpoint, EtcdOptions, Filling, Op, REVISION_GAP};
use proto_model::{
    CommandSpec, FailurePolicy, Gang, Health, Job, JobId, JobKey, JobName, JobSpec, JobStatus, JobUid,
    NicPlace, Node, NodeEndpoints, NodeName, NodePlace, Phase, Placement, Quota, RailEndpoint, RailRequest,
    RankExit, RankPlace, Reason, ReasonCode, Requeue, Tenant, TenantName, Timestamp, Work,
};

use crate::{command_job::text, scheduler::site};

/// Of so many servers one job runs, on four of them; so many jobs wait; all others have ended.
const SERVERS_PER_RUN: u32 = 25;
const WAITING: u32 = 10_000;
const TENANTS: u32 = 50;
/// Milliseconds since 1970 of the first submit, and between two.
const FIRST: u64 = 1_780_000_000_000;
const APART: u64 = 1_000;
/// Servers of one leaf.
const BLOCK: u32 = 128;
/// A store with its own smaller limits splits; no transaction of this gets near.
const TOTAL_BYTES: u64 = 8 << 30;

/// Fills a store with the state of row D10, for a controller that is profiled by hand.
#[derive(Debug, clap::Args)]
pub struct Fill {
    /// A member of etcd, `http://host:port`; what is there under the usual prefix is deleted.
    #[arg(long, conflicts_with = "data_dir", required_unless_present = "data_dir")]
    etcd: Option<EtcdEndpoint>,
    /// The data folder of a controller that does not run; its embedded store is replaced.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    size: Size,
}

/// How much there is.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Size {
    /// Servers.
    #[arg(long, default_value_t = 125_000)]
    pub nodes: u32,
    /// Job records.
    #[arg(long, default_value_t = 1_000_000)]
    pub jobs: u32,
}

impl Fill {
    /// Fills the store that the options name.
    ///
    /// # Errors
    /// The store cannot be made or written.
    pub fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Runtime::new().map_err(text)?;
        runtime.block_on(async {
            let filling = match (self.etcd, self.data_dir) {
                (Some(endpoint), _) => in_etcd(endpoint).await?,
                (None, dir) => in_folder(dir.unwrap_or_default())?,
            };
            fill(filling, self.size).await
        })
    }
}

/// The usual prefix of an etcd.
///
/// # Errors
/// etcd cannot be reached, or holds something under the prefix.
pub async fn in_etcd(endpoint: EtcdEndpoint) -> Result<Filling, String> {
    Filling::etcd(EtcdOptions::new(vec![endpoint]), REVISION_GAP, true).await.map_err(text)
}

/// The embedded store of a data folder.
///
/// # Errors
/// The folder cannot be written, or holds a store.
pub fn in_folder(data_dir: PathBuf) -> Result<Filling, String> {
    let mut options = EmbeddedOptions::new(data_dir.join("store"));
    options.limits.txn_ops = 1000;
    options.limits.total_bytes = TOTAL_BYTES;
    Filling::embedded(options, REVISION_GAP, true).map_err(text)
}

/// Writes all rows of a state of this size.
///
/// # Errors
/// The store refuses a write.
pub async fn fill(mut filling: Filling, size: Size) -> Result<(), String> {
    let plan = site::Plan::of(&site::even(size.nodes, 1, BLOCK));
    put(&mut filling, Write::PutFabric(Arc::new(site::fabric(&plan)))).await?;
    let bootstrap = records::Bootstrap { time_ms: FIRST, version: "0".to_owned() };
    let value = prost::Message::encode_to_vec(&bootstrap);
    filling.put(keys::BOOTSTRAP.into(), value.into()).await.map_err(text)?;
    let format = Format::CURRENT.encode("rail-bench");
    filling.put(keys::FORMAT.into(), format.into()).await.map_err(text)?;
    for at in 0..TENANTS {
        put(&mut filling, Write::PutTenant(Arc::new(tenant(at)?))).await?;
    }
    for at in 0..size.nodes {
        put(&mut filling, Write::PutNode(Arc::new(node(at)?))).await?;
    }
    for at in 0..size.jobs {
        let job = job(at, size)?;
        if job.status.phase.holds() {
            put(&mut filling, Write::PutAttempt(Arc::new(attempt(&job)))).await?;
        }
        put(&mut filling, Write::PutJob(Arc::new(job))).await?;
    }
    // In a cluster that has been at work for weeks the history of weeks is gone too.
    filling.flush().await.map_err(text)?;
    let newest = filling.store().status().await.map_err(text)?.revision;
    filling.store().compact(newest).await.map_err(text)?;
    filling.finish().await.map(drop).map_err(text)
}

async fn put(filling: &mut Filling, write: Write) -> Result<(), String> {
    match codec::op(&write) {
        Op::Put { key, value, .. } => filling.put(key, value).await.map_err(text),
        other => Err(format!("{other:?} is no row")),
    }
}

fn tenant_name(at: u32) -> Result<TenantName, String> {
    let name = if at == 0 { "default".to_owned() } else { format!("team-{at:02}") };
    TenantName::new(name).map_err(text)
}

fn tenant(at: u32) -> Result<Tenant, String> {
    Ok(Tenant {
        name: tenant_name(at)?,
        uid: uuid::Uuid::from_u128(u128::from(at) + 1).to_string(),
        generation: 1,
        created: Timestamp(FIRST),
        description: String::new(),
        quota: Quota::new(1_000_000, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
    })
}

fn node(at: u32) -> Result<Node, String> {
    Ok(Node {
        name: node_name(at)?,
        uid: uuid::Uuid::from_u128((1 << 64) + u128::from(at)).to_string(),
        generation: 1,
        created: Timestamp(FIRST),
        unschedulable: false,
        unschedulable_reason: String::new(),
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        taints: [].into(),
        quarantined: None,
        strikes: Vec::new(),
        quarantine: Vec::new(),
        provisional: std::collections::BTreeSet::new(),
        inventory: site::inventory(0).into(),
        health: Health::Ready,
        health_since: Timestamp(FIRST),
        reasons: Vec::new(),
        agent_version: "0".to_owned(),
    })
}

fn node_name(at: u32) -> Result<NodeName, String> {
    NodeName::new(site::node_name(at)).map_err(text)
}

/// Most jobs are of one GPU, a quarter of one server, some of four.
fn job(at: u32, size: Size) -> Result<Job, String> {
    let runs = size.nodes / SERVERS_PER_RUN;
    let ended = size.jobs.saturating_sub(runs + WAITING);
    let running = at >= ended && at < ended + runs;
    let (nodes, gpus) = match at % 20 {
        _ if running => (4, 8),
        0 => (4, 8),
        1..=5 => (1, 8),
        _ => (1, 1),
    };
    let submitted = Timestamp(FIRST + u64::from(at) * APART);
    let phase = match at {
        _ if running => Phase::Running,
        at if at >= ended => Phase::Pending,
        at if at % 17 == 0 => Phase::Failed,
        _ => Phase::Completed,
    };
    let first = if running { at - ended } else { at } * nodes % size.nodes.saturating_sub(4).max(1);
    let placement = match phase {
        Phase::Pending => None,
        _ => Some(placement(first, nodes, gpus)?.into()),
    };
    let ended = phase.is_terminal().then(|| submitted.plus(Duration::from_secs(4000)));
    let mut random = [0; 8];
    random[..4].copy_from_slice(&at.wrapping_mul(0x9e37_79b9).to_be_bytes());
    let ranks = if phase.is_terminal() { nodes * gpus } else { 0 };
    let exit = |rank| RankExit {
        rank,
        code: 0,
        signal: 0,
        time: ended.unwrap_or_default(),
        usage: proto_model::RankUsage::default(),
    };
    Ok(Job {
        id: JobId {
            tenant: tenant_name(at % TENANTS)?,
            name: JobName::new(format!("train-{at:07}")).map_err(text)?,
        },
        uid: JobUid::ordered(submitted, 0, random),
        labels: BTreeMap::from([("team".to_owned(), "nlp".to_owned())]),
        generation: 1,
        spec: spec(nodes, gpus).into(),
        status: JobStatus {
            phase,
            reasons: reasons(phase),
            placement,
            attempt: 1,
            submitted,
            started: (phase != Phase::Pending).then(|| submitted.plus(Duration::from_secs(60))),
            ended,
            exits: (0..ranks).map(exit).collect(),
            result: None,
            trace_parent: String::new(),
            cancel_requested: false,
            array: None,
            preempted: 0,
            restarts: 0,
            replaced: 0,
            eta: None,
            holds: Vec::new(),
            submitter: None,
            schedule: None,
            past_attempts: Vec::new(),
        },
    })
}

fn reasons(phase: Phase) -> Vec<Reason> {
    match phase {
        Phase::Pending => {
            vec![
                Reason::new(ReasonCode::GangCapacity, "0 of the 4 nodes that the job needs can take it now")
                    .count(4),
            ]
        }
        Phase::Failed => vec![Reason::new(ReasonCode::RankFailed, "rank 0 ended with status 1").count(1)],
        _ => Vec::new(),
    }
}

fn spec(nodes: u32, gpus: u32) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["./train.sh".into(), "--config".into(), "run.yaml".into()],
        env: BTreeMap::from([("WANDB_MODE".to_owned(), "offline".to_owned())]),
        env_from: Vec::new(),
        working_dir: "/home/user/run".into(),
    });
    JobSpec {
        failure: FailurePolicy::new(Requeue::OnInfrastructure, 3),
        rails: RailRequest { none: gpus == 1, ..RailRequest::default() },
        ..JobSpec::new(Gang::new(nodes, gpus, gpus), work)
    }
}

fn placement(first: u32, nodes: u32, gpus: u32) -> Result<Placement, String> {
    let rails = if gpus == 1 { 0 } else { site::RAILS };
    let mut made = Placement { rails: (0..rails).collect(), pods: 1, ..Placement::default() };
    for at in 0..nodes {
        let (server, node) = (first + at, node_name(first + at)?);
        let leaf = |rail: u32| format!("leaf-{:04}-00-{rail}", server / BLOCK);
        let nic = |rail: u32| NicPlace {
            device: format!("mlx5_{rail}"),
            netdev: format!("eth{rail}"),
            rail,
            leaf: leaf(rail),
            address: None,
        };
        let rank = |local: u32| RankPlace {
            rank: at * gpus + local,
            node: node.clone(),
            local_rank: local,
            gpus: vec![local],
            nic: if rails == 0 { String::new() } else { format!("mlx5_{local}") },
            rail: if rails == 0 { 0 } else { local },
            leaf: if rails == 0 { String::new() } else { leaf(local) },
        };
        made.ranks.extend((0..gpus).map(rank));
        made.nodes.push(NodePlace {
            node: node.clone(),
            pod: format!("pod{:04}", server / BLOCK),
            gpus: (0..gpus).collect(),
            nics: (0..rails).map(nic).collect(),
            remapped: false,
            cpus: 0,
            memory_bytes: 0,
        });
    }
    Ok(made)
}

fn attempt(job: &Job) -> Attempt {
    let places = job.status.placement.iter().flat_map(|placement| &placement.nodes);
    let listener = |rail| RailEndpoint { rail, address: ([10, 0, 0, 1], 4000).into() };
    let peer = |place: &NodePlace| NodeEndpoints {
        node: place.node.clone(),
        endpoints: (0..site::RAILS).map(listener).collect(),
    };
    Attempt {
        uid: job.uid,
        attempt: 1,
        key: JobKey::new([7; 32]),
        peers: places.map(peer).collect(),
        since: job.status.submitted.plus(Duration::from_secs(50)),
        released: true,
        again: false,
        ending: None,
    }
}
