//! The algorithms that an operation may take. What each does is in [`crate::schedule`], which one suits in [`crate::plan`].

use std::fmt;
use std::str::FromStr;

use crate::call::{UnknownName, names};

names! {
    /// How an operation is done: [`crate::schedule`].
    Algorithm, "algorithm":
    /// In one step, or for all-reduce in two, every node with every node.
    Direct = 1 "direct",
    /// All-reduce in one step.
    OneShot = 2 "one-shot",
    /// From neighbour to neighbour.
    Ring = 3 "ring",
    /// Recursive halving and doubling.
    Halving = 4 "halving",
    /// Broadcast by scattering and relaying.
    Relay = 5 "relay",
    /// All-reduce by recursive doubling.
    Doubling = 6 "doubling",
}
