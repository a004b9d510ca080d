//! Columns of text, as wide as their widest cell.

use super::{Paint, Tone};

/// A table that grows row by row.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// What stands between two columns.
const GAP: &str = "  ";

impl Table {
    /// A table with a header.
    #[must_use]
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// A table without a header.
    #[must_use]
    pub fn bare() -> Self {
        Self::default()
    }

    /// Adds a row; an empty cell is shown as `-`.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// A table of columns, each with its header first.
    #[must_use]
    pub fn of_columns(columns: &[Vec<String>]) -> Self {
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        let row = |at: usize| {
            columns.iter().map(|column| column.get(at).map(|cell| clean(cell)).unwrap_or_default()).collect()
        };
        Self { rows: (0..rows).map(row).collect() }
    }

    /// All rows, the header first.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The first row of the table, its header; empty for an empty table.
    #[must_use]
    pub fn header(&self) -> &[String] {
        self.rows.first().map_or(&[], Vec::as_slice)
    }

    /// The column of this name, in whatever case, its header first.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Vec<String>> {
        let at = self.header().iter().position(|header| header.eq_ignore_ascii_case(name))?;
        Some(self.rows.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect())
    }

    /// All but its first row.
    #[must_use]
    pub fn without_header(mut self) -> Self {
        self.rows.drain(..self.rows.len().min(1));
        self
    }

    /// The rows of another one of the same columns come behind; without its header.
    pub fn append(&mut self, other: Self) {
        self.rows.extend(other.without_header().rows);
    }

    /// As comma-separated values (RFC 4180, but for line ends).
    #[must_use]
    pub fn csv(&self) -> String {
        let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        };
        let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
        self.rows.iter().map(line).collect()
    }

    /// The text; lines have no trailing blanks.
    #[must_use]
    pub fn render(&self, indent: &str) -> String {
        self.painted(indent, Paint::NONE, |_, _, _| None)
    }

    /// The text, its cells in the colours that `tone` says of them by row and column from 0, and text.
    #[must_use]
    pub fn painted(
        &self,
        indent: &str,
        paint: Paint,
        tone: impl Fn(usize, usize, &str) -> Option<Tone>,
    ) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count().max(1)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = indent.to_owned();
            // Blanks behind a cell wait for one that follows.
            let mut blanks = 0;
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let cell = if cell.is_empty() { "-" } else { cell };
                line.extend(std::iter::repeat_n(' ', blanks));
                line.push_str(&match tone(at, column, cell) {
                    Some(tone) => paint.tone(cell, tone),
                    None => cell.to_owned(),
                });
                blanks = width.saturating_sub(cell.chars().count()) + GAP.len();
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Text from elsewhere must not move the cursor or break the line: with spaces for control characters.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Text as HTML and XML show it: what has a meaning there is escaped.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_picked_and_written_as_csv() {
        let mut table = Table::new(["NAME", "N", "WHY"]);
        table.row(["a".into(), "10".into(), String::new()]);
        table.row(["b".into(), "1".into(), "full, \"really\"".into()]);
        let picked: Vec<_> = ["why", "Name"].iter().filter_map(|name| table.column(name)).collect();
        let picked = Table::of_columns(&picked);
        assert_eq!(picked.csv(), "WHY,NAME\n,a\n\"full, \"\"really\"\"\",b\n");
        assert_eq!(table.column("X"), None);
        assert_eq!(table.without_header().render(""), "a  10  -\nb  1   full, \"really\"\n");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["NAME", "N", "WHY"]);
        table.row(["a".into(), "10".into(), String::new()]);
        table.row(["längerer".into(), "1".into(), "x\ny\u{1b}[2J".into()]);
        assert_eq!(table.render(""), "NAME      N   WHY\na         10  -\nlängerer  1   x y [2J\n");
    }
}
