//! What of a machine decides what it does from now on, for the model: two machines with equal digests behave alike. Left out
//! are what never changes (configuration, schedules), what only watchers read (statistics, choices, the time of a
//! state's beginning), and names that mean nothing beyond which is which: tokens stand for their rank among the living
//! ones, slots for what is in them. Whoever adds a field is asked by the compiler to decide.

use crate::machine::flights::{Flight, Hold};
use crate::machine::incoming::{Early, Incoming, Target};
use crate::machine::op::{Op, ReceiveState, ReduceState, SendState, Start};
use crate::machine::{Calls, Machine, Peer, Rails, Work};
use crate::memory::{Memory, Region};
use crate::model::Canon;
use crate::schedule::Source;
use crate::units::{Node, Rail, Time};

impl Machine {
    /// How many flights are older than the one that a token names; of one that has ended, a number that none has.
    fn token_rank(&self, token: u64) -> u64 {
        if self.flights.all.contains_key(&token) {
            self.flights.all.range(..token).count() as u64
        } else {
            u64::MAX
        }
    }

    /// The token and the payload of a frame that is on its way on a link.
    pub(crate) fn on_way(&self, rail: Rail, peer: Node, number: u32) -> Option<(u64, Region)> {
        let token = self.rails.links.get(rail, peer).token(number)?;
        Some((token, self.flights.all.get(&token)?.payload?))
    }

    /// Everything happened so much earlier: for a model whose clock stands still.
    pub(crate) fn age(&mut self, by: Time) {
        for node in 0..self.job.layout.nodes() as Node {
            (0..self.job.config.rails as Rail).for_each(|rail| self.rails.links.get_mut(rail, node).age(by));
        }
        let peers =
            self.peers.iter_mut().flat_map(|p| p.lost.iter_mut().map(|l| &mut l.0).chain([&mut p.echoed.1]));
        let ops = self.work.ops.values_mut().map(|op| &mut op.since);
        let times = peers.chain(ops).chain(self.calls.gathering.values_mut().map(|g| &mut g.since));
        times.chain([&mut self.work.last_end]).for_each(|time| *time = time.saturating_sub(by));
    }

    #[expect(
        clippy::too_many_lines,
        reason = "every field is named, so that none that is new can be forgotten"
    )]
    pub(crate) fn digest(&self, canon: &mut Canon, memory: &impl Memory, now: Time) {
        let Machine {
            job: _,
            planning: _,
            calls,
            work,
            rails,
            peers,
            slots,
            flights,
            keep,
            notifications,
            failure,
            stats: _,
            sabotage: _,
            planless: _,
        } = self;
        let Calls { ranks, gathering, halves, pairs, next_ticket: _, completions } = calls;
        let Work { next_start, ops, ages, early, replays, woken, last_end: _ } = work;
        let Rails { links, pace: _, incoming, urgent, commands, probes, drains } = rails;
        let quiet = replays.is_empty() && woken.is_empty() && commands.is_empty() && completions.is_empty();
        assert!(notifications.is_empty(), "not modelled");
        assert!(quiet && urgent.is_empty(), "the model looks at machines that were polled to the end");
        assert!(halves.is_empty() && pairs.is_empty() && drains.iter().all(|d| d.1 == 0), "not modelled");
        for (rail, peer, link) in links.iter() {
            if peer != self.job.layout.node {
                link.digest(canon, now, &|token| self.token_rank(token));
                // Bytes carried are compared among rails in use only; they begin at zero whenever one comes or goes.
                let least = links.up(peer).map(|r| links.carried(r)).min().unwrap_or(0);
                canon.put(if link.is_up() { links.carried(rail) - least } else { 0 });
            }
        }
        for (&(rail, peer), Incoming { header, target }) in incoming {
            canon.put(rail);
            canon.put(peer);
            canon.header(header);
            match *target {
                Target::Nothing => canon.put(0u8),
                Target::Again => canon.put(1u8),
                Target::Early(_) => canon.put(2u8),
                Target::Staged { flow, chunk, .. } => canon.size(1000 + 100 * flow + chunk),
                Target::Placed { flow, chunk } => canon.size(2000 + 100 * flow + chunk),
            }
        }
        for peer in peers {
            peer.digest(canon, now);
        }
        slots.free_counts().into_iter().for_each(|n| canon.size(n));
        ranks.iter().for_each(|r| canon.size(r.outstanding + 100 * r.next as usize));
        canon.size(gathering.len());
        canon.put(*next_start);
        canon.put(*probes);
        canon.put(failure.is_some());
        for key in ages {
            canon.put(key.seq());
            if let Some(op) = ops.get(key) {
                self.digest_op(op, canon, memory);
            }
        }
        for (key, Early { calls, frames }) in early {
            canon.put(key.seq());
            canon.size(calls.len());
            for (peer, header, slot) in frames {
                canon.put(*peer);
                canon.header(header);
                bytes(canon, memory, self.slots.early_region(*slot, header.length as usize));
            }
        }
        canon.size(flights.all.len());
        for Flight { peer, header, payload, hold, handed } in flights.all.values() {
            canon.put(*peer);
            canon.header(header);
            canon.put(*handed);
            let hold = match hold {
                Hold::Nothing => 0u8,
                Hold::Loan => 1,
                Hold::Slot(_) => 2,
                Hold::Copy(_) => 3,
            };
            canon.put(hold);
            if let Some(region) = payload {
                bytes(canon, memory, *region);
            }
        }
        for (peer, tokens) in &flights.again {
            canon.put(*peer);
            tokens.iter().for_each(|&token| canon.put(self.token_rank(token)));
        }
        keep.digest(canon);
    }

    fn digest_op(&self, op: &Op, canon: &mut Canon, memory: &impl Memory) {
        let Op { start, sends, receives, reduces, .. } = op;
        let Start { heard, started, report, report_late, .. } = start;
        assert!(report_late.is_empty(), "not modelled");
        heard.iter().for_each(|&h| canon.put(h));
        started.iter().for_each(|&n| canon.put(n));
        canon.size(usize::MAX - report.len());
        report.iter().for_each(|&n| canon.put(n));
        for SendState { next, granted } in sends {
            canon.size(*next);
            canon.size(*granted);
        }
        for ReceiveState { seen, begun, arrived, here } in receives {
            seen.iter().zip(here).for_each(|(&s, &h)| canon.put(u8::from(s) + 2 * u8::from(h)));
            canon.size(*begun);
            canon.size(arrived.len());
            // Only what is relayed goes on in the order in which it came.
            if op.schedule.sends.iter().any(|f| matches!(f.source, Source::Relayed(_))) {
                arrived.iter().for_each(|&c| canon.put(c));
            }
        }
        for ReduceState { staged, have, waiting, ready, done, freed, window: _, notified } in reduces {
            let chunk = op.schedule.chunk;
            for slot in staged {
                canon.put(slot.is_some());
                if let Some(slot) = slot {
                    bytes(canon, memory, self.slots.region(*slot, chunk));
                }
            }
            have.iter().for_each(|&h| canon.put(h));
            canon.size(waiting.len());
            waiting.iter().chain(ready).for_each(|&c| canon.put(c));
            done.iter().for_each(|&d| canon.put(d));
            canon.size(*freed);
            notified.iter().for_each(|&t| canon.size(t));
        }
        let numbers = [
            op.start.unheard,
            op.left.to_receive,
            op.left.to_send,
            op.left.on_way,
            op.left.rotor[0],
            op.left.rotor[1],
        ];
        numbers.into_iter().for_each(|n| canon.size(n));
        [op.left.copied.0, op.left.copied.1, op.left.loans.len()].into_iter().for_each(|n| canon.size(n));
        op.left.loans.iter().for_each(|&token| canon.put(self.token_rank(token)));
    }
}

impl Peer {
    fn digest(&self, canon: &mut Canon, now: Time) {
        let Peer { control, ahead, ahead_total, left, lost, echoed, drains, notifications } = self;
        assert!(drains.is_empty() && notifications.made + notifications.taken == 0, "not modelled");
        canon.size(control.len());
        control.iter().for_each(|h| canon.header(h));
        ahead.iter().for_each(|(key, &n)| canon.size(n + 100 * key.seq() as usize));
        canon.size(*ahead_total);
        canon.put(*left);
        canon.put(lost.is_some());
        canon.put(echoed.0);
        // Older than this it is old enough for everything that asks.
        canon.time(now.saturating_sub(echoed.1).min(Time::from_millis(11)));
    }
}

fn bytes(canon: &mut Canon, memory: &impl Memory, region: Region) {
    canon.bytes(memory.bytes(region).unwrap_or(&[]));
}
