//! As SVG: a row for each attempt with what it did, below it a row for each rank with its server, all over one axis of time.
//!
//! Every bar says in words what it is, where there is room for that, and always when it is pointed at.

use std::{fmt::Write as _, time::Duration};

use proto_model::many;

use super::{
    json::rfc3339,
    model::{Instant, Span, Stage, Timeline, between},
    perfetto::label,
};
use crate::{
    error::human,
    render::{clean, escape},
};

const INK: &str = "#24323d";
const SOFT: &str = "#7b8a94";
const LINE: &str = "#c9d2d8";
const BAD: &str = "#d1495b";

/// Width of the picture, and of what stands to the left of its axis, in pixels.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
/// Height of a row, and of the bar in it.
const ROW: f64 = 20.0;
const BAR: f64 = 14.0;
/// Ranks that are drawn; those that failed come first.
const RANKS: usize = 256;
/// Moments that are listed below; the last one always.
const MOMENTS: usize = 40;
/// Width of a letter of the small font, about.
const LETTER: f64 = 6.2;

const fn colour(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "#e9c46a",
        Stage::Starting => "#8fb8de",
        Stage::Running => "#2a9d8f",
        Stage::Stopping => "#e08e79",
    }
}

/// The life of a job as an SVG document.
#[must_use]
pub fn svg(of: &Timeline) -> String {
    let attempts = of.attempts();
    let ranks = ranks(of);
    let shown = ranks.len().min(RANKS);
    let top = 118.0;
    let below = top + ROW * attempts.len() as f64 + 12.0;
    let notes = below + ROW * shown as f64 + if ranks.len() > shown { ROW } else { 0.0 } + 30.0;
    let lines = of.instants.len().min(MOMENTS) + of.missing.len() + usize::from(of.instants.len() > MOMENTS);
    let height = notes + 16.0 * lines as f64 + 24.0;
    let mut out = String::new();
    head(of, height, &mut out);
    axis(of, top, notes - 24.0, &mut out);
    for (at, attempt) in attempts.iter().enumerate() {
        let y = top + ROW * at as f64;
        row_label(&format!("attempt {attempt}"), y, &mut out);
        for span in of.spans.iter().filter(|span| span.attempt == *attempt) {
            stage(of, span, y, &mut out);
        }
    }
    for (at, one) in ranks.iter().take(shown).enumerate() {
        rank(of, one, below + ROW * at as f64, &mut out);
    }
    if ranks.len() > shown {
        let more = format!("and {}", many(ranks.len() - shown, "more rank"));
        row_label(&more, below + ROW * shown as f64, &mut out);
    }
    moments(of, top, notes, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Text escaped for XML; control characters, which XML has none of, become spaces.
fn safe(text: &str) -> String {
    escape(&clean(text))
}

/// The text, cut to as many characters as have room.
fn cut(text: &str, room: f64) -> String {
    let most = (room / LETTER).max(0.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(most.saturating_sub(1)).collect();
    out.push('…');
    out
}

fn text_at(x: f64, y: f64, size: f64, fill: &str, text: &str, out: &mut String) {
    let text = safe(text);
    let _ =
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\">{text}</text>");
}

fn row_label(text: &str, y: f64, out: &mut String) {
    text_at(20.0, y + 11.0, 11.0, INK, &cut(text, LEFT - 26.0), out);
}

/// Where a moment stands.
fn x(of: &Timeline, time: i64) -> f64 {
    let whole = between(of.begin, of.end).as_secs_f64().max(1e-6);
    let passed = between(of.begin, time.min(of.end)).as_secs_f64();
    LEFT + (WIDTH - LEFT - RIGHT) * passed / whole
}

fn head(of: &Timeline, height: f64, out: &mut String) {
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         font-family=\"Inter, Helvetica, Arial, sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fbfcfc\"/>\n"
    );
    text_at(20.0, 34.0, 20.0, INK, &format!("job {}/{}: {}", of.tenant, of.name, of.phase), out);
    let (from, to) = (rfc3339(of.begin), rfc3339(of.end));
    let open = if of.open { ", and it goes on" } else { "" };
    let whole = human(between(of.begin, of.end));
    text_at(20.0, 54.0, 12.0, SOFT, &format!("from {from} to {to}: {whole}{open}"), out);
    let mut at = 20.0;
    for stage in Stage::ALL {
        let reported = format!("{} {}", stage.word(), human(of.spent(stage)));
        let fill = colour(stage);
        let _ = writeln!(
            out,
            "<rect x=\"{at:.1}\" y=\"66\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{fill}\"/>"
        );
        text_at(at + 15.0, 75.0, 11.0, INK, &reported, out);
        at += 36.0 + LETTER * reported.len() as f64;
    }
}

/// A step that people count in, so that there are some ten of it at most; in seconds.
fn step(whole: f64) -> f64 {
    const STEPS: [f64; 22] = [
        0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
        3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 604_800.0,
    ];
    STEPS.into_iter().find(|step| whole / step <= 10.0).unwrap_or(whole / 10.0)
}

/// Lines of time, counted from the submit.
fn axis(of: &Timeline, top: f64, bottom: f64, out: &mut String) {
    let whole = between(of.begin, of.end).as_secs_f64();
    let each = step(whole);
    let _ = writeln!(out, "<g stroke=\"{LINE}\" stroke-width=\"1\">");
    let at = |passed: f64| LEFT + (WIDTH - LEFT - RIGHT) * passed / whole.max(1e-6);
    let count = (whole / each) as u32;
    for n in 0..=count {
        let x = at(f64::from(n) * each);
        let _ = writeln!(out, "<path d=\"M{x:.1} {:.1} V{bottom:.1}\"/>", top - 12.0);
    }
    out.push_str("</g>\n");
    for n in 0..=count {
        let passed = Duration::try_from_secs_f64(f64::from(n) * each).unwrap_or_default();
        let name = if n == 0 { "submit".to_owned() } else { format!("+{}", human(passed)) };
        text_at(at(f64::from(n) * each) + 2.0, top - 16.0, 10.0, SOFT, &name, out);
    }
}

fn bar(
    (from, to): (f64, f64),
    y: f64,
    (fill, edge): (&str, &str),
    title: &str,
    word: &str,
    out: &mut String,
) {
    let wide = (to - from).max(1.5);
    let _ = write!(
        out,
        "<g><title>{}</title><rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{fill}\" stroke=\"{edge}\"/>",
        safe(title)
    );
    if wide > LETTER * 4.0 {
        let (x, base, word) = (from + 4.0, y + 10.5, safe(&cut(word, wide - 8.0)));
        let _ =
            write!(out, "<text x=\"{x:.1}\" y=\"{base:.1}\" font-size=\"10\" fill=\"{INK}\">{word}</text>");
    }
    out.push_str("</g>\n");
}

fn stage(of: &Timeline, span: &Span, y: f64, out: &mut String) {
    let took = human(between(span.begin, span.end));
    let mut title =
        format!("attempt {}: {} {took}, from {}", span.attempt, span.stage.word(), rfc3339(span.begin));
    for cause in &span.causes {
        let _ = write!(title, "; {}: {}", cause.code, cause.message);
    }
    let ends = (x(of, span.begin), x(of, span.end));
    bar(ends, y, (colour(span.stage), "none"), &title, &format!("{} {took}", span.stage.word()), out);
}

/// A row of a rank: its label, its ends, how it ended, and whether that is bad.
struct Row {
    label: String,
    begin: i64,
    end: i64,
    word: String,
    failed: bool,
}

/// Those that failed first.
fn ranks(of: &Timeline) -> Vec<Row> {
    let mut rows = Vec::new();
    for track in &of.nodes {
        for one in &track.ranks {
            let again = if one.attempt > 1 { format!(", attempt {}", one.attempt) } else { String::new() };
            let end = if one.open { "running" } else { &one.exit };
            let row = Row {
                label: format!("rank {} on {}{again}", one.rank, label(&track.node)),
                begin: one.begin,
                end: one.end,
                word: format!("{end} {}", human(between(one.begin, one.end))).trim_start().to_owned(),
                failed: one.failed,
            };
            rows.push(((!one.failed, one.attempt, one.rank), row));
        }
    }
    rows.sort_by_key(|(key, _)| *key);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn rank(of: &Timeline, row: &Row, y: f64, out: &mut String) {
    row_label(&row.label, y, out);
    let word = if row.failed { format!("! {}", row.word) } else { row.word.clone() };
    let style = if row.failed { ("#f6dede", BAD) } else { ("#d3ebe7", "none") };
    let title = format!("{}: {word}, from {}", row.label, rfc3339(row.begin));
    bar((x(of, row.begin), x(of, row.end)), y, style, &title, &word, out);
}

/// The mark of a moment on the axis, and what it is.
fn moment(of: &Timeline, one: &Instant, top: f64, y: f64, out: &mut String) {
    let (at, fill) = (x(of, one.time), if one.bad { BAD } else { INK });
    let title = safe(&format!("{}: {}", one.code, one.message));
    let tip = top - 3.0;
    let _ = writeln!(
        out,
        "<path d=\"M{at:.1} {tip:.1} l-4 -7 h8 z\" fill=\"{fill}\"><title>{title}</title></path>"
    );
    let mark = if one.bad { "! " } else { "" };
    let passed = human(between(of.begin, one.time));
    let line = format!("{mark}+{passed}  {}: {}", one.code, one.message);
    let line = line.trim_end_matches([':', ' ']);
    text_at(20.0, y, 11.0, fill, &cut(line, WIDTH - 40.0), out);
}

/// A mark for each moment on the axis, and below what each is.
fn moments(of: &Timeline, top: f64, notes: f64, out: &mut String) {
    let mut y = notes;
    let (first, left_out, last) = of.moments(MOMENTS);
    for one in first {
        moment(of, one, top, y, out);
        y += 16.0;
    }
    if left_out > 0 {
        let more = format!("and {}; -o json has all", many(left_out, "more moment"));
        text_at(20.0, y, 11.0, SOFT, &more, out);
        y += 16.0;
    }
    for one in last {
        moment(of, one, top, y, out);
        y += 16.0;
    }
    for line in &of.missing {
        text_at(20.0, y, 11.0, SOFT, &format!("note: {line}"), out);
        y += 16.0;
    }
}
