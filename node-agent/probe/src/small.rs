//! Small packets: which rails answer, what is lost, how soon; and whether another of the partner's rails answers where one does not.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    packet::Body,
    prober::Prober,
    settle::Settled,
    turn::{Pairing, RailMeasurement, Unknown},
};

/// Small probes of one rail that are on their way at once.
const WINDOW: u32 = 16;
/// Windows that are repeated at most, because packets found no room in a socket.
const REPEATS: u32 = 8;
/// Sequence numbers of questions to other rails.
const ACROSS: u32 = 2_000_000;

/// One rail's part of a window of probes.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    came: u32,
    /// Before it: what the partner's port and this node's had dropped, and what had come to the partner.
    dropped: (u32, u32),
    asks: u32,
}

impl Prober {
    /// Sends windows of small packets on all rails until enough of each are counted. A window of which packets are missing while a
    /// socket of either end had no room is no evidence of the rail: it is not counted, and another one is sent.
    pub(crate) fn small(
        &mut self,
        pair: &Pairing<'_>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        let probes = self.config.limits.probes;
        let windows = probes.div_ceil(WINDOW);
        for number in 0..windows + REPEATS {
            // A rail that answered nothing of its first window is silent.
            let wanted = |(_, measurement): &(usize, &mut RailMeasurement)| {
                number == 0 || measurement.answered && measurement.there.sent < probes
            };
            let rails: BTreeSet<usize> =
                measurements.iter_mut().enumerate().filter(wanted).map(|(at, _)| at).collect();
            if rails.is_empty() {
                break;
            }
            self.window(pair, number, &rails, measurements)?;
        }
        for measurement in
            measurements.iter_mut().filter(|measurement| measurement.answered && measurement.there.sent == 0)
        {
            // Sockets had no room in all of them: of losses nothing is known, and that something came back is.
            (measurement.there.sent, measurement.back.sent) = (1, 1);
        }
        Ok(())
    }

    fn window(
        &mut self,
        pair: &Pairing<'_>,
        number: u32,
        rails: &BTreeSet<usize>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        let (first, last) = (number * WINDOW + 1, (number + 1) * WINDOW);
        let mut windows = vec![Window::default(); measurements.len()];
        let mut begun = vec![Instant::now(); measurements.len()];
        for at in rails {
            let (Some(measurement), Some(window)) = (measurements.get(*at), windows.get_mut(*at)) else {
                continue;
            };
            *window =
                Window { came: 0, dropped: (measurement.dropped, self.dropped(*at)), asks: measurement.asks };
            if let Some(begun) = begun.get_mut(*at) {
                *begun = Instant::now();
            }
            for sequence in first..=last {
                if let Some(to) = pair.to(*at) {
                    self.send(*at, &pair.ask(sequence, 0), 0, to);
                }
            }
        }
        let mut open = rails.len() * WINDOW as usize;
        let settled =
            self.settle(pair, rails, self.config.limits.answer, measurements, |got, measurements| {
                let Some(Body::Answer { dscp, asks, dropped, .. }) = got.of(pair.head) else { return false };
                let ours = (first..=last).contains(&got.packet.sequence);
                let (Some(measurement), Some(window)) =
                    (measurements.get_mut(got.port), windows.get_mut(got.port))
                else {
                    return false;
                };
                if !ours {
                    return false;
                }
                measurement.answered = true;
                (measurement.asks, measurement.dropped) =
                    (measurement.asks.max(asks), measurement.dropped.max(dropped));
                measurement.there.dscp = dscp.or(measurement.there.dscp);
                measurement.back.dscp = got.arrival.class.map(|class| class >> 2).or(measurement.back.dscp);
                let took = begun.get(got.port).map_or(Duration::ZERO, |begun| got.when - *begun);
                let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
                measurement.rtt_us = measurement.rtt_us.into_iter().chain([micros]).min();
                window.came += 1;
                open = open.saturating_sub(1);
                open == 0
            })?;
        for at in rails {
            let (Some(measurement), Some(window)) = (measurements.get_mut(*at), windows.get(*at)) else {
                continue;
            };
            let dropped = (measurement.dropped, self.dropped(*at)) != window.dropped;
            if settled == Settled::All || window.came >= WINDOW || !dropped {
                measurement.count(window);
            }
        }
        Ok(())
    }

    /// Where a rail does not answer: does another of the partner's?
    pub(crate) fn cross(
        &mut self,
        pair: &Pairing<'_>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        let dark: BTreeSet<usize> = measurements
            .iter()
            .enumerate()
            .filter(|(_, measurement)| !measurement.answered)
            .map(|(at, _)| at)
            .collect();
        if dark.is_empty() {
            return Ok(());
        }
        for at in &dark {
            for (other, to) in (0..).zip(&pair.peer.rails).filter(|(other, _)| *other as usize != *at) {
                self.send(*at, &pair.ask(ACROSS + other, 0), 0, *to);
            }
        }
        let numbers: Vec<u16> = self.config.rails.iter().map(|rail| rail.rail).collect();
        let mut open = dark.len();
        self.settle(pair, &dark, self.config.limits.answer, measurements, |got, measurements| {
            let other = got.packet.sequence.checked_sub(ACROSS);
            let rail = other.and_then(|other| numbers.get(other as usize));
            let answers = matches!(got.of(pair.head), Some(Body::Answer { .. }));
            if let (true, Some(rail), Some(measurement)) = (answers, rail, measurements.get_mut(got.port))
                && !measurement.answered
                && measurement.crossed.is_none()
            {
                measurement.crossed = Some(*rail);
                open -= 1;
            }
            open == 0
        })?;
        Ok(())
    }
}

impl RailMeasurement {
    /// What the partner did not get is lost on the way there; what it answered and is not here, on the way back.
    fn count(&mut self, window: &Window) {
        let arrived = self.asks.saturating_sub(window.asks).clamp(window.came, WINDOW);
        self.there.sent += WINDOW;
        self.there.lost += WINDOW - arrived;
        self.back.sent += arrived;
        self.back.lost += arrived - window.came;
    }
}
