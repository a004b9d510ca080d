//! Servers whose agents say what is not true: of other servers, of ranks that are not theirs, of hardware that another one has. They are
//! quarantined, or not heard; nobody else ever is, and no attempt ends by what they said of another server.

use controller_core::Write;
use proto_model::{Observation, Observed, RankExit, Reason, ReasonCode, Timestamp};

use crate::{
    faults::Fault,
    network::ToController,
    rng::Rng,
    world::{Event, World},
};

/// What every lie about an attempt says.
const LIE: &str = "a lie";
/// Causes that they give.
const CODES: [&str; 6] =
    ["NodeLost", "AttemptLost", "NotCertified", "EngineLost", "SupervisorLost", "Whatever"];

impl World {
    /// A server's agent says something untrue, and is honest again after a while, when an administrator takes it back.
    pub fn lies(&mut self, node: usize, rng: &mut Rng) {
        let other = rng.below(self.nodes.len());
        if self.calm || other == node {
            return;
        }
        self.nodes[node].suspect = true;
        if rng.chance(300) && self.nodes[other].powered {
            self.notify(|| format!("n{node} poses as n{other}"));
            self.nodes[node].pose(Some(other));
            self.report_inventory(node);
        } else {
            self.lies_of_an_attempt(node, other, rng);
        }
        let wait = rng.range(1000..60_000);
        self.after(wait, Event::Fault(Fault::Honest(node)));
    }

    fn lies_of_an_attempt(&mut self, node: usize, other: usize, rng: &mut Rng) {
        let server = &self.nodes[node];
        let Some(connection) = server.connection else { return };
        let records: Vec<Observation> = server
            .records
            .values()
            .map(node_agent_core::Record::observation)
            .filter(|seen| seen.state != Observed::Ended)
            .collect();
        let Some(seen) = records.get(rng.below(records.len())).cloned() else { return };
        let code = CODES[rng.below(CODES.len())];
        self.notify(|| format!("n{node} says {code} of n{other}"));
        let cause = Some(Reason::new(ReasonCode::from_text(code), LIE).scope(format!("node/n{other}")));
        let mut exits = seen.exits.clone();
        if rng.chance(300) {
            let rank = u32::try_from(rng.below(8)).unwrap_or(0) + 64;
            exits.push(RankExit {
                rank,
                code: 1,
                signal: 0,
                time: Timestamp(1),
                usage: proto_model::RankUsage::default(),
            });
        }
        let lie = Observation { cause, exits, ..seen };
        self.send_to_controller(connection, ToController::Observation(Box::new(lie)));
    }

    /// The agent says what is so, and an administrator takes the server back.
    pub fn is_honest(&mut self, node: usize) {
        self.nodes[node].pose(None);
        self.report_inventory(node);
        self.after(100, Event::Fault(Fault::Schedulable(node)));
    }

    fn is_suspect(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.name.as_str() == name && node.suspect)
    }

    /// What is stored blames nobody for what another one has said.
    pub fn check_blame(&mut self, write: &Write) {
        match write {
            Write::PutNode(node) if node.is_quarantined() => {
                self.report.quarantined += 1;
                if !self.is_suspect(node.name.as_str()) {
                    self.violated(format!(
                        "{} is quarantined, and has said nothing untrue: {:?}",
                        node.name, node.quarantine
                    ));
                }
            }
            Write::PutAttempt(attempt) => {
                let causes = attempt.ending.iter().flat_map(|ending| &ending.causes);
                let lies = causes.filter(|cause| {
                    cause.message.contains(LIE) || cause.code == ReasonCode::NodeClaimRefused
                });
                let scopes: Vec<&str> = lies.map(|cause| cause.scope.as_str()).collect();
                let wrong = scopes
                    .iter()
                    .find(|scope| scope.strip_prefix("node/").is_none_or(|name| !self.is_suspect(name)));
                if let Some(scope) = wrong {
                    self.violated(format!("an attempt ends by a lie about '{scope}'"));
                }
            }
            _ => {}
        }
    }
}
