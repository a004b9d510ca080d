//! What follows from one attempt of a delivery: a function of what became of it, of how often it was tried, and of the time.

use std::time::Duration;

use proto_model::Timestamp;

/// The wait after the first attempt that failed; it doubles with each further one.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two attempts, also where the receiver asks for more.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// What is not delivered within this time of its event is given up.
pub const WITHIN: Duration = Duration::from_secs(24 * 3600);
/// Tries at most.
pub const ATTEMPTS: u32 = 40;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Delivered,
    /// The receiver says that it is gone for good (410).
    Gone,
    /// The receiver says when it wants to be asked again (429, 503 with `retry-after`), and what it said.
    Later(Duration, String),
    /// Anything else, in words.
    Failed(String),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it is delivered.
    Done,
    /// It is tried again, not before.
    Again(Timestamp),
    /// It is given up.
    GiveUp,
    /// Nothing more goes to this receiver.
    Disable,
}

/// The wait after so many attempts: it doubles up to [`LONGEST`], and is shortened by up to a quarter, by the seed, so that
/// deliveries that failed together do not come back together.
#[must_use]
pub fn wait(attempts: u32, seed: u64) -> Duration {
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
    let whole = doubled.min(LONGEST);
    let quarter = u64::try_from((whole / 4).as_millis()).unwrap_or(u64::MAX);
    whole - Duration::from_millis(proto_random::mix(seed) % (quarter + 1))
}

/// What follows from the `attempts`-th try of what happened at `event`.
#[must_use]
pub fn decide(outcome: &Outcome, attempts: u32, event: Timestamp, now: Timestamp, seed: u64) -> Verdict {
    let least = match outcome {
        Outcome::Delivered => return Verdict::Done,
        Outcome::Gone => return Verdict::Disable,
        Outcome::Later(asked, _) => (*asked).min(LONGEST),
        Outcome::Failed(_) => Duration::ZERO,
    };
    let next = now.plus(wait(attempts, seed).max(least));
    if attempts >= ATTEMPTS || next > event.plus(WITHIN) { Verdict::GiveUp } else { Verdict::Again(next) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_an_hour() {
        let whole: Vec<u64> =
            (1..=14).map(|attempts| wait(attempts, 0).as_secs_f64().round() as u64).collect();
        assert!(whole.windows(2).all(|pair| pair[0] <= pair[1]), "{whole:?}");
        assert!(wait(1, 7) <= FIRST && wait(13, 7) <= LONGEST && wait(u32::MAX, 7) >= LONGEST * 3 / 4);
    }

    #[test]
    fn what_a_receiver_asks_for_is_honoured_up_to_an_hour() {
        let (event, now) = (Timestamp(0), Timestamp(1000));
        let later = |seconds| Outcome::Later(Duration::from_secs(seconds), "429".into());
        assert_eq!(decide(&later(120), 1, event, now, 1), Verdict::Again(Timestamp(121_000)));
        assert_eq!(decide(&later(1 << 40), 1, event, now, 1), Verdict::Again(now.plus(LONGEST)));
        assert_eq!(decide(&Outcome::Gone, 1, event, now, 1), Verdict::Disable);
        assert_eq!(decide(&Outcome::Delivered, ATTEMPTS, event, event.plus(WITHIN * 2), 1), Verdict::Done);
    }

    proptest! {
        #[test]
        fn each_retry_is_later_bounded_and_the_same_for_the_same_seed(
            attempts in 1_u32..100, age in 0_u64..200_000_000, seed: u64, asked in proptest::option::of(0_u64..1_000_000),
        ) {
            let (event, now) = (Timestamp(1_000_000), Timestamp(1_000_000 + age));
            let outcome = match asked {
                Some(seconds) => Outcome::Later(Duration::from_secs(seconds), String::new()),
                None => Outcome::Failed(String::new()),
            };
            let verdict = decide(&outcome, attempts, event, now, seed);
            prop_assert_eq!(verdict, decide(&outcome, attempts, event, now, seed));
            match verdict {
                Verdict::Again(next) => {
                    prop_assert!(next > now && next <= now.plus(LONGEST) && next <= event.plus(WITHIN));
                    prop_assert!(attempts < ATTEMPTS);
                }
                Verdict::GiveUp => prop_assert!(attempts >= ATTEMPTS || now.plus(LONGEST) > event.plus(WITHIN)),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn jitter_takes_a_quarter_at_most(attempts in 1_u32..50, seed: u64) {
            let whole = FIRST.saturating_mul(1 << (attempts - 1).min(20)).min(LONGEST);
            prop_assert!(wait(attempts, seed) <= whole && wait(attempts, seed) >= whole * 3 / 4);
        }
    }
}
