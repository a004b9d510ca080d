//! What is left of something that takes long, and when it will probably be done.

use std::time::Duration;

use proto_wire::v1::{self, job_status::Phase};

use crate::{error::human, render};

/// When something that is waited for will be, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Due {
    /// It will probably begin then.
    Starts(f64),
    /// It will not begin before.
    StartsAfter(f64),
    /// It ends then, if not before.
    EndsBefore(f64),
    /// As fast as it has gone, it is done then.
    Done(f64),
}

impl Due {
    /// How long that is from now; nothing where it should have been by now.
    #[must_use]
    pub fn words(self, now: f64) -> String {
        let left = |at: f64| {
            let left = Duration::try_from_secs_f64((at - now).floor()).ok().filter(|left| !left.is_zero())?;
            Some(human(coarse(left)))
        };
        let words = match self {
            Self::Starts(at) => left(at).map(|left| format!("starts in about {left}")),
            Self::StartsAfter(at) => left(at).map(|left| format!("starts in {left} at the earliest")),
            Self::EndsBefore(at) => left(at).map(|left| format!("{left} left at most")),
            Self::Done(at) => left(at).map(|left| format!("about {left} left")),
        };
        words.unwrap_or_default()
    }

    /// When a job that waits will start, and when the time of one that runs is over.
    #[must_use]
    pub fn of_job(job: &v1::Job) -> Option<Self> {
        let status = job.status.as_ref()?;
        match status.phase() {
            Phase::Pending => {
                let eta = status.eta.as_ref()?;
                match (&eta.start, &eta.latest, &eta.earliest) {
                    (Some(start), Some(_), _) => Some(Self::Starts(render::seconds(start))),
                    (_, _, Some(earliest)) => Some(Self::StartsAfter(render::seconds(earliest))),
                    _ => None,
                }
            }
            Phase::Running => {
                let limit = job.spec.as_ref()?.time_limit?;
                let limit = limit.seconds as f64 + f64::from(limit.nanos) / 1e9;
                Some(Self::EndsBefore(render::seconds(status.start_time.as_ref()?) + limit))
            }
            _ => None,
        }
    }
}

/// No seconds where there are hours, and no tenths of seconds: nobody knows it that well.
fn coarse(left: Duration) -> Duration {
    let seconds = left.as_secs();
    Duration::from_secs(match seconds {
        ..600 => seconds,
        600..3600 => seconds - seconds % 60,
        _ => seconds - seconds % 300,
    })
}

/// How fast a number of things goes, and when all of them are done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// When it was first looked at, in seconds since 1970, and what was done by then.
    first: Option<(f64, usize)>,
}

impl Pace {
    /// When all of them will be done, as fast as it has gone since the first look; not known before one more is done.
    pub fn due(&mut self, done: usize, all: usize, now: f64) -> Option<Due> {
        let (since, before) = *self.first.get_or_insert((now, done));
        let (more, left) = (done.checked_sub(before)?, all.saturating_sub(done));
        if more == 0 || left == 0 {
            return None;
        }
        let each = (now - since).max(0.0) / more as f64;
        Some(Due::Done(now + each * left as f64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_left_is_said_as_well_as_it_is_known() {
        let words = |due: Due| due.words(100.0);
        assert_eq!(words(Due::Starts(165.9)), "starts in about 1m5s");
        assert_eq!(words(Due::StartsAfter(100.0 + 4000.0)), "starts in 1h5m at the earliest");
        assert_eq!(words(Due::EndsBefore(100.0 + 1234.0)), "20m left at most");
        assert_eq!(words(Due::Done(109.2)), "about 9s left");
        assert_eq!(words(Due::Done(100.5)), "", "it should be done");
        assert_eq!(words(Due::Starts(7.0)), "");
        assert_eq!(words(Due::Done(f64::INFINITY)) + &words(Due::Done(f64::NAN)), "");
    }

    #[test]
    fn a_job_says_when_it_starts_and_when_its_time_is_over() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let job = |phase: Phase, eta| v1::Job {
            spec: Some(v1::JobSpec {
                time_limit: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                ..v1::JobSpec::default()
            }),
            status: Some(v1::JobStatus {
                phase: phase.into(),
                eta,
                start_time: at(1000),
                ..v1::JobStatus::default()
            }),
            ..v1::Job::default()
        };
        let eta = |latest| Some(v1::Eta { start: at(50), earliest: at(40), latest, ..v1::Eta::default() });
        assert_eq!(Due::of_job(&job(Phase::Pending, eta(at(90)))), Some(Due::Starts(50.0)));
        assert_eq!(Due::of_job(&job(Phase::Pending, eta(None))), Some(Due::StartsAfter(40.0)));
        assert_eq!(Due::of_job(&job(Phase::Pending, None)), None);
        assert_eq!(Due::of_job(&job(Phase::Running, None)), Some(Due::EndsBefore(1060.0)));
        assert_eq!(Due::of_job(&job(Phase::Completed, None)), None);
    }

    #[test]
    fn the_pace_is_that_since_the_first_look() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(10, 40, 100.0), None, "what was done before says nothing");
        assert_eq!(pace.due(10, 40, 105.0), None);
        assert_eq!(pace.due(20, 40, 110.0), Some(Due::Done(130.0)));
        assert_eq!(pace.due(40, 40, 130.0), None);
        assert_eq!(pace.due(5, 40, 140.0), None, "something was taken back");
    }

    proptest! {
        #[test]
        fn what_is_left_is_never_in_the_past(steps in proptest::collection::vec((0_usize..50, 0.0..1e5_f64), 1..20)) {
            let (mut pace, mut now) = (Pace::default(), 1e9);
            for (done, passed) in steps {
                now += passed;
                if let Some(Due::Done(at)) = pace.due(done, 50, now) {
                    prop_assert!(at >= now && at.is_finite());
                }
            }
        }
    }
}
