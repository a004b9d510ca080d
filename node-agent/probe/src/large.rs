//! The largest packets that pass, each way.

use std::collections::BTreeSet;

use crate::{
    packet::Body,
    prober::Prober,
    turn::{Pairing, RailMeasurement, Unknown},
};

/// A packet of the size that is tried does not pass if it was lost so often.
const ATTEMPTS: u32 = 3;
/// Times that it is tried at most; those during which a socket had no room do not count.
const ATTEMPTS_MAX: u32 = 8;
/// Sizes of IP packets that are tried where the port's own do not pass.
const SIZES: [u32; 6] = [9000, 4200, 2000, 1500, 1400, 1280];
/// Reported as the MTU where not even the least size that is tried passed.
const BYTES_ONLY: u32 = 576;
/// Sequence numbers of large packets begin here.
const LARGE: u32 = 3_000_000;

impl Prober {
    pub(crate) fn large(
        &mut self,
        pair: &Pairing<'_>,
        measurements: &mut [RailMeasurement],
    ) -> Result<(), Unknown> {
        for at in 0..measurements.len() {
            let own = self.ports.get(at).zip(pair.to(at)).and_then(|(port, to)| port.mtu(to));
            let Some(own) =
                own.filter(|_| measurements.get(at).is_some_and(|measurement| measurement.answered))
            else {
                continue;
            };
            let there = self.largest(pair, at, own, true, measurements)?;
            let back = self.largest(pair, at, own, false, measurements)?;
            if let Some(measurement) = measurements.get_mut(at) {
                (measurement.there.mtu, measurement.back.mtu) = (there, back);
            }
        }
        Ok(())
    }

    /// Nothing if sockets had no room for it.
    fn largest(
        &mut self,
        pair: &Pairing<'_>,
        at: usize,
        own: u32,
        there: bool,
        measurements: &mut [RailMeasurement],
    ) -> Result<Option<u32>, Unknown> {
        for size in std::iter::once(own).chain(SIZES.into_iter().filter(|size| *size < own)) {
            match self.passes(pair, at, size, there, measurements)? {
                Some(true) => return Ok(Some(size)),
                Some(false) => {}
                None => return Ok(None),
            }
        }
        // Small packets do pass: where none of these did, the least of them is reported.
        Ok(Some(BYTES_ONLY))
    }

    fn passes(
        &mut self,
        pair: &Pairing<'_>,
        at: usize,
        size: u32,
        there: bool,
        measurements: &mut [RailMeasurement],
    ) -> Result<Option<bool>, Unknown> {
        let payload = self.ports.get(at).map(|port| size.saturating_sub(port.headers()));
        let Some((payload, to)) = payload.zip(pair.to(at)) else { return Ok(None) };
        let (reply, padding) = if there { (0, payload) } else { (payload, 0) };
        let reported = |measurements: &[RailMeasurement]| {
            measurements.get(at).map_or(0, |measurement| measurement.dropped)
        };
        let mut lost = 0;
        for number in 0..ATTEMPTS_MAX {
            let sequence = LARGE + (size * 2 + u32::from(there)) * ATTEMPTS_MAX + number;
            let before = (reported(measurements), self.dropped(at));
            if !self.send(at, &pair.ask(sequence, reply), padding, to) {
                return Ok(Some(false));
            }
            let mut passed = false;
            self.settle(pair, &BTreeSet::from([at]), self.config.limits.answer, measurements, |got, _| {
                let Some(Body::Answer { seen, .. }) = got.of(pair.head) else { return false };
                let whole = if there { seen } else { u32::try_from(got.arrival.length).unwrap_or(u32::MAX) };
                passed |= got.packet.sequence == sequence && got.port == at && whole >= payload;
                passed
            })?;
            if passed {
                return Ok(Some(true));
            }
            lost += u32::from((reported(measurements), self.dropped(at)) == before);
            if lost == ATTEMPTS {
                return Ok(Some(false));
            }
        }
        Ok(None)
    }
}
