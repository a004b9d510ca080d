//! Rails that were sent to and from which nothing came since: their ports are asked how they are. No clock of its own.
//!
//! The kernel reports lost carriers late: for an adapter that is not stacked on another, such an event waits up to a second
//! if there was one of any interface in the second before (net/core/link_watch.c: `linkwatch_nextevent`, and
//! `linkwatch_urgent_event` does not count a lost carrier). The carrier itself is known at once to who asks for it. A rail
//! that carries data hears acknowledgements all the time, so that a healthy one is never asked.

use std::time::{Duration, Instant};

use node_agent_collective::units::Rail;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(6);
/// What was sent longer ago has arrived, or its loss is noticed by other means.
const RECENT: Duration = Duration::from_millis(100);

/// How long after a port was found down the kernel may report late that it is back: a second for each of the two events, with room.
const LATE: Duration = Duration::from_millis(2500);

/// One rail since the last check.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    sent: bool,
    heard: bool,
    /// The last check before which something was sent.
    last_sent: Option<Instant>,
    /// Until when its port, which is down, is asked whether it is back.
    back_by: Option<Instant>,
}

/// Which rails are quiet.
#[derive(Debug)]
pub(super) struct Quiet {
    rails: Vec<Traffic>,
    next: Option<Instant>,
}

impl Quiet {
    pub(super) fn new(rails: usize) -> Self {
        Self { rails: vec![Traffic::default(); rails], next: None }
    }

    /// Bytes went out on a rail.
    pub(super) fn sent(&mut self, rail: Rail) {
        self.rails[usize::from(rail)].sent = true;
    }

    /// Bytes came in on a rail.
    pub(super) fn heard(&mut self, rail: Rail) {
        self.rails[usize::from(rail)].heard = true;
    }

    /// The port of a rail was found down.
    pub(super) fn port_down(&mut self, rail: Rail, now: Instant) {
        self.rails[usize::from(rail)].back_by = Some(now + LATE);
    }

    /// The port of a rail is back.
    pub(super) fn port_up(&mut self, rail: Rail) {
        self.rails[usize::from(rail)].back_by = None;
    }

    /// When to look; `None` while nothing was sent lately and no port has just gone down.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        let matters = |rail: &Traffic| rail.sent || rail.back_by.is_some_and(|by| now < by);
        if self.next.is_none() && self.rails.iter().any(matters) {
            self.next = Some(now + PAUSE);
        }
        self.next
    }

    /// Checks, if it is time: gives the rails whose ports are to be asked.
    pub(super) fn check(&mut self, now: Instant) -> Vec<Rail> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let mut asked = Vec::new();
        let mut recent = false;
        for (at, rail) in self.rails.iter_mut().enumerate() {
            if std::mem::take(&mut rail.sent) {
                rail.last_sent = Some(now);
            }
            let silent = !std::mem::take(&mut rail.heard);
            let busy = rail.last_sent.is_some_and(|sent| now < sent + RECENT);
            let down = rail.back_by.is_some_and(|by| now < by);
            recent |= busy || down;
            if busy && silent || down {
                asked.push(at as Rail);
            }
        }
        self.next = recent.then_some(now + PAUSE);
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_that_are_sent_to_and_say_nothing_are_asked_for_a_while() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut quiet = Quiet::new(3);
        assert_eq!(quiet.due(at(0)), None, "nothing was sent");
        quiet.heard(2);
        assert_eq!(quiet.due(at(0)), None, "who only hears has nothing to fear");
        quiet.sent(0);
        quiet.sent(1);
        assert_eq!(quiet.due(at(1)), Some(at(7)));
        assert_eq!(quiet.due(at(3)), Some(at(7)));
        assert!(quiet.check(at(6)).is_empty());
        quiet.heard(1);
        assert_eq!(quiet.check(at(7)), [0]);
        assert_eq!(quiet.due(at(7)), Some(at(13)));
        quiet.heard(0);
        assert_eq!(quiet.check(at(14)), [1], "what was heard counts once");
        assert_eq!(quiet.check(at(100)), [0, 1]);
        assert_eq!(quiet.check(at(107)), [], "what was sent is long gone");
        assert_eq!(quiet.due(at(108)), None);
    }
    #[test]
    fn a_port_that_went_down_is_asked_for_a_while_whether_it_is_back() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut quiet = Quiet::new(2);
        quiet.port_down(1, at(0));
        assert_eq!(quiet.due(at(0)), Some(at(6)));
        assert_eq!(quiet.check(at(6)), [1]);
        assert_eq!(quiet.due(at(7)), Some(at(12)));
        assert_eq!(quiet.check(at(2400)), [1]);
        assert_eq!(quiet.check(at(2501)), [], "the kernel has told of everything by now");
        assert_eq!(quiet.due(at(2502)), None);
        quiet.port_down(0, at(3000));
        quiet.port_up(0);
        assert_eq!(quiet.due(at(3001)), None, "it is back");
    }
}
