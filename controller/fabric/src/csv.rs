//! Tables as text: comma-separated values (RFC 4180), each field with its place.

use std::collections::BTreeMap;

use thiserror::Error;

/// Why a text is not a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// The text is empty.
    #[error("the text is empty; the first line names the columns")]
    Empty,
    /// The text is not UTF-8.
    #[error("line {line}: byte {column} of the line is not UTF-8 text")]
    Encoding {
        /// Line of the text, from 1.
        line: usize,
        /// Byte of the line, from 1.
        column: usize,
    },
    /// A quote that opens and never closes.
    #[error("line {line}, column {column}: the quoted field is not closed")]
    Quote {
        /// Line where the quote opens, from 1.
        line: usize,
        /// Column where the quote opens, in characters from 1.
        column: usize,
    },
    /// Text after a closing quote.
    #[error("line {line}, column {column}: a comma must follow the closing quote")]
    AfterQuote {
        /// Line of the text, from 1.
        line: usize,
        /// Column after the closing quote, in characters from 1.
        column: usize,
    },
    /// Two columns of one meaning.
    #[error("line 1, column {column}: '{name}' and '{first}' both mean the {means}; leave one out")]
    TwoColumns {
        /// Where the second begins.
        column: usize,
        /// Header of the second column.
        name: String,
        /// Header of the first column.
        first: String,
        /// What both columns mean, in words.
        means: &'static str,
    },
    /// A column that is needed is missing.
    #[error("line 1: no column says the {means}; it may be called {known}{near}")]
    NoColumn {
        /// What no column says, in words.
        means: &'static str,
        /// The headers that such a column may have, as text for the message.
        known: String,
        /// The nearest that is there, as a question.
        near: String,
    },
    /// Larger than any cabling list.
    #[error("{what} has {size}; at most {limit} are read")]
    TooLarge {
        /// What is too large: the text, or a line.
        what: String,
        /// How large it is, with the unit.
        size: String,
        /// The largest size that is read, in the same unit.
        limit: usize,
    },
}

/// Bytes of a table at most.
pub const MAX_BYTES: usize = 256 << 20;
/// Fields of a row at most.
pub const MAX_FIELDS: usize = 256;

/// A field with its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Field {
    /// The text, without quotes and without blanks around it.
    pub text: String,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A row that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// From 1; that of its first character where a quoted field spans lines.
    pub line: usize,
    /// The fields of the row, in the order of the columns.
    pub fields: Vec<Field>,
}

/// A table: the first row names the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub header: Row,
    /// The rows after the header.
    pub rows: Vec<Row>,
    /// Blank lines, which mean nothing.
    pub blank: usize,
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// [`TableError`] with the line and the column.
    pub fn read(text: &[u8]) -> Result<Self, TableError> {
        if text.len() > MAX_BYTES {
            let size = format!("{} bytes", text.len());
            return Err(TableError::TooLarge { what: "the text".into(), size, limit: MAX_BYTES });
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            let before = &text[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            TableError::Encoding { line, column: before.len() - start + 1 }
        })?;
        let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1, column: 1 };
        let (mut rows, mut blank) = (Vec::new(), 0);
        while !reader.rest.is_empty() {
            let row = reader.row()?;
            if row.fields.iter().all(|field| field.text.is_empty()) {
                blank += 1;
            } else {
                rows.push(row);
            }
        }
        let mut rows = rows.into_iter();
        let header = rows.next().ok_or(TableError::Empty)?;
        Ok(Self { header, rows: rows.collect(), blank })
    }

    /// The places of columns by meaning, and the names of columns that mean nothing here.
    ///
    /// Each meaning has names, compared without regard to case, blanks, `_` and `-`.
    ///
    /// # Errors
    /// Two columns of one meaning, or none where one is `needed`.
    pub fn columns(
        &self,
        meanings: &[Meaning],
    ) -> Result<(BTreeMap<&'static str, usize>, Vec<&Field>), TableError> {
        let plain = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
        };
        let mut places: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut others = Vec::new();
        for (at, field) in self.header.fields.iter().enumerate() {
            let name = plain(&field.text);
            let Some(meaning) = meanings.iter().find(|meaning| meaning.names.contains(&name.as_str())) else {
                others.push(field);
                continue;
            };
            if let Some(first) = places.insert(meaning.means, at) {
                return Err(TableError::TwoColumns {
                    column: field.column,
                    name: field.text.clone(),
                    first: self.header.fields[first].text.clone(),
                    means: meaning.means,
                });
            }
        }
        let lacks = |meaning: &&Meaning| meaning.needed && !places.contains_key(meaning.means);
        if let Some(meaning) = meanings.iter().find(lacks) {
            let near = others.iter().flat_map(|field| meaning.names.iter().map(move |name| (field, name)));
            let near = near
                .map(|(field, name)| (strsim::damerau_levenshtein(&plain(&field.text), name), field))
                .filter(|(distance, _)| *distance <= 3)
                .min_by_key(|(distance, _)| *distance);
            return Err(TableError::NoColumn {
                means: meaning.means,
                known: meaning.names.join(", "),
                near: near.map_or_else(String::new, |(_, field)| format!("; is it '{}'?", field.text)),
            });
        }
        Ok((places, others))
    }
}

/// What a column can mean.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    /// What the column means, in words for messages.
    pub means: &'static str,
    /// Lower-case letters and digits only.
    pub names: &'static [&'static str],
    /// A table without it is refused.
    pub needed: bool,
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(c)
    }

    fn row(&mut self) -> Result<Row, TableError> {
        let mut row = Row { line: self.line, fields: Vec::new() };
        loop {
            let (field, more) = self.field()?;
            row.fields.push(field);
            if !more {
                return Ok(row);
            }
            if row.fields.len() == MAX_FIELDS {
                let what = format!("line {}", row.line);
                let size = format!("more than {MAX_FIELDS} fields");
                return Err(TableError::TooLarge { what, size, limit: MAX_FIELDS });
            }
        }
    }

    /// A field, and whether another follows in the row.
    fn field(&mut self) -> Result<(Field, bool), TableError> {
        while self.rest.starts_with([' ', '\t']) {
            self.next();
        }
        let mut field = Field { text: String::new(), column: self.column };
        if self.rest.starts_with('"') {
            let (line, column) = (self.line, self.column);
            self.next();
            loop {
                match self.next() {
                    None => return Err(TableError::Quote { line, column }),
                    Some('"') if self.rest.starts_with('"') => {
                        self.next();
                        field.text.push('"');
                    }
                    Some('"') => break,
                    Some(c) => field.text.push(c),
                }
            }
            while self.rest.starts_with([' ', '\t']) {
                self.next();
            }
            let (line, column) = (self.line, self.column);
            let end = self.end_of_field();
            return end.map(|more| (field, more)).ok_or(TableError::AfterQuote { line, column });
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        field.text = self.rest[..end].trim().to_owned();
        while !self.rest.is_empty() && !self.rest.starts_with([',', '\n']) {
            self.next();
        }
        Ok((field, self.end_of_field().unwrap_or(false)))
    }

    /// Whether a comma was there; `None` if there is something else than the end of a field.
    fn end_of_field(&mut self) -> Option<bool> {
        if self.rest.starts_with("\r\n") {
            self.next();
        }
        match self.next() {
            None | Some('\n') => Some(false),
            Some(',') => Some(true),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Table, TableError> {
        Table::read(text.as_bytes())
    }

    #[test]
    fn fields_have_places() {
        let table = read("\u{feff}a, b ,c\r\n1,\"x, \"\"y\"\"\nz\",3\n\n , \né,,5").unwrap();
        let texts: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.fields.iter().map(|field| &*field.text).collect()).collect();
        assert_eq!(texts, [vec!["1", "x, \"y\"\nz", "3"], vec!["é", "", "5"]]);
        assert_eq!(table.header.fields[1], Field { text: "b".into(), column: 4 });
        assert_eq!((table.rows[0].line, table.rows[1].line, table.blank), (2, 6, 2));
        assert_eq!(table.rows[1].fields[2].column, 4);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_place() {
        assert_eq!(read(""), Err(TableError::Empty));
        assert_eq!(read("\n \n"), Err(TableError::Empty));
        assert_eq!(read("a\nb,\"x\ny"), Err(TableError::Quote { line: 2, column: 3 }));
        assert_eq!(read("a\n\"x\"y"), Err(TableError::AfterQuote { line: 2, column: 4 }));
        assert_eq!(Table::read(b"a\nbc\xff"), Err(TableError::Encoding { line: 2, column: 3 }));
        assert!(matches!(read(&",".repeat(MAX_FIELDS)), Err(TableError::TooLarge { .. })));
    }

    #[test]
    fn columns_have_several_names() {
        let meanings = [
            Meaning { means: "server", names: &["node", "sysname"], needed: true },
            Meaning { means: "NIC", names: &["nic", "nicname"], needed: true },
        ];
        let table = read("Sys_Name,x,NIC-name").unwrap();
        let (places, others) = table.columns(&meanings).unwrap();
        assert_eq!((places["server"], places["NIC"], others[0].text.as_str()), (0, 2, "x"));
        let message = |text: &str| read(text).unwrap().columns(&meanings).unwrap_err().to_string();
        assert_eq!(
            message("node,sysname"),
            "line 1, column 6: 'sysname' and 'node' both mean the server; leave one out"
        );
        assert_eq!(
            message("node,nicnam"),
            "line 1: no column says the NIC; it may be called nic, nicname; is it 'nicnam'?"
        );
    }
}
