//! Codes of causes: what programs read in place of a sentence.
//!
//! Code decides on the variants, never on their texts. The texts are what goes over the wire and into stored rows; they are stable.

use std::{fmt, sync::Arc};

mod list;

pub use list::ReasonCode;

/// The text of a code that this release does not know; a newer agent or controller does. Only [`ReasonCode::from_text`] makes one, so it is
/// never the text of a code that is known here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherCode(Arc<str>);

/// What is to be known of a code that this release does not know.
const OTHER: &str =
    "This release does not know the code, a newer one gives it; read the message beside it, and upgrade.";

/// The enumeration of codes out of sections of variants, whose documentation is what each means and what to do.
macro_rules! reason_codes {
    ($($section:literal { $($(#[doc = $meaning:literal])+ $code:ident,)+ })+) => {
        /// What kind of cause it is. Each variant says what it means and what the reader can do.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReasonCode {
            $($($(#[doc = $meaning])+ $code,)+)+
            /// One that this release does not know.
            Other(OtherCode),
        }

        impl ReasonCode {
            /// All that this release gives.
            pub const ALL: &'static [Self] = &[$($(Self::$code,)+)+];

            /// The same in sections, each with its title.
            pub const SECTIONS: &'static [(&'static str, &'static [Self])] =
                &[$(($section, &[$(Self::$code,)+]),)+];

            /// The code as programs read it: UpperCamelCase, stable.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $($(Self::$code => stringify!($code),)+)+
                    Self::Other(other) => other.as_str(),
                }
            }

            /// The code of a text from the wire, a saved file or a log of decisions. A text that this release does not know is kept as it is.
            #[must_use]
            pub fn from_text(text: &str) -> Self {
                match text {
                    $($(stringify!($code) => Self::$code,)+)+
                    other => Self::Other(OtherCode::new(other)),
                }
            }

            /// One line: what it means and what the reader can do.
            #[must_use]
            pub fn meaning(&self) -> &'static str {
                match self {
                    $($(Self::$code => concat!($($meaning),+).trim_ascii(),)+)+
                    Self::Other(_) => super::OTHER,
                }
            }
        }
    };
}

use reason_codes;

impl OtherCode {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ReasonCode;

    #[test]
    fn every_code_says_what_it_means_in_one_line() {
        for code in ReasonCode::ALL {
            let meaning = code.meaning();
            assert!(meaning.split_whitespace().count() >= 4 && meaning.ends_with('.'), "{code}: {meaning}");
            assert!(!meaning.contains(['\n', '|']) && !meaning.contains("  "), "{code}: {meaning}");
        }
    }

    #[test]
    fn a_code_is_its_text_and_one_that_nobody_knows_is_kept() {
        for code in ReasonCode::ALL {
            assert_eq!(ReasonCode::from_text(code.as_str()), *code);
            assert!(code.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()), "{code}");
        }
        let newer = ReasonCode::from_text("Meteor");
        assert!(matches!(newer, ReasonCode::Other(_)));
        assert_eq!((newer.as_str(), newer.to_string().as_str()), ("Meteor", "Meteor"));
        assert!(newer.meaning().split_whitespace().count() >= 4);
    }

    #[test]
    fn every_code_is_in_one_section() {
        let listed: Vec<&ReasonCode> = ReasonCode::SECTIONS.iter().flat_map(|(_, codes)| *codes).collect();
        let distinct: BTreeSet<&ReasonCode> = listed.iter().copied().collect();
        assert_eq!((listed.len(), distinct.len()), (ReasonCode::ALL.len(), ReasonCode::ALL.len()));
    }
}
