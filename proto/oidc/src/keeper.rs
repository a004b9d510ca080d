//! How long a provider's keys count, and when they are asked for again: a function of what was fetched when, and the time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::jose::Keys;

/// Keys are asked for again after so long.
pub const REFRESH: Duration = Duration::from_secs(600);
/// For a key that is not known they are asked for at once, but not more often than this.
pub const AT_MOST_EVERY: Duration = Duration::from_secs(10);
/// After a failure: the first wait, which doubles with each further one, and the longest.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);

/// The keys that were fetched last, and how fetching went.
#[derive(Debug, Clone)]
pub struct Keeper {
    /// Keys older than this do not count any more.
    keep: Duration,
    kept: Option<(Arc<Keys>, SystemTime)>,
    /// When they were asked for last.
    tried: Option<SystemTime>,
    /// When they were asked for last because of a key that was not known.
    urged: Option<SystemTime>,
    failures: u32,
}

impl Keeper {
    /// Without keys yet; those that come count for `keep` if no others come.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self { keep, kept: None, tried: None, urged: None, failures: 0 }
    }

    /// The keys that count now; none before the first, and after the last ones have become too old.
    #[must_use]
    pub fn keys(&self, now: SystemTime) -> Option<Arc<Keys>> {
        let (keys, at) = self.kept.as_ref()?;
        // A clock that was set back makes nothing old.
        let age = now.duration_since(*at).unwrap_or_default();
        (age < self.keep).then(|| Arc::clone(keys))
    }

    /// How long to wait until they are asked for again.
    #[must_use]
    pub fn wait(&self, now: SystemTime) -> Duration {
        let Some(tried) = self.tried else { return Duration::ZERO };
        let pause = match self.failures {
            0 => REFRESH,
            failures => AGAIN_AT_MOST.min(AGAIN * 2_u32.saturating_pow(failures - 1)),
        };
        pause.saturating_sub(now.duration_since(tried).unwrap_or_default())
    }

    /// Whether they may be asked for at once, because a token names a key that is not among them; if so, that is noted.
    pub fn urge(&mut self, now: SystemTime) -> bool {
        let may =
            self.urged.is_none_or(|urged| now.duration_since(urged).unwrap_or_default() >= AT_MOST_EVERY);
        if may {
            self.urged = Some(now);
        }
        may
    }

    /// They are being asked for.
    pub fn asks(&mut self, now: SystemTime) {
        self.tried = Some(now);
    }

    /// They have come.
    pub fn came(&mut self, keys: Keys, now: SystemTime) {
        self.kept = Some((Arc::new(keys), now));
        self.failures = 0;
    }

    /// They have not come.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// When the keys came that are kept.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.kept.as_ref().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn keys_count_until_they_are_too_old_whatever_becomes_of_the_provider() {
        let mut keeper = Keeper::new(Duration::from_secs(3600));
        assert!(keeper.keys(at(0)).is_none() && keeper.wait(at(0)).is_zero());
        keeper.asks(at(100));
        keeper.came(Keys::read(KEYS).unwrap(), at(100));
        for now in [100, 3699, 50] {
            assert!(keeper.keys(at(now)).is_some(), "{now}");
        }
        for _ in 0..100 {
            keeper.asks(at(3000));
            keeper.failed();
        }
        assert!(keeper.keys(at(3699)).is_some() && keeper.keys(at(3700)).is_none());
        keeper.came(Keys::read(KEYS).unwrap(), at(4000));
        assert!(keeper.keys(at(7000)).is_some());
    }

    #[test]
    fn a_provider_is_asked_seldom_and_after_failures_ever_less_often() {
        let mut keeper = Keeper::new(Duration::from_secs(3600));
        keeper.asks(at(100));
        let waits: Vec<u64> = (0..9)
            .map(|_| {
                keeper.failed();
                keeper.wait(at(100)).as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        let urged: Vec<bool> = [105, 105, 114, 115, 50, 124, 125].map(|now| keeper.urge(at(now))).to_vec();
        assert_eq!(urged, [true, false, false, true, false, false, true]);
        keeper.came(Keys::read(KEYS).unwrap(), at(100));
        assert_eq!(keeper.wait(at(101)), REFRESH - Duration::from_secs(1));
        assert!(keeper.wait(at(10_000)).is_zero());
    }
}
