//! Labels of nodes: the keys and values that selectors and taints speak of.

use thiserror::Error;

/// Bytes of a key or a value at most.
pub const MAX_LABEL: usize = 128;
/// Labels, or taints, of one node at most.
pub const MAX_LABELS: usize = 64;

/// Why a text is no key or value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelError {
    /// A key must say something.
    #[error("a key must not be empty")]
    Empty,
    /// Longer than any label.
    #[error("'{text}' has {bytes} bytes; at most {MAX_LABEL} are allowed")]
    TooLong {
        /// What was given, shortened.
        text: String,
        /// Bytes that the text has.
        bytes: usize,
    },
    /// A character that labels do not have, or not at that place.
    #[error(
        "'{text}': {found:?} is not allowed there; use letters, digits, and inside also '-', '_', '.' and '/'"
    )]
    Character {
        /// What was given, shortened.
        text: String,
        /// The first offending character.
        found: char,
    },
}

/// Checks the key of a label or taint.
///
/// # Errors
/// [`LabelError`] if the text is empty, too long, or has a character that keys do not have there.
pub fn check_key(text: &str) -> Result<(), LabelError> {
    if text.is_empty() { Err(LabelError::Empty) } else { check_value(text) }
}

/// Checks the value of a label or taint; it may be empty.
///
/// # Errors
/// [`LabelError`] if the text is too long, or has a character that values do not have there.
pub fn check_value(text: &str) -> Result<(), LabelError> {
    let shown = || text.chars().take(32).collect::<String>();
    if text.len() > MAX_LABEL {
        return Err(LabelError::TooLong { text: shown(), bytes: text.len() });
    }
    let last = text.chars().count().saturating_sub(1);
    let wrong = |(at, c): &(usize, char)| {
        let edge = *at == 0 || *at == last;
        !(c.is_ascii_alphanumeric() || (!edge && matches!(c, '-' | '_' | '.' | '/')))
    };
    match text.chars().enumerate().find(wrong) {
        Some((_, found)) => Err(LabelError::Character { text: shown(), found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_plain_words() {
        for good in ["a", "railyard.io/quarantined", "H100_80GB", "1", "a-b"] {
            assert_eq!(check_key(good), Ok(()), "{good}");
        }
        assert_eq!(check_value(""), Ok(()));
        assert_eq!(check_key(""), Err(LabelError::Empty));
        assert!(matches!(check_key(&"x".repeat(129)), Err(LabelError::TooLong { bytes: 129, .. })));
        for bad in ["-a", "a-", "a b", "a=b", "é", "a\n", "/", "a,b"] {
            assert!(matches!(check_key(bad), Err(LabelError::Character { .. })), "{bad}");
        }
    }
}
