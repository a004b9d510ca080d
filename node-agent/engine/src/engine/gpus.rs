//! Memory of GPUs that ranks register.

use std::sync::Arc;

use node_agent_collective::{Call, Operation};
use node_agent_ipc::{Failure as RankFailure, FailureCode, Lent, MAX_NEIGHBOURS, Region, RegionError, Reply};
use tracing::info;

use crate::engine::Engine;
use crate::failure::plain;
use crate::gpus::{Came, Offer, check_kind};
use crate::ranks::RankBuffer;

impl Engine {
    /// Takes memory of a GPU. Where rails cannot send from it, that is no failure: the answer says why, and names no buffer.
    pub(crate) fn register(
        &mut self,
        token: usize,
        offer: &Offer<'_>,
        came: Came,
    ) -> Result<Reply, RankFailure> {
        let invalid = |text: String| plain(FailureCode::InvalidArgument, text);
        let file = match came {
            Came::File(file) => file,
            Came::Nothing => return Err(invalid("no dma-buf came with the memory that was lent".into())),
            Came::Lost => {
                let text = "the engine can open no more files (ulimit -n)";
                return Err(plain(FailureCode::Exhausted, text));
            }
        };
        self.check_room(token, offer.bytes)?;
        check_kind(&file)?;
        let memory = Region::of_device(file, offer.offset, offer.bytes);
        let memory = Arc::new(memory.map_err(|error: RegionError| invalid(error.to_string()))?);
        let lent = match self.reach(offer.gpu, &memory) {
            Ok(()) => {
                let buffer = self.ranks.keep(token, RankBuffer { region: memory, file: None });
                let rails = self.rails_of_gpu(offer.gpu);
                self.lent(buffer, format!("rails send from the GPU's memory by its dma-buf{rails}"))
            }
            Err(why) => self.lent(0, why),
        };
        info!(
            gpu = offer.gpu,
            bytes = offer.bytes,
            direct = lent.buffer != 0,
            why = lent.why,
            "memory of a GPU"
        );
        Ok(Reply::Lent(lent))
    }

    fn check_room(&self, token: usize, bytes: u64) -> Result<(), RankFailure> {
        let limits = self.config.limits;
        let (buffers, held) = self.ranks.held(token);
        if buffers >= limits.buffers || held.saturating_add(bytes) > limits.gpu_bytes {
            let text = format!(
                "{bytes} bytes of a GPU more than {held}: a rank may lend {} bytes, and hold {} buffers in all",
                limits.gpu_bytes, limits.buffers
            );
            return Err(plain(FailureCode::Exhausted, text));
        }
        Ok(())
    }

    fn lent(&self, buffer: u32, why: String) -> Lent {
        let apart = self.config.ranks.len() == self.config.nodes.len();
        Lent { buffer, why, here: self.local_ranks.clone(), apart }
    }

    /// What the agent found of the way from this GPU, as text behind the reasons for it.
    fn rails_of_gpu(&self, gpu: &str) -> String {
        let known = self.config.gpus.iter().find(|known| known.gpu == gpu);
        known.map_or_else(String::new, |known| format!("; {}", known.why))
    }

    /// Has all rails send from it, or says why not.
    fn reach(&mut self, gpu: &str, memory: &Arc<Region>) -> Result<(), String> {
        if self.config.nodes.len() < 2 {
            return Err("all ranks are on this server and hand everything to each other in its memory".into());
        }
        if self.config.checksum {
            return Err("the job has checksums, for which the processor reads what is sent".into());
        }
        if self.local_ranks.len() > MAX_NEIGHBOURS {
            return Err(format!("more than {MAX_NEIGHBOURS} ranks are on this server"));
        }
        if let Some(known) = self.config.gpus.iter().find(|known| known.gpu == gpu && !known.dma_buf) {
            return Err(known.why.clone());
        }
        self.rails.lend(memory)
    }

    /// Whether a call may have operands on a GPU, where they are there.
    pub(crate) fn check_devices(
        &self,
        rank: u32,
        call: &Call,
        source: Option<&(Arc<Region>, usize)>,
        target: Option<&(Arc<Region>, usize)>,
    ) -> Result<(), RankFailure> {
        let on_device =
            |place: Option<&(Arc<Region>, usize)>| place.is_some_and(|(m, _)| m.device().is_some());
        let invalid = |why: &str| plain(FailureCode::InvalidArgument, format!("{call}: {why}"));
        let same = source.zip(target).is_some_and(|(a, b)| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1);
        let root = matches!(call.operation, Operation::Broadcast { root } if root == rank);
        match (on_device(source), on_device(target)) {
            (false, false) => Ok(()),
            (true, to) if to != root || (root && !same) => {
                Err(invalid("an operand that is on a GPU is only sent, so a result goes elsewhere"))
            }
            (true, _) => self.lent(0, String::new()).sends(call.operation, rank).map_err(invalid),
            (false, true) => Err(invalid("the processor writes results, so none goes to a GPU")),
        }
    }
}
