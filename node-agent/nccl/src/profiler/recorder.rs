//! What NCCL says of its work, as spans of time. [pure]

use std::collections::VecDeque;

use super::event::{Beginning, Event, Member, Progress, Span, State};
use super::messages::Messages;

/// Most events that NCCL may have begun and not ended. Of more there is no record.
const MOST_OPEN: usize = 1 << 14;

#[derive(Debug)]
struct Open {
    rank: i32,
    communicator: u64,
    start: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Call { name: String, count: u64 },
    Operation(Operation),
    Step(Step),
}

/// One of the proxy's operations.
#[derive(Debug)]
struct Operation {
    channel: u8,
    peer: i32,
    sends: bool,
    messages: Messages,
    /// Bytes of all its messages, as NCCL has last said (up to v3), and the message that moved last, which the next ones are of.
    bytes: u64,
    moved: Option<Moved>,
}

/// A message that has moved.
#[derive(Debug)]
enum Moved {
    /// It is under way.
    Open(u64),
    /// It is over, and these spans are of it.
    Over(Vec<u64>),
}

/// A message.
#[derive(Debug)]
struct Step {
    operation: u64,
    channel: u8,
    peer: i32,
    state: Option<State>,
    bytes: u64,
    /// Numbers of its spans: its size is known later than some of them are over.
    spans: Vec<u64>,
}

/// Spans of one message whose size may still become known.
const MOST_SPANS: usize = 8;

/// All that a process has recorded: what has begun, and the last spans.
#[derive(Debug)]
pub struct Recorder {
    most: usize,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// How often each place of `open` was used: a number that is over is not taken for a later one.
    lives: Vec<u32>,
    spans: VecDeque<Span>,
    /// Number of the next span.
    next: u64,
    lost: u64,
}

impl Recorder {
    /// One that remembers so many spans.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            open: Vec::new(),
            free: Vec::new(),
            lives: Vec::new(),
            spans: VecDeque::new(),
            next: 0,
            lost: 0,
        }
    }

    /// Something begins. Gives its number, which steps of one message share; `None` where there is no record of it.
    pub fn start(&mut self, (communicator, rank): Member, beginning: Beginning, now: u64) -> Option<u64> {
        match beginning {
            Beginning::Step { operation, step } => {
                let Some(What::Operation(of)) = self.find(operation).map(|open| &mut open.what) else {
                    return None;
                };
                if let Some(event) = of.messages.join(step) {
                    return Some(event);
                }
                let (channel, peer, has_room) = (of.channel, of.peer, of.messages.has_room());
                let step_of = Step { operation, channel, peer, state: None, bytes: 0, spans: Vec::new() };
                let open = Open { rank, communicator, start: now, what: What::Step(step_of) };
                let event = if has_room { self.place_for(open) } else { self.lose() }?;
                self.operation(operation)?.messages.begin(step, event);
                Some(event)
            }
            Beginning::Whole(event) => {
                let what = match event {
                    Event::Call { name, count } => What::Call { name, count },
                    Event::Operation { channel, peer, sends } => {
                        let messages = Messages::default();
                        What::Operation(Operation { channel, peer, sends, messages, bytes: 0, moved: None })
                    }
                    // A message is a step of an operation.
                    Event::Step { .. } => return None,
                };
                self.place_for(Open { rank, communicator, start: now, what })
            }
        }
    }

    fn lose(&mut self) -> Option<u64> {
        self.lost += 1;
        None
    }

    fn place_for(&mut self, open: Open) -> Option<u64> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.open.len() < MOST_OPEN => {
                self.open.push(None);
                self.lives.push(0);
                self.open.len() - 1
            }
            None => return self.lose(),
        };
        self.open[place] = Some(open);
        Some(u64::from(self.lives[place]) << 24 | place as u64)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let place = usize::try_from(number & 0xff_ffff).ok()?;
        let life = self.lives.get(place).copied()?;
        (u64::from(life) == number >> 24).then_some(place)
    }

    fn find(&mut self, number: u64) -> Option<&mut Open> {
        let place = self.place(number)?;
        self.open.get_mut(place)?.as_mut()
    }

    fn operation(&mut self, number: u64) -> Option<&mut Operation> {
        match &mut self.find(number)?.what {
            What::Operation(operation) => Some(operation),
            _ => None,
        }
    }

    fn step(&mut self, number: u64) -> Option<&mut Step> {
        match &mut self.find(number)?.what {
            What::Step(step) => Some(step),
            _ => None,
        }
    }

    /// A message is in this state from now on, with so many bytes where that is known. NCCL says the same again as long as it lasts.
    pub fn state(&mut self, number: u64, state: State, bytes: u64, now: u64) {
        let Some(open) = self.find(number) else { return };
        let (rank, communicator, start) = (open.rank, open.communicator, open.start);
        let What::Step(step) = &mut open.what else { return };
        let before = step.state.replace(state);
        let (operation, channel, peer, known) = (step.operation, step.channel, step.peer, step.bytes);
        if before != Some(state) {
            open.start = now;
        }
        if let Some(before) = before.filter(|before| *before != state) {
            let event = Event::Step { channel, peer, state: before, bytes: known };
            let span = self.keep(Span { rank, communicator, start, end: now.max(start), event });
            if let Some(step) = self.step(number).filter(|step| step.spans.len() < MOST_SPANS) {
                step.spans.push(span);
            }
        }
        if let Some(operation) = self.operation(operation) {
            operation.messages.set_whole(number);
        }
        if state.is_sized() && bytes > 0 {
            self.set_bytes(number, bytes);
        }
    }

    /// The size of a message is known.
    fn set_bytes(&mut self, number: u64, bytes: u64) {
        let Some(step) = self.step(number) else { return };
        step.bytes = bytes;
        let spans = step.spans.clone();
        self.amend(&spans, bytes);
    }

    /// As many of these spans as are remembered are of a message of this size.
    fn amend(&mut self, spans: &[u64], size: u64) {
        let first = self.next - self.spans.len() as u64;
        for number in spans {
            let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
            if let Some(span) = place.and_then(|place| self.spans.get_mut(place))
                && let Event::Step { bytes, .. } = &mut span.event
            {
                *bytes = size;
            }
        }
    }

    /// An operation is so far: so many of its steps have come to that, and its messages have so many bytes in all, as far as NCCL has
    /// counted.
    pub fn progress(&mut self, number: u64, progress: Progress, (steps, bytes): (i32, u64), now: u64) {
        let Some(operation) = self.operation(number) else { return };
        let message = operation.messages.ending(steps);
        if progress == Progress::Moved {
            operation.moved = message.map(Moved::Open);
        }
        let more = bytes.saturating_sub(operation.bytes);
        operation.bytes = bytes;
        if more > 0 {
            match operation.moved.take() {
                Some(Moved::Open(moved)) => {
                    operation.moved = Some(Moved::Open(moved));
                    self.set_bytes(moved, more);
                }
                Some(Moved::Over(spans)) => self.amend(&spans, more),
                None => {}
            }
        }
        if progress == Progress::Ready
            && let Some(message) = message
        {
            self.state(message, State::SendPeer, 0, now);
        }
    }

    /// Something ends.
    pub fn stop(&mut self, number: u64, now: u64) {
        let Some(Open { rank, communicator, start, what }) = self.close(number) else { return };
        let span = |event| Span { rank, communicator, start, end: now.max(start), event };
        match what {
            What::Call { name, count } => {
                self.keep(span(Event::Call { name, count }));
            }
            What::Operation(Operation { channel, peer, sends, messages, .. }) => {
                // Messages that nothing has happened to.
                messages.events().for_each(|event| drop(self.close(event)));
                self.keep(span(Event::Operation { channel, peer, sends }));
            }
            What::Step(Step { operation, channel, peer, state, bytes, mut spans }) => {
                if let Some(state) = state {
                    spans.push(self.keep(span(Event::Step { channel, peer, state, bytes })));
                }
                let Some(operation) = self.operation(operation) else { return };
                operation.messages.remove(number);
                if matches!(operation.moved, Some(Moved::Open(moved)) if moved == number) {
                    operation.moved = Some(Moved::Over(spans));
                }
            }
        }
    }

    /// Takes it out: its number is over.
    fn close(&mut self, number: u64) -> Option<Open> {
        let place = self.place(number)?;
        let open = self.open[place].take()?;
        // Twenty-four bits of a life, then it begins anew.
        self.lives[place] = (self.lives[place] + 1) & 0xff_ffff;
        self.free.push(place);
        Some(open)
    }

    /// A communicator is gone: what it has begun and not ended, as where it was aborted, never ends.
    pub fn abandon(&mut self, (communicator, rank): Member) {
        for (place, open) in self.open.iter_mut().enumerate() {
            if open.take_if(|open| (open.communicator, open.rank) == (communicator, rank)).is_some() {
                self.lives[place] = (self.lives[place] + 1) & 0xff_ffff;
                self.free.push(place);
            }
        }
    }

    /// Remembers a span, and gives its number.
    fn keep(&mut self, span: Span) -> u64 {
        if self.spans.len() >= self.most {
            self.spans.pop_front();
            self.lost += 1;
        }
        self.spans.push_back(span);
        self.next += 1;
        self.next - 1
    }

    /// The last spans, and how many there is no record of; they are no more.
    pub fn take(&mut self) -> (Vec<Span>, u64) {
        (std::mem::take(&mut self.spans).into(), std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests;
