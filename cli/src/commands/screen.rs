//! A table that is drawn again in place on a terminal, never higher or wider than it.

use std::{fmt::Write as _, io::IsTerminal as _};

use unicode_width::UnicodeWidthChar as _;

use crate::{error::Error, output::print, render::clean};

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line, and all that is below the cursor. A line is cleared before it is written: behind one as wide as the terminal
/// the cursor is still on the last character, which would be cleared too.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The cursor is of no use to what is only looked at.
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines that it shows.
    pub rows: usize,
    /// Cells of a line; wide characters take two.
    pub columns: usize,
}

impl Size {
    /// The terminal's that standard output is; of one that does not say, the size that all have had.
    fn now() -> Self {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or(Self { rows: 24, columns: 80 }, |size| Self {
            rows: usize::from(size.ws_row),
            columns: usize::from(size.ws_col),
        })
    }
}

/// Standard output as a terminal that is drawn on in place. The cursor is back when it is dropped.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// Whether standard output is a terminal.
    pub fn is_there() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Takes the terminal; `None` where standard output is none. What it showed can be scrolled back to. The cursor is hidden from
    /// here on: who calls it listens to signals already, so that it comes back.
    ///
    /// # Errors
    /// [`Error::Output`] if standard output cannot be written to.
    pub fn begin() -> Result<Option<Self>, Error> {
        if !Self::is_there() {
            return Ok(None);
        }
        let screen = Self(());
        print(&format!("{HIDE_CURSOR}{}", "\n".repeat(Size::now().rows)))?;
        Ok(Some(screen))
    }

    /// Draws what `text` makes for the size that the terminal has now: its lines, and how many more there are that it left out.
    ///
    /// # Errors
    /// [`Error::Output`] if standard output cannot be written to.
    pub fn draw(&self, text: impl FnOnce(Size) -> (String, usize)) -> Result<(), Error> {
        let size = Size::now();
        let (text, more) = text(size);
        print(&frame(&text, more, size))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is there to be told where it does not work.
        let _ = print(SHOW_CURSOR);
    }
}

/// One picture: each line cut to the width, as many as there is room for, and how many more there are. The last row stays free.
fn frame(text: &str, more: usize, size: Size) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = size.rows.saturating_sub(1).max(1);
    let shown = if lines.len() + usize::from(more > 0) > room { room - 1 } else { lines.len() };
    let left_out = more + lines.len() - shown;
    let mut out = HOME.to_owned();
    for line in &lines[..shown] {
        let _ = writeln!(out, "{CLEAR_LINE}{}", cut(line, size.columns));
    }
    if left_out > 0 {
        let _ = writeln!(out, "{CLEAR_LINE}{}", cut(&format!("... and {left_out} more"), size.columns));
    }
    out.push_str(CLEAR_BELOW);
    out
}

/// A line that does not go on in the next row, and does not move the cursor.
fn cut(line: &str, columns: usize) -> String {
    let line = clean(line);
    if line.chars().map(cells).sum::<usize>() <= columns {
        return line;
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let rest = left.checked_sub(cells(*c));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

/// Cells that a character takes at most.
fn cells(c: char) -> usize {
    // It makes a wide one of the character before it, on some terminals.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_picture_fits_and_says_what_it_leaves_out() {
        let size = Size { rows: 4, columns: 6 };
        assert_eq!(frame("HEAD\na\n", 0, size), "\x1b[H\x1b[KHEAD\n\x1b[Ka\n\x1b[J");
        assert_eq!(frame("HEAD\na\nb\n", 0, size), "\x1b[H\x1b[KHEAD\n\x1b[Ka\n\x1b[Kb\n\x1b[J");
        let wide = Size { rows: 4, columns: 40 };
        let cut = "\x1b[H\x1b[KHEAD\n\x1b[Ka\n\x1b[K... and 2 more\n\x1b[J";
        assert_eq!(frame("HEAD\na\nb\nc\n", 0, wide), cut);
        assert_eq!(frame("HEAD\na\n", 2, wide), cut, "what was left out before counts too");
        assert_eq!(frame("a line of many\n", 0, size), "\x1b[H\x1b[Ka lin…\n\x1b[J");
    }

    #[test]
    fn a_line_is_cut_by_cells_and_moves_no_cursor() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…", "half of a wide character is none");
        assert_eq!(
            cut("e\u{301}e\u{301}e", 3),
            "e\u{301}e\u{301}e",
            "what is put over a character takes no cell"
        );
        assert_eq!(cut("\u{2764}\u{fe0f}a", 2), "\u{2764}…", "it may be a wide one");
        assert_eq!(cut("a\x1b[2J\tb", 20), "a [2J b");
        assert_eq!((cut("ab", 1).as_str(), cut("", 0).as_str()), ("…", ""));
    }

    proptest! {
        #[test]
        fn no_picture_scrolls(lines in 0_usize..60, more in 0_usize..5, rows in 1_usize..40, columns in 16_usize..30) {
            let text = "some words of a line\n".repeat(lines);
            let drawn = frame(&text, more, Size { rows, columns });
            let drawn = drawn.replace(HOME, "").replace(CLEAR_LINE, "").replace(CLEAR_BELOW, "");
            let room = rows.saturating_sub(1).max(1);
            prop_assert!(drawn.lines().count() <= room);
            prop_assert!(drawn.lines().all(|line| line.chars().count() <= columns));
            prop_assert_eq!(drawn.contains("... and "), lines > room || more > 0);
        }
    }
}
