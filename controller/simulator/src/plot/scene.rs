//! What is drawn: boxes, lines and texts, in pixels from the upper left corner.

/// Red, green and blue, each from 0 to 255.
pub(super) type Colour = [u8; 3];

pub(super) const INK: Colour = [0x22, 0x22, 0x22];
pub(super) const PALE: Colour = [0x66, 0x66, 0x66];
pub(super) const GRID: Colour = [0xe2, 0xe2, 0xe2];
pub(super) const PAPER: Colour = [0xff, 0xff, 0xff];

/// Where a text's given point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// How large a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Plain,
    Title,
}

impl Size {
    /// Pixels from line to line.
    pub(super) fn height(self) -> f64 {
        match self {
            Self::Plain => 16.0,
            Self::Title => 20.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Box {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: Colour,
    },
    Line {
        points: Vec<(f64, f64)>,
        colour: Colour,
        width: f64,
        dashed: bool,
    },
    /// `y` is its middle.
    Text {
        x: f64,
        y: f64,
        text: String,
        anchor: Anchor,
        size: Size,
        colour: Colour,
    },
}

/// A picture: boxes, lines and texts on a rectangle of pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) items: Vec<Item>,
}

impl Scene {
    pub(super) fn new(width: u32, height: u32) -> Self {
        Self { width, height, items: Vec::new() }
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: Colour) {
        self.items.push(Item::Box { x, y, width, height, fill });
    }

    pub(super) fn line(&mut self, points: Vec<(f64, f64)>, colour: Colour, width: f64) {
        self.items.push(Item::Line { points, colour, width, dashed: false });
    }

    pub(super) fn dashes(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour, width: f64) {
        self.items.push(Item::Line { points: vec![from, to], colour, width, dashed: true });
    }

    pub(super) fn text(&mut self, x: f64, y: f64, text: impl Into<String>, anchor: Anchor, colour: Colour) {
        self.items.push(Item::Text { x, y, text: text.into(), anchor, size: Size::Plain, colour });
    }

    pub(super) fn title(&mut self, x: f64, y: f64, text: impl Into<String>) {
        let (anchor, size) = (Anchor::Left, Size::Title);
        self.items.push(Item::Text { x, y, text: text.into(), anchor, size, colour: INK });
    }
}
