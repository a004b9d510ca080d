//! What no honest agent can say.

use std::{fmt, net::SocketAddr};

use proto_model::{Claim, NodeName, ReasonCode};

/// Bytes shown of what a node has said.
pub(crate) const SHOWN: usize = 128;

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
    pub(crate) fn scope(&self, node: &NodeName) -> String {
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
