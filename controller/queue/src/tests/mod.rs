//! The queue's promises, by example and by random replays.

mod eta;
mod order;
mod safety;
mod special;
mod world;
mod yielding;
