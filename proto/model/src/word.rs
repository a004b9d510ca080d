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

/// An enumeration of codes that other releases add to: a text that this one does not know is kept as it is.
macro_rules! code {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$vdoc])* $variant,)+
            /// One that this release does not know.
            Other(crate::OtherCode),
        }

        impl $type {
            /// All that this release gives.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code as programs read it: UpperCamelCase, stable.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(other) => other.as_str(),
                }
            }

            /// The code of a text from the wire or a file.
            #[must_use]
            pub fn from_text(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(crate::OtherCode::new(other)),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
