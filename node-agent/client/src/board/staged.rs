//! Calls over ordinary memory on a board: copied piece by piece through this rank's stage, which stays in the cache, while
//! earlier pieces are reduced and later ones wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_collective::Call;
use node_agent_ipc::{Table, WINDOW};

use super::plan::Plan;
use super::work::Workplace;
use super::{Local, Op, Stage, Step, lock};
use crate::{Error, Operands};

impl Local {
    /// Whether nobody reads slot `slot` of this rank's stage any more.
    fn is_free(&self, stage: &Stage, slot: usize) -> bool {
        stage.users[slot % WINDOW].as_ref().is_none_or(|(op, piece)| {
            op.is_complete() || self.board.is_open(op.seq) && self.board.is_out(op.seq, *piece)
        })
    }

    /// Does a call over ordinary memory, whose lengths are right.
    pub(crate) fn run(&self, call: Call, operands: &mut Operands<'_>, limit: Duration) -> Result<(), Error> {
        let call = call.canonical();
        let plan = self.plan(&call)?;
        let mut stage = lock(&self.stage);
        let base = stage.next;
        // A small call is all there when it is posted, so that the last to come can do it at once.
        let mut copied = if plan.reads(self.me) { 0 } else { plan.pieces };
        while copied < plan.pieces.min(WINDOW as u32) && self.is_free(&stage, base + copied as usize) {
            Workplace::copy_in(
                &self.board,
                &plan,
                self.me,
                base + copied as usize,
                copied,
                operands.input(),
            )?;
            copied += 1;
        }
        let op = self.arrive(call, plan, None, None, Some((base, copied)), limit)?;
        stage.next = base.wrapping_add(plan.pieces as usize);
        let first = plan.pieces.saturating_sub(WINDOW as u32);
        let used = if plan.reads(self.me) { copied } else { 0 };
        for piece in 0..used {
            stage.users[(base + piece as usize) % WINDOW] = Some((op.clone(), piece));
        }
        self.pump(&op, &plan, &mut stage, base, copied, operands)?;
        // Slots that only held results are in use until everybody has them.
        for piece in first..plan.pieces {
            stage.users[(base + piece as usize) % WINDOW] = Some((op.clone(), piece));
        }
        Ok(())
    }

    /// Moves pieces in and out, and does tiles, until this rank's output is all there.
    fn pump(
        &self,
        op: &Arc<Op>,
        plan: &Plan,
        stage: &mut Stage,
        base: usize,
        mut copied: u32,
        operands: &mut Operands<'_>,
    ) -> Result<(), Error> {
        let late = Instant::now();
        let mut taken = 0;
        loop {
            let seen = self.board.seen();
            let mut worked = self.take(op, plan, &mut taken, operands)?;
            match self.step(op)? {
                Step::Complete => return Ok(()),
                Step::Worked => worked = true,
                Step::Idle if taken == plan.pieces && plan.pieces > 0 => return Ok(()),
                Step::Idle => {}
            }
            while copied < plan.pieces && self.is_free(stage, base + copied as usize) {
                let slot = base + copied as usize;
                Workplace::copy_in(&self.board, plan, self.me, slot, copied, operands.input())?;
                stage.users[slot % WINDOW] = Some((op.clone(), copied));
                copied += 1;
                if self.board.set_copied_in(op.seq, self.me, copied) {
                    self.board.ring();
                }
                worked = true;
            }
            if !worked {
                self.idle(op, seen, None, late)?;
            }
        }
    }

    /// Takes the pieces of the output that are done.
    fn take(
        &self,
        op: &Op,
        plan: &Plan,
        taken: &mut u32,
        operands: &mut Operands<'_>,
    ) -> Result<bool, Error> {
        let before = *taken;
        while *taken < plan.pieces && self.board.is_open(op.seq) {
            let piece = *taken;
            let done = self.board.is_in(op.seq, piece)
                && self.board.is_reduced(op.seq, piece, plan.tiles_upto(piece));
            if !done {
                break;
            }
            self.place(op)?.copy_out(&self.board, self.me, piece, operands.output())?;
            *taken += 1;
            if self.board.set_copied_out(op.seq, self.me, *taken) {
                self.board.ring();
            }
        }
        Ok(*taken > before)
    }
}
