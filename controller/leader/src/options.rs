//! How the loop behaves.

use std::{sync::Arc, time::Duration};

use controller_core::Config;
use controller_store::{Source, SystemSource};
use proto_rpc::{Outbound, Revocations};
use tokio_util::sync::CancellationToken;

use crate::{seal::Seal, tenancies::Tenancies};

/// A leader that writes nothing looks so often whether it still leads.
pub(crate) const LEAD_CHECK: Duration = Duration::from_secs(2);

/// How the loop behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The core's limits and clocks.
    pub config: Config,
    /// Who leads, for people: host and process.
    pub holder: String,
    /// Clients' requests that may wait.
    pub client_queue: usize,
    /// Agents' messages that may wait; then agents wait.
    pub agent_queue: usize,
    /// Denials that may wait for the loop.
    pub denial_queue: usize,
    /// Signs the head of the audit log; without it nothing is signed, and nothing old is dropped.
    pub seal: Option<Seal>,
    /// How often a leader that writes nothing looks whether it still leads.
    pub lead_check: Duration,
    /// Where other controllers reach this one, `https://host:port`.
    pub endpoints: Vec<String>,
    /// What names this data folder of this machine, on which at most one process runs; empty: it is not known.
    pub place: Vec<u8>,
    /// A loop that is asked to end lets the lead go, so that a standby need not wait for evidence.
    pub release: bool,
    /// Sends the deliveries of webhooks; without it nothing is sent.
    pub webhooks: Option<Outbound>,
    /// What is revoked; shared with whoever lets callers in.
    pub revocations: Revocations,
    /// Which tenants there are; shared likewise.
    pub tenancies: Tenancies,
    /// Wall time and random bytes.
    pub source: Arc<dyn Source>,
    /// Ends the loop when it is cancelled.
    pub stop: CancellationToken,
}

impl Options {
    /// The defaults, for a controller that calls itself `holder`.
    #[must_use]
    pub fn new(holder: impl Into<String>, stop: CancellationToken) -> Self {
        let (config, holder) = (Config::default(), holder.into());
        Self {
            config,
            holder,
            client_queue: 4096,
            agent_queue: 8192,
            denial_queue: 1024,
            seal: None,
            lead_check: LEAD_CHECK,
            endpoints: Vec::new(),
            place: Vec::new(),
            release: false,
            webhooks: None,
            revocations: Revocations::default(),
            tenancies: Tenancies::default(),
            source: Arc::new(SystemSource),
            stop,
        }
    }
}
