//! What other ranks notify this one of.

use super::{
    ConnectionError, Destination, Incoming, ListenId, MAX_RECEIVES, MAX_REQUESTS, MAX_WAITING, Machine,
    Message, Phase, ReceiveId, Request, RequestId, SendId, Tags,
};

impl Machine {
    /// A rank has notified this one. What makes no sense fails its connection alone, or goes nowhere where there is none.
    pub fn on_notification(&mut self, from: u32, words: [u64; 3]) {
        let Some(message) = Message::read(words) else { return };
        match message {
            Message::Connect { listener, cookie, sender } => {
                self.on_connect(from, (listener, cookie), sender)
            }
            Message::Accept { sender, receiver } => self.on_accept(from, SendId(sender), receiver),
            Message::Refuse { sender } => {
                self.on_sender(from, sender, |sender| {
                    sender.failed.get_or_insert(ConnectionError::Refused { rank: from });
                });
            }
            Message::Credit { sender, tags } => self.on_credit(from, sender, tags),
            Message::Send { receiver, tag, bytes } => self.on_send(from, ReceiveId(receiver), tag, bytes),
            Message::SenderClosed { receiver } => self.on_sender_closed(from, ReceiveId(receiver)),
            Message::ReceiverClosed { sender } => self.on_receiver_closed(from, sender),
            Message::Gone { receiver } => {
                let id = ReceiveId(receiver);
                if self.receivers.get(&id).is_some_and(|receiver| receiver.closed && receiver.peer == from) {
                    self.receivers.remove(&id);
                }
            }
        }
    }

    fn on_connect(&mut self, from: u32, (listener, cookie): (u32, u64), sender: u32) {
        let listener =
            self.listeners.get_mut(&ListenId(listener)).filter(|listener| listener.cookie == cookie);
        match listener {
            Some(listener) if listener.waiting.len() < MAX_WAITING => {
                listener.waiting.push_back((from, sender))
            }
            _ => self.notices.push_back((from, Message::Refuse { sender })),
        }
    }

    fn on_accept(&mut self, from: u32, id: SendId, receiver: u32) {
        match self.senders.get_mut(&id).filter(|sender| sender.peer == from) {
            Some(sender) if sender.phase == Phase::Connecting => {
                (sender.phase, sender.remote) = (Phase::Open, receiver);
                self.list(id);
            }
            Some(sender) => {
                let what = "it accepted a connection twice";
                sender.failed.get_or_insert(ConnectionError::Protocol { rank: from, what });
            }
            // It was given up meanwhile.
            None => self.notices.push_back((from, Message::SenderClosed { receiver })),
        }
    }

    fn on_credit(&mut self, from: u32, sender: u32, tags: Tags) {
        const MOST: usize = MAX_REQUESTS * MAX_RECEIVES;
        self.on_sender(from, sender, |sender| {
            tags.iter().for_each(|tag| *sender.credits.entry(tag).or_default() += 1);
            if sender.credit() > MOST {
                let what = "it has room for more messages than can be";
                sender.failed.get_or_insert(ConnectionError::Protocol { rank: from, what });
                sender.credits.clear();
            }
        });
        self.list(SendId(sender));
    }

    fn on_receiver_closed(&mut self, from: u32, sender: u32) {
        let mut remote = None;
        self.on_sender(from, sender, |sender| {
            if sender.phase == Phase::Open {
                sender.phase = Phase::Ended;
                remote = Some(sender.remote);
                if !sender.queued.is_empty() {
                    sender.failed.get_or_insert(ConnectionError::Closed { rank: from });
                }
            }
        });
        // Whom it does not find here knows already, by what closing it said.
        if let Some(receiver) = remote {
            self.notices.push_back((from, Message::Gone { receiver }));
        }
    }

    fn on_sender(&mut self, from: u32, sender: u32, then: impl FnOnce(&mut super::Sender)) {
        if let Some(sender) = self.senders.get_mut(&SendId(sender)).filter(|sender| sender.peer == from) {
            then(sender);
        }
    }

    fn on_sender_closed(&mut self, from: u32, id: ReceiveId) {
        let Some(receiver) = self.receivers.get_mut(&id).filter(|receiver| receiver.peer == from) else {
            return;
        };
        if receiver.closed {
            self.receivers.remove(&id);
            return;
        }
        receiver.ended = true;
        if !receiver.open.is_empty() {
            receiver.failed.get_or_insert(ConnectionError::Closed { rank: from });
        }
    }

    fn on_send(&mut self, from: u32, id: ReceiveId, tag: i32, bytes: u64) {
        let place = self.place_for(from, id, tag, bytes);
        if bytes > 0 {
            let stream = self.streams.entry(from).or_default();
            if stream.is_empty() {
                self.turn.push_back(from);
            }
            stream.push_back(Incoming { place, bytes });
        } else if let Some(Request::Receive(receive)) = place.and_then(|p| self.requests.get_mut(&p.request))
        {
            receive.left -= 1;
        }
    }

    /// The place of a message: the first with its tag of the oldest receive that has one left. NCCL gives the tag of a pair of ranks to single
    /// messages as well, for its groups get smaller towards their end, so that one of them may follow another pair's on the same connection.
    fn place_for(&mut self, from: u32, id: ReceiveId, tag: i32, bytes: u64) -> Option<Destination> {
        let receiver =
            self.receivers.get_mut(&id).filter(|r| r.peer == from && !r.closed && r.failed.is_none())?;
        let requests = &self.requests;
        let free = |request: &RequestId| match requests.get(request) {
            Some(Request::Receive(receive)) => {
                receive.slots.iter().position(|slot| slot.bytes.is_none() && slot.tag == tag)
            }
            _ => None,
        };
        let found =
            receiver.open.iter().enumerate().find_map(|(at, request)| Some((at, *request, free(request)?)));
        let Some((at, request, index)) = found else {
            let what = "it sent a message for which there was no room";
            receiver.failed = Some(ConnectionError::Protocol { rank: from, what });
            return None;
        };
        let Some(Request::Receive(receive)) = self.requests.get_mut(&request) else { return None };
        let slot = &mut receive.slots[index];
        if bytes > slot.room {
            receiver.failed = Some(ConnectionError::TooLarge { rank: from, bytes, tag, room: slot.room });
            return None;
        }
        slot.bytes = Some(bytes);
        if receive.slots.iter().all(|slot| slot.bytes.is_some()) {
            receiver.open.remove(at);
        }
        Some(Destination { request, index })
    }
}
