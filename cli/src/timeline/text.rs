//! For a terminal: a bar for each stage and each rank, with times and durations.

use std::{fmt::Write as _, time::Duration};

use proto_model::many;

use super::{
    json::rfc3339,
    model::{Cause, Instant, RankSpan, Stage, Timeline, between},
    perfetto::label,
};
use crate::{
    error::human,
    render::{Paint, Table, Tone, clean},
};

/// Ranks that are shown; those that failed come first.
const RANKS: usize = 32;
/// Moments that are listed; the last one always.
const MOMENTS: usize = 40;

/// What a bar is drawn with, so that it is told apart without colour.
const fn glyph(stage: Stage) -> char {
    match stage {
        Stage::Waiting => '░',
        Stage::Starting => '▒',
        Stage::Running => '█',
        Stage::Stopping => '▓',
    }
}

const fn tone(stage: Stage) -> Tone {
    match stage {
        Stage::Waiting => Tone::Doubtful,
        Stage::Starting => Tone::Apart,
        Stage::Running => Tone::Good,
        Stage::Stopping => Tone::Bad,
    }
}

/// The life of a job, with bars of so many characters.
#[must_use]
pub fn text(of: &Timeline, width: usize, paint: Paint) -> String {
    let width = width.max(8);
    let mut out = headline(of);
    out.push('\n');
    stages(of, width, paint, &mut out);
    ranks(of, width, paint, &mut out);
    out.push_str("\nwhat happened:\n");
    let (first, left_out, last) = of.moments(MOMENTS);
    moments(first, paint, &mut out);
    if left_out > 0 {
        let _ = writeln!(out, "  and {}; -o json has all", many(left_out, "more moment"));
    }
    moments(last, paint, &mut out);
    for line in &of.missing {
        let _ = writeln!(out, "note: {line}");
    }
    out
}

/// A line for each moment.
fn moments(of: &[Instant], paint: Paint, out: &mut String) {
    for one in of {
        let mark = if one.bad { paint.tone("!", Tone::Bad) } else { " ".to_owned() };
        let line = format!("{mark} {}  {:<14}  {}", clock(one.time), one.code, clean(&one.message));
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// A moment to the millisecond.
fn clock(micros: i64) -> String {
    let text = rfc3339(micros);
    let cut = text.len().saturating_sub("000Z".len());
    text.get(..cut).filter(|text| !text.is_empty()).map_or(String::new(), |text| format!("{text}Z"))
}

/// How long, as people read it: no tenths beyond ten seconds.
fn took(begin: i64, end: i64) -> String {
    short(between(begin, end))
}

fn short(time: Duration) -> String {
    let whole = Duration::from_secs(time.as_secs());
    human(if whole.as_secs() >= 10 { whole } else { time })
}

fn headline(of: &Timeline) -> String {
    let mut parts = Vec::new();
    for stage in Stage::ALL {
        let spent = of.spent(stage);
        if !spent.is_zero() {
            parts.push(format!("{} {}", stage.word(), short(spent)));
        }
    }
    let so_far = if of.open { "so far" } else { "in all" };
    let mut out = format!(
        "job {}/{} is {}: {} {so_far} ({})\n",
        of.tenant,
        of.name,
        of.phase,
        took(of.begin, of.end),
        parts.join(", ")
    );
    let [earliest, likely, latest] = of.expected;
    match (likely, latest, earliest) {
        (Some(likely), Some(latest), _) => {
            let _ = writeln!(
                out,
                "it will probably start in {}, at {}, and by {}",
                took(of.end, likely),
                clock(likely),
                clock(latest)
            );
        }
        (_, None, Some(earliest)) => {
            let _ = writeln!(out, "it will probably not start before {}", clock(earliest));
        }
        _ => {}
    }
    if let Some(limit) = of.limit {
        let _ = writeln!(out, "its time limit is over in {}, at {}", took(of.end, limit), clock(limit));
    }
    out
}

/// From which character to which a span is drawn: at least one.
fn cells(of: &Timeline, width: usize, begin: i64, end: i64) -> (usize, usize) {
    let whole = u128::from(of.end.abs_diff(of.begin)).max(1);
    let at = |time: i64| {
        let passed = u128::from(time.clamp(of.begin, of.end).abs_diff(of.begin));
        usize::try_from(passed * width as u128 / whole).unwrap_or(width)
    };
    let first = at(begin).min(width - 1);
    (first, at(end).clamp(first + 1, width))
}

fn bar(of: &Timeline, width: usize, (begin, end): (i64, i64), drawn: char) -> String {
    let (first, last) = cells(of, width, begin, end);
    let filled: String = std::iter::repeat_n(drawn, last - first).collect();
    format!("|{}{filled}{}|", "·".repeat(first), "·".repeat(width - last))
}

/// Codes of causes, each once.
fn codes(causes: &[Cause]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for cause in causes {
        if !seen.contains(&cause.code.as_str()) {
            seen.push(&cause.code);
        }
    }
    seen.join(", ")
}

fn stages(of: &Timeline, width: usize, paint: Paint, out: &mut String) {
    let mut table = Table::new(["ATTEMPT", "STAGE", "FROM", "TOOK", "BAR", "WHY"]);
    for span in &of.spans {
        let goes_on = if span.open { "+" } else { "" };
        let why = match span.stage {
            Stage::Waiting | Stage::Stopping => codes(&span.causes),
            Stage::Starting | Stage::Running => String::new(),
        };
        table.row([
            span.attempt.to_string(),
            span.stage.word().to_owned(),
            clock(span.begin),
            took(span.begin, span.end) + goes_on,
            bar(of, width, (span.begin, span.end), glyph(span.stage)),
            why,
        ]);
    }
    let drawn = table.render("");
    // Colour comes last: what is not seen has no width.
    let mut lines = drawn.lines();
    let _ = writeln!(out, "{}", lines.next().unwrap_or_default());
    for (line, span) in lines.zip(&of.spans) {
        let _ = writeln!(out, "{}", coloured(line, glyph(span.stage), tone(span.stage), paint));
    }
    if of.open {
        out.push_str("+ goes on\n");
    }
}

/// A line with its bar painted.
fn coloured(line: &str, drawn: char, tone: Tone, paint: Paint) -> String {
    let (Some(first), Some(last)) = (line.find(drawn), line.rfind(drawn)) else { return line.to_owned() };
    let end = last + drawn.len_utf8();
    format!("{}{}{}", &line[..first], paint.tone(&line[first..end], tone), &line[end..])
}

/// Ranks with their servers: those that failed first.
fn ranks(of: &Timeline, width: usize, paint: Paint, out: &mut String) {
    let mut all: Vec<(&str, &RankSpan)> =
        of.nodes.iter().flat_map(|track| track.ranks.iter().map(|one| (label(&track.node), one))).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by_key(|(_, one)| (!one.failed, one.attempt, one.rank));
    let left_out = all.len().saturating_sub(RANKS);
    all.truncate(RANKS);
    let mut table = Table::new(["ATTEMPT", "RANK", "NODE", "TOOK", "BAR", "END"]);
    for (node, one) in &all {
        let goes_on = if one.open { "+" } else { "" };
        let exit = if one.failed { format!("! {}", one.exit) } else { one.exit.clone() };
        table.row([
            one.attempt.to_string(),
            one.rank.to_string(),
            (*node).to_owned(),
            took(one.begin, one.end) + goes_on,
            bar(of, width, (one.begin, one.end), glyph(Stage::Running)),
            exit,
        ]);
    }
    let drawn = table.render("");
    let mut lines = drawn.lines();
    let _ = writeln!(out, "\n{}", lines.next().unwrap_or_default());
    for (line, (_, one)) in lines.zip(&all) {
        let tone = if one.failed { Tone::Bad } else { Tone::Good };
        let _ = writeln!(out, "{}", coloured(line, glyph(Stage::Running), tone, paint));
    }
    if left_out > 0 {
        let _ = writeln!(out, "and {}; -o json has all", many(left_out, "more rank"));
    }
}
