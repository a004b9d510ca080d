//! Microsoft Philly, as derived by the Pollux and Sia authors: `timestamp,duration,num_gpus,gpu_time,cluster`.

use super::{
    fields::{Fields, gpus, run, shown},
    row::{Account, Asks, Fault, MAX_TIME, Read, TraceJob},
};

pub(super) const NEEDED: [&str; 3] = ["timestamp", "duration", "num_gpus"];

pub(super) fn read(fields: &Fields<'_>, line: u64, account: &mut Account) -> Result<Read, Fault> {
    let text = fields.text("timestamp");
    if text.is_empty() {
        return Err(Fault::new("Missing", "timestamp", "nothing is there"));
    }
    let submit = timestamp(text)?;
    let mut length = run(fields.needed("duration")?, "duration")?;
    let (gpus, part) = gpus(fields.needed("num_gpus")?, "num_gpus")?;
    let said = fields.number("gpu_time")?;
    if part {
        account.repair("PartOfAGpu", line, "num_gpus", format_args!("rounded up to {gpus}"));
    }
    if length == 0 {
        length = 1000;
        account.repair("ZeroLength", line, "duration", "taken for one second");
    }
    let product = length as f64 / 1e3 * f64::from(gpus);
    if let Some(said) = said.filter(|said| (said - product).abs() > 1.0 + product * 1e-6) {
        let what = format_args!("{said} is not duration x num_gpus = {product}; those two are believed");
        account.repair("GpuTime", line, "gpu_time", what);
    }
    let tenant = fields.text("cluster").to_owned();
    Ok(Read::ended(TraceJob {
        line,
        submit,
        run: length,
        limit: None,
        gpus,
        tenant,
        own: None,
        asks: Asks::default(),
    }))
}

/// `YYYY-MM-DD HH:MM:SS[.fff]`, as milliseconds since 1970 (UTC), or seconds since then.
fn timestamp(text: &str) -> Result<u64, Fault> {
    let bad = || {
        let what = format!("'{}' is not YYYY-MM-DD HH:MM:SS, nor seconds since 1970", shown(text));
        Fault::new("NotATime", "timestamp", what)
    };
    if let Ok(seconds) = text.parse::<f64>() {
        if !seconds.is_finite() {
            return Err(bad());
        }
        return super::fields::time(seconds, "timestamp");
    }
    let (date, clock) = text.split_once([' ', 'T']).ok_or_else(bad)?;
    let clock = clock.trim_end_matches('Z');
    let mut date = date.split('-');
    let mut next = |width: usize| -> Option<i64> {
        let part =
            date.next().filter(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_digit()))?;
        part.parse().ok()
    };
    let (year, month, day) = (next(4), next(2), next(2));
    let (Some(year), Some(month), Some(day), None) = (year, month, day, date.next()) else {
        return Err(bad());
    };
    let mut clock = clock.split(':');
    let mut next = || clock.next().filter(|part| part.len() >= 2 && part.as_bytes()[0].is_ascii_digit());
    let (Some(hour), Some(minute), Some(second), None) = (next(), next(), next(), clock.next()) else {
        return Err(bad());
    };
    let (Ok(hour), Ok(minute), Ok(second)) =
        (hour.parse::<i64>(), minute.parse::<i64>(), second.parse::<f64>())
    else {
        return Err(bad());
    };
    let length = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let fits = (1970..=2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=length).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..61.0).contains(&second);
    if !fits {
        let what = format!("'{}' is no time from 1970 to 2200", shown(text));
        return Err(Fault::new("Absurd", "timestamp", what));
    }
    let millis = (days(year, month, day) * 86_400 + hour * 3600 + minute * 60) * 1000;
    Ok(u64::try_from(millis).unwrap_or(0).saturating_add((second * 1e3).round() as u64).min(MAX_TIME))
}

/// Days from 1970-01-01 (Howard Hinnant's algorithm).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
