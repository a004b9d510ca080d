//! One rank's repetitions.

use std::cell::RefCell;

use node_agent_client::{Buffer, Call, Client, Error, OpKind, Operands, Operation, Source, Target, Work};

use super::{
    options::{Options, Plan},
    pattern::{Cycle, Pattern},
};

/// One rank's buffers and expectations.
pub(super) struct Bench<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a Options,
    pub(super) plan: Plan,
    pub(super) pattern: Pattern,
    pub(super) input: Buffer,
    pub(super) output: Buffer,
    /// Input and output in ordinary memory, where that is measured.
    pub(super) own: Option<RefCell<[Vec<u8>; 2]>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(client: &'a Client, options: &'a Options) -> Result<Self, Error> {
        let plan = Plan::new(options, client.rank(), client.size());
        if matches!(options.op, OpKind::Send | OpKind::Recv) && plan.size < 2 {
            return Err(Error::Argument("send-recv needs at least two ranks".into()));
        }
        if options.in_place && !matches!(options.op, OpKind::AllReduce | OpKind::Broadcast) {
            return Err(Error::Argument(format!("{} cannot be done in place", options.op)));
        }
        let bytes = |blocks: usize| blocks * plan.count * options.dtype.size();
        let (input_len, output_len) = (bytes(plan.input_blocks), bytes(plan.output_blocks));
        let input = client.alloc(input_len as u64)?;
        let output = if options.in_place { input.clone() } else { client.alloc(output_len as u64)? };
        let own = options.ordinary.then(|| RefCell::new([vec![0; input_len], vec![0; output_len]]));
        let pattern =
            Pattern { op: options.op, dtype: options.dtype, reduce: options.reduce, size: plan.size };
        Ok(Self { client, options, plan, pattern, input, output, own })
    }

    /// Puts this round's input in place and something wrong where the output goes.
    pub(super) fn prepare(&self, round: u32) -> Result<(), Error> {
        if !self.options.verify && round > 0 {
            return Ok(());
        }
        let input = self.pattern.input(self.plan.rank, round);
        if !self.options.in_place {
            let poison = self.pattern.poison();
            poison.fill(&self.output, 0, self.plan.output_blocks * self.plan.count, 0)?;
        }
        input.fill(&self.input, 0, self.plan.input_blocks * self.plan.count, 0)?;
        if let Some(own) = &self.own {
            let [input, output] = &mut *own.borrow_mut();
            self.input.read_bytes(0, input)?;
            self.output.read_bytes(0, output)?;
        }
        Ok(())
    }

    /// Once in ordinary memory.
    pub(super) fn once_ordinary(&self, own: &mut [Vec<u8>; 2]) -> Result<(), Error> {
        let (rank, size) = (self.plan.rank, self.plan.size);
        let [input, output] = own;
        let call = |operation| self.call(operation);
        match self.options.op {
            OpKind::Barrier => self.client.barrier(),
            OpKind::Send | OpKind::Recv => {
                let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
                let receive = call(Operation::Recv { from: previous, tag: 0 });
                let mut receive = self.client.begin(receive, Source::Bytes(&[]), Target::Bytes)?;
                let send = call(Operation::Send { to: next, tag: 0 });
                self.client.run_bytes(send, Operands::Input(input))?;
                receive.wait()?;
                receive.fetch(output)
            }
            OpKind::Broadcast => {
                let call = call(Operation::Broadcast { root: ROOT });
                if !self.options.in_place && rank == ROOT {
                    output.copy_from_slice(input);
                }
                self.client.run_bytes(call, Operands::InPlace(output))
            }
            OpKind::AllReduce if self.options.in_place => {
                self.client.run_bytes(call(Operation::AllReduce), Operands::InPlace(output))
            }
            OpKind::AllReduce => {
                self.client.run_bytes(call(Operation::AllReduce), Operands::Both(input, output))
            }
            OpKind::AllGather => {
                self.client.run_bytes(call(Operation::AllGather), Operands::Both(input, output))
            }
            OpKind::ReduceScatter => {
                self.client.run_bytes(call(Operation::ReduceScatter), Operands::Both(input, output))
            }
            OpKind::AllToAll => {
                self.client.run_bytes(call(Operation::AllToAll), Operands::Both(input, output))
            }
        }
    }

    pub(super) fn once(&self) -> Result<(), Error> {
        if let Some(own) = &self.own {
            return self.once_ordinary(&mut own.borrow_mut());
        }
        let (rank, size) = (self.plan.rank, self.plan.size);
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        match self.options.op {
            OpKind::Barrier => self.client.barrier(),
            OpKind::Send | OpKind::Recv => {
                let receive = self.post(Operation::Recv { from: previous, tag: 0 })?;
                self.post(Operation::Send { to: next, tag: 0 })?.wait()?;
                receive.wait()
            }
            OpKind::AllReduce => self.post(Operation::AllReduce)?.wait(),
            OpKind::AllGather => self.post(Operation::AllGather)?.wait(),
            OpKind::ReduceScatter => self.post(Operation::ReduceScatter)?.wait(),
            OpKind::AllToAll => self.post(Operation::AllToAll)?.wait(),
            OpKind::Broadcast => self.post(Operation::Broadcast { root: ROOT })?.wait(),
        }
    }

    pub(super) fn post(&self, operation: Operation) -> Result<node_agent_client::Pending, Error> {
        let call = self.call(operation);
        self.client.post(Work { call, input: Some(self.input.start()), output: Some(self.output.start()) })
    }

    pub(super) fn call(&self, operation: Operation) -> Call {
        let Options { dtype, reduce, .. } = *self.options;
        Call { operation, dtype, reduce, count: self.plan.count as u64 }
    }

    /// Elements of the output that are wrong.
    pub(super) fn check(&self, round: u32) -> Result<i64, Error> {
        if let Some(own) = &self.own {
            self.output.write_bytes(0, &own.borrow()[1])?;
        }
        let Plan { rank, count, .. } = self.plan;
        let mut wrong = 0;
        for block in 0..self.plan.output_blocks {
            let (expected, first): (Cycle, usize) = match self.options.op {
                OpKind::AllReduce => (self.pattern.reduced(round), 0),
                OpKind::ReduceScatter => (self.pattern.reduced(round), rank as usize * count),
                OpKind::AllGather => (self.pattern.input(block_rank(block), round), 0),
                OpKind::AllToAll => (self.pattern.input(block_rank(block), round), rank as usize * count),
                OpKind::Broadcast => (self.pattern.input(ROOT, round), 0),
                OpKind::Send | OpKind::Recv => {
                    (self.pattern.input((rank + self.plan.size - 1) % self.plan.size, round), 0)
                }
                OpKind::Barrier => return Ok(0),
            };
            wrong += expected.mismatches(&self.output, block * count, count, first)?;
        }
        Ok(wrong)
    }
}

/// The rank whose input a broadcast spreads.
const ROOT: u32 = 0;

fn block_rank(block: usize) -> u32 {
    u32::try_from(block).unwrap_or(u32::MAX)
}
