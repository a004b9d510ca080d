//! Of which version the rows of a store are: one number for all of them, and how far a migration has come.

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;

use crate::v1;

/// The version of the rows that this program reads and writes. Whatever a release adds to rows, be it a field or a kind of them, needs a version
/// that no release before it had: by this number alone does an older program say why it does not go on, and which one does.
pub const CURRENT: u32 = 3;

/// The version of a store that says none: of before there were several.
const FIRST: u32 = 1;

/// Whether rows of this version differ from those of the next: else the number is all that changes.
#[must_use]
pub fn rewrites(version: u32) -> bool {
    version == FIRST
}

/// Of which version rows are. Where they are being migrated, those up to a key are of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    version: u32,
    step: Option<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    done: Bytes,
    rows: u64,
}

/// Why a store cannot be opened by this program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A later release has written it.
    #[error(
        "the rows of the store are of version {found}, which {program} has written; this program reads versions up to {supported}: run that release or a later one"
    )]
    Newer {
        /// The version of the rows, or that which they are being brought to.
        found: u32,
        /// The program that wrote so.
        program: String,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// What is stored of the version says nothing.
    #[error("what the store says of the version of its rows cannot be read: {0}")]
    Unreadable(String),
}

impl Format {
    /// What this program writes.
    pub const CURRENT: Self = Self { version: CURRENT, step: None };

    /// What a store says; `None` where it says nothing.
    ///
    /// # Errors
    /// [`FormatError`]: nothing of that store is to be read or written then.
    pub fn of(stored: Option<&Bytes>) -> Result<Self, FormatError> {
        let Some(stored) = stored else { return Ok(Self { version: FIRST, step: None }) };
        let row = v1::Format::decode(stored.clone());
        let row = row.map_err(|error| FormatError::Unreadable(error.to_string()))?;
        let found = row.version.max(row.next);
        if found > CURRENT {
            let program = if row.program.is_empty() { "a later release".to_owned() } else { row.program };
            return Err(FormatError::Newer { found, program, supported: CURRENT });
        }
        if row.version < FIRST || (row.next != 0 && row.next != row.version + 1) {
            let (version, next) = (row.version, row.next);
            return Err(FormatError::Unreadable(format!("version {version}, next {next}")));
        }
        let step = (row.next > 0).then_some(Step { done: row.done.into(), rows: row.rows });
        Ok(Self { version: row.version, step })
    }

    /// What the store is to say; `program` is who writes it, for people.
    #[must_use]
    pub fn encode(&self, program: &str) -> Vec<u8> {
        let step = self.step.as_ref();
        let row = v1::Format {
            version: self.version,
            next: step.map_or(0, |_| self.version + 1),
            done: step.map(|step| step.done.to_vec()).unwrap_or_default(),
            rows: step.map_or(0, |step| step.rows),
            program: program.to_owned(),
        };
        row.encode_to_vec()
    }

    /// The version, or that which is being left.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether a migration has begun and not ended.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.step.is_some()
    }

    /// Whether rows are to be written anew on the way to the version of this program.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        self.is_between() || (self.version..CURRENT).any(rewrites)
    }

    /// Whether nothing is to be migrated.
    #[must_use]
    pub fn is_current(&self) -> bool {
        *self == Self::CURRENT
    }

    /// The version of the row at `key`.
    #[must_use]
    pub fn of_row(&self, key: &[u8]) -> u32 {
        let done = self.step.as_ref().is_some_and(|step| !step.done.is_empty() && key <= &step.done[..]);
        self.version + u32::from(done)
    }

    /// The last key that is of the next version; `None` where none is.
    #[must_use]
    pub fn done(&self) -> Option<&Bytes> {
        self.step.as_ref().map(|step| &step.done).filter(|done| !done.is_empty())
    }

    /// How many rows of the step that is under way were looked at.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.step.as_ref().map_or(0, |step| step.rows)
    }

    /// As it is when `rows` further rows were looked at, the last one at `done`.
    #[must_use]
    pub fn with_done(&self, done: Bytes, rows: u64) -> Self {
        Self { version: self.version, step: Some(Step { done, rows: self.rows() + rows }) }
    }

    /// As it is when all rows are of the next version.
    #[must_use]
    pub fn finished(&self) -> Self {
        Self { version: self.version + 1, step: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(version: u32, next: u32) -> Result<Format, FormatError> {
        let row = v1::Format { version, next, program: "rail-controller 9.9.9".into(), ..Default::default() };
        Format::of(Some(&row.encode_to_vec().into()))
    }

    #[test]
    fn what_is_written_is_read_and_a_store_of_before_is_of_the_first_version() {
        let first = Format::of(None).unwrap();
        assert_eq!((first.version(), first.of_row(b"/x"), first.is_between()), (1, 1, false));
        let between = first.with_done("/m".into(), 7).with_done("/n".into(), 3);
        for format in [first.clone(), between.clone(), between.finished(), Format::CURRENT] {
            let again = Format::of(Some(&format.encode("rail-controller 1.2.3").into()));
            assert_eq!(again.as_ref(), Ok(&format));
        }
        assert_eq!((between.rows(), between.done()), (10, Some(&"/n".into())));
        assert_eq!([b"/m", b"/n", b"/o"].map(|key| between.of_row(key)), [2, 2, 1]);
        let second = between.finished();
        assert!(between.is_between() && !second.is_current() && second.finished().is_current());
        assert_eq!(
            [first, between, second, Format::CURRENT].map(|format| format.rewrites()),
            [true, true, false, false]
        );
    }

    #[test]
    fn a_later_version_is_refused_with_the_program_that_reads_it() {
        for (version, next) in [(CURRENT + 1, 0), (CURRENT, CURRENT + 1), (u32::MAX, 0)] {
            let error = stored(version, next).unwrap_err();
            assert!(matches!(error, FormatError::Newer { .. }), "{error}");
            assert!(error.to_string().contains("rail-controller 9.9.9"), "{error}");
        }
        for (version, next) in [(0, 0), (0, 1), (1, 1), (2, 1)] {
            assert!(matches!(stored(version, next), Err(FormatError::Unreadable(_))), "{version} {next}");
        }
        assert!(matches!(Format::of(Some(&"\u{ff}".into())), Err(FormatError::Unreadable(_))));
    }
}
