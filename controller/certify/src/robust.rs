//! Statistics that outliers do not move.

/// The middle of the values; of two middles the lower one. `None` of none.
pub(crate) fn median(values: &mut [u32]) -> Option<u32> {
    values.sort_unstable();
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

/// What good values are, and how far they scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    /// The upper quartile. Faults only make slow, and one slow node of three or four makes most of the pairs slow: their median
    /// would be that of the fault.
    pub(crate) level: u32,
    /// The median distance above it.
    pub(crate) scatter: u32,
}

/// Makes the median distance above the upper quartile of normal noise its standard deviation: 1 / (1.150 - 0.674).
pub(crate) const NORMAL: f64 = 2.1;

/// The level of these values. `None` of none.
pub(crate) fn level(values: &mut [u32]) -> Option<Level> {
    values.sort_unstable();
    let level = *values.get(values.len() * 3 / 4)?;
    let mut above: Vec<u32> = values.iter().filter_map(|value| value.checked_sub(level)).collect();
    let scatter = median(&mut above)?;
    Some(Level { level, scatter })
}

#[cfg(test)]
mod tests {
    use super::{level, median};

    #[test]
    fn outliers_move_neither() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [9, 5]), Some(5));
        assert_eq!(median(&mut [100, 101, 99, 1, 100]), Some(100));
        let mut one_of_three_nodes = [20, 21, 19, 20, 100, 101];
        assert_eq!(level(&mut one_of_three_nodes).map(|of| of.level), Some(100));
        assert_eq!(level(&mut [7]).map(|of| (of.level, of.scatter)), Some((7, 0)));
        assert_eq!(level(&mut []), None);
    }
}
