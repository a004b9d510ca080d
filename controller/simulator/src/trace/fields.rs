//! Fields of comma-separated rows, and numbers with their faults.

use std::collections::BTreeMap;

use super::row::{Fault, Format, MAX_GPUS, MAX_RUN, MAX_TIME, TraceError};

/// The most columns that a table may have.
const MAX_COLUMNS: usize = 256;

/// The columns of a table by name.
pub(crate) struct Header {
    places: BTreeMap<String, usize>,
    columns: usize,
}

impl Header {
    pub(crate) fn new(text: &str, line: u64) -> Result<Self, TraceError> {
        let mut places = BTreeMap::new();
        let mut columns = 0;
        for (at, name) in text.split(',').enumerate().take(MAX_COLUMNS) {
            let name = name.trim().trim_matches('"').to_ascii_lowercase();
            if !name.is_empty() && places.insert(name.clone(), at).is_some() {
                let column = shown(&name);
                return Err(TraceError::TwoColumns { line, column });
            }
            columns = at + 1;
        }
        Ok(Self { places, columns })
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn needs(
        &self,
        line: u64,
        format: Format,
        columns: &[&'static str],
    ) -> Result<(), TraceError> {
        match columns.iter().find(|column| self.place(column).is_none()) {
            Some(column) => Err(TraceError::NoColumn { line, format, column }),
            None => Ok(()),
        }
    }
}

/// The fields of one row.
pub(crate) struct Fields<'a> {
    header: &'a Header,
    fields: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    /// Cuts a row at its commas; quotes may stand around a field, and commas inside.
    pub(crate) fn split(text: &'a str, header: &'a Header) -> Result<Self, Fault> {
        let mut fields = Vec::with_capacity(header.columns);
        let mut rest = text;
        loop {
            let (field, more) = next(rest)?;
            fields.push(field);
            match more {
                Some(more) => rest = more,
                None => break,
            }
            if fields.len() > MAX_COLUMNS {
                break;
            }
        }
        if fields.len() != header.columns {
            let what = format!("it has {} fields, the header {}", fields.len(), header.columns);
            return Err(Fault::new("Fields", "the row", what));
        }
        Ok(Self { header, fields })
    }

    /// A field's text; empty where there is none, or where it says that there is none.
    pub(crate) fn text(&self, name: &str) -> &'a str {
        let text = self.header.place(name).and_then(|at| self.fields.get(at)).copied().unwrap_or_default();
        if ["nan", "null", "none", "n/a", "na"].iter().any(|none| text.eq_ignore_ascii_case(none)) {
            return "";
        }
        text
    }

    /// A number, if there is one.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<f64>, Fault> {
        number(self.text(name), name)
    }

    /// A number that must be there.
    pub(super) fn needed(&self, name: &'static str) -> Result<f64, Fault> {
        self.number(name)?.ok_or_else(|| Fault::new("Missing", name, "nothing is there"))
    }
}

fn next(text: &str) -> Result<(&str, Option<&str>), Fault> {
    let trimmed = text.trim_start_matches([' ', '\t']);
    if let Some(quoted) = trimmed.strip_prefix('"') {
        let Some(end) = quoted.find('"') else {
            return Err(Fault::new("Quote", "the row", "a quote is not closed"));
        };
        let after = quoted[end + 1..].trim_start_matches([' ', '\t']);
        return match after.strip_prefix(',') {
            Some(more) => Ok((&quoted[..end], Some(more))),
            None if after.is_empty() => Ok((&quoted[..end], None)),
            None => Err(Fault::new("Quote", "the row", "text follows a closing quote")),
        };
    }
    match text.split_once(',') {
        Some((field, more)) => Ok((field.trim(), Some(more))),
        None => Ok((text.trim(), None)),
    }
}

/// The beginning of a text that may be anything; what a terminal would obey, or no text at all, is shown as `?`.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '?' } else { c };
    text.chars().take(40).map(plain).collect()
}

/// A number without a hundred digits.
fn reported(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}

/// A number; `None` for nothing.
pub(super) fn number(text: &str, field: &'static str) -> Result<Option<f64>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(Fault::new("NotANumber", field, format!("'{}'", shown(text)))),
    }
}

/// Milliseconds of a length in seconds.
pub(super) fn run(seconds: f64, field: &'static str) -> Result<u64, Fault> {
    if seconds < 0.0 {
        return Err(Fault::new("Negative", field, format!("{} s", reported(seconds))));
    }
    if seconds * 1e3 > MAX_RUN as f64 {
        return Err(Fault::new(
            "Absurd",
            field,
            format!("{} s is longer than ten years; lengths are in seconds", reported(seconds)),
        ));
    }
    Ok((seconds * 1e3).round() as u64)
}

/// Milliseconds of a point in time in seconds.
pub(super) fn time(seconds: f64, field: &'static str) -> Result<u64, Fault> {
    if seconds < 0.0 {
        return Err(Fault::new("Negative", field, format!("{} s", reported(seconds))));
    }
    if seconds * 1e3 > MAX_TIME as f64 {
        return Err(Fault::new(
            "Absurd",
            field,
            format!("{} s is after the year 2200; times are in seconds", reported(seconds)),
        ));
    }
    Ok((seconds * 1e3).round() as u64)
}

/// GPUs, whole ones, and whether the number was a fraction.
pub(crate) fn gpus(number: f64, field: &'static str) -> Result<(u32, bool), Fault> {
    if number < 0.0 {
        return Err(Fault::new("Negative", field, format!("{} GPUs", reported(number))));
    }
    if number == 0.0 {
        return Err(Fault::new("NoGpu", field, "the job asks for no GPU"));
    }
    if number > f64::from(MAX_GPUS) {
        return Err(Fault::new("Absurd", field, format!("{} GPUs", reported(number))));
    }
    Ok((number.ceil() as u32, number.fract() != 0.0))
}
