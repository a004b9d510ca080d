//! What NCCL says of its work, as spans of time. [pure]

use std::collections::VecDeque;

/// Most events that NCCL may have begun and not ended. Of more there is no record.
const MOST_OPEN: usize = 1 << 14;

/// What a message of NCCL's waits for, by NCCL's numbers of states (v4 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The GPU has not given the bytes to be sent.
    SendGpu,
    /// The receiver has no room yet.
    SendPeer,
    /// The bytes are on the rails.
    Send,
    /// The bytes have not come over the rails.
    Receive,
    /// What has come is not visible to the GPU yet.
    Flush,
    /// The GPU has not taken the bytes.
    ReceiveGpu,
}

impl State {
    /// The state with this number; `None` where it is none of a message.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            8 => Self::SendGpu,
            9 => Self::Send,
            10 => Self::Receive,
            11 => Self::Flush,
            12 => Self::ReceiveGpu,
            20 => Self::SendPeer,
            _ => return None,
        })
    }
}

/// What a span is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A collective, or a message between two ranks, as the program asked for it.
    Call {
        /// Its name, with algorithm and protocol where NCCL says them.
        name: String,
        /// Number of elements.
        count: u64,
    },
    /// What the proxy does for one channel and one other rank.
    Operation {
        /// The channel.
        channel: u8,
        /// The other rank, as the communicator numbers it.
        peer: i32,
        /// Whether this rank sends.
        sends: bool,
    },
    /// One message of that, in one state.
    Step {
        /// The channel.
        channel: u8,
        /// The other rank.
        peer: i32,
        /// What it waited for.
        state: State,
        /// Bytes, as far as they are known.
        bytes: u64,
    },
}

/// Something that took time, in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The rank, as its communicator numbers it.
    pub rank: i32,
    /// The communicator.
    pub communicator: u64,
    /// When it began.
    pub start: u64,
    /// When it ended; not before it began.
    pub end: u64,
    /// What it was.
    pub event: Event,
}

/// What begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// A call, or the proxy's part of one.
    Whole(Event),
    /// A message of the proxy's operation with this number.
    Step(u64),
}

#[derive(Debug)]
struct Open {
    rank: i32,
    communicator: u64,
    start: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Whole(Event),
    Step { channel: u8, peer: i32, state: Option<State>, bytes: u64 },
}

/// All that a process has recorded: what has begun, and the last spans.
#[derive(Debug)]
pub struct Recorder {
    most: usize,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// How often each place of `open` was used: a number that is over is not taken for a later one.
    lives: Vec<u32>,
    spans: VecDeque<Span>,
    lost: u64,
}

impl Recorder {
    /// One that remembers so many spans.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, open: Vec::new(), free: Vec::new(), lives: Vec::new(), spans: VecDeque::new(), lost: 0 }
    }

    /// Something begins. Gives its number; `None` where there is no record of it.
    pub fn start(&mut self, (communicator, rank): (u64, i32), beginning: Beginning, now: u64) -> Option<u64> {
        let what = match beginning {
            Beginning::Whole(event) => What::Whole(event),
            Beginning::Step(parent) => match &self.find(parent)?.what {
                What::Whole(Event::Operation { channel, peer, .. }) => {
                    What::Step { channel: *channel, peer: *peer, state: None, bytes: 0 }
                }
                _ => return None,
            },
        };
        let open = Open { rank, communicator, start: now, what };
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.open.len() < MOST_OPEN => {
                self.open.push(None);
                self.lives.push(0);
                self.open.len() - 1
            }
            None => {
                self.lost += 1;
                return None;
            }
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

    /// A message is in another state from now on, with so many bytes where that is known.
    pub fn state(&mut self, number: u64, state: State, bytes: u64, now: u64) {
        let Some(open) = self.find(number) else { return };
        let (rank, communicator, start) = (open.rank, open.communicator, open.start);
        let What::Step { channel, peer, state: current, bytes: known } = &mut open.what else { return };
        *known = bytes.max(*known);
        let (channel, peer, known) = (*channel, *peer, *known);
        let before = current.replace(state);
        open.start = now;
        if let Some(before) = before {
            let event = Event::Step { channel, peer, state: before, bytes: known };
            self.keep(Span { rank, communicator, start, end: now.max(start), event });
        }
    }

    /// Something ends.
    pub fn stop(&mut self, number: u64, now: u64) {
        let Some(place) = self.place(number) else { return };
        let Some(open) = self.open[place].take() else { return };
        // Twenty-four bits of a life, then it begins anew.
        self.lives[place] = (self.lives[place] + 1) & 0xff_ffff;
        self.free.push(place);
        let event = match open.what {
            What::Whole(event) => event,
            What::Step { channel, peer, state: Some(state), bytes } => {
                Event::Step { channel, peer, state, bytes }
            }
            What::Step { state: None, .. } => return,
        };
        let Open { rank, communicator, start, .. } = open;
        self.keep(Span { rank, communicator, start, end: now.max(start), event });
    }

    /// A communicator is gone: what it has begun and not ended, as where it was aborted, never ends.
    pub fn abandon(&mut self, (communicator, rank): (u64, i32)) {
        for (place, open) in self.open.iter_mut().enumerate() {
            if open.take_if(|open| (open.communicator, open.rank) == (communicator, rank)).is_some() {
                self.lives[place] = (self.lives[place] + 1) & 0xff_ffff;
                self.free.push(place);
            }
        }
    }

    fn keep(&mut self, span: Span) {
        if self.spans.len() >= self.most {
            self.spans.pop_front();
            self.lost += 1;
        }
        self.spans.push_back(span);
    }

    /// The last spans, and how many there is no record of; they are no more.
    pub fn take(&mut self) -> (Vec<Span>, u64) {
        (std::mem::take(&mut self.spans).into(), std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHO: (u64, i32) = (7, 3);

    fn operation() -> Beginning {
        Beginning::Whole(Event::Operation { channel: 2, peer: 5, sends: true })
    }

    #[test]
    fn a_message_is_one_span_for_each_state() {
        let mut recorder = Recorder::new(10);
        let op = recorder.start(WHO, operation(), 100).unwrap();
        let step = recorder.start(WHO, Beginning::Step(op), 110).unwrap();
        recorder.state(step, State::SendGpu, 0, 120);
        recorder.state(step, State::SendPeer, 4096, 150);
        recorder.state(step, State::Send, 4096, 170);
        recorder.stop(step, 200);
        recorder.stop(op, 210);
        let (spans, lost) = recorder.take();
        assert_eq!(lost, 0);
        let times: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(times, [(120, 150), (150, 170), (170, 200), (100, 210)]);
        assert_eq!(spans[2].event, Event::Step { channel: 2, peer: 5, state: State::Send, bytes: 4096 });
        assert!(spans.iter().all(|span| (span.communicator, span.rank) == WHO));
    }

    #[test]
    fn what_is_over_is_not_taken_for_what_comes_later() {
        let mut recorder = Recorder::new(10);
        let first = recorder.start(WHO, operation(), 1).unwrap();
        recorder.stop(first, 2);
        let second = recorder.start(WHO, operation(), 3).unwrap();
        assert_ne!(first, second);
        recorder.stop(first, 4);
        assert_eq!(recorder.start(WHO, Beginning::Step(first), 4), None);
        recorder.stop(second, 5);
        assert_eq!(recorder.take().0.len(), 2);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_negative_span() {
        let mut recorder = Recorder::new(10);
        let one = recorder.start(WHO, operation(), 100).unwrap();
        recorder.stop(one, 50);
        let (spans, _) = recorder.take();
        assert_eq!((spans[0].start, spans[0].end), (100, 100));
    }

    proptest! {
        /// Whatever NCCL says in whichever order: no more is remembered than may be, and all of the rest is counted.
        #[test]
        fn its_size_is_bounded(steps in prop::collection::vec((0..4, any::<prop::sample::Index>(), any::<u64>()), 0..400), most in 1_usize..50) {
            let mut recorder = Recorder::new(most);
            let mut numbers = Vec::new();
            for (now, (kind, which, any)) in steps.into_iter().enumerate() {
                let now = now as u64;
                let number = if numbers.is_empty() { any } else { numbers[which.index(numbers.len())] };
                match kind {
                    0 => numbers.extend(recorder.start(WHO, operation(), now)),
                    1 => numbers.extend(recorder.start(WHO, Beginning::Step(number), now)),
                    2 => recorder.state(number, State::Send, any, now),
                    _ => recorder.stop(number, now),
                }
                prop_assert!(recorder.spans.len() <= most && recorder.open.len() <= MOST_OPEN);
            }
            let (spans, _) = recorder.take();
            prop_assert!(spans.iter().all(|span| span.start <= span.end));
        }
    }

    #[test]
    fn what_an_aborted_communicator_had_begun_leaves_its_room() {
        let mut recorder = Recorder::new(10);
        let other = recorder.start((8, 3), operation(), 1).unwrap();
        let first = recorder.start(WHO, operation(), 1).unwrap();
        while recorder.start(WHO, operation(), 1).is_some() {}
        recorder.abandon(WHO);
        recorder.stop(first, 2);
        assert!(recorder.take().0.is_empty(), "it is over");
        let begun = (1..MOST_OPEN).filter(|_| recorder.start(WHO, operation(), 3).is_some()).count();
        assert_eq!(begun, MOST_OPEN - 1);
        recorder.stop(other, 4);
        assert_eq!(recorder.take().0.len(), 1);
    }

    #[test]
    fn more_at_once_than_can_be_is_counted() {
        let mut recorder = Recorder::new(10);
        for _ in 0..MOST_OPEN {
            assert!(recorder.start(WHO, operation(), 1).is_some());
        }
        assert_eq!(recorder.start(WHO, operation(), 1), None);
        assert_eq!(recorder.take().1, 1);
    }
}
