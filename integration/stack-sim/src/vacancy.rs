//! How long nobody leads although somebody could: a bound on every hand-over, in virtual time.

/// The longest that nobody may lead while nothing but the death or the leave of a leader is in the way. What adds up, by the settings of
/// `controller.rs`: a leader is silent for 400 ms before it is taken for gone, and a connection to etcd that died without a word for 800 ms
/// (ping and pong); an outcome that is not known is asked for during 1,500 ms; then a call has 600 ms, three of them one after the other: the
/// leader key, what is stored, the first write. Twice, for who takes over may have been started just now, or lose its own way once.
pub const BOUND_MS: u64 = 2 * (400 + 800 + 1500 + 3 * 600);

/// The time without a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vacancy {
    /// Since when somebody could lead and nobody does.
    since_ms: Option<u64>,
    /// The longest so far, in milliseconds.
    pub longest_ms: u64,
}

impl Vacancy {
    /// Observes once: whether somebody leads, and whether somebody could.
    ///
    /// # Errors
    /// Nobody has led for longer than [`BOUND_MS`].
    pub fn observe(&mut self, now_ms: u64, led: bool, could: bool) -> Result<(), String> {
        if led || !could {
            self.since_ms = None;
            return Ok(());
        }
        let passed = now_ms - *self.since_ms.get_or_insert(now_ms);
        self.longest_ms = self.longest_ms.max(passed);
        if passed > BOUND_MS {
            return Err(format!(
                "nobody leads for {passed} ms, and nothing is in the way; {BOUND_MS} ms are the most"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacancy_is_bounded_and_counts_only_while_somebody_could_lead() {
        let mut vacancy = Vacancy::default();
        // While it cannot be helped it may last.
        assert!((0..100).all(|second| vacancy.observe(second * 1000, false, false).is_ok()));
        assert_eq!(vacancy.observe(100_000, false, true), Ok(()));
        assert_eq!(vacancy.observe(100_000 + BOUND_MS, false, true), Ok(()));
        assert!(vacancy.observe(100_001 + BOUND_MS, false, true).unwrap_err().contains("nobody leads"));
        // A leader ends it, and the next one counts from its own beginning.
        assert_eq!(vacancy.observe(200_000, true, true), Ok(()));
        assert_eq!(vacancy.observe(300_000, false, true), Ok(()));
        assert_eq!(vacancy.longest_ms, BOUND_MS + 1);
    }
}
