//! Scenes as SVG.

use std::fmt::Write as _;

use super::scene::{Anchor, Colour, Item, PAPER, Scene, Size};

impl Scene {
    /// The picture as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let Self { width, height, items } = self;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"'Noto Sans Mono','DejaVu Sans Mono',Menlo,Consolas,monospace\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
            hex(PAPER)
        );
        for item in items {
            self::item(item, &mut text);
        }
        text.push_str("</svg>\n");
        text
    }
}

fn item(item: &Item, out: &mut String) {
    let _ = match item {
        Item::Box { x, y, width, height, fill } => writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
            hex(*fill)
        ),
        Item::Line { points, colour, width, dashed } => {
            let mut path = String::new();
            for (at, (x, y)) in points.iter().enumerate() {
                let _ = write!(path, "{}{x:.1},{y:.1}", if at == 0 { "" } else { " " });
            }
            let dashes = if *dashed { " stroke-dasharray=\"7 5\"" } else { "" };
            writeln!(
                out,
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}/>",
                hex(*colour)
            )
        }
        Item::Text { x, y, text, anchor, size, colour } => {
            let anchor = match anchor {
                Anchor::Left => "start",
                Anchor::Middle => "middle",
                Anchor::Right => "end",
            };
            let (pixels, weight) = match size {
                Size::Plain => (12, ""),
                Size::Title => (15, " font-weight=\"bold\""),
            };
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{pixels}\"{weight} text-anchor=\"{anchor}\" dominant-baseline=\"central\" fill=\"{}\">{text}</text>",
                hex(*colour)
            )
        }
    };
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
