//! What each part promises, on data.

mod cabling;
mod export;
mod generate;
mod moves;
mod verify;
