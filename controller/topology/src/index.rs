//! Dense indices in place of names.

use std::num::NonZeroU32;

macro_rules! index {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(NonZeroU32);

        impl $type {
            /// As an index into a vector.
            #[must_use]
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }

            /// Of an index into a vector. A number beyond four billion, which no vector here reaches, is the largest.
            #[must_use]
            pub fn at(index: usize) -> Self {
                let number = u32::try_from(index.saturating_add(1)).unwrap_or(u32::MAX);
                Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
            }
        }
    };
}

index!(
    /// A server of the cluster; given back when it leaves.
    NodeIx
);
index!(
    /// A pod, in name order. Without a fabric document there is one, without a name.
    PodIx
);
index!(
    /// Index of a leaf, in name order.
    LeafIx
);
index!(
    /// A set of leaves of one rail and plane that reach each other through working switches and cables.
    IslandIx
);
