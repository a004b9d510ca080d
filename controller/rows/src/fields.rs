//! Wrong fields of a row, gathered while it is read, and the checks that rows of every kind share.

use std::fmt;

/// Bytes of one line of text.
const MAX_LINE: usize = 512;

/// One field that cannot be taken into the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path in lowerCamelCase, for example `spec.gang.nodes`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Every field of one message that cannot be taken into the domain; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// One wrong field; `message` says what is wrong with it.
    pub fn one(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self(vec![FieldError { field: field.into(), message: message.into() }])
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

/// Gathers wrong fields while a message is converted.
#[derive(Default)]
pub(crate) struct Fields(pub(crate) Vec<FieldError>);

impl Fields {
    /// Whether a field, or one below it, is noted.
    pub(crate) fn has(&self, field: &str) -> bool {
        let below = |noted: &str| {
            noted.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().any(|error| below(&error.field))
    }

    pub(crate) fn fail(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// Notes the error of a plain check.
    pub(crate) fn take<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(field, error.to_string())).ok()
    }

    /// Notes the errors of a nested message, their paths put below `field`.
    pub(crate) fn nest<T>(&mut self, field: &str, result: Result<T, FieldErrors>) -> Option<T> {
        let errors = match result {
            Ok(value) => return Some(value),
            Err(errors) => errors,
        };
        for mut error in errors.0 {
            error.field =
                if error.field.is_empty() { field.to_owned() } else { format!("{field}.{}", error.field) };
            self.0.push(error);
        }
        None
    }

    /// Converts every element of a list, its index in the path.
    pub(crate) fn list<W, T: TryFrom<W, Error = FieldErrors>>(
        &mut self,
        field: &str,
        rows: Vec<W>,
    ) -> Vec<T> {
        let convert = |(index, item)| match T::try_from(item) {
            Ok(value) => Some(value),
            // Lists are long and mostly right: paths are made for what is wrong only.
            Err(errors) => self.nest(&format!("{field}[{index}]"), Err(errors)),
        };
        rows.into_iter().enumerate().filter_map(convert).collect()
    }

    /// A message that must be there.
    pub(crate) fn present<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.fail(field, "is required");
        }
        value
    }

    /// The value if nothing was wrong. `None` without an error cannot happen: whoever gives `None` has noted why.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, FieldErrors> {
        if let (true, Some(value)) = (self.0.is_empty(), value) {
            return Ok(value);
        }
        if self.0.is_empty() {
            self.fail("", "is incomplete");
        }
        Err(FieldErrors(self.0))
    }
}

/// Maps an enum's number to its Rust value, if it is a known one and not UNSPECIFIED.
pub(crate) fn known<E: TryFrom<i32> + PartialEq + Default>(number: i32) -> Option<E> {
    E::try_from(number).ok().filter(|value| *value != E::default())
}

/// A number from one bound to another.
pub(crate) fn range(fields: &mut Fields, field: &str, value: u32, min: u32, max: u32) {
    if value < min || value > max {
        fields.fail(field, format!("{value} is out of range; it must be from {min} to {max}"));
    }
}

/// A list that is too long is not converted at all: the check of the spec would never see it.
pub(crate) fn bounded<T>(fields: &mut Fields, field: &str, list: &[T], most: usize) -> bool {
    if list.len() > most {
        fields.fail(field, format!("has {} entries; at most {most} are allowed", list.len()));
    }
    list.len() <= most
}

/// Text of an agent: one printable line of a bounded length.
pub(crate) fn line(fields: &mut Fields, field: &str, text: &str) {
    if text.len() > MAX_LINE || text.chars().any(char::is_control) {
        fields.fail(field, format!("must be one printable line of at most {MAX_LINE} bytes"));
    }
}
