//! As SVG: a column per rail with its spines on top, a row per pod, in each cell the leaf and its servers.
//!
//! Up to some hundreds of servers every server is a square of its own; beyond that a cell is a bar that shows how
//! many are in which state, and where there are very many pods a row stands for several.

use std::fmt::Write as _;

use super::{Picture, PodPicture, PortState, counts, lacking};

/// Servers that are drawn one by one at most.
const SQUARES: usize = 1200;
/// Rows at most; more pods share them.
const ROWS: usize = 64;

const INK: &str = "#24323d";
const SOFT: &str = "#7b8a94";
const LINE: &str = "#c9d2d8";

fn colour(state: PortState) -> &'static str {
    match state {
        PortState::Up => "#2a9d8f",
        PortState::Half => "#8ab17d",
        PortState::Drained => "#e9c46a",
        PortState::Down => "#d1495b",
        PortState::Missing => "#ffffff",
        PortState::Absent => "#dde3e7",
    }
}

fn word(state: PortState) -> &'static str {
    match state {
        PortState::Up => "up",
        PortState::Half => "one of two ports up",
        PortState::Drained => "drained",
        PortState::Down => "down",
        PortState::Missing => "no cable",
        PortState::Absent => "not joined",
    }
}

/// The text escaped for XML; control characters become spaces.
fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The text, cut to `most` characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(most.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Measures of the drawing, in pixels.
struct Sizes {
    squares: bool,
    left: f64,
    top: f64,
    column: f64,
    gap: f64,
    /// Squares in one line of a cell.
    across: usize,
}

const SQUARE: f64 = 9.0;
const STEP: f64 = 11.0;

impl Sizes {
    fn of(picture: &Picture) -> Self {
        let squares = picture.nodes() <= SQUARES;
        let column: f64 = match (squares, picture.rails) {
            (true, ..=4) => 250.0,
            (true, _) => 190.0,
            (false, ..=4) => 220.0,
            (false, _) => 140.0,
        };
        let across = ((column - 14.0) / STEP) as usize;
        Self { squares, left: 110.0, top: 118.0, column, gap: 14.0, across }
    }

    fn x(&self, rail: usize) -> f64 {
        self.left + rail as f64 * (self.column + self.gap)
    }

    fn height(&self, row: &Row<'_>) -> f64 {
        if !self.squares {
            return 17.0;
        }
        let nodes = row.pods.iter().map(|pod| pod.nodes.len()).sum::<usize>();
        26.0 + nodes.div_ceil(self.across).max(1) as f64 * STEP + 6.0
    }
}

/// Pods that share a row.
struct Row<'a> {
    name: String,
    pods: Vec<&'a PodPicture>,
}

fn row(pods: &[PodPicture]) -> Row<'_> {
    let first = pods.first().map_or("", |pod| &pod.name);
    let name = match pods {
        [one] if one.name.is_empty() => "(no pod)".to_owned(),
        [_] => first.to_owned(),
        pods => format!("{first}…{}", pods.last().map_or("", |pod| &pod.name)),
    };
    Row { name, pods: pods.iter().collect() }
}

fn rows(picture: &Picture) -> Vec<Row<'_>> {
    let each = picture.pods.len().div_ceil(ROWS).max(1);
    picture.pods.chunks(each).map(row).collect()
}

/// The picture as an SVG document.
#[must_use]
pub fn svg(picture: &Picture) -> String {
    let sizes = Sizes::of(picture);
    let rows = rows(picture);
    let gap = if sizes.squares { 10.0 } else { 4.0 };
    let body: f64 = rows.iter().map(|row| sizes.height(row) + gap).sum();
    let lacking = lacking(picture);
    let foot = 46.0 + lacking.len().min(12) as f64 * 15.0 + if lacking.len() > 12 { 15.0 } else { 0.0 };
    let width = (sizes.x(picture.rails) + 20.0).max(760.0);
    let height = sizes.top + body + foot + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"Inter, Helvetica, Arial, sans-serif\" fill=\"{INK}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fbfcfc\"/>\n"
    );
    let title = picture.title();
    let (name, counts) = title.split_once(": ").unwrap_or((&title, ""));
    let _ =
        writeln!(out, "<text x=\"20\" y=\"34\" font-size=\"20\" font-weight=\"600\">{}</text>", safe(name));
    let _ = writeln!(out, "<text x=\"20\" y=\"54\" font-size=\"12\" fill=\"{SOFT}\">{}</text>", safe(counts));
    let mut ends = Vec::new();
    let mut y = sizes.top;
    for row in &rows {
        ends.push(y);
        y += sizes.height(row) + gap;
    }
    for rail in 0..picture.rails {
        column(picture, &sizes, rail, &ends, &mut out);
    }
    for (row, y) in rows.iter().zip(&ends) {
        pods(picture, &sizes, row, *y, &mut out);
    }
    legend(picture, y + 14.0, &mut out);
    notes(&lacking, y + 40.0, &mut out);
    out.push_str("</svg>\n");
    out
}

/// A rail's name, its spines, and the trunk from them to its leaves.
fn column(picture: &Picture, sizes: &Sizes, rail: usize, ends: &[f64], out: &mut String) {
    let x = sizes.x(rail);
    let spines = picture.spines[rail];
    let middle = x + sizes.column / 2.0;
    let (reported, dash, fill) = match spines {
        spines if spines.count == 0 => {
            ("spines not named".to_owned(), " stroke-dasharray=\"3 3\"", "#ffffff")
        }
        spines if spines.down == 0 => (format!("{} spines", spines.count), "", "#e7eef1"),
        spines => (format!("{} spines, {} down", spines.count, spines.down), "", "#f6dede"),
    };
    let _ = writeln!(out, "<g stroke=\"{LINE}\" stroke-width=\"1.2\" fill=\"none\"{dash}>");
    let trunk = x - 5.0;
    if let Some(last) = ends.last() {
        let _ = writeln!(out, "<path d=\"M{middle:.1} 104 V110 H{trunk:.1} V{:.1}\"/>", last + 8.0);
    }
    for y in ends {
        let _ = writeln!(out, "<path d=\"M{trunk:.1} {:.1} H{x:.1}\"/>", y + 8.0);
    }
    out.push_str("</g>\n");
    let _ = writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"76\" font-size=\"12\" font-weight=\"600\" text-anchor=\"middle\">rail {rail}</text>\n\
         <rect x=\"{x:.1}\" y=\"83\" width=\"{:.1}\" height=\"21\" rx=\"4\" fill=\"{fill}\" stroke=\"{LINE}\"{dash}/>\n\
         <text x=\"{middle:.1}\" y=\"97.5\" font-size=\"11\" text-anchor=\"middle\">{reported}</text>",
        sizes.column
    );
}

/// A row of cells.
fn pods(picture: &Picture, sizes: &Sizes, row: &Row<'_>, y: f64, out: &mut String) {
    let nodes: usize = row.pods.iter().map(|pod| pod.nodes.len()).sum();
    let (name, size) = (safe(&cut(&row.name, 16)), if sizes.squares { 12.0 } else { 10.0 });
    let base = if sizes.squares { y + 13.0 } else { y + 12.0 };
    let _ = writeln!(
        out,
        "<text x=\"20\" y=\"{base:.1}\" font-size=\"{size}\" font-weight=\"600\">{name}</text>"
    );
    if sizes.squares {
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"{:.1}\" font-size=\"10\" fill=\"{SOFT}\">{nodes} servers</text>",
            base + 14.0
        );
    } else {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{base:.1}\" font-size=\"9\" fill=\"{SOFT}\" text-anchor=\"end\">{nodes}</text>",
            sizes.left - 12.0
        );
    }
    for rail in 0..picture.rails {
        if sizes.squares {
            squares(picture, sizes, row, rail, y, out);
        } else {
            bar(picture, sizes, row, rail, y, out);
        }
    }
}

fn squares(picture: &Picture, sizes: &Sizes, row: &Row<'_>, rail: usize, y: f64, out: &mut String) {
    let (x, height) = (sizes.x(rail), sizes.height(row));
    let affixes = picture.affixes();
    let leaves: Vec<_> = row.pods.iter().filter_map(|pod| pod.leaves.get(rail)).flatten().collect();
    let names: Vec<&str> = leaves.iter().map(|leaf| picture.short(&leaf.name, affixes)).collect();
    let full: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    let down = leaves.iter().any(|leaf| leaf.down);
    let edge = if down { colour(PortState::Down) } else { LINE };
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"4\" fill=\"#ffffff\" stroke=\"{edge}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10.5\" fill=\"{}\">{}</text></g>",
        safe(&full.join(", ")),
        sizes.column,
        x + 7.0,
        y + 15.0,
        if down { colour(PortState::Down) } else { INK },
        safe(&cut(&names.join(" + "), sizes.column as usize / 7)),
    );
    for (at, node) in row.pods.iter().flat_map(|pod| &pod.nodes).enumerate() {
        let state = node.ports.get(rail).copied().unwrap_or_default();
        let (column, line) = (at % sizes.across, at / sizes.across);
        let stroke = if matches!(state, PortState::Missing | PortState::Absent) { SOFT } else { "none" };
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{SQUARE}\" height=\"{SQUARE}\" rx=\"1.5\" fill=\"{}\" stroke=\"{stroke}\" stroke-width=\"0.8\"><title>{}: {}</title></rect>",
            x + 7.0 + column as f64 * STEP,
            y + 23.0 + line as f64 * STEP,
            colour(state),
            safe(&node.name),
            word(state)
        );
    }
}

/// How many servers are in which state, as a bar.
fn bar(picture: &Picture, sizes: &Sizes, row: &Row<'_>, rail: usize, y: f64, out: &mut String) {
    let x = sizes.x(rail);
    let mut sums: std::collections::BTreeMap<PortState, usize> = std::collections::BTreeMap::new();
    for pod in &row.pods {
        for (state, count) in counts(pod, rail) {
            *sums.entry(state).or_default() += count;
        }
    }
    let total: usize = sums.values().sum();
    let leaves: Vec<_> = row.pods.iter().filter_map(|pod| pod.leaves.get(rail)).flatten().collect();
    let down = leaves.iter().filter(|leaf| leaf.down).count();
    let reported: Vec<String> =
        sums.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let names = leaves.first().map_or("-", |leaf| &leaf.name);
    let more = if leaves.len() > 1 { format!(" and {} more", leaves.len() - 1) } else { String::new() };
    let down = if down > 0 { format!("; {down} leaves down") } else { String::new() };
    let _ = writeln!(out, "<g><title>{}{more}: {}{down}</title>", safe(names), reported.join(", "));
    let mut at = x;
    for (state, count) in &sums {
        // What is not up can be seen however little it is.
        let share = sizes.column * *count as f64 / total.max(1) as f64;
        let wide = if *state == PortState::Up { share } else { share.max(3.0) }.min(x + sizes.column - at);
        let _ = writeln!(
            out,
            "<rect x=\"{at:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"17\" fill=\"{}\"/>",
            colour(*state)
        );
        at += wide;
    }
    let up = sums.get(&PortState::Up).copied().unwrap_or(0);
    let (edge, ink) = if down.is_empty() { (LINE, "#ffffff") } else { (colour(PortState::Down), INK) };
    let label = if up == total {
        picture.short(names, picture.affixes()).to_owned()
    } else {
        format!("{up} of {total} up")
    };
    let label = if row.pods.len() > 1 { format!("{up} of {total} up") } else { label };
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"17\" fill=\"none\" stroke=\"{edge}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9.5\" fill=\"{}\">{}</text></g>",
        sizes.column,
        x + 5.0,
        y + 12.0,
        if up * 2 > total { ink } else { INK },
        safe(&cut(&label, sizes.column as usize / 6)),
    );
}

fn legend(picture: &Picture, y: f64, out: &mut String) {
    let used: std::collections::BTreeSet<PortState> =
        picture.pods.iter().flat_map(|pod| &pod.nodes).flat_map(|node| node.ports.iter().copied()).collect();
    let mut x = 20.0;
    for state in used {
        let stroke = if matches!(state, PortState::Missing | PortState::Absent) { SOFT } else { "none" };
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\" stroke=\"{stroke}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"11\">{}</text>",
            y - 9.0,
            colour(state),
            x + 15.0,
            word(state)
        );
        x += 30.0 + word(state).len() as f64 * 6.5;
    }
}

fn notes(lacking: &[(&PodPicture, &super::NodePicture, String)], y: f64, out: &mut String) {
    for (at, (pod, node, reported)) in lacking.iter().take(12).enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"{:.1}\" font-size=\"11\">{}  <tspan font-weight=\"600\">{}</tspan>: {}</text>",
            y + at as f64 * 15.0,
            safe(&pod.name),
            safe(&node.name),
            safe(reported)
        );
    }
    if lacking.len() > 12 {
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"{:.1}\" font-size=\"11\" fill=\"{SOFT}\">and {} more servers that are not whole</text>",
            y + 12.0 * 15.0,
            lacking.len() - 12
        );
    }
}
