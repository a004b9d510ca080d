//! The life of one job as a picture: what it did from when to when, on which servers and ranks.
//!
//! `model` is what a picture is made of, `build` makes it of what the API tells, `text`, `svg`, `perfetto` and `json` draw it.

mod build;
mod json;
mod model;
mod perfetto;
mod svg;
mod text;

#[cfg(test)]
mod tests;

pub use build::{Facts, timeline};
pub use json::json;
pub use perfetto::perfetto;
pub use svg::svg;
pub use text::text;
