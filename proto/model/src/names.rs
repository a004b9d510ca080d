//! Lists of names as administrators write them: `gpu[001-064,070],login1`.

use std::{collections::BTreeSet, fmt, fmt::Write as _, str::FromStr};

use thiserror::Error;

/// A list of names, kept as short as it was written: `Ethernet1/[1-32]/[1-2]` takes the room of three ranges, not of
/// 64 texts. Several brackets in one name vary like digits of a number, the last one fastest. Within a bracket no
/// number comes twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Names {
    parts: Vec<Part>,
    len: usize,
}

/// Text, then brackets each followed by text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    head: Box<str>,
    brackets: Vec<(Vec<Range>, Box<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u64,
    last: u64,
    /// Digits at least; 1 where numbers are not padded.
    width: u8,
}

impl Range {
    fn len(self) -> usize {
        usize::try_from((self.last - self.first).saturating_add(1)).unwrap_or(usize::MAX)
    }
}

/// Why a text is not a list of names. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NamesError {
    /// Nothing between two commas, or before or after one.
    #[error("a name is missing at column {column}")]
    Empty {
        /// Where the name is missing, in characters from 1.
        column: usize,
    },
    /// A bracket that is not closed, closed but not open, or within another.
    #[error("the bracket at column {column} has no partner; write for example gpu[001-064]")]
    Bracket {
        /// Where the bracket is, in characters from 1.
        column: usize,
    },
    /// Not a number, nor a range of two.
    #[error("'{text}' at column {column} is not a number or a range such as 001-064")]
    Range {
        /// What stands there instead.
        text: String,
        /// Where it is, in characters from 1.
        column: usize,
    },
    /// The numbers of one bracket overlap.
    #[error("{number} comes twice in the bracket at column {column}")]
    Twice {
        /// The number that comes twice.
        number: u64,
        /// Where the bracket begins, in characters from 1.
        column: usize,
    },
    /// More names than any list may have.
    #[error("the list has more than {} names; split it", Names::MAX)]
    TooMany,
}

impl Names {
    /// Names of one list at most.
    pub const MAX: usize = 1 << 20;

    /// Reads a list; the empty text is the empty list.
    ///
    /// # Errors
    /// [`NamesError`] says what is wrong and at which column.
    pub fn new(text: &str) -> Result<Self, NamesError> {
        let mut names = Self::default();
        if text.is_empty() {
            return Ok(names);
        }
        let mut column = 1;
        for (piece, at) in pieces(text)? {
            column = at;
            let part = Part::new(piece, column)?;
            names.len = names.len.saturating_add(part.len());
            names.parts.push(part);
            if names.len > Self::MAX {
                return Err(NamesError::TooMany);
            }
        }
        if names.parts.is_empty() {
            return Err(NamesError::Empty { column });
        }
        Ok(names)
    }

    /// A short way to write these names in this order: neighbours that differ in their last number alone share a bracket,
    /// in which numbers that follow each other are a range. A name with brackets or commas of its own cannot be listed and
    /// is left out.
    pub fn of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut list = Self::default();
        let mut open: Option<Open> = None;
        for name in names {
            let name = name.as_ref();
            if name.is_empty() || name.contains(['[', ']', ',']) || list.len >= Self::MAX {
                continue;
            }
            list.len += 1;
            let next = Part::of(name);
            if !open.as_mut().is_some_and(|open| open.take(&next)) {
                list.parts.extend(open.replace(Open::of(next)).map(|open| open.part.plain()));
            }
        }
        list.parts.extend(open.map(|open| open.part.plain()));
        list
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the list is written as one name or as one with a single bracket: then no name can come twice.
    #[must_use]
    pub fn is_one_pattern(&self) -> bool {
        self.parts.len() <= 1 && self.parts.iter().all(|part| part.brackets.len() <= 1)
    }

    /// The names in their order.
    pub fn iter(&self) -> impl Iterator<Item = String> {
        self.parts.iter().flat_map(PartNames::of)
    }
}

/// The names of a part in their order.
struct PartNames<'a> {
    part: &'a Part,
    /// Bracket by bracket: which of its ranges, and which number of that range; `None` behind the last name.
    at: Option<Vec<(usize, u64)>>,
}

impl<'a> PartNames<'a> {
    fn of(part: &'a Part) -> Self {
        let first = |(ranges, _): &(Vec<Range>, Box<str>)| Some((0, ranges.first()?.first));
        Self { part, at: part.brackets.iter().map(first).collect() }
    }
}

impl Iterator for PartNames<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let at = self.at.as_mut()?;
        let mut name = self.part.head.to_string();
        for ((range, number), (ranges, tail)) in at.iter().zip(&self.part.brackets) {
            let width = ranges.get(*range).map_or(1, |range| usize::from(range.width));
            // Writing to a string cannot fail.
            let _ = write!(name, "{number:0width$}{tail}");
        }
        // The last bracket goes on; where it is through, it begins anew and the one before it goes on.
        let mut through = true;
        for ((range, number), (ranges, _)) in at.iter_mut().zip(&self.part.brackets).rev() {
            let more = ranges.get(*range).is_some_and(|range| *number < range.last);
            let next = ranges.get(*range + 1).filter(|_| !more);
            through = !more && next.is_none();
            (*range, *number) = match next {
                _ if more => (*range, *number + 1),
                Some(next) => (*range + 1, next.first),
                None => (0, ranges.first().map_or(0, |range| range.first)),
            };
            if !through {
                break;
            }
        }
        if through {
            self.at = None;
        }
        Some(name)
    }
}

/// A part that may take in more names.
struct Open {
    part: Part,
    /// Digits of its first number, as far as that is padded.
    width: u8,
    largest: u64,
    /// The numbers of its bracket, from when one of them was not larger than all before.
    numbers: Option<BTreeSet<u64>>,
}

impl Open {
    fn of(part: Part) -> Self {
        let first = part.brackets.first().and_then(|(ranges, _)| ranges.first().copied());
        let (width, largest) = first.map_or((1, 0), |range| (range.width, range.last));
        Self { part, width, largest, numbers: None }
    }

    /// Takes the next name in if it differs from the names of this part in its number alone.
    fn take(&mut self, next: &Part) -> bool {
        let ([(ranges, tail)], [(more, other)]) = (&mut self.part.brackets[..], &next.brackets[..]) else {
            return false;
        };
        let (Some(last), [new]) = (ranges.last().copied(), &more[..]) else { return false };
        if self.part.head != next.head || tail != other {
            return false;
        }
        // Unpadded digits fit behind padded ones where they are as long: 099 then 100.
        let as_long = new.width == 1 && self.width > 1 && digits(new.first) >= self.width;
        if new.width != self.width && !as_long {
            return false;
        }
        if new.first <= self.largest {
            let all = || ranges.iter().flat_map(|range| range.first..=range.last).collect();
            if !self.numbers.get_or_insert_with(all).insert(new.first) {
                return false;
            }
        } else if let Some(numbers) = &mut self.numbers {
            numbers.insert(new.first);
        }
        self.largest = self.largest.max(new.first);
        match ranges.last_mut() {
            Some(open) if new.first == last.last + 1 => open.last = new.first,
            _ => ranges.push(*new),
        }
        true
    }
}

/// The text at top-level commas, with the column of each piece.
fn pieces(text: &str) -> Result<Vec<(&str, usize)>, NamesError> {
    let (mut found, mut start, mut start_column, mut open) = (Vec::new(), 0, 1, None);
    for (column, (at, c)) in (1..).zip(text.char_indices()) {
        match (c, open) {
            ('[', None) => open = Some(column),
            ('[', Some(_)) | (']', None) => return Err(NamesError::Bracket { column }),
            (']', Some(_)) => open = None,
            (',', None) => {
                found.push((&text[start..at], start_column));
                (start, start_column) = (at + 1, column + 1);
            }
            _ => {}
        }
    }
    if let Some(column) = open {
        return Err(NamesError::Bracket { column });
    }
    found.push((&text[start..], start_column));
    match found.iter().find(|(piece, _)| piece.is_empty()) {
        Some((_, column)) => Err(NamesError::Empty { column: *column }),
        None => Ok(found),
    }
}

impl Part {
    fn new(text: &str, column: usize) -> Result<Self, NamesError> {
        let (head, mut rest) = text.split_once('[').map_or((text, None), |(head, rest)| (head, Some(rest)));
        let mut brackets = Vec::new();
        let mut at = column + head.chars().count() + 1;
        while let Some(text) = rest {
            // Every bracket is closed: `pieces` has checked it.
            let (inside, after) = text.split_once(']').unwrap_or((text, ""));
            let ranges = ranges(inside, at)?;
            let (tail, next) = after.split_once('[').map_or((after, None), |(tail, rest)| (tail, Some(rest)));
            brackets.push((ranges, tail.into()));
            at += inside.chars().count() + tail.chars().count() + 2;
            rest = next;
        }
        Ok(Self { head: head.into(), brackets })
    }

    /// One name, its last number in a bracket.
    fn of(name: &str) -> Self {
        let end = name.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let start = name[..end]
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
        let digits = &name[start..end];
        let number = digits.parse().ok().filter(|_| digits.len() <= 18);
        let Some(number) = number else { return Self { head: name.into(), brackets: Vec::new() } };
        let padded = digits.len() > 1 && digits.starts_with('0');
        // A number without zeros before it can open a padded range too (`8` no, `10` yes): its width decides.
        let width = if padded { u8::try_from(digits.len()).unwrap_or(1) } else { 1 };
        let range = Range { first: number, last: number, width };
        Self { head: name[..start].into(), brackets: vec![(vec![range], name[end..].into())] }
    }

    /// Without a bracket around a single number.
    fn plain(self) -> Self {
        if self.len() == 1 && !self.brackets.is_empty() {
            let name = PartNames::of(&self).next().unwrap_or_default();
            return Self { head: name.into(), brackets: Vec::new() };
        }
        self
    }

    fn len(&self) -> usize {
        let lens = self.brackets.iter().map(|(ranges, _)| count(ranges));
        lens.fold(1, usize::saturating_mul)
    }
}

fn count(ranges: &[Range]) -> usize {
    ranges.iter().fold(0, |sum, range| sum.saturating_add(range.len()))
}

fn digits(number: u64) -> u8 {
    u8::try_from(number.checked_ilog10().unwrap_or(0) + 1).unwrap_or(u8::MAX)
}

fn ranges(text: &str, mut column: usize) -> Result<Vec<Range>, NamesError> {
    let mut found: Vec<Range> = Vec::new();
    for piece in text.split(',') {
        let wrong = || NamesError::Range { text: piece.chars().take(32).collect(), column };
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let read = |digits: &str| {
            let right =
                !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|c| c.is_ascii_digit());
            right.then(|| digits.parse().ok()).flatten()
        };
        let (Some(low), Some(high)) = (read(first), read(last)) else { return Err(wrong()) };
        if low > high {
            return Err(wrong());
        }
        let padded = first.len() > 1 && first.starts_with('0');
        let width = if padded { u8::try_from(first.len()).unwrap_or(1) } else { 1 };
        found.push(Range { first: low, last: high, width });
        column += piece.chars().count() + 1;
    }
    let mut sorted = found.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[1].first <= pair[0].last) {
        Some(pair) => Err(NamesError::Twice { number: pair[1].first, column }),
        None => Ok(found),
    }
}

impl FromStr for Names {
    type Err = NamesError;

    fn from_str(text: &str) -> Result<Self, NamesError> {
        Self::new(text)
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            f.write_str(&part.head)?;
            for (ranges, tail) in &part.brackets {
                f.write_str("[")?;
                for (at, range) in ranges.iter().enumerate() {
                    let width = usize::from(range.width);
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{:0width$}", range.first)?;
                    if range.last > range.first {
                        write!(f, "-{:0width$}", range.last)?;
                    }
                }
                write!(f, "]{tail}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<String> {
        Names::new(text).unwrap().iter().collect()
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(all("a"), ["a"]);
        assert_eq!(all("gpu[8-10],x"), ["gpu8", "gpu9", "gpu10", "x"]);
        assert_eq!(all("gpu[098-100,007]"), ["gpu098", "gpu099", "gpu100", "gpu007"]);
        assert_eq!(all("Eth1/[1-2]/[1,3]:x"), ["Eth1/1/1:x", "Eth1/1/3:x", "Eth1/2/1:x", "Eth1/2/3:x"]);
        assert_eq!(all(""), Vec::<String>::new());
        assert_eq!(Names::new("n[000001-999999]").unwrap().len(), 999_999);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_column() {
        let error = |text: &str| Names::new(text).unwrap_err();
        assert_eq!(error("a,,b"), NamesError::Empty { column: 3 });
        assert_eq!(error("a,"), NamesError::Empty { column: 3 });
        assert_eq!(error("a[1-2"), NamesError::Bracket { column: 2 });
        assert_eq!(error("a]1"), NamesError::Bracket { column: 2 });
        assert_eq!(error("a[[1]]"), NamesError::Bracket { column: 3 });
        assert_eq!(error("ab[1,x]"), NamesError::Range { text: "x".into(), column: 6 });
        assert_eq!(error("a[3-1]"), NamesError::Range { text: "3-1".into(), column: 3 });
        assert_eq!(error("a[]"), NamesError::Range { text: String::new(), column: 3 });
        assert!(matches!(error("a[1-3,2]"), NamesError::Twice { number: 2, .. }));
        for big in ["a[0-1048576]", "a[0-2000]b[0-2000]", "a[0-999999999999999999][0-999999999999999999]"] {
            assert_eq!(error(big), NamesError::TooMany, "{big}");
        }
    }

    #[test]
    fn names_are_written_short() {
        let short = |names: &[&str]| Names::of(names).to_string();
        assert_eq!(short(&["n1", "n2", "n3", "n5", "m1", "x"]), "n[1-3,5],m1,x");
        assert_eq!(short(&["n098", "n099", "n100", "n101"]), "n[098-101]");
        assert_eq!(short(&["n9", "n10", "n11"]), "n[9-11]");
        assert_eq!(short(&["n3", "n2", "n1"]), "n[3,2,1]");
        assert_eq!(short(&["n7", "n1", "n2", "n7", "n3"]), "n[7,1-2],n[7,3]");
        assert_eq!(short(&["n100", "n007", "n008"]), "n100,n[007-008]");
        assert_eq!(short(&["n007", "n100", "n003", "n99", "n101"]), "n[007,100,003],n[99,101]");
        assert_eq!(short(&["a1-x", "a2-x", "a2-y"]), "a[1-2]-x,a2-y");
        assert_eq!(short(&["é1", "é2", "99999999999999999999"]), "é[1-2],99999999999999999999");
    }

    /// A quarter of a million names of one bracket: quadratic work would take minutes.
    #[test]
    fn long_lists_are_read_and_written_in_a_moment() {
        let names: Vec<String> =
            (0..262_144_u64).map(|at| format!("n{}", at * 77_777 % 262_144 * 2)).collect();
        let short = Names::of(&names);
        assert!(short.is_one_pattern());
        assert!(Names::new(&short.to_string()).unwrap().iter().eq(names));
    }

    proptest! {
        #[test]
        fn written_and_read_again_is_the_same(names in prop::collection::vec("[a-c]{0,2}[0-9]{0,4}[x-]?", 0..40)) {
            let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let short = Names::of(&names);
            prop_assert_eq!(short.iter().collect::<Vec<_>>(), names.clone());
            prop_assert_eq!(short.len(), names.len());
            let again = Names::new(&short.to_string()).unwrap();
            prop_assert_eq!(again.iter().collect::<Vec<_>>(), names);
            prop_assert_eq!(again, short);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a\\[\\],0-9-]{0,24}") {
            if let Ok(names) = Names::new(&text) {
                prop_assert!(names.len() <= Names::MAX);
                let again = Names::new(&names.to_string()).unwrap();
                prop_assert_eq!(&again, &names);
                prop_assert_eq!(names.iter().take(2000).count(), names.len().min(2000));
            }
        }
    }
}
