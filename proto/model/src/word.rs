//! Enumerations whose variants are words that people write.

/// An enumeration with all its values and the word of each.
macro_rules! word {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[$vdoc])* $variant),+ }

        impl $type {
            /// All values, in the order of the enumeration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that command lines use.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
