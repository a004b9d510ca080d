//! Calls of ranks, from the post to the end.

use std::sync::Arc;
use std::time::Duration;

use node_agent_collective::units::Time;
use node_agent_collective::{Call, CallError, Completion, Memory, Operation, Region};
use node_agent_ipc::{Failure as RankFailure, FailureCode, Post, Reply, Span};

use crate::board::stopping;
use crate::calls::{Pending, Shared};
use crate::deadline::after;
use crate::engine::Engine;
use crate::failure::{of_call_error, of_failure, plain};
use crate::first::unix_ns;

impl Engine {
    /// Takes in a call. `Err` is the answer at once; `Ok` means that the answer comes with the completion.
    pub(crate) fn post(&mut self, token: usize, id: u64, post: &Post) -> Result<(), RankFailure> {
        if let Some(reason) = &self.ending.draining {
            return Err(stopping(reason));
        }
        if let Some(cause) = self.ranks.shared.cause() {
            return Err(cause.clone());
        }
        let call = post.call;
        let no_rank = || plain(FailureCode::Protocol, "no rank is attached here");
        let connection = self.ranks.connections.get(&token).ok_or_else(no_rank)?;
        let rank = connection.rank.ok_or_else(no_rank)?;
        let limits = self.config.limits;
        if connection.calls >= limits.outstanding {
            let text = format!("{} calls are under way: wait for one of them first", connection.calls);
            return Err(plain(FailureCode::Exhausted, text));
        }
        let world = self.config.ranks.len();
        let too_large = || plain(FailureCode::InvalidArgument, format!("{call}: too many bytes"));
        let gives_input = !matches!(call.operation, Operation::Broadcast { root } if root != rank);
        let input_len = if gives_input { call.input_bytes(world).ok_or_else(too_large)? } else { 0 };
        let output_len = call.output_bytes(world).ok_or_else(too_large)?;
        let operand_bytes = (input_len as u64).saturating_add(output_len as u64);
        if connection.operand_bytes.saturating_add(operand_bytes) > limits.bytes.saturating_mul(2) {
            let text =
                format!("{call}: operands of calls under way would exceed twice {} bytes", limits.bytes);
            return Err(plain(FailureCode::Exhausted, text));
        }
        let resolve =
            |name, span: &Span, len| resolve(|buffer| connection.buffer(buffer), &call, name, span, len);
        let source = resolve("input", &post.input, input_len)?;
        let target = resolve("output", &post.output, output_len)?;
        self.check_devices(rank, &call, source.as_ref(), target.as_ref())?;
        let (input, output, target) = self.take_operands(post, source, target, (input_len, output_len))?;

        let now = self.clock.now();
        match self.machine.post(rank, call, input, output, now) {
            Ok(ticket) => {
                let deadline = own_deadline(now, post, self.config.op_timeout());
                self.calls.deadlines.extend(deadline.map(|at| (at, ticket)));
                let pending = Pending { token, id, call, input, output, target, operand_bytes, deadline };
                self.calls.pending.insert(ticket, pending);
                self.calls.first.posted(call.operation, unix_ns);
                self.count_post(token, rank, operand_bytes, call.operation.is_collective());
                Ok(())
            }
            Err(error) => {
                self.memory.release(input);
                self.memory.release(output);
                self.calls.hurt |= matches!(error, CallError::Failed(_));
                Err(self.with_lost_rank(of_call_error(&error, &self.config)))
            }
        }
    }

    /// The operands' regions, and where the result is to be copied to: where they are if they can stay there, else copies.
    fn take_operands(
        &mut self,
        post: &Post,
        source: Option<Shared>,
        target: Option<Shared>,
        (input_len, output_len): (usize, usize),
    ) -> Result<(Region, Region, Option<Shared>), RankFailure> {
        // With checksums, what is sent must be what the checksum was taken of.
        if !self.config.checksum
            && let Some((input, output)) =
                self.share(post, source.as_ref(), target.as_ref(), (input_len, output_len))
        {
            return Ok((input, output, None));
        }
        let (input, output) = self.copy_in(post, source.as_ref(), input_len, output_len)?;
        Ok((input, output, target))
    }

    /// The operands where they are; `None` if the core cannot work with them there: they overlap in a way that would have it
    /// read what it has written already, or a broadcast's root wants a second copy.
    fn share(
        &mut self,
        post: &Post,
        source: Option<&Shared>,
        target: Option<&Shared>,
        (input_len, output_len): (usize, usize),
    ) -> Option<(Region, Region)> {
        let same = |a: &Shared, b: &Shared| Arc::ptr_eq(&a.0, &b.0);
        let apart =
            |(a, b): (&Shared, &Shared)| !same(a, b) || a.1 + input_len <= b.1 || b.1 + output_len <= a.1;
        let both = source.zip(target);
        let in_place = both.is_some_and(|(a, b)| same(a, b) && a.1 == b.1 && input_len == output_len);
        let one = match post.call.operation {
            Operation::AllReduce => in_place,
            Operation::Broadcast { .. } if source.is_none() || in_place => true,
            Operation::Broadcast { .. } => return None,
            _ => false,
        };
        if !one && !both.is_none_or(apart) {
            return None;
        }
        let mut take = |shared: Option<&Shared>, len| match shared {
            Some((memory, offset)) => self.memory.share(memory, *offset, len),
            None => Region::EMPTY,
        };
        let output = take(target, output_len);
        let input = if one { output } else { take(source, input_len) };
        if source.is_some_and(|(memory, _)| memory.device().is_some()) && !one {
            self.memory.copied_by_rank(input, output);
        }
        Some((input, output))
    }

    /// Private copies of the operands. Where input and output are the same place, one copy serves as both; for a broadcast
    /// always, as only its root has an input.
    fn copy_in(
        &mut self,
        post: &Post,
        source: Option<&Shared>,
        input_len: usize,
        output_len: usize,
    ) -> Result<(Region, Region), RankFailure> {
        let in_place = match post.call.operation {
            Operation::AllReduce => post.input == post.output,
            Operation::Broadcast { .. } => true,
            _ => false,
        };
        let output = self.memory.take(output_len);
        let input = if in_place { output } else { self.memory.take(input_len) };
        if let (Some((region, offset)), Some(bytes)) = (source, self.memory.bytes_mut(input))
            && let Err(error) = region.read(*offset, bytes)
        {
            self.memory.release(input);
            self.memory.release(output);
            return Err(plain(FailureCode::InvalidArgument, error.to_string()));
        }
        Ok((input, output))
    }

    fn count_post(&mut self, token: usize, rank: u32, operand_bytes: u64, collective: bool) {
        if let Some(connection) = self.ranks.connections.get_mut(&token) {
            connection.calls += 1;
            connection.operand_bytes += operand_bytes;
        }
        if !collective {
            return;
        }
        if let Some(gone) = self.ranks.count_collective(rank) {
            self.lose(gone, format!("rank {gone} detached, but rank {rank} waits for its next collective"));
        }
    }

    /// Answers every call that has completed.
    pub(crate) fn complete_calls(&mut self) {
        // Calls that failed all at once may have payloads under way. They end soon, or their channel does.
        if self.machine.failure().is_some() && self.rails.is_reading() {
            return;
        }
        while let Some(completion) = self.machine.poll_completion() {
            self.complete(completion);
        }
    }

    fn complete(&mut self, completion: Completion) {
        let Some(done) = self.calls.pending.remove(&completion.ticket) else { return };
        if let Some(at) = done.deadline {
            self.calls.deadlines.remove(&(at, completion.ticket));
        }
        let reply = match &completion.result {
            Ok(()) => {
                let counted = !done.call.operation.is_collective()
                    || self.local_ranks.first() == Some(&completion.rank);
                self.calls.completed += u64::from(counted);
                self.calls.first.completed(done.call.operation, unix_ns);
                self.copy_out(&done).map_or_else(Reply::Failed, |()| Reply::Done)
            }
            Err(failure) => {
                self.calls.hurt = true;
                let failure = of_failure(failure, &self.config);
                Reply::Failed(self.with_lost_rank(failure))
            }
        };
        self.memory.release(done.input);
        self.memory.release(done.output);
        if let Some(connection) = self.ranks.connections.get_mut(&done.token) {
            connection.calls = connection.calls.saturating_sub(1);
            connection.operand_bytes = connection.operand_bytes.saturating_sub(done.operand_bytes);
            self.reply(done.token, done.id, &reply);
        }
    }

    fn copy_out(&self, done: &Pending) -> Result<(), RankFailure> {
        let Some((region, offset)) = &done.target else { return Ok(()) };
        let Some(bytes) = self.memory.bytes(done.output) else {
            return Err(plain(FailureCode::Internal, "the result is gone"));
        };
        region.write(*offset, bytes).map_err(|error| plain(FailureCode::Internal, error.to_string()))
    }

    /// A rank's end is reported with what this engine knows of it.
    pub(crate) fn with_lost_rank(&self, failure: RankFailure) -> RankFailure {
        match self.ranks.lost_text(failure.rank) {
            Some(text) if failure.code == FailureCode::RankLost => {
                RankFailure { text: text.clone(), ..failure }
            }
            _ => failure,
        }
    }

    /// A call that has passed its own limit ends the communicator: the other ranks cannot complete it either.
    pub(crate) fn expire_calls(&mut self, now: Time) {
        let mut expired = Vec::new();
        while let Some(first) = self.calls.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.calls.deadlines.remove(&first);
            expired.push(first.1);
        }
        for ticket in expired {
            let Some(pending) = self.calls.pending.get(&ticket) else { continue };
            let rank = self.ranks.connections.get(&pending.token).and_then(|connection| connection.rank);
            let who = rank.map_or_else(|| "a rank".to_owned(), |rank| format!("rank {rank}"));
            let reason = format!("{} did not complete within the limit that {who} gave", pending.call);
            self.machine.expire(&reason, now);
        }
    }
}

/// The shared memory that a span names, after checking that it is there and long enough.
fn resolve<'a>(
    buffer: impl Fn(u32) -> Option<&'a Arc<node_agent_ipc::Region>>,
    call: &Call,
    name: &str,
    span: &Span,
    len: usize,
) -> Result<Option<Shared>, RankFailure> {
    if len == 0 {
        return Ok(None);
    }
    let invalid = |text: String| plain(FailureCode::InvalidArgument, text);
    let region = buffer(span.buffer).ok_or_else(|| {
        invalid(format!("{call}: its {name} names buffer {}, which does not exist", span.buffer))
    })?;
    let offset = usize::try_from(span.offset).unwrap_or(usize::MAX);
    match offset.checked_add(len) {
        Some(end) if end <= region.len() => Ok(Some((region.clone(), offset))),
        _ => Err(invalid(format!(
            "{call}: its {name} needs {len} bytes from {offset}, buffer {} has {}",
            span.buffer,
            region.len()
        ))),
    }
}

/// When a call is to be given up because of its own limit; the core watches over the engine's limit.
fn own_deadline(now: Time, post: &Post, engine_limit: Duration) -> Option<Time> {
    let limit = Duration::from_millis(post.timeout_ms.into());
    (post.timeout_ms > 0 && limit < engine_limit).then(|| after(now, limit))
}
