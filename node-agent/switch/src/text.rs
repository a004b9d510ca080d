//! Words for the controller: bounded, without control characters.

/// Longest message of the schema, in bytes.
const BYTES_MAX: usize = 1024;

/// The text as a message may have it.
#[must_use]
pub fn bounded(text: &str) -> String {
    within(text, BYTES_MAX)
}

/// The same, of at most so many bytes.
#[must_use]
pub fn within(text: &str, bytes: usize) -> String {
    let mut said = String::new();
    for letter in text.trim().chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if said.len() + letter.len_utf8() > bytes {
            break;
        }
        said.push(letter);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_schemas_form() {
        assert_eq!(bounded("  a\n\u{85}b\u{7f}\u{1b}[91m "), "a  b  [91m");
        assert_eq!(within("aäb", 2), "a");
        assert_eq!(within("aäb", 3), "aä");
        assert_eq!(bounded(&"x".repeat(2000)).len(), BYTES_MAX);
    }
}
