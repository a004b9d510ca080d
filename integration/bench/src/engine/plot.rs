//! Draws what was printed: one SVG a row, one group of bars a case.

use std::{fs, path::Path};

use plotters::{
    prelude::{DrawingBackend, IntoDrawingArea, PathElement, Rectangle, SVGBackend, Text, TextStyle},
    style::{Color, IntoFont, RGBColor, ShapeStyle},
};
use serde_json::Value;

use crate::report::Report;

/// Height of one bar with its gap, in pixels.
const BAR: i32 = 18;
/// Where bars begin and how long the longest is.
const LEFT: i32 = 190;
const LONGEST: f64 = 520.0;
const WIDTH: u32 = 900;

const OURS: RGBColor = RGBColor(0x1b, 0x6c, 0xa8);
const OTHERS: RGBColor = RGBColor(0xb8, 0xb8, 0xb8);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GOAL: RGBColor = RGBColor(0xc0, 0x39, 0x2b);

/// One bar of a plot.
struct Bar {
    label: String,
    value: f64,
    least: f64,
    most: f64,
}

/// One case: a heading, its bars, and where the goal lies among them.
struct Chart {
    heading: String,
    bars: Vec<Bar>,
    goal: Option<f64>,
}

/// Draws all rows that have figures into a folder.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn plot(report: &Report, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lines = report.lines();
    let mut rows: Vec<&str> = lines.iter().filter_map(|line| line["row"].as_str()).collect();
    rows.dedup();
    for row in rows {
        let charts: Vec<Chart> = lines.iter().filter(|line| line["row"] == row).flat_map(charts).collect();
        let path = folder.join(format!("{row}.svg"));
        draw(&path, &charts).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("drew {}", path.display());
    }
    Ok(())
}

/// The line's own figure, and its peers' in their unit where they have another.
fn charts(line: &Value) -> Vec<Chart> {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let number = |value: &Value, or: f64| value.as_f64().unwrap_or(or);
    let Some(value) = line["value"].as_f64() else { return Vec::new() };
    let verdict = match &line["holds"] {
        Value::Bool(true) => ", holds",
        Value::Bool(false) => ", falls short",
        Value::String(_) => ", void",
        _ => "",
    };
    let bar = Bar {
        label: "ours".to_owned(),
        value,
        least: number(&line["min"], value),
        most: number(&line["max"], value),
    };
    let own = Chart {
        heading: format!("{} [{}]{verdict}", text("case"), text("unit")),
        bars: vec![bar],
        goal: line["goal"].as_f64(),
    };
    let bars: Vec<Bar> = line["peers"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(label, peer)| {
            let value = peer["value"].as_f64()?;
            let (least, most) = (number(&peer["min"], value), number(&peer["max"], value));
            Some(Bar { label: label.clone(), value, least, most })
        })
        .collect();
    if bars.is_empty() {
        return vec![own];
    }
    let unit = line["peers"]["unit"].as_str().unwrap_or_default();
    vec![own, Chart { heading: format!("    side by side [{unit}]"), bars, goal: None }]
}

fn draw(path: &Path, charts: &[Chart]) -> Result<(), String> {
    let rows: usize = charts.iter().map(|chart| chart.bars.len() + 2).sum();
    let height = u32::try_from(rows).unwrap_or(1).saturating_add(1) * BAR.unsigned_abs();
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255)).map_err(|error| error.to_string())?;
    let mut y = BAR / 2;
    for chart in charts {
        y = draw_chart(&area, chart, y).map_err(|error| error.to_string())?;
    }
    area.present().map_err(|error| error.to_string())
}

type Area<B> = plotters::drawing::DrawingArea<B, plotters::coord::Shift>;
type Drawn<B> = Result<i32, plotters::drawing::DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn draw_chart<B: DrawingBackend>(area: &Area<B>, chart: &Chart, top: i32) -> Drawn<B> {
    let style = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    let most = chart.bars.iter().map(|bar| bar.most).chain(chart.goal).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LEFT + (value / most * LONGEST) as i32;
    area.draw(&Text::new(chart.heading.clone(), (10, top), style(14)))?;
    let mut y = top + BAR;
    for bar in &chart.bars {
        let color = if bar.label.starts_with("ours") { OURS } else { OTHERS };
        area.draw(&Text::new(bar.label.clone(), (20, y + 2), style(12)))?;
        area.draw(&Rectangle::new([(LEFT, y + 2), (x(bar.value), y + BAR - 3)], color.filled()))?;
        let whisker = vec![(x(bar.least), y + BAR / 2), (x(bar.most), y + BAR / 2)];
        area.draw(&PathElement::new(whisker, ShapeStyle::from(&INK).stroke_width(1)))?;
        let figure = format!("{:.2}  ({:.2} to {:.2})", bar.value, bar.least, bar.most);
        area.draw(&Text::new(figure, (x(bar.most.max(bar.value)) + 6, y + 2), style(12)))?;
        y += BAR;
    }
    if let Some(goal) = chart.goal {
        let line = vec![(x(goal), top + BAR), (x(goal), y)];
        area.draw(&PathElement::new(line, ShapeStyle::from(&GOAL).stroke_width(2)))?;
    }
    Ok(y + BAR)
}
