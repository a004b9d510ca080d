//! What each part promises, on data.

mod cabling;
mod generate;
