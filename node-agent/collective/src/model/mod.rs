//! The failover protocol, explored to the end: the real [`Machine`](crate::Machine)s of a small job over links that lose,
//! repeat and delay frames, die with and without a word, and come back. Every reachable state is visited, and in each it is checked
//! that no byte lands where it must not, that nothing is lost, and that the calls end with the right bits whatever happens in
//! whatever order. [`world`] is the network, [`explore`] the search, [`tests`] what is searched.

mod canon;
mod explore;
mod hosts;
mod tests;
mod world;

pub use canon::Canon;

/// A bug that the model is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Frames of a lost link are sent again at once, without asking the peer what it took.
    SkipFence,
    /// Contributions are reduced in the order in which they came.
    ReduceByArrival,
    /// A frame of a former life of a link counts.
    ForgetLife,
    /// A fence counts for whichever life.
    ForgetLifeOfFence,
    /// The question whether a peer is there whose rail is silent is not asked again.
    AskOnce,
}
