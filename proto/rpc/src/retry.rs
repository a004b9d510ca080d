//! Trying again: bounded, with jittered backoff, and only where trying again can help.
//!
//! Retried: UNAVAILABLE, and RESOURCE_EXHAUSTED where the server said when. Not retried: DEADLINE_EXCEEDED and
//! CANCELLED (the outcome is unknown and the time is gone), and everything that would fail the same way again.
//! Calls that write must carry a request id, so that a repeated one is answered from the first.

use crate::status::RpcError;
use proto_random::Random;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Status};

/// How often, how soon and for how long a call is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Calls in all, the first included; at least 1.
    pub attempts: u32,
    /// The longest first wait.
    pub first: Duration,
    /// The longest wait of all.
    pub longest: Duration,
    /// No call starts later than this after the first.
    pub within: Duration,
}

impl Default for RetryPolicy {
    /// Five calls, first wait up to 100 ms, none beyond 2 s, all within 15 s.
    fn default() -> Self {
        RetryPolicy {
            attempts: 5,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(2),
            within: Duration::from_secs(15),
        }
    }
}

/// A small deterministic source of jitter; not for secrets.
#[derive(Debug, Clone)]
pub struct Jitter(Random);

impl Jitter {
    /// A source that gives the same jitter for the same seed, for tests.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Jitter(Random::new(seed))
    }

    /// Seeded by the operating system, so that many clients that lost the same server do not return in step.
    #[must_use]
    pub fn from_os() -> Self {
        let mut seed = [0; 8];
        if aws_lc_rs::rand::fill(&mut seed).is_err() {
            // Jitter needs to differ between processes, not to be secret.
            seed = u64::from(std::process::id()).to_le_bytes();
        }
        Jitter(Random::new(u64::from_le_bytes(seed)))
    }

    /// Uniform in 0 to `limit`, both included, to the microsecond.
    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.0.word() % (micros + 1))
    }
}

impl RetryPolicy {
    /// The wait before attempt `made + 1`, after `made` attempts (1 and more) and `elapsed` since the first; none
    /// if the error must be given to the caller.
    #[must_use]
    pub fn next_wait(
        &self,
        made: u32,
        elapsed: Duration,
        status: &Status,
        jitter: &mut Jitter,
    ) -> Option<Duration> {
        if made >= self.attempts {
            return None;
        }
        let reported = RpcError::from_status(status).retry_after;
        match status.code() {
            Code::Unavailable => {}
            Code::ResourceExhausted if reported.is_some() => {}
            _ => return None,
        }
        let ceiling = self.backoff_ceiling(made);
        let wait = match reported {
            // What the server asks for is the least; the jitter comes on top.
            Some(after) => after.saturating_add(jitter.up_to(ceiling)),
            None => ceiling / 2 + jitter.up_to(ceiling / 2),
        };
        (elapsed.saturating_add(wait) <= self.within).then_some(wait)
    }

    /// The backoff before jitter: doubles with every attempt up to `longest`. Also for loops that reconnect for
    /// ever, where `made` is the number of failures in a row.
    #[must_use]
    pub fn backoff_ceiling(&self, made: u32) -> Duration {
        let factor = 1u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// Calls `operation` (given the attempt's number, from 1) until it succeeds or the policy says no more; gives the
/// last error.
///
/// # Errors
/// The last attempt's status, once `policy` allows no other attempt after it.
pub async fn retry<T, F, Fut>(
    policy: &RetryPolicy,
    jitter: &mut Jitter,
    mut operation: F,
) -> Result<T, Status>
where
    F: FnMut(u32) -> Fut,
    Fut: Future<Output = Result<T, Status>>,
{
    let start = Instant::now();
    let mut made = 0;
    loop {
        made += 1;
        let status = match operation(made).await {
            Ok(value) => return Ok(value),
            Err(status) => status,
        };
        match policy.next_wait(made, start.elapsed(), &status, jitter) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ErrorClass;

    fn unavailable() -> Status {
        Status::unavailable("away")
    }

    /// The default's shape with waits that a test can afford.
    fn quick() -> RetryPolicy {
        RetryPolicy {
            first: Duration::from_micros(100),
            longest: Duration::from_millis(1),
            ..RetryPolicy::default()
        }
    }

    #[tokio::test]
    async fn attempts_are_bounded() {
        let mut calls = 0;
        let policy = quick();
        let result: Result<(), _> = retry(&policy, &mut Jitter::seeded(7), |_| {
            calls += 1;
            async { Err(unavailable()) }
        })
        .await;
        assert_eq!(result.unwrap_err().code(), Code::Unavailable);
        assert_eq!(calls, 5);
    }

    #[tokio::test]
    async fn success_ends_it_and_other_codes_are_not_repeated() {
        let policy = quick();
        let mut jitter = Jitter::seeded(1);
        let third =
            retry(&policy, &mut jitter, |n| async move { if n == 3 { Ok(n) } else { Err(unavailable()) } });
        assert_eq!(third.await.unwrap(), 3);
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let wait = policy.next_wait(1, Duration::ZERO, &Status::new(code, ""), &mut Jitter::seeded(1));
            assert_eq!(wait.is_some(), code == Code::Unavailable, "{code:?}");
        }
    }

    #[test]
    fn waits_grow_stay_in_bounds_and_obey_the_server() {
        let policy =
            RetryPolicy { attempts: 100, within: Duration::from_secs(3600), ..RetryPolicy::default() };
        for seed in 0..200 {
            let mut jitter = Jitter::seeded(seed);
            for made in 1..40 {
                let ceiling = policy.backoff_ceiling(made);
                let wait = policy.next_wait(made, Duration::ZERO, &unavailable(), &mut jitter).unwrap();
                assert!(wait <= ceiling && wait >= ceiling / 2 && ceiling <= policy.longest, "seed {seed}");
            }
            let reported = RpcError::new(ErrorClass::Overloaded, "RATE_LIMITED", "slow down")
                .with_retry_after(Duration::from_secs(3));
            let wait = policy.next_wait(1, Duration::ZERO, &Status::from(reported), &mut jitter).unwrap();
            assert!(wait >= Duration::from_secs(3), "seed {seed}");
        }
    }

    #[test]
    fn no_call_starts_after_the_policy_s_time() {
        let policy = RetryPolicy::default();
        assert!(policy.next_wait(1, policy.within, &unavailable(), &mut Jitter::seeded(3)).is_none());
        let far = RpcError::new(ErrorClass::Unavailable, "MAINTENANCE", "later")
            .with_retry_after(Duration::from_secs(60));
        assert!(policy.next_wait(1, Duration::ZERO, &far.into(), &mut Jitter::seeded(3)).is_none());
    }
}
