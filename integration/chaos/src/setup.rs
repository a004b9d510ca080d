//! Makes the cluster: links, disks, certificates, processes; and waits until every node is ready.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use integration_harness::eventually;
use proto_rpc::{Ca, ca::NODE_LIFETIME};
use proto_wire::v1::{self, node_service_client::NodeServiceClient};
use tokio::runtime::Runtime;

use crate::{
    callers::Callers,
    disks::Disk,
    history::History,
    members, nemesis, net,
    parts::{Parts, Programs, write_inventory},
    plan::{Part, Shape},
    proxy::Door,
};

/// Room of a member's disk, and of an agent's, in MiB.
const ROOM: (u64, u64) = (448, 64);
/// GPUs of a node.
const GPUS: usize = 2;
/// Longest wait for anything to serve.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster that runs.
pub struct World {
    /// The processes of the cluster.
    pub parts: Arc<Parts>,
    /// How callers reach its controllers.
    pub callers: Callers,
    /// What calls run on.
    pub runtime: Runtime,
}

/// Any error as its text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl World {
    /// Makes it in this folder, in namespaces of this process.
    ///
    /// # Errors
    /// What could not be made.
    pub fn make(dir: &Path, shape: &Shape, programs: Programs) -> Result<Self, String> {
        // Names of namespaces and shared memory are this run's own.
        for place in ["/run/netns", "/dev/shm"] {
            fs::create_dir_all(place).map_err(text)?;
            net::feed(Command::new("mount").args(["-t", "tmpfs", "none", place]), "")?;
        }
        for folder in ["disks", "parts", "logs", "clocks", "inventories", "etcd-tls", "ranks/locks"] {
            fs::create_dir_all(dir.join(folder)).map_err(text)?;
        }
        let history = Arc::new(History::create(&dir.join("history.jsonl")).map_err(text)?);
        let counts = (shape.members, shape.agents);
        let parts = Arc::new(Parts::new(dir, programs, counts, Arc::clone(&history)));
        net::lay(&parts.every())?;
        disks(&parts, shape)?;
        for part in parts.every() {
            fs::write(parts.clock(part), "+0").map_err(text)?;
            fs::create_dir_all(parts.folder(part).parent().unwrap_or(dir)).map_err(text)?;
        }
        certificates(&parts)?;
        start_etcd(&parts)?;
        start_controllers(&parts)?;
        let runtime = Runtime::new().map_err(text)?;
        let callers = runtime.block_on(async {
            let mut doors = Vec::new();
            for n in 0..shape.members {
                let address: Ipv4Addr = net::address(Part::Controller(n)).parse().map_err(text)?;
                doors.push(Door::open(SocketAddr::from((address, 7443))).await.map_err(text)?);
            }
            Ok::<_, String>(Callers {
                doors,
                admin: parts.folder(Part::Controller(0)),
                history,
                me: std::env::current_exe().map_err(text)?,
                ranks: dir.join("ranks"),
                over: Arc::new(AtomicBool::new(false)),
                at_work: Arc::default(),
            })
        })?;
        let world = Self { parts, callers, runtime };
        world.start_agents(shape)?;
        Ok(world)
    }

    fn start_agents(&self, shape: &Shape) -> Result<(), String> {
        for n in 0..shape.agents {
            let part = Part::Agent(n);
            write_inventory(&self.parts.dir.join("inventories").join(format!("n{n}.json")), n, GPUS)?;
            let token = eventually("a controller that leads", PATIENCE, || {
                self.runtime.block_on(async {
                    let client = self.callers.client(0..shape.members).ok()?;
                    let request = v1::CreateJoinTokenRequest { node: part.to_string(), lifetime: None };
                    let token = NodeServiceClient::new(client).create_join_token(request).await;
                    token.ok().map(tonic::Response::into_inner)
                })
            })?;
            self.parts.say(part, &["--join-token", &token.token, "--ca-pin", &token.ca_pin]);
            self.parts.start(part)?;
        }
        eventually("every node to be ready", PATIENCE, || {
            let health = self.runtime.block_on(async {
                let client = self.callers.client(0..shape.members).ok()?;
                self.callers.health(&client).await.ok()
            })?;
            (health.nodes_ready as usize == shape.agents).then_some(())
        })?;
        // From now on they have certificates; a token works once.
        (0..shape.agents).for_each(|n| self.parts.say(Part::Agent(n), &[]));
        Ok(())
    }
}

fn disks(parts: &Parts, shape: &Shape) -> Result<(), String> {
    let dir = parts.dir.join("disks");
    for n in 0..shape.members {
        Disk::make(&dir, &Part::Etcd(n).to_string(), ROOM.0)?;
    }
    for n in 0..shape.agent_disks {
        Disk::make(&dir, &Part::Agent(n).to_string(), ROOM.1)?;
    }
    Ok(())
}

/// etcd has an authority of its own. Its certificates outlive every jump of a clock.
fn certificates(parts: &Parts) -> Result<(), String> {
    let dir = parts.dir.join("etcd-tls");
    let now = SystemTime::now();
    let ca = Ca::create("etcd", now, NODE_LIFETIME * 2).map_err(text)?;
    fs::write(dir.join("ca.pem"), ca.certificate_pem()).map_err(text)?;
    let members = (0..parts.members)
        .map(|n| (format!("e{n}"), vec![net::address(Part::Etcd(n)), "127.0.0.1".to_owned()]));
    for (name, names) in members.chain([("client".to_owned(), Vec::new())]) {
        let leaf = ca.issue_server(&names, NODE_LIFETIME, now).map_err(text)?;
        fs::write(dir.join(format!("{name}.pem")), &leaf.issued.chain_pem).map_err(text)?;
        fs::write(dir.join(format!("{name}.key")), &leaf.key_pem).map_err(text)?;
    }
    Ok(())
}

fn start_etcd(parts: &Parts) -> Result<(), String> {
    (0..parts.members).try_for_each(|n| parts.start(Part::Etcd(n)))?;
    (0..parts.members).try_for_each(|n| {
        eventually(&format!("e{n} to be well"), PATIENCE, || members::well(n).then_some(()))
    })
}

fn start_controllers(parts: &Parts) -> Result<(), String> {
    let first = parts.folder(Part::Controller(0));
    let mut init = Command::new(parts.programs.bin.join("rail-controller"));
    net::feed(init.arg("init").arg("--data-dir").arg(&first), "")?;
    for n in 0..parts.members {
        let part = Part::Controller(n);
        let folder = parts.folder(part);
        fs::create_dir_all(&folder).map_err(text)?;
        for file in ["ca.pem", "ca.key", "store.keys"].iter().filter(|_| n > 0) {
            fs::copy(first.join(file), folder.join(file)).map_err(text)?;
        }
        parts.start(part)?;
        let address = net::address(part);
        eventually(&format!("{part} to serve"), PATIENCE, || nemesis::listens(&address, 7443).then_some(()))?;
    }
    Ok(())
}
