//! NCCL around its profiler: what each of its versions says while one call's messages move, and in which order.
//!
//! NCCL 2.23 (v1) counts several steps for a message, each with an event of its own, and adds its size to the operation's after it was sent;
//! later ones have one step, and add before. Up to 2.26 (v3) operations say that a receiver has no room, later on messages do.

use std::ffi::c_void;
use std::ptr::null_mut;

use super::calls::{Calls, Communicator, What};

/// Steps that NCCL has under way at a time in one operation.
const STEPS: usize = 8;

/// NCCL's numbers of states of operations, and of messages.
mod states {
    pub const OP_SEND_POSTED: i32 = 0;
    pub const OP_SEND_READY: i32 = 1;
    pub const OP_SENT: i32 = 2;
    pub const OP_SEND_DONE: i32 = 3;
    pub const OP_RECEIVE_POSTED: i32 = 4;
    pub const OP_RECEIVED: i32 = 5;
    pub const OP_HANDED: i32 = 6;
    pub const OP_RECEIVE_DONE: i32 = 7;
    pub const SEND_GPU: i32 = 8;
    pub const SEND: i32 = 9;
    pub const RECEIVE: i32 = 10;
    pub const FLUSH: i32 = 11;
    pub const RECEIVE_GPU: i32 = 12;
    pub const OP_IN_PROGRESS: i32 = 19;
    pub const SEND_PEER: i32 = 20;
}

/// A collective or a message between two ranks, in a group of its own, as NCCL knows it.
pub struct Call {
    group: *mut c_void,
    pub event: *mut c_void,
}

impl Call {
    /// NCCL up to v4 says nothing of a call where its group has no handle; later ones do not ask.
    pub fn begin(calls: &Calls, communicator: &Communicator, what: What) -> Self {
        let group = calls.start(communicator, null_mut(), What::Group);
        let recorded = !group.is_null() || calls.version > 4;
        let event = if recorded { calls.start(communicator, group, what) } else { null_mut() };
        Self { group, event }
    }

    /// The call was handed to the GPU; its messages go on.
    pub fn end(&self, calls: &Calls) {
        calls.stop(self.event);
        if !self.group.is_null() {
            calls.stop(self.group);
        }
    }
}

/// What the proxy does for one channel and one other rank.
pub struct Operation<'a> {
    calls: &'a Calls,
    communicator: Communicator,
    pub event: *mut c_void,
    sends: bool,
    /// Steps of one message.
    slice: i32,
    events: [*mut c_void; STEPS],
    /// Up to v3 bytes of all messages, then the size of the last one that moved.
    size: usize,
}

impl<'a> Operation<'a> {
    /// One of `slice` steps for each message where its version counts them.
    pub fn begin(calls: &'a Calls, communicator: &Communicator, call: &Call, what: What, slice: i32) -> Self {
        let What::Op { sends, .. } = what else { panic!("{what:?} is no operation") };
        let event = calls.start(communicator, call.event, what);
        if calls.version > 3 && !event.is_null() {
            calls.state(event, states::OP_IN_PROGRESS, 0);
        }
        let slice = if calls.version == 1 { slice } else { 1 };
        let (communicator, events) = (*communicator, [null_mut(); STEPS]);
        Self { calls, communicator, event, sends, slice, events, size: 0 }
    }

    fn steps(&self, message: i32) -> std::ops::Range<i32> {
        self.slice * message..self.slice * (message + 1)
    }

    fn counts(&self) -> bool {
        self.calls.version <= 3
    }

    /// The proxy gives a message's buffer to the GPU, or tries to receive into it, which may have to be tried again.
    pub fn start(&mut self, message: i32) {
        for step in self.steps(message) {
            let event = self.calls.start(&self.communicator, self.event, What::Step(step));
            self.events[step as usize % STEPS] = event;
        }
    }

    fn progress(&self, message: i32, state: i32) {
        if self.counts() {
            self.calls.progress(self.event, state, self.steps(message).end, self.size);
        }
    }

    fn state(&self, message: i32, state: i32) {
        for step in self.steps(message) {
            let event = self.events[step as usize % STEPS];
            if !event.is_null() {
                self.calls.state(event, state, self.size);
            }
        }
    }

    fn moved(&mut self, size: usize) {
        self.size = if self.counts() { self.size + size } else { size };
    }

    /// It was given, or is to be received.
    pub fn posted(&self, message: i32) {
        let (operation, state) = match self.sends {
            true => (states::OP_SEND_POSTED, states::SEND_GPU),
            false => (states::OP_RECEIVE_POSTED, states::RECEIVE),
        };
        self.progress(message, operation);
        self.state(message, state);
    }

    /// The GPU has given the bytes; said each time that the network is asked to send them.
    pub fn ready(&self, message: i32) {
        self.progress(message, states::OP_SEND_READY);
        if !self.counts() {
            self.state(message, states::SEND_PEER);
        }
    }

    /// The network has taken them.
    pub fn sent(&mut self, message: i32, size: usize) {
        let late = self.calls.version == 1;
        if !late {
            self.moved(size);
        }
        self.progress(message, states::OP_SENT);
        self.state(message, states::SEND);
        if late {
            self.moved(size);
        }
    }

    /// They have come.
    pub fn received(&mut self, message: i32, size: usize) {
        self.moved(size);
        self.progress(message, states::OP_RECEIVED);
        self.state(message, states::FLUSH);
    }

    /// They are the GPU's.
    pub fn handed(&self, message: i32) {
        self.progress(message, states::OP_HANDED);
        self.state(message, states::RECEIVE_GPU);
    }

    /// The message is over.
    pub fn done(&mut self, message: i32) {
        for step in self.steps(message) {
            let event = std::mem::replace(&mut self.events[step as usize % STEPS], null_mut());
            if !event.is_null() {
                self.calls.stop(event);
            }
        }
        self.progress(message, if self.sends { states::OP_SEND_DONE } else { states::OP_RECEIVE_DONE });
    }

    /// All of them are.
    pub fn end(&self) {
        self.calls.stop(self.event);
    }
}
