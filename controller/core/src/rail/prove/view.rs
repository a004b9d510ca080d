//! Rails that wait for proof, as they are shown.

use proto_model::{NicProbe, NodeName, Reason, ReasonCode};

use super::place;
use crate::state::State;

impl State {
    /// How it stands with a node's rails that are out of use until a probe of theirs passes.
    #[must_use]
    pub fn proof_reasons(&self, name: &NodeName) -> Vec<Reason> {
        let topology = self.index.snapshot.topology();
        let Some(server) = topology.index(name).and_then(|ix| topology.server(ix)) else { return Vec::new() };
        let reason = |rail: u32| {
            let (_, health) = place(server, rail)?;
            let health = health?;
            let port = (name.clone(), rail);
            let trial = self.base.proving.trials.get(&port);
            let pair = self.base.proving.pairs.get(&port);
            let now = match (pair, trial.filter(|trial| trial.attempts > 0)) {
                (Some(pair), _) => format!("it is being probed with {}", pair.partner),
                (None, Some(trial)) if health.wants_probe() => {
                    format!(
                        "after {} probe(s) the next comes in its turn, with another server",
                        trial.attempts
                    )
                }
                (None, None) if health.wants_probe() => {
                    "it is probed as soon as another server on this rail is well and free".to_owned()
                }
                (None, _) => "its agent asks for a probe when it was quiet for long enough".to_owned(),
            };
            let last = health.probe.as_ref().map(last).unwrap_or_default();
            let message = format!("rail {rail} is out of use until something proves it well: {now}{last}");
            Some(Reason::new(ReasonCode::RailUnproved, message).scope(format!("node/{name}:{rail}")))
        };
        server.unfit.iter().filter_map(reason).collect()
    }

    /// Rails of servers that are out of use until something proves them well, as far as agents are heard.
    pub(crate) fn unproved(&self) -> usize {
        self.base.proving.trials.len()
    }
}

fn last(probe: &NicProbe) -> String {
    let NicProbe { peer, outcome, message, .. } = probe;
    format!("; the last one, with {peer}, {outcome}: {message}")
}
