//! The communicators of this process, and what each agreed on when it was made.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use node_agent_client::{Error, FailureCode, RailModel};

use super::cost::{Collective, Communicator, advise};
use crate::abi::Logger;
use crate::core::handle::digest;
use crate::error::{Code, NetError};
use crate::state::lock;

/// Communicators that a process may have.
const MOST: usize = 1 << 14;

#[derive(Debug)]
struct Communicators {
    next: u64,
    /// Without a model where NCCL is to choose by itself.
    all: BTreeMap<u64, Option<Arc<Communicator>>>,
}

static ALL: RwLock<Communicators> = RwLock::new(Communicators { next: 0, all: BTreeMap::new() });

/// A communicator is made, of so many ranks on so many servers; `id` is the same on all of its ranks, where NCCL says it. Gives its number.
pub(crate) fn begin(id: Option<u64>, ranks: u64, nodes: usize, logger: Logger) -> Result<u64, NetError> {
    let client = lock().attached.as_ref().map(crate::attached::Attached::client);
    let communicator = match client {
        Some(client) if nodes > 1 => {
            // Without an id all communicators of this size share what the first of them agreed on.
            let key =
                id.unwrap_or_else(|| digest(&[ranks.to_le_bytes(), (nodes as u64).to_le_bytes()].concat()));
            advised(client.agree(key), nodes, logger)?
        }
        Some(_) => None,
        None => {
            logger.info("tuner: this process does not use NET/Rail, so NCCL chooses by itself");
            None
        }
    };
    let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
    if all.all.len() >= MOST {
        return Err(NetError::new(Code::Internal, format!("this process has {MOST} communicators already")));
    }
    all.next += 1;
    let number = all.next;
    all.all.insert(number, communicator);
    Ok(number)
}

/// What was agreed on as a model; none where the first server has left, which its engine says to all who ask alike. Where the answer is not known others
/// may have one, and ranks that choose by different numbers wait for each other for ever: such a communicator is not made.
fn advised(
    agreed: Result<RailModel, Error>,
    nodes: usize,
    logger: Logger,
) -> Result<Option<Arc<Communicator>>, NetError> {
    match agreed {
        Ok(model) => {
            logger.info(&format!(
                "tuner: {nodes} servers, {} rails, {} ps a byte on one, {} ns a trip, weakest server {}/1024",
                model.rails, model.beta_ps, model.alpha_ns, model.capacity
            ));
            Ok(Communicator::new(nodes, &model).map(Arc::new))
        }
        Err(Error::Failed { failure, .. }) if failure.code == FailureCode::PeerLost => {
            logger
                .warn(&format!("tuner: what rails cost is not known ({failure}), so NCCL chooses by itself"));
            Ok(None)
        }
        Err(error) => Err(NetError::new(
            Code::Remote,
            format!(
                "tuner: ranks have not agreed on what rails cost ({error}); NCCL_TUNER_PLUGIN=none is without them"
            ),
        )),
    }
}

/// Adds what a collective costs on the rails to NCCL's table.
pub(crate) fn choose(
    number: u64,
    collective: i32,
    bytes: u64,
    table: &mut [f32],
    protocols: usize,
) -> Result<(), NetError> {
    let found = ALL.read().unwrap_or_else(PoisonError::into_inner).all.get(&number).cloned();
    let known = found
        .ok_or_else(|| NetError::new(Code::Internal, "there is no such communicator: it was finalized"))?;
    if let (Some(communicator), Some(collective)) = (known, Collective::from_number(collective)) {
        advise(&communicator, collective, bytes, table, protocols);
    }
    Ok(())
}

/// A communicator is gone.
pub(crate) fn end(number: u64) {
    ALL.write().unwrap_or_else(PoisonError::into_inner).all.remove(&number);
}
