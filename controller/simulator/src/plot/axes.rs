//! A frame with scales.

use super::scene::{Anchor, Colour, GRID, INK, PALE, Scene};

pub(super) const WIDTH: u32 = 1000;
pub(super) const HEIGHT: u32 = 460;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 58.0;
/// From label to label at least.
const LABEL: f64 = 18.0;

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From 0 to this value, evenly.
    Linear(f64),
    /// From the first, which is above 0, to the second, equal ratios alike; what is below lies on the lower border.
    Log(f64, f64),
}

/// A frame with its two scales, in which curves are drawn.
pub(super) struct Frame {
    pub(super) scene: Scene,
    scale: Scale,
}

impl Frame {
    /// A frame with its heading, what the heights mean, and the horizontal lines.
    pub(super) fn new(title: &str, meaning: &str, scale: Scale, labels: &[(f64, String)]) -> Self {
        let mut frame = Self { scene: Scene::new(WIDTH, HEIGHT), scale };
        frame.scene.title(16.0, 20.0, title);
        frame.scene.text(16.0, 44.0, meaning, Anchor::Left, PALE);
        let mut last = f64::INFINITY;
        for (value, label) in labels {
            let y = frame.y(*value);
            // Labels do not lie on one another.
            if last - y < LABEL {
                continue;
            }
            last = y;
            frame.scene.line(vec![(LEFT, y), (frame.right(), y)], GRID, 1.0);
            frame.scene.text(LEFT - 8.0, y, label.clone(), Anchor::Right, INK);
        }
        let (left, right, low) = (LEFT, frame.right(), frame.low());
        frame.scene.line(vec![(left, TOP), (left, low), (right, low)], INK, 1.2);
        frame
    }

    pub(super) fn right(&self) -> f64 {
        f64::from(WIDTH) - RIGHT
    }

    pub(super) fn low(&self) -> f64 {
        f64::from(HEIGHT) - BOTTOM
    }

    /// The height of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear(most) => value / most,
            Scale::Log(least, most) => (value.max(least) / least).ln() / (most / least).ln(),
        };
        self.low() - part.clamp(0.0, 1.0) * (self.low() - TOP)
    }

    /// The place of a part of the width.
    pub(super) fn x(&self, part: f64) -> f64 {
        LEFT + part * (self.right() - LEFT)
    }

    /// A label under the frame.
    pub(super) fn below(&mut self, part: f64, label: impl Into<String>) {
        let (x, y) = (self.x(part), self.low() + 14.0);
        self.scene.text(x, y, label, Anchor::Middle, INK);
    }

    /// A mark at the right border.
    pub(super) fn mark(&mut self, value: f64, colour: Colour) {
        let (x, y) = (self.right(), self.y(value));
        self.scene.rect(x + 4.0, y - 2.0, RIGHT - 8.0, 4.0, colour);
    }

    /// Writes under the frame what its width means.
    pub(super) fn meaning(&mut self, text: &str) {
        let (x, y) = (self.x(0.5), self.low() + 38.0);
        self.scene.text(x, y, text, Anchor::Middle, PALE);
    }

    /// The colours and what they stand for.
    pub(super) fn legend(&mut self, entries: &[(String, Colour)]) {
        let mut x = LEFT;
        for (name, colour) in entries {
            self.scene.rect(x, 58.0, 18.0, 8.0, *colour);
            self.scene.text(x + 24.0, 62.0, name.clone(), Anchor::Left, INK);
            x += 24.0 + 8.0 * name.chars().count() as f64 + 24.0;
        }
    }
}
