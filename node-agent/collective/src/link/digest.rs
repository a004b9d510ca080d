//! What of a link decides what the machine does from now on.

use super::{Link, Lives, OnWay, Proof, Received, Sent, Speed, State, UnackedGeneration};
use crate::model::Canon;
use crate::units::Time;

impl Link {
    /// Tokens are named by `rank`. Rates are left out: no frame of the model is large enough to be measured.
    pub fn digest(&self, canon: &mut Canon, now: Time, rank: &dyn Fn(u64) -> u64) {
        let Link { state, lives, numbers, unacked, proof, drained, doubt, flaps, sent, got, speed, .. } =
            self;
        let Lives { generation, over, last_dead_generation } = lives;
        let Sent { handed, acked, on_way, gap, .. } = sent;
        let Received { received, reported, unacked_since } = got;
        let Speed { allowance, .. } = speed;
        assert!(
            self.speed.rate.is_none() && self.speed.steady.1 == 0 && self.speed.sample_bytes == 0,
            "the model's frames are small"
        );
        assert!(self.way.late() == Time::ZERO, "the model has no time");
        let state = match state {
            State::Down => 0u8,
            State::Proving => 1,
            State::Up => 2,
        };
        canon.put(state);
        [*generation, *over, last_dead_generation.0, last_dead_generation.1, numbers.0, numbers.1]
            .into_iter()
            .for_each(|n| canon.put(n));
        canon.put(unacked.is_some());
        if let Some(UnackedGeneration { generation, first, tokens, ask }) = unacked {
            canon.put(*generation);
            canon.put(*first);
            canon.size(tokens.len());
            tokens.iter().for_each(|&token| canon.put(rank(token)));
            canon.time(ask.0.saturating_sub(now));
            canon.time(ask.1);
        }
        if state == 1 {
            let Proof { answered, number, since, began } = proof;
            canon.put(*answered);
            canon.put(*number);
            canon.age(*since, now);
            canon.age(*began, now);
        } else {
            canon.put(proof.number);
        }
        canon.put(drained.0);
        canon.put(drained.1);
        canon.put(doubt.map_or(0, |(number, _)| number));
        let known = doubt.and_then(|(_, known)| known);
        canon.put(known.is_some());
        canon.age(known.unwrap_or(now), now);
        canon.age(if doubt.is_some() { self.asked } else { now }, now);
        canon.put(*flaps == 0);
        [*handed, *acked, *received, *reported, allowance.unwrap_or(u64::MAX)]
            .into_iter()
            .for_each(|n| canon.put(n));
        canon.size(on_way.len());
        for &OnWay { end, token, .. } in on_way {
            canon.put(end);
            canon.put(rank(token));
        }
        canon.age(self.owes_since().unwrap_or(now), now);
        // Half of the least patience and less gives the same patience.
        canon.time(if *gap > Time::from_millis(30) { *gap } else { Time::ZERO });
        canon.put(unacked_since.is_some());
        canon.age(unacked_since.unwrap_or(now), now);
    }

    /// The token of a frame that is on its way.
    pub fn token(&self, number: u32) -> Option<u64> {
        let first = self.numbers.0 + 1 - self.sent.on_way.len() as u32;
        self.sent.on_way.get(number.checked_sub(first)? as usize).map(|f| f.token)
    }

    /// Everything happened so much earlier.
    pub fn age(&mut self, by: Time) {
        let Link { unacked, proof, doubt, since, last_data, asked, sent, got, .. } = self;
        let (Sent { on_way, last_ack, .. }, Received { unacked_since, .. }) = (sent, got);
        let times = [&mut proof.since, &mut proof.began, since, last_ack, last_data, asked].into_iter();
        let times = times
            .chain(unacked.iter_mut().map(|g| &mut g.ask.0))
            .chain(doubt.iter_mut().filter_map(|d| d.1.as_mut()));
        let times = times.chain(on_way.iter_mut().map(|f| &mut f.since)).chain(unacked_since);
        times.for_each(|time| *time = time.saturating_sub(by));
    }
}
