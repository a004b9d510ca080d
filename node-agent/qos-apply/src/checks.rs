//! When to look at which NIC: events and a poll become "look again", soon, and once for many events. No IO, no clock: times are since some
//! beginning.

use std::{collections::BTreeMap, time::Duration};

use node_agent_netlink::events::Event;

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Everything is looked at this often, for what no event reports: files of sysfs, debugfs and configfs. Reading some of them costs the
    /// device a firmware command each.
    pub poll: Duration,
    /// After an event, for others that belong to it.
    pub settle: Duration,
    /// After a check that came too early, at first; each further time twice as long, up to the poll.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            settle: Duration::from_millis(10),
            retry: Duration::from_millis(25),
        }
    }
}

/// Why a NIC is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckTrigger {
    /// The interval between two checks has passed.
    Poll,
    /// The last check came too early, or failed.
    Again,
    /// Netlink events were lost, so anything may have changed.
    Lost,
    /// Its link, MTU or name changed, or it came.
    Link,
    /// Its pause settings were changed.
    Pause,
    /// Its DCB state was changed.
    Dcb,
}

/// A NIC to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicCheck {
    /// The network device's name at the time of the check.
    pub netdev: String,
    /// What made the check due.
    pub cause: CheckTrigger,
    /// When what it is about was first heard, or when it was found to be due.
    pub since: Duration,
}

/// A check that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at: Duration,
    cause: CheckTrigger,
    since: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: String,
    up: bool,
    mtu: u32,
}

/// The NICs that are to be checked, and when each is due.
#[derive(Debug, Clone)]
pub struct Looks {
    timing: Timing,
    links: BTreeMap<u32, Seen>,
    due: BTreeMap<String, Due>,
    attempts: BTreeMap<String, u32>,
    polled: Duration,
    lost: bool,
}

impl Looks {
    /// At the beginning everything is due.
    #[must_use]
    pub fn new(timing: Timing, now: Duration) -> Self {
        Self {
            timing,
            links: BTreeMap::new(),
            due: BTreeMap::new(),
            attempts: BTreeMap::new(),
            polled: now,
            lost: true,
        }
    }

    fn soon(&mut self, netdev: &str, at: Duration, cause: CheckTrigger, since: Duration) {
        let new = Due { at, cause, since };
        let due = self.due.entry(netdev.to_owned()).or_insert(new);
        // The first event's time counts: a storm of them does not put the check off.
        *due = Due { at: due.at.min(at), cause: due.cause.max(cause), since: due.since.min(since) };
    }

    /// Takes an event of the kernel into account: the NIC that it is about is due after a time for settling.
    pub fn on_report(&mut self, event: &Event, now: Duration) {
        let at = now + self.timing.settle;
        match event {
            Event::Link(link) => {
                let seen = Seen { name: link.name.clone(), up: link.up, mtu: link.mtu };
                let old = self.links.insert(link.index, seen.clone());
                if old.as_ref() == Some(&seen) {
                    return;
                }
                if let Some(old) = old.filter(|old| old.name != seen.name) {
                    self.due.remove(&old.name);
                }
                self.soon(&link.name, at, CheckTrigger::Link, now);
            }
            Event::LinkGone { index, name } => {
                self.links.remove(index);
                self.due.remove(name);
                self.attempts.remove(name);
            }
            Event::Dcb { device } => self.soon(device, at, CheckTrigger::Dcb, now),
            Event::Pause { device } => self.soon(device, at, CheckTrigger::Pause, now),
            // Class of service is of the port, not of its addresses.
            Event::Address { .. } | Event::Rdma(_) => {}
            Event::Lost => self.lost = true,
        }
    }

    /// A check of a NIC came too early (its RDMA device is not there yet) or failed: check again, later each time.
    pub fn again(&mut self, netdev: &str, now: Duration) {
        let attempts = self.attempts.entry(netdev.to_owned()).or_insert(0);
        let wait = self.timing.retry.saturating_mul(1 << (*attempts).min(16)).min(self.timing.poll);
        *attempts = attempts.saturating_add(1);
        self.soon(netdev, now + wait, CheckTrigger::Again, now);
    }

    /// A NIC is to be looked at at this time.
    pub fn at(&mut self, netdev: &str, when: Duration) {
        self.soon(netdev, when, CheckTrigger::Again, when);
    }

    /// A check of a NIC found what it was for.
    pub fn done(&mut self, netdev: &str) {
        self.attempts.remove(netdev);
    }

    /// What is due now; `nics` are those that the poll is about. What is asked for here is no longer due.
    pub fn due(&mut self, nics: &[String], now: Duration) -> Vec<NicCheck> {
        let lost = std::mem::take(&mut self.lost);
        let poll = now >= self.polled + self.timing.poll;
        if poll {
            self.polled = now;
        }
        if lost || poll {
            let cause = if lost { CheckTrigger::Lost } else { CheckTrigger::Poll };
            for nic in nics {
                self.soon(nic, now, cause, now);
            }
        }
        let ready: Vec<String> =
            self.due.iter().filter(|(_, due)| due.at <= now).map(|(name, _)| name.clone()).collect();
        let take = |netdev: String| {
            let Due { cause, since, .. } = self.due.remove(&netdev)?;
            Some(NicCheck { netdev, cause, since })
        };
        ready.into_iter().filter_map(take).collect()
    }

    /// How long nothing is due if nothing happens.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        if self.lost {
            return Duration::ZERO;
        }
        let first = self.due.values().map(|due| due.at).min();
        let poll = self.polled + self.timing.poll;
        first.map_or(poll, |first| first.min(poll)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_netlink::route::Link;
    use proptest::prelude::*;

    const TIMING: Timing = Timing { poll: ms(1000), settle: ms(10), retry: ms(25) };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn link(index: u32, name: &str, up: bool) -> Event {
        Event::Link(Link { index, name: name.into(), up, mtu: 9000, ..Link::default() })
    }

    #[test]
    fn many_events_are_one_look_and_none_puts_it_off() {
        let nics = ["eth0".to_owned(), "eth1".to_owned()];
        let mut checks = Looks::new(TIMING, ms(0));
        assert_eq!(checks.due(&nics, ms(0)).len(), 2, "everything at the beginning");
        for at in 0..9 {
            checks.on_report(&Event::Dcb { device: "eth0".into() }, ms(100 + at));
        }
        assert_eq!((checks.due(&nics, ms(109)), checks.wait(ms(109))), (vec![], ms(1)));
        let check = NicCheck { netdev: "eth0".into(), cause: CheckTrigger::Dcb, since: ms(100) };
        assert_eq!(checks.due(&nics, ms(110)), [check]);
        assert_eq!((checks.due(&nics, ms(110)), checks.wait(ms(110))), (vec![], ms(890)));
        assert_eq!(checks.due(&nics, ms(1000)).len(), 2, "the poll");
    }

    #[test]
    fn a_link_that_says_nothing_new_is_not_looked_at() {
        let nics = ["rail0".to_owned()];
        let mut checks = Looks::new(TIMING, ms(0));
        checks.due(&nics, ms(0));
        checks.on_report(&link(3, "eth0", true), ms(1));
        checks.on_report(&link(3, "rail0", true), ms(2));
        let check = NicCheck { netdev: "rail0".into(), cause: CheckTrigger::Link, since: ms(2) };
        assert_eq!(checks.due(&nics, ms(20)), [check], "by its new name only");
        checks.on_report(&link(3, "rail0", true), ms(30));
        assert_eq!(checks.due(&nics, ms(50)), []);
        checks.on_report(&link(3, "rail0", false), ms(60));
        checks.on_report(&Event::LinkGone { index: 3, name: "rail0".into() }, ms(61));
        assert_eq!(checks.due(&nics, ms(80)), [], "there is nothing to look at");
    }

    #[test]
    fn looks_that_came_too_early_are_made_again() {
        let nics = ["eth0".to_owned()];
        let mut checks = Looks::new(TIMING, ms(0));
        checks.due(&nics, ms(0));
        let mut waits = Vec::new();
        for _ in 0..8 {
            checks.again("eth0", ms(0));
            waits.push(checks.due["eth0"].at.as_millis());
            checks.due.clear();
        }
        assert_eq!(waits, [25, 50, 100, 200, 400, 800, 1000, 1000]);
        checks.done("eth0");
        checks.again("eth0", ms(0));
        assert_eq!(checks.wait(ms(0)), ms(25));
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten(steps in prop::collection::vec((0u8..5, 0u64..40), 1..60)) {
            let nics = ["eth0".to_owned()];
            let mut checks = Looks::new(TIMING, ms(0));
            checks.due(&nics, ms(0));
            let (mut now, mut since): (Duration, Option<Duration>) = (ms(0), None);
            for (kind, wait) in steps {
                now += ms(wait);
                if checks.due(&nics, now).iter().any(|check| check.netdev == "eth0") {
                    since = None;
                } else {
                    prop_assert!(since.is_none_or(|since| now < since + ms(10)), "late at {now:?}");
                }
                let event = match kind {
                    0 => Event::Dcb { device: "eth0".into() },
                    1 => Event::Pause { device: "eth0".into() },
                    2 => link(1, "eth0", wait % 2 == 0),
                    3 => Event::Dcb { device: "other".into() },
                    _ => Event::Lost,
                };
                checks.on_report(&event, now);
                if kind < 2 || kind == 4 {
                    since = since.or(Some(now));
                }
                prop_assert!(checks.wait(now) <= ms(1000));
            }
        }
    }
}
