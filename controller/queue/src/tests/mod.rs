//! The queue's promises, by example and by random replays.

mod anew;
mod order;
mod safety;
mod special;
mod world;
mod yielding;
