//! What each part promises, on data.

mod cabling;
mod generate;
mod moves;
mod verify;
