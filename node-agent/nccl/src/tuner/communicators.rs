//! The communicators of this process, and what each agreed on when it was made.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::cost::{Advice, Collective, Communicator, advise};
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
            let model = client.agree(key)?;
            logger.info(&format!(
                "tuner: {nodes} servers, {} rails, {} ps a byte on one, {} ns a trip, {} ns a message, weakest server {}/1024",
                model.rails, model.beta_ps, model.alpha_ns, model.overhead_ns, model.capacity
            ));
            Communicator::new(nodes, &model).map(Arc::new)
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

/// Adds what a collective costs on the rails to NCCL's table.
pub(crate) fn choose(
    number: u64,
    collective: i32,
    bytes: u64,
    table: &mut [f32],
    protocols: usize,
) -> Result<Advice, NetError> {
    let found = ALL.read().unwrap_or_else(PoisonError::into_inner).all.get(&number).cloned();
    let known = found
        .ok_or_else(|| NetError::new(Code::Internal, "there is no such communicator: it was finalized"))?;
    Ok(match (known, Collective::from_number(collective)) {
        (Some(communicator), Some(collective)) => advise(&communicator, collective, bytes, table, protocols),
        _ => Advice::default(),
    })
}

/// A communicator is gone.
pub(crate) fn end(number: u64) {
    ALL.write().unwrap_or_else(PoisonError::into_inner).all.remove(&number);
}
