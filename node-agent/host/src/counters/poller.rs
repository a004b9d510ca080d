//! All ports of a server, read in turn; what their health is follows.

use node_agent_health::{Event, PortKey, ReadFailure, State, Verdict, step};
use proto_model::{Nic, Timestamp};

use super::{
    port::{PortReader, has_rdma, identity},
    private::OpenStatistics,
};
use crate::sysfs::Tree;

struct Watched {
    nic: Nic,
    /// `None` until the device has been there.
    key: Option<PortKey>,
    reader: Option<PortReader>,
    /// It has been an RDMA device: while only its network device is there, it is away.
    rdma: bool,
}

impl Watched {
    fn open(
        &mut self,
        tree: &Tree,
        statistics: &dyn OpenStatistics,
        life: u64,
    ) -> Result<&mut PortReader, ReadFailure> {
        let rdma = has_rdma(tree, &self.nic);
        if self.rdma && !rdma {
            return Err(ReadFailure::Absent);
        }
        let reader = PortReader::open(tree, &self.nic, statistics, life)?;
        self.rdma = rdma;
        self.key = Some(reader.key().clone());
        Ok(self.reader.insert(reader))
    }

    /// Reads its counters into its reader. Where the device has others by now it is opened again: the layout is another, and what was
    /// counted goes on.
    fn check(
        &mut self,
        tree: &Tree,
        statistics: &dyn OpenStatistics,
        lives: &mut u64,
    ) -> Result<(), ReadFailure> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                *lives += 1;
                self.open(tree, statistics, *lives)?
            }
        };
        reader.check()?;
        if reader.is_outdated() {
            let life = reader.life();
            self.open(tree, statistics, life)?.check()?;
        }
        Ok(())
    }
}

/// Reads the counters of all NICs.
pub struct Poller {
    tree: Tree,
    statistics: Box<dyn OpenStatistics>,
    ports: Vec<Watched>,
    /// Keys of network devices whose RDMA device has come, and the key of that: one port all the same.
    joined: Vec<(PortKey, PortKey)>,
    lives: u64,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller")
            .field("ports", &self.ports.len())
            .field("lives", &self.lives)
            .finish_non_exhaustive()
    }
}

impl Poller {
    /// Nothing yet, of the server below `root`.
    #[must_use]
    pub fn new(tree: Tree, statistics: Box<dyn OpenStatistics>) -> Self {
        Self { tree, statistics, ports: Vec::new(), joined: Vec::new(), lives: 0 }
    }

    /// These are the NICs now. One that was known goes on, also under another name, and where only its network device is left; of one that
    /// is not among them any more nothing is read until it comes back.
    pub fn watch(&mut self, nics: &[Nic]) {
        let mut old = std::mem::take(&mut self.ports);
        for nic in nics {
            let (key, rdma) = (identity(&self.tree, nic), has_rdma(&self.tree, nic));
            let same = |port: &Watched| match (&key, &port.key) {
                (Some(one), Some(other)) => one == other,
                _ => port.nic.device == nic.device,
            };
            let lost = |port: &Watched| port.rdma && !rdma && port.nic.netdev == nic.netdev;
            let known = old.iter().position(same).or_else(|| old.iter().position(lost));
            let port = match known.map(|at| old.swap_remove(at)) {
                Some(port) => {
                    // What was opened under another name is not all that is there under this one.
                    let same = port.nic.netdev == nic.netdev && rdma == port.rdma;
                    let reader = port.reader.filter(|_| same);
                    Watched { nic: nic.clone(), key: port.key, reader, rdma: port.rdma || rdma }
                }
                None => Watched { nic: nic.clone(), key, reader: None, rdma },
            };
            self.ports.push(port);
        }
        for port in old {
            let of_it = |other: &&Watched| other.rdma && other.nic.netdev == port.nic.netdev;
            let whole = self.ports.iter().filter(|_| !port.rdma).find(of_it);
            match (&port.key, whole.and_then(|whole| whole.key.as_ref())) {
                (Some(half), Some(whole)) => self.joined.push((half.clone(), whole.clone())),
                // What is not named any more is not there; it is still looked for under its name.
                (Some(_), None) => self.ports.push(port),
                (None, _) => {}
            }
        }
        self.ports.truncate(node_agent_health::state::PORTS_MAX);
    }

    /// All NICs whose port has been seen.
    pub fn ports(&self) -> impl Iterator<Item = (&Nic, &PortKey)> {
        self.ports.iter().filter_map(|port| Some((&port.nic, port.key.as_ref()?)))
    }

    /// How many counters are read each time, of all ports.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.ports
            .iter()
            .filter_map(|port| port.reader.as_ref())
            .map(|one| one.layout().columns().len())
            .sum()
    }

    /// Reads every port that is not to be left alone, and judges.
    pub fn check(&mut self, state: &mut State, now: Timestamp) -> Vec<Verdict> {
        let Self { tree, statistics, ports, joined, lives } = self;
        for (half, whole) in joined.drain(..) {
            state.join(&half, &whole);
        }
        for port in ports {
            if port.key.as_ref().is_some_and(|key| !state.wait(key, now).is_zero()) {
                continue;
            }
            let why = match port.check(tree, &**statistics, lives) {
                Ok(()) => {
                    if let Some(reader) = &port.reader {
                        step(state, &Event::Sample(reader.sample(&port.nic, now)), now);
                    }
                    continue;
                }
                Err(why) => why,
            };
            if why == ReadFailure::Absent {
                // It is opened again when it is back.
                port.reader = None;
            }
            if let Some(key) = &port.key {
                step(state, &Event::Failed { port: key, why }, now);
            }
        }
        step(state, &Event::Round, now)
    }
}
