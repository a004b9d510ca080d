//! What Slurm's commands print: columns apart by `|` below a header, and records of `NAME=VALUE`.

use super::ledger::{Position, Token};

/// Rows at most.
const MAX_ROWS: usize = 2_000_000;

/// A row: its cells, called as the header calls them.
pub type Row = Vec<Token>;

fn utf8<'a>(file: &str, text: &'a [u8]) -> Result<&'a str, Vec<String>> {
    std::str::from_utf8(text).map_err(|_| vec![format!("{file}:1:1: is not UTF-8 text")])
}

/// The rows below a header. Where a row has more cells than the header the last one is the whole rest: names may have the mark in them.
///
/// # Errors
/// There is no header, one of `wanted` is not in it, or a row has fewer cells; each with its place.
pub fn table(file: &str, text: &[u8], wanted: &[&str]) -> Result<Vec<Row>, Vec<String>> {
    let mut lines = (1..).zip(utf8(file, text)?.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else {
        return Err(vec![format!(
            "{file}:1:1: is empty; its first line names the columns: {}",
            wanted.join("|")
        )]);
    };
    let header: Vec<&str> = header.trim_end_matches('|').split('|').map(str::trim).collect();
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|name| !header.iter().any(|one| one.eq_ignore_ascii_case(name)))
        .collect();
    if !missing.is_empty() {
        return Err(vec![format!(
            "{file}:{number}:1: the header has no column {}; it is {}",
            missing.join(", "),
            header.join("|")
        )]);
    }
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        if rows.len() >= MAX_ROWS {
            errors.push(format!("{file}:{number}:1: there are more than {MAX_ROWS} rows"));
            break;
        }
        let cells: Vec<&str> = line.splitn(header.len(), '|').collect();
        if cells.len() < header.len() {
            errors.push(format!(
                "{file}:{number}:1: has {} columns, and the header {}",
                cells.len(),
                header.len()
            ));
            continue;
        }
        let mut column = 1;
        let mut row = Vec::new();
        for (name, cell) in header.iter().zip(cells) {
            let place = Position { file: file.to_owned(), line: number, column };
            column += cell.chars().count() + 1;
            row.push(Token {
                name: (*name).to_owned(),
                value: cell.trim().trim_end_matches('|').to_owned(),
                place,
            });
        }
        rows.push(row);
    }
    if errors.is_empty() { Ok(rows) } else { Err(errors) }
}

/// One record in each line: `NAME=VALUE NAME=VALUE`. A word without `=` goes on with the value before it.
///
/// # Errors
/// A line begins otherwise than `first=`; each with its place.
pub fn records(file: &str, text: &[u8], first: &str) -> Result<Vec<Row>, Vec<String>> {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(utf8(file, text)?.lines()) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with("No ") {
            continue;
        }
        if rows.len() >= MAX_ROWS {
            errors.push(format!("{file}:{number}:1: there are more than {MAX_ROWS} records"));
            break;
        }
        if !trimmed.starts_with(&format!("{first}=")) {
            errors.push(format!("{file}:{number}:1: begins with no {first}=; write what `scontrol -o` prints: one record in each line"));
            continue;
        }
        rows.push(row(file, number, line));
    }
    if errors.is_empty() { Ok(rows) } else { Err(errors) }
}

fn row(file: &str, line: usize, text: &str) -> Row {
    let mut row: Row = Vec::new();
    let mut column = 1;
    for word in text.split(' ') {
        let place = Position { file: file.to_owned(), line, column };
        column += word.chars().count() + 1;
        let named = word.split_once('=').filter(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric())
        });
        match (named, row.last_mut()) {
            (Some((name, value)), _) => {
                row.push(Token { name: name.to_owned(), value: value.to_owned(), place })
            }
            (None, Some(last)) if !word.is_empty() => {
                last.value.push(' ');
                last.value.push_str(word);
            }
            _ => {}
        }
    }
    row
}

/// The cell of this name.
#[must_use]
pub fn cell<'a>(row: &'a Row, name: &str) -> Option<&'a Token> {
    row.iter().find(|token| token.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tables_are_read_by_their_header() {
        let rows = table("q", b"Name|Priority|Flags\nnormal|0|\nhigh|10|a|b\n", &["name"]).unwrap();
        assert_eq!((rows.len(), cell(&rows[1], "priority").unwrap().value.as_str()), (2, "10"));
        assert_eq!(cell(&rows[1], "Flags").unwrap().value, "a|b");
        assert_eq!(cell(&rows[1], "Flags").unwrap().place.to_string(), "q:3:9");
        assert_eq!(
            table("q", b"Name|X\na\n", &["Name"]).unwrap_err(),
            ["q:2:1: has 1 columns, and the header 2"]
        );
        assert_eq!(
            table("q", b"Nme|X\n", &["Name"]).unwrap_err(),
            ["q:1:1: the header has no column Name; it is Nme|X"]
        );
        assert_eq!(
            table("q", b"", &["A", "B"]).unwrap_err(),
            ["q:1:1: is empty; its first line names the columns: A|B"]
        );
    }

    #[test]
    fn records_are_read_line_by_line() {
        let text =
            b"ReservationName=a TRES=cpu=4 Comment=new disk Users=(null)\nNo reservations in the system\n";
        let rows = records("r", text, "ReservationName").unwrap();
        assert_eq!((rows.len(), rows[0].len()), (1, 4));
        assert_eq!(
            (
                cell(&rows[0], "TRES").unwrap().value.as_str(),
                cell(&rows[0], "Comment").unwrap().value.as_str()
            ),
            ("cpu=4", "new disk")
        );
        assert!(
            records("r", b"Nodes=x", "ReservationName").unwrap_err()[0]
                .starts_with("r:1:1: begins with no ReservationName=")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z|= \n]{0,120}|\\PC{0,60}") {
            let _ = (table("t", text.as_bytes(), &["A"]), records("t", text.as_bytes(), "A"));
        }
    }
}
