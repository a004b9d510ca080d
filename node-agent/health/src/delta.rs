//! How far a counter has risen between two samples.

/// No counter of events or packets goes faster: 400 Gbit/s of 200-byte packets, per second.
const EVENTS_MAX: u64 = 250_000_000;

/// What became of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta {
    /// It went on by this much.
    On(u64),
    /// It reached its end and went on by this much: right unless the device began again.
    Wrapped(u64),
    /// It began again: what happened between is not known.
    Restarted,
}

/// How far a counter of this many bits went in `elapsed_ms`.
///
/// A counter that goes back has wrapped if it was that near to its end that it can have gone so far in the time;
/// otherwise it was reset.
#[must_use]
pub fn delta(old: u64, new: u64, bits: u8, elapsed_ms: u64) -> Delta {
    if let Some(on) = new.checked_sub(old) {
        return Delta::On(on);
    }
    let end = 1_u64.checked_shl(u32::from(bits)).unwrap_or(0);
    if end == 0 || old >= end {
        return Delta::Restarted;
    }
    let far = (end - old).saturating_add(new);
    let can = EVENTS_MAX.saturating_mul(elapsed_ms) / 1000;
    // Beyond half a turn nobody can tell how many turns it was.
    if far <= can.min(end / 2) { Delta::Wrapped(far) } else { Delta::Restarted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_goes_back_has_wrapped_or_was_reset() {
        let end = 1_u64 << 32;
        let cases = [
            (5, 5, 32, 1000, Delta::On(0)),
            (5, 9, 32, 1000, Delta::On(4)),
            (end - 3, 2, 32, 1000, Delta::Wrapped(5)),
            (3_000_000_000, 1000, 32, 1000, Delta::Restarted),
            (7, 0, 32, 1000, Delta::Restarted),
            (u64::MAX - 3, 2, 64, 1000, Delta::Restarted),
            // A driver that adds up in 64 bits what the hardware counts in 32.
            (end + 10, end + 12, 32, 1000, Delta::On(2)),
            (end + 10, 3, 32, 1000, Delta::Restarted),
            // After an hour's gap more than half a turn may have passed.
            (end - 3, 2, 32, 3_600_000, Delta::Wrapped(5)),
            (end / 2 - 1, 0, 32, 3_600_000, Delta::Restarted),
        ];
        for (old, new, bits, elapsed, wanted) in cases {
            assert_eq!(delta(old, new, bits, elapsed), wanted, "{old} -> {new}, {bits} bits, {elapsed} ms");
        }
    }

    proptest! {
        #[test]
        fn a_wrapping_counter_loses_nothing(start in 0_u64..1 << 33, by in 0_u64..200_000_000) {
            let end = 1_u64 << 32;
            let (old, new) = (start % end, (start + by) % end);
            let got = match delta(old, new, 32, 1000) {
                Delta::On(on) | Delta::Wrapped(on) => Some(on),
                Delta::Restarted => None,
            };
            prop_assert_eq!(got, Some(by));
        }

        #[test]
        fn nothing_is_ever_more_than_a_counter_holds(
            old: u64, new: u64, bits in prop_oneof![Just(32_u8), Just(64)], elapsed in 0_u64..1 << 40,
        ) {
            if let Delta::Wrapped(far) = delta(old, new, bits, elapsed) {
                prop_assert!(new < old && far <= 1 << 31);
            }
        }
    }
}
