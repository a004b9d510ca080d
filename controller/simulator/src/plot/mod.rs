//! Pictures of simulations: drawn once, written as SVG and as PNG.

mod axes;
mod charts;
mod pareto;
mod png;
mod scene;
mod svg;
#[cfg(test)]
mod tests;

pub use charts::{Chart, charts};
pub use pareto::pareto;
pub use png::PngError;
pub use scene::Scene;
