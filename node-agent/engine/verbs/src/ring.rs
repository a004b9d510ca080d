//! Which slot of a ring is whose. Message n of a direction is written into slot n modulo the number of slots of the receiver's ring,
//! once its receiver has taken message n minus that number out. No IO.

use crate::imm::{Imm, whole};

/// What came that no peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RingError {
    /// A message that has no free slot.
    #[error("message {0} has no slot yet")]
    Ahead(u64),
    /// A message of more bytes than a slot has, or of none.
    #[error("a message of {0} bytes")]
    Length(u32),
    /// The peer says it took what was not sent.
    #[error("{taken} messages taken of {sent}")]
    Taken {
        /// Number of messages that the peer says it took.
        taken: u64,
        /// Number of messages that were sent on the channel.
        sent: u64,
    },
    /// Not what the bytes beside a message can be.
    #[error("immediate data {0:#010x}")]
    Immediate(u32),
}

/// The sending direction: which slots of the peer's ring are free, by what was sent and what the peer took.
#[derive(Debug)]
pub(crate) struct Outgoing {
    slots: u64,
    /// Number of messages sent on the channel.
    sent: u64,
    /// Messages that the peer took out of its ring.
    taken: u64,
    /// Messages of which the device says that they are done: all before this one, and of those after it the ones that are marked.
    done: u64,
    marks: Vec<bool>,
    /// Of the messages that the device is not done with: bytes, and whether it reads them where their owner has them.
    written: Vec<(u32, bool)>,
    /// All messages before this one are not read any more where their owner has them, and how many bytes those have.
    release_buffer: (u64, u64),
}

impl Outgoing {
    pub(crate) fn new(slots: u32) -> Self {
        let slots = u64::from(slots);
        let (marks, written) = (vec![false; slots as usize], vec![(0, false); slots as usize]);
        Outgoing { slots, sent: 0, taken: 0, done: 0, marks, written, release_buffer: (0, 0) }
    }

    /// The number of the next message, if it has a slot both here and there.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.sent - self.taken < self.slots && self.sent - self.done < self.slots).then_some(self.sent)
    }

    /// That message of this many bytes was handed to the device, which `reads` some of them where their owner has them: others were
    /// copied.
    pub(crate) fn posted(&mut self, bytes: u32, reads: bool) {
        self.written[(self.sent % self.slots) as usize] = (bytes, reads);
        self.sent += 1;
        self.pass();
    }

    /// Counts on past messages that are not read any more.
    fn pass(&mut self) {
        let (next, bytes) = &mut self.release_buffer;
        while *next < self.sent {
            let at = (*next % self.slots) as usize;
            let (length, reads) = self.written[at];
            if reads && *next >= self.done && !self.marks[at] {
                return;
            }
            (*next, *bytes) = (*next + 1, *bytes + u64::from(length));
        }
    }

    /// How many bytes, from the first on, are not read any more where their owner has them.
    pub(crate) fn release_buffer(&self) -> u64 {
        self.release_buffer.1
    }

    /// Whether the device reads something where its owner has it.
    pub(crate) fn reads(&self) -> bool {
        self.release_buffer.0 < self.sent
    }

    /// The device is done with a message, of which the number is known modulo 2^15.
    pub(crate) fn completed(&mut self, low: u16) {
        let Some(number) = whole(low, self.done).filter(|n| (self.done..self.sent).contains(n)) else {
            return;
        };
        self.marks[(number % self.slots) as usize] = true;
        while self.done < self.sent && std::mem::take(&mut self.marks[(self.done % self.slots) as usize]) {
            self.done += 1;
        }
        self.pass();
    }

    /// Whether the device has messages that it is not done with.
    pub(crate) fn is_under_way(&self) -> bool {
        self.done < self.sent
    }

    /// The peer says how many it took.
    pub(crate) fn peer_took(&mut self, low: u16) -> Result<(), RingError> {
        let Some(taken) = whole(low, self.taken) else { return Ok(()) };
        if taken > self.sent {
            return Err(RingError::Taken { taken, sent: self.sent });
        }
        // What is older came late.
        self.taken = self.taken.max(taken);
        Ok(())
    }
}

/// The receiving direction: this end's ring, what was taken out of it, and what the peer knows of that.
#[derive(Debug)]
pub(crate) struct Incoming {
    slot_bytes: u32,
    /// Messages taken out; the next one has this number.
    taken: u64,
    /// How many of them the peer knows to be taken.
    reported: u64,
    /// Bytes in each slot; zero where there is no message.
    lengths: Vec<u32>,
    /// Bytes of the first message that were read.
    read: u32,
    /// Messages that came twice.
    pub(crate) duplicates: u64,
}

/// Bytes that came in: where in the ring, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

impl Incoming {
    pub(crate) fn new(slots: u32, slot_bytes: u32) -> Self {
        let lengths = vec![0; slots as usize];
        Incoming { slot_bytes, taken: 0, reported: 0, lengths, read: 0, duplicates: 0 }
    }

    fn slots(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// A message with bytes came. One that came before is dropped, by its number.
    pub(crate) fn arrived(&mut self, low: u16, length: u32) -> Result<(), RingError> {
        if length == 0 || length > self.slot_bytes {
            return Err(RingError::Length(length));
        }
        let number = whole(low, self.taken).filter(|&number| number >= self.taken);
        let Some(number) = number else {
            self.duplicates += 1;
            return Ok(());
        };
        if number - self.taken >= self.slots() {
            return Err(RingError::Ahead(number));
        }
        let at = (number % self.slots()) as usize;
        if self.lengths[at] > 0 {
            self.duplicates += 1;
        } else {
            self.lengths[at] = length;
        }
        Ok(())
    }

    /// The bytes to be read next, if there are any.
    pub(crate) fn front(&self) -> Option<Bytes> {
        let at = (self.taken % self.slots()) as usize;
        let length = self.lengths[at];
        let offset = at * self.slot_bytes as usize + self.read as usize;
        (length > 0).then_some(Bytes { offset, length: (length - self.read) as usize })
    }

    /// Of those bytes this many were read.
    pub(crate) fn read(&mut self, bytes: usize) {
        let at = (self.taken % self.slots()) as usize;
        self.read = self.read.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.lengths[at] > 0 && self.read >= self.lengths[at] {
            self.lengths[at] = 0;
            self.read = 0;
            self.taken += 1;
        }
    }

    /// Whether a message of its own should say to the peer how many were taken: it would else wait, at the latest, for
    /// the slots that it has not.
    pub(crate) fn wants_to_report(&self) -> bool {
        self.taken - self.reported >= (self.slots() / 4).max(1)
    }

    /// What a message says beside its bytes; it says to the peer what was taken.
    pub(crate) fn beside(&mut self, number: Option<u64>) -> Imm {
        self.reported = self.taken;
        Imm::of(number, self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn what_no_peer_may_send_is_refused() {
        let mut incoming = Incoming::new(4, 100);
        assert_eq!(incoming.arrived(0, 0), Err(RingError::Length(0)));
        assert_eq!(incoming.arrived(0, 101), Err(RingError::Length(101)));
        assert_eq!(incoming.arrived(4, 1), Err(RingError::Ahead(4)));
        incoming.arrived(1, 7).unwrap();
        assert_eq!(incoming.front(), None, "the one before it is not here");
        incoming.arrived(0, 100).unwrap();
        incoming.arrived(0, 50).unwrap();
        assert_eq!(incoming.front(), Some(Bytes { offset: 0, length: 100 }), "the first counts");
        incoming.read(60);
        assert_eq!(incoming.front(), Some(Bytes { offset: 60, length: 40 }));
        incoming.read(40);
        assert_eq!(incoming.front(), Some(Bytes { offset: 100, length: 7 }));
        incoming.arrived(0, 100).unwrap();
        incoming.arrived(0x7fff, 100).unwrap();
        assert_eq!(incoming.duplicates, 3);
        let mut outgoing = Outgoing::new(4);
        outgoing.posted(1, false);
        assert_eq!(outgoing.peer_took(2), Err(RingError::Taken { taken: 2, sent: 1 }));
        outgoing.peer_took(1).unwrap();
        outgoing.peer_took(0).unwrap();
        outgoing.peer_took(0x7fff).unwrap();
        assert_eq!(outgoing.taken, 1);
    }

    proptest! {
        /// Messages of a direction that arrive in any order within what is under way, some twice, come out whole and in order, and the
        /// sender always gets on.
        #[test]
        fn messages_come_out_in_order(
            slots in 4u32..40, steps in prop::collection::vec((0u8..5, any::<u16>()), 0..400),
        ) {
            let (mut outgoing, mut incoming) = (Outgoing::new(slots), Incoming::new(slots, 1000));
            let (mut way, mut acks) = (Vec::new(), VecDeque::new());
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            let length = |number: u64| (number % 999 + 1) as u32;
            // Every message that is read in place, and whether the device is done with it.
            let in_place = |number: u64| !number.is_multiple_of(3);
            let mut read = std::collections::BTreeSet::new();
            for &(step, which) in steps.iter().chain(std::iter::repeat_n(&(9, 0), 4000)) {
                match step {
                    0 | 9 => if let Some(number) = outgoing.next() && (step == 0 || sent.len() < 2000) {
                        outgoing.posted(length(number), in_place(number));
                        if in_place(number) {
                            read.insert(number);
                        }
                        sent.push(length(number));
                        way.push(number);
                    },
                    _ => {}
                }
                if matches!(step, 1 | 9) && !way.is_empty() {
                    let number = way.swap_remove(usize::from(which) % way.len());
                    incoming.arrived((number % (1 << 15)) as u16, length(number)).unwrap();
                    if which % 7 == 0 {
                        incoming.arrived((number % (1 << 15)) as u16, 1).unwrap();
                    }
                    outgoing.completed((number % (1 << 15)) as u16);
                    read.remove(&number);
                }
                let still = read.first().map_or(sent.len(), |&first| first as usize);
                let release_buffer = sent[..still].iter().map(|&length| u64::from(length)).sum::<u64>();
                prop_assert_eq!((outgoing.release_buffer(), outgoing.reads()), (release_buffer, !read.is_empty()));
                if matches!(step, 2 | 9) && let Some(bytes) = incoming.front() {
                    prop_assert!(bytes.offset + bytes.length <= slots as usize * 1000);
                    incoming.read(bytes.length);
                    got.push(bytes.length as u32);
                }
                if matches!(step, 3 | 9) && incoming.wants_to_report() {
                    acks.push_back(incoming.beside(None).taken);
                }
                if matches!(step, 4 | 9) && let Some(taken) = acks.pop_front() {
                    outgoing.peer_took(taken).unwrap();
                }
            }
            prop_assert!(sent.len() >= 1000, "it gets on: {}", sent.len());
            prop_assert!(got.len() + slots as usize >= sent.len());
            prop_assert_eq!(&got[..], &sent[..got.len()]);
        }
    }
}
