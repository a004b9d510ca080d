//! Causes of failure as ranks get them: from the collective's failures to the codes of the rank protocol.

use node_agent_collective::error::CauseKind;
use node_agent_collective::{CallError, Failure};
use node_agent_ipc::{Failure as RankFailure, FailureCode};

use crate::config::Config;

/// A failure that is not about a peer or a rail.
pub(crate) fn plain(code: FailureCode, text: impl Into<String>) -> RankFailure {
    RankFailure { code, rank: None, node: None, rail: None, text: text.into() }
}

/// A failure about a rank.
pub(crate) fn about_rank(code: FailureCode, rank: u32, text: impl Into<String>) -> RankFailure {
    RankFailure { rank: Some(rank), ..plain(code, text) }
}

/// The cause as the ranks get it, with the names of node and device that the collective does not know.
pub(crate) fn of_failure(failure: &Failure, config: &Config) -> RankFailure {
    let node = failure.node().map(usize::from);
    let rails = config.ordered_rails();
    let rail = failure.rail().and_then(|rail| rails.get(usize::from(rail)));
    let mut text = failure.to_string();
    if let Some(node) = node {
        text += &format!("; {}", config.node_name(node));
    }
    if let Some(rail) = rail {
        text += &format!(", rail {} here is {} at {}", rail.rail, rail.device, rail.address);
    }
    let rank = match failure {
        Failure::RankGone(rank) | Failure::BufferGone { rank, .. } => Some(*rank),
        Failure::Timeout { waiting, .. } => waiting.ranks.first().copied(),
        _ => None,
    };
    RankFailure {
        code: code_of(failure),
        rank,
        node: node.and_then(|node| u32::try_from(node).ok()),
        rail: rail.map(|rail| rail.rail.into()),
        text,
    }
}

/// Why a call was not even begun.
pub(crate) fn of_call_error(error: &CallError, config: &Config) -> RankFailure {
    match error {
        CallError::Failed(failure) => of_failure(failure, config),
        CallError::TooMany { .. } => plain(FailureCode::Exhausted, error.to_string()),
        _ => plain(FailureCode::InvalidArgument, error.to_string()),
    }
}

/// Whether the cluster failed, not a rank: a peer or a rail is gone, or a peer's engine makes no sense, here or as another
/// node reports it.
pub(crate) fn is_loss(failure: &Failure) -> bool {
    match failure {
        Failure::PeerLost { .. } | Failure::Protocol { .. } => true,
        Failure::Remote { cause, .. } => {
            matches!(cause.kind, CauseKind::PeerLost | CauseKind::Protocol)
        }
        _ => false,
    }
}

/// Whether the failure is a peer's that is gone: whoever says so is not what failed.
pub(crate) fn is_peer_lost(failure: &Failure) -> bool {
    match failure {
        Failure::PeerLost { .. } => true,
        Failure::Remote { cause, .. } => cause.kind == CauseKind::PeerLost,
        _ => false,
    }
}

/// The peer that is gone, where that is the failure and it is known which. Never this node itself: another one that missed it would
/// be wrong, since this one is here.
pub(crate) fn lost_peer(failure: &Failure, config: &Config) -> Option<usize> {
    let node = match failure {
        Failure::PeerLost { node, .. } => *node,
        Failure::Remote { cause, .. } if cause.kind == CauseKind::PeerLost => cause.node?,
        _ => return None,
    };
    let index = usize::from(node);
    (index != config.node && index < config.nodes.len()).then_some(index)
}

fn code_of(failure: &Failure) -> FailureCode {
    match failure {
        Failure::Mismatch { .. } | Failure::Shape { .. } => FailureCode::Mismatch,
        Failure::Timeout { .. } | Failure::Expired(_) => FailureCode::TimedOut,
        Failure::PeerLost { .. } | Failure::PeerLeft(_) => FailureCode::PeerLost,
        Failure::Protocol { .. } => FailureCode::Protocol,
        Failure::BufferGone { .. } => FailureCode::InvalidArgument,
        Failure::RankGone(_) => FailureCode::RankLost,
        Failure::Stopped(_) => FailureCode::Stopped,
        Failure::Remote { cause, .. } => match cause.kind {
            CauseKind::Mismatch | CauseKind::Shape => FailureCode::Mismatch,
            CauseKind::Timeout => FailureCode::TimedOut,
            CauseKind::PeerLost | CauseKind::PeerLeft => FailureCode::PeerLost,
            CauseKind::Protocol => FailureCode::Protocol,
            CauseKind::BufferGone => FailureCode::InvalidArgument,
            CauseKind::RankGone => FailureCode::RankLost,
            CauseKind::Stopped => FailureCode::Stopped,
            CauseKind::Unknown => FailureCode::Internal,
        },
    }
}
