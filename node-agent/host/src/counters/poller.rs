//! All ports of a server, read in turn; what their health is follows.

use node_agent_health::{Event, PortKey, ReadFailure, State, Verdict, step};
use proto_model::{Nic, Timestamp};

use super::{
    port::{PortReader, identity},
    private::OpenStatistics,
};
use crate::sysfs::Tree;

struct Watched {
    nic: Nic,
    /// `None` until the device has been there.
    key: Option<PortKey>,
    reader: Option<PortReader>,
}

/// Reads the counters of all NICs.
pub struct Poller {
    tree: Tree,
    statistics: Box<dyn OpenStatistics>,
    ports: Vec<Watched>,
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
        Self { tree, statistics, ports: Vec::new(), lives: 0 }
    }

    /// These are the NICs now. One that was known goes on, also under another name; of one that is not among them any
    /// more nothing is read until it comes back.
    pub fn watch(&mut self, nics: &[Nic]) {
        let mut old = std::mem::take(&mut self.ports);
        for nic in nics {
            let key = identity(&self.tree, nic);
            let same = |port: &Watched| match (&key, &port.key) {
                (Some(one), Some(other)) => one == other,
                _ => port.nic.device == nic.device,
            };
            let port = match old.iter().position(same) {
                Some(at) => Watched { nic: nic.clone(), ..old.swap_remove(at) },
                None => Watched { nic: nic.clone(), key, reader: None },
            };
            self.ports.push(port);
        }
        // What is not named any more is not there; it is still looked for under its name.
        old.retain(|port| port.key.is_some());
        self.ports.extend(old);
        self.ports.truncate(node_agent_health::state::PORTS_MAX);
    }

    /// All NICs whose port has been seen.
    pub fn ports(&self) -> impl Iterator<Item = (&Nic, &PortKey)> {
        self.ports.iter().filter_map(|port| Some((&port.nic, port.key.as_ref()?)))
    }

    /// How many counters are read at each look, of all ports.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.ports
            .iter()
            .filter_map(|port| port.reader.as_ref())
            .map(|one| one.layout().columns().len())
            .sum()
    }

    /// Reads every port that is not to be left alone, and judges.
    pub fn look(&mut self, state: &mut State, now: Timestamp) -> Vec<Verdict> {
        let Self { tree, statistics, ports, lives } = self;
        for port in ports {
            if port.key.as_ref().is_some_and(|key| !state.wait(key, now).is_zero()) {
                continue;
            }
            if port.reader.is_none() {
                *lives += 1;
                port.reader = PortReader::open(tree, &port.nic, &**statistics, *lives);
                if let Some(reader) = &port.reader {
                    port.key = Some(reader.key().clone());
                }
            }
            let read = port.reader.as_mut().map(|reader| reader.read(&port.nic, now));
            let why = match read {
                Some(Ok(sample)) => {
                    step(state, &Event::Sample(sample), now);
                    continue;
                }
                Some(Err(why)) => why,
                None => ReadFailure::Absent,
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
