//! What each part promises, on data.

mod cabling;
mod draw;
mod export;
mod gather;
mod generate;
mod moves;
mod verify;
