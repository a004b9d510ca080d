//! What is read and what is not, and when it is due: against a look at every minute, and over changes of the clocks.

use jiff::civil;
use proptest::prelude::*;

use super::*;

const MINUTE_MS: u64 = 60_000;

fn cron(text: &str) -> Cron {
    Cron::new(text).unwrap()
}

/// `2026-03-29T00:59` in UTC.
fn utc(text: &str) -> Timestamp {
    let time: civil::DateTime = text.parse().unwrap();
    let time = jiff::tz::TimeZone::UTC.to_timestamp(time).unwrap();
    Timestamp(time.as_millisecond().try_into().unwrap())
}

/// The first times after one, in UTC without seconds.
fn times(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (cron(text), Zone::new(zone).unwrap());
    let next = |after: &Timestamp| cron.next_after(&zone, *after);
    std::iter::successors(next(&utc(after)), next)
        .take(count)
        .map(|time| time.utc()[..16].to_owned())
        .collect()
}

#[test]
fn what_is_due_when() {
    for (text, after, expected) in [
        ("* * * * *", "2026-11-26T10:00", ["2026-11-26T10:01", "2026-11-26T10:02"]),
        ("*/15 8-9 * * *", "2026-11-26T09:40", ["2026-11-26T09:45", "2026-11-27T08:00"]),
        ("5/20 0 * * *", "2026-11-26T00:05", ["2026-11-26T00:25", "2026-11-26T00:45"]),
        ("30 2 * * mon-fri", "2026-11-27T02:30", ["2026-11-30T02:30", "2026-12-01T02:30"]),
        ("0 0 * * 7", "2026-11-26T00:00", ["2026-11-29T00:00", "2026-12-06T00:00"]),
        ("0 0 * * fri-sun/2", "2026-11-26T00:00", ["2026-11-27T00:00", "2026-11-29T00:00"]),
        ("0 0 29 2 *", "2026-11-26T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 29 feb *", "2096-11-26T00:00", ["2104-02-29T00:00", "2108-02-29T00:00"]),
        // One of both days is enough; unless one of them begins with a star.
        ("0 0 13 * fri", "2026-11-01T00:00", ["2026-11-06T00:00", "2026-11-13T00:00"]),
        ("0 0 */31 * fri", "2026-01-02T00:00", ["2026-05-01T00:00", "2027-01-01T00:00"]),
        ("@monthly", "2026-11-26T00:00", ["2026-12-01T00:00", "2027-01-01T00:00"]),
        ("@Weekly", "2026-11-26T00:00", ["2026-11-29T00:00", "2026-12-06T00:00"]),
        ("  0   12 1,15  JAN,jul * ", "2026-11-26T00:00", ["2027-01-01T12:00", "2027-01-15T12:00"]),
    ] {
        assert_eq!(times(text, "", after, 2), expected, "{text}");
    }
}

#[test]
fn clocks_that_change() {
    let berlin = |text, after, count| times(text, "Europe/Berlin", after, count);
    // 02:00 to 03:00 does not come on the 29th of March 2026.
    let skipped = ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"];
    assert_eq!(berlin("30 2 * * *", "2026-03-27T23:00", 3), skipped, "it comes an hour later by the clock");
    let every = ["2026-03-29T00:45", "2026-03-29T01:00", "2026-03-29T01:15"];
    assert_eq!(berlin("*/15 * * * *", "2026-03-29T00:30", 3), every, "what passes counts");
    // 02:00 to 03:00 comes twice on the 25th of October 2026.
    let once = ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"];
    assert_eq!(berlin("30 2 * * *", "2026-10-23T23:00", 3), once, "and it comes once");
    let every = ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"];
    assert_eq!(berlin("*/30 * * * *", "2026-10-25T00:00", 4), every);
    // No midnight on the day that the clocks change at midnight.
    let midnight = ["2026-04-23T22:00", "2026-04-24T21:00"];
    assert_eq!(times("@daily", "Africa/Cairo", "2026-04-23T12:00", 2), midnight);
    assert_eq!(times("0 9 * * *", "Asia/Kolkata", "2026-11-26T00:00", 1), ["2026-11-26T03:30"]);
}

#[test]
fn the_last_one_is_found_however_long_ago() {
    let last = |text, after, until| {
        cron(text)
            .last_within(&Zone::default(), utc(after), utc(until))
            .map(|time| time.utc()[..16].to_owned())
    };
    assert_eq!(last("* * * * *", "2026-01-01T00:00", "2026-11-26T10:00").unwrap(), "2026-11-26T10:00");
    assert_eq!(last("@daily", "2026-11-20T00:00", "2026-11-26T10:00").unwrap(), "2026-11-26T00:00");
    assert_eq!(last("@yearly", "2024-06-01T00:00", "2026-11-26T10:00").unwrap(), "2026-01-01T00:00");
    assert_eq!(last("@yearly", "2026-01-01T00:00", "2026-11-26T10:00"), None, "that one is dealt with");
    assert_eq!(last("0 0 29 2 *", "2022-01-01T00:00", "2026-11-26T10:00").unwrap(), "2024-02-29T00:00");
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    for (text, expected) in [
        ("", "is required"),
        ("* * * *", "has 4 fields instead of five"),
        (
            "0 * * * * *",
            "has 6 fields instead of five: minute, hour, day of the month, month, day of the week; seconds",
        ),
        ("60 * * * *", "minute: '60' is not from 0 to 59"),
        ("* 24 * * *", "hour: '24' is not from 0 to 23"),
        ("* * 0 * *", "day of the month: '0' is not from 1 to 31"),
        ("* * L * *", "day of the month: 'L' is not from 1 to 31"),
        ("* * * may-mai *", "month: 'mai' is not from 1 to 12, nor a name from jan to dec"),
        ("* * * * 8", "day of the week: '8' is not from 0 to 7, nor a name from sun to sat"),
        ("* * * * fri#2", "day of the week: 'fri#2'"),
        ("5-3 * * * *", "minute: the range '5-3' ends before it begins"),
        ("*/0 * * * *", "minute: the step of '*/0' is not a number from 1 to 59"),
        ("*/60 * * * *", "minute: the step of '*/60'"),
        ("*/+5 * * * *", "minute: the step of '*/+5'"),
        ("1,,2 * * * *", "minute: '' is not from 0 to 59"),
        ("+1 * * * *", "minute: '+1' is not from 0 to 59"),
        ("-1 * * * *", "minute: '' is not from 0 to 59"),
        ("0 0 31 4,6,9,11 *", "it would never be due"),
        ("0 0 30 feb *", "it would never be due"),
        ("@reboot", "'@reboot' is no word for a time"),
        ("@every 5m", "'@every 5m' is no word for a time"),
    ] {
        let error = Cron::new(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert_eq!(Cron::new(&"*".repeat(300)), Err(CronError::TooLong { length: 300 }));
}

#[test]
fn the_end_of_time_is_no_panic() {
    let zone = Zone::new("Europe/Berlin").unwrap();
    for time in [0, 1, u64::MAX, i64::MAX as u64, 253_402_207_200_000] {
        let _ = cron("* * * * *").next_after(&zone, Timestamp(time));
        let _ = cron("0 0 29 2 *").last_within(&zone, Timestamp(0), Timestamp(time));
    }
}

fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        2 => Just("*".to_owned()),
        2 => (1..8_u8).prop_map(|step| format!("*/{step}")),
        3 => (low..=high).prop_map(|value| value.to_string()),
        2 => (low..=high, low..=high, 1..4_u8)
            .prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
    ];
    prop::collection::vec(part, 1..3).prop_map(|parts| parts.join(","))
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

/// Whether a field has a value, written a second time and otherwise.
fn has(field: &str, value: i8, high: i8) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let step: i8 = step.parse().unwrap();
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
            None if range == "*" => (if high > 27 && high < 32 || high == 12 { 1 } else { 0 }, high),
            None => (range.parse().unwrap(), if part.contains('/') { high } else { range.parse().unwrap() }),
        };
        (first..=last).contains(&value) && (value - first) % step == 0
    })
}

fn is_due(text: &str, shown: civil::DateTime) -> bool {
    let fields: Vec<&str> = text.split(' ').collect();
    let day = has(fields[2], shown.day(), 31);
    let weekday = has(fields[4], shown.weekday().to_sunday_zero_offset(), 6);
    let any = fields[2].starts_with('*') || fields[4].starts_with('*');
    has(fields[0], shown.minute(), 59)
        && has(fields[1], shown.hour(), 23)
        && has(fields[3], shown.month(), 12)
        && if any { day && weekday } else { day || weekday }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// In a zone whose clocks do not change, it is due when every minute is looked at.
    #[test]
    fn as_a_look_at_every_minute(text in expression(), start in 1_700_000_000_000_u64..1_900_000_000_000, zone in 0..2_usize) {
        let (cron, zone) = (Cron::new(&text).unwrap(), Zone::new(["", "Asia/Kathmandu"][zone]).unwrap());
        let minutes = (start / MINUTE_MS + 1..).take(2 * 24 * 60).map(|minute| Timestamp(minute * MINUTE_MS));
        let due: Vec<Timestamp> =
            minutes.clone().filter(|time| is_due(&text, zone.local(*time).unwrap())).collect();
        let mut at = Timestamp(start);
        for expected in &due {
            let next = cron.next_after(&zone, at);
            prop_assert_eq!(next, Some(*expected));
            at = *expected;
        }
        let end = minutes.last().unwrap();
        prop_assert!(cron.next_after(&zone, at).is_none_or(|next| next > end));
        prop_assert_eq!(cron.last_within(&zone, Timestamp(start), end), due.last().copied());
    }

    /// Over changes of the clocks every time is later than the one before, and the last one up to it is itself.
    #[test]
    fn times_ascend(text in expression(), start in 1_700_000_000_000_u64..1_900_000_000_000, zone in 0..4_usize) {
        let name = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"][zone];
        let (cron, zone) = (Cron::new(&text).unwrap(), Zone::new(name).unwrap());
        let mut at = Timestamp(start);
        for _ in 0..40 {
            let Some(next) = cron.next_after(&zone, at) else { break };
            prop_assert!(next > at);
            prop_assert_eq!(cron.last_within(&zone, at, next), Some(next));
            prop_assert_eq!(cron.last_within(&zone, at, Timestamp(next.0 - 1)), None);
            at = next;
        }
    }

    #[test]
    fn any_text_is_an_expression_or_an_error(text in "[0-9*/,a-z@ -]{0,40}") {
        if let Ok(cron) = Cron::new(&text) {
            prop_assert_eq!(Cron::new(cron.as_str()), Ok(cron.clone()));
            prop_assert!(cron.next_after(&Zone::default(), Timestamp(1_795_599_723_000)).is_some());
        }
    }
}
