//! What plain text means (YAML 1.2 core schema, strictly), and what people write instead of what is meant.

/// What plain text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    Null,
    Bool,
    Number,
    Text,
}

/// Resolves plain text by the core schema.
pub(crate) fn resolve(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Resolved::Bool,
        _ if is_number(text) => Resolved::Number,
        _ => Resolved::Text,
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let based = |prefix: &str, base: u32| {
        text.strip_prefix(prefix).is_some_and(|d| !d.is_empty() && d.chars().all(|c| c.is_digit(base)))
    };
    if based("0x", 16) || based("0o", 8) {
        return true;
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole) && digits(fraction) && whole.len() + fraction.len() > 0 && exponent_ok
}

/// A whole number in any form that says it exactly: decimal digits, or a float without a fraction. The message
/// says what is wrong otherwise.
pub(crate) fn whole(text: &str) -> Result<i128, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if decimal && digits.len() > 1 && digits.starts_with('0') {
        let right = digits.trim_start_matches('0');
        return Err(format!(
            "a number with leading zeros; write {}",
            if right.is_empty() { "0" } else { right }
        ));
    }
    if decimal && let Ok(number) = text.parse::<i128>() {
        return Ok(number);
    }
    if decimal {
        return Err("a number that is far too large".to_owned());
    }
    if let Some(number) = text.strip_prefix('+').and_then(|rest| rest.parse::<u64>().ok()) {
        return Err(format!("a number with a sign; write {number}"));
    }
    for (prefix, base) in [("0x", 16), ("0o", 8)] {
        if let Some(number) = text.strip_prefix(prefix).and_then(|d| u64::from_str_radix(d, base).ok()) {
            return Err(format!("not a decimal number; write {number}"));
        }
    }
    // Beyond 2^53 a float does not say which whole number is meant.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = if is_number(text) { text.parse::<f64>().ok() } else { None };
    if let Some(float) = float.filter(|float| float.abs() <= EXACT) {
        if float.fract() == 0.0 {
            return format!("{float:.0}").parse().map_err(|_| "expected a whole number".to_owned());
        }
        return Err("expected a whole number".to_owned());
    }
    match size(text) {
        Some(bytes) => Err(format!("expected a whole number; {text} is {bytes}")),
        None => Err("expected a whole number".to_owned()),
    }
}

/// `64MiB`, `1.5 GB`, `10k`: a number with a unit, in units.
fn size(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..split].trim().parse().ok()?;
    let factor = match text[split..].to_ascii_lowercase().as_str() {
        "b" => 1u64,
        "k" | "kb" => 1000,
        "m" | "mb" => 1000u64.pow(2),
        "g" | "gb" => 1000u64.pow(3),
        "t" | "tb" => 1000u64.pow(4),
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        _ => return None,
    };
    let bytes = number * factor as f64;
    ((0.0..9e15).contains(&bytes) && bytes.fract() == 0.0).then_some(bytes as u64)
}

/// Longest duration of proto: about 10,000 years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// `3600s`, `1.5s`, `-2s` as proto has it, and `1h30m`, `5m`, `500ms`, `7d` as people write it: seconds and nanoseconds. The message says what
/// would be right otherwise.
pub(crate) fn duration(text: &str) -> Result<(i64, i32), String> {
    let wrong = || match plain_duration(text) {
        Some(right) => format!("a duration has a unit; write \"{right}\""),
        None => "expected a duration, for example \"90s\", \"5m\" or \"1h30m\"".to_owned(),
    };
    if let Some(sum) = sum_of_units(text) {
        return sum;
    }
    let body = text.strip_suffix('s').ok_or_else(wrong)?;
    let (negative, body) = body.strip_prefix('-').map_or((false, body), |body| (true, body));
    let (seconds, fraction) = body.split_once('.').unwrap_or((body, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return Err(wrong());
    }
    if fraction.len() > 9 {
        return Err("a duration with more than nine digits after the point".to_owned());
    }
    let whole: u64 = seconds.parse().unwrap_or(u64::MAX);
    let nanos: i32 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    if whole > MAX_SECONDS || (whole == MAX_SECONDS && nanos > 0) {
        return Err(format!("a duration of more than {MAX_SECONDS} seconds"));
    }
    let sign = if negative { -1 } else { 1 };
    Ok((sign * i64::try_from(whole).map_err(|_| wrong())?, (sign as i32) * nanos))
}

/// `1h30m`, `500ms`: whole numbers with units, the larger before the smaller. `None` where it is not that; an error where it is too much.
fn sum_of_units(text: &str) -> Option<Result<(i64, i32), String>> {
    const UNITS: [(&str, u64); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let (mut rest, mut millis, mut last) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number = rest.get(..digits).filter(|text| !text.is_empty())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = UNITS.iter().find(|(unit, _)| *unit == &rest[..end])?.1;
        if unit >= last {
            return None;
        }
        last = unit;
        rest = &rest[end..];
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        millis = part.and_then(|part| millis.checked_add(part)).unwrap_or(u64::MAX);
    }
    if last == u64::MAX {
        return None;
    }
    if millis > MAX_SECONDS * 1000 {
        return Some(Err(format!("a duration of more than {MAX_SECONDS} seconds")));
    }
    let (seconds, nanos) = (i64::try_from(millis / 1000), i32::try_from(millis % 1000 * 1_000_000));
    seconds.ok().zip(nanos.ok()).map(Ok)
}

/// `90 min`, `1.5h`, `3600`: what people write too, as it must be written.
fn plain_duration(text: &str) -> Option<String> {
    let mut rest = text.trim();
    let mut total = 0.0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let factor = match &rest[..letters] {
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => return None,
        };
        total += number * factor;
        rest = rest[letters..].trim_start();
    }
    let shown = format!("{total:.9}");
    let shown = shown.trim_end_matches('0').trim_end_matches('.');
    (total > 0.0 && total < MAX_SECONDS as f64).then(|| format!("{shown}s"))
}

/// Standard or URL-safe base64, with or without padding.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) || body.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in body.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    // Bits left over must be zero, or two texts would mean the same bytes.
    (bits == 0).then_some(out)
}

/// The bytes in standard base64 with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |group, byte| (group << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let six = (group >> (18 - 6 * i)) & 63;
            out.push(if i <= chunk.len() { char::from(ALPHABET[six as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_what_yaml_1_2_says() {
        for number in [
            "0", "-1", "+2", "1.5", ".5", "1.", "1e3", "1.5E-3", "0x1F", "0o17", ".inf", "-.inf", ".nan",
            "007",
        ] {
            assert_eq!(resolve(number), Resolved::Number, "{number}");
        }
        for text in [
            "yes",
            "no",
            "on",
            "NO",
            "1h",
            "10.0.0.1",
            "0x",
            "1e",
            "-",
            ".",
            "e3",
            "1_000",
            "3600s",
            "2026-01-01",
        ] {
            assert_eq!(resolve(text), Resolved::Text, "{text}");
        }
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole("12"), Ok(12));
        assert_eq!(whole("-12"), Ok(-12));
        assert_eq!(whole("1e3"), Ok(1000));
        assert_eq!(whole("2.0"), Ok(2));
        assert_eq!(whole("18446744073709551615"), Ok(i128::from(u64::MAX)));
        for (given, message) in [
            ("1.5", "expected a whole number"),
            ("010", "a number with leading zeros; write 10"),
            ("0x10", "not a decimal number; write 16"),
            ("64MiB", "expected a whole number; 64MiB is 67108864"),
            ("1.5k", "expected a whole number; 1.5k is 1500"),
            ("+3", "a number with a sign; write 3"),
            (&"9".repeat(60), "a number that is far too large"),
            (".inf", "expected a whole number"),
            ("many", "expected a whole number"),
        ] {
            assert_eq!(whole(given), Err(message.to_owned()), "{given}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("3600s"), Ok((3600, 0)));
        assert_eq!(duration("1.5s"), Ok((1, 500_000_000)));
        assert_eq!(duration("-0.000000001s"), Ok((0, -1)));
        for (given, seconds, nanos) in [
            ("5m", 300, 0),
            ("1h30m", 5400, 0),
            ("500ms", 0, 500_000_000),
            ("7d12h5s", 648_005, 0),
            ("0m", 0, 0),
        ] {
            assert_eq!(duration(given), Ok((seconds, nanos)), "{given}");
        }
        for (given, right) in [
            ("90 min", "5400s"),
            ("1.5h", "5400s"),
            ("30m1h", "5400s"),
            ("3600", "3600s"),
            ("2 days", "172800s"),
        ] {
            let hint = format!("a duration has a unit; write \"{right}\"");
            assert_eq!(duration(given), Err(hint), "{given}");
        }
        for wrong in [
            "",
            "s",
            "m",
            "5m ",
            "-5m",
            "99999999999d",
            "9999999999999999999999h",
            "1.s",
            "1.5.5s",
            "soon",
            "1.0000000001s",
            "315576000001s",
            "99999999999999999999999s",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn base64_both_ways() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", &[255, 254, 253]] {
            let text = to_base64(bytes);
            assert_eq!(base64(&text).as_deref(), Some(bytes), "{text}");
            assert_eq!(base64(text.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        assert_eq!(to_base64(b"foob"), "Zm9vYg==");
        for wrong in ["Z", "Zm9vYh==", "Zm9v=", "Zm 9v", "===="] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }
}
