//! What rails carry, and the pause that follows from it.

use crate::units::Time;

/// Bytes that the busiest rail may carry in a pause; rails have been handed more than that.
pub(super) const GATHER: f64 = 32768.0;
/// A shorter pause is not worth it.
pub(super) const LEAST: Time = Time::from_micros(100);
/// The longest pause that is made.
pub(super) const MOST: Time = Time::from_millis(2);
/// An operation that may end within this many pauses is not kept waiting.
pub(super) const FAR: f64 = 40.0;

/// What rails carry, and the pause that follows from it.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When it was worked out.
    pub(super) since: Time,
    /// The pause that is made before frames are read; zero where none is worth it.
    pub(super) pause: Time,
    /// Bytes that all rails carry in [`FAR`] pauses.
    pub(super) far: usize,
    /// Bytes that each carries in one.
    pub(super) carries: Vec<u64>,
}

impl Pace {
    /// The pause for rails of these rates, in bytes per second.
    pub(super) fn of(rates: &[f64], since: Time) -> Pace {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let pause = (GATHER / most).min(MOST.as_secs_f64());
        if most <= 0.0 || pause < LEAST.as_secs_f64() {
            return Pace { since, ..Pace::default() };
        }
        let far = (rates.iter().sum::<f64>() * FAR * pause) as usize;
        let carries = rates.iter().map(|rate| (rate * pause) as u64).collect();
        Pace { since, pause: Time::from_secs_f64(pause), far, carries }
    }
}
