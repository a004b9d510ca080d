//! Values that clap does not know: durations, labels, rank lists, rates, output formats.

use std::{fmt, str::FromStr, time::Duration};

use clap::ValueEnum;
use proto_model::{LongJobLimit, Objective};

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// Columns with a header
    #[default]
    Table,
    /// More columns
    Wide,
    /// The canonical JSON of the API's answer
    Json,
    /// The same as YAML
    Yaml,
    /// Only kind/name, one per line
    Name,
}

/// Reads `90`, `90s`, `500ms`, `10m`, `2h`, `7d` and sums such as `1h30m`. A plain number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: write for example 30s, 500ms, 10m, 1h30m, 7d");
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u32 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => Duration::from_secs(86_400),
            _ => return Err(wrong()),
        };
        rest = &rest[unit_end..];
        total = unit.checked_mul(number).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
    }
    if text.trim().is_empty() { Err(wrong()) } else { Ok(total) }
}

/// Reads a size in bytes: `64Gi`, `64GiB`, `512M`, `1.5Ti`. A plain number is bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a size: write for example 64Gi, 512Mi, 1Ti, 64GB, or a number of bytes");
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].to_ascii_lowercase());
    let power = |base: u64, letter: char| {
        let exponent = "kmgtp".find(letter).and_then(|at| u32::try_from(at + 1).ok());
        exponent.and_then(|exponent| base.checked_pow(exponent))
    };
    let mut letters = unit.strip_suffix('b').unwrap_or(&unit).chars();
    let factor = match (letters.next(), letters.next(), letters.next()) {
        (None, ..) => Some(1),
        (Some(letter), None, _) => power(1000, letter),
        (Some(letter), Some('i'), None) => power(1024, letter),
        _ => None,
    };
    let factor = factor.ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !whole.bytes().all(|byte| byte.is_ascii_digit())
        || !digits(part)
        || (part.is_empty() && number.contains('.'))
    {
        return Err(wrong());
    }
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(factor)).ok_or_else(wrong)?;
    if part.is_empty() {
        return Ok(whole);
    }
    // Not every size has a fraction that is whole bytes: it is rounded down.
    let tenths = 10_u128.pow(u32::try_from(part.len()).unwrap_or(9));
    let part = part.parse::<u128>().map_err(|_| wrong())? * u128::from(factor) / tenths;
    u64::try_from(part).ok().and_then(|part| whole.checked_add(part)).ok_or_else(wrong)
}

/// Reads `mean-wait`, `large-first` or `fair`, the first two with a patience, and behind it with the GPU-hours that are put
/// back by all of it: `mean-wait:2d`, `mean-wait:16d:12000`.
pub fn parse_objective(text: &str) -> Result<Objective, String> {
    Objective::parse(text, parse_duration)
}

/// Reads `TIME:BELOW:GPUS`, for example `72h:8:100`.
pub fn parse_long_jobs(text: &str) -> Result<LongJobLimit, String> {
    LongJobLimit::parse(text, parse_duration)
}

/// A moment in the past.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// At this time.
    At(prost_types::Timestamp),
    /// So long ago.
    Ago(Duration),
}

impl Moment {
    /// The time that is meant, `now` being seconds since 1970.
    #[must_use]
    pub fn time(self, now: f64) -> prost_types::Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(ago) => {
                let then = Duration::from_secs_f64((now - ago.as_secs_f64()).max(0.0));
                let seconds = i64::try_from(then.as_secs()).unwrap_or(i64::MAX);
                let nanos = i32::try_from(then.subsec_nanos()).unwrap_or(0);
                prost_types::Timestamp { seconds, nanos }
            }
        }
    }
}

/// Reads `2026-08-20T10:00:00Z`, `2026-08-20` (its begin, UTC), or how long ago: `90m`.
pub fn parse_moment(text: &str) -> Result<Moment, String> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(Moment::Ago(ago));
    }
    let wrong =
        || format!("`{text}` is not a time: write for example 2026-08-20T10:00:00Z, or 90m for so long ago");
    // A day begins at its midnight, UTC.
    let day = format!("{text}T00:00:00Z");
    text.parse().or_else(|_| day.parse()).map(Moment::At).map_err(|_| wrong())
}

/// Reads a line rate in Mbit/s: `400G`, `400gbit`, `1.6T`, or a plain number of Mbit/s.
pub fn parse_speed(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a speed: write for example 400G, 1.6T, or a number of Mbit/s");
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower.strip_suffix("bit").or_else(|| lower.strip_suffix("bps")).unwrap_or(&lower);
    let (digits, factor) = match lower.chars().last() {
        Some('t') => (&lower[..lower.len() - 1], 1e6),
        Some('g') => (&lower[..lower.len() - 1], 1e3),
        Some('m') => (&lower[..lower.len() - 1], 1.0),
        _ => (lower, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let mbps = number * factor;
    if !(1.0..=1e9).contains(&mbps) || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(wrong());
    }
    Ok(mbps.round() as u64)
}

/// Reads one `key=value`.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a label: write key=value")),
    }
}

/// Reads `pods=1,nodes=2,gpus=4`.
pub fn parse_shape(text: &str) -> Result<proto_wire::v1::Shape, String> {
    let wrong = || format!("`{text}` is not a shape: write for example pods=1,nodes=2,gpus=4");
    let mut shape = proto_wire::v1::Shape::default();
    for part in text.split(',') {
        let (what, count) = part.split_once('=').ok_or_else(wrong)?;
        let field = match what {
            "pods" => &mut shape.pods,
            "nodes" => &mut shape.nodes,
            "gpus" => &mut shape.gpus,
            _ => return Err(wrong()),
        };
        *field = count.parse().map_err(|_| wrong())?;
    }
    Ok(shape)
}

/// The most ranks that one request names; a list beyond that is a slip of the keyboard.
const MAX_RANKS: usize = 65_536;

/// Reads `3`, `0-7` and lists such as `0,2,4-6`.
pub fn parse_ranks(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("`{text}` is not a list of ranks: write for example 3, 0-7 or 0,2,4-6");
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        let more = usize::try_from(last.checked_sub(first).ok_or_else(wrong)?).map_err(|_| wrong())?;
        if ranks.len() + more >= MAX_RANKS {
            return Err(format!("`{text}` names more than {MAX_RANKS} ranks"));
        }
        ranks.extend(first..=last);
    }
    Ok(ranks)
}

/// A line rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In bits per second, 1 kbit being 1000 bits.
    pub bits_per_second: u64,
}

impl Rate {
    /// The slowest rate that a rail can be shaped to.
    const SLOWEST: u64 = 1_000_000;
    /// The fastest.
    const FASTEST: u64 = 100_000_000_000;
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a rate from 1mbit to 100gbit: write for example 400mbit or 1gbit");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit = match &text[digits..] {
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            _ => return Err(wrong()),
        };
        let bits_per_second = number.checked_mul(unit).ok_or_else(wrong)?;
        let sane = (Self::SLOWEST..=Self::FASTEST).contains(&bits_per_second);
        sane.then_some(Self { bits_per_second }).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_second {
            bits if bits % 1_000_000_000 == 0 => write!(f, "{}gbit", bits / 1_000_000_000),
            bits if bits % 1_000_000 == 0 => write!(f, "{}mbit", bits / 1_000_000),
            bits => write!(f, "{}kbit", bits / 1_000),
        }
    }
}

/// Reads `NAME=VALUE`.
pub fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}`: write NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text| parse_duration(text).unwrap().as_secs_f64();
        assert_eq!(seconds("90"), 90.0);
        assert_eq!(seconds("1h30m"), 5400.0);
        assert_eq!(seconds("250ms"), 0.25);
        assert_eq!(seconds("7d"), 604_800.0);
        for bad in ["", "s", "5x", "1.5s", "-1s", "5 s", "1h30", "99999999999s"] {
            assert!(parse_duration(bad).unwrap_err().contains("30s"), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("64Gi", 64 << 30),
            ("64GiB", 64 << 30),
            ("512 Mi", 512 << 20),
            ("1.5Ti", 3 << 39),
            ("64G", 64_000_000_000),
            ("1kb", 1000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "Gi", "-1", "64 gigs", "1.", "1..5Gi", "64GiGi", "20000000Ti", "1e3", "0x10"] {
            assert!(parse_size(bad).unwrap_err().contains("64Gi"), "{bad}");
        }
    }

    #[test]
    fn ranks() {
        assert_eq!(parse_ranks("0,2,4-6").unwrap(), [0, 2, 4, 5, 6]);
        for bad in ["", "a", "3-1", "1,,2", "-1", "0-4294967295"] {
            assert!(parse_ranks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_and_labels() {
        let rate: Rate = "400mbit".parse().unwrap();
        assert_eq!((rate.bits_per_second, rate.to_string()), (400_000_000, "400mbit".into()));
        assert_eq!("2500000kbit".parse::<Rate>().unwrap().to_string(), "2500mbit");
        for bad in ["400", "mbit", "0mbit", "1kbit", "101gbit", "4 mbit", "18446744073709551615gbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(
            (parse_speed("400G"), parse_speed("1.6tbit"), parse_speed("200000")),
            (Ok(400_000), Ok(1_600_000), Ok(200_000))
        );
        for bad in ["", "G", "-1G", "infG", "1e30", "4x", "0"] {
            assert!(parse_speed(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_label("team=nlp=x").unwrap(), ("team".into(), "nlp=x".into()));
        assert!(parse_label("=x").is_err() && parse_label("team").is_err());
    }
}
