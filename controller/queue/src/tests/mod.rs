//! The queue's promises, by example and by random replays.

mod anew;
mod classes;
mod eta;
mod fits;
mod licenses;
mod long_jobs;
mod objective;
mod order;
mod planted;
mod safety;
mod special;
mod strict;
mod tenants;
mod wording;
mod world;
mod yielding;
