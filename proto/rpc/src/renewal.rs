//! When a certificate is renewed, and when again if that failed: decided by times that are given.

use std::time::{Duration, SystemTime};

use crate::certificate::PeerCertificate;
use crate::retry::Jitter;

/// A caller that waits sleeps no longer than this at once: a clock that was set, or a machine that slept, shall be noticed.
pub const CHECK: Duration = Duration::from_secs(60);
/// The first and the longest wait after a failure, for certificates that live long.
const AGAIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));

/// The plan for one certificate.
#[derive(Debug, Clone)]
pub struct Renewal {
    due: SystemTime,
    life: Duration,
    failures: u32,
}

impl Renewal {
    /// At half of the certificate's life, less up to a tenth of that so that many do not come at once.
    #[must_use]
    pub fn of(certificate: &PeerCertificate, jitter: &mut Jitter) -> Self {
        let life = certificate.not_after.duration_since(certificate.issued).unwrap_or_default();
        let half = life / 2;
        let due = certificate.issued + half.saturating_sub(jitter.up_to(half / 10));
        Renewal { due, life, failures: 0 }
    }

    /// How long to wait; zero when it is due.
    #[must_use]
    pub fn wait(&self, now: SystemTime) -> Duration {
        self.due.duration_since(now).unwrap_or_default()
    }

    /// Sleeps until it is due by the wall clock, whatever happens to that.
    pub async fn until_due(&self) {
        loop {
            let wait = self.wait(SystemTime::now());
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait.min(CHECK)).await;
        }
    }

    /// It failed: again after a time that doubles with every failure, from 30 s to an hour, and for short lives from a
    /// 32nd to a 16th of them; less up to half of it.
    pub fn failed(&mut self, now: SystemTime, jitter: &mut Jitter) {
        let (first, longest) = (AGAIN.0.min(self.life / 32), AGAIN.1.min(self.life / 16));
        let factor = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let wait = first.saturating_mul(factor).min(longest);
        self.due = now + wait / 2 + jitter.up_to(wait / 2);
    }

    /// Attempts to renew that failed since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::{LEAF_LIFETIME, NODE_LIFETIME};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn certificate(issued: SystemTime, life: Duration) -> PeerCertificate {
        PeerCertificate { serial: String::new(), issued, not_after: issued + life }
    }

    #[test]
    fn renewal_comes_at_about_half_of_the_life() {
        let now = SystemTime::UNIX_EPOCH + DAY;
        for seed in 0..50 {
            let wait = Renewal::of(&certificate(now, LEAF_LIFETIME), &mut Jitter::seeded(seed)).wait(now);
            let (least, most) = (LEAF_LIFETIME * 44 / 100, LEAF_LIFETIME / 2);
            assert!(wait >= least && wait <= most, "seed {seed}: {wait:?}");
        }
        let late = Renewal::of(&certificate(now, LEAF_LIFETIME), &mut Jitter::seeded(0));
        assert_eq!(late.wait(now + LEAF_LIFETIME * 2), Duration::ZERO);
    }

    /// Lives through `days` with outages of a day; answers the most attempts during one outage, and the longest time from
    /// an outage's end to the renewal that it held up.
    fn live(life: Duration, outages: &[Duration], days: u32, seed: u64) -> (u32, Duration) {
        let start = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let end = start + days * DAY;
        let mut jitter = Jitter::seeded(seed);
        let out =
            |now: SystemTime| outages.iter().map(|at| start + *at).find(|at| *at <= now && now < *at + DAY);
        let mut shown = certificate(start, life);
        let mut plan = Renewal::of(&shown, &mut jitter);
        let (mut now, mut most, mut slowest, mut held) = (start, 0, Duration::ZERO, None);
        while now < end {
            now += plan.wait(now);
            assert!(
                now < shown.not_after,
                "seed {seed}: it ended unrenewed, {:?} after the start",
                now.duration_since(start)
            );
            if let Some(outage) = out(now) {
                plan.failed(now, &mut jitter);
                most = most.max(plan.failures());
                held = Some(outage + DAY);
            } else {
                slowest = slowest.max(
                    held.take().map_or(Duration::ZERO, |over| now.duration_since(over).unwrap_or_default()),
                );
                shown = certificate(now, life);
                plan = Renewal::of(&shown, &mut jitter);
            }
        }
        (most, slowest)
    }

    #[test]
    fn a_node_s_certificate_outlives_every_outage_of_a_day() {
        // Whenever the controllers go away, also at the very moment of the renewal, and again after a week.
        for seed in 0..200u64 {
            let first = Duration::from_secs(12 * 3600 * (seed % 60));
            let (attempts, late) =
                live(NODE_LIFETIME, &[first, first + 8 * DAY, first + 15 * DAY], 120, seed);
            assert!(attempts <= 60, "seed {seed}: {attempts} tries in one outage");
            assert!(late <= Duration::from_secs(3600), "seed {seed}: renewed {late:?} after the outage");
        }
    }

    #[test]
    fn a_renewal_that_fails_is_tried_many_times_before_the_end() {
        for life in [LEAF_LIFETIME, NODE_LIFETIME, Duration::from_secs(4)] {
            let start = SystemTime::UNIX_EPOCH + DAY;
            let (mut jitter, mut now) = (Jitter::seeded(3), start);
            let mut plan = Renewal::of(&certificate(start, life), &mut jitter);
            loop {
                now += plan.wait(now);
                if now >= start + life {
                    break;
                }
                plan.failed(now, &mut jitter);
            }
            assert!(plan.failures() >= 8, "{life:?}: {} tries", plan.failures());
        }
    }

    #[tokio::test]
    async fn a_machine_that_slept_renews_soon_after() {
        let issued = SystemTime::now() - LEAF_LIFETIME;
        // By the wall clock it is due already; nothing is waited for.
        let plan = Renewal::of(&certificate(issued, LEAF_LIFETIME), &mut Jitter::seeded(1));
        tokio::time::timeout(Duration::from_secs(5), plan.until_due()).await.unwrap();
    }
}
