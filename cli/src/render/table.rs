//! Columns of text, as wide as their widest cell.

/// A table that grows row by row.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// Between two columns.
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
        let dash = |cell: String| if cell.is_empty() { "-".to_owned() } else { clean(&cell) };
        self.rows.push(cells.into_iter().map(dash).collect());
    }

    /// The text; lines have no trailing blanks.
    #[must_use]
    pub fn render(&self, indent: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = format!("{indent}{}", padded.collect::<Vec<_>>().join(GAP));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Text from elsewhere must not move the cursor or break the line.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["NAME", "N", "WHY"]);
        table.row(["a".into(), "10".into(), String::new()]);
        table.row(["längerer".into(), "1".into(), "x\ny\u{1b}[2J".into()]);
        assert_eq!(table.render(""), "NAME      N   WHY\na         10  -\nlängerer  1   x y [2J\n");
    }
}
