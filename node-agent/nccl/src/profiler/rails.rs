//! Which rail a wait was for. [pure]

use node_agent_client::RailBytes;

/// What the engine had sent and received over each rail at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When, in nanoseconds since 1970.
    pub at: u64,
    /// Each rail's counters.
    pub rails: Vec<RailBytes>,
}

/// Where the bytes go that are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From this server.
    Out,
    /// To this server.
    In,
}

/// The rail that a wait from `start` to `end` was for: a message is there when its last part is, so it is the rail that still moved bytes, and
/// more than any other, when the wait was about to end. `None` where that cannot be told: the wait was shorter than two samples are apart, or no
/// rail moved anything, or two did alike.
#[must_use]
pub fn waited_for(samples: &[Sample], start: u64, end: u64, direction: Direction) -> Option<u16> {
    // The first at or after the end, or the last there is, and the one before it.
    let last = samples.partition_point(|sample| sample.at < end).min(samples.len().checked_sub(1)?);
    let (before, after) = (samples.get(last.checked_sub(1)?)?, samples.get(last)?);
    if before.at < start {
        return None;
    }
    let bytes = |rail: &RailBytes| match direction {
        Direction::Out => rail.tx_bytes,
        Direction::In => rail.rx_bytes,
    };
    let mut moved: Vec<(u64, u16)> = after
        .rails
        .iter()
        .filter_map(|rail| {
            let earlier = before.rails.iter().find(|other| other.rail == rail.rail)?;
            Some((bytes(rail).saturating_sub(bytes(earlier)), rail.rail))
        })
        .collect();
    moved.sort_unstable_by(|a, b| b.cmp(a));
    match moved[..] {
        [] | [(0, _), ..] => None,
        // More than an eighth more than the next: else all were busy alike.
        [(most, _), (next, _), ..] if most - most / 8 <= next => None,
        [(_, rail), ..] => Some(rail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, rails: &[(u64, u64)]) -> Sample {
        let rail = |(rail, (tx_bytes, rx_bytes)): (u16, &(u64, u64))| RailBytes {
            rail,
            tx_bytes: *tx_bytes,
            rx_bytes: *rx_bytes,
            chunks: 0,
        };
        Sample { at, rails: (0..).zip(rails).map(rail).collect() }
    }

    #[test]
    fn the_rail_that_is_still_busy_is_the_one_that_was_waited_for() {
        let samples = [
            sample(0, &[(0, 0), (0, 0)]),
            sample(10, &[(1000, 500), (900, 500)]),
            sample(20, &[(1000, 900), (1700, 510)]),
        ];
        assert_eq!(waited_for(&samples, 5, 15, Direction::Out), Some(1));
        assert_eq!(waited_for(&samples, 5, 20, Direction::Out), Some(1));
        assert_eq!(
            waited_for(&samples, 5, 25, Direction::Out),
            Some(1),
            "the last sample is the best there is"
        );
        assert_eq!(waited_for(&samples, 5, 20, Direction::In), Some(0));
        assert_eq!(waited_for(&samples, 0, 10, Direction::Out), None, "both alike");
        assert_eq!(waited_for(&samples, 12, 14, Direction::Out), None, "too short to be told");
    }

    #[test]
    fn nothing_is_told_of_nothing() {
        assert_eq!(waited_for(&[], 0, 1, Direction::Out), None);
        assert_eq!(waited_for(&[sample(0, &[(1, 1)])], 0, 1, Direction::In), None);
        let idle = [sample(0, &[(5, 5)]), sample(10, &[(5, 5)])];
        assert_eq!(waited_for(&idle, 0, 10, Direction::Out), None);
        // One rail alone.
        let one = [sample(0, &[(0, 0)]), sample(10, &[(5, 0)])];
        assert_eq!(waited_for(&one, 0, 10, Direction::Out), Some(0));
        // A rail that has come between.
        let grown = [sample(0, &[(0, 0)]), sample(10, &[(0, 0), (9, 9)])];
        assert_eq!(waited_for(&grown, 0, 10, Direction::Out), None);
    }
}
