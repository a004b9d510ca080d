//! A node speaks of itself only. What it reports is taken apart here before anything is concluded from it:
//!
//! - **Its own** is taken over.
//! - **Stale or beside the point** (an attempt that is over, a rail that the job does not have, a result from a node without rank 0)
//!   is left out and counted: late, repeated and reordered reports are no offence.
//! - **Untrue** is what no honest agent can say at any time: a cause that only the controller may say, another node's rank, a peer or
//!   an endpoint that is not of this node, an epoch that never was, hardware that another node has. It is left out, and the node is
//!   quarantined with the evidence: no job is placed there until an administrator has seen to it (`railctl node return`). What runs
//!   there goes on, and nothing is concluded about any other node.

mod hardware;
mod report;

use std::{fmt, net::SocketAddr, sync::Arc};

use proto_audit::{Actor, Object};
use proto_model::{Claim, Node, NodeName, Reason, ReasonCode};

use crate::{event::ClaimVerdict, step::Step};

pub(crate) use hardware::ClaimIndex;
pub(crate) use report::{Admitted, admit};

/// Pieces of evidence kept of one node.
const EVIDENCE_MAX: usize = 8;
/// Bytes shown of what a node has said.
const SHOWN: usize = 128;
/// Whom the audit log names for what the controller does by itself.
pub(crate) const SELF: &str = "controller";

/// What a node has said that cannot be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Untruth {
    /// A cause that only the controller may say.
    Cause { code: String, scope: String },
    /// A cause about somebody else.
    Scope { code: String, scope: String },
    /// The end of a rank that is not its own.
    Rank { rank: u32, first: u32, ranks: u32 },
    /// A measurement with itself, or with a node that the gang does not have.
    Peer { peer: u32, size: u32 },
    /// An engine that listens on an address that is not the node's own on that rail.
    Endpoint { rail: u32, address: SocketAddr },
    /// An epoch that this cluster never had.
    Epoch { seen: u64, own: u64 },
    /// Hardware of another node.
    Hardware { claim: Claim, holder: NodeName },
}

impl Untruth {
    /// What the evidence is about: the thing that was claimed, or the node itself.
    fn scope(&self, node: &NodeName) -> String {
        match self {
            Self::Hardware { claim, .. } => claim.to_string(),
            _ => format!("node/{node}"),
        }
    }

    /// The code of the evidence.
    pub(crate) fn code(&self) -> ReasonCode {
        match self {
            Self::Cause { .. } => ReasonCode::ControllerCauseClaimed,
            Self::Scope { .. } => ReasonCode::ForeignScopeClaimed,
            Self::Rank { .. } => ReasonCode::ForeignRankClaimed,
            Self::Peer { .. } => ReasonCode::ForeignPeerClaimed,
            Self::Endpoint { .. } => ReasonCode::ForeignEndpointClaimed,
            Self::Epoch { .. } => ReasonCode::EpochClaimed,
            Self::Hardware { .. } => ReasonCode::HardwareClaimed,
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect::<String>().escape_debug().to_string()
}

impl fmt::Display for Untruth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cause { code, scope } => write!(
                f,
                "it reported the cause {} about '{}', which only the controller may say",
                shown(code),
                shown(scope)
            ),
            Self::Scope { code, scope } => {
                write!(f, "it reported the cause {} about '{}', which it is not", shown(code), shown(scope))
            }
            Self::Rank { rank, first, ranks } => {
                write!(f, "it reported the end of rank {rank}; its own are {ranks} from rank {first}")
            }
            Self::Peer { peer, size } => {
                write!(
                    f,
                    "it reported a measurement with node {peer} of a gang of {size}, which is no peer of it"
                )
            }
            Self::Endpoint { rail, address } => {
                write!(
                    f,
                    "it reported that its engine listens on {address}, which is not its address on rail {rail}"
                )
            }
            Self::Epoch { seen, own } => {
                write!(f, "it reported epoch {seen}, which this cluster never had; the leader's is {own}")
            }
            Self::Hardware { claim, holder } => {
                write!(f, "it reported {claim} as its own, which node '{holder}' has")
            }
        }
    }
}

impl Step<'_> {
    /// Takes a node out of service with the evidence. The same evidence twice changes nothing.
    pub(crate) fn quarantine(&mut self, name: &NodeName, untruth: &Untruth) {
        self.out.claims.push(ClaimVerdict::Untrue(untruth.code()));
        let Some(node) = self.state.base.nodes.get(name).cloned() else { return };
        let evidence = Reason::new(untruth.code(), untruth.to_string()).scope(untruth.scope(name));
        let evidence = evidence.since(self.now);
        let known = |old: &Reason| old.code == evidence.code && old.message == evidence.message;
        if node.quarantine.len() >= EVIDENCE_MAX || node.quarantine.iter().any(known) {
            return;
        }
        let message = format!(
            "{untruth}; no job is placed here until somebody has looked at its agent and its certificate (see Evidence), then \
             `railctl node return {name}`"
        );
        self.out.claims.push(ClaimVerdict::Quarantined(untruth.code()));
        self.quarantined.push((name.clone(), evidence.clone()));
        let mut quarantine = node.quarantine.clone();
        quarantine.push(evidence);
        let first = node.quarantine.is_empty();
        let quarantined = if first {
            Some(Reason::new(ReasonCode::Quarantined, message).since(self.now))
        } else {
            node.quarantined.clone()
        };
        self.state.set_node(name, Some(Arc::new(Node { quarantine, quarantined, ..(*node).clone() })));
        self.refresh_jobs_of(name);
    }

    /// One record in the audit log of all that this step has found untrue. (A step writes into one row of the log.)
    pub(crate) fn note_quarantines(&mut self) {
        let found = std::mem::take(&mut self.quarantined);
        let Some((name, first)) = found.first() else { return };
        let words: Vec<String> =
            found.iter().map(|(name, evidence)| format!("{name}: {}", evidence.message)).collect();
        let actor = Actor {
            who: SELF.to_owned(),
            rpc: first.code.to_string(),
            request: words.join("; ").chars().take(4 * SHOWN).collect(),
            ..Actor::default()
        };
        let object = Object { kind: "quarantine".to_owned(), name: name.to_string(), ..Object::default() };
        self.record_own(Arc::new(actor), object);
    }

    /// What a node has said is left out: it is late, or nobody needs it from this node.
    pub(crate) fn ignored(&mut self, what: &'static str) {
        self.out.claims.push(ClaimVerdict::Ignored(what));
    }
}
