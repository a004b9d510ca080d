//! Which rails go over RDMA verbs, and why the others do not.

use std::net::IpAddr;

use node_agent_engine_transport::TcpRails;
use node_agent_engine_verbs::VerbsCarrier;
use tracing::info;

use crate::config::{Config, Protection, Transport, Verbs};
use crate::error::EngineError;

/// In place of the system's libibverbs, for tests.
const LIBRARY: &str = "RAIL_VERBS_LIBRARY";

/// Rails that are to be carried.
pub(crate) struct CarrySetup<'a> {
    /// The job, for messages.
    pub(crate) job: &'a str,
    /// The rails' numbers in the fabric, and this node's own address on each, in the order that engines count them.
    pub(crate) rails: Vec<(u16, IpAddr)>,
    pub(crate) nodes: usize,
    pub(crate) transport: Transport,
    pub(crate) protection: Protection,
    pub(crate) verbs: Verbs,
}

impl<'a> CarrySetup<'a> {
    pub(crate) fn of(config: &'a Config) -> Self {
        let rails = config.ordered_rails().iter().map(|rail| (rail.rail, rail.address)).collect();
        let (nodes, transport, verbs) = (config.nodes.len(), config.transport, config.verbs);
        CarrySetup { job: &config.job, rails, nodes, transport, protection: config.protection, verbs }
    }

    /// Has verbs carry the rails that have them, as far as that is wanted, and says why the others are not.
    pub(crate) fn fulfil(&self, rails: &mut TcpRails) -> Result<(), EngineError> {
        if self.transport == Transport::Tcp || self.nodes < 2 {
            return Ok(());
        }
        if self.protection != Protection::None {
            let why = "the job's rails are protected, and RDMA devices read and write the ranks' memory without \
                       encrypting or verifying it";
            if self.transport == Transport::Verbs {
                return Err(EngineError::Verbs(why.to_owned()));
            }
            info!(job = self.job, "rails go over TCP: {why}");
            return Ok(());
        }
        let wanted = node_agent_engine_verbs::Config {
            rails: self.rails.iter().map(|(_, address)| *address).collect(),
            nodes: self.nodes,
            pairs: self.verbs.pairs,
            traffic_class: self.verbs.traffic_class,
            library: std::env::var_os(LIBRARY).map(Into::into),
        };
        let (job, only) = (self.job, self.transport == Transport::Verbs);
        let carrier = match VerbsCarrier::open(&wanted) {
            Ok(carrier) => carrier,
            Err(why) if only => return Err(EngineError::Verbs(why)),
            Err(why) => {
                info!(job, "rails go over TCP: {why}");
                return Ok(());
            }
        };
        for (index, (rail, _)) in (0..).zip(&self.rails) {
            match carrier.device(index) {
                Ok(device) => info!(job, rail, device, "rail goes over verbs"),
                Err(why) if only => return Err(EngineError::Verbs(format!("rail {rail}: {why}"))),
                Err(why) => info!(job, rail, "rail goes over TCP: {why}"),
            }
        }
        Ok(rails.carry(Box::new(carrier), only)?)
    }
}
