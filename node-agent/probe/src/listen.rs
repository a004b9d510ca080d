//! Answering, and what bursts show: the part of a node in everybody else's turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    limits::CEILING_MBPS,
    packet::{Body, Packet},
    sys::Arrival,
};

/// Conversations that are remembered; older ones are forgotten.
const TALKS: usize = 64;
/// Packets of one burst that are remembered, and that are sent on request.
pub(crate) const BURST_MAX: u32 = 1024;
/// Payload of one packet that is sent on request at most.
pub(crate) const PAYLOAD_MAX: u32 = 65_507;
/// Conversations that are over and not taken up again: more than one attempt of a job has.
const SPENT: usize = 16_384;
/// Answers of one conversation on one rail at most; an honest one needs some 600.
const ANSWERS: u32 = 8_192;
/// Requests of one conversation on one rail at most whose answer is larger than they are; an honest one has some 60.
const LARGE: usize = 256;

/// One burst as it arrives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Burst {
    /// Time and bytes of each packet.
    packets: Vec<(u64, usize)>,
}

impl Burst {
    pub(crate) fn add(&mut self, arrival: &Arrival) {
        if let (Some(time), true) = (arrival.time_ns, self.packets.len() < BURST_MAX as usize) {
            self.packets.push((time, arrival.length));
        }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.packets.len()).unwrap_or(u32::MAX)
    }

    /// How fast its second half came: shapers and queues let the first pass at once. Nothing if the whole was slower than that: then it
    /// was held up on its way, and what shapers save up meanwhile passes at once after it; the rail is not so fast.
    pub(crate) fn mbps(&self) -> Option<u32> {
        let mut packets = self.packets.clone();
        packets.sort_unstable();
        let second = rate(packets.get((packets.len() / 2).checked_sub(1)?..)?)?;
        let whole = rate(&packets)?;
        (u64::from(whole) * 5 / 4 >= u64::from(second)).then_some(second)
    }
}

/// Mbit/s of packets after the first of them; nothing of one alone.
fn rate(packets: &[(u64, usize)]) -> Option<u32> {
    let ((first, _), rest) = packets.split_first()?;
    let (last, _) = rest.last()?;
    let bits: u64 = rest.iter().map(|(_, bytes)| *bytes as u64 * 8).sum();
    let mbps = bits.saturating_mul(1000) / last.saturating_sub(*first).max(1);
    Some(u32::try_from(mbps).unwrap_or(u32::MAX).clamp(1, CEILING_MBPS))
}

/// What is remembered of one conversation on one rail.
#[derive(Debug, Default)]
struct Talk {
    asks: u32,
    burst: (u32, Burst),
    /// Questions that were answered.
    answers: u32,
    /// Requests for more than they are themselves, by number. Each has its own: one that comes again is a packet that was doubled, or
    /// recorded.
    large: BTreeSet<u32>,
}

impl Talk {
    /// Whether a request for more than it is itself is the first of its number.
    fn is_first(&mut self, sequence: u32) -> bool {
        self.large.len() < LARGE && self.large.insert(sequence)
    }

    fn may_answer(&mut self) -> bool {
        self.answers = self.answers.saturating_add(1);
        self.answers <= ANSWERS
    }
}

/// What has been heard of others' conversations.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    talks: BTreeMap<(u64, u16, usize), Talk>,
    /// In the order of their beginning.
    order: Vec<(u64, u16, usize)>,
    /// Those that are over; recorded packets of them are not answered. The oldest are forgotten first.
    spent: BTreeSet<(u64, u16, usize)>,
    spent_order: VecDeque<(u64, u16, usize)>,
}

/// What answers say of this node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    /// The round that it is in.
    pub(crate) at: u32,
    /// Packets that its port has dropped.
    pub(crate) dropped: u32,
}

/// What follows from a packet of somebody who begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    Nothing,
    /// Answer with this body and this many bytes of payload at least.
    Answer(Body, u32),
    /// Send a burst of this many packets of this many bytes.
    Burst(u32, u32),
}

impl Heard {
    /// Asks of a conversation on this port, so far.
    pub(crate) fn asks(&self, nonce: u64, from: u16, port: usize) -> u32 {
        self.talks.get(&(nonce, from, port)).map_or(0, |talk| talk.asks)
    }

    fn spend(&mut self, key: (u64, u16, usize)) {
        if self.spent.insert(key) {
            self.spent_order.push_back(key);
        }
        if self.spent_order.len() > SPENT
            && let Some(oldest) = self.spent_order.pop_front()
        {
            self.spent.remove(&oldest);
        }
    }

    /// A packet has arrived on this port.
    pub(crate) fn listen(&mut self, port: usize, packet: &Packet, arrival: &Arrival, now: Now) -> Follow {
        let Now { at, dropped } = now;
        let key = (packet.nonce, packet.from, port);
        if !self.talks.contains_key(&key) {
            if self.spent.contains(&key) {
                return Follow::Nothing;
            }
            if self.order.len() >= TALKS {
                let oldest = self.order.remove(0);
                self.talks.remove(&oldest);
                self.spend(oldest);
            }
            self.order.push(key);
        }
        let talk = self.talks.entry(key).or_default();
        let seen = u32::try_from(arrival.length).unwrap_or(u32::MAX);
        let dscp = arrival.class.map(|class| class >> 2);
        let more = matches!(packet.body, Body::Ask { reply: 1.. } | Body::Please { .. });
        if !matches!(packet.body, Body::Burst { .. })
            && (!talk.may_answer() || more && !talk.is_first(packet.sequence))
        {
            return Follow::Nothing;
        }
        match packet.body {
            Body::Ask { reply } => {
                talk.asks = talk.asks.saturating_add(1);
                Follow::Answer(
                    Body::Answer { seen, dscp, at, asks: talk.asks, dropped },
                    reply.min(PAYLOAD_MAX),
                )
            }
            Body::Done => Follow::Answer(Body::Answer { seen, dscp, at, asks: talk.asks, dropped }, 0),
            Body::Burst { .. } => {
                if talk.burst.0 != packet.sequence {
                    talk.burst = (packet.sequence, Burst::default());
                }
                talk.burst.1.add(arrival);
                Follow::Nothing
            }
            Body::Ended => {
                let burst = Some(&talk.burst).filter(|burst| burst.0 == packet.sequence);
                let burst = burst.map(|(_, burst)| burst);
                let mbps = burst.and_then(Burst::mbps).unwrap_or_default();
                let packets = burst.map_or(0, Burst::len);
                Follow::Answer(Body::Arrived { mbps, packets, pace_ns: 0, dropped }, 0)
            }
            Body::Please { packets, bytes } => Follow::Burst(packets.min(BURST_MAX), bytes.min(PAYLOAD_MAX)),
            Body::Answer { .. } | Body::Arrived { .. } => Follow::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(gaps_ns: impl IntoIterator<Item = u64>) -> Option<u32> {
        let mut burst = Burst::default();
        let mut time = 1_000;
        for gap in gaps_ns {
            time += gap;
            burst.add(&Arrival { length: 1000, class: None, time_ns: Some(time) });
        }
        burst.mbps()
    }

    #[test]
    fn a_burst_is_as_fast_as_its_second_half() {
        assert_eq!(burst([]), None);
        assert_eq!(burst([5]), None);
        // 8,000 bits each 80 us are 100 Mbit/s; the first half passed at once.
        assert_eq!(burst([1; 50].into_iter().chain([80_000; 50])), Some(100));
        assert_eq!(burst([1; 100]), Some(CEILING_MBPS));
    }

    /// 100 Mbit/s by a shaper that saves up 40 packets.
    #[test]
    fn what_a_shaper_saved_up_while_a_burst_was_held_up_is_not_the_rails_speed() {
        let held_up = [80_000; 50].into_iter().chain([4_000_000]).chain([1; 40]).chain([80_000; 9]);
        assert_eq!(burst(held_up), Some(84), "within the second half: somewhat slower");
        let held_up = [80_000; 10].into_iter().chain([8_000_000]).chain([1; 40]).chain([80_000; 49]);
        assert_eq!(burst(held_up), None, "the second half came after all of that, which does not show");
        let held_up =
            [1; 10].into_iter().chain([80_000; 38]).chain([8_000_000]).chain([1; 40]).chain([80_000; 11]);
        assert_eq!(burst(held_up), None);
    }

    #[test]
    fn what_is_remembered_and_sent_is_bounded() {
        let mut heard = Heard::default();
        let arrival = Arrival { length: 64, class: Some(106), time_ns: Some(1) };
        let packet = |nonce, body| Packet { from: 1, to: 0, round: 0, nonce, sequence: 1, body };
        for nonce in 0..1000 {
            heard.listen(0, &packet(nonce, Body::Ask { reply: 0 }), &arrival, Now::default());
        }
        assert_eq!((heard.talks.len(), heard.order.len()), (TALKS, TALKS));
        let all = Body::Please { packets: u32::MAX, bytes: u32::MAX };
        assert_eq!(
            heard.listen(0, &packet(2001, all), &arrival, Now::default()),
            Follow::Burst(BURST_MAX, PAYLOAD_MAX)
        );
        let Follow::Answer(Body::Answer { dscp, asks, .. }, bytes) =
            heard.listen(0, &packet(2005, Body::Ask { reply: u32::MAX }), &arrival, Now::default())
        else {
            panic!("an answer");
        };
        assert_eq!((dscp, asks, bytes), (Some(26), 1, PAYLOAD_MAX));
    }

    /// Whoever has recorded packets has no more of them than the conversation had.
    #[test]
    fn a_recorded_packet_buys_nothing() {
        let mut heard = Heard::default();
        let arrival = Arrival { length: 64, class: None, time_ns: Some(1) };
        let packet = |nonce, sequence, body| Packet { from: 1, to: 0, round: 0, nonce, sequence, body };
        let mut say = |nonce, sequence, body| {
            heard.listen(0, &packet(nonce, sequence, body), &arrival, Now::default()) != Follow::Nothing
        };
        for body in [Body::Ask { reply: 9000 }, Body::Please { packets: 9, bytes: 9000 }] {
            let nonce = if matches!(body, Body::Ask { .. }) { 1 } else { 2 };
            assert!(say(nonce, 7, body) && say(nonce, 8, body), "each number once");
            assert!(!say(nonce, 7, body) && !say(nonce, 8, body), "and not twice");
        }
        // A repeated question is as large as its answer, and there is an end to it.
        let again = (0..2 * ANSWERS).filter(|_| say(3, 1, Body::Ended)).count();
        assert_eq!(again, ANSWERS as usize);
        // Of a conversation that is over nothing is answered, whatever comes after it.
        for nonce in 100..100 + 2 * TALKS as u64 {
            assert!(say(nonce, 1, Body::Ask { reply: 0 }));
        }
        assert!(!say(1, 9, Body::Ask { reply: 9000 }) && !say(2, 9, Body::Done));
    }
}
