//! A set of rails as a bitmap.

use std::fmt;

/// A set of rail indices, each below [`RailSet::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RailSet(u64);

impl RailSet {
    /// Rails of one fabric at most.
    pub const MAX: u32 = 64;
    /// The set without any rail.
    pub const EMPTY: Self = Self(0);

    /// The set of the rails `0..count`; at most [`Self::MAX`].
    #[must_use]
    pub fn first(count: u32) -> Self {
        Self(if count >= Self::MAX { u64::MAX } else { (1 << count) - 1 })
    }

    /// The set with `rail` too; a rail beyond the limit is not taken.
    #[must_use]
    pub fn with(self, rail: u32) -> Self {
        if rail < Self::MAX { Self(self.0 | 1 << rail) } else { self }
    }

    /// Whether `rail` is in the set.
    #[must_use]
    pub fn has(self, rail: u32) -> bool {
        rail < Self::MAX && self.0 >> rail & 1 == 1
    }

    /// Whether all of `other` is in the set.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// The rails that are in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The rails that are in either set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The rails of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Number of rails in the set.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set has no rail.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rails of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let rail = rest.trailing_zeros();
                rest &= rest - 1;
                rail
            })
        })
    }
}

impl FromIterator<u32> for RailSet {
    fn from_iter<I: IntoIterator<Item = u32>>(rails: I) -> Self {
        rails.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for RailSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, rail) in self.iter().enumerate() {
            write!(f, "{}{rail}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::RailSet;

    #[test]
    fn sets() {
        let set: RailSet = [3, 0, 63, 64, 3].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 63]);
        assert_eq!((set.len(), set.to_string().as_str()), (3, "0,3,63"));
        assert!(set.has(63) && !set.has(64) && !set.has(1));
        assert_eq!(RailSet::first(64).len(), 64);
        assert_eq!(RailSet::first(0), RailSet::EMPTY);
        assert!(RailSet::first(4).covers(RailSet::first(2)) && !RailSet::first(2).covers(RailSet::first(4)));
        assert_eq!(RailSet::first(4).without(RailSet::first(2)), [2, 3].into_iter().collect());
    }
}
