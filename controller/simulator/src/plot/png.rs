//! Scenes as PNG: lines with smooth edges, texts in a font of their own, so that every machine draws the same bytes.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use thiserror::Error;

use super::scene::{Anchor, Colour, Item, Scene, Size};

/// Length of a dash and of the gap behind it.
const DASH: (f64, f64) = (7.0, 5.0);

/// A picture that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the picture cannot be written as PNG: {0}")]
pub struct PngError(String);

struct Raster {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Scene {
    /// As PNG.
    ///
    /// # Errors
    /// [`PngError`] where the encoder refuses it.
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        let (width, height) = (self.width as usize, self.height as usize);
        let mut raster = Raster { width, height, pixels: vec![0xff; width * height * 3] };
        for item in &self.items {
            raster.item(item);
        }
        let wrong = |error: png::EncodingError| PngError(error.to_string());
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(wrong)?;
        writer.write_image_data(&raster.pixels).map_err(wrong)?;
        writer.finish().map_err(wrong)?;
        Ok(bytes)
    }
}

impl Raster {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Box { x, y, width, height, fill } => self.fill(*x, *y, *width, *height, *fill),
            Item::Line { points, colour, width, dashed } => {
                for pair in points.windows(2) {
                    if *dashed {
                        self.dashes(pair[0], pair[1], *colour, *width);
                    } else {
                        self.segment(pair[0], pair[1], *colour, *width);
                    }
                }
            }
            Item::Text { x, y, text, anchor, size, colour } => {
                self.text(*x, *y, text, *anchor, *size, *colour);
            }
        }
    }

    /// Mixes a colour in, from 0 (not at all) to 1.
    fn mix(&mut self, x: i64, y: i64, colour: Colour, part: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width || y >= self.height || part <= 0.0 {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (pixel, colour) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            let mixed = f64::from(*pixel) * (1.0 - part) + f64::from(colour) * part;
            *pixel = mixed.round().clamp(0.0, 255.0) as u8;
        }
    }

    fn fill(&mut self, x: f64, y: f64, width: f64, height: f64, colour: Colour) {
        let (right, bottom) = ((x + width).round() as i64, (y + height).round() as i64);
        for row in y.round() as i64..bottom {
            for column in x.round() as i64..right {
                self.mix(column, row, colour, 1.0);
            }
        }
    }

    fn segment(&mut self, a: (f64, f64), b: (f64, f64), colour: Colour, width: f64) {
        let reach = width / 2.0 + 1.0;
        let (low, high) = ((a.0.min(b.0) - reach) as i64, (a.0.max(b.0) + reach) as i64);
        let (top, bottom) = ((a.1.min(b.1) - reach) as i64, (a.1.max(b.1) + reach) as i64);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx * dx + dy * dy;
        for y in top.max(0)..=bottom.min(self.height as i64) {
            for x in low.max(0)..=high.min(self.width as i64) {
                let (px, py) = (x as f64 + 0.5 - a.0, y as f64 + 0.5 - a.1);
                let along = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (px - along * dx).hypot(py - along * dy);
                self.mix(x, y, colour, (width / 2.0 + 0.5 - distance).clamp(0.0, 1.0));
            }
        }
    }

    fn dashes(&mut self, a: (f64, f64), b: (f64, f64), colour: Colour, width: f64) {
        let length = (b.0 - a.0).hypot(b.1 - a.1);
        let on = |at: f64| (a.0 + (b.0 - a.0) * at / length, a.1 + (b.1 - a.1) * at / length);
        let mut at = 0.0;
        while at < length {
            self.segment(on(at), on((at + DASH.0).min(length)), colour, width);
            at += DASH.0 + DASH.1;
        }
    }

    fn text(&mut self, x: f64, y: f64, text: &str, anchor: Anchor, size: Size, colour: Colour) {
        let (weight, raster) = match size {
            Size::Plain => (FontWeight::Regular, RasterHeight::Size16),
            Size::Title => (FontWeight::Bold, RasterHeight::Size20),
        };
        let advance = get_raster_width(weight, raster) as f64;
        let width = advance * text.chars().count() as f64;
        let left = match anchor {
            Anchor::Left => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::Right => x - width,
        };
        let top = (y - size.height() / 2.0).round() as i64;
        for (at, c) in text.chars().enumerate() {
            let left = (left + advance * at as f64).round() as i64;
            let Some(glyph) = get_raster(c, weight, raster).or_else(|| get_raster('?', weight, raster))
            else {
                continue;
            };
            for (row, line) in (top..).zip(glyph.raster()) {
                for (column, part) in (left..).zip(line.iter()) {
                    self.mix(column, row, colour, f64::from(*part) / 255.0);
                }
            }
        }
    }
}
