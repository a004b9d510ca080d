//! Collectives among the ranks of one server, which do them themselves on a [`Board`]: no message, no engine, no copy that
//! the memory does not force.
//!
//! A post only says where operands are. The work is done by whoever waits, in tiles that are claimed one by one, so a rank
//! that is late, or that posted and computes, is not waited for longer than its post takes. The engine is asked for three
//! things: buffers of other ranks when they are first seen, the cause when something failed, and to end the board when a
//! call failed here.

mod plan;
mod staged;
mod wait;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use node_agent_collective::{Call, OpKind};
use node_agent_ipc::{
    Board, Claim, Failure, FailureCode, NOTHING_TO_COPY, Post, Presence, Region, Reply, Request, Span, Table,
    WINDOW,
};

use crate::link::{Link, Neighbours};
use crate::patience::Patience;
use crate::{Buffer, BufferOffset, Error, Work};
use plan::Plan;
use work::{Operand, Peer, Workplace};

/// Longest sleep before a look at the engine's socket: an engine that dies rings no bell.
const CHECK_AFTER: Duration = Duration::from_millis(250);
/// Sleep for something that rings no bell.
const GLANCE: Duration = Duration::from_micros(200);

/// This rank's side of the board.
#[derive(Debug)]
pub(crate) struct Local {
    board: Board,
    link: Arc<Link>,
    me: usize,
    ranks: usize,
    /// Most operations that may be under way.
    most: usize,
    state: Mutex<State>,
    /// Held while operands go through this rank's stage.
    stage: Mutex<Stage>,
    maps: Mutex<Maps>,
    patience: Patience,
    /// The operation that is noted as the first; 0 until there is one, `u64::MAX` where it is another's affair.
    first: AtomicU64,
}

#[derive(Debug)]
struct State {
    next: u64,
    /// Operations that this rank has not retired, oldest first.
    under_way: VecDeque<Arc<Op>>,
}

/// Buffers of other ranks that are mapped here.
#[derive(Debug, Default)]
struct Maps {
    regions: BTreeMap<(usize, u32), Arc<Region>>,
    /// How many buffers each rank had given back when it was last looked at.
    freed: Vec<u64>,
}

/// An operation that this rank has posted.
#[derive(Debug)]
pub(crate) struct Op {
    seq: u64,
    call: Call,
    plan: Plan,
    input: Option<(Buffer, usize)>,
    output: Option<(Buffer, usize)>,
    posted: Instant,
    limit: Duration,
    /// What each rank said about it, checked; with the word about its stage.
    posts: OnceLock<Vec<(Post, u64)>>,
    place: OnceLock<Workplace>,
    /// Seen complete, and so perhaps retired: its slot is not to be touched.
    complete: AtomicBool,
}

impl Op {
    pub(crate) fn name(&self) -> &'static str {
        self.call.operation.kind().name()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// By when it should be complete.
    pub(crate) fn deadline(&self) -> Instant {
        self.posted + self.limit
    }
}

/// What this rank's stage is used for.
#[derive(Debug, Default)]
struct Stage {
    /// The next slot, counted on for ever.
    next: usize,
    /// The piece that was last put in each slot.
    users: [Option<(Arc<Op>, u32)>; WINDOW],
}

/// What a rank did for an operation in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Complete,
    /// This rank did a part of the operation; there may be more for it to do.
    Worked,
    /// Others must do something first.
    Idle,
}

/// A rank that does not mean the same as this one.
#[derive(Debug)]
struct Disagreement {
    code: FailureCode,
    rank: usize,
    text: String,
}

/// Operations whose operands go through the stage say so with an odd word: the first slot, times two, plus one.
fn stage_word(stage: Option<usize>) -> u64 {
    stage.map_or(0, |slot| (slot as u64) << 1 | 1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wall time, which the spans of a trace share.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Local {
    /// Asks the engine for the board; `None` where the job has none.
    pub(crate) fn attach(link: &Arc<Link>, me: u32, ranks: u32, most: u32) -> Result<Option<Self>, Error> {
        let id = link.submit(&Request::Board)?;
        let answer = match link.wait(id, "attach", link.control_timeout()) {
            Err(Error::Failed { failure, .. }) if failure.code == FailureCode::NotReady => return Ok(None),
            other => other?,
        };
        let (Reply::Board { ranks: made_for }, Some(file)) = (answer.reply, answer.descriptor) else {
            return Err(Error::Engine { cause: "asked for the board, got something else".into() });
        };
        if made_for != ranks || me >= ranks {
            let cause = format!("the board is for {made_for} ranks, this is rank {me} of {ranks} here");
            return Err(Error::Engine { cause });
        }
        let (me, ranks) = (me as usize, ranks as usize);
        let board = Board::open(file, ranks)?;
        let first = if me == 0 && board.first().is_none() { 0 } else { u64::MAX };
        let local = Self {
            me,
            ranks,
            most: (most as usize).min(node_agent_ipc::DEPTH - 1),
            state: Mutex::new(State { next: board.posted(me).wrapping_add(1), under_way: VecDeque::new() }),
            stage: Mutex::default(),
            maps: Mutex::new(Maps { regions: BTreeMap::new(), freed: vec![0; ranks] }),
            patience: Patience::among(ranks),
            first: AtomicU64::new(first),
            link: link.clone(),
            board,
        };
        local.take_over()?;
        Ok(Some(local))
    }

    /// An earlier process of this rank may have left while others still took its last results.
    fn take_over(&self) -> Result<(), Error> {
        let deadline = Instant::now() + self.link.control_timeout();
        let posted = self.board.posted(self.me);
        for seq in self.board.retired(self.me).saturating_add(1)..=posted {
            loop {
                let seen = self.board.seen();
                if self.board.is_open(seq) && self.board.is_complete(seq, self.board.extent(seq)) {
                    break;
                }
                if self.board.has_failed() || Instant::now() >= deadline {
                    // The first call will find out why.
                    return Ok(());
                }
                self.board.sleep(seen, CHECK_AFTER);
            }
            self.board.retire(self.me, seq);
        }
        Ok(())
    }

    /// How often something has changed on the board.
    pub(crate) fn rung(&self) -> u32 {
        self.board.seen()
    }

    /// Sleeps until [`Local::rung`] differs from `seen`, at most `limit`.
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) {
        self.board.sleep(seen, limit);
    }

    /// Wakes those who look after calls of this rank: something else than the board has changed.
    pub(crate) fn ring(&self) {
        self.board.ring();
    }

    /// Begins a call on shared buffers.
    pub(crate) fn begin(&self, work: &Work<'_>, limit: Duration) -> Result<Arc<Op>, Error> {
        let call = work.call.canonical();
        let plan = self.plan(&call)?;
        let (input_len, output_len) = plan.operand_bytes(self.me);
        let mut input = operand(&call, "input", work.input, input_len)?;
        let output = operand(&call, "output", work.output, output_len)?;
        if let (Some((from, at)), Some((to, place))) = (&input, &output)
            && from.inner.id == to.inner.id
            && *at < place + output_len
            && *place < at + input_len
            && !plan.works_in_place(self.me, place.cast_signed() - at.cast_signed())
        {
            // The output would overwrite input that is still needed.
            let copy = Buffer::alloc(&self.link, input_len as u64)?;
            from.inner.region.copy_to(*at, &copy.inner.region, 0, input_len)?;
            input = Some((copy, 0));
        }
        let op = self.arrive(call, plan, input, output, None, limit)?;
        if plan.extent().tiles == 1 && self.board.is_open(op.seq) {
            // The last to arrive does what is too small to share.
            self.step(&op)?;
        }
        Ok(op)
    }

    fn plan(&self, call: &Call) -> Result<Plan, Error> {
        let plan = Plan::new(call, self.ranks);
        let plan = plan.ok_or_else(|| Error::Argument(format!("{call}: more bytes than memory can have")))?;
        if let node_agent_collective::Operation::Broadcast { root } = call.operation
            && root as usize >= self.ranks
        {
            return Err(Error::Argument(format!("{call}: there are {} ranks", self.ranks)));
        }
        Ok(plan)
    }

    /// Posts the next operation; `stage` is where its operands go through the stage and how many pieces are there already.
    fn arrive(
        &self,
        call: Call,
        plan: Plan,
        input: Option<(Buffer, usize)>,
        output: Option<(Buffer, usize)>,
        stage: Option<(usize, u32)>,
        limit: Duration,
    ) -> Result<Arc<Op>, Error> {
        let posted = Instant::now();
        let name = call.operation.kind().name();
        let mut state = self.room(name, posted + limit)?;
        let seq = state.next;
        let span = |operand: &Option<(Buffer, usize)>| {
            operand
                .as_ref()
                .map_or(Span::default(), |(buffer, at)| Span { buffer: buffer.inner.id, offset: *at as u64 })
        };
        let timeout_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let post = Post { call, input: span(&input), output: span(&output), timeout_ms };
        let words = post.to_words(stage_word(stage.map(|(slot, _)| slot)));
        if plan.extent().tiles > 0 && call.operation.kind() != OpKind::Barrier {
            self.note_first(seq, call.operation.kind());
        }
        let copied = stage.map_or(NOTHING_TO_COPY, |(_, copied)| copied);
        let opened = self.board.post(self.me, seq, &words, copied, plan.extent());
        let (posts, place, complete) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        let op = Arc::new(Op { seq, call, plan, input, output, posted, limit, posts, place, complete });
        state.next = seq.wrapping_add(1);
        state.under_way.push_back(op.clone());
        drop(state);
        if opened && plan.extent().tiles != 1 {
            self.board.ring();
        }
        Ok(op)
    }

    /// The state, once there is room for one operation more.
    fn room(&self, call: &'static str, deadline: Instant) -> Result<MutexGuard<'_, State>, Error> {
        loop {
            let seen = self.board.seen();
            let mut state = lock(&self.state);
            if self.board.has_failed() {
                drop(state);
                return Err(self.cause(call));
            }
            if self.board.may_post(state.next) && state.under_way.len() < self.most {
                return Ok(state);
            }
            self.tidy(&mut state);
            let under_way = state.under_way.iter().filter(|op| !op.is_complete()).count();
            if under_way >= self.most {
                let text = format!("{under_way} calls are under way: wait for one of them first");
                return Err(self.failed(call, FailureCode::Exhausted, Some(self.me), text));
            }
            if self.board.may_post(state.next) && state.under_way.len() < self.most {
                return Ok(state);
            }
            // Others have not taken their results, or an operation that nobody waits for keeps its successors.
            let oldest = state.under_way.front().cloned();
            let late = (0..self.ranks).min_by_key(|rank| self.board.retired(*rank));
            drop(state);
            if let Some(oldest) = oldest
                && self.step(&oldest)? == Step::Worked
            {
                continue;
            }
            if Instant::now() >= deadline {
                let text = "the ranks of this server are too far apart in their calls".to_owned();
                return Err(self.report(call, FailureCode::TimedOut, late, text));
            }
            self.board.sleep(seen, GLANCE);
        }
    }

    fn note_first(&self, seq: u64, kind: OpKind) {
        if self.first.compare_exchange(0, seq, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.board.note_first_began(kind, unix_ns());
        }
    }

    /// Does what can be done of an operation without waiting.
    fn step(&self, op: &Op) -> Result<Step, Error> {
        let mut found = Step::Idle;
        loop {
            if op.is_complete() {
                return Ok(Step::Complete);
            }
            if !self.board.is_open(op.seq) {
                // Not yet open, or another thread has just seen it complete.
                return Ok(if op.is_complete() { Step::Complete } else { found });
            }
            let claim = {
                // Under the lock nobody here can retire the operation, so its slot is still its own.
                let _not_retired_meanwhile = lock(&self.state);
                if op.is_complete() {
                    return Ok(Step::Complete);
                }
                self.posts(op).map(|posts| {
                    let staged = posts.iter().any(|(_, stage)| stage & 1 == 1);
                    (self.board.claim(op.seq, op.plan.extent().tiles, |tile| op.plan.piece_of(tile)), staged)
                })
            };
            let (claim, staged) = claim.map_err(|disagreement| self.notify(op, disagreement))?;
            let Claim::Tile(number) = claim else { break };
            if self.board.has_failed() {
                return Err(self.cause(op.name()));
            }
            let tile = op.plan.tile(number);
            // Only now: while this tile is not finished, no rank can take its operands away.
            let place = self.place(op)?;
            place.run(&self.board, tile)?;
            let (upto, tiles) = (op.plan.tiles_upto(tile.piece), op.plan.extent().tiles);
            let finished = self.board.finish(op.seq, tile.piece, upto, tiles);
            // After the last tile the operation may be over at any moment; ringing is right even then.
            if finished.all || finished.piece && staged {
                self.board.ring();
            }
            found = Step::Worked;
        }
        let mut state = lock(&self.state);
        self.tidy(&mut state);
        Ok(if op.is_complete() { Step::Complete } else { found })
    }

    /// Notes which operations are complete, and retires them in order.
    fn tidy(&self, state: &mut State) {
        for op in state.under_way.iter().filter(|op| !op.is_complete()) {
            if self.board.is_open(op.seq) && self.board.is_complete(op.seq, op.plan.extent()) {
                op.complete.store(true, Ordering::Release);
                if self.first.load(Ordering::Relaxed) == op.seq {
                    self.first.store(u64::MAX, Ordering::Relaxed);
                    self.board.note_first_ended(unix_ns());
                }
            }
        }
        while let Some(op) = state.under_way.front().filter(|op| op.is_complete()) {
            self.board.retire(self.me, op.seq);
            state.under_way.pop_front();
        }
    }

    /// What all ranks said about an operation that is open and not retired, after checking that they mean the same.
    fn posts<'a>(&self, op: &'a Op) -> Result<&'a [(Post, u64)], Disagreement> {
        if let Some(posts) = op.posts.get() {
            return Ok(posts);
        }
        let mut posts = Vec::with_capacity(self.ranks);
        for rank in 0..self.ranks {
            let (post, stage) = Post::from_words(&self.board.words(op.seq, rank)).map_err(|error| {
                let text = format!("the board holds nonsense: {error}");
                Disagreement { code: FailureCode::Protocol, rank, text }
            })?;
            if post.call.canonical() != op.call {
                let text = format!("rank {} calls {}, rank {rank} calls {}", self.me, op.call, post.call);
                return Err(Disagreement { code: FailureCode::Mismatch, rank, text });
            }
            posts.push((post, stage));
        }
        Ok(op.posts.get_or_init(|| posts))
    }

    fn notify(&self, op: &Op, disagreement: Disagreement) -> Error {
        let Disagreement { code, rank, text } = disagreement;
        self.report(op.name(), code, Some(rank), text)
    }

    /// All operands of an operation that is open and cannot become complete meanwhile, mapped.
    fn place<'a>(&self, op: &'a Op) -> Result<&'a Workplace, Error> {
        if let Some(place) = op.place.get() {
            return Ok(place);
        }
        let mut peers = Vec::with_capacity(self.ranks);
        let posts = self.posts(op).map_err(|disagreement| self.notify(op, disagreement))?;
        for (rank, (post, stage)) in posts.iter().enumerate() {
            peers.push(if stage & 1 == 1 {
                let slot = usize::try_from(stage >> 1).unwrap_or(0);
                Peer { stage: Some(slot), input: None, output: None }
            } else {
                let (input, output) = op.plan.operand_bytes(rank);
                Peer {
                    stage: None,
                    input: self.operand(op, rank, &post.input, &op.input, input)?,
                    output: self.operand(op, rank, &post.output, &op.output, output)?,
                }
            });
        }
        Ok(op.place.get_or_init(|| Workplace { call: op.call, plan: op.plan, peers }))
    }

    fn operand(
        &self,
        op: &Op,
        rank: usize,
        span: &Span,
        own: &Option<(Buffer, usize)>,
        len: usize,
    ) -> Result<Option<Operand>, Error> {
        if len == 0 {
            return Ok(None);
        }
        if let (true, Some((buffer, offset))) = (rank == self.me, own) {
            return Ok(Some(Operand { region: buffer.inner.region.clone(), offset: *offset }));
        }
        let region = self.map(op.name(), rank, span.buffer)?;
        let offset = usize::try_from(span.offset).unwrap_or(usize::MAX);
        if offset.checked_add(len).is_none_or(|end| end > region.len()) {
            let text = format!(
                "the board says that rank {rank} has {len} bytes at {offset} of buffer {}",
                span.buffer
            );
            return Err(self.report(op.name(), FailureCode::Protocol, Some(rank), text));
        }
        Ok(Some(Operand { region, offset }))
    }

    /// A buffer of another rank.
    fn map(&self, call: &'static str, rank: usize, buffer: u32) -> Result<Arc<Region>, Error> {
        let mut maps = lock(&self.maps);
        let since = maps.freed[rank];
        let upto = self.board.freed_count(rank);
        if since != upto {
            maps.freed[rank] = upto;
            match self.board.freed_since(rank, since) {
                Some(names) => {
                    maps.regions.retain(|(holder, name), _| *holder != rank || !names.contains(name))
                }
                None => maps.regions.retain(|(holder, _), _| *holder != rank),
            }
        }
        if let Some(region) = maps.regions.get(&(rank, buffer)) {
            return Ok(region.clone());
        }
        let rank_number = u32::try_from(rank).unwrap_or(u32::MAX);
        let id = self.link.submit(&Request::Map { rank: rank_number, buffer })?;
        let answer = match self.link.wait(id, call, self.link.control_timeout()) {
            // The rank may be gone, and its buffers with it: that is the cause to report.
            Err(Error::Failed { failure, .. }) => {
                let there = self.board.presence(rank) == Presence::Present;
                let code = if there { failure.code } else { FailureCode::RankLost };
                return Err(self.report(call, code, Some(rank), failure.text));
            }
            other => other?,
        };
        let (Reply::Buffer { bytes, .. }, Some(file)) = (answer.reply, answer.descriptor) else {
            return Err(Error::Engine { cause: "asked for a rank's buffer, got something else".into() });
        };
        let region = Arc::new(Region::open(file, bytes)?);
        maps.regions.insert((rank, buffer), region.clone());
        Ok(region)
    }

    fn failed(&self, call: &'static str, code: FailureCode, rank: Option<usize>, text: String) -> Error {
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        Error::Failed { call, failure: Failure { code, rank, node: None, rail: None, text } }
    }

    /// Ends the board for all ranks, and gives the cause that counts.
    fn report(&self, call: &'static str, code: FailureCode, rank: Option<usize>, text: String) -> Error {
        match self.failed(call, code, rank, text) {
            Error::Failed { failure, .. } => self.ask(call, &Request::Report(failure)),
            other => other,
        }
    }

    /// Why the board has failed.
    fn cause(&self, call: &'static str) -> Error {
        self.ask(call, &Request::Cause)
    }

    fn ask(&self, call: &'static str, request: &Request) -> Error {
        let answer =
            self.link.submit(request).and_then(|id| self.link.wait(id, call, self.link.control_timeout()));
        match answer {
            Err(error) => error,
            Ok(_) => Error::Engine { cause: "asked for a cause, got something else".into() },
        }
    }
}

impl Neighbours for Local {
    fn note_freed(&self, buffer: u32) {
        let _one_at_a_time = lock(&self.maps);
        self.board.note_freed(self.me, buffer);
    }
}

/// The shared buffer of an operand that has `len` bytes.
fn operand(
    call: &Call,
    name: &str,
    place: Option<BufferOffset<'_>>,
    len: usize,
) -> Result<Option<(Buffer, usize)>, Error> {
    if len == 0 {
        return Ok(None);
    }
    let Some(place) = place else {
        return Err(Error::Argument(format!("{call}: its {name} of {len} bytes is missing")));
    };
    let offset = usize::try_from(place.offset).unwrap_or(usize::MAX);
    match offset.checked_add(len) {
        Some(end) if end <= place.buffer.len() => Ok(Some((place.buffer.clone(), offset))),
        _ => Err(Error::Argument(format!(
            "{call}: its {name} needs {len} bytes from {offset}, the buffer has {}",
            place.buffer.len()
        ))),
    }
}
