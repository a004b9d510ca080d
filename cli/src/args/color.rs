//! Whether what is printed has colour.

use clap::ValueEnum;

/// Whether there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also where it is no terminal
    Always,
    /// Nowhere
    Never,
}
