//! Statistics that outliers do not move.

/// The middle of the values; of two middles the lower one. `None` of none.
pub(crate) fn median(values: &mut [u32]) -> Option<u32> {
    values.sort_unstable();
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

/// Makes the median distance above the upper quartile of normal noise its standard deviation: 1 / (1.150 - 0.674).
pub(crate) const NORMAL: f64 = 2.1;
/// Of no more values than this, those of four nodes' pairs being more, the quartile is the least of two or three good ones.
const FEW: usize = 8;

/// What good values are: the upper quartile. Faults only make slow, and one slow node of three or four makes most of the pairs slow:
/// their median would be that of the fault. Of few values it is the mean of those from there on, because the one of two that noise made
/// slower says too little. Sorts the values; `None` of none.
pub(crate) fn level(values: &mut [u32]) -> Option<u32> {
    values.sort_unstable();
    let upper = values.get(values.len() * 3 / 4..).filter(|upper| !upper.is_empty())?;
    let sum = || upper.iter().map(|value| u64::from(*value)).sum::<u64>();
    if values.len() > FEW { upper.first().copied() } else { u32::try_from(sum() / upper.len() as u64).ok() }
}

/// How far good values scatter: the median distance above the level, as a share of it, over all groups of values together. What
/// makes them scatter is the same for all, and a group alone may have three to tell it.
pub(crate) fn scatter<'a>(groups: impl Iterator<Item = (&'a [u32], u32)>) -> f64 {
    const WHOLE: u64 = 1_000_000;
    let share = |value: u32, level: u32| {
        let above = u64::from(value.checked_sub(level)?) * WHOLE / u64::from(level.max(1));
        Some(u32::try_from(above).unwrap_or(u32::MAX))
    };
    let of = |(values, level): (&'a [u32], u32)| values.iter().filter_map(move |value| share(*value, level));
    median(&mut groups.flat_map(of).collect::<Vec<u32>>())
        .map_or(0.0, |middle| f64::from(middle) / WHOLE as f64)
}

#[cfg(test)]
mod tests {
    use super::{level, median, scatter};

    #[test]
    fn outliers_move_neither() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [9, 5]), Some(5));
        assert_eq!(median(&mut [100, 101, 99, 1, 100]), Some(100));
        let mut one_of_three_nodes = [20, 21, 19, 20, 100, 101];
        assert_eq!(level(&mut one_of_three_nodes), Some(100));
        assert_eq!(level(&mut [96, 20, 19, 20, 21, 104]), Some(100), "the mean of the two good ones");
        assert_eq!(level(&mut [7]), Some(7));
        assert_eq!(level(&mut []), None);
        assert_eq!(level(&mut [u32::MAX; 6]), Some(u32::MAX));
        assert_eq!(
            level(&mut [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]),
            Some(19),
            "of many the quartile"
        );
    }

    #[test]
    fn all_groups_tell_how_far_values_scatter() {
        let groups: [(&[u32], u32); 2] = [(&[100, 1000, 1001, 1200], 1000), (&[20, 2000, 2020, 2040], 2000)];
        assert_eq!(
            scatter(groups.into_iter()),
            0.001,
            "0, 0.1, 20, and 0, 1 and 2 %: of two middles the lower"
        );
        assert_eq!(scatter(groups.into_iter().skip(1)), 0.01);
        assert_eq!((scatter([].into_iter()), scatter([(&[0_u32, 0][..], 0)].into_iter())), (0.0, 0.0));
    }
}
