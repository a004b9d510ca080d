//! Colour on a terminal. It only repeats what symbols and words say.

use std::ffi::OsStr;

use crate::args::Color;

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not as it should be, and known: drained, waiting.
    Doubtful,
    /// Out of order.
    Bad,
    /// Neither good nor bad, to be told apart.
    Apart,
    /// Of less importance.
    Faint,
}

/// Whether there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No colour.
    pub const NONE: Self = Self(false);

    /// As it was asked for; of itself on a terminal that has colours, unless `NO_COLOR` is set.
    #[must_use]
    pub fn of(color: Color, is_terminal: bool) -> Self {
        Self::chosen(
            color,
            is_terminal,
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        )
    }

    /// The same, with what the environment says.
    fn chosen(color: Color, is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        // An empty NO_COLOR says nothing (no-color.org).
        let refused =
            no_color.is_some_and(|text| !text.is_empty()) || term.is_some_and(|term| term == "dumb");
        Self(match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !refused,
        })
    }

    /// The text in the colour of a tone.
    #[must_use]
    pub fn tone(self, text: &str, tone: Tone) -> String {
        let number = match tone {
            Tone::Good => 32,
            Tone::Doubtful => 33,
            Tone::Bad => 31,
            Tone::Apart => 36,
            Tone::Faint => 90,
        };
        if self.0 && !text.is_empty() { format!("\x1b[{number}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let on = |color, terminal, no_color: Option<&str>, term: &str| {
            Paint::chosen(color, terminal, no_color.map(OsStr::new), Some(OsStr::new(term))) == Paint(true)
        };
        assert!(on(Color::Auto, true, None, "xterm") && on(Color::Auto, true, Some(""), "xterm"));
        assert!(!on(Color::Auto, false, None, "xterm") && !on(Color::Auto, true, None, "dumb"));
        assert!(!on(Color::Auto, true, Some("1"), "xterm") && on(Color::Always, false, Some("1"), "dumb"));
        assert!(!on(Color::Never, true, None, "xterm"));
        assert_eq!(Paint(true).tone("x", Tone::Bad), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::NONE.tone("x", Tone::Bad), "x");
    }
}
