//! Arrays: one submit, many jobs that differ in their index.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{JobName, NameError};

/// Which elements an array has. Written as Slurm does: `0-99:2,200%8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Ascending, distinct, at most [`ArraySpec::MAX`]; never empty.
    pub indices: Vec<u32>,
    /// Elements that run at a time at most; 0: no limit.
    pub at_once: u32,
}

/// Of which array a job is an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayPlace {
    /// Name of the array, in the same tenant.
    pub array: JobName,
    /// Index of the element.
    pub index: u32,
    /// Elements of the array.
    pub size: u32,
}

/// Why a text is not a list of elements.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// The text names no element at all.
    #[error("an array needs an element at least; write for example 0-99, 0-99:2 or 1,4,9%2")]
    Empty,
    /// Not a number, a range, or a range with a step.
    #[error("'{text}' is not an index, a range such as 0-99, or one with a step such as 0-99:2")]
    Range {
        /// The part of the list that is wrong, cut after 32 characters.
        text: String,
    },
    /// An index beyond the largest.
    #[error("{index} is beyond the largest index, {}", ArraySpec::LAST)]
    Index {
        /// The index that was given, larger than [`ArraySpec::LAST`].
        index: u64,
    },
    /// An element twice, or elements that do not ascend.
    #[error("element {index} comes twice")]
    Twice {
        /// The element that is repeated or out of order.
        index: u32,
    },
    /// The list has more than [`ArraySpec::MAX`] elements.
    #[error("more than {} elements; split the array", ArraySpec::MAX)]
    TooMany,
    /// Not a number behind '%'.
    #[error("'{text}' after '%' is not a number from 1; it says how many elements run at a time")]
    AtOnce {
        /// What stands behind the '%', cut after 32 characters.
        text: String,
    },
}

impl ArraySpec {
    /// The most elements that one array may have.
    pub const MAX: usize = 10_000;
    /// The largest index that an element may have.
    pub const LAST: u32 = 999_999;

    /// Reads `0-99:2,200%8`.
    ///
    /// # Errors
    /// [`ArrayError`] says which part is wrong.
    pub fn new(text: &str) -> Result<Self, ArrayError> {
        let (list, at_once) = match text.split_once('%') {
            Some((list, limit)) => (list, at_once(limit)?),
            None => (text, 0),
        };
        if list.is_empty() {
            return Err(ArrayError::Empty);
        }
        let mut indices = Vec::new();
        for piece in list.split(',') {
            let (first, last, step) = range(piece)?;
            if (last - first) / step >= u32::try_from(Self::MAX - indices.len()).unwrap_or(0) {
                return Err(ArrayError::TooMany);
            }
            indices.extend((first..=last).step_by(step as usize));
        }
        indices.sort_unstable();
        let spec = Self { indices, at_once };
        spec.check()?;
        Ok(spec)
    }

    /// Whether the elements are as the fields promise.
    ///
    /// # Errors
    /// [`ArrayError`] says what is wrong.
    pub fn check(&self) -> Result<(), ArrayError> {
        if self.indices.is_empty() {
            return Err(ArrayError::Empty);
        }
        if self.indices.len() > Self::MAX {
            return Err(ArrayError::TooMany);
        }
        if let Some(pair) = self.indices.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(ArrayError::Twice { index: pair[1] });
        }
        match self.indices.last() {
            Some(last) if *last > Self::LAST => Err(ArrayError::Index { index: u64::from(*last) }),
            _ => Ok(()),
        }
    }

    /// The name of one element: `NAME-INDEX`.
    ///
    /// # Errors
    /// The array's name is too long for its indices.
    pub fn element(array: &JobName, index: u32) -> Result<JobName, NameError> {
        JobName::new(format!("{array}-{index}"))
    }
}

fn short(text: &str) -> String {
    text.chars().take(32).collect()
}

/// Digits only: `str::parse` would take a sign too.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn at_once(text: &str) -> Result<u32, ArrayError> {
    let limit = number(text).and_then(|limit| u32::try_from(limit).ok()).filter(|limit| *limit > 0);
    limit.ok_or_else(|| ArrayError::AtOnce { text: short(text) })
}

/// Reads one part of the list as first index, last index and step; a single index is a range of one, with step 1.
fn range(piece: &str) -> Result<(u32, u32, u32), ArrayError> {
    let wrong = || ArrayError::Range { text: short(piece) };
    let index = |text: &str| {
        let index = number(text).ok_or_else(wrong)?;
        let small = u32::try_from(index).ok().filter(|index| *index <= ArraySpec::LAST);
        small.ok_or(ArrayError::Index { index })
    };
    let Some((first, rest)) = piece.split_once('-') else {
        let only = index(piece)?;
        return Ok((only, only, 1));
    };
    let (last, step) = match rest.split_once(':') {
        Some((last, step)) => (last, index(step)?),
        None => (rest, 1),
    };
    let (first, last) = (index(first)?, index(last)?);
    if first > last || step == 0 {
        return Err(wrong());
    }
    Ok((first, last, step))
}

impl FromStr for ArraySpec {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        Self::new(text)
    }
}

impl fmt::Display for ArraySpec {
    /// The shortest common way: three or more indices at one distance become a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.indices[..];
        let mut comma = "";
        while let [first, ..] = *rest {
            let step = rest.get(1).map_or(1, |second| second.saturating_sub(first).max(1));
            let goes_on = |pair: &&[u32]| pair[0].checked_add(step) == Some(pair[1]);
            let run = 1 + rest.windows(2).take_while(goes_on).count();
            let last = rest[run - 1];
            let taken = match run {
                0..=2 => {
                    write!(f, "{comma}{first}")?;
                    1
                }
                _ if step == 1 => {
                    write!(f, "{comma}{first}-{last}")?;
                    run
                }
                _ => {
                    write!(f, "{comma}{first}-{last}:{step}")?;
                    run
                }
            };
            comma = ",";
            rest = &rest[taken..];
        }
        match self.at_once {
            0 => Ok(()),
            limit => write!(f, "%{limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<u32> {
        ArraySpec::new(text).unwrap().indices
    }

    #[test]
    fn arrays_are_read_as_slurm_reads_them() {
        assert_eq!(read("7"), [7]);
        assert_eq!(read("0-3"), [0, 1, 2, 3]);
        assert_eq!(read("0-7:3,100"), [0, 3, 6, 100]);
        assert_eq!(read("5,1,3"), [1, 3, 5]);
        assert_eq!(ArraySpec::new("0-99:2,200%8").unwrap().at_once, 8);
        assert_eq!(read("0-9999").len(), 10_000);
        assert_eq!(read("0-999999:100").len(), 10_000);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| ArraySpec::new(text).unwrap_err();
        assert_eq!(error(""), ArrayError::Empty);
        assert_eq!(error("%3"), ArrayError::Empty);
        for text in ["1,", "a", "-1", "1-", "3-1", "0-9:0", "0-9:", "+1", "1 - 2", "0x1", "1:2"] {
            assert!(matches!(error(text), ArrayError::Range { .. }), "{text}");
        }
        for text in ["1000000", "0-4294967296", "999999999999999999"] {
            assert!(matches!(error(text), ArrayError::Index { .. }), "{text}");
        }
        assert_eq!(error("1-3,2"), ArrayError::Twice { index: 2 });
        for text in ["0-10000", "0-999999", "0-9999,20000"] {
            assert_eq!(error(text), ArrayError::TooMany, "{text}");
        }
        for text in ["1%", "1%0", "1%-1", "1%x", "1%2%3", "1%4294967296"] {
            assert!(matches!(error(text), ArrayError::AtOnce { .. }), "{text}");
        }
    }

    #[test]
    fn arrays_are_written_short() {
        let short = |text: &str| ArraySpec::new(text).unwrap().to_string();
        assert_eq!(short("0,1,2,3,5,7,9,20%2"), "0-3,5-9:2,20%2");
        assert_eq!(short("1,2"), "1,2");
        assert_eq!(short("0-99"), "0-99");
    }

    #[test]
    fn elements_have_names() {
        let name = JobName::new("train").unwrap();
        assert_eq!(ArraySpec::element(&name, 12).unwrap().as_str(), "train-12");
        let long = JobName::new("x".repeat(60)).unwrap();
        assert!(matches!(ArraySpec::element(&long, 12345), Err(NameError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn written_and_read_again_is_the_same(
            set in prop::collection::btree_set(0..=ArraySpec::LAST, 1..40),
            run in 0_u32..1000,
            step in 1_u32..20,
            at_once in 0_u32..9,
        ) {
            let mut set = set;
            set.extend((run..).step_by(step as usize).take(20));
            let spec = ArraySpec { indices: set.into_iter().collect(), at_once };
            prop_assert_eq!(ArraySpec::new(&spec.to_string()).unwrap(), spec);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,:%-]{0,24}") {
            if let Ok(spec) = ArraySpec::new(&text) {
                prop_assert_eq!(spec.check(), Ok(()));
                prop_assert_eq!(ArraySpec::new(&spec.to_string()).unwrap(), spec);
            }
        }
    }
}
