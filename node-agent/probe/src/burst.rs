//! Bandwidth: bursts each way on each rail.
//!
//! A burst shows how fast a rail is only if nothing else was slower. Its sender says how long it took itself, without waiting for
//! the rail: a burst that took about as long to arrive as to send was held up by its sender, or at the rail's speed by chance; it
//! shows that the rail is at least so fast, and nothing more. The same where the receiver's socket had no room.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use crate::{
    limits::CEILING_MBPS,
    listen::Burst,
    packet::{Body, Packet},
    prober::Prober,
    report::PathMeasurement,
    turn::{Pairing, RailMeasurement, Unknown},
};

/// What a packet of a burst may have of IP, so that there are enough of them, and that kernels waste little room on them: it fits
/// 8 KiB with what they put beside it.
const BURST_PACKET: u32 = 7_600;
/// Times that a partner is asked how a burst arrived.
const ENDED: u32 = 3;
/// Sequence numbers of questions about bursts begin here.
const BURSTS: u32 = 1_000_000;

/// What bursts have shown of one way, in Mbit/s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Speed {
    /// The fastest burst so far, in Mbit/s; `None` before the first.
    best: Option<u32>,
    /// The fastest of those which nothing but the rail held up.
    sure: Option<u32>,
}

impl Speed {
    /// A burst of this many packets of this many bytes, of which its sender took `pace_ns` for the second half, arrived so fast.
    fn add(&mut self, mbps: u32, packets: u32, bytes: u32, pace_ns: Option<u32>) {
        if mbps == 0 {
            return;
        }
        self.best = self.best.max(Some(mbps));
        let bits = u64::from(packets - packets / 2) * u64::from(bytes) * 8;
        let sender = pace_ns.map_or(0, |ns| bits * 1000 / u64::from(ns.max(1)));
        // By a quarter: the rail, and not the sender.
        if mbps >= CEILING_MBPS || u64::from(mbps) * 5 / 4 <= sender {
            self.sure = self.sure.max(Some(mbps));
        }
    }

    /// What is known is the rail's, and not only the least that it can be. A rail that was seen to be slow is not excused by a burst
    /// that was hardly faster.
    fn is_sure(self) -> bool {
        self.best.zip(self.sure).is_some_and(|(best, sure)| u64::from(best) * 4 <= u64::from(sure) * 5)
    }

    /// Worth another burst, where others of the same pair made so much.
    fn checks_slow(self, others: u32) -> bool {
        !self.is_sure() || self.best.is_none_or(|best| u64::from(best) * 10 < u64::from(others) * 9)
    }

    pub(crate) fn reported(self, way: PathMeasurement) -> PathMeasurement {
        PathMeasurement { mbps: self.best, at_least: self.best.is_some() && !self.is_sure(), ..way }
    }
}

/// One rail's burst one way.
#[derive(Debug, Clone, Copy)]
struct Plan {
    packets: u32,
    bytes: u32,
}

impl Prober {
    /// Bursts there and back on each rail; a few more where a rail looks slow beside the others. The best of several counts.
    pub(crate) fn bursts(&mut self, pair: &Pairing<'_>, measurements: &mut [RailMeasurement]) {
        let limits = self.config.limits;
        let mut rails: BTreeSet<usize> = (0..measurements.len()).collect();
        for number in 0..limits.bursts_max {
            let sequence = BURSTS + 2 * number;
            let there = self.bursts_there(pair, sequence, &rails, measurements);
            if there.and_then(|()| self.bursts_back(pair, sequence + 1, &rails, measurements)).is_err() {
                return;
            }
            let both = |measurement: &RailMeasurement| [measurement.speed_there, measurement.speed_back];
            let best =
                measurements.iter().flat_map(both).filter_map(|speed| speed.best).max().unwrap_or_default();
            // At the ceiling there is nothing left to find out.
            let least = if number + 1 < limits.bursts { CEILING_MBPS } else { best };
            rails.retain(|at| {
                measurements
                    .get(*at)
                    .is_some_and(|measurement| both(measurement).iter().any(|speed| speed.checks_slow(least)))
            });
            if rails.is_empty() || Instant::now() >= pair.until {
                return;
            }
        }
    }

    fn plan(&self, at: usize, way: Option<&PathMeasurement>) -> Option<Plan> {
        let headers = self.ports.get(at)?.headers();
        let bytes = way?.mtu?.min(BURST_PACKET).saturating_sub(headers).max(64);
        let packets = u32::try_from(self.config.limits.burst_bytes / bytes as usize).ok()?.clamp(8, 512);
        Some(Plan { packets, bytes })
    }

    fn bursts_there(
        &mut self,
        pair: &Pairing<'_>,
        sequence: u32,
        rails: &BTreeSet<usize>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        let mut open: BTreeMap<usize, (Plan, Option<u32>, u32)> = BTreeMap::new();
        for at in rails {
            let plan = self.plan(*at, measurements.get(*at).map(|measurement| &measurement.there));
            let (Some(plan), Some(to)) = (plan, pair.to(*at)) else { continue };
            let burst = Packet { sequence, body: Body::Burst { of: plan.packets }, ..pair.head };
            let pace = self.send_burst(*at, &burst, plan.packets, plan.bytes, to);
            open.insert(
                *at,
                (plan, pace, measurements.get(*at).map_or(0, |measurement| measurement.dropped)),
            );
        }
        // Asked again where the question or its answer was lost.
        for _ in 0..ENDED {
            if open.is_empty() {
                break;
            }
            let asked: BTreeSet<usize> = open.keys().copied().collect();
            for at in &asked {
                if let Some(to) = pair.to(*at) {
                    self.send(*at, &Packet { sequence, body: Body::Ended, ..pair.head }, 0, to);
                }
            }
            self.settle(pair, &asked, self.config.limits.burst, measurements, |got, measurements| {
                let body = got.of(pair.head).filter(|_| got.packet.sequence == sequence);
                let Some(Body::Arrived { mbps, dropped, .. }) = body else { return false };
                // The question came through the same queue, so that all of the burst is there.
                if let (Some((plan, pace, before)), Some(measurement)) =
                    (open.remove(&got.port), measurements.get_mut(got.port))
                {
                    measurement.dropped = measurement.dropped.max(dropped);
                    let pace = pace.filter(|_| measurement.dropped == before);
                    measurement.speed_there.add(mbps, plan.packets, plan.bytes, pace);
                }
                open.is_empty()
            })?;
        }
        Ok(())
    }

    fn bursts_back(
        &mut self,
        pair: &Pairing<'_>,
        sequence: u32,
        rails: &BTreeSet<usize>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        let mut bursts: BTreeMap<usize, Back> = BTreeMap::new();
        for at in rails {
            let plan = self.plan(*at, measurements.get(*at).map(|measurement| &measurement.back));
            let (Some(plan), Some(to)) = (plan, pair.to(*at)) else { continue };
            let Plan { packets, bytes } = plan;
            let dropped = self.dropped(*at);
            self.send(*at, &Packet { sequence, body: Body::Please { packets, bytes }, ..pair.head }, 0, to);
            bursts.insert(*at, Back { burst: Burst::default(), plan, dropped, ended: false, pace: None });
        }
        let asked: BTreeSet<usize> = bursts.keys().copied().collect();
        let mut open = asked.len();
        let settled = self.settle(pair, &asked, self.config.limits.burst, measurements, |got, _| {
            let body = got.of(pair.head).filter(|_| got.packet.sequence == sequence);
            let Some(back) = bursts.get_mut(&got.port) else { return open == 0 };
            match body {
                Some(Body::Burst { .. }) => back.burst.add(&got.arrival),
                Some(Body::Arrived { pace_ns, .. }) if !back.ended => {
                    (back.ended, back.pace) = (true, Some(pace_ns).filter(|ns| *ns > 0));
                    open -= 1;
                }
                _ => {}
            }
            open == 0
        });
        for (at, back) in bursts {
            let pace = back.pace.filter(|_| self.dropped(at) == back.dropped);
            if let (Some(measurement), Some(mbps)) = (measurements.get_mut(at), back.burst.mbps()) {
                measurement.speed_back.add(mbps, back.plan.packets, back.plan.bytes, pace);
            }
        }
        settled.map(drop)
    }
}

/// A burst that was asked for.
#[derive(Debug)]
struct Back {
    burst: Burst,
    plan: Plan,
    /// What this node's port had dropped before.
    dropped: u32,
    ended: bool,
    pace: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::{CEILING_MBPS, PathMeasurement, Speed};

    /// Bursts of 100 packets of 1,000 bytes: 400,000 bits in the second half. (Mbit/s, microseconds that the sender took).
    fn reported(bursts: &[(u32, Option<u32>)]) -> (Option<u32>, bool) {
        let mut speed = Speed::default();
        for (mbps, pace_us) in bursts {
            speed.add(*mbps, 100, 1000, pace_us.map(|us| us * 1000));
        }
        let way = speed.reported(PathMeasurement::default());
        (way.mbps, way.at_least)
    }

    #[test]
    fn a_burst_is_no_faster_than_its_sender_ran() {
        assert_eq!(reported(&[]), (None, false));
        assert_eq!(reported(&[(0, Some(100))]), (None, false), "not seen");
        assert_eq!(reported(&[(100, Some(200))]), (Some(100), false), "sent at 2,000 Mbit/s");
        assert_eq!(reported(&[(100, Some(3_900))]), (Some(100), true), "sent at 102 Mbit/s");
        assert_eq!(reported(&[(100, None)]), (Some(100), true), "a socket had no room");
        assert_eq!(
            reported(&[(CEILING_MBPS, Some(4_000))]),
            (Some(CEILING_MBPS), false),
            "there is nothing above"
        );
        assert_eq!(reported(&[(100, Some(200)), (104, Some(3_800))]), (Some(104), false), "no excuse");
        assert_eq!(
            reported(&[(100, Some(200)), (900, Some(400))]),
            (Some(900), true),
            "it was the processor"
        );
    }
}
