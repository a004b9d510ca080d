//! The state of all connections of one rank: what NCCL asks, what others notify, and what is to be done.

mod peers;

use std::collections::{BTreeMap, VecDeque};

use super::connection::{Listener, Phase, Receiver, Sender};
use super::handle::{HANDLE_BYTES, Handle};
use super::ids::{Destination, ListenId, ReceiveId, RequestId, SendId, TransferId};
use super::request::{Incoming, Outcome, Receive, Request, Send, Slot, Transfer};
use super::wire::{Message, Tags};
use super::{ConnectionError, MAX_CONNECTIONS, MAX_RECEIVES, MAX_REQUESTS, MAX_WAITING};

/// What a rank may have under way at its engine. All of it holds for sends and, again, for receives.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Calls at a time.
    pub slots: usize,
    /// Bytes of these calls together; one call may have as many alone.
    pub bytes: u64,
}

/// Whose connections they are.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// A digest of the job's uid.
    pub job: u64,
    /// Attempt of the job, from 1.
    pub attempt: u32,
    /// The rank.
    pub rank: u32,
    /// Ranks of the job.
    pub world: u32,
    /// A number that no other life of this rank has: what is late from one is not taken for another's.
    pub life: u64,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Notify a rank.
    Notify {
        /// The rank.
        to: u32,
        /// What to say.
        words: [u64; 3],
    },
    /// Begin the engine's send of a request's bytes.
    Send {
        /// The rank that gets them.
        to: u32,
        /// The request.
        request: RequestId,
        /// How many bytes.
        bytes: u64,
    },
    /// Begin the engine's receive.
    Receive {
        /// The rank that sends.
        from: u32,
        /// How many bytes come.
        bytes: u64,
    },
}

/// Calls of one direction that are under way.
#[derive(Debug, Default)]
struct UnderWay {
    calls: usize,
    bytes: u64,
}

impl UnderWay {
    fn has_room(&self, limits: &Limits, bytes: u64) -> bool {
        self.calls == 0 || self.calls < limits.slots && self.bytes.saturating_add(bytes) <= limits.bytes
    }

    fn begun(&mut self, bytes: u64) {
        self.calls += 1;
        self.bytes += bytes;
    }

    fn ended(&mut self, bytes: u64) {
        self.calls = self.calls.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// All connections of one rank. See the module for the protocol.
#[derive(Debug)]
pub struct Machine {
    identity: Identity,
    limits: Limits,
    next: u64,
    /// Number of the last listener or connection. They begin anywhere, so that those of one life are not those of another.
    last: u32,
    /// How many listeners and connections there have been.
    made: u32,
    listeners: BTreeMap<ListenId, Listener>,
    pub(super) senders: BTreeMap<SendId, Sender>,
    pub(super) receivers: BTreeMap<ReceiveId, Receiver>,
    requests: BTreeMap<RequestId, Request>,
    transfers: BTreeMap<TransferId, Transfer>,
    /// To be notified, in order.
    notices: VecDeque<(u32, Message)>,
    /// Senders that can send, in turn.
    ready: VecDeque<SendId>,
    /// By sending rank: messages that are to be received, in the order in which their sends have begun there.
    streams: BTreeMap<u32, VecDeque<Incoming>>,
    /// Ranks of `streams`, in turn.
    turn: VecDeque<u32>,
    sends: UnderWay,
    receives: UnderWay,
}

impl Machine {
    /// A rank without connections.
    #[must_use]
    pub fn new(identity: Identity, limits: Limits) -> Self {
        Self {
            identity,
            limits,
            next: 0,
            last: (identity.life >> 32) as u32,
            made: 0,
            listeners: BTreeMap::new(),
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            requests: BTreeMap::new(),
            transfers: BTreeMap::new(),
            notices: VecDeque::new(),
            ready: VecDeque::new(),
            streams: BTreeMap::new(),
            turn: VecDeque::new(),
            sends: UnderWay::default(),
            receives: UnderWay::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A number that no listener and no connection of this life has had, never 0.
    fn short_number(&mut self) -> Result<u32, ConnectionError> {
        let most = u32::MAX - 1;
        if self.made >= most {
            return Err(ConnectionError::TooMany { what: "connections over time", most: most as usize });
        }
        self.made += 1;
        self.last = self.last.checked_add(1).unwrap_or(1);
        Ok(self.last)
    }

    fn room(&self) -> Result<(), ConnectionError> {
        let connections = self.listeners.len() + self.senders.len() + self.receivers.len();
        match connections < MAX_CONNECTIONS {
            true => Ok(()),
            false => {
                Err(ConnectionError::TooMany { what: "listeners and connections", most: MAX_CONNECTIONS })
            }
        }
    }

    /// Makes a listener; the handle is for those who are to connect.
    ///
    /// # Errors
    /// There are too many listeners and connections.
    pub fn listen(&mut self) -> Result<(ListenId, [u8; HANDLE_BYTES]), ConnectionError> {
        self.room()?;
        let listener = self.short_number()?;
        let Identity { job, attempt, rank, life, .. } = self.identity;
        // Not a secret: it tells this listener from one of another life of this rank.
        let cookie = super::handle::digest(&[life, listener.into()].map(u64::to_le_bytes).concat());
        let handle = Handle { job, attempt, rank, listener, cookie };
        self.listeners.insert(ListenId(listener), Listener { cookie, waiting: VecDeque::new() });
        Ok((ListenId(listener), handle.encode()))
    }

    /// Begins a connection to a listener; [`Machine::is_connected`] says when it is there.
    ///
    /// # Errors
    /// The handle cannot be, or there are too many connections.
    pub fn connect(&mut self, handle: &[u8; HANDLE_BYTES]) -> Result<SendId, ConnectionError> {
        let Handle { job, attempt, rank, listener, cookie } = Handle::decode(handle)?;
        let own = self.identity;
        if (job, attempt) != (own.job, own.attempt) {
            let here = format!("job {:016x}, attempt {}", own.job, own.attempt);
            return Err(ConnectionError::OtherJob { rank, here });
        }
        if rank >= own.world {
            return Err(ConnectionError::NoSuchRank { rank, world: own.world });
        }
        self.room()?;
        let sender = self.short_number()?;
        self.senders.insert(SendId(sender), Sender::to(rank));
        self.notices.push_back((rank, Message::Connect { listener, cookie, sender }));
        Ok(SendId(sender))
    }

    /// Whether a connection is there.
    ///
    /// # Errors
    /// It was refused, or is unknown.
    pub fn is_connected(&self, id: SendId) -> Result<bool, ConnectionError> {
        let sender = self.senders.get(&id).ok_or(ConnectionError::Unknown("connection"))?;
        match &sender.failed {
            Some(error) => Err(error.clone()),
            None => Ok(sender.phase != Phase::Connecting),
        }
    }

    /// The rank at the other end of a connection that is being made.
    #[must_use]
    pub fn peer_of(&self, id: SendId) -> Option<u32> {
        self.senders.get(&id).map(|sender| sender.peer)
    }

    /// Takes the next connection of those that wait for a listener, if one does.
    ///
    /// # Errors
    /// There is no such listener, or there are too many connections.
    pub fn accept(&mut self, id: ListenId) -> Result<Option<ReceiveId>, ConnectionError> {
        let listener = self.listeners.get(&id).ok_or(ConnectionError::Unknown("listener"))?;
        if listener.waiting.is_empty() {
            return Ok(None);
        }
        self.room()?;
        let receiver = self.short_number()?;
        let waiting = self.listeners.get_mut(&id).and_then(|listener| listener.waiting.pop_front());
        let Some((peer, sender)) = waiting else { return Ok(None) };
        self.receivers.insert(ReceiveId(receiver), Receiver::from(peer, sender));
        self.notices.push_back((peer, Message::Accept { sender, receiver }));
        Ok(Some(ReceiveId(receiver)))
    }

    /// Sends a message; `None` where as many requests are under way as may be.
    ///
    /// # Errors
    /// The connection has failed or is unknown.
    pub fn send(&mut self, id: SendId, tag: i32, bytes: u64) -> Result<Option<RequestId>, ConnectionError> {
        let sender = self.senders.get_mut(&id).ok_or(ConnectionError::Unknown("connection"))?;
        if let Some(error) = &sender.failed {
            return Err(error.clone());
        }
        if sender.phase == Phase::Ended {
            return Err(ConnectionError::Closed { rank: sender.peer });
        }
        // Messages that nobody has room for yet must not keep out one that the receiver waits for.
        let most = MAX_REQUESTS * MAX_RECEIVES * if sender.is_wanted(tag) { 2 } else { 1 };
        if sender.outstanding >= most {
            return Ok(None);
        }
        sender.outstanding += 1;
        let request = RequestId(self.number());
        self.requests.insert(request, Request::Send(Send { sender: id, tag, bytes, done: false }));
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.queued.push_back((tag, request));
        }
        self.list(id);
        Ok(Some(request))
    }

    /// Receives messages, one for each (room in bytes, tag); `None` where as many requests are under way as may be.
    ///
    /// # Errors
    /// The connection has failed or is unknown, or there are no messages, or more than [`MAX_RECEIVES`].
    pub fn receive(
        &mut self,
        id: ReceiveId,
        messages: &[(u64, i32)],
    ) -> Result<Option<RequestId>, ConnectionError> {
        let receiver = self.open_receiver(id)?;
        if let Some(error) = &receiver.failed {
            return Err(error.clone());
        }
        if !(1..=MAX_RECEIVES).contains(&messages.len()) {
            let text = format!("a receive of {} messages: 1 to {MAX_RECEIVES} are possible", messages.len());
            return Err(ConnectionError::Argument(text));
        }
        if receiver.ended {
            return Err(ConnectionError::Closed { rank: receiver.peer });
        }
        if receiver.outstanding >= MAX_REQUESTS {
            return Ok(None);
        }
        receiver.outstanding += 1;
        let (peer, sender) = (receiver.peer, receiver.remote);
        let request = RequestId(self.number());
        let slots: Vec<Slot> = messages.iter().map(|&(room, tag)| Slot { tag, room, bytes: None }).collect();
        let left = slots.len();
        self.requests.insert(request, Request::Receive(Receive { receiver: id, slots, left }));
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.open.push_back(request);
        }
        messages.iter().for_each(|&(_, tag)| self.credit(peer, sender, tag));
        Ok(Some(request))
    }

    /// Says to a sender that there is room for one more message; several travel together.
    fn credit(&mut self, peer: u32, sender: u32, tag: i32) {
        if let Some((to, Message::Credit { sender: same, tags })) = self.notices.back_mut()
            && (*to, *same) == (peer, sender)
            && tags.push(tag)
        {
            return;
        }
        self.notices.push_back((peer, Message::Credit { sender, tags: Tags::one(tag) }));
    }

    /// How a request stands.
    ///
    /// # Errors
    /// Its connection has failed, or it is unknown.
    pub fn test(&mut self, id: RequestId) -> Result<Outcome, ConnectionError> {
        let sizes = match self.requests.get(&id) {
            None => return Err(ConnectionError::Unknown("request")),
            Some(Request::Send(send)) if send.done => vec![send.bytes],
            Some(Request::Receive(receive)) if receive.left == 0 => {
                receive.slots.iter().map(|slot| slot.bytes.unwrap_or(0)).collect()
            }
            Some(Request::Send(send)) => {
                let sender = self.senders.get(&send.sender).ok_or(ConnectionError::Unknown("connection"))?;
                return sender.failed.clone().map_or(Ok(Outcome::Pending), Err);
            }
            Some(Request::Receive(receive)) => {
                let receiver = self.receivers.get(&receive.receiver);
                let receiver = receiver.ok_or(ConnectionError::Unknown("connection"))?;
                return receiver.failed.clone().map_or(Ok(Outcome::Pending), Err);
            }
        };
        match self.requests.remove(&id) {
            Some(Request::Send(send)) => {
                if let Some(sender) = self.senders.get_mut(&send.sender) {
                    sender.outstanding -= 1;
                }
            }
            Some(Request::Receive(receive)) => {
                if let Some(receiver) = self.receivers.get_mut(&receive.receiver) {
                    receiver.outstanding -= 1;
                }
            }
            None => {}
        }
        Ok(Outcome::Done(sizes))
    }

    /// Closes a listener; those that wait for it are refused.
    ///
    /// # Errors
    /// There is no such listener.
    pub fn close_listen(&mut self, id: ListenId) -> Result<(), ConnectionError> {
        let listener = self.listeners.remove(&id).ok_or(ConnectionError::Unknown("listener"))?;
        for (peer, sender) in listener.waiting {
            self.notices.push_back((peer, Message::Refuse { sender }));
        }
        Ok(())
    }

    /// Closes a connection on which this rank sends. Messages whose sends have begun arrive. Gives the requests that are no more.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn close_send(&mut self, id: SendId) -> Result<Vec<RequestId>, ConnectionError> {
        let sender = self.senders.remove(&id).ok_or(ConnectionError::Unknown("connection"))?;
        self.ready.retain(|other| *other != id);
        if sender.phase == Phase::Open {
            self.notices.push_back((sender.peer, Message::SenderClosed { receiver: sender.remote }));
        }
        let of = |request: &Request| matches!(request, Request::Send(send) if send.sender == id);
        Ok(self.forget(of))
    }

    /// Closes a connection on which this rank receives. What still comes goes nowhere. Gives the requests that are no more.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn close_receive(&mut self, id: ReceiveId) -> Result<Vec<RequestId>, ConnectionError> {
        let receiver = self.open_receiver(id)?;
        receiver.closed = true;
        receiver.open.clear();
        let (peer, sender, ended) = (receiver.peer, receiver.remote, receiver.ended);
        if ended {
            self.receivers.remove(&id);
        } else {
            self.notices.push_back((peer, Message::ReceiverClosed { sender }));
        }
        let of = |request: &Request| matches!(request, Request::Receive(receive) if receive.receiver == id);
        let gone = self.forget(of);
        let places = self.streams.values_mut().flatten().map(|incoming| &mut incoming.place);
        let transfers = self.transfers.values_mut().filter_map(|transfer| match transfer {
            Transfer::Receive { place, .. } => Some(place),
            Transfer::Send { .. } => None,
        });
        for place in places.chain(transfers) {
            if place.is_some_and(|place| gone.contains(&place.request)) {
                *place = None;
            }
        }
        Ok(gone)
    }

    /// Nobody waits any longer for the sender to know that this receiver is closed: it may have ended without a word. What comes all the same
    /// goes nowhere.
    pub fn abandon(&mut self, id: ReceiveId) {
        if self.receivers.get(&id).is_some_and(|receiver| receiver.closed) {
            self.receivers.remove(&id);
        }
    }

    /// Closes all connections on which this rank sends: its process ends.
    pub fn close_all_sends(&mut self) {
        let all: Vec<SendId> = self.senders.keys().copied().collect();
        for id in all {
            // It is there, so it can be closed.
            let _ = self.close_send(id);
        }
    }

    /// The bytes of a send cannot be read any more. Where it has not begun it never will: the receiver would take the next message in its
    /// place, so the connection carries nothing more.
    pub fn withdraw(&mut self, id: RequestId) {
        let Some(Request::Send(send)) = self.requests.get(&id) else { return };
        if send.bytes == 0 {
            // There is nothing to be read.
            return;
        }
        let Some(sender) = self.senders.get_mut(&send.sender) else { return };
        let before = sender.queued.len();
        sender.queued.retain(|(_, queued)| *queued != id);
        if sender.queued.len() < before {
            sender.failed.get_or_insert(ConnectionError::Withdrawn { rank: sender.peer });
        }
    }

    fn forget(&mut self, of: impl Fn(&Request) -> bool) -> Vec<RequestId> {
        let gone: Vec<RequestId> =
            self.requests.iter().filter(|(_, request)| of(request)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| {
            self.requests.remove(id);
        });
        gone
    }

    fn open_receiver(&mut self, id: ReceiveId) -> Result<&mut Receiver, ConnectionError> {
        let receiver = self.receivers.get_mut(&id).filter(|receiver| !receiver.closed);
        receiver.ok_or(ConnectionError::Unknown("connection"))
    }

    /// Whether something is to be done for what NCCL has closed, and will not ask for again.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        !self.notices.is_empty()
            || !self.streams.is_empty()
            || !self.transfers.is_empty()
            || self.receivers.values().any(|receiver| receiver.closed)
    }

    /// Whether this rank has no listener, no connection, and nothing under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.listeners.is_empty()
            && self.senders.is_empty()
            && self.receivers.is_empty()
            && !self.is_draining()
    }

    /// What is to be done next. Where it is done, [`Machine::notified`], [`Machine::send_begun`] or [`Machine::receive_begun`] says so; else the
    /// same is given again.
    #[must_use]
    pub fn next_action(&mut self) -> Option<Action> {
        if let Some((to, message)) = self.notices.front() {
            return Some(Action::Notify { to: *to, words: message.words() });
        }
        while let Some(id) = self.ready.front().copied() {
            let sender = self.senders.get(&id);
            let next = sender.and_then(|sender| Some((sender.peer, *sender.queued.get(sender.next()?)?)));
            let Some((to, (_, request))) = next else {
                self.unlist(id);
                continue;
            };
            let bytes = match self.requests.get(&request) {
                Some(Request::Send(send)) => send.bytes,
                _ => 0,
            };
            if bytes == 0 || self.sends.has_room(&self.limits, bytes) {
                return Some(Action::Send { to, request, bytes });
            }
            break;
        }
        let from = *self.turn.front()?;
        let bytes = self.streams.get(&from)?.front()?.bytes;
        self.receives.has_room(&self.limits, bytes).then_some(Action::Receive { from, bytes })
    }

    /// The notification that was next has been made.
    pub fn notified(&mut self) {
        self.notices.pop_front();
    }

    /// The send that was next has begun; one of no bytes needs no call of the engine, and no name.
    pub fn send_begun(&mut self) -> Option<TransferId> {
        let id = *self.ready.front()?;
        let sender = self.senders.get_mut(&id)?;
        let request = sender.take()?;
        let (peer, receiver) = (sender.peer, sender.remote);
        // The next one in turn is another connection's.
        self.unlist(id);
        self.list(id);
        let Some(Request::Send(send)) = self.requests.get_mut(&request) else { return None };
        let (tag, bytes) = (send.tag, send.bytes);
        send.done = bytes == 0;
        self.notices.push_back((peer, Message::Send { receiver, tag, bytes }));
        if bytes == 0 {
            return None;
        }
        self.sends.begun(bytes);
        let transfer = TransferId(self.number());
        self.transfers.insert(transfer, Transfer::Send { request, bytes });
        Some(transfer)
    }

    /// The receive that was next has begun.
    pub fn receive_begun(&mut self) -> Option<TransferId> {
        let from = self.turn.pop_front()?;
        let stream = self.streams.get_mut(&from)?;
        let Incoming { place, bytes } = stream.pop_front()?;
        match stream.is_empty() {
            true => drop(self.streams.remove(&from)),
            false => self.turn.push_back(from),
        }
        self.receives.begun(bytes);
        let transfer = TransferId(self.number());
        self.transfers.insert(transfer, Transfer::Receive { place, bytes });
        Some(transfer)
    }

    /// Where the bytes of a receive that has ended belong; `None` where nobody wants them any more, and for sends.
    #[must_use]
    pub fn place_of(&self, id: TransferId) -> Option<Destination> {
        match self.transfers.get(&id) {
            Some(Transfer::Receive { place, .. }) => *place,
            _ => None,
        }
    }

    /// Bytes of a call of the engine; 0 of one that is none.
    #[must_use]
    pub fn bytes_of(&self, id: TransferId) -> u64 {
        match self.transfers.get(&id) {
            Some(Transfer::Receive { bytes, .. } | Transfer::Send { bytes, .. }) => *bytes,
            None => 0,
        }
    }

    /// A call of the engine has ended well, and its bytes are where they belong.
    pub fn ended(&mut self, id: TransferId) {
        match self.transfers.remove(&id) {
            Some(Transfer::Send { request, bytes }) => {
                self.sends.ended(bytes);
                if let Some(Request::Send(send)) = self.requests.get_mut(&request) {
                    send.done = true;
                }
            }
            Some(Transfer::Receive { place, bytes }) => {
                self.receives.ended(bytes);
                if let Some(Request::Receive(receive)) = place.and_then(|p| self.requests.get_mut(&p.request))
                {
                    receive.left -= 1;
                }
            }
            None => {}
        }
    }

    fn list(&mut self, id: SendId) {
        if let Some(sender) = self.senders.get_mut(&id)
            && sender.next().is_some()
            && !std::mem::replace(&mut sender.listed, true)
        {
            self.ready.push_back(id);
        }
    }

    fn unlist(&mut self, id: SendId) {
        self.ready.pop_front();
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.listed = false;
        }
    }
}
