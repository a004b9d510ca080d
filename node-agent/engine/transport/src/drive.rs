//! Joins a machine, its memory and a transport: the turn that a progress thread repeats.

use std::time::{Duration, Instant};

use node_agent_collective::units::{Node, Rail, Time};
use node_agent_collective::{
    Arena, Command, FrameError, Header, Landing, Machine, Memory, RailCause, Region,
};
use node_agent_ipc::pieces::{Source, Target};

use crate::transport::{Sink, Transport, TransportError};

/// The clock of a machine: its time is what has passed since the clock was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero now.
    #[must_use]
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The time since this clock was made.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.elapsed()
    }
}

/// Those who hand in work without an event, by memory that they share with the caller; see [`Sink::is_called`] and
/// [`Sink::sleeps`].
pub trait Callers {
    /// Whether one of them has handed in something.
    fn is_called(&self) -> bool;

    /// From now on who hands in something makes an event of it, or need not any more.
    fn sleeps(&self, asleep: bool);
}

/// The callers of a program in which nobody hands in work by shared memory.
impl Callers for () {
    fn is_called(&self) -> bool {
        false
    }

    fn sleeps(&self, _asleep: bool) {}
}

/// A machine's buffers that rails send from and receive into. Those of which the machine can have the bytes in place need no
/// more; others give the kernel its way to them.
pub trait Buffers: Memory {
    /// A region, to be sent.
    fn source(&self, region: Region) -> Option<Source<'_>> {
        self.bytes(region).map(Source::from)
    }

    /// A region, to be received into.
    fn target(&mut self, region: Region) -> Option<Target<'_>> {
        self.bytes_mut(region).map(Target::from)
    }
}

impl Buffers for Arena {}

/// Hands a transport's events to a machine and its memory's bytes to the transport.
pub struct Bridge<'a, M> {
    /// The state machine of the collectives, which gets the events.
    pub machine: &'a mut Machine,
    /// The memory in which the machine's operands lie.
    pub memory: &'a mut M,
    /// The clock by which events are timed.
    pub clock: Clock,
    /// Takes the tokens of the caller's own event sources.
    pub external: &'a mut Vec<usize>,
    /// Those who hand in work without an event.
    pub callers: &'a dyn Callers,
}

impl<M: Buffers> Sink for Bridge<'_, M> {
    fn payload(&self, token: u64, region: Region) -> Option<Source<'_>> {
        if self.machine.withdrawn(token) { None } else { self.memory.source(region) }
    }

    fn begin(&mut self, rail: Rail, peer: Node, header: &Header) -> Result<(), FrameError> {
        self.machine.begin(rail, peer, header, self.clock.now())
    }

    fn landing(&mut self, rail: Rail, peer: Node, at: usize) -> Option<Target<'_>> {
        match self.machine.landing(rail, peer, at) {
            Landing::Into(region) => self.memory.target(region),
            Landing::Discard => None,
        }
    }

    fn received(&mut self, rail: Rail, peer: Node) -> Result<(), FrameError> {
        self.machine.received(rail, peer, self.memory, self.clock.now())
    }

    fn sent(&mut self, rail: Rail, peer: Node, token: u64) {
        self.machine.sent(rail, peer, token, self.clock.now());
    }

    fn taken(&mut self, rail: Rail, peer: Node, token: u64) {
        self.machine.taken(rail, peer, token);
    }

    fn release_buffer(&mut self, _rail: Rail, _peer: Node, token: u64) {
        self.machine.release_buffer(token);
    }

    fn handed(&mut self, took: Duration) {
        self.machine.handed(took);
    }

    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32) {
        self.machine.rail_up(rail, peer, generation, self.clock.now());
    }

    fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        self.machine.rail_down(rail, peer, generation, cause, self.clock.now());
    }

    fn port_down(&mut self, rail: Rail) {
        self.machine.port_down(rail, self.clock.now());
    }

    fn port_up(&mut self, rail: Rail) {
        self.machine.port_up(rail, self.clock.now());
    }

    fn external(&mut self, token: usize) {
        self.external.push(token);
    }

    fn is_called(&self) -> bool {
        self.callers.is_called()
    }

    fn sleeps(&mut self, asleep: bool) {
        self.callers.sleeps(asleep);
    }

    fn is_small(&self) -> bool {
        self.machine.is_small()
    }

    fn rest(&self) -> Duration {
        self.machine.rest()
    }
}

/// Has the transport do what the machine asks of it.
fn apply_command<T: Transport + ?Sized>(machine: &mut Machine, transport: &mut T) {
    while let Some(command) = machine.poll_command() {
        match command {
            Command::Close { rail, peer, generation, cause } => {
                transport.close(rail, peer, generation, cause)
            }
            Command::Redial { rail, peer } => transport.redial(rail, peer),
        }
    }
}

/// One turn: sends what can be sent, does a piece of local work, then waits for events no longer than `timeout`
/// and the machine's own deadline (not at all while local work is left). Completions are the caller's to poll.
///
/// # Errors
/// The transport cannot go on.
pub fn drive<M: Buffers, T: Transport + ?Sized>(
    bridge: &mut Bridge<'_, M>,
    transport: &mut T,
    timeout: Duration,
) -> Result<(), TransportError> {
    let now = bridge.clock.now();
    bridge.machine.tick(now);
    apply_command(bridge.machine, transport);
    while let Some(frame) = bridge.machine.poll_transmit(bridge.memory, bridge.clock.now()) {
        transport.send(frame);
    }
    transport.flush(bridge);
    let busy = bridge.machine.work(bridge.memory, bridge.clock.now());
    let wait = match bridge.machine.next_deadline() {
        _ if busy => Duration::ZERO,
        Some(deadline) => timeout.min(deadline.saturating_sub(bridge.clock.now())),
        None => timeout,
    };
    transport.poll(Some(wait), bridge)?;
    // Before the caller learns of operations that have ended: a rail that the machine has given up may still read their buffers.
    apply_command(bridge.machine, transport);
    Ok(())
}
