//! A step's connection to the agent: frames in and out, none of which is waited for.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use node_agent_attempt::step_frames::{self, FRAME_MAX, ORDER_MAX};
use prost::Message;
use proto_model::{StepInput, StepOrder};
use proto_wire::v1::{self, step_event::What};
use rustix::event::{PollFd, PollFlags};

/// While more than this waits to be written nothing more is read from the processes.
const OUT_MAX: usize = 256 << 10;
/// What is left at the end is written for this long at most.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The agent's end of a step.
#[derive(Debug)]
pub struct Caller {
    stream: UnixStream,
    held: Vec<u8>,
    out: Vec<u8>,
    /// The order has come: from now on frames are short.
    ordered: bool,
    /// Nothing more is taken from it.
    input_closed: bool,
    /// The caller is gone: nothing can be sent to it any more.
    disconnected: bool,
}

impl Caller {
    /// A caller that has just connected, whose order is still to come.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            held: Vec::new(),
            out: Vec::new(),
            ordered: false,
            input_closed: false,
            disconnected: false,
        })
    }

    /// What to wait for, if anything.
    pub fn poll(&self) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.input_closed && !self.disconnected);
        flags.set(PollFlags::OUT, !self.out.is_empty() && !self.disconnected);
        (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(self.stream.as_fd(), flags))
    }

    /// The connection has ended in one direction or in both.
    pub fn is_lost(&self) -> bool {
        self.disconnected || self.input_closed
    }

    pub fn has_room(&self) -> bool {
        self.disconnected || self.out.len() < OUT_MAX
    }

    /// All that was said has been written, or never will be.
    pub fn is_reported(&self) -> bool {
        self.disconnected || self.out.is_empty()
    }

    /// Nothing comes and nothing goes any more.
    pub fn is_done(&self) -> bool {
        self.is_lost() && self.is_reported()
    }

    /// Nothing more is taken from it.
    pub fn stop_reading(&mut self) {
        self.input_closed = true;
        self.held.clear();
    }

    /// Says that this server's part has failed.
    pub fn fail(&mut self, message: &str) {
        self.say(0, What::Failure(v1::StepFailure { message: message.to_owned() }));
        self.stop_reading();
    }

    pub fn say(&mut self, rank: u32, what: What) {
        if !self.disconnected {
            self.out.extend(step_frames::encode(&v1::StepEvent {
                node: String::new(),
                rank,
                what: Some(what),
            }));
        }
    }

    /// The order, once it is there.
    ///
    /// # Errors
    /// What came is no order; the text says why.
    pub fn order(&mut self) -> Result<Option<StepOrder>, String> {
        let Some(wire) = self.next::<v1::StepOrder>(ORDER_MAX)? else { return Ok(None) };
        self.ordered = true;
        StepOrder::try_from(wire).map(Some).map_err(|error| format!("the order is not understood: {error}"))
    }

    /// The next input that has come.
    ///
    /// # Errors
    /// What came is no input; the text says why.
    pub fn input(&mut self) -> Result<Option<StepInput>, String> {
        let Some(wire) = self.next::<v1::StepInput>(FRAME_MAX)? else { return Ok(None) };
        StepInput::try_from(wire).map(Some).map_err(|error| format!("the input is not understood: {error}"))
    }

    fn next<M: Message + Default>(&mut self, most: usize) -> Result<Option<M>, String> {
        if let Some(message) = self.held_frame(most)? {
            return Ok(Some(message));
        }
        self.read(most);
        self.held_frame(most)
    }

    fn held_frame<M: Message + Default>(&mut self, most: usize) -> Result<Option<M>, String> {
        step_frames::take(&mut self.held, most).map_err(|error| error.to_string())
    }

    /// Takes what has come, not more than one frame may have.
    fn read(&mut self, most: usize) {
        let mut buffer = [0; 16 * 1024];
        while !self.input_closed && !self.disconnected && self.held.len() < most + step_frames::LENGTH {
            match (&self.stream).read(&mut buffer) {
                // Whoever sends nothing more is gone: an agent ends both ways at once.
                Ok(0) => self.disconnected = true,
                Ok(length) => self.held.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.disconnected = true,
            }
        }
    }

    /// Writes what can be written now.
    pub fn flush(&mut self) {
        let mut written = 0;
        while let Some(rest) = self.out.get(written..).filter(|rest| !rest.is_empty() && !self.disconnected) {
            match (&self.stream).write(rest) {
                Ok(length) => written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.disconnected = true,
            }
        }
        self.out.drain(..written);
    }

    /// Writes what is left, for a short time.
    pub fn finish(mut self) {
        self.flush();
        if self.is_reported() {
            return;
        }
        let waits = self.stream.set_nonblocking(false);
        let bounded = waits.and_then(|()| self.stream.set_write_timeout(Some(LAST_OUTPUT)));
        // Whoever does not read it misses it.
        let _ = bounded.and_then(|()| (&self.stream).write_all(&self.out));
    }
}
