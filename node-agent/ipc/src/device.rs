//! What rails can do with memory of a GPU, and which calls can profit. Both a rank and its engine go by this.

use node_agent_collective::Operation;

use crate::bounds::MAX_TEXT;
use crate::codec::{ProtocolError, Reader, Writer};

/// Most ranks of a server that a message names.
pub const MAX_NEIGHBOURS: usize = 256;

/// What the engine answers to a rank that registers memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    /// Its name as the input of calls; 0 where rails cannot send from it: then calls are staged in host memory.
    pub buffer: u32,
    /// Why that is so, and what would change it.
    pub why: String,
    /// The ranks of this server.
    pub here: Vec<u32>,
    /// Every server of the job has one rank.
    pub apart: bool,
}

impl Lent {
    /// Whether the input of an operation of `rank` can be sent from the GPU.
    ///
    /// Only bytes that no processor needs can be: those that go to other servers as they are.
    ///
    /// # Errors
    /// Why it is staged.
    pub fn sends(&self, operation: Operation, rank: u32) -> Result<(), &'static str> {
        const NEIGHBOURS: &str = "ranks of one server hand it to each other by the processor";
        let alone = self.here == [rank];
        match operation {
            Operation::Send { to, .. } if self.here.contains(&to) => {
                Err("sender and receiver are on one server, where the processor copies")
            }
            Operation::Send { .. } => Ok(()),
            Operation::Broadcast { root } if root != rank => Err("the root alone sends"),
            Operation::Broadcast { .. } | Operation::AllGather if alone => Ok(()),
            Operation::AllToAll if alone && self.apart => Ok(()),
            Operation::Broadcast { .. } | Operation::AllGather | Operation::AllToAll => Err(NEIGHBOURS),
            Operation::AllReduce | Operation::ReduceScatter => Err("sums are made by the processor"),
            Operation::Barrier | Operation::Recv { .. } => Err("it has no input"),
        }
    }

    pub(crate) fn encode<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        let here = &self.here[..self.here.len().min(MAX_NEIGHBOURS)];
        w.u32(self.buffer).u16(self.apart.into()).u16(u16::try_from(here.len()).unwrap_or(0));
        here.iter().fold(&mut *w, |w, rank| w.u32(*rank));
        w.text(&self.why, MAX_TEXT)
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let buffer = r.u32()?;
        let apart = match r.u16()? {
            0 => false,
            1 => true,
            found => return Err(ProtocolError::Field { field: "apart", found: found.into() }),
        };
        let count = usize::from(r.u16()?);
        if count > MAX_NEIGHBOURS {
            return Err(ProtocolError::Field { field: "here", found: count as u64 });
        }
        let here = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
        Ok(Self { buffer, why: r.text("why", MAX_TEXT)?, here, apart })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_processor_needs_is_sent_from_a_gpu() {
        let lent = |here: &[u32], apart| Lent { buffer: 1, why: String::new(), here: here.into(), apart };
        let (alone, pair) = (lent(&[2], true), lent(&[2, 3], false));
        let odd = lent(&[2], false);
        let send = |to| Operation::Send { to, tag: 0 };
        let cases = [
            (send(0), [true, true, true]),
            (send(3), [true, false, true]),
            (Operation::Broadcast { root: 2 }, [true, false, true]),
            (Operation::Broadcast { root: 0 }, [false; 3]),
            (Operation::AllGather, [true, false, true]),
            (Operation::AllToAll, [true, false, false]),
            (Operation::AllReduce, [false; 3]),
            (Operation::ReduceScatter, [false; 3]),
            (Operation::Recv { from: 0, tag: 0 }, [false; 3]),
            (Operation::Barrier, [false; 3]),
        ];
        for (operation, expected) in cases {
            let found = [&alone, &pair, &odd].map(|lent| lent.sends(operation, 2).is_ok());
            assert_eq!(found, expected, "{operation:?}");
        }
    }
}
