//! Failure detection: whether the leader that a standby follows is gone, by its heartbeats. No clock, no IO.
//!
//! Evidence may be wrong: at worst a standby takes the lead, by the fence, from a leader that was alive ([`crate::lead`]). Two
//! controllers that reach the store but not each other would take the lead from each other without end. Therefore a process
//! that took over by evidence backs off before it acts on evidence again, each time for longer.

use std::time::Duration;

use proto_model::Timestamp;

/// Back-off after the first take-over by evidence, and the longest.
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_LONGEST: Duration = Duration::from_secs(60);
/// After this time without a take-over by evidence, the next one counts as the first.
const CALM: Duration = Duration::from_secs(600);

/// What a standby observed of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A heartbeat of the leader came.
    Heartbeat {
        /// Whether the store takes the leader's writes, as the leader itself reports.
        writable: bool,
    },
    /// It ends and has released the lead.
    Leaving,
    /// At each of its addresses the connection is refused, or a controller answers that does not lead.
    Refused,
}

/// Why a leader is considered gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It reported that it has released the lead.
    Left,
    /// Connections to all its addresses are refused.
    Closed,
    /// No heartbeat for the longest silence.
    Silent,
    /// It sends heartbeats, but the store has not taken its writes for twice the longest silence, and takes those of others.
    CutOff,
}

impl Evidence {
    /// The cause in words, for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Left => "it has left",
            Self::Closed => "nobody listens at its addresses",
            Self::Silent => "it is silent",
            Self::CutOff => "the store takes no writes of it",
        }
    }
}

/// The judgement about the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is no reason to act; judge again at this time.
    Wait(Timestamp),
    /// It is gone, for this reason.
    Gone(Evidence),
}

/// What a standby knows of the leader that it follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Longest time without a heartbeat of a leader that is alive.
    silence: Duration,
    epoch: u64,
    heard: Timestamp,
    /// Since when the store takes no writes of the leader, as the leader reports; `None`: it takes them.
    unwritable: Option<Timestamp>,
    refused: bool,
    left: bool,
    /// The time of this process's last take-over by evidence, and the back-off after it.
    took_over: Option<(Timestamp, Duration)>,
}

impl Witness {
    /// A witness that follows no leader yet. `silence`: longest time without a heartbeat of a leader that is alive.
    #[must_use]
    pub fn new(silence: Duration) -> Self {
        let heard = Timestamp(0);
        Self { silence, epoch: 0, heard, unwritable: None, refused: false, left: false, took_over: None }
    }

    /// The store names this leader. A new one counts as heard at `now`, so that it has time for its first heartbeat.
    pub fn follows(&mut self, epoch: u64, now: Timestamp) {
        if epoch != self.epoch {
            (self.epoch, self.heard, self.unwritable) = (epoch, now, None);
            (self.refused, self.left) = (false, false);
        }
    }

    /// Takes in what was observed of the leader of `epoch`; of any other leader it is ignored.
    pub fn hears(&mut self, epoch: u64, heard: Heard, now: Timestamp) {
        if epoch != self.epoch {
            return;
        }
        match heard {
            Heard::Heartbeat { writable } => {
                (self.heard, self.refused) = (now, false);
                self.unwritable = if writable { None } else { self.unwritable.or(Some(now)) };
            }
            Heard::Leaving => self.left = true,
            Heard::Refused => self.refused = true,
        }
    }

    /// Whether the leader reports that the store takes none of its writes.
    #[must_use]
    pub fn says_unwritable(&self) -> bool {
        self.unwritable.is_some()
    }

    /// Whether the leader is gone. `store_well`: the store takes writes, as this standby has just tried.
    #[must_use]
    pub fn judge(&self, store_well: bool, now: Timestamp) -> Verdict {
        if self.left {
            return Verdict::Gone(Evidence::Left);
        }
        let silent_at = self.heard.plus(self.silence);
        // Shorter outages of the store affect leaders and standbys alike, and are reported late.
        let cut_off_at = self.unwritable.map(|since| since.plus(self.silence * 2));
        let found = if self.refused {
            Some(Evidence::Closed)
        } else if now >= silent_at {
            Some(Evidence::Silent)
        } else if store_well && cut_off_at.is_some_and(|at| now >= at) {
            Some(Evidence::CutOff)
        } else {
            None
        };
        let rested_at = self.took_over.map_or(now, |(at, rest)| at.plus(rest));
        match found {
            Some(evidence) if now >= rested_at => Verdict::Gone(evidence),
            Some(_) => Verdict::Wait(rested_at),
            None => {
                Verdict::Wait(cut_off_at.filter(|at| *at > now).map_or(silent_at, |at| at.min(silent_at)))
            }
        }
    }

    /// This process took the lead by this evidence. A leader that left by itself causes no back-off.
    pub fn took_over(&mut self, by: Evidence, now: Timestamp) {
        if by == Evidence::Left {
            return;
        }
        let before = self.took_over.filter(|(at, _)| now.since(*at) < CALM).map(|(_, rest)| rest);
        let rest = before.map_or(REST_FIRST, |rest| (rest * 2).min(REST_LONGEST));
        self.took_over = Some((now, rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(1);
    const WELL: Heard = Heard::Heartbeat { writable: true };
    const ILL: Heard = Heard::Heartbeat { writable: false };

    fn following() -> Witness {
        let mut witness = Witness::new(SILENCE);
        witness.follows(7, Timestamp(10_000));
        witness
    }

    fn wait(at: u64) -> Verdict {
        Verdict::Wait(Timestamp(at))
    }

    #[test]
    fn a_leader_that_beats_stays() {
        let mut witness = following();
        assert_eq!(witness.judge(true, Timestamp(10_000)), wait(11_000));
        for at in (10_100..30_000).step_by(900) {
            witness.hears(7, WELL, Timestamp(at));
            assert_eq!(witness.judge(true, Timestamp(at + 999)), wait(at + 1000));
        }
    }

    #[test]
    fn silence_is_evidence_and_what_is_heard_of_others_is_not() {
        let mut witness = following();
        witness.hears(6, WELL, Timestamp(10_900));
        witness.hears(8, Heard::Leaving, Timestamp(10_900));
        witness.hears(6, Heard::Refused, Timestamp(10_900));
        assert_eq!(witness.judge(true, Timestamp(10_999)), wait(11_000));
        assert_eq!(witness.judge(true, Timestamp(11_000)), Verdict::Gone(Evidence::Silent));
        witness.follows(7, Timestamp(11_000));
        assert_eq!(witness.judge(true, Timestamp(11_000)), Verdict::Gone(Evidence::Silent), "still the same");
        witness.follows(9, Timestamp(11_000));
        assert_eq!(witness.judge(true, Timestamp(11_000)), wait(12_000), "a new one has its time");
    }

    #[test]
    fn who_refuses_is_gone_unless_it_is_heard_again() {
        let mut witness = following();
        witness.hears(7, Heard::Refused, Timestamp(10_100));
        assert_eq!(witness.judge(false, Timestamp(10_100)), Verdict::Gone(Evidence::Closed));
        witness.hears(7, WELL, Timestamp(10_200));
        assert_eq!(witness.judge(false, Timestamp(10_200)), wait(11_200));
    }

    #[test]
    fn a_leader_that_cannot_write_is_replaced_only_where_the_store_is_well() {
        let mut witness = following();
        for at in (10_000..12_000).step_by(500) {
            witness.hears(7, ILL, Timestamp(at));
        }
        assert_eq!(witness.judge(true, Timestamp(11_999)), wait(12_000));
        assert_eq!(witness.judge(false, Timestamp(12_000)), wait(12_500));
        assert_eq!(witness.judge(true, Timestamp(12_000)), Verdict::Gone(Evidence::CutOff));
        witness.hears(7, WELL, Timestamp(12_100));
        assert_eq!(witness.judge(true, Timestamp(12_100)), wait(13_100));
    }

    #[test]
    fn two_that_do_not_hear_each_other_take_turns_ever_more_slowly() {
        let mut witness = following();
        let (mut now, mut rests) = (10_000, Vec::new());
        for epoch in 8..18 {
            witness.took_over(Evidence::Silent, Timestamp(now));
            // The other one takes it back at once.
            witness.follows(epoch, Timestamp(now));
            witness.hears(epoch, Heard::Refused, Timestamp(now));
            let Verdict::Wait(until) = witness.judge(true, Timestamp(now)) else { panic!("no rest") };
            assert_eq!(witness.judge(true, until), Verdict::Gone(Evidence::Closed));
            rests.push((until.0 - now) / 1000);
            now = until.0;
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        witness.took_over(Evidence::Silent, Timestamp(now + 700_000));
        witness.follows(30, Timestamp(now + 700_000));
        witness.hears(30, Heard::Refused, Timestamp(now + 700_000));
        assert_eq!(witness.judge(true, Timestamp(now + 700_000)), wait(now + 701_000), "after a calm");
    }

    #[test]
    fn who_leaves_is_gone_at_once_and_costs_no_rest() {
        let mut witness = following();
        witness.took_over(Evidence::Closed, Timestamp(10_000));
        witness.follows(8, Timestamp(10_000));
        witness.hears(8, Heard::Leaving, Timestamp(10_001));
        assert_eq!(witness.judge(false, Timestamp(10_001)), Verdict::Gone(Evidence::Left));
        let before = witness.clone();
        witness.took_over(Evidence::Left, Timestamp(10_002));
        assert_eq!(witness, before);
    }
}
