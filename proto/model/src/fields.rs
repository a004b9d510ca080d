//! Wrong fields of a message or a stored row, gathered while it becomes a value of the domain, and the checks that all kinds share.

use std::fmt;

/// Bytes of one line of text.
const MAX_LINE: usize = 512;
/// Labels of one job, and bytes of a label's key and of its value.
const MAX_LABELS: usize = 64;
const MAX_LABEL: usize = 256;

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
#[derive(Debug, Default)]
pub struct Fields(pub Vec<FieldError>);

impl Fields {
    /// Nothing is noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field, or one below it, is noted.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        let below = |noted: &str| {
            noted.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().any(|error| below(&error.field))
    }

    /// Notes a wrong field.
    pub fn fail(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// Notes the error of a plain check.
    pub fn take<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(field, error.to_string())).ok()
    }

    /// Notes the errors of a nested message, their paths put below `field`.
    pub fn nest<T>(&mut self, field: &str, result: Result<T, FieldErrors>) -> Option<T> {
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
    pub fn list<W, T: TryFrom<W, Error = FieldErrors>>(&mut self, field: &str, rows: Vec<W>) -> Vec<T> {
        let convert = |(index, item)| match T::try_from(item) {
            Ok(value) => Some(value),
            // Lists are long and mostly right: paths are made for what is wrong only.
            Err(errors) => self.nest(&format!("{field}[{index}]"), Err(errors)),
        };
        rows.into_iter().enumerate().filter_map(convert).collect()
    }

    /// A message that must be there.
    pub fn present<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.fail(field, "is required");
        }
        value
    }

    /// The value if nothing was wrong. `None` without an error cannot happen: whoever gives `None` has noted why.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, FieldErrors> {
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
#[must_use]
pub fn known<E: TryFrom<i32> + PartialEq + Default>(number: i32) -> Option<E> {
    E::try_from(number).ok().filter(|value| *value != E::default())
}

/// A number from one bound to another.
pub fn range(fields: &mut Fields, field: &str, value: u32, min: u32, max: u32) {
    if value < min || value > max {
        fields.fail(field, format!("{value} is out of range; it must be from {min} to {max}"));
    }
}

/// A list that is too long is not converted at all: the check of the spec would never see it.
pub fn bounded<T>(fields: &mut Fields, field: &str, list: &[T], most: usize) -> bool {
    if list.len() > most {
        fields.fail(field, format!("has {} entries; at most {most} are allowed", list.len()));
    }
    list.len() <= most
}

/// Text of an agent: one printable line of a bounded length.
pub fn line(fields: &mut Fields, field: &str, text: &str) {
    if text.len() > MAX_LINE || text.chars().any(char::is_control) {
        fields.fail(field, format!("must be one printable line of at most {MAX_LINE} bytes"));
    }
}

/// Labels of a job.
///
/// # Errors
/// There are too many, or one is no printable text, or too long.
pub fn labels<'a>(all: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Result<(), FieldErrors> {
    if all.len() > MAX_LABELS {
        return Err(FieldErrors::one("", format!("has {} entries; at most {MAX_LABELS}", all.len())));
    }
    for (key, value) in all {
        let wrong = key.is_empty() || key.len() > MAX_LABEL || value.len() > MAX_LABEL;
        if wrong || key.chars().chain(value.chars()).any(char::is_control) {
            let text =
                format!("{key:?}: a key and its value are printable text of at most {MAX_LABEL} bytes");
            return Err(FieldErrors::one("", text));
        }
    }
    Ok(())
}
