//! Cron expressions: five fields as cron(5) has them, and `@daily` and its like. When one is due is a function of the
//! expression, the time zone and the time.
//!
//! A change of the clocks: a time that it skips comes as much later as is skipped, and one that it repeats comes the first
//! time only. Where the hour is `*`, runs follow each other by what passes, so the clock's own times are taken: none of the
//! skipped hour, both of the repeated one.

use std::{fmt, sync::Arc};

use jiff::civil::{Date, DateTime};
use thiserror::Error;

use crate::{Timestamp, Zone, zone::Moments};

/// One of the five fields.
struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", low: 0, high: 59, names: &[] };
const HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[] };
const DAY: Field = Field { name: "day of the month", low: 1, high: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// 7 is Sunday as 0 is.
const WEEKDAY: Field = Field {
    name: "day of the week",
    low: 0,
    high: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// What the words stand for.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Days after which a search ends: between two 29ths of February there are 8 years at most.
const SEARCHED: u32 = 9 * 366;
/// Clocks are put back or forward by less.
const SHIFT: i64 = 3 * 3600;
/// The part of a day that is looked at first.
const NEAR: u64 = 6 * 3_600_000;
/// Days of the months in a leap year.
const LONGEST: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Why a text is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CronError {
    /// The text is empty.
    #[error(
        "is required: minute, hour, day of the month, month and day of the week, for example '30 2 * * mon-fri', or @daily"
    )]
    Empty,
    /// Longer than any expression.
    #[error("has {length} characters; at most {} are allowed", Cron::LONGEST)]
    TooLong {
        /// Characters that the text has.
        length: usize,
    },
    /// The expression has more or fewer than five fields.
    #[error(
        "has {found} fields instead of five: minute, hour, day of the month, month, day of the week{}",
        seconds(*.found)
    )]
    Fields {
        /// Fields that the expression has.
        found: usize,
    },
    /// A word that there is not.
    #[error("'{word}' is no word for a time; there are @hourly, @daily, @weekly, @monthly and @yearly")]
    Word {
        /// The word that was given.
        word: String,
    },
    /// A value that the field does not have.
    #[error("{field}: '{text}' is not from {low} to {high}{names}")]
    Value {
        /// Name of the field, for example `hour`.
        field: &'static str,
        /// The value that was given.
        text: String,
        /// The lowest value that the field takes.
        low: u8,
        /// The highest value that the field takes.
        high: u8,
        /// The names that stand for values.
        names: String,
    },
    /// A range that ends before it begins.
    #[error("{field}: the range '{text}' ends before it begins; write two, separated by a comma")]
    Range {
        /// Name of the field, for example `hour`.
        field: &'static str,
        /// The range that was given.
        text: String,
    },
    /// A step of nothing, or of no number.
    #[error("{field}: the step of '{text}' is not a number from 1 to {high}")]
    Step {
        /// Name of the field, for example `hour`.
        field: &'static str,
        /// The range with its step, as it was given.
        text: String,
        /// The largest step that the field takes.
        high: u8,
    },
    /// No month has such a day.
    #[error("no day of the calendar is one of these days and months: it would never be due")]
    Never,
}

fn seconds(found: usize) -> &'static str {
    if found == 6 { "; seconds and years are none of them" } else { "" }
}

/// A cron expression that was checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Cron {
    text: Arc<str>,
    /// The minutes at which it is due, a bit for each.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The field begins with `*`.
    any_hour: bool,
    any_day: bool,
    any_weekday: bool,
}

impl Cron {
    /// Characters of an expression at most.
    pub const LONGEST: usize = 256;

    /// Reads `*/15 8-18 * * mon-fri` or `@daily`.
    ///
    /// # Errors
    /// [`CronError`] says which field is wrong and what would be right.
    pub fn new(text: &str) -> Result<Self, CronError> {
        let length = text.chars().count();
        if length > Self::LONGEST {
            return Err(CronError::TooLong { length });
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let expression = match text.strip_prefix('@') {
            Some(_) => {
                let known = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
                known.ok_or_else(|| CronError::Word { word: text.clone() })?.1
            }
            None => text.as_str(),
        };
        let fields: Vec<&str> = expression.split(' ').filter(|field| !field.is_empty()).collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(match fields.len() {
                0 => CronError::Empty,
                found => CronError::Fields { found },
            });
        };
        let weekdays = bits(&WEEKDAY, weekday)?;
        let cron = Self {
            minutes: bits(&MINUTE, minute)?,
            hours: bits(&HOUR, hour)?,
            days: bits(&DAY, day)?,
            months: bits(&MONTH, month)?,
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            any_hour: is_any(hour),
            any_day: is_any(day),
            any_weekday: is_any(weekday),
            text: text.as_str().into(),
        };
        if cron.is_ever() { Ok(cron) } else { Err(CronError::Never) }
    }

    /// The expression, one space between fields.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// When it is due first after `after`; `None` where it is not within years.
    #[must_use]
    pub fn next_after(&self, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
        let shown = zone.local(after)?.date();
        let mut day = shown.yesterday().unwrap_or(shown);
        // Most are due soon: not all of a day needs to be worked out for them.
        let near = Timestamp(after.0.saturating_add(NEAR));
        let mut at = Some(day);
        for _ in 0..3 {
            let Some(date) = at else { break };
            if let Some(found) = self.on(zone, date, after, near).into_iter().min() {
                return Some(found);
            }
            at = date.tomorrow().ok();
        }
        for _ in 0..SEARCHED {
            if let Some(found) = self.on(zone, day, after, Timestamp(u64::MAX)).into_iter().min() {
                return Some(found);
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    /// When it was due last, after `after` and not after `until`; `None` where it was not.
    #[must_use]
    pub fn last_within(&self, zone: &Zone, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let near = Timestamp(until.0.saturating_sub(NEAR)).max(after);
        self.last_on_days(zone, near, until).or_else(|| self.last_on_days(zone, after, until))
    }

    fn last_on_days(&self, zone: &Zone, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let (first, last) = (zone.local(after)?.date(), zone.local(until)?.date());
        let first = first.yesterday().unwrap_or(first);
        let mut day = last.tomorrow().unwrap_or(last);
        for _ in 0..SEARCHED {
            if day < first {
                return None;
            }
            if let Some(found) = self.on(zone, day, after, until).into_iter().max() {
                return Some(found);
            }
            day = day.yesterday().ok()?;
        }
        None
    }

    /// The moments of a day that are after `after` and not after `until`, in no order.
    fn on(&self, zone: &Zone, date: Date, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let mut found = Vec::new();
        if !self.is_on(date) {
            return found;
        }
        let seconds = |time: Timestamp| i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
        let (low, high) = (seconds(after).saturating_sub(SHIFT), seconds(until).saturating_add(SHIFT));
        for hour in values(self.hours, 0..=23) {
            // The whole hour may be beside what is looked for.
            let about = |minute| match zone.moments(date.at(hour, minute, 0, 0)) {
                Some(Moments::One(time) | Moments::Skipped(time) | Moments::Twice(time, _)) => seconds(time),
                None => i64::MIN,
            };
            if about(59) < low || about(0) > high {
                continue;
            }
            for minute in values(self.minutes, 0..=59) {
                let [one, other] = self.at(zone, date.at(hour, minute, 0, 0));
                let both = [one, other].into_iter().flatten();
                found.extend(both.filter(|time| after < *time && *time <= until));
            }
        }
        found
    }

    /// When a civil time that it names comes.
    fn at(&self, zone: &Zone, shown: DateTime) -> [Option<Timestamp>; 2] {
        match zone.moments(shown) {
            Some(Moments::One(time)) => [Some(time), None],
            Some(Moments::Skipped(time)) => [(!self.any_hour).then_some(time), None],
            Some(Moments::Twice(first, second)) => [Some(first), self.any_hour.then_some(second)],
            None => [None, None],
        }
    }

    /// Whether a date is one of its days.
    fn is_on(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| u8::try_from(value).is_ok_and(|value| (bits >> value) & 1 == 1);
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let right = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        right && has(self.months, date.month())
    }

    /// Whether there is a day in the calendar on which it is due.
    fn is_ever(&self) -> bool {
        if !self.any_day && !self.any_weekday {
            return true;
        }
        let last = |month: i8| usize::try_from(month - 1).ok().and_then(|at| LONGEST.get(at)).copied();
        values(self.months, 1..=12).filter_map(last).any(|last| self.days.trailing_zeros() <= u32::from(last))
    }
}

/// The values that are set, in order.
fn values(bits: u64, all: std::ops::RangeInclusive<i8>) -> impl Iterator<Item = i8> {
    all.filter(move |value| (bits >> value) & 1 == 1)
}

fn is_any(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

/// The values of a field: lists of values, ranges and steps.
fn bits(field: &Field, text: &str) -> Result<u64, CronError> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let every = match step.map(number) {
            None => 1,
            Some(Some(every)) if (1..=field.high).contains(&every) => every,
            Some(_) => {
                return Err(CronError::Step { field: field.name, text: part.to_owned(), high: field.high });
            }
        };
        let (first, last) = match range {
            // 7 is a second name of 0 and not a value of its own.
            "*" | "?" => (field.low, if field.high == 7 { 6 } else { field.high }),
            _ => match range.split_once('-') {
                Some((first, last)) => {
                    let first = value(field, first)?;
                    let last = value(field, last)?;
                    // As the end of a range Sunday is the last day of a week.
                    let sunday = field.high == 7 && last == 0 && first > 0;
                    (first, if sunday { 7 } else { last })
                }
                None => {
                    let first = value(field, range)?;
                    (first, if step.is_some() { field.high } else { first })
                }
            },
        };
        if last < first {
            return Err(CronError::Range { field: field.name, text: part.to_owned() });
        }
        for value in (first..=last).step_by(usize::from(every)) {
            bits |= 1 << value;
        }
    }
    Ok(bits)
}

fn number(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn value(field: &Field, text: &str) -> Result<u8, CronError> {
    let named = field.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let named = named.and_then(|at| u8::try_from(at).ok()).map(|at| at + field.low);
    named.or_else(|| number(text)).filter(|number| (field.low..=field.high).contains(number)).ok_or_else(
        || {
            let names = match (field.names.first(), field.names.last()) {
                (Some(first), Some(last)) => format!(", nor a name from {first} to {last}"),
                _ => String::new(),
            };
            CronError::Value {
                field: field.name,
                text: text.to_owned(),
                low: field.low,
                high: field.high,
                names,
            }
        },
    )
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({})", self.text)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
