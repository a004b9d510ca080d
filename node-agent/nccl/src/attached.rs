//! The attached rank: does what the core says. It notifies other ranks, begins and ends calls of the engine, and moves bytes.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_client::{
    Begun, Call, Client, Dtype, Error, FailureCode, Operation, ReduceOp, Source, Target,
};

use crate::core::handle::{self, HANDLE_BYTES};
use crate::core::{
    Action, Identity, Limits, ListenId, Machine, Outcome, ReceiveId, RequestId, SendId, TransferId,
};
use crate::error::{Code, NetError};
use crate::memory::{Lent, RegistrationId, Room};
use crate::properties::Properties;

/// The tag of all messages between two ranks. Their order says which is which.
const TAG: u32 = u32::from_le_bytes(*b"NCCL");
/// Calls of the engine that are left for what this process asks beside messages: buffers that are made and given back.
const SPARE_CALLS: u32 = 8;
/// Most bytes of one message.
const MOST_BYTES: u64 = 1 << 30;
/// An engine that says nothing is noticed that late.
const SILENCE: Duration = Duration::from_secs(1);

/// What a request reads or writes.
#[derive(Debug)]
enum Operand {
    Send(Lent),
    /// One for each message; none of a message whose memory was withdrawn.
    Receive(Vec<Option<Room>>),
}

/// A rank that is attached to its engine, with its connections.
#[derive(Debug)]
pub(crate) struct Attached {
    client: Arc<Client>,
    machine: Machine,
    properties: Properties,
    rails: usize,
    operands: BTreeMap<RequestId, Operand>,
    under_way: BTreeMap<TransferId, Begun>,
    /// Messages to this rank itself, which no engine carries.
    own: VecDeque<Vec<u8>>,
    /// By when connections that are being made must be there.
    connecting: BTreeMap<SendId, Instant>,
    /// Until when senders may take to say that they know of receivers that are closed.
    closing: VecDeque<(Instant, ReceiveId)>,
    /// How many answers had come when calls under way were last looked at, and when that was.
    seen: (u64, Instant),
    failed: Option<NetError>,
}

impl Attached {
    /// Attaches as the environment says.
    pub(crate) fn from_env() -> Result<Self, NetError> {
        let uid = std::env::var("RAIL_JOB_UID").unwrap_or_default();
        Self::new(Client::from_env()?, &uid)
    }

    fn new(client: Client, uid: &str) -> Result<Self, NetError> {
        let subscription = client.subscribe()?;
        let world = client.world().clone();
        let job = handle::digest(uid.as_bytes());
        // A quarter for each direction, since buffers are larger than what is in them, and idle ones are kept.
        let bytes = (world.max_bytes / 4).max(1);
        let max_bytes = MOST_BYTES.min(bytes);
        let slots = (world.max_outstanding.saturating_sub(SPARE_CALLS) / 2).max(1) as usize;
        let limits = Limits { slots, bytes };
        // Seeded by the system, and another one for each that is made.
        let life = RandomState::new().build_hasher().finish();
        let identity =
            Identity { job, attempt: subscription.attempt, rank: client.rank(), world: world.size, life };
        let machine = Machine::new(identity, limits);
        let properties = Properties::new(job, world.node, &subscription.rails, max_bytes);
        Ok(Self {
            client: Arc::new(client),
            machine,
            properties,
            rails: subscription.rails.len(),
            operands: BTreeMap::new(),
            under_way: BTreeMap::new(),
            own: VecDeque::new(),
            connecting: BTreeMap::new(),
            closing: VecDeque::new(),
            seen: (0, Instant::now()),
            failed: None,
        })
    }

    /// The attached rank itself, for what is asked of the engine alone.
    pub(crate) fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// This rank as one line says it.
    pub(crate) fn describe(&self) -> String {
        let world = self.client.world();
        format!(
            "rank {} of {} on node {} of {}, {} rails behind one device (striping and failover are the engine's)",
            self.client.rank(),
            world.size,
            world.node,
            world.nodes,
            self.rails
        )
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.failed.is_none() && self.machine.is_draining()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    /// Begins to leave without waiting. Those who receive from this rank hear that nothing more comes, as far as there is room to say so.
    pub(crate) fn leave(&mut self) {
        self.machine.close_all_sends();
        while let Some(Action::Notify { to, words }) = self.machine.next_action() {
            if to != self.client.rank() && !matches!(self.client.notify(to, words), Ok(true)) {
                break;
            }
            self.machine.notified();
        }
        self.client.leave();
    }

    /// How long another rank may take to answer.
    fn limit(&self) -> Duration {
        Duration::from_millis(self.client.world().op_timeout_ms.into())
    }

    /// Fails as the job has, if it has.
    fn check(&self) -> Result<(), NetError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn listen(&mut self) -> Result<(ListenId, [u8; HANDLE_BYTES]), NetError> {
        self.check()?;
        Ok(self.machine.listen()?)
    }

    /// Connects to the listener of a handle, in which it notes meanwhile how far it is; `None` where it is not there yet.
    pub(crate) fn connect(&mut self, handle: &mut [u8; HANDLE_BYTES]) -> Result<Option<SendId>, NetError> {
        let limit = self.limit();
        let id = match handle::note(handle) {
            0 => {
                let id = self.machine.connect(handle)?;
                self.connecting.insert(id, Instant::now() + limit);
                handle::set_note(handle, id.0.into());
                id
            }
            note => SendId(u32::try_from(note).unwrap_or(0)),
        };
        let progress = self.progress();
        let connected = progress.and_then(|()| Ok(self.machine.is_connected(id)?));
        let late = self.connecting.get(&id).is_some_and(|by| *by <= Instant::now());
        let outcome = match connected {
            Ok(true) => Ok(Some(id)),
            Ok(false) if !late => return Ok(None),
            Ok(false) => {
                let peer = self.machine.peer_of(id).unwrap_or(0);
                let text = format!(
                    "rank {peer} did not accept a connection within {limit:?}: is it still there, and in the same communicator?"
                );
                Err(NetError::new(Code::Remote, text))
            }
            Err(error) => Err(error),
        };
        handle::set_note(handle, 0);
        self.connecting.remove(&id);
        if outcome.is_err() {
            // It may be unknown: then there is nothing to be closed.
            let _ = self.machine.close_send(id);
        }
        outcome
    }

    pub(crate) fn accept(&mut self, id: ListenId) -> Result<Option<ReceiveId>, NetError> {
        self.progress()?;
        let accepted = self.machine.accept(id)?;
        self.progress()?;
        Ok(accepted)
    }

    /// Sends bytes; `None` says that NCCL is to try again.
    pub(crate) fn send(
        &mut self,
        id: SendId,
        tag: i32,
        (lent, bytes): (Lent, u64),
    ) -> Result<Option<RequestId>, NetError> {
        self.progress()?;
        let most = self.properties.max_bytes;
        if bytes > most {
            let text = format!("a message of {bytes} bytes: at most {most} are possible (maxP2pBytes)");
            return Err(NetError::new(Code::InvalidUsage, text));
        }
        let request = self.machine.send(id, tag, bytes)?;
        if let Some(request) = request {
            self.operands.insert(request, Operand::Send(lent));
            self.progress()?;
        }
        Ok(request)
    }

    /// Receives messages, each with its room and tag; `None` says that NCCL is to try again.
    pub(crate) fn receive(
        &mut self,
        id: ReceiveId,
        messages: &[(u64, i32)],
        rooms: Vec<Room>,
    ) -> Result<Option<RequestId>, NetError> {
        self.progress()?;
        let request = self.machine.receive(id, messages)?;
        if let Some(request) = request {
            let rooms = rooms.into_iter().map(Some).collect();
            self.operands.insert(request, Operand::Receive(rooms));
            self.progress()?;
        }
        Ok(request)
    }

    /// Sizes of the messages of a request that is complete, in bytes; `None` while it is not.
    pub(crate) fn test(&mut self, id: RequestId) -> Result<Option<Vec<u64>>, NetError> {
        self.progress()?;
        match self.machine.test(id)? {
            Outcome::Pending => Ok(None),
            Outcome::Done(sizes) => {
                self.operands.remove(&id);
                Ok(Some(sizes))
            }
        }
    }

    /// NCCL frees memory, whatever is under way: nothing is read or written there from now on. What has not been sent never will be, and
    /// what comes goes nowhere.
    pub(crate) fn withdraw(&mut self, registration: RegistrationId) {
        let Self { operands, machine, .. } = self;
        operands.retain(|request, operand| match operand {
            Operand::Send(lent) if lent.is_of(registration) => {
                machine.withdraw(*request);
                false
            }
            Operand::Send(_) => true,
            Operand::Receive(rooms) => {
                for room in rooms {
                    *room = room.take().filter(|room| !room.is_of(registration));
                }
                true
            }
        });
    }

    pub(crate) fn close_listen(&mut self, id: ListenId) -> Result<(), NetError> {
        self.machine.close_listen(id)?;
        self.progress_closing();
        Ok(())
    }

    pub(crate) fn close_send(&mut self, id: SendId) -> Result<(), NetError> {
        let gone = self.machine.close_send(id)?;
        self.forget(&gone);
        Ok(())
    }

    pub(crate) fn close_receive(&mut self, id: ReceiveId) -> Result<(), NetError> {
        let gone = self.machine.close_receive(id)?;
        self.closing.push_back((Instant::now() + self.limit(), id));
        self.forget(&gone);
        Ok(())
    }

    fn forget(&mut self, gone: &[RequestId]) {
        for request in gone {
            self.operands.remove(request);
        }
        self.progress_closing();
    }

    /// Closing succeeds whatever has become of the job.
    fn progress_closing(&mut self) {
        let _ = self.progress();
    }

    /// Takes what has come, ends calls of the engine that are over, and begins what can begin. Never waits for another rank.
    pub(crate) fn progress(&mut self) -> Result<(), NetError> {
        self.check()?;
        self.abandon();
        let moved = self.take().and_then(|()| self.act());
        if let Err(error) = &moved {
            self.failed = Some(error.clone());
        }
        moved
    }

    /// Gives up receivers that were closed long ago.
    fn abandon(&mut self) {
        while let Some((until, id)) = self.closing.front().copied()
            && until <= Instant::now()
        {
            self.closing.pop_front();
            self.machine.abandon(id);
        }
    }

    fn take(&mut self) -> Result<(), NetError> {
        while let Some(notification) = self.client.poll_notification()? {
            self.machine.on_notification(notification.from, notification.words);
        }
        let arrivals = self.client.arrivals();
        let now = Instant::now();
        if self.under_way.is_empty() || (arrivals == self.seen.0 && now < self.seen.1 + SILENCE) {
            return Ok(());
        }
        self.seen = (arrivals, now);
        let mut over = Vec::new();
        for (transfer, begun) in &mut self.under_way {
            if let Some(outcome) = begun.wait_until(now) {
                outcome?;
                over.push(*transfer);
            }
        }
        for transfer in over {
            if let Some(begun) = self.under_way.remove(&transfer) {
                self.deliver(transfer, &begun)?;
            }
        }
        Ok(())
    }

    /// Moves what has come to where it belongs, if anybody still wants it.
    fn deliver(&mut self, transfer: TransferId, begun: &Begun) -> Result<(), NetError> {
        let padded = begun.output_bytes();
        if let Some((room, bytes)) = room_of(&self.machine, &mut self.operands, transfer) {
            if bytes == padded {
                begun.fetch(room.first(bytes))?;
            } else {
                let mut whole = vec![0; padded];
                begun.fetch(&mut whole)?;
                room.first(bytes).copy_from_slice(&whole[..bytes]);
            }
        }
        self.machine.ended(transfer);
        Ok(())
    }

    fn act(&mut self) -> Result<(), NetError> {
        while let Some(action) = self.machine.next_action() {
            let done = match action {
                Action::Notify { to, words } => self.notify(to, words)?,
                Action::Send { to, request, bytes } => self.begin_send(to, request, bytes)?,
                Action::Receive { from, bytes } => self.begin_receive(from, bytes)?,
            };
            if !done {
                return Ok(());
            }
        }
        Ok(())
    }

    fn notify(&mut self, to: u32, words: [u64; 3]) -> Result<bool, NetError> {
        if to == self.client.rank() {
            self.machine.notified();
            self.machine.on_notification(to, words);
            return Ok(true);
        }
        let taken = self.client.notify(to, words)?;
        if taken {
            self.machine.notified();
        }
        Ok(taken)
    }

    fn begin_send(&mut self, to: u32, request: RequestId, bytes: u64) -> Result<bool, NetError> {
        let lent = match self.operands.get(&request) {
            Some(Operand::Send(lent)) => *lent,
            _ if bytes == 0 => {
                self.machine.send_begun();
                return Ok(true);
            }
            _ => return Err(NetError::new(Code::Internal, "bug: a send has no memory")),
        };
        if bytes == 0 {
            self.machine.send_begun();
        } else if to == self.client.rank() {
            self.own.push_back(lent.bytes().to_vec());
            if let Some(transfer) = self.machine.send_begun() {
                self.machine.ended(transfer);
            }
        } else {
            let call = call(Operation::Send { to, tag: TAG }, bytes);
            let begun = if bytes.is_multiple_of(2) {
                self.client.begin(call, Source::Bytes(lent.bytes()), Target::Bytes)
            } else {
                let padded = [lent.bytes(), &[0]].concat();
                self.client.begin(call, Source::Bytes(&padded), Target::Bytes)
            };
            let Some(begun) = self.begun(begun)? else { return Ok(false) };
            if let Some(transfer) = self.machine.send_begun() {
                self.under_way.insert(transfer, begun);
            }
        }
        Ok(true)
    }

    fn begin_receive(&mut self, from: u32, bytes: u64) -> Result<bool, NetError> {
        if from == self.client.rank() {
            let came = self.own.pop_front().unwrap_or_default();
            if let Some(transfer) = self.machine.receive_begun() {
                if let Some((room, bytes)) = room_of(&self.machine, &mut self.operands, transfer) {
                    let room = room.first(bytes.min(came.len()));
                    room.copy_from_slice(&came[..room.len()]);
                }
                self.machine.ended(transfer);
            }
            return Ok(true);
        }
        let begun = self.client.begin(
            call(Operation::Recv { from, tag: TAG }, bytes),
            Source::Bytes(&[]),
            Target::Bytes,
        );
        let Some(begun) = self.begun(begun)? else { return Ok(false) };
        if let Some(transfer) = self.machine.receive_begun() {
            self.under_way.insert(transfer, begun);
        }
        Ok(true)
    }

    /// `None` where the engine has no room at the moment, as long as something of ours will give it some.
    fn begun(&self, begun: Result<Begun, Error>) -> Result<Option<Begun>, NetError> {
        match begun {
            Ok(begun) => Ok(Some(begun)),
            Err(Error::Failed { failure, .. })
                if failure.code == FailureCode::Exhausted && !self.under_way.is_empty() =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the bytes of a receive that has ended belong, and how many they are; `None` where nobody wants them any more, and for sends.
fn room_of<'a>(
    machine: &Machine,
    operands: &'a mut BTreeMap<RequestId, Operand>,
    transfer: TransferId,
) -> Option<(&'a mut Room, usize)> {
    let place = machine.place_of(transfer)?;
    let bytes = usize::try_from(machine.bytes_of(transfer)).ok()?;
    let Some(Operand::Receive(rooms)) = operands.get_mut(&place.request) else { return None };
    Some((rooms.get_mut(place.index)?.as_mut()?, bytes))
}

/// A message of so many bytes, in the smallest elements that the engine has: two bytes. One of an odd number has one byte more.
fn call(operation: Operation, bytes: u64) -> Call {
    Call { operation, dtype: Dtype::F16, reduce: ReduceOp::Sum, count: bytes.div_ceil(2) }
}
