//! The queue as `squeue` prints it: a record in each line, with a mark between columns. A job's name is whatever its user has called it: line breaks
//! and marks may be in it. So the name is the last column, what is no record is left out, and Slurm is asked with a mark that nobody can know.

use super::{
    columns::Row,
    ledger::{Position, Token},
};

/// Rows at most.
const MAX_ROWS: usize = 2_000_000;
/// Columns that must be there.
const COLUMNS: [&str; 7] = ["JOBID", "STATE", "ACCOUNT", "USER", "PARTITION", "QOS", "NAME"];
/// What prints them, from Slurm 22.05 to 24.11. Licenses may have a `|` in them, so they stand before the name alone.
const FIELDS: [&str; 15] =
    ["%i", "%T", "%a", "%u", "%P", "%q", "%Q", "%D", "%b", "%l", "%V", "%E", "%v", "%W", "%j"];
/// The mark of files that have no other.
const MARK: &str = "|";

/// All records, and the lines that are none.
#[derive(Debug, Default)]
pub struct Queue {
    /// The records.
    pub rows: Vec<Row>,
    /// Lines that are no record, each with the reason.
    pub misfits: Vec<(Token, String)>,
}

/// The format with which Slurm is asked: its mark is another one each time.
#[must_use]
pub fn format() -> String {
    FIELDS.join(&format!("|{}|", uuid::Uuid::new_v4().simple()))
}

/// The records below a header.
///
/// # Errors
/// There is no header, or a column is not in it.
pub fn read(file: &str, text: &[u8]) -> Result<Queue, Vec<String>> {
    let text = String::from_utf8_lossy(text);
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else {
        let wanted = COLUMNS.join(MARK);
        return Err(vec![format!("{file}:1:1: is empty; its first line names the columns: {wanted}")]);
    };
    let mark = mark(header);
    let names: Vec<&str> = header.trim().trim_end_matches(mark).split(mark).map(str::trim).collect();
    let is_there = |name: &str| names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let missing: Vec<&str> = COLUMNS.into_iter().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        let (missing, names) = (missing.join(", "), names.join(MARK));
        return Err(vec![format!("{file}:{number}:1: the header has no column {missing}; it is {names}")]);
    }
    let mut queue = Queue::default();
    for (line, text) in lines {
        if queue.rows.len() + queue.misfits.len() >= MAX_ROWS {
            return Err(vec![format!("{file}:{line}:1: there are more than {MAX_ROWS} rows")]);
        }
        let place = Position { file: file.to_owned(), line, column: 1 };
        match row(&place, text, mark, &names) {
            Ok(row) => queue.rows.push(row),
            Err(why) => {
                let value = text.chars().filter(|c| !c.is_control()).take(60).collect();
                queue.misfits.push((Token { name: "JOBID".to_owned(), value, place }, why));
            }
        }
    }
    Ok(queue)
}

/// What stands between the first two columns.
fn mark(header: &str) -> &str {
    let rest = header.trim_start().strip_prefix("JOBID");
    let mark = rest.and_then(|rest| rest.split_once("STATE")).map(|(mark, _)| mark);
    let is_mark = |mark: &&str| !mark.trim().is_empty() && !mark.contains(|c: char| c.is_ascii_uppercase());
    mark.filter(is_mark).unwrap_or(MARK)
}

fn row(place: &Position, text: &str, mark: &str, names: &[&str]) -> Result<Row, String> {
    let cells: Vec<&str> = text.splitn(names.len(), mark).collect();
    if cells.len() < names.len() {
        return Err(format!(
            "it is no record: it has {} columns, and the header {}; a name with a line break in it, perhaps",
            cells.len(),
            names.len()
        ));
    }
    let (mut row, mut column) = (Row::new(), 1);
    for (name, cell) in names.iter().zip(cells) {
        let place = Position { column, ..place.clone() };
        column += cell.chars().count() + mark.chars().count();
        let value = cell.trim().trim_end_matches(mark);
        let fits = match name.to_ascii_uppercase().as_str() {
            "JOBID" => is_id(value),
            "STATE" => {
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            }
            _ => true,
        };
        if !fits {
            return Err(format!(
                "it is no record: it has no {name}; a name with a line break in it, perhaps"
            ));
        }
        let value = value.chars().filter(|c| !c.is_control()).collect();
        row.push(Token { name: (*name).to_owned(), value, place });
    }
    Ok(row)
}

/// Whether a job may be called so: `7`, `7_3`, `7_[0-9%2]`, `7+1`.
fn is_id(id: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, rest) = id.split_once(['_', '+']).unwrap_or((id, "0"));
    let list = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_list = |list: &str| list.bytes().all(|byte| byte.is_ascii_digit() || b",-:%.".contains(&byte));
    digits(number) && (digits(rest) || list.is_some_and(is_list))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::columns::cell, *};

    const HEADER: &str = "JOBID|STATE|ACCOUNT|USER|PARTITION|QOS|NAME\n";

    fn names(text: &str) -> (Vec<(String, String)>, usize) {
        let queue = read("q", text.as_bytes()).unwrap();
        let of = |row: &Row, name: &str| cell(row, name).unwrap().value.clone();
        (queue.rows.iter().map(|row| (of(row, "JOBID"), of(row, "NAME"))).collect(), queue.misfits.len())
    }

    #[test]
    fn a_line_that_is_no_record_is_left_out_and_the_others_are_read() {
        let text = format!(
            "{HEADER}7|PENDING|a|u|p|q|two\nlines|of a name\n8_[0-9%2]|PENDING|a|u|p|q|a|b\nx|PENDING|a|u|p|q|n\n9|pending, yes|a|u|p|q|n\n"
        );
        let (rows, misfits) = names(&text);
        let expected =
            [("7", "two"), ("8_[0-9%2]", "a|b")].map(|(id, name)| (id.to_owned(), name.to_owned()));
        assert_eq!((rows, misfits), (expected.to_vec(), 3));
        let queue = read("q", text.as_bytes()).unwrap();
        let (token, why) = &queue.misfits[0];
        assert_eq!((token.place.to_string().as_str(), token.value.as_str()), ("q:3:1", "lines|of a name"));
        assert!(why.contains("it has 2 columns, and the header 7"), "{why}");
        assert_eq!(cell(&queue.rows[0], "STATE").unwrap().place.to_string(), "q:2:3");
        let invalid = [HEADER.as_bytes(), b"7|PENDING|a|u|p|q|\xff\n"].concat();
        assert_eq!(read("q", &invalid).unwrap().rows.len(), 1, "a name need not be UTF-8");
        assert_eq!(
            read("q", b"JOBID|STATE\n").unwrap_err(),
            ["q:1:1: the header has no column ACCOUNT, USER, PARTITION, QOS, NAME; it is JOBID|STATE"]
        );
        assert!(read("q", b"\n").unwrap_err()[0].starts_with("q:1:1: is empty"));
    }

    #[test]
    fn nobody_forges_a_record_where_the_mark_is_not_known() {
        let format = format();
        let mark = format.strip_prefix("%i").unwrap().split_once("%T").unwrap().0.to_owned();
        assert!(mark.len() > 30 && format != super::format(), "{format}");
        let line = |cells: [&str; 7]| format!("{}\n", cells.join(&mark));
        let forged = "x\n8|PENDING|a|root|p|q|forged";
        let text = [
            line(["JOBID", "STATE", "ACCOUNT", "USER", "PARTITION", "QOS", "NAME"]),
            line(["7", "PENDING", "a", "u", "p|r", "q", forged]),
            line(["9", "PENDING", "a", "u", "p", "q", "last"]),
        ]
        .concat();
        let (rows, misfits) = names(&text);
        let expected = [("7", "x"), ("9", "last")].map(|(id, name)| (id.to_owned(), name.to_owned()));
        assert_eq!((rows, misfits), (expected.to_vec(), 1));
    }

    proptest! {
        #[test]
        fn any_line_is_a_record_or_left_out(lines in prop::collection::vec("[0-9A-Z_|\\[\\]]{0,30}|\\PC{1,40}", 0..6)) {
            let text = format!("{HEADER}{}", lines.join("\n"));
            let queue = read("q", text.as_bytes()).unwrap();
            let all = text.lines().skip(1).filter(|line| !line.trim().is_empty()).count();
            prop_assert_eq!(queue.rows.len() + queue.misfits.len(), all);
        }
    }
}
